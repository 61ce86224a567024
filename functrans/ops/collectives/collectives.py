"""Collectives: sums, extremes, and moves of elements over the lanes of a named axis.

Each takes a lane's value and the lane's number. If the lanes are those of `vmap`, that number is
mapped over the axis: the batching rule has the values of all lanes in one array, and a collective
becomes a sum, a transposition or a no-op. If the lanes are processes, ``engine`` passes messages.

A value *varies* along the axis, or is *invariant*: equal in all lanes. The type rule of each
primitive is its slot ``collective``, which says what the result is; the operand is varying, except
that of `pvary` and `own_part`. The transposes exchange the two::

    pvary     invariant -> varying     psum        varying -> invariant
    own_part  invariant -> varying     all_gather  varying -> invariant

Parameters of all: ``name``, ``size`` (the number of lanes) and ``engine``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from functrans.errors import AxesError, ShapeError
from functrans.ir.primitive import LINEAR, ZERO_DERIVATIVE, Primitive
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.ops.arrays import structural
from functrans.ops.arrays.shape import concatenate
from functrans.ops.arrays.slicing import read_slice
from functrans.ops.compiled.emission import Emit, elements
from functrans.ops.compiled.places import whole
from functrans.ops.define import primitive
from functrans.ops.elementwise.choice import masked, nan_if
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.logic import isnan
from functrans.ops.reductions.reduce import reduce_max, reduce_min

INVARIANT, VARYING = "invariant", "varying"

Batched = tuple[Any, int | None]


_applies = lazy("functrans.ops.collectives.compiled.exchange:applies")
_emit = lazy("functrans.ops.collectives.compiled.exchange:emit")


def _compiled(rule: Callable[..., None] = _emit) -> dict[str, Any]:
    """The slots of a collective that compiles to an MPI call if the lanes are processes."""
    return {"emit": Emit(rule, _applies, elements), "emit_on_grid": None}


def collective(
    name: str,
    *,
    result: str,  # whether the result is `INVARIANT` or `VARYING`
    # the result for a single lane, from a plain array and the collective's own parameters
    alone: Callable[..., Any],
    # the batching rule: ``lanes(x, axis, size, **params)`` of the values of all lanes along
    # ``axis``, or of the value that all have if that is None; gives the result and its axis
    lanes: Callable[..., Batched],
    infer: Callable[..., Aval] = lambda x, lane, **params: x.update(),
    waits: bool = True,  # whether a lane needs the values of others
    **slots: Any,
) -> Primitive:
    """Define a collective."""

    def numpy(x: Any, lane: Any, *, name: str, size: int, engine: Any, **params: Any) -> Any:
        if engine is not None:
            return getattr(engine, op.name)(x, **params)
        if size == 1 or not waits:
            return alone(np.asarray(x), **params)[()]
        raise AxesError(
            f"{op.name} along {name!r} was met by one lane alone.\nIf a branch or a loop depends "
            "on what varies along the axis, choose between results (np.where) instead, or let all "
            "lanes go the same way. If a pullback that was made under "
            f"vmap(..., axis_name={name!r}) is called outside, call it under such a vmap. If the "
            "function calls no collective, leave out axis_name: with it, the derivatives of a "
            "value that lanes share are added up"
        )

    def batch(
        operands: Any, axes: Any, *, along: str | None, name: str, size: int, engine: Any,
        **params: Any,
    ) -> Any:  # fmt: skip
        (x, lane), (axis, lane_axis) = operands, axes
        if along == name and lane_axis is not None:
            return lanes(x, axis, size, **params)
        # lanes of another axis are mapped as usual
        if lane_axis is not None:
            # a number repeated among the residuals of a batch of pullbacks; only the named axis,
            # along which it is still mapped, matters
            lane = structural.reduce_sum(lane, axes=(lane_axis,))
        if axis is not None:
            x = structural.move_axis(x, axis, 0)
            params = {key: value + 1 if key == "axis" else value for key, value in params.items()}
        result = op(x, lane, name=name, size=size, engine=engine, **params)
        return result, None if axis is None else 0

    op: Primitive = primitive(
        name, infer=infer, numpy=numpy, batch=batch, collective=result, **slots
    )
    return op


# -- the same value, as every lane's own -----------------------------------------------------------

pvary: Primitive = collective(
    "pvary",
    result=VARYING,
    alone=lambda x: x,
    lanes=lambda x, axis, size: (x, axis),
    waits=False,
    linear=LINEAR,
    transpose=[lambda ct, x, lane, **axis: psum(ct, lane, **axis), None],
    pull=lambda read, index, x, lane, **axis: read(0, index),
)


# -- reductions ------------------------------------------------------------------------------------


def _sum(x: Any, axis: int | None, size: int) -> Batched:
    return (x * size if axis is None else structural.reduce_sum(x, axes=(axis,))), None


psum: Primitive = collective(
    "psum",
    result=INVARIANT,
    alone=lambda x: x,
    lanes=_sum,
    linear=LINEAR,
    transpose=[lambda ct, x, lane, **axis: pvary(ct, lane, **axis), None],
    **_compiled(),
)


def _extreme(reduce: Primitive, x: Any, axis: int | None, size: int) -> Batched:
    return (x if axis is None else reduce(x, axes=(axis,))), None


def _shared_by_ties(x: Any, lane: Any, out: Any, dx: Any, **axis: Any) -> Any:
    """The tangent of an extreme: the mean of the tangents of the lanes that have the extreme."""
    wins = equal(x, out) | isnan(out)
    count = psum(structural.cast(wins, dtype=x.dtype), lane, **axis)
    return psum(masked(wins, dx), lane, **axis) / nan_if(isnan(out), count)


pmax, pmin = (
    collective(
        name,
        result=INVARIANT,
        alone=lambda x: x,
        lanes=partial(_extreme, reduce),
        jvp=[_shared_by_ties, None],
        **_compiled(),
    )
    for name, reduce in (("pmax", reduce_max), ("pmin", reduce_min))
)


# -- the parts of all lanes, and one's own part ----------------------------------------------------


def _infer_gathered(x: Aval, lane: Aval, *, size: int, axis: int, **params: Any) -> Aval:
    return x.update(shape=(*x.shape[:axis], size, *x.shape[axis:]))


all_gather: Primitive = collective(
    "all_gather",
    result=INVARIANT,
    infer=_infer_gathered,
    alone=lambda x, *, axis: np.expand_dims(x, axis),
    lanes=lambda x, mapped, size, *, axis: (structural.place(x, mapped, axis, size), None),
    linear=LINEAR,
    transpose=[lambda ct, x, lane, **axis: own_part(ct, lane, **axis), None],
    **_compiled(),
)
"""The values of all lanes along a new ``axis``."""


def _infer_part(x: Aval, lane: Aval, *, size: int, axis: int, **params: Any) -> Aval:
    if not axis < x.ndim or x.shape[axis] != size:
        raise ShapeError(f"{x} has no axis {axis} with one place for each of {size} lanes")
    return x.update(shape=structural.drop_axes(x.shape, (axis,)))


def _own_part(x: Any, mapped: int | None, size: int, *, axis: int) -> Batched:
    if mapped is None:
        return x, axis
    # lane i takes element i: the diagonal of the lanes and the axis
    rows = structural.move_axis(structural.move_axis(x, mapped, 0), axis + 1, 1)
    places = structural.iota(size=size, dtype=np.dtype(np.int64))
    ones = tuple(1 for _ in rows.shape[2:])
    diagonal = equal(structural.expand_axes(places, (1,)), structural.expand_axes(places, (0,)))
    mask = structural.broadcast_to(diagonal.reshape(size, size, *ones), shape=rows.shape)
    return structural.reduce_sum(masked(mask, rows), axes=(1,)), 0


own_part: Primitive = collective(
    "own_part",
    result=VARYING,
    infer=_infer_part,
    alone=lambda x, *, axis: np.squeeze(x, axis),
    lanes=_own_part,
    linear=LINEAR,
    transpose=[lambda ct, x, lane, **axis: all_gather(ct, lane, **axis), None],
    **_compiled(lazy("functrans.ops.collectives.compiled.exchange:own_part")),
)
"""The element along ``axis`` that has the number of the lane."""


def _scattered(x: Any, mapped: int | None, size: int, *, axis: int) -> Batched:
    if mapped is None:
        return x * size, axis
    # the lanes' axis comes before the axes of a lane's value
    return structural.reduce_sum(x, axes=(mapped,)), axis


def _spread_back(ct: Any, x: Any, lane: Any, *, axis: int, **along: Any) -> Any:
    parts = all_gather(ct, lane, axis=axis, **along)
    return pvary(parts, lane, **along)


psum_scatter = collective(
    "psum_scatter",
    result=VARYING,
    infer=_infer_part,
    alone=lambda x, *, axis: np.squeeze(x, axis),
    lanes=_scattered,
    linear=LINEAR,
    transpose=[_spread_back, None],
    **_compiled(),
)
"""The lane's own part of the sum over the lanes."""


