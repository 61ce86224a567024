"""NumPy's functions that assign to an array in place.

The array must be traced, or created by the traced function: an ndarray cannot hold traced elements.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from functrans.errors import TracerConversionError
from functrans.numpy import arrays
from functrans.numpy.define import answers, refuse
from functrans.numpy.indexing import positions_along, within
from functrans.numpy.joining import resize
from functrans.numpy.reductions import mask as mask_of
from functrans.numpy.reductions import truth
from functrans.ops.arrays.structural import reshape
from functrans.ops.elementwise.choice import maximum, select
from functrans.ops.indexing.gather import gather
from functrans.ops.indexing.index import converted, setitem
from functrans.ops.indexing.positions import open_mesh
from functrans.ops.reductions.cumulative import cumsum
from functrans.trace.assignable import Assignable, become_traced
from functrans.trace.source import here
from functrans.trace.tracer import Tracer
from functrans.trace.views import assign

__all__ = [
    "copyto",
    "fill_diagonal",
    "may_share_memory",
    "place",
    "put",
    "put_along_axis",
    "putmask",
]


def check_assignable(x: Any, name: str) -> None:
    """Raise unless traced values can be stored in an array."""
    if type(x) is Assignable:
        become_traced(x)
    if not isinstance(x, Tracer):
        refuse_ndarray(name)


def refuse_ndarray(name: str) -> NoReturn:
    """Raise because an ndarray cannot hold traced values."""
    raise TracerConversionError(
        f"{name} is to store traced values in an ndarray{here()}, which would lose "
        "their derivatives.\n"
        "Make the array traced before: a = functrans.numpy.array(a)."
    )


@answers(np.copyto, views=True)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Copy values to an array where a condition holds."""
    check_assignable(dst, "np.copyto")
    source = arrays.array(src)
    fits = isinstance(src, int) and dst.dtype.kind != "b"  # or the number is out of range
    if not fits:
        arrays.check_castable(source, dst.dtype, casting)
    new = setitem(dst, ..., arrays.in_dtype(src, dst.dtype))
    assign(dst, new if where is True else select(mask_of(where), new, dst), "np.copyto")


@answers(np.put, views=True)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Assign to elements by flat indices."""
    check_assignable(a, "np.put")
    positions = within(arrays.flat(arrays.array(ind)), a.size, mode)
    values = converted(v, a.dtype)
    if values.size:
        values = resize(values, positions.shape)
        assign(a, reshape(setitem(arrays.flat(a), positions, values), shape=a.shape), "put")


@answers(np.putmask, views=True)
def putmask(a: Any, /, mask: Any, values: Any) -> None:
    """Assign to masked elements the values at the same positions."""
    check_assignable(a, "np.putmask")
    if np.size(mask) != a.size:
        raise ValueError("putmask: mask and data must be the same size")
    new = converted(values, a.dtype)
    if new.size:
        assign(
            a, select(reshape(truth(mask), shape=a.shape), resize(new, a.shape), a), "np.putmask"
        )


@answers(np.place, views=True)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """Assign to masked elements one value after the other."""
    check_assignable(arr, "np.place")
    values = arrays.flat(converted(vals, arr.dtype))
    if values.size == 0:
        refuse("np.place of no values", "give one at the least")
    chosen = arrays.flat(truth(mask))
    turn = (
        maximum(cumsum(arrays.astype(chosen, arrays.INDEX), axis=0, reverse=False) - 1, 0)
        % values.size
    )
    new = reshape(gather(values, turn, axes=(0,)), shape=arr.shape)
    assign(arr, select(truth(mask), new, arr), "np.place")


@answers(np.put_along_axis, views=True)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """Assign to elements along one axis by an array of indices."""
    check_assignable(arr, "np.put_along_axis")
    positions = positions_along(arr, indices, axis)
    if axis is None:
        new = setitem(arrays.flat(arr), positions, values)
        return assign(arr, reshape(new, shape=arr.shape), "np.put_along_axis")
    axis = arrays.axis_of(axis, arr.ndim)
    arr[tuple(open_mesh(arr.shape, axis, positions))] = values


@answers(np.fill_diagonal, views=True)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Assign to the main diagonal; with ``wrap``, the diagonal continues in tall matrices."""
    check_assignable(a, "np.fill_diagonal")
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    values = converted(val, a.dtype)
    if not values.size:
        return
    if wrap and a.ndim == 2:
        places = np.arange(0, a.size, a.shape[1] + 1)
        new = setitem(arrays.flat(a), places, resize(values, places.shape))
        assign(a, reshape(new, shape=a.shape), "np.fill_diagonal")
    else:
        size = min(a.shape)
        a[(arrays.counting(size),) * a.ndim] = resize(values, (size,))


@answers(np.may_share_memory)
def may_share_memory(a: Any, b: Any, /, max_work: Any = 0) -> bool:
    """Whether two arrays are the same, or views of one array."""
    return _viewed(a) is _viewed(b)


def _viewed(x: Any) -> Any:
    """The array that an array is a view of, or itself."""
    while isinstance(x, Tracer) and x._as_view is not None and x._as_view.base is not x:
        x = x._as_view.base
    return x
