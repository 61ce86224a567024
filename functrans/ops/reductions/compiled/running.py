"""Prefix sums, products and extremes on a CPU: sequential scans with an accumulator, or by rows.

On a grid, see `functrans.ops.reductions.compiled.grid.blocked_scan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from functrans.loop.nodes import INDEX, ZERO, as_index, identity, index
from functrans.loop.reductions import lower_folds
from functrans.loop.scalar import Scalar, const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Assign, Buffer, For, Let, Statement, Store, load, local
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.compiled.statements import nest
from functrans.records import NamedTuple

MOST_TOTALS = 4
"""The most elements after an axis for which each has an accumulator in a register."""


class _Pass(NamedTuple):
    """A scan: the operation, the loops over all elements, and the value of an element."""

    op: str
    target: Buffer
    loops: Position
    axis: int
    position: Position
    before: Sequence[Statement]
    value: Scalar


def emit(op: str, at: Emission) -> None:
    """Combine each element with all preceding ones along an axis, by a scalar operation."""
    aval = at.eqn.outputs[0].aval
    target = at.result()
    if aval.size == 0:
        return
    axis: int = at.eqn.params["axis"]
    loops = tuple(index("r", n) for n in aval.shape)
    here: Scalar = loops[axis]
    if at.eqn.params["reverse"]:
        here = at.simplify(const(aval.shape[axis] - 1, INDEX) - here)
    position = (*loops[:axis], here, *loops[axis + 1 :])
    before, (value,) = lower_folds([at.element(0, position)], 1, at.simplify, at.target)
    own = _Pass(op, target, loops, axis, position, before, value)
    few = not before and prod(aval.shape[axis + 1 :]) <= MOST_TOTALS
    by_rows = axis < aval.ndim - 1 and not few
    at.call(row_by_row(own, at.simplify) if by_rows else carried(own, at.simplify))


def carried(own: _Pass, simplify: Simplifier) -> tuple[Statement, ...]:
    """A scan along the last axis, or one before few elements, with accumulators in locals."""
    dtype, after = own.target.dtype, own.loops[own.axis + 1 :]
    # minus zero is added to minus zero without a change of sign
    first = -0.0 if own.op == "add" and dtype.kind == "f" else identity(own.op, dtype)
    starts, steps, stores = [], [], []
    for each in np.ndindex(*(loop.attribute[2] for loop in after)):
        place = dict(zip(after, map(as_index, each), strict=True))
        *position, value = simplify.substitute([*own.position, own.value], place)
        total = local(dtype, "total")
        starts.append((total, const(first, dtype)))
        steps.append((total, Scalar(own.op, (total, value), dtype)))
        stores.append(Store(own.target, tuple(position), total))
    step = (*own.before, Assign(*zip(*steps, strict=True)), *stores)
    start = Let(*zip(*starts, strict=True))
    rows = nest(own.loops[: own.axis], (start, *nest([own.loops[own.axis]], step)))
    # rows are divided among threads
    return tuple(
        replace(each, parallel=True) if isinstance(each, For) and own.axis else each
        for each in rows
    )


def row_by_row(own: _Pass, simplify: Simplifier) -> tuple[Statement, ...]:
    """A scan along another axis: each row is combined with the preceding result row."""
    before, loop = own.loops[: own.axis], own.loops[own.axis]
    after = own.loops[own.axis + 1 :]
    later = index("r", max(loop.attribute[2] - 1, 0))
    previous = simplify.substitute(own.position, {loop: later})
    (*first_at, first) = simplify.substitute([*own.position, own.value], {loop: ZERO})
    moved = {loop: simplify(later + 1)}
    (*next_at, value) = simplify.substitute([*own.position, own.value], moved)
    combined = Scalar(own.op, (load(own.target, previous), value), own.target.dtype)
    return (
        *nest([*before, *after], (*own.before, Store(own.target, tuple(first_at), first))),
        *nest([*before, later, *after], (*own.before, Store(own.target, tuple(next_at), combined))),
    )
