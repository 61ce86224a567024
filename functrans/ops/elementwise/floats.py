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
    # it is abs(x) with a sign, so its derivative is 0 at 0 as that of abs is
    jvp=[lambda x, y, out, dx: dx * (sign(x) * copysign(1, y)), None],
    samples=[reals(0.5, 3), reals(-3, -0.5)],
)  # fmt: skip


def _neighbour(x: Scalar, up: Scalar | None) -> Scalar:
    """The next finite number above (without ``up``, too) or below: bits count away from 0."""
    integer = np.dtype(f"i{x.dtype.itemsize}")
    bits = scalar.bitcast(x, integer)
    least = scalar.const(1, integer)
    above = scalar.where(bits >= 0, bits + 1, bits - 1)
    below = scalar.where(bits >= 0, bits - 1, bits + 1)
    chosen = above if up is None else scalar.where(up, above, below)
    from_zero = least if up is None else scalar.where(up, least, least + np.iinfo(integer).min)
    return scalar.bitcast(scalar.where(scalar.eq(_wide(x), 0), from_zero, chosen), x.dtype)


def _wide(x: Scalar) -> Scalar:
    """The same number where numbers are compared: halves are float32 there."""
    return scalar.convert(x, np.float32) if x.dtype.itemsize == 2 else x


def _nextafter(x: Scalar, y: Scalar) -> Scalar:
    first, second = _wide(x), _wide(y)
    equal = x if x.dtype == np.float16 else y  # as NumPy has it, which shows in the sign of 0
    moved = scalar.where(scalar.eq(first, second), equal, _neighbour(x, first < second))
    unordered = scalar.ne(first, first) | scalar.ne(second, second)
    return scalar.where(unordered, scalar.convert(first + second, x.dtype), moved)


def _spacing(x: Scalar) -> Scalar:
    """The distance to the next number away from 0, with the sign of x; of halves, to that above."""
    number = _wide(x)
    next_one = _neighbour(x, None if x.dtype == np.float16 else number >= 0)
    step = _wide(next_one) - number
    step = scalar.where(scalar.eq(abs(number), np.inf), number - number, step)
    return scalar.convert(scalar.where(scalar.ne(number, number), number, step), x.dtype)


# the neighbours of a number are a matter of its dtype: none is taken for another
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

ldexp = elementwise(
    "ldexp", numpy=np.ldexp,
    linear=LINEAR,
    result="first", samples=[reals(-3, 3), integers(-4, 5)],
)  # fmt: skip

_as_frexp = ufunc_promotion(lambda: np.frexp)

binary_exponent = elementwise(
    "binary_exponent", numpy=lambda x: np.frexp(x)[1],
    jvp=ZERO_DERIVATIVE,
    promotion=_as_frexp, result="int32", samples=reals(0.5, 9),
)  # fmt: skip


def frexp(x: Any) -> tuple[Any, Any]:
    """The mantissa, 0 or at least 0.5 and below 1, and the exponent of 2 that belong to ``x``."""
    exponent = binary_exponent(x)
    (x,) = promote(_as_frexp, (x,))
    return ldexp(astype(x, x.dtype), -exponent), exponent


protocols.ufuncs["frexp"] = frexp
