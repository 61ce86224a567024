"""log and its kin: ``x = 2**e m`` with ``m`` between sqrt(1/2) and sqrt(2), and ``f = m - 1``.

In float64, ``log(1 + f) = 2 atanh(s)`` with ``s = f / (2 + f)``, an odd series in ``s`` that
converges fast; in float32 a polynomial in ``f`` is cheaper than the division.

References
----------
P. T. P. Tang, "Table-driven implementation of the logarithm function" (1990).
FreeBSD msun, e_log.c (K. C. Ng, 1993), for the order of the sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from functrans.ir.scalar import (
    Scalar,
    bitcast,
    const,
    copysign,
    eq,
    fma,
    lshr,
    unlikely,
    where,
)
from functrans.vecmath.polynomial import (
    FLOAT32,
    FLOAT64,
    Format,
    fast_two_sum,
    floating,
    format_of,
    polynomial,
    power_of_two,
    two_sum,
)

SQRT_HALF = 0.7071067811865476

# (2 atanh(s) - 2 s) / s**3 in z = s**2
_ATANH = (
    0.666666666666667, 0.3999999999989904, 0.28571428626340567, 0.22222211067545497,
    0.18182894203970434, 0.1533155167426755, 0.1461853820868174,
)  # fmt: skip

# float32: (log(1 + f) - f + f**2 / 2) / f**3
_LOG1P = (
    0.3333331346511841, -0.2500016689300537, 0.20002223551273346, -0.16659365594387054,
    0.1420956552028656, -0.12549790740013123, 0.12108993530273438, -0.10915669053792953,
    0.05337411165237427,
)  # fmt: skip


class _Base(NamedTuple):
    """The constants of ``log_b(x) = log(1 + f) / ln(b) + e log_b(2)``, as pairs."""

    factor: tuple[float, float]
    step: tuple[float, float]


_BASES: dict[tuple[Format, int], _Base] = {
    (FLOAT64, 2): _Base((1.4426950408889634, 2.0355273740931033e-17), (1.0, 0.0)),
    (FLOAT32, 2): _Base((1.4426950216293335, 1.925963033500011e-08), (1.0, 0.0)),
    (FLOAT64, 10): _Base(
        (0.4342944819032518, 1.098319650216765e-17), (0.3010299956639812, -2.8037281277851704e-18)
    ),
    (FLOAT32, 10): _Base(
        (0.4342944920063019, -1.0103049952192578e-08), (0.3010300099849701, -1.432098883924482e-08)
    ),
}

LN2: dict[Format, tuple[float, float]] = {
    FLOAT64: (0.6931471805599453, 2.3190468138462996e-17),
    FLOAT32: (0.6931471824645996, -1.9046542121259336e-09),
}


def split(x: Scalar, subnormal: bool = True) -> tuple[Scalar, Scalar, Scalar]:
    """``e`` (as a float), ``m - 1`` and ``e`` (as an integer), for positive finite ``x``.

    Without `subnormal`, the caller knows that ``x`` is a normal number.
    """
    form = format_of(x)
    tiny = x < form.smallest_normal
    lift = form.fraction_bits + 2
    bits = bitcast(where(tiny, x * 2.0**lift, x) if subnormal else x, form.integer)
    root = int(np.asarray(SQRT_HALF, form.dtype).view(form.integer))
    one = form.bias << form.fraction_bits
    shifted = bits + (one - root)
    mantissa_bits = (shifted & ((1 << form.fraction_bits) - 1)) + root
    biased = lshr(shifted, form.fraction_bits)
    bias = const(form.bias, form.integer)
    exponent = biased - (where(tiny, bias + lift, bias) if subnormal else bias)
    # the integer in the last bits of 1.5 * 2**fraction_bits, as in round_with_integer
    rounder = int(np.asarray(form.rounder, form.dtype).view(form.integer))
    as_float = bitcast(exponent + rounder, form.dtype) - form.rounder
    return as_float, bitcast(mantissa_bits, form.dtype) - 1.0, exponent


def _log1p_tail(f: Scalar, half_square: Scalar) -> Scalar:
    """``log(1 + f) - f + f**2 / 2`` for ``f`` as `split` gives it."""
    if format_of(f) is FLOAT64:
        s = f / (f + 2.0)
        z = s * s
        return s * fma(polynomial(z, _ATANH), z, half_square)
    return (half_square * 2.0) * (f * polynomial(f, _LOG1P))


def log1p_reduced(f: Scalar, e: Scalar, f_low: Scalar | None = None) -> Scalar:
    """``log(1 + f + f_low) + e ln 2`` for a small `f_low`."""
    high, low = LN2[format_of(f)]
    half_square = f * (f * 0.5)
    tail = fma(e, low, _log1p_tail(f, half_square))
    if f_low is not None:
        tail = tail + f_low * (1.0 - f)
    return fma(e, high, f - (half_square - tail))


def is_ordinary(x: Scalar) -> Scalar:
    """Whether ``x`` is positive, finite and not subnormal."""
    return (x >= format_of(x).smallest_normal) & (x < np.inf)


def _off_domain(x: Scalar, result: Scalar) -> Scalar:
    """The logarithm of zero, of negative numbers and of infinity; else the result."""
    special = where(eq(x, 0), const(-np.inf, x.dtype), where(x < 0, np.nan, x))
    return where((x > 0) & (x < np.inf), result, special)


def _of_split(x: Scalar, function: Callable[[Scalar, Scalar], Scalar]) -> Scalar:
    """A logarithm by a function of ``f`` and ``e``."""
    e, f, _ = split(x)
    rare = _off_domain(x, function(f, e))
    e, f, _ = split(x, subnormal=False)
    return unlikely(~is_ordinary(x), rare, function(f, e))


@floating
def log(x: Scalar) -> Scalar:
    """The natural logarithm."""
    return _of_split(x, log1p_reduced)


def _log_to_base(x: Scalar, base: int) -> Scalar:
    constants = _BASES[format_of(x), base]
    factor_high, factor_low = constants.factor
    step_high, step_low = constants.step

    def function(f: Scalar, e: Scalar) -> Scalar:
        half_square = f * (f * 0.5)
        rest = _log1p_tail(f, half_square) - half_square
        mantissa = fma(f, factor_high, fma(rest, factor_high, f * factor_low))
        if step_low:
            mantissa = fma(e, step_low, mantissa)
        return fma(e, step_high, mantissa)

    return _of_split(x, function)


@floating
def log2(x: Scalar) -> Scalar:
    """The logarithm to base 2, exact for powers of two."""
    return _log_to_base(x, 2)


@floating
def log10(x: Scalar) -> Scalar:
    """The logarithm to base 10."""
    return _log_to_base(x, 10)


def log_of_ordinary_pair(high: Scalar, low: Scalar) -> Scalar:
    """``log(high + low)`` for a pair of a positive number that is neither tiny nor infinite.

    The result has its full relative precision also where the pair is near 1.
    """
    e, f, exponent = split(high, subnormal=False)
    # The low part in units of the mantissa; for the largest numbers the power is 0, and will do.
    # f is a multiple of the last place of that, so that Dekker's sum is exact.
    f, f_low = fast_two_sum(f, (low * 0.5) * power_of_two(1 - exponent, format_of(high)))
    return log1p_reduced(f, e, f_low)


def log_of_pair(high: Scalar, low: Scalar) -> Scalar:
    """``log(high + low)`` for any pair of a number that is not negative."""
    # the low part of a tiny number does not matter
    tiny = high < 2.0**-100
    usual = log_of_ordinary_pair(where(tiny, 1.0, high), where(tiny, 0, low))
    return unlikely(tiny | ~(high < np.inf), log(high), usual)


@floating
def log1p(x: Scalar) -> Scalar:
    """``log(1 + x)`` without the cancellation near zero."""
    result = log_of_ordinary_pair(*two_sum(const(1.0, x.dtype), x))
    special = where(eq(x, -1), const(-np.inf, x.dtype), where(x < 0, np.nan, x))
    # zero has the sign of x
    return where((x > -1) & (x < np.inf), copysign(result, x), special)
