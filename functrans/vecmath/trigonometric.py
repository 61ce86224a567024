"""sin, cos and tan: ``x = k pi + r``, for any finite x.

The sine takes integers ``k``, the cosine halves of odd integers, so that both are sines of an ``r``
between -pi/2 and pi/2: one polynomial, and no choice between two. The tangent takes halves of
integers, and for the odd ones is minus the reciprocal of the tangent of ``r``.

Up to a limit, ``k pi`` is subtracted in three parts with fma (Cody and Waite). Beyond it,
``x / pi`` modulo 2 is needed to about 120 bits: ``x`` is an integer ``y`` times ``2**s`` for one
of 128 steps of ``s``, a table holds ``2**s / pi`` modulo 2 to 212 bits, and the four products with
``y`` are added without error. In float32, integers are multiplied, as Payne and Hanek do: float64
would halve the number of lanes of all operations in the loop.

References
----------
M. Payne and R. Hanek, "Radian reduction for trigonometric functions" (1983).
J.-M. Muller, Elementary Functions, 3rd ed. (2016), chapter 12.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from functrans.caches import once
from functrans.loop.scalar import (
    Scalar,
    bitcast,
    const,
    convert,
    fma,
    lookup,
    lshr,
    maximum,
    rint,
    unlikely,
    where,
)
from functrans.records import NamedTuple
from functrans.vecmath.polynomial import (
    FLOAT32,
    FLOAT64,
    Format,
    fast_two_sum,
    flip_sign,
    floating,
    format_of,
    horner,
    pair_constant,
    pair_times,
    polynomial,
    power_of_two,
    two_product,
    two_sum,
)

# floor(2**1280 / pi): the bits of 1 / pi that the largest float64 needs, and 200 more
_INVERSE_PI_BITS = 1280
_INVERSE_PI = int(
    "517cc1b727220a94fe13abe8fa9a6ee06db14acc9e21c820ff28b1d5ef5de2b0db92371d2126e970"
    "0324977504e8c90e7f0ef58e5894d39f74411afa975da24274ce38135a2fbf209cc8eb1cc1a99cfa"
    "4e422fc5defc941d8ffc4bffef02cc07f79788c5ad05368fb69b3f6793e584dba7a31fb34f2ff516"
    "ba93dd63f5f2f8bd9e839cfbc529497535fdafd88fc6ae842b0198237e3db5d5f867de104d7a1b0e",
    16,
)


class _Table(NamedTuple):
    limit: float  # below this argument, three parts of pi suffice
    pi: tuple[float, float, float]
    sin: tuple[float, ...]  # ``(sin(r) - r) / r**3`` in ``r**2``, up to pi/2
    tan: tuple[float, ...]  # ``(tan(r) - r) / r**3`` in ``r**2``, up to pi/4


_TABLES: dict[Format, _Table] = {
    FLOAT64: _Table(
        limit=2.0**30,
        pi=(3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33),
        sin=(
            -0.16666666666666666, 0.008333333333333201, -0.00019841269841209424,
            2.7557319210906967e-06, -2.505210683430808e-08, 1.6058937107710364e-10,
            -7.642910253616848e-13, 2.7202029851343925e-15,
        ),
        tan=(
            0.3333333333333257, 0.13333333333442846, 0.05396825391328737, 0.0218694899270656,
            0.00886321472177926, 0.003592328815658098, 0.001454518607593791,
            0.0005960635938447045, 0.00021945727151577487, 0.0001425027493260438,
            -3.4754206012581255e-05, 9.709254746612565e-05, -4.8974488093881483e-05,
            2.184252490556466e-05,
        ),
    ),
    FLOAT32: _Table(
        limit=2.0**15,
        pi=(3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15),
        sin=(
            -0.16666658222675323, 0.00833303015679121, -0.00019806856289505959,
            2.5995500436692964e-06,
        ),
        tan=(
            0.33333131670951843, 0.1333947330713272, 0.05335426330566406, 0.02463696524500847,
            0.0027837830130010843, 0.009586545638740063,
        ),
    ),
}  # fmt: skip


class Grid(NamedTuple):
    """The numbers ``k`` to choose from: ``n step + start`` for all integers ``n``."""

    step: float
    start: float


SINE, COSINE, TANGENT = Grid(1.0, 0.0), Grid(1.0, 0.5), Grid(0.5, 0.0)


class Reduced(NamedTuple):
    """``x = k pi + r + r_low``, modulo ``2 pi``, with the least ``r`` for a ``k`` of a grid."""

    n: Scalar  # which ``k``: an integer scalar, of which only the last bits are right
    r: Scalar
    r_low: Scalar


def _reduce_moderate(x: Scalar, grid: Grid) -> Reduced:
    form = format_of(x)
    first, second, third = (-grid.step * part for part in _TABLES[form].pi)
    per_step = 1 / (np.pi * grid.step)
    if grid.start:
        shifted = fma(x, per_step, -grid.start / grid.step) + form.rounder
    else:
        shifted = fma(x, per_step, form.rounder)
    n = shifted - form.rounder
    steps = n + grid.start / grid.step if grid.start else n
    # exact, except for the cosine of a small x, where the error does not matter
    r_first = fma(steps, first, x)
    product, error = two_product(steps, second)
    # r_first is a multiple of the last place of the product, so that Dekker's sum is exact
    r, r_low = fast_two_sum(r_first, product)
    return Reduced(bitcast(shifted, form.integer), r, fma(steps, third, r_low + error))


# of numbers from 2 up to 2**17
_FIRST_SHIFT = 1 - FLOAT64.fraction_bits


@once
def _inverse_pi_table() -> list[tuple[float, ...]]:
    """``2**s / pi`` modulo 2 as a sum of four: a table each.

    The row is the exponent of ``x`` from 2 up, by 16. There ``x = y 2**s`` with an integer ``y`` of
    at most 68 bits; or ``s = 0``, where the integer part of ``x`` is not as long.
    """
    rows = []
    for row in range(64):
        rest = (_INVERSE_PI << max(0, 16 * row + _FIRST_SHIFT)) % (2 << _INVERSE_PI_BITS)
        values = []
        for _ in range(4):
            part = rest / (1 << _INVERSE_PI_BITS)
            numerator, denominator = part.as_integer_ratio()
            rest -= (numerator << _INVERSE_PI_BITS) // denominator
            values.append(part)
        rows.append(tuple(values))
    return list(zip(*rows, strict=True))


@once
def _inverse_pi_integers() -> list[tuple[int, ...]]:
    """``2**s / pi`` modulo 2, in units of ``2**-63``, and 32 more bits: a table each.

    The row is the exponent of a float32 from 2 up, ``x = y 2**s`` with an integer of 24 bits.
    """
    rows = []
    for row in range(128):
        s = row + 1 - FLOAT32.fraction_bits
        bits = (_INVERSE_PI >> (_INVERSE_PI_BITS - 95 - s)) % (1 << 96)
        high = bits >> 32
        rows.append((high - (high >> 63 << 64), bits % (1 << 32)))
    return list(zip(*rows, strict=True))


def _modulo_2(x: Scalar) -> Scalar:
    """``x`` minus an even integer, exactly: between -1 and 1."""
    return fma(rint(x * 0.5), -2.0, x)


def _nearest(fraction: Scalar, grid: Grid) -> tuple[Scalar, Scalar]:
    """``n``, as an integer, and ``k`` for a number that is not large."""
    form = format_of(fraction)
    n = rint((fraction - grid.start) * (1 / grid.step))
    return bitcast(n + form.rounder, form.integer), n * grid.step + grid.start


def _reduce_huge(x: Scalar, grid: Grid) -> Reduced:
    row = lshr(bitcast(x, FLOAT64.integer), FLOAT64.fraction_bits + 4) & 63
    t0, t1, t2, t3 = (lookup(table, row, x.dtype) for table in _inverse_pi_table())
    y = x * power_of_two(-maximum((row << 4) + _FIRST_SHIFT, 0), FLOAT64)
    (p0, e0), (p1, e1), (p2, e2) = (two_product(y, t) for t in (t0, t1, t2))
    p0, e0, p1 = _modulo_2(p0), _modulo_2(e0), _modulo_2(p1)
    n, k = _nearest(p0 + (e0 + p1), grid)
    terms = [*two_sum(p0, -k), e0, p1, e1, p2, e2, y * t3]
    # the leading terms may cancel down to 2**-62: each pass leaves the sum in fewer of them
    for _ in range(3):
        for i in range(len(terms) - 1, 0, -1):
            terms[i - 1], terms[i] = two_sum(terms[i - 1], terms[i])
    fraction = fast_two_sum(terms[0], terms[1] + terms[2])
    return Reduced(n, *pair_times(fraction, pair_constant(*_TABLES[FLOAT64].pi[:2], x.dtype)))


def _reduce_huge_float32(x: Scalar, grid: Grid) -> Reduced:
    bits = bitcast(x, FLOAT32.integer)
    one = 1 << FLOAT32.fraction_bits
    y = convert((bits & (one - 1)) | one, np.int64)
    row = convert(lshr(bits, FLOAT32.fraction_bits) & 127, np.int64)
    high, low = (lookup(table, row, np.int64) for table in _inverse_pi_integers())
    # x / pi in units of 2**-63: what overflows is an even integer
    quotient = y * high + lshr(y * low, 32)
    # (quotient - start) / step: its nearest integer, and the remainder in units of 2**-64
    steps = (quotient << 1) if grid.step == 0.5 else quotient - int(grid.start * 2**63)
    n = convert(lshr(steps + (1 << 62), 63), FLOAT32.integer)
    rest = steps << 1
    size = abs(rest)
    upper = convert(lshr(size, 40), x.dtype)
    lower = convert(size & ((1 << 40) - 1), x.dtype) * 2.0**-40
    pi, pi_low, _ = _TABLES[FLOAT32].pi
    unit = grid.step * 2.0**-24
    r, r_low = pair_times(
        fast_two_sum(upper, lower), pair_constant(pi * unit, pi_low * unit, x.dtype)
    )
    # NaN for an infinity
    r = where(x < np.inf, where(rest < 0, -r, r), np.nan)
    return Reduced(n, r, where(rest < 0, -r_low, r_low))


def _reduce_turns(x: Scalar, grid: Grid) -> Reduced:
    """The reduction of ``pi x``."""
    fraction = _modulo_2(x)
    n, k = _nearest(fraction, grid)
    pi = pair_constant(*_TABLES[format_of(x)].pi[:2], x.dtype)
    return Reduced(n, *pair_times((fraction - k, const(0.0, x.dtype)), pi))


def _sine(reduced: Reduced) -> Scalar:
    """``sin(r + n pi)``."""
    n, r, r_low = reduced
    form = format_of(r)
    z = r * r
    # cos(r), the factor of r_low, need not be accurate
    tail = fma(z * -0.5, r_low, r_low)
    sine = r + fma(z * r, horner(z, _TABLES[form].sin), tail)
    return flip_sign(sine, n << (form.dtype.itemsize * 8 - 1))


def _tangent(reduced: Reduced) -> tuple[Scalar, Scalar]:
    """``tan(r + n pi / 2)`` as a fraction."""
    n, r, r_low = reduced
    form = format_of(r)
    z = r * r
    tail = fma(z, r_low, r_low)
    tangent = r + fma(z * r, polynomial(z, _TABLES[form].tan), tail)
    odd = (n << (form.dtype.itemsize * 8 - 1)) < 0
    one = const(1.0, r.dtype)
    return where(odd, -one, tangent), where(odd, tangent, one)


def _of_reduced(x: Scalar, grid: Grid, function: Callable[[Reduced], Scalar]) -> Scalar:
    """The function of non-negative ``x``; the long reduction is executed only for huge ones."""
    form = format_of(x)
    reduce_huge = _reduce_huge if form is FLOAT64 else _reduce_huge_float32
    return unlikely(
        x > _TABLES[form].limit, function(reduce_huge(x, grid)), function(_reduce_moderate(x, grid))
    )


def sinpi(x: Scalar) -> Scalar:
    """``sin(pi x)``."""
    return _sine(_reduce_turns(x, SINE))


def cotpi(x: Scalar) -> Scalar:
    """``1 / tan(pi x)``."""
    numerator, denominator = _tangent(_reduce_turns(x, TANGENT))
    return denominator / numerator


@floating
def sin(x: Scalar) -> Scalar:
    """The sine, of any finite argument."""
    return flip_sign(_of_reduced(abs(x), SINE, _sine), bitcast(x, format_of(x).integer))


@floating
def cos(x: Scalar) -> Scalar:
    """The cosine, of any finite argument: ``cos(x)`` is ``-sin(x - pi / 2)``."""
    return -_of_reduced(abs(x), COSINE, _sine)


@floating
def tan(x: Scalar) -> Scalar:
    """The tangent, of any finite argument."""

    def quotient(reduced: Reduced) -> Scalar:
        numerator, denominator = _tangent(reduced)
        return numerator / denominator

    return flip_sign(_of_reduced(abs(x), TANGENT, quotient), bitcast(x, format_of(x).integer))


@floating
def deg2rad(x: Scalar) -> Scalar:
    """Radians of degrees; the factor is not rounded to float16."""
    return x * (math.pi / 180)


@floating
def rad2deg(x: Scalar) -> Scalar:
    """Degrees of radians; the factor is not rounded to float16."""
    return x * (180 / math.pi)
