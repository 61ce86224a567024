"""The inverses of the incomplete gamma functions in compiled programs, by Newton's method.

The equation is solved for the logarithm of the smaller function: of P as a function of the
argument's logarithm, which is concave, or of Q as a function of the argument, which is concave or
convex. So all steps but the first have the same direction, and tiny values are almost linear.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from functrans.loop.scalar import Scalar, const, eq, maximum, minimum, sqrt, where
from functrans.loop.statements import Assign, Let, While, local
from functrans.ops.compiled.emission import Emission
from functrans.ops.elementwise.compiled.incomplete_gamma import WORK, Numbers
from functrans.ops.elementwise.compiled.operands import DOUBLE, Made, Statements, for_each
from functrans.vecmath import exp, gamma, log, ndtri, power

MOST_STEPS = 100

LARGE_FACTORIAL = 150.0
"""The largest order whose gamma function is finite."""

NEAR = 2.0**-28
"""The relative step at which the iteration stops: it converges quadratically."""


def gammaincinv(at: Emission) -> None:
    """The argument at which P has a value."""
    _emit(at, of_upper=False)


def gammainccinv(at: Emission) -> None:
    """The argument at which Q has a value."""
    _emit(at, of_upper=True)


def _emit(at: Emission, of_upper: bool) -> None:
    for_each(at, partial(_made, of_upper), 8 * WORK, DOUBLE)


def _made(of_upper: bool, a: Scalar, share: Scalar) -> Made:
    between = (share > 0) & (share < 1)
    wrong = ~((a >= 0) & (share >= 0) & (share <= 1)) | (between & (eq(a, 0) | eq(a, np.inf)))
    inside = ~wrong & between
    order, given = where(inside, a, 1.0), where(inside, share, 0.5)
    lower, upper = (1.0 - given, given) if of_upper else (given, 1.0 - given)
    x = local(DOUBLE, "x")
    at_end = eq(share, 0.0) if of_upper else eq(share, 1.0)
    found = where(inside, x, where(wrong, np.nan, where(at_end, const(np.inf, DOUBLE), 0.0)))
    return _solved(x, order, lower, upper), found


def _solved(x: Scalar, order: Scalar, lower: Scalar, upper: Scalar) -> Statements:
    """Newton's method, for a positive order and probabilities between 0 and 1."""
    names = ("order", "p", "q", "least", "step", "count")
    a, p, q, least, step, count = (local(DOUBLE, name) for name in names)
    following, numbers = local(DOUBLE, "next"), Numbers()
    slope = numbers.front * a
    # where the function underflows, as it may at the initial value, a tenth leads back
    of_lower = log(p / numbers.lower) * (numbers.lower / slope)
    of_lower = where(numbers.lower > 0, of_lower, 0.1)
    of_upper = log(numbers.upper / q) * (numbers.upper / slope)
    of_upper = where(numbers.upper > 0, of_upper, -0.1)
    further = minimum(maximum(x + of_upper * x, x * 0.25), x * 4.0 + 50.0)
    # near 0, Q is linear in the logarithm of the argument
    by_power = _is_power(a, least)
    in_logarithm = where(p <= q, of_lower, (numbers.upper - q) / slope)
    nearer = x * exp(minimum(maximum(in_logarithm, -3.0), 3.0))
    moved = where((p <= q) | by_power, nearer, further)
    one, bounded = const(1.0, DOUBLE), minimum(order, LARGE_FACTORIAL)
    first_term = power(p * gamma(bounded + 1.0), 1.0 / bounded)
    return (
        Let((a, p, q), (order, lower, upper)),
        Let((least,), (first_term,)),
        Let((x, step, count), (_start(a, p, q, least), one, const(0.0, DOUBLE))),
        While(
            (),
            (abs(step) > x * NEAR) & (x > 0) & (count < float(MOST_STEPS)),
            (
                *numbers.found(a, x, with_front=True),
                Let((following,), (moved,)),
                Assign((x, step, count), (following, following - x, count + 1.0)),
            ),
        ),
    )


def _is_power(a: Scalar, least: Scalar) -> Scalar:
    """Whether P is nearly its first term, a power of the argument, although Q is the smaller."""
    return (a < 1.0) & (least < 0.05)


def _start(a: Scalar, p: Scalar, q: Scalar, least: Scalar) -> Scalar:
    """Wilson and Hilferty's initial value; for small P or Q, the inverse of its first term."""
    normal = where(p <= q, ndtri(p), -ndtri(q))
    root = 1.0 - 1.0 / (a * 9.0) + normal / (sqrt(a) * 3.0)
    cube = a * (root * root * root)
    of_lower = where(a < LARGE_FACTORIAL, maximum(least, cube), maximum(cube, a * 1e-3))
    share = q / a
    of_upper = where(share > 1.0, exp(-share - 0.5772156649015329), maximum(-log(share), 0.2))
    found = where(p <= q, of_lower, where(a < 0.5, of_upper, cube))
    return where(_is_power(a, least), least, found)
