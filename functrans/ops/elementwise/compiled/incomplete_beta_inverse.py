"""The inverses of the incomplete beta function in compiled programs, by bracketed Newton steps.

The unknown is the logarithm of the odds ``x / (1 - x)``, in which the density is log-concave, and
so are the function and its complement. The equation is solved for the logarithm of the smaller of
the two. If a step leaves the bracket, because a value underflowed, bisection replaces it.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from functrans.loop.scalar import Scalar, const, eq, maximum, minimum, sqrt, where
from functrans.loop.statements import Assign, Let, While, local
from functrans.ops.compiled.emission import Emission
from functrans.ops.elementwise.compiled.incomplete_beta import WORK, Numbers
from functrans.ops.elementwise.compiled.operands import DOUBLE, Made, Statements, for_each
from functrans.vecmath import exp, log, ndtri
from functrans.vecmath.incomplete_beta import front
from functrans.vecmath.polynomial import two_sum

MOST_STEPS = 100
NEAR = 2.0**-36
"""The step of the log odds at which the iteration stops, which converges quadratically."""

SLACK = 2.0**-30

LEAST, MOST = 1e-307, 2.0**53
"""The bounds of the odds."""


def betaincinv(at: Emission) -> None:
    """The argument at which the incomplete beta function has a value."""
    _emit(at, of_complement=False)


def betainccinv(at: Emission) -> None:
    """The argument at which the complement has a value."""
    _emit(at, of_complement=True)


def _emit(at: Emission, of_complement: bool) -> None:
    for_each(at, partial(_made, of_complement), 8 * WORK, DOUBLE)


def _made(of_complement: bool, a: Scalar, b: Scalar, share: Scalar) -> Made:
    infinite_a, infinite_b = eq(a, np.inf), eq(b, np.inf)
    proper = (a > 0) & (b > 0) & (share >= 0) & (share <= 1) & ~(infinite_a & infinite_b)
    inside = proper & (share > 0) & (share < 1) & ~infinite_a & ~infinite_b
    first, second = where(inside, a, 1.0), where(inside, b, 1.0)
    given = where(inside, share, 0.5)
    lower, upper = (1.0 - given, given) if of_complement else (given, 1.0 - given)
    x = local(DOUBLE, "root")
    end = 1.0 - share if of_complement else share
    end = where(infinite_a, const(1.0, DOUBLE), where(infinite_b, 0.0, end))
    root = where(x > 2 * LEAST, x, 0.0)
    found = where(inside, root, where(proper, end, np.nan))
    return _solved(x, (first, second), lower, upper), found


def _solved(
    x: Scalar, parameters: tuple[Scalar, Scalar], lower: Scalar, upper: Scalar
) -> Statements:
    """Newton's method, for positive parameters and probabilities between 0 and 1."""
    names = ("first", "second", "p", "q", "odds", "least", "most", "step", "count")
    a, b, p, q, odds, least, most, step, count = (local(DOUBLE, name) for name in names)
    below, above, density, own = (local(DOUBLE, n) for n in ("below", "above", "density", "own"))
    following = local(DOUBLE, "next")
    numbers = Numbers()
    y, y_low = two_sum(const(1.0, DOUBLE), -x)
    zero, one = const(0.0, DOUBLE), const(1.0, DOUBLE)
    turned = numbers.is_turned > 0
    by_lower = log(p / below) * (below / density)
    by_upper = log(above / q) * (above / density)
    moved = own * exp(minimum(maximum(where(p <= q, by_lower, by_upper), -300.0), 300.0))
    is_low = where(p <= q, below < p, above > q)
    now_least, now_most = where(is_low, own, least), where(is_low, most, own)
    # near the root the ends of the bracket are only as accurate as rounded values
    inside = (moved > now_least * (1.0 - SLACK)) & (moved < now_most * (1.0 + SLACK))
    following_odds = where(inside, moved, sqrt(now_least) * sqrt(now_most))
    normal = where(p <= q, ndtri(p), -ndtri(q))
    start = (a / b) * exp(maximum(minimum(normal * sqrt(1.0 / a + 1.0 / b), 300.0), -300.0))
    return (
        Let((a, b, p, q), (*parameters, lower, upper)),
        Let(
            (odds, least, most, step, count, x),
            (minimum(maximum(start, 1e-300), 1e15), const(LEAST, DOUBLE), const(MOST, DOUBLE),
             one, zero, zero),
        ),
        While(
            (),
            (step > NEAR) & (count < float(MOST_STEPS)),
            (
                Assign((x,), (minimum(odds / (odds + 1.0), 1.0 - 2.0**-53),)),
                *numbers.found(a, b, x),
                Let(
                    (below, above, density, own),
                    (
                        where(turned, numbers.upper, numbers.lower),
                        where(turned, numbers.lower, numbers.upper),
                        front(a, b, (x, zero), (y, y_low)),
                        x / y,
                    ),
                ),
                Let((following,), (following_odds,)),
                Assign(
                    (odds, least, most, step, count),
                    (following, now_least, now_most, abs(following / own - 1.0), count + 1.0),
                ),
            ),
        ),
        Assign((x,), (odds / (odds + 1.0),)),
    )  # fmt: skip
