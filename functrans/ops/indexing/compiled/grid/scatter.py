"""Scatters on a grid: all updates at once, in atomic operations, in any order.

Where an element is set more than once, the updates first contend for it by their numbers, and it is
then taken from the one that has won.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO, as_index, bounded, guard, identity, index
from functrans.loop.reductions import lower_folds
from functrans.loop.scalar import Scalar, const, convert, idiv, irem, minimum, ne
from functrans.loop.statements import If, Store, load
from functrans.ops.compiled.emission import Element, Emission
from functrans.ops.compiled.statements import dealt, nest
from functrans.ops.indexing.compiled.scatter import Scatter, scatter_of, store_of


def emit(combine: str | None, at: Emission) -> None:
    """Each update is combined with what is there by a scalar operation; None takes its place."""
    own = scatter_of(at)
    if combine is not None or at.eqn.params["unique"] or prod(own.shape) <= 1:
        at_once(own, combine)
    else:
        last_of_each(own)


def at_once(own: Scatter, combine: str | None) -> None:
    """All updates at the same time, in atomic operations: those that meet combine alike."""
    loops = own.loops
    grid = own.at.target.grid
    assert grid is not None
    blocks = own.updates.size // max(grid.updates, 2 * own.x.size)
    if combine is not None and blocks > 1 and _is_crowded(own, grid):
        in_shared_memory(own, combine, min(blocks, grid.busy // grid.warp, own.updates.shape[0]))
        return
    before, store = store_of(own, combine, loops, atomic=True)
    own.at.call(nest(loops, (*before, store), parallel=True), work=own.work)


def _is_crowded(own: Scatter, grid: Grid) -> bool:
    """Whether elements are so few that updates often meet, and fit into shared memory."""
    nbytes = own.x.size * own.x.dtype.itemsize
    return not own.at.eqn.params["unique"] and (
        own.x.size <= grid.crowded and nbytes <= grid.shared // 4
    )


def in_shared_memory(own: Scatter, combine: str, blocks: int) -> None:
    """Privatisation: each team combines a block of the updates first, then all that it has."""
    at, dtype = own.at, own.x.dtype
    first, *rest = own.updates.shape
    length = -(-first // blocks)
    block, k = index("block", -(-first // length)), index("u", length)
    number = block * length + k
    inside = number < first
    # a position that is not read for nothing: of an update that there is not, the last one's
    loops = (minimum(number, as_index(first - 1)), *(index("u", n) for n in rest))
    before, store = store_of(own, combine, loops)
    private = at.scratch("private", dtype, own.x.shape)
    start = const(identity(combine, dtype), dtype)
    fresh, done = (tuple(index("i", n) for n in own.x.shape) for _ in range(2))
    found = load(private, done)
    statements = nest(
        (block,),
        (
            *dealt(fresh, (Store(private, fresh, start),), at.target),
            *dealt(
                (k, *loops[1:]),
                (If(inside, (*before, replace(store, target=private, atomic=True))),),
                at.target,
            ),
            *dealt(
                done,
                (If(ne(found, start), (Store(store.target, done, found, combine, atomic=True),)),),
                at.target,
            ),
        ),
        parallel=True,
    )
    at.call(statements, work=own.work, stack=(private,))


def last_of_each(own: Scatter) -> None:
    """Each element from the last update for it, found by an atomic maximum of their numbers."""
    at, count = own.at, prod(own.shape)
    number_dtype = np.dtype(np.int32 if count <= np.iinfo(np.int32).max else INDEX)
    winners = at.scratch("winners", number_dtype, [own.x.shape[a] for a in own.axes])
    fresh = tuple(index("w", n) for n in winners.extents)
    loops = tuple(index("u", n) for n in own.shape)
    number: Scalar = ZERO
    for loop, extent in zip(loops, own.shape, strict=True):
        number = number * extent + loop
    found = [at.simplify(convert(number, number_dtype)), *own.pointed_at(loops)]
    before, (own_number, *pointed_at) = lower_folds(found, 1, at.simplify, at.target)
    contend = Store(winners, tuple(pointed_at), own_number, "max", atomic=True)
    statements = (
        *nest(fresh, (Store(winners, fresh, const(-1, number_dtype)),), parallel=True),
        *nest(loops, (*before, contend), parallel=True),
    )
    at.call(statements, work=own.work, writes=(winners,))
    element = at.loops(own.x.shape)
    winner = convert(load(winners, [element[a] for a in own.axes]), INDEX)
    rest = [i for axis, i in enumerate(element) if axis not in own.axes]
    first = bounded(winner, count, "clip")
    update: list[Scalar] = []
    for extent in reversed(own.shape[1:]):
        update.insert(0, irem(first, extent))
        first = idiv(first, extent)
    taken = at.element(1, (first, *update, *rest))
    value = at.simplify(guard(winner >= 0, taken, at.element(0, element)))
    at.compute(at.result(), element, range(len(element)), [Element(element, value)])
