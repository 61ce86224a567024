"""Static basic slices: reading one, setting one, embedding an array in zeros.

`functrans.ops.compiled.places` describes the form of an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.errors import ShapeError
from functrans.ir.primitive import ALL_LINEAR, LINEAR
from functrans.ir.types import Aval, Shape
from functrans.loop import scalar
from functrans.loop.nodes import as_index, guard
from functrans.ops.arrays.structural import absent, full_p, in_lanes, made, move_axis, place
from functrans.ops.compiled.emission import Emission, Emit, always
from functrans.ops.compiled.places import Index, Range, is_whole, sliced_shape, whole
from functrans.ops.define import primitive
from functrans.ops.samples import cases
from functrans.trace.tracer import Tracer


@cached(4096)
def numpy_index(index: Index) -> tuple[int | slice, ...]:
    """The index in NumPy's form."""

    def entry(of: int | Range) -> int | slice:
        if isinstance(of, int):
            return of
        start, size, step = of
        stop = start + size * step
        return slice(start, stop if stop >= 0 else None, step)

    return tuple(map(entry, index))


def _with_mapped(index: Index, axis: int, size: int) -> Index:
    return (*index[:axis], whole(size), *index[axis:])


def _axis_behind(index: Index, axis: int) -> int:
    """The position, after slicing, of an axis of which the slice takes all."""
    return sum(not isinstance(entry, int) for entry in index[:axis])


