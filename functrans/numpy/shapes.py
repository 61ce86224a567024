"""Shapes and the order of axes."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functrans.ir.types import broadcast_shape
from functrans.numpy.arrays import INDEX, array, astype, axes_of, axis_of, flat, known, shape_of
from functrans.numpy.define import answers
from functrans.ops.arrays import shape as ops
from functrans.ops.arrays import structural
from functrans.ops.elementwise.arithmetic import remainder
from functrans.ops.indexing import views
from functrans.ops.indexing.gather import gather

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to",
    "diag_indices_from", "expand_dims", "flip", "fliplr", "flipud", "matrix_transpose", "moveaxis",
    "ndim", "permute_dims", "ravel", "reshape", "roll", "rollaxis", "rot90", "shape", "size",
    "squeeze", "swapaxes", "transpose", "tril_indices_from", "triu_indices_from",
]  # fmt: skip


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
    """Change the shape of an array; one extent may be -1, to be inferred."""
    x = array(a)
    out = views.reshape(x, shape, order)
    return views.copy(out) if copy else out


@answers(np.ravel, views=True)
def ravel(a: Any, order: Any = "C") -> Any:
    """Flatten an array."""
    return views.ravel(array(a), order)


@answers(np.squeeze, views=True)
def squeeze(a: Any, axis: Any = None) -> Any:
    """Remove axes of size 1."""
    return views.squeeze(array(a), axis)


@answers(np.expand_dims, views=True)
def expand_dims(a: Any, axis: Any) -> Any:
    """Insert axes of size 1."""
    return views.expand_dims(array(a), axis)


@answers(np.broadcast_to, views=True)
def broadcast_to(array: Any, shape: Any) -> Any:
    """Broadcast an array to a shape."""
    sizes = shape_of(shape)
    if any(size < 0 for size in sizes):
        raise ValueError("all elements of broadcast shape must be non-negative")
    return views.broadcast_to(ops.asarray(array), sizes)


@answers(np.broadcast_arrays, views=True)
def broadcast_arrays(*args: Any) -> tuple[Any, ...]:
    """Broadcast arrays to a common shape."""
    arrays = [array(x) for x in args]
    common = broadcast_shape(*(x.shape for x in arrays))
    return tuple(views.broadcast_to(x, common) for x in arrays)


def at_least(arrays: tuple[Any, ...], count: int) -> Any:
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
    """Add axes to arrays up to one."""
    return at_least(arys, 1)


@answers(np.atleast_2d, views=True)
def atleast_2d(*arys: Any) -> Any:
    """Add axes to arrays up to two."""
    return at_least(arys, 2)


@answers(np.atleast_3d, views=True)
def atleast_3d(*arys: Any) -> Any:
    """Add axes to arrays up to three."""
    return at_least(arys, 3)


# -- the order of axes -----------------------------------------------------------------------------


@answers(np.transpose, np.permute_dims, views=True)
def transpose(a: Any, axes: Any = None) -> Any:
    """Permute the axes of an array; by default, reverse them."""
    return views.transpose(array(a), axes)


permute_dims = transpose


@answers(np.matrix_transpose, np.linalg.matrix_transpose, views=True)
def matrix_transpose(x: Any, /) -> Any:
    """Transpose the last two axes."""
    return views.matrix_transpose(array(x))


@answers(np.swapaxes, views=True)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Exchange two axes."""
    return views.swapaxes(array(a), axis1, axis2)


@answers(np.moveaxis, views=True)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Move axes to new positions."""
    return views.moveaxis(array(a), source, destination)


@answers(np.rollaxis, views=True)
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """Move an axis to before another one."""
    x = array(a)
    axis = axis_of(axis, x.ndim)
    if not -x.ndim <= start <= x.ndim:
        raise np.exceptions.AxisError(f"start={start} is out of bounds for {x.ndim} axes")
    start = start + x.ndim if start < 0 else start
    return views.moveaxis(x, axis, start - (axis < start))


@answers(np.flip, views=True)
def flip(m: Any, axis: Any = None) -> Any:
    """Reverse an array along some or all axes."""
    return views.flip(array(m), axis)


@answers(np.flipud, views=True)
def flipud(m: Any) -> Any:
    """Reverse an array along its first axis."""
    return views.flip(array(m), 0)


@answers(np.fliplr, views=True)
def fliplr(m: Any) -> Any:
    """Reverse an array along its second axis."""
    return views.flip(array(m), 1)


@answers(np.rot90, views=True)
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Rotate an array by ``k`` right angles in the plane of two axes."""
    x = array(m)
    first, second = (axis_of(axis, x.ndim) for axis in axes)
    if first == second:
        raise ValueError("Axes must be different.")
    k = operator.index(k) % 4
    if k == 0:
        return x
    if k == 2:
        return views.flip(x, (first, second))
    if k == 1:
        return views.swapaxes(views.flip(x, second), first, second)
    return views.flip(views.swapaxes(x, first, second), second)


@answers(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Shift elements cyclically along axes."""
    x = array(a)
    if axis is None:
        return structural.reshape(roll(flat(x), shift, 0), shape=x.shape)
    shifts, axes = array(shift), np.asarray(axis)
    if max(shifts.ndim, axes.ndim) > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    places = known(shifts)
    if places is None:
        (count,) = broadcast_shape(shifts.shape, axes.shape, (1,))
        steps = structural.broadcast_to(shifts, shape=(count,))
        for k, i in enumerate(np.broadcast_to(axes, (count,))):
            x = _rolled(x, steps[k], axis_of(int(i), x.ndim))
        return x
    for s, i in np.broadcast(places, axes):
        x = ops.roll(x, shift=int(s), axis=axis_of(int(i), x.ndim))
    return x


def _rolled(x: Any, shift: Any, axis: int) -> Any:
    """A cyclic shift by a traced distance."""
    extent = x.shape[axis]
    if extent == 0:
        return x
    # a narrow dtype may not hold the extent
    wide = shift if shift.dtype == np.uint64 else astype(shift, INDEX)
    # negative positions count from the end
    positions = structural.iota(size=extent, dtype=INDEX) - astype(remainder(wide, extent), INDEX)
    return structural.move_axis(gather(x, positions, axes=(axis,)), 0, axis)


# -- index arrays of a shape -----------------------------------------------------------------------


@answers(np.tril_indices_from)
def tril_indices_from(arr: Any, k: int = 0) -> Any:
    """The indices of the lower triangle of a matrix."""
    rows, columns = _matrix_shape(arr)
    return np.tril_indices(rows, k, columns)


@answers(np.triu_indices_from)
def triu_indices_from(arr: Any, k: int = 0) -> Any:
    """The indices of the upper triangle of a matrix."""
    rows, columns = _matrix_shape(arr)
    return np.triu_indices(rows, k, columns)


def _matrix_shape(x: Any) -> Any:
    if array(x).ndim != 2:
        raise ValueError("input array must be 2-d")
    return array(x).shape


@answers(np.diag_indices_from)
def diag_indices_from(arr: Any) -> Any:
    """The indices of the main diagonal of an array with equal extents."""
    x = array(arr)
    if x.ndim < 2 or len(set(x.shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return np.diag_indices(x.shape[0], x.ndim)
