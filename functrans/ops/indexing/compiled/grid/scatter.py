"""Scatters on a grid: all updates in parallel, by atomic operations, in any order.

Where an element may be set more than once, an atomic maximum of the updates' numbers first finds
the last update of each element, which is then stored.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO, as_index, bounded, guard, identity, index
from functrans.loop.reductions import lower_folds
from functrans.loop.scalar import Scalar, const, convert, idiv, irem, minimum, ne
from functrans.loop.statements import Buffer, If, Let, Statement, Store, load, local
from functrans.ops.compiled.emission import Element, Emission
from functrans.ops.compiled.statements import dealt, nest
from functrans.ops.indexing.compiled.scatter import Scatter, scatter_of, store_of, update_of


def emit(combine: str | None, at: Emission) -> None:
    """Combine each update with the element by a scalar operation; None replaces the element."""
    own = scatter_of(at)
    if combine is not None or at.eqn.params["unique"] or prod(own.shape) <= 1:
        at_once(own, combine)
    else:
        last_of_each(own)


def at_once(own: Scatter, combine: str | None) -> None:
    """All updates in parallel, by atomic operations, whose order does not matter."""
    loops = own.loops
    grid = own.at.target.grid
    assert grid is not None
    blocks = _blocks(own, grid)
    if combine is not None and not own.at.eqn.params["unique"] and blocks > 1:
        first, *rest = own.updates.shape
        dtype = _combined_in(own, combine, -(-first // blocks) * prod(rest))
        if own.x.size <= grid.crowded and own.x.size * dtype.itemsize <= grid.rows:
            in_shared_memory(own, combine, blocks, dtype)
            return
    before, store = store_of(own, combine, loops, atomic=True)
    own.at.call(nest(loops, (*before, store), parallel=True))


def _blocks(own: Scatter, grid: Grid) -> int:
    """The number of teams that combine updates in private copies, which are then merged."""
    enough = own.updates.size // max(grid.updates, 2 * own.x.size)
    return min(enough, grid.threads // grid.largest_team, *own.updates.shape[:1])


_NATIVE = 4
"""Bytes of the integers with native atomic operations in shared memory: for others, threads
compute, and repeat a compare-and-exchange until no other thread has intervened."""


def _combined_in(own: Scatter, combine: str, updates: int) -> np.dtype[Any]:
    """The dtype in which a team combines a number of updates.

    Shorter integers may be combined in 4 bytes, since they wrap around equally. So may longer ones
    if all updates add the same small number, as in counts.
    """
    dtype = own.x.dtype
    if dtype.kind not in "iu" or dtype.itemsize == _NATIVE:
        return dtype
    native = np.dtype(f"{dtype.kind}{_NATIVE}")
    added = own.at.element(1, own.loops)
    fits = added.op == "const" and abs(int(added.attribute)) * updates <= np.iinfo(native).max
    return native if dtype.itemsize < _NATIVE or (combine == "add" and fits) else dtype


def in_shared_memory(own: Scatter, combine: str, blocks: int, dtype: np.dtype[Any]) -> None:
    """Privatisation: teams combine blocks of updates in shared memory, then merge the results."""
    at, first = own.at, own.updates.shape[0]
    length = _aligned(first // blocks)
    left = first - blocks * length
    more = -(-left // blocks)
    block, one, behind = index("block", blocks), index("u", length), index("u", more)
    number = blocks * length + block * more + behind
    # in place of a missing update, the position of the last one is read, which is in bounds
    last = minimum(number, as_index(first - 1))
    private, target = at.scratch("private", dtype, own.x.shape), at.copied(0)
    start = const(identity(combine, own.x.dtype), dtype)
    fresh, done = (tuple(index("i", n) for n in own.x.shape) for _ in range(2))
    found = load(private, done)
    total = Store(target, done, convert(found, own.x.dtype), combine, atomic=True)
    phases = (
        *dealt(fresh, (Store(private, fresh, start),), at.target),
        *_updates(own, combine, private, one, block * length + one),
        *_updates(own, combine, private, behind, last, number < first),
        *dealt(done, (If(ne(found, start), (total,)),), at.target),
    )
    at.call(nest((block,), phases, parallel=True), stack=(private,))


def _updates(
    own: Scatter, combine: str, private: Buffer, counter: Scalar, number: Scalar,
    there: Scalar | None = None,
) -> tuple[Statement, ...]:  # fmt: skip
    """A team's updates of its private copy, where the condition ``there`` holds.

    Positions and values are locals, so that a thread with several updates overlaps their loads.
    """
    loops = (number, *(index("u", n) for n in own.updates.shape[1:]))
    before, added, position = update_of(own, loops)
    values = (*position, convert(added, private.dtype))
    names = tuple(local(value.dtype, "update") for value in values)
    store = Store(private, names[:-1], names[-1], combine, atomic=True)
    body: tuple[Statement, ...] = (*before, Let(names, values), store)
    if there is not None:
        body = (If(there, body),)
    return dealt((counter, *loops[1:]), body, own.at.target)


def _aligned(length: int) -> int:
    """A length rounded down, so that blocks of it start at multiples of many elements."""
    unit = 1 << max(length.bit_length() - 6, 0)
    return length // unit * unit


def last_of_each(own: Scatter) -> None:
    """Set each element by its last update, found by an atomic maximum of the updates' numbers."""
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
    at.call(statements, writes=(winners,))
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
