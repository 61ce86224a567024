"""cbrt and hypot."""

from __future__ import annotations

import numpy as np

from functrans.ir.scalar import Scalar, const, copysign, eq, fma, sqrt, where
from functrans.vecmath.logarithm import split
from functrans.vecmath.polynomial import (
    FLOAT32,
    FLOAT64,
    Format,
    floating,
    format_of,
    polynomial,
    power_of_two,
    round_with_integer,
    two_product,
)

# (1 + f)**(1/3) to 22 bits and to 12, from which one step of Halley's gives three times as many
_CBRT: dict[Format, tuple[float, ...]] = {
    FLOAT64: (
        0.9999998766322229, 0.33333656245484705, -0.11108719583940882, 0.0615163181619051,
        -0.041738089643206466, 0.03392612534594309, -0.02136005928996731,
    ),
    FLOAT32: (
        1.000069260597229, 0.33488819003105164, -0.11451385170221329, 0.043972138315439224,
    ),
}  # fmt: skip


@floating
def cbrt(x: Scalar) -> Scalar:
    """The cube root."""
    form = format_of(x)
    magnitude = abs(x)
    e, f, _ = split(magnitude)
    thirds, exponent = round_with_integer(fma(e, 1 / 3, form.rounder))
    left = fma(thirds, -3.0, e)  # -1, 0 or 1
    one = const(1.0, x.dtype)
    cube = (f + 1.0) * where(left > 0, one * 2.0, where(left < 0, one * 0.5, one))
    factor = where(left > 0, one * 2.0 ** (1 / 3), where(left < 0, one * 0.5 ** (1 / 3), one))
    y = polynomial(f, _CBRT[form]) * factor
    # Halley: y - y (y**3 - cube) / (2 y**3 + cube), the difference without rounding
    square, error = two_product(y, y)
    difference = fma(error, y, fma(square, y, -cube))
    y = fma(y * difference, -1.0 / fma(square * 2.0, y, cube), y)
    result = copysign(y * power_of_two(exponent, form), x)
    return where((magnitude > 0) & (magnitude < np.inf), result, x)


@floating
def hypot(x: Scalar, y: Scalar) -> Scalar:
    """``sqrt(x**2 + y**2)`` without overflow on the way."""
    form = format_of(x)
    a, b = abs(x), abs(y)
    large = where(a > b, a, b)
    small = where(a > b, b, a)
    # powers of two that keep the square of the larger a normal number
    third = form.bias // 3
    one = const(1.0, x.dtype)
    huge, tiny = large > 2.0**third, large < 2.0**-third
    up, down = one * 2.0 ** (2 * third), one * 2.0 ** (-2 * third)
    unit = where(huge, up, where(tiny, down, one))
    inverse = where(huge, down, where(tiny, up, one))
    p, q = large * inverse, small * inverse
    result = sqrt(fma(p, p, q * q)) * unit
    return where(eq(a, np.inf) | eq(b, np.inf), np.inf, result)
