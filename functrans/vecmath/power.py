"""power.

``x**y = 2**(y log2(x))``: the logarithm is computed as a pair to about 66 bits (34 in float32),
because the power magnifies its error by ``y log2(x)``, which is up to 1075 (150).

References
----------
C99, F.9.4.4, for the special cases, which NumPy follows.
J.-M. Muller, Elementary Functions, 3rd ed. (2016), section 11.6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from functrans.ir.scalar import (
    Scalar,
    bitcast,
    const,
    eq,
    fma,
    ne,
    trunc,
    unlikely,
    where,
)
from functrans.vecmath.exponential import exp2_normal, exp2_of_pair
from functrans.vecmath.logarithm import is_ordinary, split
from functrans.vecmath.polynomial import (
    FLOAT32,
    FLOAT64,
    Format,
    Pair,
    fast_two_sum,
    flip_sign,
    floating,
    format_of,
    pair_times,
    polynomial,
    two_product,
)


class _Table(NamedTuple):
    """``log2(1 + f) = s (c0 + c1 z + c2 z**2 + ...)`` with ``s = f / (2 + f)``, ``z = s**2``.

    The ``c[i]`` are about ``2 / ((2 i + 1) ln 2)``, the first two pairs.
    """

    c0: tuple[float, float]
    c1: tuple[float, float]
    rest: tuple[float, ...]


_TABLES: dict[Format, _Table] = {
    FLOAT64: _Table(
        c0=(2.8853900817779268, 4.0710547481862066e-17),
        c1=(0.9617966939259756, 5.0577616648125907e-17),
        rest=(
            0.5770780163555851, 0.4121985831113465, 0.3205988979124682, 0.26230819870896923,
            0.2219522663549436, 0.1924014943557902, 0.1684477188562548, 0.17285102570870214,
        ),
    ),
    FLOAT32: _Table(
        c0=(2.885390043258667, 3.851926067000022e-08),
        c1=(0.9617967009544373, -7.028461812552678e-09),
        rest=(0.577080249786377, 0.41184401512145996, 0.337959885597229),
    ),
}  # fmt: skip


def _log2_pair(x: Scalar, lift: Scalar | None = None) -> Pair:
    """``log2(x)`` of a positive normal number, as a pair, less `lift`."""
    table = _TABLES[format_of(x)]
    f, e, _ = split(x)
    e = e if lift is None else e - lift
    denominator, denominator_low = fast_two_sum(const(2.0, x.dtype), f)
    s = f / denominator
    # 1 / (2 + f) is (1 - s) / 2
    s_low = fma(-s, denominator_low, fma(-s, denominator, f)) * fma(s, -0.5, 0.5)
    z, z_low = two_product(s, s)
    z_low = fma(s * 2.0, s_low, z_low)
    # c1 + c2 z + ... and z times that, as pairs
    inner = polynomial(z, table.rest)
    factor = fma(inner, z, table.c1[0])
    factor_low = fma(inner, z, table.c1[0] - factor) + table.c1[1]
    series, series_low = two_product(z, factor)
    series_low = fma(z, factor_low, fma(z_low, factor, series_low))
    high, low = fast_two_sum(const(table.c0[0], x.dtype), series)
    high, low = pair_times((high, low + (series_low + table.c0[1])), (s, s_low))
    # e is 0 or not the lesser
    total, rest = fast_two_sum(e, high)
    return total, rest + low


def _log2_of_any(x: Scalar) -> Pair:
    """``log2(x)`` of any number that is not negative."""
    form = format_of(x)
    tiny = x < form.smallest_normal
    lift = form.fraction_bits + 2
    zero = const(0.0, x.dtype)
    high, low = _log2_pair(where(tiny, x * 2.0**lift, x), where(tiny, zero + lift, zero))
    special = where(eq(x, 0), const(-np.inf, x.dtype), x)
    return where((x > 0) & (x < np.inf), high, special), low


def _any_power(x: Scalar, y: Scalar) -> Scalar:
    form = format_of(x)
    high, low = _log2_of_any(abs(x))
    exponent, error = two_product(high, y)
    # beyond the exponents the result is zero or infinite, whatever the error, which may be NaN
    moderate = abs(exponent) < 1.1 * form.bias + 20.0
    result = exp2_of_pair(exponent, where(moderate, fma(low, y, error), 0.0))
    integral = eq(trunc(y), y)
    half = y * 0.5
    odd = integral & ne(trunc(half), half)
    result = where(odd, flip_sign(result, bitcast(x, form.integer)), result)
    result = where((x < 0) & (x > -np.inf) & ~integral, np.nan, result)
    one = eq(x, 1) | eq(y, 0) | (eq(x, -1) & eq(abs(y), np.inf))
    return where(one, 1.0, result)


@floating
def power(x: Scalar, y: Scalar) -> Scalar:
    """``x**y``, with the special cases of C99's pow."""
    high, low = _log2_pair(x)
    exponent, error = two_product(high, y)
    result = exp2_normal(exponent, fma(low, y, error))
    # the exponent may be infinite or NaN
    ordinary = is_ordinary(x) & (abs(exponent) < format_of(x).bias - 2.0)
    return unlikely(~ordinary, _any_power(x, y), result)
