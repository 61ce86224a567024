"""exp and related functions, by argument reduction and minimax polynomials.

``e**x = 2**k e**r`` with ``k = rint(x / ln 2)`` and ``abs(r) <= ln(2) / 2``.
``k ln 2`` is subtracted in two parts (Cody and Waite), and ``e**r`` is a minimax polynomial.

References
----------
W. J. Cody and W. Waite, Software Manual for the Elementary Functions (1980).
J.-M. Muller, Elementary Functions, 3rd ed. (2016), chapter 11.
"""

from __future__ import annotations

from functrans.loop.scalar import Scalar, const, fma, unlikely, where
from functrans.records import NamedTuple
from functrans.vecmath.logarithm import LN2
from functrans.vecmath.polynomial import (
    FLOAT32,
    FLOAT64,
    Format,
    Pair,
    fast_two_sum,
    floating,
    format_of,
    polynomial,
    power_of_two,
    round_with_integer,
    scale,
    times_power_of_two,
)

LOG2_E = 1.4426950408889634


class _Table(NamedTuple):
    lowest: float  # from here down ``e**x`` rounds to zero
    highest: float  # from here up it is infinite
    exp: tuple[float, ...]  # ``(e**r - 1 - r) / r**2``, error relative to ``e**r``
    expm1: tuple[float, ...]  # the same, error relative to ``e**r - 1``
    exp2: tuple[float, ...]  # ``(2**r - 1) / r``, error relative to ``2**r``


_TABLES: dict[Format, _Table] = {
    FLOAT64: _Table(
        lowest=-746.0,
        highest=710.0,
        exp=(
            0.5000000000000011, 0.1666666666666654, 0.0416666666665382, 0.008333333333474717,
            0.0013888888940762135, 0.00019841269481998732, 2.4801496128959518e-05,
            2.755763991343673e-06, 2.7629226863664846e-07, 2.497775371010428e-08,
        ),
        expm1=(
            0.5, 0.16666666666666677, 0.04166666666666669, 0.008333333333321776,
            0.0013888888888887458, 0.00019841269885288905, 2.480158729212175e-05,
            2.7557245303467554e-06, 2.755731959470752e-07, 2.51086087267423e-08,
            2.089644692783487e-09,
        ),
        exp2=(
            0.6931471805599453, 0.24022650695910172, 0.055504108664824574, 0.009618129107577077,
            0.0013333558145567713, 0.00015403530478848865, 1.5252734737786904e-05,
            1.3215424483882179e-06, 1.01776561458948e-07, 7.075616972964386e-09,
            4.519309614289022e-10,
        ),
    ),
    FLOAT32: _Table(
        lowest=-104.0,
        highest=89.0,
        exp=(
            0.4999999403953552, 0.16666516661643982, 0.04166810214519501, 0.008369196206331253,
            0.0013839039020240307,
        ),
        expm1=(
            0.5, 0.16666635870933533, 0.041666511446237564, 0.00834161788225174,
            0.001393034472130239, 0.00014917360385879874,
        ),
        exp2=(
            0.6931471824645996, 0.24022594094276428, 0.055503662675619125, 0.009625446982681751,
            0.0013387920334935188, 0.00013331430091056973,
        ),
    ),
}  # fmt: skip

EXPM1 = {form: table.expm1 for form, table in _TABLES.items()}


def at_most(x: Scalar, high: float) -> Scalar:
    """``x``, or the bound if that is less; a NaN stays a NaN."""
    return where(x > high, high, x)


def clamp(x: Scalar, low: float, high: float) -> Scalar:
    """``x`` between the bounds; a NaN stays a NaN."""
    below = at_most(x, high)
    return where(below < low, low, below)


