"""Bessel functions of integer orders from 0 up.

Up to 8, J is a polynomial in ``x**2`` times the factors of its first two roots, which are pairs;
Y is a logarithm times J, plus a polynomial. From 8 up, both are combinations of the sine and the
cosine, by Hankel's expansions, whose factors are polynomials in ``1 / x**2``. Higher orders of J
are computed by the power series, or by upward recurrence if the argument is larger than the order;
those of Y by upward recurrence.

The error is relative to 1 near the other roots. All are computed in float64, also for float32.

References
----------
NIST Digital Library of Mathematical Functions, 10.2, 10.6, 10.8, 10.17.
"""

from __future__ import annotations

import math

import numpy as np

from functrans.loop.scalar import Scalar, eq, fma, minimum, sqrt, where
from functrans.records import NamedTuple
from functrans.vecmath.bessel import power_series
from functrans.vecmath.logarithm import log
from functrans.vecmath.polynomial import horner, in_float64, is_nan
from functrans.vecmath.trigonometric import cos, sin

_BOUND = 8.0


class _Table(NamedTuple):
    """Polynomials, the first two in ``x**2 / 32 - 1``, the others in ``128 / x**2 - 1``."""

    roots: tuple[tuple[float, float], ...]
    j: tuple[float, ...]  # J divided by the factors of its roots, and by ``x`` for the order 1
    # Y without the logarithm and the pole, divided by ``x`` for the order 1
    y: tuple[float, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]  # ``x Q``


_TABLES = (
    _Table(
        roots=(
            (2.404825557695773, -1.176691651530894e-16),
            (5.520078110286311, 8.088597146146722e-17),
        ),
        j=(
            0.0011434937743762545, -0.002119794289479691, 0.0015636431645931668,
            -0.0006415390646406381, 0.00016977200713999037, -3.1573425402007556e-05,
            4.3669323244653815e-06, -4.6771280296964636e-07, 3.9988394207043036e-08,
            -2.7948614890924884e-09, 1.6276347592725725e-10, -8.02470851597448e-12,
            3.404630508888195e-13, -1.2088927549390996e-14,
        ),
        y=(
            -0.3620273432371452, -0.4179207423206952, 1.360945659965543, -0.21245999442065924,
            -0.6193407826302778, 0.44824604463562945, -0.15453679652356977, 0.033802856964005285,
            -0.0052350276689752855, 0.0006104345643574342, -5.5818308517578767e-05,
            4.122054377732922e-06, -2.514364724823467e-07, 1.2898051345012635e-08,
            -5.674562734072123e-10, 2.1445815121304145e-11,
        ),
        p=(
            0.9994572757882519, -0.0005363673192129345, 6.137416081285528e-06,
            -2.0527448326702446e-07, 1.2803747727336255e-08, -1.2121061468667927e-09,
            1.5506414225724638e-10, -2.4919858575140336e-11, 4.674235203505816e-12,
            -1.0073534179321148e-12, 3.455231000828644e-13, -1.0557121279243809e-13,
        ),
        q=(
            -0.12444091103610815, 0.0005466519279475268, -1.1817110661224711e-05,
            5.684971881741191e-07, -4.534972799376687e-08, 5.146231613065339e-09,
            -7.576353293734754e-10, 1.362349398697337e-10, -2.8700697665125374e-11,
            6.951847540083463e-12, -1.883194512864328e-12, 4.604559804769654e-13,
            -1.2442642217772221e-13, 1.0186655316365213e-13, -4.2559598178605575e-14,
        ),
    ),
    _Table(
        roots=(
            (3.8317059702075125, -1.5269184090088067e-16),
            (7.015586669815619, -9.414165653410389e-17),
        ),
        j=(
            0.00019498936985895625, -0.0002697522746716368, 0.00015860016799369866,
            -5.4080032390855674e-05, 1.224217365301685e-05, -1.9890935159090553e-06,
            2.4425222606607355e-07, -2.3521922564299638e-08, 1.826854799615572e-09,
            -1.1696929341750203e-10, 6.284684781565543e-12, -2.875791443121435e-13,
            1.1381842906357775e-14, -3.828648585541182e-16,
        ),
        y=(
            0.04510266206869483, -0.20760857842830602, 0.09022750636730927, 0.12052035426888162,
            -0.12641995056569705, 0.05439011630794624, -0.014131923394262676, 0.0025271340466830805,
            -0.0003337225700557363, 3.4063633752517535e-05, -2.7765056994376438e-06,
            1.852420192497132e-07, -1.0315248354785065e-08, 4.871015177085186e-10,
            -1.9850547719370794e-11, 6.994395451579067e-13,
        ),
        p=(
            1.0009070262780821, 0.0008988049416704834, -7.959694699686694e-06,
            2.4536766403586065e-07, -1.4708498433189186e-08, 1.3602930086458001e-09,
            -1.713728406809952e-10, 2.7243467585745202e-11, -5.071443507674567e-12,
            1.0865258336528618e-12, -3.697453453621471e-13, 1.124947294060025e-13,
        ),
        q=(
            0.3742149922195918, -0.0007697167057643707, 1.456961480987659e-05,
            -6.633568561039617e-07, 5.136105956776711e-08, -5.7208908981024174e-09,
            8.316101528964498e-10, -1.4816585657962523e-10, 3.0996739651144475e-11,
            -7.465159964003504e-12, 2.0128621705465077e-12, -4.915288642988338e-13,
            1.3259246633781898e-13, -1.076062803813148e-13, 4.4862109136693675e-14,
        ),
    ),
)  # fmt: skip


