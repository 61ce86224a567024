"""Concatenation, splitting, repetition, insertion and deletion."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.numpy.arrays import (
    INDEX,
    along,
    along_one,
    array,
    astype,
    axis_of,
    check_castable,
    common_dtype,
    flat,
    operand,
    shape_of,
)
from functrans.numpy.define import answers, needed
from functrans.numpy.shapes import at_least
from functrans.ops.arrays import shape as ops
from functrans.ops.arrays import structural
from functrans.ops.arrays.shape import read_along
from functrans.ops.arrays.structural import expand_axes
from functrans.ops.indexing import views
from functrans.ops.indexing.gather import gather
from functrans.ops.indexing.index import converted

__all__ = [
    "append", "array_split", "block", "column_stack", "concat", "concatenate", "delete",
    "dsplit", "dstack", "hsplit", "hstack", "insert", "repeat", "resize", "split", "stack", "tile",
    "unstack", "vsplit", "vstack",
]  # fmt: skip

MOST_RUNS = 8
"""The most runs of neighbours that `delete` and `insert` read as slices."""

# -- joining ---------------------------------------------------------------------------------------


def _converted(arrays: Any, dtype: Any, casting: str) -> list[Any]:
    parts = [array(x) for x in arrays]
    if not parts:
        raise ValueError("need at least one array to concatenate")
    if dtype is None:
        if casting != "same_kind":
            np.concatenate([[]], casting=casting)  # type: ignore[call-overload]
        return parts
    for part in parts:
        check_castable(part, dtype, casting)
    return [astype(part, dtype) for part in parts]


@answers(np.concatenate, np.concat)
def concatenate(
    arrays: Any, /, axis: Any = 0, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Concatenate arrays along an existing axis."""
    parts = _converted(arrays, dtype, casting)
    if axis is None:
        # Python's numbers do not contribute a dtype
        common = common_dtype(*map(operand, arrays)) if dtype is None else dtype
        return ops.concatenate([astype(flat(part), common) for part in parts], axis=0)
    if parts[0].ndim == 0:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    return ops.concatenate(parts, axis=axis_of(axis, parts[0].ndim))


concat = concatenate