# -- exchanges -------------------------------------------------------------------------------------


def _infer_exchanged(x: Aval, lane: Aval, *, size: int, axis: int, **params: Any) -> Aval:
    _infer_part(x, lane, size=size, axis=axis)
    return x.update()


def _exchanged(x: Any, mapped: int | None, size: int, *, axis: int) -> Batched:
    rows = structural.place(x, mapped, 0, size)
    order = list(range(rows.ndim))
    order[0], order[axis + 1] = axis + 1, 0
    return structural.transpose(rows, permutation=tuple(order)), 0


all_to_all: Primitive = collective(
    "all_to_all",
    result=VARYING,
    infer=_infer_exchanged,
    alone=lambda x, *, axis: x,
    lanes=_exchanged,
    linear=LINEAR,
    transpose=[lambda ct, x, lane, **axis: all_to_all(ct, lane, **axis), None],
    **_compiled(),
)
"""Along ``axis``, the part that each lane sends to this one."""

Moves = tuple[tuple[int, int], ...]


def _runs(moves: Moves, size: int) -> list[tuple[int | None, int]]:
    """Runs of consecutive sources, ``(first source, count)``; source None: nothing is received."""
    sources = {receiver: sender for sender, receiver in moves}
    runs: list[tuple[int | None, int]] = []
    for receiver in range(size):
        source = sources.get(receiver)
        if runs:
            first, count = runs[-1]
            if source == (None if first is None else first + count):
                runs[-1] = first, count + 1
                continue
        runs.append((source, 1))
    return runs


