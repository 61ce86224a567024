"""Shapes and the order of axes."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functrans.ir.types import broadcast_shape
from functrans.numpy.arrays import INDEX, array, astype, axes_of, axis_of, flat, known
from functrans.numpy.define import answers
from functrans.ops.arrays import shape as ops
from functrans.ops.arrays import structural
from functrans.ops.elementwise.arithmetic import remainder
from functrans.ops.indexing import views
from functrans.ops.indexing.gather import gather

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_to",
    "diag_indices_from",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "matrix_transpose",
    "moveaxis",
    "ndim",
    "permute_dims",
    "ravel",
    "reshape",
    "roll",
    "rollaxis",
    "rot90",
    "shape",
    "size",
    "squeeze",
    "swapaxes",
    "transpose",
    "tril_indices_from",
    "triu_indices_from",
]  # fmt: skip


def _reshape(x: Any, shape: tuple[int, ...]) -> Any:
    return structural.reshape(x, shape=shape)


# -- the shape -------------------------------------------------------------------------------------


shape = answers(np.shape)(lambda a: tuple(array(a).shape))
ndim = answers(np.ndim)(lambda a: int(array(a).ndim))


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


ravel = answers(np.ravel, views=True)(lambda a, order="C": views.ravel(array(a), order))
squeeze = answers(np.squeeze, views=True)(lambda a, axis=None: views.squeeze(array(a), axis))
expand_dims = answers(np.expand_dims, views=True)(lambda a, axis: views.expand_dims(array(a), axis))
broadcast_to = answers(np.broadcast_to, views=True)(
    lambda array, shape: views.broadcast_to(ops.asarray(array), shape)
)


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


atleast_1d = answers(np.atleast_1d, views=True)(lambda *arys: at_least(arys, 1))
atleast_2d = answers(np.atleast_2d, views=True)(lambda *arys: at_least(arys, 2))
atleast_3d = answers(np.atleast_3d, views=True)(lambda *arys: at_least(arys, 3))


# -- the order of axes -----------------------------------------------------------------------------


transpose = answers(np.transpose, np.permute_dims, views=True)(
    lambda a, axes=None: views.transpose(array(a), axes)
)


permute_dims = transpose


matrix_transpose = answers(np.matrix_transpose, np.linalg.matrix_transpose, views=True)(
    lambda x, /: views.matrix_transpose(array(x))
)
swapaxes = answers(np.swapaxes, views=True)(
    lambda a, axis1, axis2: views.swapaxes(array(a), axis1, axis2)
)
moveaxis = answers(np.moveaxis, views=True)(
    lambda a, source, destination: views.moveaxis(array(a), source, destination)
)


@answers(np.rollaxis, views=True)
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """Move an axis to before another one."""
    x = array(a)
    axis = axis_of(axis, x.ndim)
    if not -x.ndim <= start <= x.ndim:
        raise np.exceptions.AxisError(f"start={start} is out of bounds for {x.ndim} axes")
    start = start + x.ndim if start < 0 else start
    return views.moveaxis(x, axis, start - (axis < start))


flip = answers(np.flip, views=True)(lambda m, axis=None: views.flip(array(m), axis))
flipud = answers(np.flipud, views=True)(lambda m: views.flip(array(m), 0))
fliplr = answers(np.fliplr, views=True)(lambda m: views.flip(array(m), 1))


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
        return _reshape(roll(flat(x), shift, 0), x.shape)
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
    x = array(arr)
    if x.ndim != 2:
        raise ValueError("input array must be 2-d")
    return np.tril_indices(x.shape[0], k, x.shape[1])


@answers(np.triu_indices_from)
def triu_indices_from(arr: Any, k: int = 0) -> Any:
    """The indices of the upper triangle of a matrix."""
    x = array(arr)
    if x.ndim != 2:
        raise ValueError("input array must be 2-d")
    return np.triu_indices(x.shape[0], k, x.shape[1])


@answers(np.diag_indices_from)
def diag_indices_from(arr: Any) -> Any:
    """The indices of the main diagonal of an array with equal extents."""
    x = array(arr)
    if x.ndim < 2 or len(set(x.shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return np.diag_indices(x.shape[0], x.ndim)
