"""The hyperbolic functions, from exp and expm1."""

from __future__ import annotations

from functrans.ir.scalar import Scalar, copysign
from functrans.vecmath.exponential import expm1
from functrans.vecmath.polynomial import floating


@floating
def tanh(x: Scalar) -> Scalar:
    """The hyperbolic tangent."""
    m = expm1(abs(x) * -2.0)
    return copysign(m / (m + 2.0), x)
