"""Arithmetic, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.ir.primitive import BILINEAR, LINEAR, ZERO_DERIVATIVE
from functrans.lazily import lazy
from functrans.loop import scalar
from functrans.loop.scalar import Scalar
from functrans.ops.arrays.promotion import promote, ufunc_promotion
from functrans.ops.compiled.emission import by_loops
from functrans.ops.define import on_parts
from functrans.ops.elementwise.pointwise import elementwise
from functrans.ops.elementwise.rounding import trunc
from functrans.ops.samples import away_from_integers, integers, reals
from functrans.trace import protocols

any_real = reals(-3, 3)
nonzero = reals(0.5, 3)
BOTH = ((0, 1),)

add = elementwise(
    "add", numpy=np.add, scalar=lambda x, y: x + y,
    jvp=[lambda x, y, out, dx: dx, lambda x, y, out, dy: dy],
    linear=BOTH, transpose=[lambda ct, x, y: ct, lambda ct, x, y: ct],
    samples=[any_real, any_real],
)  # fmt: skip

subtract = elementwise(
    "subtract", numpy=np.subtract, scalar=lambda x, y: x - y,
    jvp=[lambda x, y, out, dx: dx, lambda x, y, out, dy: -dy],
    linear=BOTH, transpose=[lambda ct, x, y: ct, lambda ct, x, y: -ct],
    samples=[any_real, any_real],
)  # fmt: skip

multiply = elementwise(
    "multiply", numpy=np.multiply, scalar=lambda x, y: x * y,
    linear=BILINEAR,
    samples=[any_real, any_real],
)  # fmt: skip


def _by_divisor(x: Any, y: Any, out: Any, dy: Any) -> Any:
    """``-x / y**2 dy``, in factors that overflow only if the derivative or ``1 / y`` does.

    Many tangents share the division, if they have as many elements as the divisor.
    """
    return -out * (dy * (1 / y) if y.shape == out.shape else dy / y)


divide = elementwise(
    "divide", numpy=np.divide, scalar=lambda x, y: x / y,
    jvp=[lambda x, y, out, dx: dx / y, _by_divisor],
    linear=LINEAR, quotient=1,
    parts=on_parts("complex_arithmetic:divide"),
    steep=True, samples=[any_real, nonzero],
)  # fmt: skip

negative = elementwise(
    "negative", numpy=np.negative, scalar=lambda x: -x,
    linear=LINEAR,
    samples=any_real,
)  # fmt: skip

positive = elementwise(
    "positive", numpy=np.positive, scalar=lambda x: x,
    linear=LINEAR,
    samples=any_real,
)  # fmt: skip

# -- division --------------------------------------------------------------------------------------


def _reciprocal(x: Scalar) -> Scalar:
    if x.dtype.kind == "f":
        return 1 / x
    whole = scalar.where(scalar.eq(x, 1), x, 0)
    if x.dtype.kind == "u":
        return whole
    signed = scalar.where(scalar.eq(x, -1), x, whole)
    # NumPy converts an infinity, which gives the least integer of 32 or 64 bits
    least = np.iinfo(x.dtype).min if x.dtype.itemsize >= 4 else 0
    return scalar.where(scalar.eq(x, 0), least, signed)


reciprocal = elementwise(
    "reciprocal", numpy=np.reciprocal, scalar=_reciprocal,
    jvp=lambda x, out, dx: -out * (out * dx),
    parts=on_parts("complex_arithmetic:reciprocal"),
    steep=True, samples=nonzero,
)  # fmt: skip


def _is_power_of_two(y: Scalar) -> bool:
    """Whether an integer divisor is a constant power of two, so that shifts and masks will do."""
    return y.op == "const" and y.attribute > 0 and int(y.attribute).bit_count() == 1


def _signs_differ(x: Scalar, y: Scalar) -> Scalar:
    return (x < 0) ^ (y < 0)


def _truncated_rest(x: Scalar, y: Scalar) -> Scalar:
    """The remainder of truncated division of floats, exactly: ``x - trunc(x / y) y`` with an fma.

    A quotient below 2**p, for p digits, is rounded to the next integer at most: the rest, which is
    then negative, is a multiple of the unit of ``x`` or ``y``, and is exact, too.
    """
    if x.dtype == np.float16:
        wide = _truncated_rest(*(scalar.convert(each, np.float32) for each in (x, y)))
        return scalar.convert(wide, x.dtype)
    dividend, divisor = abs(x), abs(y)
    quotient = dividend / divisor
    rest = scalar.fma(-scalar.trunc(quotient), divisor, dividend)
    rest = scalar.copysign(scalar.where(rest < 0, rest + divisor, rest), x)
    ordinary = (quotient < 2.0 ** np.finfo(x.dtype).nmant) & (divisor < np.inf)
    return scalar.unlikely(~ordinary, scalar.irem(x, y), rest)


def _remainder(x: Scalar, y: Scalar) -> Scalar:
    """The remainder with the divisor's sign; 0 for an integer divided by 0."""
    if x.dtype.kind == "f":
        rest = _truncated_rest(x, y)
        moved = scalar.where(_signs_differ(rest, y), rest + y, rest)
        # 0 % 0 is NaN: the comparison with 0 fails, and the NaN stays
        return scalar.where(scalar.eq(rest, 0), scalar.copysign(0, y), moved)
    if _is_power_of_two(y):
        return x & (y - 1)
    return _integer_remainder(x, y)


