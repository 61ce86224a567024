"""asin, acos, atan and atan2.

An arctangent is ``m pi/4`` plus that of ``t`` between -tan(pi/8) and tan(pi/8), by the formula for
the tangent of a difference, with one division. The arcsine beyond 1/2 is
``pi/2 - 2 asin(sqrt((1 - x) / 2))``.

References
----------
W. J. Cody and W. Waite, Software Manual for the Elementary Functions (1980), chapters 10 and 11.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from functrans.ir.scalar import Scalar, bitcast, const, copysign, eq, fma, sqrt, where
from functrans.vecmath.polynomial import (
    FLOAT32,
    FLOAT64,
    Format,
    first_nan,
    floating,
    format_of,
    polynomial,
    two_sum,
)

TAN_EIGHTH = 0.41421356237309503


class _Table(NamedTuple):
    quarter_pi: tuple[float, float]
    atan: tuple[float, ...]
    """``(atan(t) - t) / t**3`` in ``t**2``, up to tan(pi/8)."""
    asin: tuple[float, ...]
    """``(asin(t) - t) / t**3`` in ``t**2``, up to 1/2."""


_TABLES: dict[Format, _Table] = {
    FLOAT64: _Table(
        quarter_pi=(0.7853981633974483, 3.061616997868383e-17),
        atan=(
            -0.3333333333333319, 0.19999999999952184, -0.14285714280054138, 0.11111110776303838,
            -0.09090897551117418, 0.07692056525679397, -0.06663061946303865, 0.05847581637753876,
            -0.050379121015896915, 0.03802901273366523, -0.017868094509801147,
        ),
        asin=(
            0.16666666666665403, 0.07500000000338594, 0.04464285682693498, 0.03038195919754795,
            0.022371756531419977, 0.017359728571236906, 0.013884992240146606, 0.012170857006559215,
            0.006520666219204283, 0.019548758400078307, -0.016257131451422744, 0.03193527121802904,
        ),
    ),
    FLOAT32: _Table(
        quarter_pi=(0.7853981852531433, -2.1855694143368964e-08),
        atan=(
            -0.33333316445350647, 0.19998526573181152, -0.1424434632062912, 0.10598741471767426,
            -0.06088784337043762,
        ),
        asin=(
            0.16666752099990845, 0.07495306432247162, 0.045469772070646286, 0.02418077550828457,
            0.04216641187667847,
        ),
    ),
}  # fmt: skip


def _eighths(m: Scalar, angle: Scalar, form: Format) -> Scalar:
    """``m pi/4 + angle``."""
    high, low = _TABLES[form].quarter_pi
    return fma(m, high, fma(m, low, angle))


def _first_quadrant(y: Scalar, x: Scalar) -> tuple[Scalar, Scalar]:
    """``m`` and ``angle`` of the point (x, y): finite, none negative, not both zero."""
    steep = y > x * (1.0 + 2.0**0.5)
    middle = y > x * TAN_EIGHTH
    zero = const(0.0, x.dtype)
    # (y - x) / (x + y) in the middle, -x / y where it is steep, else y / x
    numerator, numerator_low = two_sum(where(steep, zero, y), where(middle, -x, zero))
    denominator, denominator_low = two_sum(where(middle, y, zero), where(steep, zero, x))
    t = numerator / denominator
    remainder = fma(-t, denominator, numerator) + fma(-t, denominator_low, numerator_low)
    t_low = where(middle, remainder / denominator, 0)
    z = t * t
    angle = t + fma(z * t, polynomial(z, _TABLES[format_of(x)].atan), t_low)
    return where(steep, const(2.0, x.dtype), where(middle, const(1.0, x.dtype), zero)), angle


@floating
def atan(x: Scalar) -> Scalar:
    """The arctangent."""
    form = format_of(x)
    # beyond the bound the result is pi/2
    a = where(abs(x) > 2.0**60, 2.0**60, abs(x))
    m, angle = _first_quadrant(a, const(1.0, x.dtype))
    return copysign(_eighths(m, angle, form), x)


@floating
def atan2(y: Scalar, x: Scalar) -> Scalar:
    """The angle of the point (x, y), with the special cases of C99's atan2."""
    form = format_of(x)
    a, b = abs(x), abs(y)
    infinite = const(np.inf, x.dtype)
    # infinities become ones among zeros, the origin a point of the axis
    far = eq(a, infinite) | eq(b, infinite)
    a = where(far, where(eq(a, infinite), const(1.0, x.dtype), 0), a)
    b = where(far, where(eq(b, infinite), const(1.0, x.dtype), 0), b)
    a = where(eq(a, 0) & eq(b, 0), 1, a)
    # no sum may overflow, and no denominator be a subnormal number
    larger = where(a > b, a, b)
    limit = 2.0 ** (form.bias - 60)
    unit = where(larger > limit, const(2.0**-8, x.dtype), 1)
    unit = where(larger < 1 / limit, 2.0 ** (form.fraction_bits + 4), unit)
    m, angle = _first_quadrant(b * unit, a * unit)
    left = bitcast(x, form.integer) < 0
    result = _eighths(where(left, 4.0 - m, m), where(left, -angle, angle), form)
    return first_nan(copysign(result, y), x, y)


def _asin_parts(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Whether ``abs(x) > 1/2``; ``s``, ``abs(x)`` or sqrt((1 - abs(x)) / 2); ``asin(s) - s``."""
    a = abs(x)
    large = a > 0.5
    z = where(large, fma(a, -0.5, 0.5), a * a)
    s = where(large, sqrt(z), a)
    return large, s, z * s * polynomial(z, _TABLES[format_of(x)].asin)


@floating
def asin(x: Scalar) -> Scalar:
    """The arcsine; NaN outside of [-1, 1]."""
    large, s, tail = _asin_parts(x)
    high, low = _TABLES[format_of(x)].quarter_pi
    s = where(large, fma(s, -2.0, 2.0 * high), s)
    tail = where(large, fma(tail, -2.0, 2.0 * low), tail)
    return copysign(s + tail, x)


@floating
def acos(x: Scalar) -> Scalar:
    """The arccosine; NaN outside of [-1, 1]."""
    large, s, tail = _asin_parts(x)
    angle = s + tail
    zero = const(0.0, x.dtype)
    # pi/2 - asin(x); or twice the half-angle; or pi less that
    m = where(large, where(x < 0, const(4.0, x.dtype), zero), 2.0)
    angle = where(large, angle * 2.0, angle)
    negated = (x < 0) ^ ~large
    return _eighths(m, where(negated, -angle, angle), format_of(x))
