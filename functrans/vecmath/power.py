"""power and cbrt.

``x**y = 2**(y log2(x))``: the logarithm of a float64 is computed as a pair to about 66 bits,
because the power magnifies its error by ``y log2(x)``, which is up to 1075. For float32 the whole
is done in float64, where a plain logarithm is accurate enough.

References
----------
C99, F.9.4.4, for the special cases, which NumPy follows.
J.-M. Muller, Elementary Functions, 3rd ed. (2016), section 11.6.
"""

from __future__ import annotations

import numpy as np

from functrans.ir.scalar import (
    Scalar,
    bitcast,
    const,
    convert,
    eq,
    fma,
    ne,
    trunc,
    unlikely,
    where,
)
from functrans.vecmath.exponential import clamp, exp2_of_pair
from functrans.vecmath.logarithm import is_ordinary, split
from functrans.vecmath.polynomial import (
    FLOAT32,
    FLOAT64,
    Pair,
    fast_two_sum,
    flip_sign,
    floating,
    format_of,
    pair_times,
    polynomial,
    power_of_two,
    round_with_integer,
    two_product,
)

# log2(1 + f) = s (c0 + c1 z + c2 z**2 + ...) with s = f / (2 + f), z = s**2 and c[i] about
# 2 / ((2 i + 1) ln 2): c0 and c1 as pairs
_C0 = (2.8853900817779268, 4.0710547481862066e-17)
_C1 = (0.9617966939259756, 5.0577616648125907e-17)
_C_REST = (
    0.5770780163555851, 0.4121985831113465, 0.3205988979124682, 0.26230819870896923,
    0.2219522663549436, 0.1924014943557902, 0.1684477188562548, 0.17285102570870214,
)  # fmt: skip

# float32: log2(1 + f) / s in z to 38 bits, and (2**r - 1) / r to 34
_LOG2_FLOAT32 = (
    2.8853900817902036, 0.9617966731819841, 0.5770836175955675, 0.41167064289646615,
    0.34077061229072925,
)  # fmt: skip
_EXP2_FLOAT32 = (
    0.6931471807045302, 0.24022651066846804, 0.05550410366165074, 0.00961803807540324,
    0.0013333934655175039, 0.0001546678070719369, 1.5196370902266411e-05,
)  # fmt: skip


def _log2_pair(x: Scalar, subnormal: bool) -> Pair:
    """``log2(x)`` of a positive finite float64, as a pair."""
    e, f, _ = split(x, subnormal)
    denominator, denominator_low = fast_two_sum(const(2.0, x.dtype), f)
    reciprocal = 1.0 / denominator
    s = f * reciprocal
    s_low = fma(-s, denominator_low, fma(-s, denominator, f)) * reciprocal
    z, z_low = two_product(s, s)
    z_low = fma(s * 2.0, s_low, z_low)
    # c1 + c2 z + ... and z times that, as pairs
    inner = polynomial(z, _C_REST)
    factor = fma(inner, z, _C1[0])
    factor_low = fma(inner, z, _C1[0] - factor) + _C1[1]
    series, series_low = two_product(z, factor)
    series_low = fma(z, factor_low, fma(z_low, factor, series_low))
    high, low = fast_two_sum(const(_C0[0], x.dtype), series)
    high, low = pair_times((high, low + (series_low + _C0[1])), (s, s_low))
    # e is 0 or not the lesser
    total, rest = fast_two_sum(e, high)
    return total, rest + low


def _log2_float32(x: Scalar) -> Scalar:
    """``log2(x)`` to about 38 bits of a positive normal float64."""
    e, f, _ = split(x, subnormal=False)
    s = f / (f + 2.0)
    return fma(s, polynomial(s * s, _LOG2_FLOAT32), e)


def _extended(logarithm: Scalar, base: Scalar) -> Scalar:
    """The logarithm of a positive finite base; also that of zero, infinity and NaN."""
    infinite = const(np.inf, logarithm.dtype)
    special = where(eq(base, 0), -infinite, convert(base, logarithm.dtype))
    return where((base > 0) & (base < np.inf), logarithm, special)


def _exp2_of_product(logarithm: Pair, y: Scalar) -> Scalar:
    exponent, error = two_product(logarithm[0], y)
    # beyond the exponents the result is zero or infinite, whatever the error, which may be NaN
    return exp2_of_pair(exponent, where(abs(exponent) < 1100.0, fma(logarithm[1], y, error), 0.0))


def _exp2_of_product_float32(logarithm: Scalar, y: Scalar) -> Scalar:
    exponent = clamp(convert(y, FLOAT64.dtype) * logarithm, -200.0, 200.0)
    k, power_of_k = round_with_integer(exponent + FLOAT64.rounder)
    r = exponent - k
    mantissa = fma(polynomial(r, _EXP2_FLOAT32), r, 1.0)
    # the conversion overflows and makes subnormal numbers
    return convert(mantissa * power_of_two(power_of_k, FLOAT64), FLOAT32.dtype)


def _any_power(x: Scalar, y: Scalar) -> Scalar:
    form = format_of(x)
    base = abs(x)
    if form is FLOAT64:
        high, low = _log2_pair(base, subnormal=True)
        result = _exp2_of_product((_extended(high, base), low), y)
    else:
        logarithm = _log2_float32(convert(base, FLOAT64.dtype))
        result = _exp2_of_product_float32(_extended(logarithm, base), y)
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
    if format_of(x) is FLOAT64:
        common = _exp2_of_product(_log2_pair(x, subnormal=False), y)
    else:
        common = _exp2_of_product_float32(_log2_float32(convert(x, FLOAT64.dtype)), y)
    ordinary = is_ordinary(x) & (abs(y) < np.inf)
    return unlikely(~ordinary, _any_power(x, y), common)