def _positions(index: Index, shape: Shape, element: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The conditions under which an element is in the slice, and its position there."""
    inside: list[Any] = []
    within: list[Any] = []
    for entry, extent, i in zip(index, shape, element, strict=True):
        if isinstance(entry, int):
            inside.append(scalar.eq(i, entry))
            continue
        start, size, step = entry
        distance = i - start if step > 0 else start - i
        stride = abs(step)
        if start != 0 or step < 0:
            inside.append(distance >= 0)
        if stride != 1:
            inside.append(scalar.eq(scalar.irem(distance, stride), 0))
        if size * stride < extent or step < 0 or start != 0:
            inside.append(distance < size * stride)
        within.append(scalar.idiv(distance, stride) if stride != 1 else distance)
    return inside, within


def _where_inside(inside: list[Any], value: Any, otherwise: Any) -> Any:
    return guard(reduce(and_, inside), value, otherwise) if inside else value


# -- slice -----------------------------------------------------------------------------------------


def _check_index(index: Index, shape: Shape) -> None:
    """Raise unless an index has an entry for each axis, within the axis's bounds."""
    if len(index) != len(shape):
        raise ShapeError(f"an index of {len(index)} entries for an array of shape {shape}")
    for entry, extent in zip(index, shape, strict=True):
        start, size, step = (entry, 1, 1) if isinstance(entry, int) else entry
        last = start + (size - 1) * step
        if size and not (0 <= start < extent and 0 <= last < extent):
            raise ShapeError(f"the index {index} is not within an array of shape {shape}")


def _infer_slice(x: Aval, *, index: Index) -> Aval:
    _check_index(index, x.shape)
    return x.update(shape=sliced_shape(index))


def _batch_slice(operands: Any, axes: Any, *, index: Index) -> tuple[Any, int]:
    (x,), (axis,) = operands, axes
    return read_slice(x, index=_with_mapped(index, axis, x.shape[axis])), _axis_behind(index, axis)


def _pull_slice(read: Any, element: Any, x: Aval, *, index: Index) -> Any:
    within = iter(element)
    return read(
        0,
        tuple(
            as_index(entry) if isinstance(entry, int) else next(within) * entry[2] + entry[0]
            for entry in index
        ),
    )


slice_p = primitive(
    "slice",
    infer=_infer_slice,
    numpy=lambda x, *, index: x[numpy_index(index)],
    linear=LINEAR,
    transpose=[lambda ct, x, *, index: embed(ct, index=index, shape=x.shape)],
    transpose_moves=True,
    batch=_batch_slice,
    pull=_pull_slice,
    stores=True,
    samples=cases(
        ((5,), {"index": ((1, 3, 1),)}), ((5,), {"index": ((4, 3, -2),)}),
        ((3, 4), {"index": (1, (0, 2, 2))}), ((3, 4), {"index": (2, 3)}),
        ((3, 4), {"index": ((0, 0, 1), (3, 4, -1))}),
    ),
)  # fmt: skip


def read_slice(x: Any, *, index: Index) -> Any:
    """The part of ``x`` at a basic index."""
    return x if is_whole(index, x.shape) else slice_p(x, index=index)


# -- embed -----------------------------------------------------------------------------------------


def _embed(x: Any, *, index: Index, shape: Shape) -> Any:
    out = np.zeros(shape, x.dtype)
    out[numpy_index(index)] = x
    return out[()]


def _infer_embed(x: Aval, *, index: Index, shape: Shape) -> Aval:
    if x.shape != sliced_shape(index):
        raise ShapeError(f"a slice of shape {sliced_shape(index)} cannot hold shape {x.shape}")
    _check_index(index, shape)
    return x.update(shape=shape)


def _batch_embed(operands: Any, axes: Any, *, index: Index, shape: Shape) -> tuple[Any, int]:
    x = move_axis(operands[0], axes[0], 0)
    size = x.shape[0]
    return embed(x, index=_with_mapped(index, 0, size), shape=(size, *shape)), 0


def _pull_embed(read: Any, element: Any, x: Aval, *, index: Index, shape: Shape) -> Any:
    inside, within = _positions(index, shape, element)
    return _where_inside(inside, read(0, tuple(within)), scalar.zero(x.dtype))


embed_p = primitive(
    "embed",
    infer=_infer_embed,
    numpy=_embed,
    linear=LINEAR,
    transpose=[lambda ct, x, *, index, shape: read_slice(ct, index=index)],
    transpose_moves=True,
    batch=_batch_embed,
    pull=_pull_embed,
    stores=True,
    samples=cases(
        ((3,), {"index": ((1, 3, 1),), "shape": (5,)}),
        ((3,), {"index": ((4, 3, -2),), "shape": (6,)}),
        ((2,), {"index": (1, (0, 2, 2)), "shape": (3, 4)}),
        ((), {"index": (0,), "shape": (2,)}), ((0,), {"index": ((0, 0, 1),), "shape": (2,)}),
    ),
)  # fmt: skip


def embed(x: Any, *, index: Index, shape: Shape) -> Any:
    """Structural zeros of the given shape, with ``x`` at a basic index."""
    return x if is_whole(index, shape) else embed_p(x, index=index, shape=shape)


# -- update_slice ----------------------------------------------------------------------------------


def _update_slice(x: Any, value: Any, *, index: Index) -> Any:
    out = np.array(x)
    out[numpy_index(index)] = value
    return out[()]


def _infer_update_slice(x: Aval, value: Aval, *, index: Index) -> Aval:
    if value.shape != sliced_shape(index):
        raise ShapeError(f"a slice of shape {sliced_shape(index)} cannot hold shape {value.shape}")
    _check_index(index, x.shape)
    return x.update()


def _batch_update_slice(operands: Any, axes: Any, *, index: Index) -> tuple[Any, int]:
    (x, value), (x_axis, value_axis) = operands, axes
    size = x.shape[x_axis] if x_axis is not None else value.shape[value_axis]
    x, value = place(x, x_axis, 0, size), place(value, value_axis, 0, size)
    return update_slice(x, value, index=_with_mapped(index, 0, size)), 0


def _pull_update_slice(read: Any, element: Any, x: Aval, value: Aval, *, index: Index) -> Any:
    inside, within = _positions(index, x.shape, element)
    return _where_inside(inside, read(1, tuple(within)), read(0, element))


update_slice_p = primitive(
    "update_slice",
    infer=_infer_update_slice,
    numpy=_update_slice,
    linear=((0, 1),),
    transpose=[
        lambda ct, x, value, *, index: update_slice(
            ct, absent(value.shape, ct.dtype), index=index
        ),
        lambda ct, x, value, *, index: read_slice(ct, index=index),
    ],
    transpose_moves=True,
    batch=_batch_update_slice,
    pull=_pull_update_slice,
    stores=True,
    samples=cases(
        ((5,), (3,), {"index": ((1, 3, 1),)}), ((6,), (3,), {"index": ((4, 3, -2),)}),
        ((3, 4), (2,), {"index": (1, (0, 2, 2))}), ((2,), (), {"index": (0,)}),
    ),
)  # fmt: skip


def update_slice(x: Any, value: Any, *, index: Index) -> Any:
    """``x`` with ``value`` at a basic index."""
    if is_whole(index, x.shape) and isinstance(value, Tracer):
        return value
    return update_slice_p(x, value, index=index)


def padded(x: Any, *, index: Index, shape: Shape) -> Any:
    """Ordinary zeros of the given shape, with ``x`` at a basic index."""
    return update_slice(made(full_p, shape=shape, value=0, dtype=x.dtype), x, index=index)


# -- assemble --------------------------------------------------------------------------------------


def _assemble(*parts: Any, indices: tuple[Index, ...], shape: Shape, adds: bool) -> Any:
    out = np.zeros(shape, parts[0].dtype)
    for part, index in zip(parts, map(numpy_index, indices), strict=True):
        out[index] = out[index] + part if adds else part
    return out[()]


def _infer_assemble(*parts: Aval, indices: tuple[Index, ...], shape: Shape, adds: bool) -> Aval:
    for part, index in zip(parts, indices, strict=True):
        _infer_embed(part, index=index, shape=shape)
    return parts[0].update(shape=shape)


def _transpose_assemble(
    cotangent: Any, *parts: Any, indices: tuple[Index, ...], shape: Shape, adds: bool
) -> list[Any]:
    results: list[Any] = []
    for part, index in zip(reversed(parts), reversed(indices), strict=True):
        taken = read_slice(cotangent, index=index)
        results.append(taken if isinstance(part, Aval) else None)
        if not adds:
            # earlier parts at the same index have been overwritten
            nothing = absent(taken.shape, taken.dtype)
            cotangent = update_slice(cotangent, nothing, index=index)
    return results[::-1]


def _batch_assemble(
    operands: Any, axes: Any, *, indices: tuple[Index, ...], shape: Shape, adds: bool
) -> tuple[Any, int]:
    parts = in_lanes(operands, axes)
    size = parts[0].shape[0]
    mapped = tuple(_with_mapped(index, 0, size) for index in indices)
    return assemble_p(*parts, indices=mapped, shape=(size, *shape), adds=adds), 0


def _pull_assemble(
    read: Any, element: Any, *parts: Aval, indices: tuple[Index, ...], shape: Shape, adds: bool
) -> Any:
    total: Any = scalar.const(0, parts[0].dtype)
    for number, index in enumerate(indices):
        inside, within = _positions(index, shape, element)
        value = read(number, tuple(within))
        if adds:
            total = total + _where_inside(inside, value, scalar.zero(value.dtype))
        else:
            total = _where_inside(inside, value, total)
    return total


def _emit_assemble(at: Emission) -> None:
    indices, adds = at.eqn.params["indices"], at.eqn.params["adds"]
    at.assemble([(index, number) for number, index in enumerate(indices)], adds=adds)


assemble_p = primitive(
    "assemble",
    infer=_infer_assemble,
    numpy=_assemble,
    linear=ALL_LINEAR,
    transpose=_transpose_assemble,
    batch=_batch_assemble,
    pull=_pull_assemble,
    emit=Emit(_emit_assemble, by_elements=always),
    samples=cases(
        ((2,), (2,), {"indices": (((0, 2, 1),), ((1, 2, 1),)), "shape": (4,), "adds": True}),
        ((2,), (2,), {"indices": (((0, 2, 1),), ((1, 2, 1),)), "shape": (4,), "adds": False}),
        ((3,), (2,), {"indices": ((1, (0, 3, 1)), ((1, 2, -1), 2)), "shape": (2, 3),
         "adds": False}),
    ),
)  # fmt: skip
"""Zeros to which parts are added, or in which they are set, in order, each at its basic index.

Sums of embedded slices, and many assignments to one array, are combined into this.
"""
