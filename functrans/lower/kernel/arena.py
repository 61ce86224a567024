"""Memory allocation: temporaries share one arena, by their live ranges.

Expects the buffers that each step uses. Leaves an offset for each temporary, so that those that are
live at the same time do not overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from functrans.loop.statements import Buffer, Column
from functrans.loop.target import Target
from functrans.records import NamedTuple


class Arena(NamedTuple):
    """Thresholds of memory allocation for temporaries. Not measured."""

    word: int = 8
    """The size in bytes of the smallest allocation."""
    small: int = 1024
    """The largest temporary, in bytes, for which the best position is not searched."""


Life = tuple[int, int]
"""The first and the last step that use a buffer."""


def allocate(
    used: Sequence[Sequence[Buffer]],  # the buffers that each step uses
    elsewhere: set[Buffer],  # the buffers that are no temporaries
    columns: Mapping[Buffer, Column],  # the temporaries that are parts of records
    target: Target,
) -> tuple[dict[Buffer, int], int]:
    """The offset of each temporary in one arena, and the size of the arena, in bytes.

    Temporaries that are never live together may overlap.
    """
    leaders: dict[int, Buffer] = {}  # the first column of each record, which stands for it
    for one, column in columns.items():
        leaders.setdefault(column.record, one)
    lives: dict[Buffer, Life] = {}
    for time, buffers in enumerate(used):
        for one in buffers:
            if one not in elsewhere:
                whole = leaders[columns[one].record] if one in columns else one
                lives[whole] = lives.get(whole, (time, time))[0], time
    sizes = {one: size_in_arena(one, target) for one in lives}
    for one in leaders.values():
        row = columns[one].pitch * one.dtype.itemsize
        sizes[one] = _up_to(one.extents[0] * row, target.alignment)
    most = target[Arena].small
    small = {one: life for one, life in lives.items() if sizes[one] <= most}
    offsets, end = _in_slots(small, sizes)
    end = _up_to(end, target.alignment)
    large = {one: life for one, life in lives.items() if sizes[one] > most}
    above, end = _packed(large, sizes, end)
    offsets = {one: offsets[one] if one in offsets else above[one] for one in lives}
    for one, column in columns.items():
        first = offsets[leaders[column.record]]
        offsets[one] = first + column.start * one.dtype.itemsize
    return offsets, end


def _in_slots(lives: dict[Buffer, Life], sizes: dict[Buffer, int]) -> tuple[dict[Buffer, int], int]:
    """Free lists for small buffers, one for each size: linear time, since there may be many."""
    offsets: dict[Buffer, int] = {}
    free: dict[int, list[tuple[int, int]]] = {}
    end = 0
    # the largest first, so that all are aligned to their sizes, or to a cache line
    for one in sorted(lives, key=lambda b: (-sizes[b], lives[b])):
        slots = free.setdefault(sizes[one], [])
        born, dies = lives[one]
        if slots and slots[0][0] < born:
            _, offsets[one] = heappop(slots)
        else:
            offsets[one] = end
            end += sizes[one]
        heappush(slots, (dies, offsets[one]))
    return offsets, end


def _packed(
    lives: dict[Buffer, Life], sizes: dict[Buffer, int], base: int
) -> tuple[dict[Buffer, int], int]:
    """First fit above a base, the largest first, which is a good heuristic for little memory."""
    offsets: dict[Buffer, int] = {}
    end = base
    # small ones fit into the gaps
    for one in sorted(lives, key=lambda b: (-sizes[b], lives[b])):
        taken = sorted(
            (offsets[other], offsets[other] + sizes[other])
            for other in offsets
            if lives[other][0] <= lives[one][1] and lives[one][0] <= lives[other][1]
        )
        offset = base
        for start, stop in taken:
            if offset + sizes[one] <= start:
                break
            offset = max(offset, stop)
        offsets[one] = offset
        end = max(end, offset + sizes[one])
    return offsets, end


def size_in_arena(one: Buffer, target: Target) -> int:
    """The bytes of a buffer, rounded up to the alignment; very small ones share a cache line."""
    count = one.nbytes
    if count <= target.alignment // 2:
        return 1 << max(count - 1, target[Arena].word - 1).bit_length()
    return _up_to(count, target.alignment)


def _up_to(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
