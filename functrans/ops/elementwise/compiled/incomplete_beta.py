"""The incomplete beta function in compiled programs, by a convergence loop for each element.

By symmetry the argument is at most the mean ``a / (a + b)``. There the continued fraction is
evaluated (DiDonato and Morris, 1992); if the argument is so near to 1 that this converges slowly,
the power series of the complement.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.scalar import Scalar, const, maximum, where
from functrans.loop.statements import Assign, If, Let, While, local
from functrans.ops.compiled.emission import Emission
from functrans.ops.elementwise.compiled.operands import DOUBLE, Made, Statements, for_each
from functrans.vecmath import exp, expm1, log, power
from functrans.vecmath.incomplete_beta import front, in_domain
from functrans.vecmath.polynomial import two_sum

RESOLVED = 2.0**-56
"""The relative size of a term at which a sum has converged."""

MOST_STEPS = 2.0**22

NORMAL = 1e-305
"""Smaller arguments are replaced by this one, so that logarithms are of normal numbers; there the
function is a power of the argument."""

LARGEST, LEAST = 1e120, 1e-290
"""The bounds of the parameters; beyond them only their ratio, or their smallness, matters."""

NEAREST = 2.0**-6
"""The distance from the end down to which the fraction is used: it converges slowly there."""

WORK = 400
"""The estimated operations for one element."""


def betainc(at: Emission) -> None:
    """The regularised incomplete beta function."""
    _emit(at, 0)


def betaincc(at: Emission) -> None:
    """The complement of the regularised incomplete beta function."""
    _emit(at, 1)


def _emit(at: Emission, number: int) -> None:
    def made(a: Scalar, b: Scalar, x: Scalar) -> Made:
        numbers = Numbers()
        is_turned = numbers.is_turned > 0
        lower = where(is_turned, numbers.upper, numbers.lower)
        upper = where(is_turned, numbers.lower, numbers.upper)
        return numbers.found(a, b, x), in_domain(a, b, x, lower, upper)[number]

    for_each(at, made, WORK, DOUBLE)


class Numbers:
    """Parameters, argument and results, reflected so that the lower function is the smaller one.

    The fraction is evaluated at ``x + x_low`` and ``y + y_low``, whose sum is 1; ``rest`` is the
    remaining distance to the end.
    """

    def __init__(self) -> None:
        names = ("a", "b", "x", "x_low", "y", "y_low", "rest", "turned", "front", "lower", "upper")
        numbers = tuple(local(DOUBLE, name) for name in names)
        self.a, self.b, self.x, self.x_low, self.y, self.y_low, self.rest = numbers[:7]
        self.is_turned, self.front, self.lower, self.upper = numbers[7:]

    def found(self, a: Scalar, b: Scalar, x: Scalar) -> Statements:
        """Statements that compute the results, which are constants outside of the domain."""
        inside = (a > 0) & (b > 0) & (x > 0) & (x < 1) & (a < np.inf) & (b < np.inf)
        a, b, x = (where(inside, a, 1.0), where(inside, b, 1.0), where(inside, x, 0.5))
        # then squares of parameters, and their products with the argument, are finite
        scale = LARGEST / maximum(maximum(a, b), LARGEST)
        order, point = a, x
        a, b, x = maximum(a * scale, LEAST), maximum(b * scale, LEAST), maximum(x, NORMAL)
        y, y_low = two_sum(const(1.0, DOUBLE), -x)
        # nearly all mass lies at an end whose parameter is small: the small remainder is computed
        at_one = (b < 1.0) & (a * y < 1.0) & (b * log(y) > -0.7)
        at_zero = (a < 1.0) & (b * x < 1.0) & (a * log(x) > -0.7)
        turned = where(at_one, at_zero & (a < b), at_zero | (x * b > y * a))
        zero, one = const(0.0, DOUBLE), const(1.0, DOUBLE)
        pairs = ((a, b), (b, a), (x, y), (zero, y_low), (y, x), (y_low, zero))
        a, b, x, x_low, y, y_low = (where(turned, other, own) for own, other in pairs)
        nearest = 1.0 / maximum(a, 1 / NEAREST)
        is_near = y < nearest
        far = two_sum(one, -nearest)
        given = (
            a, b, where(is_near, far[0], x), where(is_near, far[1], x_low),
            where(is_near, nearest, y), where(is_near, 0.0, y_low), where(is_near, y, zero),
        )  # fmt: skip
        numbers = (self.a, self.b, self.x, self.x_low, self.y, self.y_low, self.rest)
        at = front(self.a, self.b, (self.x, self.x_low), (self.y, self.y_low))
        return (
            Let((*numbers, self.is_turned), (*given, where(turned, one, zero))),
            Let((self.front, self.lower, self.upper), (at, zero, zero)),
            *self.fraction(),
            If(self.rest > 0, self.series()),
            If(point < NORMAL, self.towards_zero(order, point)),
        )

    def towards_zero(self, order: Scalar, x: Scalar) -> Statements:
        """The results at a smaller argument than `NORMAL`, at which they were computed."""
        smaller, lost = local(DOUBLE, "smaller"), local(DOUBLE, "lost")
        turned = self.is_turned > 0
        before, power_of = where(turned, self.upper, self.lower), order * log(x / NORMAL)
        return (
            Let((smaller, lost), (before * exp(power_of), -before * expm1(power_of))),
            Assign(
                (self.lower, self.upper),
                (
                    where(turned, self.lower + lost, smaller),
                    where(turned, smaller, self.upper + lost),
                ),
            ),
        )

    def fraction(self) -> Statements:
        """The function as a prefactor divided by the continued fraction."""
        names = ("step", "p", "q", "last_p", "last_q")
        changing = step, p, q, last_p, last_q = tuple(local(DOUBLE, name) for name in names)
        a, b, x = self.a, self.b, self.x
        one, zero, value = const(1.0, DOUBLE), const(0.0, DOUBLE), local(DOUBLE, "value")
        gap = a * self.y - b * x
        place = a + step * 2.0
        before, after = 1.0 / (place - 1.0), 1.0 / (place + 1.0)
        shared = step * (b - step) * x * before
        numerator = shared * x * ((a + (step - 1.0)) * (a + b + (step - 1.0)) * before)
        rising = gap + 1.0 + step * (2.0 - x)
        divisor = step + shared + (a + step) * rising * after
        next_p, next_q = divisor * p + numerator * last_p, divisor * q + numerator * last_q
        unit = where(abs(next_q) > 2.0**300, 2.0**-300, one)
        following = (step + 1.0, next_p * unit, next_q * unit, p * unit, q * unit)
        product = p * last_q
        goes_on = abs(product - last_p * q) > abs(product) * RESOLVED
        first = a * (gap + 1.0) / (a + 1.0)
        return (
            Let(changing, (one, first, one, one, zero)),
            # the first convergent has no predecessor
            Assign(changing, following),
            While((), goes_on & (step < MOST_STEPS), (Assign(changing, following),)),
            Let((value,), (self.front * (q / p),)),
            Assign((self.lower, self.upper), (value, 1.0 - value)),
        )

    def series(self) -> Statements:
        """The complement at the end, and the rest, by ``sum (1 - a)_n y**n / (n! (b + n))``.

        Neither power series cancels.
        """
        names = ("step", "far", "near", "far_sum", "near_sum")
        changing = step, far, near, far_sum, near_sum = tuple(local(DOUBLE, n) for n in names)
        one, zero = const(1.0, DOUBLE), const(0.0, DOUBLE)
        ratio = (step - self.a) / step
        next_far, next_near = far * (ratio * self.y), near * (ratio * self.rest)
        place = self.b + step
        sums = far_sum + next_far / place, near_sum + next_near / place
        scale, share, logarithm = (local(DOUBLE, n) for n in ("scale", "share", "logarithm"))
        # the prefactor has a power of x that the series lacks
        of_series = self.front / power(self.x, self.a) * exp(-self.a * (self.x_low / self.x))
        between = -expm1(logarithm) / self.b + (far_sum - share * near_sum)
        return (
            Let(changing, (one, one, one, zero, zero)),
            While(
                (),
                abs(far) > RESOLVED * RESOLVED,
                (Assign(changing, (step + 1.0, next_far, next_near, *sums)),),
            ),
            Let((scale, logarithm), (of_series, self.b * log(self.rest / self.y))),
            Let((share,), (exp(logarithm),)),
            Assign(
                (self.lower, self.upper),
                (self.lower + scale * between, scale * share * (1.0 / self.b + near_sum)),
            ),
        )
