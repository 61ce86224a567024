"""Strided subarrays, as constant basic indices.

An index has an entry for each axis: an integer, which drops the axis, or ``(start, size, step)``,
where the start is not negative and the step may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, prod

from functrans.ir.types import Shape

Range = tuple[int, int, int]
"""Start, size and step."""

Index = tuple[int | Range, ...]


def whole(extent: int) -> Range:
    """The entry that takes all of an axis."""
    return (0, extent, 1)


def is_whole(index: Index, shape: Shape) -> bool:
    """Whether an index selects all of an array of this shape."""
    return all(entry == (0, extent, 1) for entry, extent in zip(index, shape, strict=True))


def sliced_shape(index: Index) -> Shape:
    """The shape of the subarray at an index."""
    return tuple([entry[1] for entry in index if not isinstance(entry, int)])


def slice_of_slice(outer: Index, inner: Index) -> Index:
    """The slice at an index of the slice at another one, as a slice of the array."""
    entries = iter(inner)
    found: list[int | Range] = []
    for entry in outer:
        own = entry if isinstance(entry, int) else next(entries)
        if isinstance(entry, int):
            found.append(entry)
        elif isinstance(own, int):
            found.append(entry[0] + own * entry[2])
        else:
            found.append((entry[0] + own[0] * entry[2], own[1], own[2] * entry[2]))
    return tuple(found)


def disjoint(indices: Sequence[Index]) -> bool:
    """Whether no element is in two of the subarrays; False if that cannot be decided quickly."""
    groups = [list(indices)]
    for axis in range(len(indices[0]) if indices else 0):
        inner: list[list[Index]] = []
        for group in groups:
            by_entry: dict[object, list[Index]] = {}
            for index in group:
                by_entry.setdefault(index[axis], []).append(index)
            if _meet(map(_strided, by_entry)):
                return False
            inner += [same for same in by_entry.values() if len(same) > 1]
        groups = inner
    return not groups


_MOST_INTERLEAVED = 32
"""The most overlapping strided ranges that are compared pairwise."""


def _meet(entries: Iterable[Range]) -> bool:
    """Whether two of several ranges ``(first index, last index, stride)`` share an index.

    True if that cannot be decided quickly.
    """
    open_ones: list[Range] = []
    for first, last, stride in sorted(entries):
        open_ones = [each for each in open_ones if each[1] >= first]
        if len(open_ones) > _MOST_INTERLEAVED:
            return True
        for other, _, step in open_ones:
            common = gcd(stride, step)
            if first == other or (common and (first - other) % common == 0):
                return True
        open_ones.append((first, last, stride))
    return False


def _strided(entry: object) -> Range:
    """The first and the last index along an axis, and the distance between neighbours."""
    if isinstance(entry, int):
        return entry, entry, 0
    assert isinstance(entry, tuple)
    start, size, step = entry
    last = start + (size - 1) * step
    return min(start, last), max(start, last), abs(step) if size > 1 else 0


def covers(indices: Sequence[Index], shape: Shape) -> bool:
    """Whether disjoint subarrays cover the whole array."""
    return sum(prod(map(_extent, index)) for index in indices) == prod(shape)


def _extent(entry: object) -> int:
    return entry[1] if isinstance(entry, tuple) else 1
