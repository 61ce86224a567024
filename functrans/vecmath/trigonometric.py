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

from functools import cache
from typing import NamedTuple

import numpy as np

from functrans.ir.scalar import (
    Scalar,
    bitcast,
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
    """``(sin(r) - r) / r**3`` in ``r**2``, up to pi/2."""
    half_sin: tuple[float, ...]
    """The same up to pi/4."""
    half_cos: tuple[float, ...]
    """``(cos(r) - 1 + r**2 / 2) / r**4`` in ``r**2``, up to pi/4."""


_TABLES: dict[Format, _Table] = {
    FLOAT64: _Table(
        limit=2.0**30,
        pi=(3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33),
        sin=(
            -0.16666666666666666, 0.008333333333333201, -0.00019841269841209424,
            2.7557319210906967e-06, -2.505210683430808e-08, 1.6058937107710364e-10,
            -7.642910253616848e-13, 2.7202029851343925e-15,
        ),
        half_sin=(
            -0.16666666666666627, 0.00833333333332107, -0.00019841269828700162,
            2.755731329927954e-06, -2.5050695575655085e-08, 1.5893118234396756e-10,
        ),
        half_cos=(
            0.04166666666666658, -0.001388888888887097, 2.480158728752797e-05,
            -2.7557313791573444e-07, 2.08756474917467e-09, -1.1355744118024791e-11,
        ),
    ),
    FLOAT32: _Table(
        limit=2.0**15,
        pi=(3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15),
        sin=(
            -0.1666666716337204, 0.008333350531756878, -0.00019843090558424592,
            2.76267496701621e-06, -2.5494607314158202e-08,
        ),
        half_sin=(
            -0.16666653752326965, 0.008332106284797192, -0.00019507846445776522,
        ),
        half_cos=(
            0.04166664555668831, -0.0013887297827750444, 2.4430084522464313e-05,
        ),
    ),
}  # fmt: skip


class Reduced(NamedTuple):
    """``x = (n + offset) pi + r + r_low`` (or ``x = n pi / 2 + ...``), modulo ``2 pi``."""

    n: Scalar
    r: Scalar
    r_low: Scalar

    def parity(self) -> Scalar:
        """An integer scalar with the last bit of ``n`` as its sign bit."""
        form = format_of(self.n)
        return bitcast(self.n + form.rounder, form.integer) << (form.dtype.itemsize * 8 - 1)


def reduce(x: Scalar, per_turn: int, offset: float) -> Reduced:
    """Write non-negative ``x`` as ``(n + offset) pi / per_turn + r`` with the least ``r``."""
    form = format_of(x)
    table = _TABLES[form]
    first, second, third = table.pi
    n = (fma(x, per_turn / np.pi, -offset) + form.rounder) - form.rounder
    k = -((n + offset) * (1.0 / per_turn))
    r_first = fma(k, first, x)  # exact
    product, error = two_product(k, second)
    # r_first is a multiple of the last place of the product, so that Dekker's sum is exact
    r, r_low = fast_two_sum(r_first, product)
    r_low = fma(k, third, r_low + error)
    far = _reduce_huge if form is FLOAT64 else _reduce_huge_float32
    huge = x > table.limit
    n_far, r_far, r_low_far = far(x, per_turn, offset)
    return Reduced(
        unlikely(huge, n_far, n), unlikely(huge, r_far, r), unlikely(huge, r_low_far, r_low)
    )


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


def _reduce_huge(x: Scalar, per_turn: int, offset: float) -> tuple[Scalar, Scalar, Scalar]:
    y, (t0, t1, t2, t3) = _scaled_and_parts(x, 53, 4)
    (p0, e0), (p1, e1), (p2, e2) = (two_product(y, t) for t in (t0, t1, t2))
    p0, e0, p1 = _modulo_2(p0), _modulo_2(e0), _modulo_2(p1)
    n = rint(fma(p0 + (e0 + p1), float(per_turn), -offset))
    terms = [p0 - (n + offset) * (1.0 / per_turn), e0, p1, e1, p2, e2, y * t3]
    # the leading terms may cancel down to 2**-62: each pass leaves the sum in fewer of them
    for _ in range(3):
        for i in range(len(terms) - 1, 0, -1):
            terms[i - 1], terms[i] = two_sum(terms[i - 1], terms[i])
    fraction = fast_two_sum(terms[0], terms[1] + terms[2])
    r, r_low = pair_times(fraction, pair_constant(*_TABLES[FLOAT64].pi[:2], x.dtype))
    return n, r, r_low


def _reduce_huge_float32(x: Scalar, per_turn: int, offset: float) -> tuple[Scalar, Scalar, Scalar]:
    y, (t0, t1) = _scaled_and_parts(convert(x, FLOAT64.dtype), 24, 2)
    high, low = two_product(y, t0)
    high = _modulo_2(high)
    n = rint(fma(high, float(per_turn), -offset))
    r = ((high - (n + offset) * (1.0 / per_turn)) + fma(y, t1, low)) * np.pi
    r_high = convert(r, FLOAT32.dtype)
    r_low = convert(r - convert(r_high, FLOAT64.dtype), FLOAT32.dtype)
    return convert(n, FLOAT32.dtype), r_high, r_low


def sin_reduced(r: Scalar, r_low: Scalar) -> Scalar:
    """``sin(r + r_low)`` for ``abs(r)`` up to pi/2."""
    z = r * r
    # cos(r), which belongs to r_low, need not be accurate
    tail = fma(z * r, polynomial(z, _TABLES[format_of(r)].sin), fma(z * -0.5, r_low, r_low))
    return r + tail


@floating
def sin(x: Scalar) -> Scalar:
    """The sine, of any finite argument."""
    reduced = reduce(abs(x), 1, 0.0)
    result = flip_sign(sin_reduced(reduced.r, reduced.r_low), reduced.parity())
    return flip_sign(result, bitcast(x, format_of(x).integer))


@floating
def cos(x: Scalar) -> Scalar:
    """The cosine, of any finite argument."""
    # cos((n + 1/2) pi + r) = -(-1)**n sin(r)
    reduced = reduce(abs(x), 1, 0.5)
    return flip_sign(sin_reduced(reduced.r, reduced.r_low), ~reduced.parity())


@floating
def tan(x: Scalar) -> Scalar:
    """The tangent, of any finite argument."""
    table = _TABLES[format_of(x)]
    reduced = reduce(abs(x), 2, 0.0)
    _, r, r_low = reduced
    z = r * r
    sine = r + fma(z * r, polynomial(z, table.half_sin), fma(z * -0.5, r_low, r_low))
    half = z * 0.5
    one_less = 1.0 - half
    rounding = (1.0 - one_less) - half
    cosine = one_less + fma(z * z, polynomial(z, table.half_cos), fma(-r, r_low, rounding))
    odd = reduced.parity()
    swapped = bitcast(odd, format_of(x).integer) < 0
    result = where(swapped, cosine, sine) / where(swapped, sine, cosine)
    return flip_sign(result, odd ^ bitcast(x, format_of(x).integer))