def _floor_divide(x: Scalar, y: Scalar) -> Scalar:
    """The quotient rounded downwards; 0 for an integer divided by 0."""
    if x.dtype == np.float16:
        wide = _floor_divide(*(scalar.convert(each, np.float32) for each in (x, y)))
        return scalar.convert(wide, x.dtype)
    if x.dtype.kind == "f":
        # The dividend minus the remainder divides evenly, so the quotient is nearly an integer.
        # Halves, which large quotients may be, are rounded down, as in NumPy.
        rest = _truncated_rest(x, y)
        quotient = (x - rest) / y
        below = scalar.ne(rest, 0) & _signs_differ(rest, y)
        quotient = scalar.where(below, quotient - 1, quotient)
        whole = scalar.floor(quotient)
        quotient = scalar.where(quotient - whole > 0.5, whole + 1, whole)
        signed = scalar.where(scalar.eq(quotient, 0), scalar.copysign(0, x / y), quotient)
        return scalar.where(scalar.eq(y, 0), x / y, signed)
    if _is_power_of_two(y):
        return x >> (int(y.attribute).bit_length() - 1)
    return _integer_quotient(x, y)


def _fmod(x: Scalar, y: Scalar) -> Scalar:
    if x.dtype.kind == "f":
        return _truncated_rest(x, y)
    return _integer_rest(x, y)


_Binary = Callable[[Scalar, Scalar], Scalar]
_integer_quotient: _Binary = lazy("functrans.ops.elementwise.compiled.division:quotient")
_integer_remainder: _Binary = lazy("functrans.ops.elementwise.compiled.division:remainder")
_integer_rest: _Binary = lazy("functrans.ops.elementwise.compiled.division:rest")

floor_divide = elementwise(
    "floor_divide", numpy=np.floor_divide, scalar=_floor_divide,
    jvp=ZERO_DERIVATIVE,
    samples=[reals(4.1, 5.9), reals(-4, -3)],
)  # fmt: skip

remainder = elementwise(
    "remainder", numpy=np.remainder, scalar=_remainder,
    jvp=[lambda x, y, out, dx: dx, lambda x, y, out, dy: -floor_divide(x, y) * dy],
    samples=[reals(4.1, 5.9), reals(-4, -3)],
)  # fmt: skip

fmod = elementwise(
    "fmod", numpy=np.fmod, scalar=_fmod,
    jvp=[lambda x, y, out, dx: dx, lambda x, y, out, dy: -trunc(x / y) * dy],
    samples=[reals(4.1, 5.9), reals(-4, -3)],
)  # fmt: skip


def divmod_(x: Any, y: Any) -> tuple[Any, Any]:
    """Quotient rounded downwards, and remainder."""
    return floor_divide(x, y), remainder(x, y)


protocols.operators["divmod"] = protocols.ufuncs["divmod"] = divmod_


def _fraction(x: Scalar) -> Scalar:
    rest = scalar.where(scalar.eq(abs(x), np.inf), 0, x - scalar.trunc(x))
    return scalar.copysign(rest, x)


_as_modf = ufunc_promotion(lambda: np.modf)

fraction = elementwise(
    "fraction", numpy=lambda x: np.modf(x)[0], scalar=_fraction,
    jvp=lambda x, out, dx: dx,
    promotion=_as_modf, samples=away_from_integers(-3, 3),
)  # fmt: skip


def modf(x: Any) -> tuple[Any, Any]:
    """The fractional and the integral part, both with the sign of ``x``."""
    (x,) = promote(_as_modf, (x,))
    return fraction(x), trunc(x)


protocols.ufuncs["modf"] = modf

gcd = elementwise(
    "gcd", numpy=np.gcd, emit=by_loops(lazy("functrans.ops.elementwise.compiled.integers:gcd")),
    jvp=ZERO_DERIVATIVE,
    samples=[integers(-30, 30), integers(-30, 30)],
)  # fmt: skip

lcm = elementwise(
    "lcm", numpy=np.lcm, emit=by_loops(lazy("functrans.ops.elementwise.compiled.integers:lcm")),
    jvp=ZERO_DERIVATIVE,
    samples=[integers(-30, 30), integers(-30, 30)],
)  # fmt: skip
