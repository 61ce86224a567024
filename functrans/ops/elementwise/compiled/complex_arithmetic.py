"""Arithmetic, comparisons and choices of complex numbers, as formulas on their parts.

The formulas are NumPy's, so that infinities, NaN and signed zeros agree with NumPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.primitive import Primitive
from functrans.ir.types import broadcast_shape, is_complex, real_dtype
from functrans.ops.arrays.structural import absent as absent_array
from functrans.ops.arrays.structural import broadcast_to, full_p, zeros
from functrans.ops.arrays.structural import cast as cast_p
from functrans.ops.arrays.structural import iota as iota_p
from functrans.ops.compiled.pairs import Pair, Real
from functrans.ops.elementwise import choice, compare, logic, rounding
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.power import hypot

# -- parts -----------------------------------------------------------------------------------------


def real(x: Pair) -> Any:
    return x.re


def imag(x: Pair) -> Any:
    return x.im


def conj(x: Pair) -> Pair:
    return Pair(x.re, -x.im)


def complex_(x: Any, y: Any) -> Pair:
    # broadcast, and not with zeros added: the sum of -0.0 and 0.0 is 0.0
    shape = broadcast_shape(x.shape, y.shape)
    return Pair(broadcast_to(x, shape=shape), broadcast_to(y, shape=shape))


def cast(x: Any, *, dtype: np.dtype[Any]) -> Any:
    if not is_complex(dtype):
        return truth(x) if dtype.kind == "b" else cast_p(x.re, dtype=dtype)
    part = real_dtype(dtype)
    if isinstance(x, Pair):
        return Pair(cast_p(x.re, dtype=part), cast_p(x.im, dtype=part))
    return Real(cast_p(x, dtype=part), zeros(x.shape, part))


def full(*, shape: tuple[int, ...], value: complex, dtype: np.dtype[Any]) -> Pair:
    part = real_dtype(dtype)
    number = np.asarray(value, dtype)
    return Pair(
        *(full_p(shape=shape, value=float(n), dtype=part) for n in (number.real, number.imag))
    )


def absent(*, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Pair:
    part = absent_array(shape, real_dtype(dtype))
    return Pair(part, part)


def iota(*, size: int, dtype: np.dtype[Any]) -> Pair:
    part = real_dtype(dtype)
    return Pair(iota_p(size=size, dtype=part), zeros((size,), part))


# -- arithmetic ------------------------------------------------------------------------------------


def multiply(x: Pair, y: Pair) -> Pair:
    return Pair(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def square(x: Pair) -> Pair:
    return multiply(x, x)


def _larger_first(x: Pair) -> tuple[Any, Any, Any]:
    """Whether the real part is larger in absolute value, and both parts, the larger one first."""
    real_is_larger = abs(x.re) >= abs(x.im)
    return real_is_larger, select(real_is_larger, x.re, x.im), select(real_is_larger, x.im, x.re)


def divide(x: Pair, y: Pair) -> Pair:
    """Division by Smith's algorithm (1962), without the square of the divisor."""
    straight, large, small = _larger_first(y)
    nothing = straight & (large == 0)
    ratio = small / large
    scale = 1 / select(nothing, abs(large), large + small * ratio)
    first, second = select(straight, x.re, x.im), select(straight, x.im, x.re)
    back, forth = select(nothing, 0, first * ratio), select(nothing, 0, second * ratio)
    return Pair((first + forth) * scale, select(straight, second - back, back - second) * scale)


def reciprocal(x: Pair) -> Pair:
    straight, large, small = _larger_first(x)
    ratio = small / large
    size = large + small * ratio
    return Pair(select(straight, 1, ratio) / size, select(straight, -ratio, -1) / size)


def absolute(x: Pair) -> Any:
    return hypot(x.re, x.im)


