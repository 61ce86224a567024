"""Scalar nodes for loops and branches, which `pull` rules use in addition to arithmetic.

All indices are int64 Scalars. `fold` is the inner loop of a reduction or contraction; `guard` reads
an element only if it exists (padding, concatenation); `bounded` makes an index from data safe to
load from.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.loop.failures import FAILURES
from functrans.loop.scalar import (
    BOOL,
    Number,
    Scalar,
    const,
    convert,
    idiv,
    irem,
    lookup,
    maximum,
    minimum,
    where,
)

INDEX = np.dtype(np.int64)

ZERO = const(0, INDEX)

_fresh = itertools.count()


def index(label: str = "i", extent: int | None = None) -> Scalar:
    """A new loop index, different from every other; it is less than `extent`, if that is given."""
    return Scalar("index", (), INDEX, (label, next(_fresh), extent))


UNROLLED = 16
"""The most elements over which a fold is unrolled."""


def as_index(value: Scalar | int) -> Scalar:
    """A Python number as an index."""
    return value if isinstance(value, Scalar) else const(value, INDEX)


FOLDS = ("add", "mul", "min", "max", "and", "or", "xor")
"""The operations of a `fold`: associative up to rounding, and commutative."""


def block_range(block: Scalar, length: int, stop: Scalar) -> tuple[Scalar, Scalar]:
    """Blocking: the start and the stop of a block of a loop's iterations."""
    start = Scalar("mul", (block, const(length, INDEX)), INDEX)
    end = Scalar("add", (start, const(length, INDEX)), INDEX)
    return start, Scalar("min", (end, stop), INDEX)


def identity(op: str, dtype: np.dtype[Any]) -> Number:
    """The identity element of an operation, with which a fold starts."""
    if op in ("add", "or", "xor"):
        return False if dtype.kind == "b" else 0
    if op == "mul":
        return 1
    if op == "and":
        return True if dtype.kind == "b" else -1
    if dtype.kind == "b":
        return op == "min"
    if dtype.kind == "f":
        return float("inf") if op == "min" else float("-inf")
    limits = np.iinfo(dtype)
    return int(limits.max if op == "min" else limits.min)


def fold(op: str, extents: Sequence[Scalar | int], body: Callable[..., Scalar]) -> Scalar:
    """Combine ``body(k, l, ...)`` over all ``0 <= k < extents[0]``, ``0 <= l < extents[1]``, ...

    A few elements (`UNROLLED`) are combined by an expression, more by a loop. The order of the
    combination is not given: compiled code keeps several partial results (always the same number of
    them for the same extents, so that the bits of the result do not depend on the number of
    threads). Over no index at all, it is the identity of the operation.

    Half floats are added up as float32, and rounded once, as in NumPy's sums.

    Parameters
    ----------
    op : str
        One of `FOLDS`.
    extents : sequence of int or Scalar
    body : callable
        Takes one index (an int64 Scalar) for each extent.

    Examples
    --------
    The sum over the last axis of operand 0, as a `pull` rule::

        def pull(read, index, aval):
            return fold("add", aval.shape[-1:], lambda k: read(0, (*index, k)))
    """
    if op not in FOLDS:
        raise ValueError(f"no fold with {op!r}: one of {', '.join(FOLDS)}")
    counts = [extent if isinstance(extent, int) else None for extent in extents]
    known = [count for count in counts if count is not None]
    if len(known) == len(counts) and 0 < math.prod(known) <= UNROLLED:
        positions = itertools.product(*map(range, known))
        terms = [body(*map(as_index, position)) for position in positions]
        dtype = terms[0].dtype
        return convert(combine_pairwise(op, [widened(x, op) for x in terms]), dtype)
    indices = tuple(index("k", count) for count in counts)
    value = body(*indices)
    term = widened(value, op)
    total = Scalar("fold", (term, *map(as_index, extents)), term.dtype, (op, indices))
    return convert(total, value.dtype)


def widened(x: Scalar, op: str = "add") -> Scalar:
    """A term of a sum in the dtype in which it is added: a half float as float32."""
    return convert(x, np.float32) if op == "add" and x.dtype == np.float16 else x


