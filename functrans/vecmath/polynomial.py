"""Building blocks of the functions: formats, polynomials, error-free sums and products.

A pair ``(high, low)`` of scalars stands for their exact sum, with ``abs(low)`` at most half a unit
in the last place of ``high``; it carries about twice the digits of the format.

References
----------
T. J. Dekker, "A floating-point technique for extending the available precision" (1971).
J.-M. Muller et al., Handbook of Floating-Point Arithmetic, 2nd ed. (2018), chapters 4 and 14.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.loop.functions import Function, parameter
from functrans.loop.scalar import Scalar, bitcast, const, convert, fma, ne, where
from functrans.records import NamedTuple

Pair = tuple[Scalar, Scalar]


class Format(NamedTuple):
    """The layout of a binary floating-point format, and the integer type of its size."""

    dtype: np.dtype[Any]
    integer: np.dtype[Any]
    fraction_bits: int
    bias: int
    rounder: float
    """1.5 * 2**fraction_bits: adding it rounds to an integer, found in the last bits."""

    @property
    def sign_bit(self) -> int:
        """The integer with only the sign bit set (as a signed integer: its least value)."""
        return int(np.iinfo(self.integer).min)

    @property
    def smallest_normal(self) -> float:
        """The least positive number that has the full precision."""
        return float(np.finfo(self.dtype).smallest_normal)


FLOAT32 = Format(np.dtype(np.float32), np.dtype(np.int32), 23, 127, 1.5 * 2.0**23)
FLOAT64 = Format(np.dtype(np.float64), np.dtype(np.int64), 52, 1023, 1.5 * 2.0**52)


def format_of(x: Scalar) -> Format:
    """The format of a float32 or float64 scalar."""
    return FLOAT32 if x.dtype == FLOAT32.dtype else FLOAT64


def floating(function: Callable[..., Scalar]) -> Callable[..., Scalar]:
    """Extend a function of float32 or float64 scalars to float16, which it computes in float32."""

    @wraps(function)
    def checked(*args: Scalar, **params: Any) -> Scalar:
        dtype = args[0].dtype
        if dtype == np.float16:
            return convert(function(*(convert(x, np.float32) for x in args), **params), dtype)
        if any(x.dtype != dtype for x in args) or dtype not in (np.float32, np.float64):
            names = ", ".join(str(x.dtype) for x in args)
            raise TypeError(f"{function.__name__} takes floats of one dtype, and got {names}")
        return function(*args, **params)

    return checked


def in_float64(function: Callable[..., Scalar]) -> Callable[..., Scalar]:
    """Extend a function of float64 scalars to smaller floats, which it computes in float64."""

    @wraps(function)
    def widened(*args: Scalar, **params: Any) -> Scalar:
        wide = (convert(x, FLOAT64.dtype) for x in args)
        return convert(function(*wide, **params), args[0].dtype)

    return floating(widened)


def polynomial(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """``sum c[i] x**i``.

    Long polynomials use Horner's rule in ``x**2``, with the coefficients ``c[i] + c[i + 1] x``:
    one more multiplication, half the chain of dependent operations, and, unlike with a split into
    even and odd powers, no larger intermediate results if the signs alternate.
    """
    return _in_powers(x, coefficients, 1 if len(coefficients) < 6 else 2)


def horner(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """``sum c[i] x**i`` by Horner's rule, and the terms from ``x**4`` on, if many, in ``x**4``.

    A CPU waits for chains of some ten and more dependent operations. The rounding errors of the
    last four steps are nearly all that reach the result.
    """
    if len(coefficients) < 9:
        return _in_powers(x, coefficients, 1)
    result = _in_powers(x, coefficients[4:], 4)
    for coefficient in reversed(coefficients[:4]):
        result = fma(result, x, coefficient)
    return result


def _in_powers(x: Scalar, coefficients: Sequence[float], power: int) -> Scalar:
    """``sum c[i] x**i`` by Horner's rule in ``x**power`` (1, 2 or 4), as in Estrin's scheme."""
    terms = [const(c, x.dtype) for c in coefficients]
    while power > 1:
        pairs = (terms[i : i + 2] for i in range(0, len(terms), 2))
        terms = [fma(pair[1], x, pair[0]) if len(pair) == 2 else pair[0] for pair in pairs]
        x, power = x * x, power // 2
    result = terms[-1]
    for term in reversed(terms[:-1]):
        result = fma(result, x, term)
    return result


def horner_pair(x: Scalar, coefficients: Sequence[float], lows: Sequence[float]) -> Pair:
    """`horner` with the rounding errors of the last steps in the low part.

    `lows` are added to the first coefficients, and say for how many steps this is done.
    """
    high = horner(x, coefficients[len(lows) :])
    low = const(0.0, x.dtype)
    for first, second in zip(reversed(coefficients[: len(lows)]), reversed(lows), strict=True):
        total = fma(high, x, first)
        # exact if the product is the smaller number, otherwise accurate enough
        low = fma(low, x, fma(high, x, first - total) + second)
        high = total
    return high, low


def round_with_integer(shifted: Scalar) -> Pair:
    """The integer nearest to ``shifted - rounder``, as a float, and as an integer modulo 2**22.

    The caller adds the rounder, often in an fma. Adding rounds to an integer, whose two's
    complement is then in the last bits. (Before AVX-512, there is no vector conversion of float64
    to int64.) Of an exponent, the other bits do not matter, since they are shifted out.
    """
    form = format_of(shifted)
    return shifted - form.rounder, bitcast(shifted, form.integer)


def power_of_two(exponent: Scalar, form: Format) -> Scalar:
    """``2**exponent`` for an integer, modulo 2**22, within the exponents of the normal numbers."""
    return bitcast((exponent + form.bias) << form.fraction_bits, form.dtype)


def times_power_of_two(x: Scalar, exponent: Scalar) -> Scalar:
    """``x * 2**exponent``, modulo 2**22, where both that and ``x`` are normal numbers."""
    form = format_of(x)
    return bitcast(bitcast(x, form.integer) + (exponent << form.fraction_bits), form.dtype)


def scale(x: Scalar, k: Scalar) -> Scalar:
    """``x * 2**k`` for an integer `k`, given as a float, even if the result is not a normal number.

    `x` is 0, infinite, NaN, or between 2**-60 and 2**60 in size, and `k` at most 1900 in size
    (float32: 180).
    """
    return _scaling(format_of(x))((x, k))


@cached(2)
def _scaling(form: Format) -> Function:
    """A function of a number and an integer; with AVX-512, it is one instruction."""
    x, k = parameter(0, form.dtype), parameter(1, form.dtype)
    # the product with the first power is exact, and that with the second is rounded
    large = 64 if form is FLOAT32 else 960
    down = k < 0
    # the integer is in the last bits of the sum, and all others are shifted out
    origin = form.rounder + form.bias
    shifted = k + where(down, const(origin + large, form.dtype), origin - large)
    first = bitcast(bitcast(shifted, form.integer) << form.fraction_bits, form.dtype)
    result = (x * first) * where(down, const(2.0**-large, form.dtype), 2.0**large)
    return Function((x, k), result, "scale", instruction="scalef")


def flip_sign(x: Scalar, sign: Scalar) -> Scalar:
    """``x`` with its sign changed where the integer scalar `sign` has its sign bit set."""
    form = format_of(x)
    return bitcast(bitcast(x, form.integer) ^ (sign & form.sign_bit), form.dtype)


def is_nan(x: Scalar) -> Scalar:
    """Whether ``x`` is not a number."""
    return ne(x, x)


def first_nan(result: Scalar, *operands: Scalar) -> Scalar:
    """The result, or NaN where an operand is NaN."""
    for operand in operands:
        result = where(is_nan(operand), operand, result)
    return result


def fast_two_sum(x: Scalar, y: Scalar) -> Pair:
    """``x + y`` and its error, for ``abs(x) >= abs(y)`` or ``x == 0`` (Dekker)."""
    total = x + y
    return total, y - (total - x)


def two_sum(x: Scalar, y: Scalar) -> Pair:
    """``x + y`` and its error (Knuth)."""
    total = x + y
    y_part = total - x
    return total, (x - (total - y_part)) + (y - y_part)


def rounded_product(x: Scalar, y: Scalar | float) -> Scalar:
    """``x * y`` that no printer may fuse with a later sum.

    Where the error of a product is computed, a fused sum of the product would include that error
    twice. An fma is never fused again.
    """
    return fma(x, y, -0.0)


def two_product(x: Scalar, y: Scalar | float) -> Pair:
    """``x * y`` and its error."""
    product = rounded_product(x, y)
    return product, fma(x, y, -product)


def pair_times(x: Pair, y: Pair) -> Pair:
    """The product of two pairs."""
    high, low = two_product(x[0], y[0])
    return fast_two_sum(high, fma(x[0], y[1], fma(x[1], y[0], low)))


def pair_constant(high: float, low: float, dtype: Any) -> Pair:
    """A constant pair."""
    return const(high, dtype), const(low, dtype)
