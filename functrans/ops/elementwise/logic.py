"""Logical and bitwise operations, and the classification of floats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.loop import scalar
from functrans.loop.scalar import Scalar
from functrans.ops.define import on_parts
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.samples import Domain, integers, reals

# -- truth -----------------------------------------------------------------------------------------


def _logical(numpy: np.ufunc, on_truths: Callable[..., Scalar]) -> Primitive:
    return elementwise(
        numpy.__name__,
        numpy=numpy,
        scalar=lambda *operands: on_truths(*(scalar.ne(x, 0) for x in operands)),
        jvp=ZERO_DERIVATIVE,
        parts=on_parts(f"complex_arithmetic:{numpy.__name__}"),
        result="bool",
        samples=[integers(-1, 2)] * numpy.nin,
    )


logical_and = _logical(np.logical_and, lambda x, y: x & y)
logical_or = _logical(np.logical_or, lambda x, y: x | y)
logical_xor = _logical(np.logical_xor, lambda x, y: x ^ y)
logical_not = _logical(np.logical_not, lambda x: ~x)

# -- bits ------------------------------------------------------------------------------------------


def _bitwise(
    numpy: np.ufunc, on_scalars: Callable[..., Scalar], second: Domain | None = None
) -> Primitive:
    bits = integers(-9, 9)
    return elementwise(
        numpy.__name__,
        numpy=numpy,
        scalar=on_scalars,
        jvp=ZERO_DERIVATIVE,
        samples=[bits, second or bits][: numpy.nin],
    )


bitwise_and = _bitwise(np.bitwise_and, lambda x, y: x & y)
bitwise_or = _bitwise(np.bitwise_or, lambda x, y: x | y)
bitwise_xor = _bitwise(np.bitwise_xor, lambda x, y: x ^ y)
invert = _bitwise(np.invert, lambda x: ~x)
left_shift = _bitwise(np.left_shift, lambda x, y: x << y, second=integers(0, 9))
right_shift = _bitwise(np.right_shift, lambda x, y: x >> y, second=integers(0, 9))


def _count(x: Scalar) -> Scalar:
    """Population count of the absolute value: sums of neighbouring bits, pairs, fours, bytes.

    In words of the operand's own size, so that a vector holds as many of them as of operands.
    """
    if x.dtype.kind == "i":
        x = scalar.where(x < 0, -x, x)
    size = x.dtype.itemsize
    word = np.dtype(f"u{size}")

    def mask(byte: int) -> Scalar:
        return scalar.const(int.from_bytes(bytes([byte]) * size, "big"), word)

    v = scalar.convert(x, word)
    v = v - ((v >> 1) & mask(0x55))
    v = (v & mask(0x33)) + ((v >> 2) & mask(0x33))
    v = (v + (v >> 4)) & mask(0x0F)
    if size > 1:
        v = (v * mask(0x01)) >> (8 * size - 8)
    return scalar.convert(v, np.uint8)


bitwise_count = elementwise(
    "bitwise_count", numpy=np.bitwise_count, scalar=_count,
    jvp=ZERO_DERIVATIVE,
    result="uint8", samples=integers(-9, 9),
)  # fmt: skip

# -- kinds of floats -------------------------------------------------------------------------------


def _kind(numpy: np.ufunc, of_floats: Callable[[Scalar], Scalar], of_integers: bool) -> Primitive:
    return elementwise(
        numpy.__name__,
        numpy=numpy,
        scalar=lambda x: (
            of_floats(x) if x.dtype.kind == "f" else scalar.const(of_integers, scalar.BOOL)
        ),
        jvp=ZERO_DERIVATIVE,
        parts=None if numpy is np.signbit else on_parts(f"complex_arithmetic:{numpy.__name__}"),
        result="bool",
        samples=reals(-3, 3),
    )


isnan = _kind(np.isnan, lambda x: scalar.ne(x, x), False)
isinf = _kind(np.isinf, lambda x: scalar.eq(abs(x), np.inf), False)
isfinite = _kind(np.isfinite, lambda x: abs(x) < np.inf, True)
signbit = _kind(np.signbit, lambda x: scalar.bitcast(x, f"i{x.dtype.itemsize}") < 0, False)
