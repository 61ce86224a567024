"""log and related functions, by argument reduction and a series of atanh.

``x = 2**e m`` with ``m`` between sqrt(1/2) and sqrt(2), and ``f = m - 1``.
``log(1 + f) = 2 atanh(s)`` with ``s = f / (2 + f)``, an odd series in ``s`` that converges fast.
Since ``2 s = f - s f``, it is ``f`` minus a small correction, in which the rounding of ``s`` hides.
The one division costs less than a polynomial in ``f`` of the same accuracy.

References
----------
P. T. P. Tang, "Table-driven implementation of the logarithm function" (1990).
FreeBSD msun, e_log.c (K. C. Ng, 1993), for the order of the sums.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from functrans.loop.scalar import (
    Scalar,
    bitcast,
    const,
    convert,
    copysign,
    eq,
    fma,
    lshr,
    ratio,
    unlikely,
    where,
)
from functrans.records import NamedTuple
from functrans.vecmath.polynomial import (
    FLOAT32,
    FLOAT64,
    Format,
    Pair,
    fast_two_sum,
    floating,
    format_of,
    polynomial,
    two_product,
)

SQRT_HALF = 0.7071067811865476

# (2 atanh(s) - 2 s) / s**3 in z = s**2
ATANH: dict[Format, tuple[float, ...]] = {
    FLOAT64: (
        0.666666666666667, 0.3999999999989904, 0.28571428626340567, 0.22222211067545497,
        0.18182894203970434, 0.1533155167426755, 0.1461853820868174,
    ),
    FLOAT32: (0.6666668653488159, 0.39988210797309875, 0.29604554176330566),
}  # fmt: skip


class _Base(NamedTuple):
    """The constants of ``log_b(x) = log(1 + f) / ln(b) + e log_b(2)``, the last as a pair."""

    factor: float
    step: tuple[float, float]


_BASES: dict[tuple[Format, int], _Base] = {
    (FLOAT64, 2): _Base(1.4426950408889634, (1.0, 0.0)),
    (FLOAT32, 2): _Base(1.4426950216293335, (1.0, 0.0)),
    (FLOAT64, 10): _Base(0.4342944819032518, (0.3010299956639812, 0.0)),
    (FLOAT32, 10): _Base(0.4342944920063019, (0.3010300099849701, -1.432098883924482e-08)),
}

LN2: dict[Format, tuple[float, float]] = {
    FLOAT64: (0.6931471805599453, 2.3190468138462996e-17),
    FLOAT32: (0.6931471824645996, -1.9046542121259336e-09),
}
"""ln(2) as a pair: multiples of the first number by an exponent are subtracted exactly."""


class Split(NamedTuple):
    """``x = 2**e (1 + f)``."""

    f: Scalar
    e: Scalar  # the exponent as a float
    field: Scalar  # the exponent as an integer, shifted to its position in the bits of a number


def split(x: Scalar) -> Split:
    """The parts of a positive normal number."""
    form = format_of(x)
    bits = bitcast(x, form.integer)
    above = bits - int(np.asarray(SQRT_HALF, form.dtype).view(form.integer))
    field = above & -(1 << form.fraction_bits)
    if form is FLOAT32:
        e = convert(above >> form.fraction_bits, form.dtype)
    else:
        # before AVX-512 there is no vector conversion of int64: instead, the integer is put into
        # the last bits of 1.5 * 2**52, as in round_with_integer
        biased = lshr(above + (form.bias << form.fraction_bits), form.fraction_bits)
        rounder = int(np.asarray(form.rounder, form.dtype).view(form.integer))
        e = bitcast(biased + (rounder - form.bias), form.dtype) - form.rounder
    return Split(bitcast(bits - field, form.dtype) - 1.0, e, field)


def _correction(f: Scalar) -> Scalar:
    """``f - log(1 + f)``, for ``f`` as `split` gives it."""
    s = ratio(f, f + 2.0)
    z = s * s
    return s * fma(-z, polynomial(z, ATANH[format_of(f)]), f)


def log1p_reduced(f: Scalar, e: Scalar, f_low: Scalar | None = None) -> Scalar:
    """``log(1 + f + f_low) + e ln 2`` for a small `f_low`."""
    high, low = LN2[format_of(f)]
    correction = fma(e, -low, _correction(f))
    if f_low is not None:
        correction = fma(f_low, f - 1.0, correction)
    return fma(e, high, f - correction)


def log_pair(x: Scalar) -> Pair:
    """The natural logarithm of a positive normal number, not rounded."""
    f, e, _ = split(x)
    ln2, ln2_low = LN2[format_of(x)]
    product, low = two_product(e, ln2)
    # the product is 0 or at least as large as f
    high, rest = fast_two_sum(product, f)
    return fast_two_sum(high, (rest + fma(e, ln2_low, low)) - _correction(f))


def is_ordinary(x: Scalar) -> Scalar:
    """Whether ``x`` is positive, finite and not subnormal."""
    form = format_of(x)
    least = 1 << form.fraction_bits
    # the sum of the largest numbers' bits is negative, as is that of negative numbers
    return (bitcast(x, form.integer) + least) >= 2 * least


def _off_domain(x: Scalar, result: Scalar) -> Scalar:
    """The logarithm of zero, of negative numbers and of infinity; else the result."""
    special = where(eq(x, 0), const(-np.inf, x.dtype), where(x < 0, np.nan, x))
    return where((x > 0) & (x < np.inf), result, special)


def _of_split(x: Scalar, function: Callable[[Scalar, Scalar], Scalar]) -> Scalar:
    """A logarithm by a function of ``f`` and ``e``."""
    form = format_of(x)
    lift = form.fraction_bits + 2
    tiny = x < form.smallest_normal
    lifted = split(where(tiny, x * 2.0**lift, x))
    rare = function(lifted.f, lifted.e - where(tiny, const(lift, x.dtype), 0))
    parts = split(x)
    return unlikely(~is_ordinary(x), _off_domain(x, rare), function(parts.f, parts.e))


@floating
def log(x: Scalar) -> Scalar:
    """The natural logarithm."""
    return _of_split(x, log1p_reduced)


def _log_to_base(x: Scalar, base: int) -> Scalar:
    factor, (step, step_low) = _BASES[format_of(x), base]

    def function(f: Scalar, e: Scalar) -> Scalar:
        correction = _correction(f) * factor
        if step_low:
            correction = fma(e, -step_low, correction)
        mantissa = fma(f, factor, -correction)
        return e + mantissa if step == 1.0 else fma(e, step, mantissa)

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
    form = format_of(high)
    f, e, field = split(high)
    # The low part, scaled like the mantissa; for the largest numbers the power is 0, which will do.
    # f is a multiple of the last place of the low part, so that Dekker's sum is exact.
    unit = bitcast(((form.bias + 1) << form.fraction_bits) - field, form.dtype)
    f, f_low = fast_two_sum(f, (low * 0.5) * unit)
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
    form = format_of(x)
    total = x + 1.0
    _, e, field = split(total)
    # f = (1 + x) / 2**e - 1 with one rounding, scaled by 4, since 2**-e may be subnormal
    unit = bitcast(((form.bias + 2) << form.fraction_bits) - field, form.dtype)
    f = fma(x, unit, unit - 4.0) * 0.25
    # zero has the sign of x
    result = copysign(log1p_reduced(f, e), x)
    special = where(eq(x, -1), const(-np.inf, x.dtype), where(x < 0, np.nan, x))
    return unlikely(~is_ordinary(total), special, result)
