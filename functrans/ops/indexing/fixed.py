"""Indexing at constant positions: selections of elements, and their transposes.

`functrans.optimise.constant_indices` replaces `gather` and the scatter family by these primitives
if their indices are constants. In unrolled code an element is then selected at compile time; in a
loop a constant table gives its position. No index is read from memory or checked, and the operand
need not be in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.primitive import LINEAR, Primitive
from functrans.ir.types import Aval
from functrans.loop import scalar
from functrans.loop.nodes import entry, guard
from functrans.ops.arrays.known import known_integers
from functrans.ops.arrays.structural import absent, in_lanes, move_axis
from functrans.ops.define import primitive
from functrans.ops.indexing.gather import scatter_add
from functrans.ops.samples import cases

Positions = tuple[int, ...]
"""Nonnegative positions along an axis."""


def _along(axis: int, positions: Sequence[int]) -> tuple[slice | list[int], ...]:
    """NumPy's index of some positions of one axis."""
    return (*(slice(None),) * axis, list(positions))


def _replaced(index: Sequence[Any], axis: int, new: Any) -> tuple[Any, ...]:
    return (*index[:axis], new, *index[axis + 1 :])


def _check(x: Aval, axis: int, positions: Positions) -> None:
    if not all(0 <= each < x.shape[axis] for each in positions):
        raise ShapeError(f"the positions {positions} are not within axis {axis} of shape {x.shape}")


# -- pick ------------------------------------------------------------------------------------------


def _infer_pick(x: Aval, *, axis: int, positions: Positions) -> Aval:
    _check(x, axis, positions)
    return x.update(shape=_replaced(x.shape, axis, len(positions)))


def _transpose_pick(ct: Any, x: Any, *, axis: int, positions: Positions) -> list[Any]:
    nothing = absent(x.shape, ct.dtype)
    if len({*positions}) == len(positions):
        return [put(nothing, ct, axis=axis, positions=positions)]
    at = known_integers(shape=(len(positions),), entries=positions)
    return [scatter_add(nothing, move_axis(ct, axis, 0), at, axes=(axis,), unique=False)]


pick: Primitive = primitive(
    "pick",
    infer=_infer_pick,
    numpy=lambda x, *, axis, positions: x[_along(axis, positions)],
    linear=LINEAR,
    transpose=_transpose_pick,
    transpose_adds=True,
    batch=lambda operands, axes, *, axis, positions: (
        pick(move_axis(operands[0], axes[0], 0), axis=axis + 1, positions=positions), 0,
    ),
    pull=lambda read, index, x, *, axis, positions: read(
        0, _replaced(index, axis, entry(positions, index[axis]))
    ),
    stores=True,
    samples=cases(
        ((4,), {"axis": 0, "positions": (2, 0, 3, 1)}),
        ((3, 4), {"axis": 1, "positions": (1, 1, 3, 1)}),
        ((3, 4), {"axis": 0, "positions": (2,)}), ((2, 0), {"axis": 0, "positions": (1, 0)}),
    ),
)  # fmt: skip
"""The elements at constant positions of an axis."""

# -- put -------------------------------------------------------------------------------------------


def _put(x: Any, updates: Any, *, axis: int, positions: Positions) -> Any:
    out = np.array(x)
    out[_along(axis, positions)] = updates
    return out


def _infer_put(x: Aval, updates: Aval, *, axis: int, positions: Positions) -> Aval:
    _check(x, axis, positions)
    if updates.shape != _replaced(x.shape, axis, len(positions)):
        raise ShapeError(f"values of shape {updates.shape} for {len(positions)} positions")
    if len({*positions}) != len(positions):
        raise ShapeError(f"one of the positions {positions} is there twice")
    return x.update()


def _batch_put(operands: Any, axes: Any, *, axis: int, positions: Positions) -> tuple[Any, int]:
    return put(*in_lanes(operands, axes), axis=axis + 1, positions=positions), 0


def _pull_put(
    read: Any, index: Any, x: Aval, updates: Aval, *, axis: int, positions: Positions
) -> Any:
    if not positions:
        return read(0, index)
    number = {position: number for number, position in enumerate(positions)}
    places = range(x.shape[axis])
    source = entry([number.get(each, 0) for each in places], index[axis])
    new = read(1, _replaced(index, axis, source))
    if len(number) == len(places):
        return new
    is_written = scalar.eq(entry([each in number for each in places], index[axis]), 1)
    return guard(is_written, new, read(0, index))


put: Primitive = primitive(
    "put",
    infer=_infer_put,
    numpy=_put,
    linear=((0, 1),),
    transpose=[
        lambda ct, x, updates, *, axis, positions: put(
            ct, absent(updates.shape, ct.dtype), axis=axis, positions=positions
        ),
        lambda ct, x, updates, *, axis, positions: pick(ct, axis=axis, positions=positions),
    ],
    transpose_moves=True,
    batch=_batch_put,
    pull=_pull_put,
    stores=True,
    samples=cases(
        ((4,), (3,), {"axis": 0, "positions": (2, 0, 3)}),
        ((3, 4), (3, 2), {"axis": 1, "positions": (3, 1)}),
        ((2, 3), (0, 3), {"axis": 0, "positions": ()}),
    ),
)  # fmt: skip
"""An array with new elements at distinct constant positions of an axis."""
