"""The hyperbolic functions and their inverses, from exp, expm1 and log."""

from __future__ import annotations

import numpy as np

from functrans.ir.scalar import Scalar, const, copysign, eq, fma, sqrt, where
from functrans.vecmath.exponential import exp_scaled, expm1_pair
from functrans.vecmath.logarithm import log_of_ordinary_pair
from functrans.vecmath.polynomial import (
    FLOAT32,
    FLOAT64,
    Format,
    fast_two_sum,
    floating,
    format_of,
    polynomial,
    two_sum,
)

# (sinh(t) - t) / t**3 in t**2, up to 1
_SINH: dict[Format, tuple[float, ...]] = {
    FLOAT64: (
        0.16666666666666669, 0.008333333333332912, 0.0001984126984159341, 2.755731910675713e-06,
        2.505213099860924e-08, 1.605665918273831e-10, 7.776599384397974e-13,
    ),
    FLOAT32: (
        0.1666666716337204, 0.00833331048488617, 0.00019842891197185963, 2.782269120871206e-06,
    ),
}  # fmt: skip

LN2 = 0.6931471805599453


@floating
def sinh(x: Scalar) -> Scalar:
    """The hyperbolic sine."""
    z = x * x
    small = fma(z * x, polynomial(z, _SINH[format_of(x)]), x)
    half_power = exp_scaled(abs(x), -1)
    large = copysign(half_power - 0.25 / half_power, x)
    # adding nothing to a negative zero would lose its sign
    return where(abs(x) < 2.0**-28, x, where(abs(x) < 1.0, small, large))


@floating
def cosh(x: Scalar) -> Scalar:
    """The hyperbolic cosine."""
    half_power = exp_scaled(abs(x), -1)
    return half_power + 0.25 / half_power


@floating
def tanh(x: Scalar) -> Scalar:
    """The hyperbolic tangent."""
    # -m / (2 + m) with m = e**(-2 abs(x)) - 1, and the remainder of the division divided again
    high, low = fast_two_sum(*expm1_pair(abs(x) * -2.0))
    denominator, rest = fast_two_sum(const(2.0, x.dtype), high)
    ratio = -high / denominator
    remainder = fma(-ratio, rest + low, -low) - fma(ratio, denominator, high)
    # 1 / (2 + m) is (1 + tanh) / 2
    result = fma(remainder, fma(ratio, 0.5, 0.5), ratio)
    return copysign(where(abs(x) < format_of(x).smallest_normal, abs(x), result), x)


def _log1p_of_sum(x: Scalar, y: Scalar) -> Scalar:
    """``log(1 + x + y)`` for finite ``x >= y >= 0``."""
    total, low = fast_two_sum(x, y)
    high, rest = two_sum(const(1.0, x.dtype), total)
    return log_of_ordinary_pair(high, rest + low)


@floating
def asinh(x: Scalar) -> Scalar:
    """The inverse hyperbolic sine."""
    a = abs(x)
    large = a > 2.0**60
    b = where(large, 1.0, a)
    root = sqrt(fma(b, b, 1.0))
    # a + sqrt(1 + a**2) = 1 + a + a**2 / (1 + sqrt(1 + a**2)), which is 2 a for a large a
    result = _log1p_of_sum(where(large, a, b), where(large, 0, b * (b / (root + 1.0))))
    result = where(large, result + LN2, result)
    return copysign(where((a > 2.0**-30) & (a < np.inf), result, a), x)


@floating
def acosh(x: Scalar) -> Scalar:
    """The inverse hyperbolic cosine; NaN below 1."""
    large = x > 2.0**60
    b = where(large, 1.0, x - 1.0)
    # x + sqrt(x**2 - 1) = 1 + b + sqrt(b (b + 2)) with b = x - 1
    result = _log1p_of_sum(where(large, x, sqrt(b * (b + 2.0))), where(large, 0, b))
    result = where(large, result + LN2, result)
    return where((x >= 1) & (x < np.inf), result, where(x < 1, np.nan, x))


@floating
def atanh(x: Scalar) -> Scalar:
    """The inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond."""
    a = abs(x)
    result = log_of_ordinary_pair(*two_sum(const(1.0, x.dtype), (a * 2.0) / (1.0 - a))) * 0.5
    result = where(a > 2.0**-30, result, a)
    beyond = where(eq(a, 1), const(np.inf, x.dtype), np.nan)
    return copysign(where(a < 1, result, beyond), x)
