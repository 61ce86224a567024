"""Joins: arrays that are put together from parts, each of which is written to its own place.

Which part an element is in would else be asked at every element, in as many comparisons as there
are parts. `functrans.optimise.machine.write_coalescing` makes joins of chains of equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from functrans.ir.graph import Atom, Eqn
from functrans.ir.types import Shape
from functrans.loop.nodes import UNROLLED
from functrans.ops.arrays.shape import concatenate_p
from functrans.ops.arrays.slicing import Index, assemble_p, whole

FEW = 5
"""So many parts are told apart by comparisons, which is done for pieces of a loop at once."""

SMALL = 64
"""So few elements are written out one by one."""

TOGETHER = 128
"""So many elements of small parts are written one after another by one root."""

TOGETHER_IN_LOOP = 32
"""The same inside of a loop, each of whose vectors they are written from."""

FEW_ELEMENTS = 2
"""Parts of more elements than this are loops, if there are many such parts."""

Part = tuple[Index, Atom]


def is_join(eqn: Eqn) -> bool:
    """Whether an equation is done by writing one part after another."""
    if eqn.primitive is assemble_p:
        return True
    if eqn.primitive is not concatenate_p or len(eqn.inputs) <= FEW:
        return False
    aval = eqn.outputs[0].aval
    if aval.size <= SMALL or aval.shape[eqn.params["axis"]] <= UNROLLED:
        return False
    return sum(x.aval.size > 0 for x in eqn.inputs) > FEW


def parts_of(eqn: Eqn) -> list[Part]:
    """The parts of a join and where they go; those without elements are left out."""
    if eqn.primitive is assemble_p:
        found = list(zip(eqn.params["indices"], eqn.inputs, strict=True))
    else:
        axis = eqn.params["axis"]
        rest = [whole(n) for n in eqn.outputs[0].aval.shape]
        found = []
        start = 0
        for x in eqn.inputs:
            extent = x.aval.shape[axis]
            found.append(((*rest[:axis], (start, extent, 1), *rest[axis + 1 :]), x))
            start += extent
    return [(index, x) for index, x in found if x.aval.size]


def apart(indices: Sequence[Index]) -> bool:
    """Whether no element is at two of the indices, as far as is easily told."""
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
    """The first and the last position along an axis."""
    if isinstance(entry, int):
        return entry, entry
    assert isinstance(entry, tuple)
    start, count, step = entry
    last = start + (count - 1) * step
    return min(start, last), max(start, last)


def covers(indices: Sequence[Index], shape: Shape) -> bool:
    """Whether indices that are apart leave no element out."""
    return sum(prod(map(_extent, index)) for index in indices) == prod(shape)


def _extent(entry: object) -> int:
    return entry[1] if isinstance(entry, tuple) else 1
