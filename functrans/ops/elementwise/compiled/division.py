"""Division of integers, of which vectors have no instruction: by products with a reciprocal.

Single numbers are divided by the machine's instruction, which takes less time than a chain of
conversions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.loop.functions import Function, closed, parameter
from functrans.loop.scalar import (
    BOOL,
    Scalar,
    const,
    convert,
    copysign,
    eq,
    floor,
    idiv,
    irem,
    ne,
    unlikely,
    where,
)


def quotient(x: Scalar, y: Scalar) -> Scalar:
    """The quotient rounded downwards; 0 if ``y`` is 0."""
    return _either(x, y, is_remainder=False)


def remainder(x: Scalar, y: Scalar) -> Scalar:
    """The remainder with the divisor's sign; 0 if ``y`` is 0."""
    return _either(x, y, is_remainder=True)


def rest(x: Scalar, y: Scalar) -> Scalar:
    """The remainder of truncated division, of the dividend's sign; 0 if ``y`` is 0."""
    found = remainder(x, y)
    return where(ne(found, 0) & ((x < 0) ^ (y < 0)), found - y, found)


def _either(x: Scalar, y: Scalar, is_remainder: bool) -> Scalar:
    divisor = int(y.attribute) if y.op == "const" else None
    if divisor is None:
        return _function(x.dtype, None, is_remainder)((x, y))
    if x.dtype.itemsize == 8 and (divisor > 1 or -SHORT <= divisor < 0):
        return _function(x.dtype, divisor, is_remainder)((x,))
    # LLVM multiplies narrow integers by a constant
    return _remainder_of_division(x, y) if is_remainder else _divided(x, y)


@cached(64)
def _function(dtype: np.dtype[Any], divisor: int | None, is_remainder: bool) -> Function:
    x, y = parameter(0, dtype), parameter(1, dtype)
    parameters = (x, y) if divisor is None else (x,)
    y = y if divisor is None else const(divisor, dtype)
    if divisor is None or divisor < 0:
        wide = _multiplied(x, y)
    else:
        wide = _by_invariant(x, divisor)
    if is_remainder:
        single, wide = _remainder_of_division(x, y), where(eq(y, 0), 0, x - wide * y)
    else:
        single = _divided(x, y)
    name = "remainder" if is_remainder else "quotient"
    return Function(parameters, closed(single), name, in_lanes=closed(wide))


# -- by an instruction -----------------------------------------------------------------------------


def _harmless(y: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """The divisor with 1 in place of -1 and 0, and the conditions that it was 0, or -1.

    Division by 0 traps, and so does that of the least integer by -1.
    """
    zero = eq(y, 0)
    minus_one = eq(y, -1) if y.dtype.kind == "i" else const(False, BOOL)
    return where(zero | minus_one, 1, y), zero, minus_one


def _divided(x: Scalar, y: Scalar) -> Scalar:
    divisor, zero, minus_one = _harmless(y)
    truncated = idiv(x, divisor)
    moved = where(_rounds_up(irem(x, divisor), y), truncated - 1, truncated)
    return where(zero, 0, where(minus_one, -x, moved))


def _remainder_of_division(x: Scalar, y: Scalar) -> Scalar:
    divisor, zero, _ = _harmless(y)
    truncated = irem(x, divisor)
    return where(zero, 0, where(_rounds_up(truncated, y), truncated + y, truncated))


def _rounds_up(truncated: Scalar, y: Scalar) -> Scalar:
    """Whether truncated division, whose remainder is known, rounds upwards."""
    return ne(truncated, 0) & ((truncated < 0) ^ (y < 0))


# -- by the high half of a product with a constant -------------------------------------------------


def _by_invariant(x: Scalar, divisor: int) -> Scalar:
    """The quotient of an integer of 64 bits and a constant from 2 up.

    Of a negative number, it is the complement of the quotient of the complement.

    References
    ----------
    T. Granlund, P. L. Montgomery, "Division by invariant integers using multiplication" (1994).
    """
    shift = (divisor - 1).bit_length()
    if x.dtype.kind == "u":
        # the multiplier has 65 bits
        high = _high_product(x, -(-(1 << 64 + shift) // divisor) - (1 << 64))
        return (((x - high) >> 1) + high) >> (shift - 1)
    sign = x >> 63
    natural = convert(x ^ sign, np.uint64)
    high = _high_product(natural, -(-(1 << 63 + shift) // divisor))
    return convert(high >> (shift - 1), np.int64) ^ sign


def _high_product(x: Scalar, factor: int) -> Scalar:
    """The upper 64 of the 128 bits of a product: vectors multiply halves of 32 bits."""
    half = (1 << 32) - 1
    high, low = x >> 32, x & half
    upper, lower = (const(f, x.dtype) for f in divmod(factor, 1 << 32))
    carried = high * lower + (low * lower >> 32)
    middle = low * upper + (carried & half)
    return high * upper + (carried >> 32) + (middle >> 32)


# -- by floats ------------------------------------------------------------------------------------

SHORT = 1 << 50
"""A divisor of at most this size divides any integer in two steps."""


def _multiplied(x: Scalar, y: Scalar) -> Scalar:
    if x.dtype.itemsize == 8:
        found = _in_two_steps(x, y)
        if y.op == "const":
            return found
        size = where(y < 0, -y, y) if y.dtype.kind == "i" else y
        return unlikely(convert(size, np.uint64) > SHORT, _divided(x, y), found)
    found = _in_one_step(x, y)
    # the least integer has no negative
    return where(eq(y, -1), -x, found) if x.dtype.kind == "i" else found


def _in_one_step(x: Scalar, y: Scalar) -> Scalar:
    """The quotient of an integer that has 2 bits less than a mantissa.

    ``(x + 1/2) / y``, for positive ``y``, is at least ``1/2 / y`` from every integer, which exceeds
    the errors of the reciprocal and of the product, each half a unit in the last place.
    """
    kind = np.dtype(np.float32 if x.dtype.itemsize <= 2 else np.float64)
    middle = convert(x, kind) + copysign(0.5, convert(y, kind))
    return convert(floor(middle * _inverse(y, kind)), x.dtype)


def _in_two_steps(x: Scalar, y: Scalar) -> Scalar:
    """The quotient of an integer of 64 bits: an estimate, and the quotient of the rest.

    The rest is below ``abs(y) + 2**12``, and is exact modulo 2**64 even if the estimate overflows.
    """
    kind = np.dtype(np.float64)
    estimate = convert(convert(x, kind) * _inverse(y, kind), x.dtype)
    rest = convert(x - estimate * y, np.int64)
    return estimate + convert(_in_one_step(rest, y), x.dtype)


def _inverse(y: Scalar, kind: np.dtype[Any]) -> Scalar:
    divisor = convert(y, kind)
    return where(eq(divisor, 0.0), 0.0, 1.0 / divisor)
