"""Representation of floating-point numbers: sign, exponent, neighbours, steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.primitive import LINEAR, ZERO_DERIVATIVE, Primitive
from functrans.loop import scalar
from functrans.loop.scalar import Scalar
from functrans.ops.arrays.promotion import promote, ufunc_promotion
from functrans.ops.arrays.structural import astype
from functrans.ops.elementwise.choice import masked, sign
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import integers, reals
from functrans.trace import protocols

copysign: Primitive = elementwise(
    "copysign", numpy=np.copysign, scalar=scalar.copysign,
    # like that of abs, the derivative at 0 is 0
    jvp=[lambda x, y, out, dx: dx * (sign(x) * copysign(1, y)), None],
    samples=[reals(0.5, 3), reals(-3, -0.5)],
)  # fmt: skip


def _neighbour(x: Scalar, up: Scalar | None) -> Scalar:
    """The next number above (also without ``up``) or below: the bits count away from 0."""
    integer = np.dtype(f"i{x.dtype.itemsize}")
    bits = scalar.bitcast(x, integer)
    least = scalar.const(1, integer)
    above = scalar.where(bits >= 0, bits + 1, bits - 1)
    below = scalar.where(bits >= 0, bits - 1, bits + 1)
    chosen = above if up is None else scalar.where(up, above, below)
    from_zero = least if up is None else scalar.where(up, least, least + np.iinfo(integer).min)
    return scalar.bitcast(scalar.where(scalar.eq(_wide(x), 0), from_zero, chosen), x.dtype)


def _wide(x: Scalar) -> Scalar:
    """The same number in a dtype for comparisons: float16 as float32."""
    return scalar.convert(x, np.float32) if x.dtype.itemsize == 2 else x


def _nextafter(x: Scalar, y: Scalar) -> Scalar:
    first, second = _wide(x), _wide(y)
    equal = x if x.dtype == np.float16 else y  # NumPy's formula, which determines the sign of 0
    moved = scalar.where(scalar.eq(first, second), equal, _neighbour(x, first < second))
    unordered = scalar.ne(first, first) | scalar.ne(second, second)
    return scalar.where(unordered, scalar.convert(first + second, x.dtype), moved)


def _spacing(x: Scalar) -> Scalar:
    """The distance to the next number away from 0, with the sign of x; for float16, upwards."""
    number = _wide(x)
    next_one = _neighbour(x, None if x.dtype == np.float16 else number >= 0)
    step = _wide(next_one) - number
    step = scalar.where(scalar.eq(abs(number), np.inf), number - number, step)
    return scalar.convert(scalar.where(scalar.ne(number, number), number, step), x.dtype)


# the neighbours of a number depend on its dtype: no dtype is computed in another
nextafter = elementwise(
    "nextafter", numpy=np.nextafter, scalar=_nextafter,
    jvp=[lambda x, y, out, dx: dx, None],
    stores=True, samples=[reals(-3, 3), reals(-3, 3)],
)  # fmt: skip

spacing = elementwise(
    "spacing", numpy=np.spacing, scalar=_spacing,
    jvp=ZERO_DERIVATIVE,
    stores=True, samples=reals(0.5, 0.9),
)  # fmt: skip


def _heaviside(x: Scalar, at_zero: Scalar) -> Scalar:
    step = scalar.where(x < 0, 0, scalar.where(scalar.eq(x, 0), at_zero, 1))
    return scalar.where(scalar.ne(x, x), x, step)


heaviside = elementwise(
    "heaviside", numpy=np.heaviside, scalar=_heaviside,
    jvp=[None, lambda x, y, out, dy: masked(equal(x, 0), dy)],
    samples=[reals(-3, -0.5), reals(-3, 3)],
)  # fmt: skip


def _fields(x: Scalar) -> tuple[np.dtype[Any], int, int]:
    """The integer dtype for a float's bits, the bits of its mantissa, and its exponent's bias."""
    bits = np.finfo(x.dtype).nmant
    return np.dtype(f"i{x.dtype.itemsize}"), bits, int(1 - np.finfo(x.dtype).minexp)


def _ldexp(x: Scalar, n: Scalar) -> Scalar:
    """Scale by a power of 2 that is a float; by others with at most two exact products before."""
    scaled = y = _wide(x)
    integer, bits, bias = _fields(y)
    least, most = 1 - bias, bias

    def power(n: Scalar) -> Scalar:
        return scalar.bitcast((n + bias) << bits, y.dtype)

    n = scalar.convert(n, np.int64)
    usual = y * power(scalar.convert(n, integer))
    unusual = (n < least) | (n > most)
    n = scalar.convert(scalar.maximum(scalar.minimum(n, 4 * most), 4 * least), integer)
    for _ in range(2):
        large, small = n > most, n < least
        # a result that becomes subnormal is rounded only once, at the end
        scaled = scalar.where(small, scaled * 2.0 ** (least + bits + 1), scaled)
        scaled = scalar.where(large, scaled * 2.0**most, scaled)
        n = n - scalar.where(large, most, scalar.where(small, least + bits + 1, n * 0))
    n = scalar.maximum(scalar.minimum(n, most), least)
    return scalar.convert(scalar.unlikely(unusual, scaled * power(n), usual), x.dtype)


ldexp = elementwise(
    "ldexp", numpy=np.ldexp, scalar=_ldexp,
    linear=LINEAR,
    result="first", samples=[reals(-3, 3), integers(-4, 5)],
)  # fmt: skip

_as_frexp = ufunc_promotion(lambda: np.frexp)


def _exponent(x: Scalar) -> Scalar:
    """The binary exponent for a mantissa of at least 0.5; 0 for 0, infinities and NaN."""
    y = _wide(x)
    integer, bits, bias = _fields(y)
    special = 2 * bias + 1

    def field(y: Scalar) -> Scalar:
        return (scalar.bitcast(y, integer) >> bits) & special

    found, normal = field(y), field(y * 2.0 ** (bits + 2)) - (bits + 2)  # of subnormal ones
    exponent = scalar.where(scalar.eq(found, 0), normal, found) - (bias - 1)
    none = scalar.eq(found, special) | scalar.eq(y, 0)
    return scalar.convert(scalar.where(none, found * 0, exponent), np.int32)


binary_exponent = elementwise(
    "binary_exponent", numpy=lambda x: np.frexp(x)[1], scalar=_exponent,
    jvp=ZERO_DERIVATIVE,
    promotion=_as_frexp, result="int32", samples=reals(0.5, 9),
)  # fmt: skip


def frexp(x: Any) -> tuple[Any, Any]:
    """The mantissa of ``x``, 0 or in [0.5, 1) in absolute value, and the exponent of 2."""
    exponent = binary_exponent(x)
    (x,) = promote(_as_frexp, (x,))
    return ldexp(astype(x, x.dtype), -exponent), exponent


protocols.ufuncs["frexp"] = frexp
