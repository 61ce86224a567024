"""Shapes, the order of axes, joining, splitting, repeating, padding."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.numpy.arrays import array, astype, axes_of, axis_of, flat, known
from functrans.numpy.define import answers, refuse
from functrans.ops import shape as ops
from functrans.ops import structural, views
from functrans.ops.gather import gather
from functrans.ops.shape import read_along
from functrans.ops.structural import expand_axes

__all__ = [
    "append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "block", "broadcast_arrays",
    "broadcast_to", "column_stack", "concat", "concatenate", "delete", "dsplit", "dstack",
    "expand_dims", "flip", "fliplr", "flipud", "hsplit", "hstack", "insert", "matrix_transpose",
    "moveaxis", "ndim", "permute_dims", "ravel", "repeat", "reshape", "resize", "roll", "rollaxis",
    "rot90", "shape", "size", "split", "squeeze", "stack", "swapaxes", "tile", "transpose",
    "unstack", "vsplit", "vstack",
]  # fmt: skip


def _reshape(x: Any, shape: tuple[int, ...]) -> Any:
    return structural.reshape(x, shape=shape)


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    return structural.broadcast_to(x, shape=shape)


# -- the shape -------------------------------------------------------------------------------------


@answers(np.shape)
def shape(a: Any) -> tuple[int, ...]:
    """The size along each axis."""
    return tuple(array(a).shape)


@answers(np.ndim)
def ndim(a: Any) -> int:
    """The number of axes."""
    return int(array(a).ndim)


@answers(np.size)
def size(a: Any, axis: Any = None) -> int:
    """The number of elements."""
    x = array(a)
    if axis is None:
        return int(x.size)
    return int(np.prod([x.shape[i] for i in axes_of(axis, x.ndim)], dtype=np.int64))


@answers(np.reshape, views=True)
def reshape(a: Any, /, shape: Any, order: Any = "C", *, copy: bool | None = None) -> Any:
    """The same elements in another shape, one size of which may be left open as -1."""
    x = array(a)
    out = views.reshape(x, shape, "C" if order == "A" else order)
    return views.copy(out) if copy else out


@answers(np.ravel, views=True)
def ravel(a: Any, order: Any = "C") -> Any:
    """All elements on one axis."""
    return views.ravel(array(a), "C" if order in ("A", "K") else order)


@answers(np.resize)
def resize(a: Any, new_shape: Any) -> Any:
    """The elements in another shape, repeated as often as it takes."""
    x = flat(array(a))
    sizes = (new_shape,) if not isinstance(new_shape, (tuple, list)) else tuple(new_shape)
    count = int(np.prod(sizes, dtype=np.int64))
    if count == 0 or x.size == 0:
        return np.zeros(sizes, x.dtype)
    whole = ops.concatenate([x] * -(-count // x.size), axis=0)
    return _reshape(read_along(whole, 0, 0, count), sizes)


@answers(np.squeeze, views=True)
def squeeze(a: Any, axis: Any = None) -> Any:
    """The array without axes of size 1."""
    return views.squeeze(array(a), axis)


@answers(np.expand_dims, views=True)
def expand_dims(a: Any, axis: Any) -> Any:
    """The array with new axes of size 1."""
    return views.expand_dims(array(a), axis)


@answers(np.broadcast_to, views=True)
def broadcast_to(array: Any, shape: Any) -> Any:
    """The array repeated along new axes and those of size 1."""
    return views.broadcast_to(ops.asarray(array), shape)


@answers(np.broadcast_arrays, views=True)
def broadcast_arrays(*args: Any) -> tuple[Any, ...]:
    """Arrays repeated to the shape that they have in common."""
    arrays = [array(x) for x in args]
    common = np.broadcast_shapes(*(x.shape for x in arrays))
    return tuple(views.broadcast_to(x, common) for x in arrays)


def _at_least(arrays: tuple[Any, ...], count: int) -> Any:
    results = []
    for x in map(array, arrays):
        missing = max(0, count - x.ndim)
        # NumPy's atleast_3d makes (n,) -> (1, n, 1) and (m, n) -> (m, n, 1)
        behind = count == 3 and x.ndim in (1, 2)
        axes = {1: (0, 2), 2: (2,)}[x.ndim] if behind else tuple(range(missing))
        results.append(views.expand_dims(x, axes) if axes else x)
    return results[0] if len(results) == 1 else tuple(results)


@answers(np.atleast_1d, views=True)
def atleast_1d(*arys: Any) -> Any:
    """Arrays with one axis at the least."""
    return _at_least(arys, 1)


@answers(np.atleast_2d, views=True)
def atleast_2d(*arys: Any) -> Any:
    """Arrays with two axes at the least."""
    return _at_least(arys, 2)


@answers(np.atleast_3d, views=True)
def atleast_3d(*arys: Any) -> Any:
    """Arrays with three axes at the least."""
    return _at_least(arys, 3)


# -- the order of axes -----------------------------------------------------------------------------


@answers(np.transpose, np.permute_dims, views=True)
def transpose(a: Any, axes: Any = None) -> Any:
    """The array with its axes in another order, backwards if none is given."""
    return views.transpose(array(a), axes)


permute_dims = transpose


@answers(np.matrix_transpose, np.linalg.matrix_transpose, views=True)
def matrix_transpose(x: Any, /) -> Any:
    """The array with its last two axes exchanged."""
    return views.matrix_transpose(array(x))


@answers(np.swapaxes, views=True)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """The array with two axes exchanged."""
    return views.swapaxes(array(a), axis1, axis2)


@answers(np.moveaxis, views=True)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """The array with some axes in other places."""
    return views.moveaxis(array(a), source, destination)


@answers(np.rollaxis, views=True)
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """The array with one axis moved to before another."""
    x = array(a)
    axis = axis_of(axis, x.ndim)
    if not -x.ndim <= start <= x.ndim:
        raise np.exceptions.AxisError(f"start={start} is out of bounds for {x.ndim} axes")
    start = start + x.ndim if start < 0 else start
    return views.moveaxis(x, axis, start - (axis < start))


@answers(np.flip, views=True)
def flip(m: Any, axis: Any = None) -> Any:
    """The array backwards along some axes, or all."""
    return views.flip(array(m), axis)


@answers(np.flipud, views=True)
def flipud(m: Any) -> Any:
    """The array backwards along its first axis."""
    return views.flip(array(m), 0)


@answers(np.fliplr, views=True)
def fliplr(m: Any) -> Any:
    """The array backwards along its second axis."""
    return views.flip(array(m), 1)


@answers(np.rot90, views=True)
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """The array turned by ``k`` right angles in the plane of two axes."""
    x = array(m)
    first, second = (axis_of(axis, x.ndim) for axis in axes)
    if first == second:
        raise ValueError("Axes must be different.")
    k = operator.index(k) % 4
    if k == 0:
        return views.copy(x)
    if k == 2:
        return views.flip(x, (first, second))
    if k == 1:
        return views.swapaxes(views.flip(x, second), first, second)
    return views.flip(views.swapaxes(x, first, second), second)


@answers(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """The array with its elements moved along axes; what leaves at one end enters at the other."""
    x = array(a)
    if axis is None:
        return _reshape(roll(flat(x), shift, 0), x.shape)
    for s, i in np.broadcast(shift, axis):
        x = ops.roll(x, shift=int(s), axis=axis_of(int(i), x.ndim))
    return x


# -- joining ---------------------------------------------------------------------------------------


def _converted(arrays: Any, dtype: Any, casting: str) -> list[Any]:
    parts = [array(x) for x in arrays]
    if not parts:
        raise ValueError("need at least one array to concatenate")
    if dtype is None:
        return parts
    for part in parts:
        if not np.can_cast(part.dtype, dtype, casting):  # type: ignore[arg-type]
            raise TypeError(
                f"Cannot cast array data from {part.dtype!r} to {np.dtype(dtype)!r} according to "
                f"the rule {casting!r}"
            )
    return [astype(part, dtype) for part in parts]


@answers(np.concatenate, np.concat)
def concatenate(
    arrays: Any, /, axis: Any = 0, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Arrays joined along an axis that they have."""
    parts = _converted(arrays, dtype, casting)
    if axis is None:
        return ops.concatenate([flat(part) for part in parts], axis=0)
    if parts[0].ndim == 0:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    return ops.concatenate(parts, axis=axis_of(axis, parts[0].ndim))