@answers(np.stack)
def stack(arrays: Any, axis: int = 0, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Stack arrays of one shape along a new axis."""
    parts = _converted(arrays, dtype, casting)
    return ops.stack(parts, axis=axis_of(axis, parts[0].ndim + 1))


@answers(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Concatenate arrays along the first axis, vectors as rows."""
    return concatenate([at_least((x,), 2) for x in tup], 0, dtype=dtype, casting=casting)


@answers(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Concatenate arrays along the second axis, vectors along their only axis."""
    parts = [at_least((x,), 1) for x in tup]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@answers(np.dstack)
def dstack(tup: Any) -> Any:
    """Concatenate arrays along the third axis."""
    return concatenate([at_least((x,), 3) for x in tup], 2)


@answers(np.column_stack)
def column_stack(tup: Any) -> Any:
    """Concatenate arrays along the second axis, vectors as columns."""
    parts = [array(x) for x in tup]
    return concatenate([x if x.ndim >= 2 else views.transpose(at_least((x,), 2)) for x in parts], 1)


@answers(np.block)
def block(arrays: Any) -> Any:
    """Assemble an array from nested lists of blocks."""
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
    """Append values to the end of an array."""
    return concatenate([array(arr), array(values)], axis)


# -- splitting -------------------------------------------------------------------------------------


def _cut(x: Any, bounds: Sequence[int], axis: int) -> list[Any]:
    """The views between given split points, which may be out of bounds, as in slices."""
    index: list[Any] = [slice(None)] * x.ndim
    parts = []
    for start, stop in pairwise(bounds):
        index[axis] = slice(start, stop)
        parts.append(x[tuple(index)])
    return parts


@answers(np.array_split, views=True)
def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Any]:
    """Split an array into parts of nearly equal sizes, or at given indices."""
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
    """Split an array into parts of equal sizes, or at given indices."""
    x = array(ary)
    extent = x.shape[axis_of(axis, x.ndim)]
    if not np.ndim(indices_or_sections) and extent % operator.index(indices_or_sections):
        raise ShapeError("array split does not result in an equal division")
    return array_split(x, indices_or_sections, axis)


def _split_along(axis: int, name: str, x: Any, indices_or_sections: Any) -> Any:
    if x.ndim <= axis:
        raise ValueError(f"{name} only works on arrays of {axis + 1} or more dimensions")
    return split(x, indices_or_sections, axis)


@answers(np.hsplit, views=True)
def hsplit(ary: Any, indices_or_sections: Any) -> Any:
    """Split an array along its second axis; a vector along its only axis."""
    x = array(ary)
    return _split_along(0 if x.ndim == 1 else 1, "hsplit", x, indices_or_sections)


@answers(np.vsplit, views=True)
def vsplit(ary: Any, indices_or_sections: Any) -> Any:
    """Split an array along its first axis."""
    x = array(ary)
    if x.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return _split_along(0, "vsplit", x, indices_or_sections)


@answers(np.dsplit, views=True)
def dsplit(ary: Any, indices_or_sections: Any) -> Any:
    """Split an array along its third axis."""
    return _split_along(2, "dsplit", array(ary), indices_or_sections)


@answers(np.unstack, views=True)
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Split an array into the slices along an axis."""
    x = array(x)
    if x.ndim == 0:
        raise ValueError("Input array must be at least 1-d.")
    return tuple(views.moveaxis(x, axis, 0))


# -- repeating, inserting, leaving out -------------------------------------------------------------


@answers(np.tile)
def tile(A: Any, reps: Any) -> Any:
    """Repeat an array along each axis."""
    x = array(A)
    counts = [operator.index(n) for n in (reps if isinstance(reps, (tuple, list)) else (reps,))]
    if any(n < 0 for n in counts):
        raise ValueError("negative dimensions are not allowed")
    count = max(x.ndim, len(counts))
    counts = [1] * (count - len(counts)) + counts
    x = expand_axes(x, tuple(range(count - x.ndim)))
    for axis, n in enumerate(counts):
        if n != 1:
            x = _repeated(x, n, axis)
    return x


def _repeated(x: Any, count: int, axis: int) -> Any:
    """Repeat an array as a whole by a cyclic index, without copies."""
    if count <= 0:
        return read_along(x, axis, 0, 0)
    before, extent, behind = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    x = structural.broadcast_to(expand_axes(x, (axis,)), shape=(*before, count, extent, *behind))
    return structural.reshape(x, shape=(*before, count * extent, *behind))


@answers(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """Repeat each element; the counts must be known during tracing."""
    x, axis = along_one(array(a), axis)
    counts = needed(
        repeats,
        "np.repeat by a number that is traced",
        "the result's shape depends on it; make it static, jit(f, static_argnums=...)",
    )
    positions = np.repeat(np.arange(x.shape[axis]), counts)
    if np.size(counts) == 1:
        return _each(x, int(np.reshape(counts, ())), axis)
    return take_along_one(x, positions, axis)


def _each(x: Any, count: int, axis: int) -> Any:
    """Repeat each slice along an axis ``count`` times by a broadcast; the derivative is a sum."""
    before, extent, behind = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    one = structural.reshape(x, shape=(*before, extent, 1, *behind))
    many = structural.broadcast_to(one, shape=(*before, extent, count, *behind))
    return structural.reshape(many, shape=(*before, extent * count, *behind))


def take_along_one(x: Any, positions: Any, axis: int) -> Any:
    """Gather slices along one axis."""
    out = gather(x, positions, axes=(axis,))
    return views.unlinked(views.moveaxis(out, 0, axis))


@answers(np.resize)
def resize(a: Any, new_shape: Any) -> Any:
    """Resize an array by repeating its elements as needed."""
    x = flat(array(a))
    sizes = shape_of(new_shape)
    if any(size < 0 for size in sizes):
        raise ValueError("all elements of `new_shape` must be non-negative")
    count = int(np.prod(sizes, dtype=np.int64))
    if count == 0 or x.size == 0:
        return np.zeros(sizes, x.dtype)
    whole = _repeated(x, -(-count // x.size), 0)
    return structural.reshape(read_along(whole, 0, 0, count), shape=sizes)


def _position(where: Any, name: str) -> Any:
    places = needed(where, f"np.{name} at a traced position", "the position must be known")
    # an empty list becomes an array of floats, which are no indices elsewhere
    return places if hasattr(where, "dtype") or places.size else places.astype(INDEX)


@answers(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """Delete slices at indices that are known during tracing."""
    x, axis = along(array(arr), axis)
    where = obj if isinstance(obj, slice) else _position(obj, "delete")
    return _in_runs([x], np.delete(np.arange(x.shape[axis]), where), axis)


@answers(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """Insert values at indices that are known during tracing."""
    x, axis = along(array(arr), axis)
    extent = x.shape[axis]
    where = np.arange(extent)[obj] if isinstance(obj, slice) else _position(obj, "insert")
    if where.dtype == bool:
        where = np.flatnonzero(where)
    values = converted(values, x.dtype)
    count = where.size
    if count == 1:  # a single index takes all values along the axis
        values = expand_axes(values, tuple(range(x.ndim - values.ndim)))
        values = views.moveaxis(values, 0, axis) if where.ndim == 0 else values
        count = values.shape[axis]
        where = np.full(count, where.item())
    wanted = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    values = structural.broadcast_to(values, shape=wanted)
    # indices of inserted values are counted from the end of the array
    positions = np.insert(np.arange(extent), where, extent + np.arange(count))
    return _in_runs([x, values], positions, axis)


def _in_runs(arrays: Sequence[Any], positions: Any, axis: int) -> Any:
    """Gather slices of joined arrays; of a few runs of neighbours, as slices that are joined."""
    starts = np.cumsum([0, *(x.shape[axis] for x in arrays)])
    part = np.searchsorted(starts, positions, side="right") - 1
    breaks = np.flatnonzero((np.diff(positions) != 1) | np.diff(part)) + 1
    if not 0 < positions.size or len(breaks) >= MOST_RUNS:
        x = ops.concatenate(arrays, axis=axis) if len(arrays) > 1 else arrays[0]
        return take_along_one(x, positions, axis)
    runs = [
        read_along(arrays[part[i]], axis, int(positions[i] - starts[part[i]]), int(j - i))
        for i, j in pairwise([0, *breaks, positions.size])
    ]
    return ops.concatenate(runs, axis=axis) if len(runs) > 1 else runs[0]
