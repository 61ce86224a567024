"""sin, cos and tan: ``x = k pi + r``, for any finite x.

Up to a limit, ``k pi`` is subtracted in three parts with fma (Cody and Waite). Beyond it,
``x / pi`` modulo 2 is needed to about 120 bits: ``x`` is an integer ``y`` times ``2**s`` for one
of 128 steps of ``s``, a table holds ``2**s / pi`` modulo 2 to 212 bits, and the four products with
``y`` are added without error (after Payne and Hanek, who multiply integers).

References
----------
M. Payne and R. Hanek, "Radian reduction for trigonometric functions" (1983).
J.-M. Muller, Elementary Functions, 3rd ed. (2016), chapter 12.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from functrans.ir.scalar import (
    Scalar,
    bitcast,
    const,
    convert,
    fma,
    lookup,
    lshr,
    rint,
    unlikely,
    where,
)
from functrans.vecmath.polynomial import (
    FLOAT32,
    FLOAT64,
    Format,
    fast_two_sum,
    flip_sign,
    floating,
    format_of,
    pair_constant,
    pair_times,
    polynomial,
    two_product,
    two_sum,
)

# floor(2**1280 / pi): the bits of 1 / pi that the largest float64 needs, and 200 to spare
_INVERSE_PI_BITS = 1280
_INVERSE_PI = int(
    "517cc1b727220a94fe13abe8fa9a6ee06db14acc9e21c820ff28b1d5ef5de2b0db92371d2126e970"
    "0324977504e8c90e7f0ef58e5894d39f74411afa975da24274ce38135a2fbf209cc8eb1cc1a99cfa"
    "4e422fc5defc941d8ffc4bffef02cc07f79788c5ad05368fb69b3f6793e584dba7a31fb34f2ff516"
    "ba93dd63f5f2f8bd9e839cfbc529497535fdafd88fc6ae842b0198237e3db5d5f867de104d7a1b0e",
    16,
)


class _Table(NamedTuple):
    limit: float
    """The three parts of pi are enough below this."""
    pi: tuple[float, float, float]
    sin: tuple[float, ...]
    """``(sin(r) - r) / r**3`` in ``r**2``, up to pi/4."""
    cos: tuple[float, ...]
    """``(cos(r) - 1 + r**2 / 2) / r**4`` in ``r**2``, up to pi/4."""


_TABLES: dict[Format, _Table] = {
    FLOAT64: _Table(
        limit=2.0**30,
        pi=(3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33),
        sin=(
            -0.16666666666666627, 0.00833333333332107, -0.00019841269828700162,
            2.755731329927954e-06, -2.5050695575655085e-08, 1.5893118234396756e-10,
        ),
        cos=(
            0.04166666666666658, -0.001388888888887097, 2.480158728752797e-05,
            -2.7557313791573444e-07, 2.08756474917467e-09, -1.1355744118024791e-11,
        ),
    ),
    FLOAT32: _Table(
        limit=2.0**15,
        pi=(3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15),
        sin=(
            -0.16666653752326965, 0.008332106284797192, -0.00019507846445776522,
        ),
        cos=(
            0.04166664555668831, -0.0013887297827750444, 2.4430084522464313e-05,
        ),
    ),
}  # fmt: skip


class Reduced(NamedTuple):
    """Non-negative ``x = n pi / 2 + r + r_low``, modulo ``2 pi``, with the least ``r``."""

    n: Scalar
    r: Scalar
    r_low: Scalar


def _reduce_moderate(x: Scalar) -> Reduced:
    form = format_of(x)
    first, second, third = _TABLES[form].pi
    n = fma(x, 2.0 / np.pi, form.rounder) - form.rounder
    k = n * -0.5
    r_first = fma(k, first, x)  # exact
    product, error = two_product(k, second)
    # r_first is a multiple of the last place of the product, so that Dekker's sum is exact
    r, r_low = fast_two_sum(r_first, product)
    return Reduced(n, r, fma(k, third, r_low + error))


@cache
def _inverse_pi_table(digits: int, parts: int) -> list[tuple[float, ...]]:
    """``2**s / pi`` modulo 2 as a sum of `parts`, and ``2**-s``: a table each.

    The row is the biased exponent of ``x`` by 16. There ``x = y 2**s`` with an integer ``y`` of
    at most ``digits + 15`` bits; or ``s = 0``, where the integer part of ``x`` is not as long.
    """
    rows = []
    for row in range(128):
        s = max(0, 16 * row - FLOAT64.bias - (digits - 1))
        rest = (_INVERSE_PI << s) % (2 << _INVERSE_PI_BITS)
        values = []
        for _ in range(parts):
            part = rest / (1 << _INVERSE_PI_BITS)
            numerator, denominator = part.as_integer_ratio()
            rest -= (numerator << _INVERSE_PI_BITS) // denominator
            values.append(part)
        rows.append((*values, 2.0**-s))
    return list(zip(*rows, strict=True))


def _scaled_and_parts(x: Scalar, digits: int, parts: int) -> tuple[Scalar, list[Scalar]]:
    row = lshr(bitcast(x, FLOAT64.integer), FLOAT64.fraction_bits + 4) & 127
    *values, unit = (lookup(t, row, x.dtype) for t in _inverse_pi_table(digits, parts))
    return x * unit, values


def _modulo_2(x: Scalar) -> Scalar:
    """``x`` minus an even integer, exactly: between -1 and 1."""
    return fma(rint(x * 0.5), -2.0, x)


def _reduce_huge(x: Scalar) -> Reduced:
    y, (t0, t1, t2, t3) = _scaled_and_parts(x, 53, 4)
    (p0, e0), (p1, e1), (p2, e2) = (two_product(y, t) for t in (t0, t1, t2))
    p0, e0, p1 = _modulo_2(p0), _modulo_2(e0), _modulo_2(p1)
    n = rint((p0 + (e0 + p1)) * 2.0)
    terms = [p0 - n * 0.5, e0, p1, e1, p2, e2, y * t3]
    # the leading terms may cancel down to 2**-62: each pass leaves the sum in fewer of them
    for _ in range(3):
        for i in range(len(terms) - 1, 0, -1):
            terms[i - 1], terms[i] = two_sum(terms[i - 1], terms[i])
    fraction = fast_two_sum(terms[0], terms[1] + terms[2])
    return Reduced(n, *pair_times(fraction, pair_constant(*_TABLES[FLOAT64].pi[:2], x.dtype)))


def _reduce_huge_float32(x: Scalar) -> Reduced:
    y, (t0, t1) = _scaled_and_parts(convert(x, FLOAT64.dtype), 24, 2)
    high, low = two_product(y, t0)
    high = _modulo_2(high)
    n = rint(high * 2.0)
    r = ((high - n * 0.5) + fma(y, t1, low)) * np.pi
    r_high = convert(r, FLOAT32.dtype)
    r_low = convert(r - convert(r_high, FLOAT64.dtype), FLOAT32.dtype)
    return Reduced(convert(n, FLOAT32.dtype), r_high, r_low)


class _Quadrant(NamedTuple):
    """sin(r), cos(r), and which quadrant ``x`` is in."""

    sine: Scalar
    cosine: Scalar
    n: Scalar
    """An integer scalar, of which the last two bits matter."""

    def sin(self, turns: int) -> Scalar:
        """``sin(n pi / 2 + turns pi / 2 + r)``."""
        bits = self.n.dtype.itemsize * 8
        n = self.n + turns if turns else self.n
        swapped = (n << (bits - 1)) < 0
        return flip_sign(where(swapped, self.cosine, self.sine), n << (bits - 2))


def _quadrant(reduced: Reduced) -> _Quadrant:
    """Evaluate both functions of the remainder."""
    n, r, r_low = reduced
    form = format_of(r)
    z = r * r
    # cos(r), which belongs to r_low, need not be accurate
    tail = fma(z * -0.5, r_low, r_low)
    sine = r + fma(z * r, polynomial(z, _TABLES[form].sin), tail)
    half = z * 0.5
    high = 1.0 - half
    low = fma(-r, r_low, (1.0 - high) - half)
    cosine = high + fma(z * z, polynomial(z, _TABLES[form].cos), low)
    return _Quadrant(sine, cosine, bitcast(n + form.rounder, form.integer))


def _of_quadrant(x: Scalar, function: Callable[[_Quadrant], Scalar]) -> Scalar:
    """The function of non-negative ``x``; only a huge one pays for the long reduction."""
    form = format_of(x)
    reduce_huge = _reduce_huge if form is FLOAT64 else _reduce_huge_float32
    return unlikely(
        x > _TABLES[form].limit,
        function(_quadrant(reduce_huge(x))),
        function(_quadrant(_reduce_moderate(x))),
    )


def sinpi_and_cospi(x: Scalar) -> tuple[Scalar, Scalar]:
    """``sin(pi x)`` and ``cos(pi x)``."""
    form = format_of(x)
    n = rint(_modulo_2(x) * 2.0)
    r = pair_times(
        (_modulo_2(x) - n * 0.5, const(0.0, x.dtype)),
        pair_constant(*_TABLES[form].pi[:2], x.dtype),
    )
    quadrant = _quadrant(Reduced(n, *r))
    return quadrant.sin(0), quadrant.sin(1)


@floating
def sin(x: Scalar) -> Scalar:
    """The sine, of any finite argument."""
    result = _of_quadrant(abs(x), lambda quadrant: quadrant.sin(0))
    return flip_sign(result, bitcast(x, format_of(x).integer))


@floating
def cos(x: Scalar) -> Scalar:
    """The cosine, of any finite argument."""
    return _of_quadrant(abs(x), lambda quadrant: quadrant.sin(1))


@floating
def tan(x: Scalar) -> Scalar:
    """The tangent, of any finite argument."""
    result = _of_quadrant(abs(x), lambda quadrant: quadrant.sin(0) / quadrant.sin(1))
    return flip_sign(result, bitcast(x, format_of(x).integer))