def direction(x: Pair) -> Pair:
    """``z / abs(z)``: if one part is infinite, the other is ignored; if both are, NaN."""
    size = absolute(x)
    divisor = select(size == 0, 1, size)
    infinite = isinf(x)
    undefined = (logic.isinf(x.re) & logic.isinf(x.im)) | (isnan(x) & ~infinite)

    def part(of: Any) -> Any:
        at_infinity = select(logic.isinf(of), choice.sign_p(of), 0)
        found = select(infinite, at_infinity, select(size == 0, 0, of / divisor))
        return select(undefined, np.nan, found)

    return Pair(part(x.re), part(x.im))


def product_of_equals(x: Pair, n: int) -> Pair:
    """``x**n`` for ``n > 0``, by multiplications only."""
    if n == 1:
        return x
    half = product_of_equals(x, n // 2)
    return multiply(multiply(half, half), x) if n % 2 else multiply(half, half)


def integer_power(x: Pair, *, n: int) -> Pair:
    one = Pair(full_p(shape=x.re.shape, value=1, dtype=x.dtype), zeros(x.re.shape, x.dtype))
    if n == 0:
        return one
    return product_of_equals(x, n) if n > 0 else divide(one, product_of_equals(x, -n))


def rint(x: Pair) -> Pair:
    return Pair(rounding.rint(x.re), rounding.rint(x.im))


# -- kinds of numbers ------------------------------------------------------------------------------


def isnan(x: Pair) -> Any:
    return logic.isnan(x.re) | logic.isnan(x.im)


def isinf(x: Pair) -> Any:
    return logic.isinf(x.re) | logic.isinf(x.im)


def isfinite(x: Pair) -> Any:
    return logic.isfinite(x.re) & logic.isfinite(x.im)


def truth(x: Pair) -> Any:
    """Whether a number is not 0."""
    return (x.re != 0) | (x.im != 0)


def of_truths(primitive: Primitive) -> Any:
    """The rule of a logical operation."""
    return lambda *operands: primitive(*map(truth, operands))


logical_and, logical_or, logical_xor, logical_not = map(
    of_truths, (logic.logical_and, logic.logical_or, logic.logical_xor, logic.logical_not)
)

# -- comparisons -----------------------------------------------------------------------------------


def equal(x: Pair, y: Pair) -> Any:
    return (x.re == y.re) & (x.im == y.im)


def not_equal(x: Pair, y: Pair) -> Any:
    return (x.re != y.re) | (x.im != y.im)


def _by_real_part_first(strictly: Primitive, last: Primitive) -> Any:
    def comparison(x: Pair, y: Pair) -> Any:
        numbers = ~(logic.isnan(x.im) | logic.isnan(y.im))
        return (strictly(x.re, y.re) & numbers) | ((x.re == y.re) & last(x.im, y.im))

    return comparison


less = _by_real_part_first(compare.less, compare.less)
less_equal = _by_real_part_first(compare.less, compare.less_equal)
greater = _by_real_part_first(compare.greater, compare.greater)
greater_equal = _by_real_part_first(compare.greater, compare.greater_equal)


def _chosen(first: Any, x: Pair, y: Pair) -> Pair:
    return Pair(select(first, x.re, y.re), select(first, x.im, y.im))


def maximum(x: Pair, y: Pair) -> Pair:
    return _chosen(isnan(x) | greater_equal(x, y), x, y)


def minimum(x: Pair, y: Pair) -> Pair:
    return _chosen(isnan(x) | less_equal(x, y), x, y)


def clip(x: Pair, low: Pair, high: Pair) -> Pair:
    """Clip by NumPy's comparison for clip, which ignores NaN in the second operand."""

    def stays(beyond: Primitive, a: Pair, b: Pair) -> Any:
        return isnan(a) | select(a.re == b.re, beyond(a.im, b.im), beyond(a.re, b.re))

    above = _chosen(stays(compare.greater, x, low), x, low)
    return _chosen(stays(compare.less, above, high), above, high)


def fmax(x: Pair, y: Pair) -> Pair:
    return _chosen(isnan(y) | greater_equal(x, y), x, y)


def fmin(x: Pair, y: Pair) -> Pair:
    return _chosen(isnan(y) | less_equal(x, y), x, y)
