"""Powers: ``x**y`` by a logarithm and an exponential to base 2.

``x**y = 2**(y log2(x))``: the logarithm is computed as a pair to about 66 bits (34 in float32),
because the power magnifies its error by ``y log2(x)``, which is up to 1075 (150).

References
----------
C99, F.9.4.4, for the special cases, which NumPy follows.
J.-M. Muller, Elementary Functions, 3rd ed. (2016), section 11.6.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.scalar import Scalar, bitcast, const, eq, fma, ne, ratio, trunc, unlikely, where
from functrans.records import NamedTuple
from functrans.vecmath.exponential import exp2_normal, exp2_of_pair
from functrans.vecmath.logarithm import LN2, is_ordinary, split
from functrans.vecmath.polynomial import (
    FLOAT32,
    FLOAT64,
    Format,
    Pair,
    fast_two_sum,
    flip_sign,
    floating,
    format_of,
    pair_constant,
    pair_times,
    polynomial,
    two_product,
)


class _Table(NamedTuple):
    """``log2(1 + f) = c (f - s (f - z r))`` with ``s = f / (2 + f)`` and ``z = s**2``."""

    c: tuple[float, float]  # 1 / ln 2 as a pair
    r: tuple[float, ...]  # ``c (2 atanh(s) - 2 s) / s**3`` in ``z``
    r_low: float  # the rounding error of the first coefficient


_TABLES: dict[Format, _Table] = {
    FLOAT64: _Table(
        c=(1.4426950408889634, 2.0355273740931033e-17),
        r=(
            0.9617966939259756, 0.5770780163555851, 0.4121985831113465, 0.3205988979124682,
            0.26230819870896923, 0.2219522663549436, 0.1924014943557902, 0.1684477188562548,
            0.17285102570870214,
        ),
        r_low=5.0577616648125907e-17,
    ),
    FLOAT32: _Table(
        c=(1.4426950216293335, 1.925963033500011e-08),
        r=(
            0.9617967009544373, 0.5770753026008606, 0.41227805614471436, 0.32842105627059937,
        ),
        r_low=0.0,
    ),
}  # fmt: skip


def _quotient(f: Scalar) -> Pair:
    """``f / (2 + f)``."""
    denominator, denominator_low = fast_two_sum(const(2.0, f.dtype), f)
    s = ratio(f, denominator)
    # 1 / (2 + f) is (1 - s) / 2
    remainder = fma(-s, denominator_low, fma(-s, denominator, f))
    return s, remainder * fma(s, -0.5, 0.5)


def log2_pair(x: Scalar, lift: Scalar | None = None) -> Pair:
    """``log2(x) - lift`` of a positive normal number, as a pair."""
    table = _TABLES[format_of(x)]
    f, e, _ = split(x)
    e = e if lift is None else e - lift
    s, s_low = _quotient(f)
    z, z_low = two_product(s, s)
    z_low = fma(s * 2.0, s_low, z_low)
    # c f, and c f - z r
    leading, leading_low = two_product(f, table.c[0])
    leading_low = fma(f, table.c[1], leading_low)
    rest = polynomial(z, table.r[1:])
    r = fma(z, rest, table.r[0])
    factor = fma(-z, r, leading)
    factor_low = fma(-z_low, r, fma(-z, r, leading - factor) + leading_low)
    if table.r_low:
        factor_low = fma(-z, fma(z, rest, table.r[0] - r) + table.r_low, factor_low)
    correction, low = two_product(s, factor)
    low = fma(s, factor_low, fma(s_low, factor, low))
    # e is 0 or the larger number, and so is the total compared with the correction
    total, total_low = fast_two_sum(e, leading)
    result, result_low = fast_two_sum(total, -correction)
    return result, result_low + ((total_low + leading_low) - low)


def accurate_log(x: Scalar) -> Pair:
    """``log(x)`` of a positive normal number, as a pair: more digits than `log_pair` has."""
    return pair_times(log2_pair(x), pair_constant(*LN2[format_of(x)], x.dtype))


def _log2_of_any(x: Scalar) -> Pair:
    """``log2(x)`` of any number that is not negative."""
    form = format_of(x)
    tiny = x < form.smallest_normal
    lift = form.fraction_bits + 2
    zero = const(0.0, x.dtype)
    high, low = log2_pair(where(tiny, x * 2.0**lift, x), where(tiny, zero + lift, zero))
    special = where(eq(x, 0), const(-np.inf, x.dtype), x)
    return where((x > 0) & (x < np.inf), high, special), low


def _any_power(x: Scalar, y: Scalar) -> Scalar:
    form = format_of(x)
    high, low = _log2_of_any(abs(x))
    exponent, error = two_product(high, y)
    # beyond these exponents the result is zero or infinite; the error may be NaN, and is ignored
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
    high, low = log2_pair(x)
    exponent, error = two_product(high, y)
    result = exp2_normal(exponent, fma(low, y, error))
    # the exponent may be infinite or NaN
    ordinary = is_ordinary(x) & (abs(exponent) < format_of(x).bias - 2.0)
    return unlikely(~ordinary, _any_power(x, y), result)