concat = concatenate


@answers(np.stack)
def stack(arrays: Any, axis: int = 0, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays of one shape joined along a new axis."""
    parts = _converted(arrays, dtype, casting)
    return ops.stack(parts, axis=axis_of(axis, parts[0].ndim + 1))


@answers(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays joined along the first axis, vectors as rows."""
    return concatenate([_at_least((x,), 2) for x in tup], 0, dtype=dtype, casting=casting)


@answers(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays joined along the second axis, vectors along their only one."""
    parts = [_at_least((x,), 1) for x in tup]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@answers(np.dstack)
def dstack(tup: Any) -> Any:
    """Arrays joined along the third axis."""
    return concatenate([_at_least((x,), 3) for x in tup], 2)


@answers(np.column_stack)
def column_stack(tup: Any) -> Any:
    """Arrays joined along the second axis, vectors as columns."""
    parts = [array(x) for x in tup]
    return concatenate(
        [x if x.ndim >= 2 else views.transpose(_at_least((x,), 2)) for x in parts], 1
    )


@answers(np.block)
def block(arrays: Any) -> Any:
    """An array put together from nested lists of blocks."""
    depth = _depth(arrays)
    blocks = _leaves(arrays)
    ndim = max([depth, *(array(x).ndim for x in blocks)])
    return _joined(arrays, depth, ndim)


def _depth(blocks: Any) -> int:
    return 1 + max(map(_depth, blocks)) if isinstance(blocks, list) and blocks else 0


def _leaves(blocks: Any) -> list[Any]:
    if isinstance(blocks, list):
        return [leaf for part in blocks for leaf in _leaves(part)]
    return [blocks]


def _joined(blocks: Any, depth: int, ndim: int) -> Any:
    if not isinstance(blocks, list):
        x = array(blocks)
        return expand_axes(x, tuple(range(ndim - x.ndim)))
    return concatenate([_joined(part, depth - 1, ndim) for part in blocks], -depth)


@answers(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """An array with others behind it."""
    return concatenate([array(arr), array(values)], axis)


# -- splitting -------------------------------------------------------------------------------------


def _cut(x: Any, bounds: Sequence[int], axis: int) -> list[Any]:
    """The views between bounds, which may lie anywhere, as those of slices may."""
    index: list[Any] = [slice(None)] * x.ndim
    parts = []
    for start, stop in pairwise(bounds):
        index[axis] = slice(start, stop)
        parts.append(x[tuple(index)])
    return parts


@answers(np.array_split, views=True)
def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Any]:
    """An array in parts of sizes as equal as they can be, or cut where one says."""
    x = array(ary)
    axis = axis_of(axis, x.ndim)
    extent = x.shape[axis]
    if np.ndim(indices_or_sections):
        return _cut(x, [0, *map(int, indices_or_sections), extent], axis)
    count = operator.index(indices_or_sections)
    if count <= 0:
        raise ValueError("number sections must be larger than 0.")
    each, longer = divmod(extent, count)
    sizes = [each + 1] * longer + [each] * (count - longer)
    return _cut(x, [0, *np.cumsum(sizes).tolist()], axis)


@answers(np.split, views=True)
def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Any]:
    """An array in parts of equal sizes, or cut where one says."""
    x = array(ary)
    extent = x.shape[axis_of(axis, x.ndim)]
    if not np.ndim(indices_or_sections) and extent % operator.index(indices_or_sections):
        raise ShapeError("array split does not result in an equal division")
    return array_split(x, indices_or_sections, axis)  # type: ignore[no-any-return]


def _split_along(axis: int, name: str, x: Any, indices_or_sections: Any) -> Any:
    if x.ndim <= axis:
        raise ValueError(f"{name} only works on arrays of {axis + 1} or more dimensions")
    return split(x, indices_or_sections, axis)


@answers(np.hsplit, views=True)
def hsplit(ary: Any, indices_or_sections: Any) -> Any:
    """An array in parts along its second axis; a vector along its only one."""
    x = array(ary)
    return _split_along(0 if x.ndim == 1 else 1, "hsplit", x, indices_or_sections)


@answers(np.vsplit, views=True)
def vsplit(ary: Any, indices_or_sections: Any) -> Any:
    """An array in parts along its first axis."""
    x = array(ary)
    if x.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return _split_along(0, "vsplit", x, indices_or_sections)


@answers(np.dsplit, views=True)
def dsplit(ary: Any, indices_or_sections: Any) -> Any:
    """An array in parts along its third axis."""
    return _split_along(2, "dsplit", array(ary), indices_or_sections)


if hasattr(np, "unstack"):  # NumPy 2.1

    @answers(np.unstack, views=True)
    def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
        """The arrays that are stacked along an axis."""
        x = array(x)
        if x.ndim == 0:
            raise ValueError("Input array must be at least 1-d.")
        return tuple(views.moveaxis(x, axis, 0))


# -- repeating, inserting, leaving out -------------------------------------------------------------


@answers(np.tile)
def tile(A: Any, reps: Any) -> Any:
    """The array put side by side with itself."""
    x = array(A)
    counts = [operator.index(n) for n in (reps if isinstance(reps, (tuple, list)) else (reps,))]
    count = max(x.ndim, len(counts))
    counts = [1] * (count - len(counts)) + counts
    x = expand_axes(x, tuple(range(count - x.ndim)))
    for axis, n in enumerate(counts):
        if n == 0:
            x = read_along(x, axis, 0, 0)
        x = ops.concatenate([x] * max(n, 1), axis=axis)
    return x


@answers(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """Each element a number of times, which must be known when the program is traced."""
    x = array(a)
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_of(axis, x.ndim)
    counts = known(repeats)
    if counts is None:
        refuse("np.repeat by a number that is traced", "the result's shape depends on it")
    positions = np.repeat(np.arange(x.shape[axis]), counts)
    return take_along_one(x, positions, axis)


def take_along_one(x: Any, positions: Any, axis: int) -> Any:
    """The parts of an array at positions along one axis."""
    out = gather(x, positions, axes=(axis,))
    return views.unlinked(views.moveaxis(out, 0, axis))


@answers(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """The array without its parts at positions that are known when the program is traced."""
    x = array(arr)
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_of(axis, x.ndim)
    where = obj if isinstance(obj, slice) else known(obj)
    if where is None:
        refuse("np.delete at a traced position", "the position must be known")
    return take_along_one(x, np.delete(np.arange(x.shape[axis]), where), axis)


@answers(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """The array with values put in at positions that are known when the program is traced."""
    x = array(arr)
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_of(axis, x.ndim)
    where = obj if isinstance(obj, slice) else known(obj)
    if where is None:
        refuse("np.insert at a traced position", "the position must be known")
    extent = x.shape[axis]
    # what comes from the values is counted from the end of the array on
    one = not isinstance(obj, slice) and np.ndim(where) == 0
    count = 1 if one else np.arange(extent)[where].size if isinstance(obj, slice) else where.size
    positions = np.insert(np.arange(extent), where, extent if one else extent + np.arange(count))
    values = astype(array(values), x.dtype)
    if one:
        # as NumPy has it, a lone position takes values without the axis, or with it in front
        values = _inserted_at_one(values, x, axis)
    else:
        wanted = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        values = _broadcast(values, wanted)
    extra = values.shape[axis]
    if one and extra != 1:
        positions = np.insert(
            np.arange(extent), np.full(extra, where.item()), extent + np.arange(extra)
        )
    return take_along_one(ops.concatenate([x, values], axis=axis), positions, axis)


def _inserted_at_one(values: Any, x: Any, axis: int) -> Any:
    values = expand_axes(values, tuple(range(x.ndim - values.ndim)))
    values = views.moveaxis(values, 0, axis)
    wanted = (*x.shape[:axis], values.shape[axis], *x.shape[axis + 1 :])
    return _broadcast(values, wanted)
