"""Block-sparse arrays: a few dense blocks, and structural zeros everywhere else.

Elements of blocks that overlap add up. Blocks whose common bounding box is hardly larger than they
are together are merged, so that few remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from functrans.ir.types import Shape
from functrans.ops.arrays.shape import concatenate
from functrans.ops.arrays.slicing import assemble_p, embed
from functrans.ops.arrays.structural import absent
from functrans.ops.compiled.places import Index
from functrans.ops.elementwise.arithmetic import add
from functrans.records import NamedTuple

Bounds = tuple[tuple[int, int], ...]
"""For each axis, the first index, and the index behind the last."""

MOST = 16
"""The most blocks of an array: each is computed by code of its own."""
_COMPARED = 128
"""The most blocks that are compared in pairs."""
LOOSEST = 1.5
"""How many times as many elements a bounding box may have as the blocks in it, at first."""
_FEWEST = 8
"""The fewest elements for each direction with which blocks of any size are joined: a vector."""
_FEW = 4
"""The most directions that are joined otherwise: their elements stay single numbers."""
_SELECTED = 4
"""The most blocks that are joined by selecting one for each element; more are copied."""


class Block(NamedTuple):
    """A part of an array: the index of its first element, and its elements."""

    start: tuple[int, ...]
    value: Any
    is_one: bool = False
    """Whether all elements are known to be 1."""
    is_sum: bool = False
    """Whether elements are sums of several, so that adding another one cancels none exactly."""

    @property
    def bounds(self) -> Bounds:
        return tuple((s, s + n) for s, n in zip(self.start, self.value.shape, strict=True))

    def blocks(self) -> list[Block]:
        """Itself: what other parts of an array are made of."""
        return [self]


class Blocks(NamedTuple):
    """An array as the sum of some blocks; all other elements are structural zeros."""

    shape: Shape
    dtype: np.dtype[Any]
    directions: int = 0  # how many directions the tangents are for
    parts: tuple[Any, ...] = ()  # each a `Block`, or a `Diagonal`, which has ``blocks()``

    @property
    def plain(self) -> list[Block]:
        """All parts as blocks."""
        return [block for part in self.parts for block in part.blocks()]

    def dense(self) -> Any:
        """All elements as one array."""
        if not self.parts:
            return absent(self.shape, self.dtype)
        return _filled(self.plain, tuple((0, n) for n in self.shape))


def index_of(bounds: Bounds) -> Index:
    """Bounds as the index of a slice."""
    return tuple((low, high - low, 1) for low, high in bounds)


def is_small(shape: Shape, directions: int) -> bool:
    """Whether an array has few elements for each direction."""
    return prod(shape) < _FEWEST * directions


def sum_of(
    parts: Sequence[Block], shape: Shape, dtype: np.dtype[Any], directions: int, looseness: float
) -> Blocks | None:
    """The sum of blocks that may overlap; None if all elements are as easily computed."""
    if len(parts) > _COMPARED:
        return None
    by_bounds: dict[Bounds, Block] = {}
    for part in parts:
        before = by_bounds.get(part.bounds)
        total = part if before is None else _total([before, part], part.bounds)
        by_bounds[part.bounds] = total
    groups = [(bounds, [part]) for bounds, part in by_bounds.items()]
    groups = _merged(groups, looseness)
    while len(groups) > MOST:
        looseness = max(2 * looseness, LOOSEST)
        groups = _merged(groups, looseness)
    if is_small(shape, directions) and any(
        len(members) > 1 and _size(bounds) * directions > _FEW * prod(shape)
        for bounds, members in groups
    ):
        return None
    merged = [
        members[0] if len(members) == 1 else _total(members, bounds) for bounds, members in groups
    ]
    return Blocks(shape, dtype, directions, tuple(merged))


def _total(parts: Sequence[Block], bounds: Bounds) -> Block:
    value = _filled(parts, bounds)
    start = tuple(low for low, _ in bounds)
    return Block(start, value, is_sum=all(part.is_sum for part in parts))


_Group = tuple[Bounds, list[Block]]


def _merged(groups: Sequence[_Group], looseness: float) -> list[_Group]:
    """Groups of blocks whose bounding boxes neither overlap nor fit well in a common one."""
    done: list[_Group] = []
    for bounds, members in groups:
        i = 0
        while i < len(done):
            other, others = done[i]
            box = tuple(
                (min(a, c), max(b, d)) for (a, b), (c, d) in zip(bounds, other, strict=True)
            )
            filled = sum(part.value.size for part in (*members, *others))
            if _overlap(bounds, other) or _size(box) <= looseness * filled:
                del done[i]
                bounds, members, i = box, [*others, *members], 0
            else:
                i += 1
        done.append((bounds, members))
    return done


def _overlap(one: Bounds, other: Bounds) -> bool:
    return all(a < d and c < b for (a, b), (c, d) in zip(one, other, strict=True))


def _size(bounds: Bounds) -> int:
    return prod(high - low for low, high in bounds)


def _filled(parts: Sequence[Block], bounds: Bounds) -> Any:
    """The elements within bounds around some blocks: joined arrays, as far as possible."""
    shape = tuple(high - low for low, high in bounds)
    own = [
        tuple((a - low, b - low) for (a, b), (low, _) in zip(part.bounds, bounds, strict=True))
        for part in parts
    ]
    if len(parts) == 1:
        return embed(parts[0].value, index=index_of(own[0]), shape=shape)
    uneven = [a for a, n in enumerate(shape) if any(one[a] != (0, n) for one in own)]
    if len(parts) <= _SELECTED or len(uneven) == 1:
        for axis in uneven:
            runs = _runs(parts, axis)
            if len(runs) > 1:
                return concatenate(_pieces(runs, bounds, axis), axis=axis)
        return reduce(add, [_filled([part], bounds) for part in parts])
    values = [part.value for part in parts]
    indices = tuple(map(index_of, own))
    adds = any(_overlap(x, y) for i, x in enumerate(own) for y in own[:i])
    return assemble_p(*values, indices=indices, shape=shape, adds=adds)


def _runs(parts: Sequence[Block], axis: int) -> list[list[Block]]:
    """Groups of blocks with a gap, or at least a boundary, between them along an axis."""
    runs: list[list[Block]] = []
    end = -1
    for part in sorted(parts, key=lambda part: part.start[axis]):
        low, high = part.bounds[axis]
        if not runs or low >= end:
            runs.append([])
        runs[-1].append(part)
        end = max(end, high)
    return runs


def _pieces(runs: Sequence[list[Block]], bounds: Bounds, axis: int) -> list[Any]:
    """The segments of an array along an axis: runs of blocks, and zeros between them."""

    def within(low: int, high: int) -> Bounds:
        return (*bounds[:axis], (low, high), *bounds[axis + 1 :])

    def nothing(low: int, high: int) -> list[Any]:
        shape = tuple(b - a for a, b in within(low, high))
        return [absent(shape, runs[0][0].value.dtype)] if low < high else []

    pieces = []
    end, last = bounds[axis]
    for run in runs:
        low = min(part.bounds[axis][0] for part in run)
        high = max(part.bounds[axis][1] for part in run)
        pieces += [*nothing(end, low), _filled(run, within(low, high))]
        end = high
    return [*pieces, *nothing(end, last)]
