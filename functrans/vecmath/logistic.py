"""logit, softplus, and the logarithms of sums of exponentials."""

from __future__ import annotations

from functrans.loop.scalar import Scalar, const, eq, fma, maximum, where
from functrans.vecmath.exponential import LOG2_E, exp, exp2
from functrans.vecmath.logarithm import LN2, log, log1p, log_of_pair
from functrans.vecmath.polynomial import floating, format_of, is_nan


@floating
def logit(x: Scalar) -> Scalar:
    """``log(x / (1 - x))``."""
    rest = 1.0 - x
    rest_low = (1.0 - rest) - x
    reciprocal = 1.0 / rest
    odds = x * reciprocal
    # near 1/2 the logarithm is as small as the rounding of the quotient
    odds_low = (fma(-odds, rest, x) - odds * rest_low) * reciprocal
    return log_of_pair(odds, where(abs(x) < 1.0, odds_low, 0))


@floating
def logaddexp(x: Scalar, y: Scalar) -> Scalar:
    """``log(e**x + e**y)``.

    If the larger argument is negative and cancels, the error is relative to it.
    """
    result = maximum(x, y) + log1p(exp(-abs(x - y)))
    # equal infinities have no difference
    return where(eq(x, y), x + LN2[format_of(x)][0], result)


@floating
def logaddexp2(x: Scalar, y: Scalar) -> Scalar:
    """``log2(2**x + 2**y)``, with the accuracy of `logaddexp`."""
    result = fma(log1p(exp2(-abs(x - y))), LOG2_E, maximum(x, y))
    return where(eq(x, y), x + 1.0, result)


@floating
def softplus(x: Scalar) -> Scalar:
    """``log(1 + e**x)``."""
    return maximum(x, const(0.0, x.dtype)) + log1p(exp(-abs(x)))


@floating
def xlogy(x: Scalar, y: Scalar) -> Scalar:
    """``x log(y)``, and zero where ``x`` is zero, unless ``y`` is NaN."""
    return where(eq(x, 0) & ~is_nan(y), 0, x * log(y))