def _permuted(x: Any, mapped: int | None, size: int, *, moves: Moves) -> Batched:
    rows = structural.place(x, mapped, 0, size)
    rest = rows.shape[1:]
    parts = [
        structural.zeros((count, *rest), rows.dtype)
        if first is None
        else read_slice(rows, index=((first, count, 1), *map(whole, rest)))
        for first, count in _runs(moves, size)
    ]
    return (parts[0] if len(parts) == 1 else concatenate(parts, axis=0)), 0


def _send_back(ct: Any, x: Any, lane: Any, *, moves: Moves, **axis: Any) -> Any:
    backwards = tuple((receiver, sender) for sender, receiver in moves)
    return ppermute(ct, lane, moves=backwards, **axis)


ppermute: Primitive = collective(
    "ppermute",
    result=VARYING,
    alone=lambda x, *, moves: x if moves else np.zeros_like(x),
    lanes=_permuted,
    linear=LINEAR,
    transpose=[_send_back, None],
    **_compiled(lazy("functrans.ops.collectives.compiled.exchange:permute")),
)
"""The value of the lane that sends to this one, by pairs (sender, receiver); zeros if none does."""


# -- the number of a lane --------------------------------------------------------------------------

lane_number = primitive(
    "lane_number",
    infer=lambda *, name, size, engine, dtype: Aval((), dtype),
    numpy=lambda *, name, size, engine, dtype: dtype.type(engine.number()),
    jvp=ZERO_DERIVATIVE,
    **_compiled(lazy("functrans.ops.collectives.compiled.exchange:rank")),
)
"""The number of this process among the lanes of an ``engine``."""


def is_along(eqn: Any, name: str) -> bool:
    """Whether an equation is a collective along the named axis."""
    return eqn.primitive.collective is not None and eqn.params["name"] == name
