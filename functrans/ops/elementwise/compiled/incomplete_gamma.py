"""The incomplete gamma functions in compiled programs, by a convergence loop for each element.

The greater one of the lower and the upper function, P and Q, may be 1 minus the other. Depending on
order and argument they are computed by the uniform expansion, without a loop, by a power series of
P or Q, or by the continued fraction of Q (DiDonato and Morris, 1986).
"""

from __future__ import annotations

import numpy as np

from functrans.loop.scalar import Scalar, const, where
from functrans.loop.simplify import FALSE, TRUE, Simplifier
from functrans.loop.statements import Assign, If, Let, While, local
from functrans.ops.compiled.emission import Emission
from functrans.ops.elementwise.compiled.operands import DOUBLE, Made, Statements, for_each
from functrans.vecmath import log
from functrans.vecmath.incomplete_gamma import (
    LARGE,
    front_of_large,
    front_of_small,
    in_domain,
    is_uniform,
    one_less_power_over_gamma,
    power_over_gamma,
    uniform,
)

RESOLVED = 2.0**-56
"""The relative size of a term at which a sum has converged."""

SHORT = 1.1
"""The largest argument whose power series has few terms."""

OUTSIDE = 1.0
"""The order for which something is computed where the function is a constant, or NaN."""

WORK = 200
"""The estimated operations for one element."""


def gammainc(at: Emission) -> None:
    """P(a, x), the regularised lower incomplete gamma function."""
    _emit(at, 0)


def gammaincc(at: Emission) -> None:
    """Q(a, x), the regularised upper incomplete gamma function."""
    _emit(at, 1)


def _emit(at: Emission, number: int) -> None:
    def made(a: Scalar, x: Scalar) -> Made:
        numbers = Numbers()
        return numbers.found(a, x), in_domain(a, x, numbers.lower, numbers.upper)[number]

    for_each(at, made, WORK, DOUBLE)


class Numbers:
    """Positive finite order and argument, and the results, as locals."""

    def __init__(self) -> None:
        self.a, self.x, self.lower, self.upper, self.front = (
            local(DOUBLE, name) for name in ("a", "x", "lower", "upper", "front")
        )

    def gives(self, lower: Scalar, upper: Scalar) -> Assign:
        return Assign((self.lower, self.upper), (lower, upper))

    def either(
        self, order: Scalar, condition: Scalar, then: Statements, otherwise: Statements
    ) -> Statements:
        """A branch, or one side of it if a constant order decides which: the other is long."""
        if order.op == "const":
            orders = order, const(OUTSIDE, DOUBLE)
            decided = {Simplifier().substitute([condition], {self.a: each})[0] for each in orders}
            for outcome, side in ((TRUE, then), (FALSE, otherwise)):
                if decided == {outcome}:
                    return side
        return (If(condition, then, otherwise),)

    def fronted(self, order: Scalar) -> Statements:
        """Compute the prefactor of both functions."""
        small, large = (
            Assign((self.front,), (of(self.a, self.x),)) for of in (front_of_small, front_of_large)
        )
        start = Let((self.front,), (const(0.0, DOUBLE),))
        return start, *self.either(order, self.a < LARGE, (small,), (large,))

    def series(self) -> Statements:
        """P as the prefactor times ``1 + x / (a + 1) (1 + x / (a + 2) (1 + ...))``."""
        place, term, total, value = (
            local(DOUBLE, name) for name in ("place", "term", "total", "value")
        )
        one = const(1.0, DOUBLE)
        following = term * (self.x / (place + 1.0))
        return (
            Let((place, term, total), (self.a, one, one)),
            While(
                (),
                term > total * RESOLVED,
                (Assign((place, term, total), (place + 1.0, following, total + following)),),
            ),
            Let((value,), (self.front * total,)),
            self.gives(value, 1.0 - value),
        )

    def fraction(self) -> Statements:
        """Q by its continued fraction, with numerators and denominators by recurrence."""
        names = ("step", "rising", "divisor", "p", "q", "last_p", "last_q")
        changing = tuple(local(DOUBLE, name) for name in names)
        step, rising, divisor, p, q, last_p, last_q = changing
        one, value = const(1.0, DOUBLE), local(DOUBLE, "value")
        less = one - self.a
        start = (one, less + 1.0, self.x + less + 3.0, self.x + 1.0,
                 (self.x + less + 1.0) * self.x, one, self.x)  # fmt: skip
        numerator = step * rising
        next_p = p * divisor - last_p * numerator
        next_q = q * divisor - last_q * numerator
        unit = where(abs(next_q) > 2.0**500, 2.0**-500, one)
        following = (step + 1.0, rising + 1.0, divisor + 2.0, next_p * unit, next_q * unit,
                     p * unit, q * unit)  # fmt: skip
        product = p * last_q
        return (
            Let(changing, start),
            While(
                (),
                abs(product - last_p * q) > abs(product) * RESOLVED,
                (Assign(changing, following),),
            ),
            Let((value,), (self.front * self.a * (p / q),)),
            self.gives(1.0 - value, value),
        )

    def complement(self) -> Statements:
        """Q by its power series, where it may be much less than 1."""
        changing = step, power, term, total = tuple(
            local(DOUBLE, n) for n in ("step", "power", "term", "total")
        )
        first = -self.x / (self.a + 1.0)
        next_power = power * (-self.x / (step + 1.0))
        added = next_power / (self.a + step + 1.0)
        rest = self.a * power_over_gamma(self.a, self.x) * total
        return (
            Let(changing, (const(1.0, DOUBLE), -self.x, first, first)),
            While(
                (),
                abs(term) > abs(total) * RESOLVED,
                (Assign(changing, (step + 1.0, next_power, added, total + added)),),
            ),
            Assign((self.upper,), (one_less_power_over_gamma(self.a, self.x) - rest,)),
        )

    def is_small_complement(self) -> Scalar:
        """Whether ``1 - P`` would lose digits of Q."""
        limit = where(self.x <= 0.5, -0.4 / log(self.x), self.x * SHORT)
        return (self.x <= SHORT) & (self.a <= limit)

    def found(self, a: Scalar, x: Scalar, with_front: bool = False) -> Statements:
        """Statements that compute the results; arguments outside the domain have constant results.

        The uniform expansion needs no prefactor, which is then computed only for ``with_front``.
        """
        inside = (a > 0) & (x > 0) & (a < np.inf) & (x < np.inf)
        zero = const(0.0, DOUBLE)
        by_series = (*self.series(), If(self.is_small_complement(), self.complement()))
        by_fraction = (self.x > SHORT) & (self.x >= self.a)
        return (
            Let((self.a, self.x), (where(inside, a, OUTSIDE), where(inside, x, 1.0))),
            Let((self.lower, self.upper), (zero, zero)),
            *(self.fronted(a) if with_front else ()),
            *self.either(
                a,
                is_uniform(self.a, self.x),
                (self.gives(*uniform(self.a, self.x)),),
                (
                    *(() if with_front else self.fronted(a)),
                    If(by_fraction, self.fraction(), by_series),
                ),
            ),
        )