def _small_j(x: Scalar, order: int) -> Scalar:
    table = _TABLES[order]
    value = horner(fma(x * x, 1 / 32, -1.0), table.j)
    for root, root_low in table.roots:
        value = value * (((x - root) - root_low) * (x + root))
    return value * x if order else value


def _large(x: Scalar, order: int) -> tuple[Scalar, Scalar]:
    """J and Y, times ``sqrt(pi x)``."""
    table = _TABLES[order]
    inverse = 1.0 / x
    t = fma(inverse * inverse, 128.0, -1.0)
    p, q = horner(t, table.p), horner(t, table.q) * inverse
    sine, cosine = sin(x), cos(x)
    total, difference = sine + cosine, sine - cosine
    if order:
        return fma(p, difference, q * total), fma(-p, total, q * difference)
    return fma(p, total, -(q * difference)), fma(p, difference, q * total)


def _j(x: Scalar, order: int) -> Scalar:
    a = abs(x)
    small = _small_j(minimum(a, _BOUND), order)
    large, _ = _large(a, order)
    value = where(a < _BOUND, small, large / sqrt(a * math.pi))
    return where(x < 0, -value, value) if order else value


def _y(x: Scalar, order: int) -> Scalar:
    table = _TABLES[order]
    near = minimum(x, _BOUND)
    value = horner(fma(near * near, 1 / 32, -1.0), table.y)
    if order:
        value = fma(value, near, -2 / math.pi / near)
    small = fma(log(near * 0.5) * (2 / math.pi), _small_j(near, order), value)
    _, large = _large(x, order)
    value = where(x < _BOUND, small, large / sqrt(x * math.pi))
    return where((x < 0) | is_nan(x), np.nan, where(eq(x, 0), -np.inf, value))


@in_float64
def bessel_j(x: Scalar, *, n: int) -> Scalar:
    """The Bessel function of the first kind of order `n`."""
    if n < 2:
        return _j(x, n)
    a = abs(x)
    bound = float(n)
    near, far = minimum(a, bound), where(a < bound, bound, a)
    small = power_series(near, n, 14 + n, -1)
    below, value = _j(far, 0), _j(far, 1)
    for k in range(1, n):
        below, value = value, fma(value / far, 2.0 * k, -below)
    result = where(a < bound, small, value)
    return where(x < 0, -result, result) if n % 2 else result


@in_float64
def bessel_y(x: Scalar, *, n: int) -> Scalar:
    """The Bessel function of the second kind of order `n`."""
    if n < 2:
        return _y(x, n)
    below, value = _y(x, 0), _y(x, 1)
    for k in range(1, n):
        below, value = value, fma(value / x, 2.0 * k, -below)
    return where(eq(x, 0), -np.inf, value)
