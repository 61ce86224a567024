"""Places: the strided subarrays that parts of arrays are written to, as constant basic indices.

A place has an entry for each axis: an integer, which drops the axis, or ``(start, size, step)``,
with a start that is not negative and a step that may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from functrans.ir.types import Shape

Range = tuple[int, int, int]
"""Start, size and step."""

Index = tuple[int | Range, ...]


def whole(extent: int) -> Range:
    """The entry that takes all of an axis."""
    return (0, extent, 1)


def is_whole(index: Index, shape: Shape) -> bool:
    """Whether an index takes all of an array of this shape."""
    return all(entry == (0, extent, 1) for entry, extent in zip(index, shape, strict=True))


def sliced_shape(index: Index) -> Shape:
    """The shape of what an index takes."""
    return tuple([entry[1] for entry in index if not isinstance(entry, int)])


def disjoint(indices: Sequence[Index]) -> bool:
    """Whether no element is in two of the places; False where that is not easily known."""
    groups = [list(indices)]
    for axis in range(len(indices[0]) if indices else 0):
        inner: list[list[Index]] = []
        for group in groups:
            by_entry: dict[object, list[Index]] = {}
            for index in group:
                by_entry.setdefault(index[axis], []).append(index)
            ends = sorted(map(_ends, by_entry))
            if any(first[1] >= second[0] for first, second in pairwise(ends)):
                return False
            inner += [same for same in by_entry.values() if len(same) > 1]
        groups = inner
    return not groups


def _ends(entry: object) -> tuple[int, int]:
    """The first and the last index along an axis."""
    if isinstance(entry, int):
        return entry, entry
    assert isinstance(entry, tuple)
    start, size, step = entry
    last = start + (size - 1) * step
    return min(start, last), max(start, last)


def covers(indices: Sequence[Index], shape: Shape) -> bool:
    """Whether disjoint places leave nothing out."""
    return sum(prod(map(_extent, index)) for index in indices) == prod(shape)


def _extent(entry: object) -> int:
    return entry[1] if isinstance(entry, tuple) else 1
