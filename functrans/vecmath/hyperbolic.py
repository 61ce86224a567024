"""The hyperbolic functions, from exp and expm1."""

from __future__ import annotations

from functrans.ir.scalar import Scalar, const, copysign, fma, where
from functrans.vecmath.exponential import expm1_pair
from functrans.vecmath.polynomial import fast_two_sum, floating, format_of


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
