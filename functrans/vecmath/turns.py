"""Twiddle factors: cosine and sine of fractions of a turn, with exact reduction by integers.

The eight octants of a turn are mapped to the first one. The angle there is a pair, and the effect
of its low part is added last: both results are within 0.7 units in the last place, as accurate as a
table that was computed with more digits.
"""

from __future__ import annotations

from math import factorial

import numpy as np

from functrans.loop.scalar import Scalar, const, convert, fma, where
from functrans.vecmath.polynomial import (
    Pair,
    horner,
    pair_constant,
    pair_times,
    rounded_product,
    two_product,
)

_QUARTER = pair_constant(1.5707963267948966, 6.123233995736766e-17, np.float64)
"""A quarter of a turn, as a pair."""

_SINE = tuple((-1) ** k / factorial(2 * k + 1) for k in range(1, 9))
_COSINE = tuple((-1) ** k / factorial(2 * k) for k in range(2, 10))


def turn(numerator: Scalar, steps: Scalar | int) -> Pair:
    """Cosine and sine of ``2 pi numerator / steps``, where ``0 <= numerator <= steps <= 2**50``.

    The numerator is an int64, the results are float64.
    """
    if not isinstance(steps, Scalar):
        if steps <= np.iinfo(np.int32).max:
            # a vector of these is converted by one instruction
            numerator = convert(numerator, np.int32)
        steps = const(steps, np.int64)
    number, whole = convert(numerator, np.float64), convert(steps, np.float64)
    # the following operations are exact in floats, too, for which all machines have vectors
    half, is_lower = _least(number, whole - number)
    # from here on in units of a quarter of a step
    quarter, is_left = _least(half * 4.0, whole * 2.0 - half * 4.0)
    eighth, is_steep = _least(quarter, whole - quarter)
    near_one, near_zero = _first_octant(eighth, whole)
    cosine = where(is_steep, near_zero, near_one)
    sine = where(is_steep, near_one, near_zero)
    return where(is_left, -cosine, cosine), where(is_lower, -sine, sine)


def _least(x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """The lesser of two numbers, and whether it is the second one."""
    is_second = y < x
    return where(is_second, y, x), is_second


def _first_octant(part: Scalar, whole: Scalar) -> Pair:
    """Cosine and sine of ``part / whole`` of a quarter of a turn, of at most a half of it."""
    # the reciprocal is the same for all parts, which then need no division
    inverse = 1.0 / whole
    step = pair_times((inverse, fma(-inverse, whole, 1.0) * inverse), _QUARTER)
    x, error = two_product(part, step[0])
    low = fma(part, step[1], error)
    square, lost = two_product(x, x)
    cubic = rounded_product(square, x) * horner(square, _SINE)
    sine = x + (cubic + fma(square * -0.5, low, low))
    quartic = rounded_product(square, square) * horner(square, _COSINE)
    line = fma(square, -0.5, 1.0)
    short = fma(square, -0.5, 1.0 - line)
    cosine = line + (short + (quartic - fma(x, low, lost * 0.5)))
    return cosine, sine
