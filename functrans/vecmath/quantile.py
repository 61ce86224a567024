"""erfinv, erfcinv and the normal quantile.

``x / erf(x)`` is a smooth function of ``w = -log(1 - erf(x)**2)``: a polynomial in ``w`` near the
centre, one in ``sqrt(w)`` further out, and in the far tails ``sqrt(w)`` times one in
``1 / sqrt(w)``. The tail ``1 - erf(x)`` is exact where it is small, since it is the argument, or a
difference of near numbers. The absolute error of ``w`` counts, so ``w`` is one logarithm of a
number that was rounded once or twice, even if that is near 1.

All are computed in float64, also for float32.

References
----------
M. B. Giles, "Approximating the erfinv function" (GPU Computing Gems, Jade edition, 2011), for the
variable.
"""

from __future__ import annotations

import math

import numpy as np

from functrans.loop.scalar import Scalar, copysign, eq, fma, minimum, sqrt, unlikely, where
from functrans.vecmath.logarithm import log
from functrans.vecmath.polynomial import horner, in_float64

# x / erf(x) in w - 3.125, up to 6.25
_CENTRE = (
    1.6536545626831027, 0.24015818242558826, -0.006033670871427754, -0.0007407025341539552,
    0.000186734208024257, -1.3882523395790925e-05, -1.365469184435791e-06, 4.234788190771165e-07,
    -2.907038277408088e-08, -4.112661977578665e-09, 1.0512183980322715e-09, -5.414239002813951e-11,
    -1.297695817132596e-11, 2.6303545877141124e-12, -8.117010724790836e-14, -3.998978134351798e-14,
    6.594702298809153e-15, -4.286525059272741e-17, -1.3003923172350669e-16, 1.575975142384377e-17,
    1.1444178749445588e-18, -3.575487469042401e-19, -1.0091869769199646e-21, 3.375730405767891e-21,
)  # fmt: skip

# x / erf(x) in sqrt(w) - 3.75, from 2.5 to 5
_TAIL = (
    3.5875041872852242, 1.0086776396099648, 0.0020544446399484604, -0.001286686904438617,
    0.0005446400142633304, -0.0002655766371323852, 0.00015953583560113875, -9.572784826905214e-05,
    4.7297557937011395e-05, -1.603807040597346e-05, 1.5637514901576605e-06, 2.1458803563687947e-06,
    -1.6167352652621559e-06, 5.603862304646721e-07, -3.964360180589121e-08, -6.619007944606791e-08,
    3.835111529325862e-08, -9.72491722549217e-09, 5.850374079122283e-11, 1.31811225254869e-09,
    -7.848430577637368e-10, 1.3809508968192265e-10, 6.232280392913798e-11, -2.3118772047081675e-11,
)  # fmt: skip

# x / (erf(x) sqrt(w)) in a linear function of 1 / sqrt(w), for sqrt(w) from 5 to 27.4
_FAR = (
    0.9858684164749466, -0.014740788694506565, -0.0017889003953118678, 0.00075231912717332,
    -0.00013621277120409524, 3.5538626404671e-05, -1.2638205944971566e-05, 5.046372597391341e-06,
    -2.179965571397846e-06, 1.0042761963532315e-06, -4.843995268502357e-07, 2.417889587977409e-07,
    -1.3165626101325452e-07, 7.547939418208764e-08, -2.2334262421869237e-08, 4.563968020542027e-10,
    -3.7917386721419416e-08, 3.9078562505708284e-08, 2.9607230646737057e-08, -3.442944701571573e-08,
    -2.8412701953026688e-08, 2.7657964357927212e-08, 1.2758564050461644e-08,
    -1.1605846969353617e-08, -3.2277392651258582e-09, 2.5930383696680946e-09,
)  # fmt: skip
_FAR_ENDS = (0.03649635, 0.2)


def _ratio(w: Scalar) -> Scalar:
    """``x / erf(x)``."""
    root = sqrt(w)
    low, high = _FAR_ENDS
    line = fma(1.0 / root, 2 / (high - low), -(high + low) / (high - low))
    far = horner(line, _FAR) * root
    tail = where(root < 5.0, horner(root - 3.75, _TAIL), far)
    return unlikely(w > 6.25, tail, horner(w - 3.125, _CENTRE))


def _of_erf(u: Scalar) -> Scalar:
    """The inverse of erf."""
    w = -log(fma(-u, u, 1.0))
    return _ratio(where(abs(u) < 1.0, w, 1.0)) * u


def _of_erfc(q: Scalar) -> Scalar:
    """The inverse of erfc."""
    # 1 - q is exact from 1/2 up
    u = 1.0 - q
    tail = minimum(q, 2.0 - q)
    inside = tail > 0
    w = -log(tail * (2.0 - tail))
    return _ratio(where(inside, w, 1.0)) * u


@in_float64
def erfinv(u: Scalar) -> Scalar:
    """The inverse of erf, on [-1, 1]."""
    result = _of_erf(u)
    end = copysign(u * 0.0 + np.inf, u)
    return where(abs(u) < 1.0, result, where(eq(abs(u), 1.0), end, np.nan))


@in_float64
def erfcinv(q: Scalar) -> Scalar:
    """The inverse of erfc, on [0, 2]."""
    ends = where(eq(q, 0), q + np.inf, where(eq(q, 2.0), -q * np.inf, q * np.nan))
    return where((q > 0) & (q < 2.0), _of_erfc(q), ends)


@in_float64
def ndtri(p: Scalar) -> Scalar:
    """The quantile of the normal distribution, on [0, 1]."""
    ends = where(eq(p, 0), p - np.inf, where(eq(p, 1.0), p * np.inf, p * np.nan))
    return where((p > 0) & (p < 1.0), _of_erfc(p * 2.0) * -math.sqrt(2), ends)
