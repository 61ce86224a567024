"""Cube roots by Newton's method, and hypot.

The bits of a number approximate its logarithm, so a constant minus a third of them approximates the
bits of ``1 / cbrt(x)``. A polynomial in the relative error of this start gives half of the digits,
and one step of Newton's method, without a division, gives all.

References
----------
W. Kahan, "Computing a real cube root" (1991), for the start.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.scalar import (
    Scalar,
    bitcast,
    const,
    convert,
    eq,
    fma,
    lshr,
    sqrt,
    unlikely,
    where,
)
from functrans.vecmath.logarithm import is_ordinary
from functrans.vecmath.polynomial import FLOAT32, FLOAT64, Format, floating, format_of, polynomial

# ((1 + d)**(-1/3) - 1) / d up to 0.1025, the largest error of the start
_INVERSE_CBRT: dict[Format, tuple[float, ...]] = {
    FLOAT64: (
        -0.33333333703511436, 0.22222224267269297, -0.17283318001510947, 0.14402063638998006,
        -0.12642779655590497, 0.11291846965627986,
    ),
    FLOAT32: (-0.33332982659339905, 0.2233656495809555, -0.17449453473091125),
}  # fmt: skip

# 4/3 of the bias, minus what makes the errors of both signs equal, in units of the exponent
_INVERSE_CBRT_START = 127 * 4 / 3 - 0.06802165


def _inverse_cbrt_start(x: Scalar) -> Scalar:
    """``x**(-1/3)`` with a relative error of 0.035, for positive normal ``x``."""
    if format_of(x) is FLOAT32:
        start = _INVERSE_CBRT_START * 2.0**23
        third = fma(convert(bitcast(x, np.int32), np.float32), -1 / 3, start)
        return bitcast(convert(third, np.int32), np.float32)
    # The same for the upper 32 bits. As in round_with_integer, an integer is in the last bits of a
    # float; rounding the constant changes it by at most one.
    upper = bitcast(lshr(bitcast(x, np.int64), 32) | (0x433 << 52), np.float64)  # 2**52 + bits
    start = (_INVERSE_CBRT_START + (FLOAT64.bias - FLOAT32.bias) * 4 / 3) * 2.0**20
    third = fma(upper, -1 / 3, FLOAT64.rounder + 2.0**52 / 3 + start)
    return bitcast(bitcast(third, np.int64) << 32, np.float64)


def _cbrt_of_ordinary(x: Scalar) -> Scalar:
    """The cube root of a normal number of any sign."""
    a = abs(x)
    t = _inverse_cbrt_start(a)
    d = fma(a * t, t * t, -1.0)
    t = fma(t * d, polynomial(d, _INVERSE_CBRT[format_of(x)]), t)
    square = t * t
    y = x * square
    # x - y**3, and 1 / y**2 is about the square of t
    return fma(fma(-(y * y), y, x), square * (1 / 3), y)


@floating
def cbrt(x: Scalar) -> Scalar:
    """The cube root."""
    form = format_of(x)
    a = abs(x)
    lift = 3 * ((form.fraction_bits + 3) // 3)
    rare = _cbrt_of_ordinary(x * 2.0**lift) * 2.0 ** (-lift // 3)
    rare = where((a > 0) & (a < form.smallest_normal), rare, x)
    return unlikely(~is_ordinary(a), rare, _cbrt_of_ordinary(x))


def unit_of_square(large: Scalar) -> tuple[Scalar, Scalar]:
    """A power of two that makes the square of a positive number a normal one, and its inverse."""
    third = format_of(large).bias // 3
    one = const(1.0, large.dtype)
    huge, tiny = large > 2.0**third, large < 2.0**-third
    up, down = one * 2.0 ** (2 * third), one * 2.0 ** (-2 * third)
    unit = where(huge, up, where(tiny, down, one))
    return unit, where(huge, down, where(tiny, up, one))


@floating
def hypot(x: Scalar, y: Scalar) -> Scalar:
    """``sqrt(x**2 + y**2)`` without intermediate overflow."""
    a, b = abs(x), abs(y)
    large = where(a > b, a, b)
    small = where(a > b, b, a)
    unit, inverse = unit_of_square(large)
    p, q = large * inverse, small * inverse
    result = sqrt(fma(p, p, q * q)) * unit
    return where(eq(a, np.inf) | eq(b, np.inf), np.inf, result)