def divided_by_ln2(x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """``k`` (as a float and as an integer) and ``r`` of ``x = k ln 2 + r``."""
    form = format_of(x)
    high, low = LN2[form]
    k, exponent = round_with_integer(fma(x, LOG2_E, form.rounder))
    return k, exponent, fma(-k, low, fma(-k, high, x))


def exp_scaled(x: Scalar, shift: int) -> Scalar:
    """``2**shift * e**x``, overflowing only where that product does."""
    table = _TABLES[format_of(x)]
    highest = table.highest + 1.0 - min(shift, 0)  # one unit is more than one power of two
    below = at_most(x, highest)
    # Intel's CPUs take 25 times as long for a vector in which some product underflows, so zeros
    # are chosen: masked logits are far below
    vanishes = below <= table.lowest
    k, _, r = divided_by_ln2(where(vanishes, 0.0, below))
    mantissa = fma(fma(polynomial(r, table.exp), r, 1.0), r, 1.0)
    return where(vanishes, 0.0, scale(mantissa, k + float(shift) if shift else k))


@floating
def exp(x: Scalar) -> Scalar:
    """``e**x``."""
    return exp_scaled(x, 0)


def exp_of_pair(argument: Pair, factor: Pair) -> tuple[Pair, Scalar]:
    """``factor * e**argument`` for a factor near 1: an unrounded pair, and an exponent to `scale`.

    The argument is a pair, since its rounding error would be visible; the product may be subnormal.
    """
    form = format_of(argument[0])
    table = _TABLES[form]
    clamped = clamp(argument[0], table.lowest, table.highest)
    k, _ = round_with_integer(fma(clamped, LOG2_E, form.rounder))
    ln2, ln2_low = LN2[form]
    subtracted, rest = fast_two_sum(fma(-k, ln2, clamped), k * -ln2_low)
    r, r_low = fast_two_sum(subtracted, argument[1])
    less_one, low = fast_two_sum(r, fma(polynomial(r, table.expm1) * r, r, r_low + rest))
    return (factor[0], fma(less_one, factor[0], fma(low, factor[0], factor[1]))), k


def exp2_mantissa(r: Scalar) -> Scalar:
    """``2**r`` for ``r`` between -1/2 and 1/2."""
    return fma(polynomial(r, _TABLES[format_of(r)].exp2), r, 1.0)


def exp2_normal(high: Scalar, low: Scalar | None) -> Scalar:
    """``2**(high + low)`` for a small `low`, where that is a normal number."""
    form = format_of(high)
    k, exponent = round_with_integer(high + form.rounder)
    r = high - k if low is None else (high - k) + low
    return times_power_of_two(exp2_mantissa(r), exponent)


def exp2_of_pair(high: Scalar, low: Scalar | None) -> Scalar:
    """``2**(high + low)`` for a small `low`."""
    form = format_of(high)
    limit = form.bias + 2.0
    below = at_most(high, limit)
    vanishes = below <= -limit - form.fraction_bits
    near = where(vanishes, 0.0, below)
    k, _ = round_with_integer(near + form.rounder)
    r = near - k if low is None else (near - k) + low
    return where(vanishes, 0.0, scale(exp2_mantissa(r), k))


@floating
def exp2(x: Scalar) -> Scalar:
    """``2**x``."""
    ordinary = abs(x) < format_of(x).bias - 2.0
    return unlikely(~ordinary, exp2_of_pair(x, None), exp2_normal(x, None))


def expm1_pair(x: Scalar) -> Pair:
    """``e**x - 1`` as an unrounded sum of two numbers, the larger first."""
    form = format_of(x)
    table = _TABLES[form]
    # below the least argument the result rounds to -1
    clamped = clamp(x, -0.75 * (form.fraction_bits + 2), table.highest)
    _, exponent, r = divided_by_ln2(clamped)
    # half of the power, and twice the result, since 2**1024 overflows where e**x may not
    power = power_of_two(exponent - 1, form)
    less_one = power - 0.5
    high = fma(r, power, less_one)
    low = fma(r, power, less_one - high)
    return high * 2.0, fma(polynomial(r, table.expm1) * (r * r), power, low) * 2.0


@floating
def expm1(x: Scalar) -> Scalar:
    """``e**x - 1`` without the cancellation near zero."""
    high, low = expm1_pair(x)
    return where(abs(x) < format_of(x).smallest_normal, x, high + low)


@floating
def sigmoid(x: Scalar) -> Scalar:
    """``1 / (1 + e**-x)``, the logistic function."""
    tail = exp_scaled(-abs(x), 0)
    negative = x < 0
    denominator, low = fast_two_sum(const(1.0, x.dtype), tail)
    result = where(negative, tail, const(1.0, x.dtype)) / denominator
    # the rounding error of the denominator, by its reciprocal, which is one of the two results
    return fma(result * -low, where(negative, 1.0 - result, result), result)