def combine_pairwise(op: str, terms: list[Scalar]) -> Scalar:
    """The terms, combined as a balanced tree."""
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        odd = terms[len(terms) - len(terms) % 2 :]
        terms = [Scalar(op, pair, terms[0].dtype) for pair in pairs] + odd
    return terms[0]


def linear(position: Sequence[Scalar], shape: Sequence[Scalar | int]) -> Scalar:
    """The linear index of an element in C order."""
    number = ZERO
    for i, extent in zip(position, shape, strict=True):
        number = number * extent + i
    return number


def separated(number: Scalar, shape: Sequence[int]) -> tuple[Scalar, ...]:
    """The position of an element, given its linear index: the inverse of `linear`."""
    position: list[Scalar] = []
    for extent in reversed(shape):
        position.insert(0, irem(number, extent))
        number = idiv(number, extent)
    return tuple(position)


def reshaped(position: Sequence[Any], shape: Sequence[int], own: Sequence[int]) -> tuple[Any, ...]:
    """The position in an array with axes ``own`` of an element of a reshape of it.

    Axes are split and merged in the smallest groups that have equally many elements in both shapes.
    So axes that both shapes share need no arithmetic, even for a position out of bounds.
    """
    if 0 in own:
        return separated(linear(position, shape), own)
    made = [(i, extent) for i, extent in zip(position, shape, strict=True) if extent != 1]
    left = [axis for axis, extent in enumerate(own) if extent != 1]
    found: list[Any] = [ZERO] * len(own)
    while left:
        indices, extents = map(list, zip(made.pop(0), strict=True))
        axes = [left.pop(0)]
        while (here := math.prod(extents)) != (there := math.prod(own[axis] for axis in axes)):
            if here < there:
                index, extent = made.pop(0)
                indices.append(index)
                extents.append(extent)
            else:
                axes.append(left.pop(0))
        number = linear(indices, extents) if len(indices) > 1 else indices[0]
        parts = separated(number, [own[axis] for axis in axes]) if len(axes) > 1 else (number,)
        for axis, part in zip(axes, parts, strict=True):
            found[axis] = part
    return tuple(found)


def entry(table: Sequence[int], position: Scalar) -> Scalar:
    """An entry of a table of integers; out of bounds, the nearest one, which a guard may discard.

    The clamping is removed where the position is known to be within the table.
    """
    if not table:
        return ZERO
    last = const(len(table) - 1, INDEX)
    return lookup(tuple(table), minimum(maximum(position, ZERO), last), INDEX)


def guard(condition: Scalar, value: Scalar, otherwise: Scalar | Number) -> Scalar:
    """``value`` where the condition holds, else ``otherwise``.

    Unlike with `where`, nothing is loaded for the value that is not selected, so an index in
    ``value`` may be out of bounds where the condition is false.
    """
    if not isinstance(otherwise, Scalar):
        otherwise = const(otherwise, value.dtype)
    return Scalar("guard", (condition, value, otherwise), value.dtype)


def bounded(position: Scalar, extent: Scalar | int, mode: str = "raise") -> Scalar:
    """An index taken from data, made safe to load from.

    Parameters
    ----------
    position : Scalar
        int64; counts from the end if it is negative.
    extent : Scalar or int
    mode : {"raise", "raise below 0", "clip", "wrap"}
        What becomes of a position outside of ``-extent <= position < extent``, or outside of ``0 <=
        position < extent``: the whole call fails with `IndexError`; or it is clipped, or taken
        modulo the extent.
    """
    size = as_index(extent)
    if mode == "clip":
        low = where(position < 0, ZERO, position)
        return where(low < size, low, size - 1)
    if mode == "wrap":
        rest = Scalar("irem", (position, size), INDEX)
        return where(rest < 0, rest + size, rest)
    if mode == "raise":
        position = where(position < 0, position + size, position)
    return Scalar("checked", (position, size), INDEX)


def required(condition: Scalar, value: Scalar, status: int) -> Scalar:
    """``value``; the whole call fails, with one of `FAILURES`, unless the condition holds."""
    if status not in FAILURES or condition.dtype != BOOL:
        raise ValueError(f"required takes a bool and one of {list(FAILURES)}, not {status}")
    return Scalar("required", (condition, value), value.dtype, status)
