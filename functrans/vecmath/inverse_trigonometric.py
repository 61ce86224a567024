"""asin, acos, atan and atan2, and the derivatives of atan2.

For arguments above 1, the arctangent is ``pi/2 - atan(1 / x)``. (Halving the interval again would
shorten the polynomial, but cost two selects and some digits.) The arcsine beyond 1/2 is
``pi/2 - 2 asin(sqrt((1 - x) / 2))``.

References
----------
W. J. Cody and W. Waite, Software Manual for the Elementary Functions (1980), chapters 10 and 11.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.scalar import (
    Scalar,
    bitcast,
    const,
    copysign,
    eq,
    fma,
    maximum,
    sqrt,
    unlikely,
    where,
)
from functrans.records import NamedTuple
from functrans.vecmath.polynomial import FLOAT32, FLOAT64, Format, floating, format_of, polynomial
from functrans.vecmath.roots import unit_of_square


class _Table(NamedTuple):
    quarter_pi: tuple[float, float]
    atan: tuple[float, ...]  # ``(atan(t) - t) / t**3`` in ``t**2``, up to 1
    asin: tuple[float, ...]  # ``(asin(t) - t) / t**3`` in ``t**2``, up to 1/2


_TABLES: dict[Format, _Table] = {
    FLOAT64: _Table(
        quarter_pi=(0.7853981633974483, 3.061616997868383e-17),
        atan=(
            -0.3333333333333186, 0.19999999999755189, -0.14285714271342032, 0.11111110678913791,
            -0.09090901237675136, 0.07692212951239545, -0.0666586049275743, 0.058773083508260604,
            -0.05239234891295706, 0.04673954145703832, -0.04092646230846973, 0.034067913035979995,
            -0.02582688639518128, 0.01697808248503451, -0.009184563194198605,
            0.0038559610819712386, -0.0011640610145591422, 0.0002230187607091714,
            -2.025805420039024e-05,
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
            -0.33333152532577515, 0.19993767142295837, -0.14211007952690125, 0.1066582053899765,
            -0.07551833987236023, 0.04320751503109932, -0.01636534556746483,
            0.0029200671706348658,
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


def _atan_of_fraction(t: Scalar) -> Scalar:
    """The arctangent of ``t`` between 0 and 1."""
    z = t * t
    return fma(z * t, polynomial(z, _TABLES[format_of(t)].atan), t)


@floating
def atan(x: Scalar) -> Scalar:
    """The arctangent."""
    a = abs(x)
    one = const(1.0, x.dtype)
    steep = a > 1.0
    angle = _atan_of_fraction(where(steep, one, a) / where(steep, a, one))
    high, low = _TABLES[format_of(x)].quarter_pi
    complement = 2.0 * high - (angle - 2.0 * low)
    return copysign(where(steep, complement, angle), x)


@floating
def atan2(y: Scalar, x: Scalar) -> Scalar:
    """The angle of the point (x, y), with the special cases of C99's atan2."""
    form = format_of(x)
    a, b = abs(x), abs(y)
    steep = b > a
    t = where(steep, a, b) / where(steep, b, a)
    # both zero or both infinite: the quotient is NaN
    t = where(eq(a, b), where(eq(a, 0), 0.0, const(1.0, x.dtype)), t)
    angle = _atan_of_fraction(t)
    left = bitcast(x, form.integer) < 0
    half_turn = where(left, const(4.0, x.dtype), 0.0)
    result = _eighths(where(steep, 2.0, half_turn), where(steep ^ left, -angle, angle), form)
    return copysign(result, y)


@floating
def atan2_derivative(y: Scalar, x: Scalar, n: int) -> Scalar:
    """The derivative of `atan2` by its first (0) or second (1) operand; 0 at 0 and at infinity.

    It is ``x / (x**2 + y**2)`` or ``-y / (x**2 + y**2)``. Both are products with the same
    reciprocal, so that both together need one division.
    """
    form = format_of(x)
    part = -y if n else x
    square = fma(x, x, y * y)
    # beyond these bounds, a square or the reciprocal may underflow or overflow
    largest = 2.0 ** (form.bias - 2)
    smallest = 2.0 ** (2 * form.fraction_bits - form.bias)
    ordinary = (square > smallest) & (square < largest)
    _, inverse = unit_of_square(maximum(abs(x), abs(y)))
    p, q = x * inverse, y * inverse
    scaled = fma(p, p, q * q)
    rare = part * inverse * (1.0 / where(eq(scaled, 0.0), 1.0, scaled)) * inverse
    infinite = eq(abs(x), np.inf) | eq(abs(y), np.inf)
    rare = where(infinite, copysign(0.0, part), rare)
    return unlikely(~ordinary, rare, part * (1.0 / square))


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
