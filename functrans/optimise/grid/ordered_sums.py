"""Deterministic scatters: updates are sorted by index, and added by a segmented scan.

If threads add floats to one element by atomic operations, the order of the additions, and therefore
the rounding, differs from run to run. For a deterministic target, updates are sorted by position,
and a segmented scan adds those with equal positions, over distances of 1, 2, 4, ... (Hillis and
Steele, "Data parallel algorithms", 1986). The last update of each segment then holds the segment's
sum.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

from functrans.ir.graph import Eqn, Graph
from functrans.ir.primitive import Primitive
from functrans.ir.types import is_float
from functrans.loop.target import Target
from functrans.ops.arrays.slicing import read_slice, update_slice
from functrans.ops.arrays.structural import broadcast_to, full_p, inverse, iota, reshape, transpose
from functrans.ops.compiled.places import whole
from functrans.ops.elementwise.arithmetic import add, multiply
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal
from functrans.ops.indexing.gather import gather, scatter_add, scatter_multiply, scatter_set
from functrans.ops.indexing.positions import INDEX, index_shape, indexed_first
from functrans.ops.reductions.sorting import argsort
from functrans.optimise.rewrite import replaced
from functrans.trace.stage import Environment

_COMBINED: dict[Primitive, tuple[Primitive, float]] = {
    # -0.0 is the identity of addition, also for 0.0 and -0.0
    scatter_add: (add, -0.0),
    scatter_multiply: (multiply, 1.0),
}
"""The operation of each scatter, and its identity element."""


def order_sums(graph: Graph, target: Target) -> Graph:
    """Order sums: combine floats in an order that does not depend on threads.

    Expects the final scatters of a program. Leaves, for a deterministic target, no scatter that
    adds or multiplies floats in arbitrary order.
    """
    if not target.deterministic:
        return graph
    return replaced(graph, {eqn: partial(_rule, eqn) for eqn in graph.eqns if depends(eqn)})


def _rule(eqn: Eqn, values: Environment) -> list[Any]:
    return [_ordered(eqn, *map(values.read, eqn.inputs))]


def depends(eqn: Eqn) -> bool:
    """Whether the bits of a result depend on the order in which updates are combined."""
    if eqn.primitive not in _COMBINED or eqn.params["unique"]:
        return False
    count = prod(index_shape([index.aval for index in eqn.inputs[2:]]))
    return is_float(eqn.outputs[0].aval.dtype) and count > 1


def _ordered(eqn: Eqn, x: Any, updates: Any, *indices: Any) -> Any:
    combine, nothing = _COMBINED[eqn.primitive]
    axes: tuple[int, ...] = eqn.params["axes"]
    rest = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
    indexed = tuple(x.shape[axis] for axis in axes)
    size, count = prod(indexed), prod(index_shape(indices))
    numbers = reshape(iota(size=size, dtype=INDEX), shape=indexed)
    places = gather(numbers, *indices, axes=tuple(range(len(axes))))
    places = reshape(places, shape=(count,))
    order = argsort(places, axis=0)
    places = gather(places, order, axes=(0,))
    values = gather(reshape(updates, shape=(count, *rest)), order, axes=(0,))
    sums = _scanned(combine, values, places)
    # All updates but the last of a segment are written after the array, each to a position of its
    # own: two threads must not write to one position, even if it is never read.
    before_last = ((0, count - 1, 1),)
    this, following = (
        read_slice(places, index=index) for index in (before_last, ((1, count - 1, 1),))
    )
    behind = add(iota(size=count - 1, dtype=INDEX), size)
    moved = select(equal(this, following), behind, this)
    targets = update_slice(places, moved, index=before_last)
    empty = full_p(shape=(size + count - 1, *rest), value=nothing, dtype=np.dtype(x.dtype))
    totals = scatter_set(empty, sums, targets, axes=(0,), unique=True)
    totals = read_slice(totals, index=((0, size, 1), *map(whole, rest)))
    totals = reshape(totals, shape=(*indexed, *rest))
    return combine(x, transpose(totals, permutation=inverse(indexed_first(x.ndim, axes))))


def _scanned(combine: Primitive, values: Any, places: Any) -> Any:
    """An inclusive segmented scan; a segment is a run of equal positions."""
    count, *rest = values.shape
    axes = tuple(map(whole, rest))
    distance = 1
    while distance < count:
        before, now = (0, count - distance, 1), (distance, count - distance, 1)
        together = equal(read_slice(places, index=(before,)), read_slice(places, index=(now,)))
        own = read_slice(values, index=(now, *axes))
        sums = combine(read_slice(values, index=(before, *axes)), own)
        shape = (count - distance, *(1 for _ in rest))
        chosen = broadcast_to(reshape(together, shape=shape), shape=own.shape)
        values = update_slice(values, select(chosen, sums, own), index=(now, *axes))
        distance *= 2
    return values
