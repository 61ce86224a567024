"""Gathering elements by index; sorting and searching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.errors import DtypeError, ShapeError
from functrans.ir.types import is_complex, is_float, is_inexact
from functrans.loop.failures import ALL_NAN
from functrans.numpy.arrays import (
    INDEX,
    along,
    along_one,
    array,
    astype,
    axis_of,
    flat,
    known,
    vector,
)
from functrans.numpy.define import answers, sizing
from functrans.numpy.joining import take_along_one
from functrans.numpy.reductions import any as any_along
from functrans.numpy.reductions import argmax, argmin
from functrans.numpy.sized import places_of
from functrans.ops.arrays.shape import flip
from functrans.ops.arrays.structural import expand_axes, full_p, reduce_sum, reshape
from functrans.ops.elementwise.arithmetic import remainder
from functrans.ops.elementwise.choice import maximum, minimum, select
from functrans.ops.elementwise.compare import equal, less, less_equal, not_equal
from functrans.ops.elementwise.complex_numbers import imag, real
from functrans.ops.elementwise.logic import isnan
from functrans.ops.elementwise.stop import required_index
from functrans.ops.indexing import views
from functrans.ops.indexing.gather import gather, gather_along
from functrans.ops.indexing.index import getitem
from functrans.ops.reductions.sorting import argsort as argsort_p
from functrans.ops.reductions.sorting import sort as sort_p
from functrans.trace.source import here

__all__ = [
    "argpartition", "argsort", "compress", "digitize", "extract", "ix_", "lexsort", "nanargmax",
    "nanargmin", "partition", "searchsorted", "sort", "sort_complex", "take", "take_along_axis",
]  # fmt: skip

FEW_TO_COUNT = 32
"""Up to this many elements of a sorted vector, all are compared instead of a binary search."""

# -- taking ----------------------------------------------------------------------------------------


@answers(np.take)
def take(a: Any, indices: Any, axis: Any = None, *, mode: str = "raise") -> Any:
    """The elements, or slices along an axis, at the given indices."""
    x, positions = array(a), array(indices)
    x, axis = along_one(x, axis)
    positions = within(positions, x.shape[axis], mode)
    return views.unlinked(getitem(x, (*(slice(None),) * axis, positions)))


def within(positions: Any, extent: int, mode: str) -> Any:
    """Apply a mode ("raise", "wrap", "clip") to indices that are out of bounds."""
    if positions.dtype.kind in "biu" or not positions.size:
        # a narrow dtype may not hold the extent; truths are 0 and 1 here, and no mask
        positions = astype(positions, INDEX)
    if mode == "wrap":
        return remainder(positions, extent)
    if mode == "clip":
        return minimum(maximum(positions, 0), extent - 1)
    if mode != "raise":
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    return positions


@answers(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Gather elements along one axis by an array of indices."""
    positions = positions_along(arr, indices, axis)
    x, axis = along(array(arr), axis)
    return gather_along(x, positions, axis)


def positions_along(arr: Any, indices: Any, axis: Any) -> Any:
    """The array of indices along one axis of an array; None for the axis flattens the array."""
    positions = array(indices)
    if axis is None and positions.ndim != 1:
        raise ValueError("when axis=None, `indices` must have a single dimension.")
    if positions.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is not None and positions.ndim != np.ndim(arr):
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    return positions


@answers(np.compress, beyond=("size", "fill_value"))
def compress(
    condition: Any, a: Any, axis: Any = None, *, size: Any = None, fill_value: Any = 0
) -> Any:
    """The slices along an axis for which a condition holds, if it is known, or ``size`` of them.

    With ``size``, excess slices are dropped, and missing ones filled.
    """
    x, axis = along_one(array(a), axis)
    truths = array(condition)
    if truths.ndim != 1:
        raise ShapeError(f"condition must be a 1-d array, not one of shape {truths.shape}")
    if size is None:
        taken = np.flatnonzero(_known(truths, "compress"))
        for place in taken[taken >= x.shape[axis]]:
            raise IndexError(
                f"index {place} is out of bounds for axis {axis} with size {x.shape[axis]}"
            )
        return take_along_one(x, taken, axis)
    places = places_of(not_equal(truths, 0), size)
    parts = places.or_else(gather(x, places.positions, axes=(axis,)), fill_value)
    return views.unlinked(views.moveaxis(parts, 0, axis))


def _known(condition: Any, name: str) -> Any:
    """A known condition, which determines the size of the result."""
    return sizing(
        condition,
        f"how many elements np.{name} takes is not known",
        "Go on with the whole array: np.where(condition, x, 0.0); or say how many there may "
        "be: functrans.numpy.compress(condition, x, size=n).",
    )


@answers(np.extract, beyond=("size", "fill_value"))
def extract(condition: Any, arr: Any, *, size: Any = None, fill_value: Any = 0) -> Any:
    """The elements for which a condition holds, if it is known, or ``size`` of them."""
    truths = flat(array(condition))
    return compress(truths, flat(array(arr)), 0, size=size, fill_value=fill_value)


@answers(np.ix_)
def ix_(*args: Any) -> tuple[Any, ...]:
    """Index arrays for all combinations of indices."""
    vectors = [array(x) for x in args]
    if any(x.ndim != 1 for x in vectors):
        raise ValueError("Cross index must be 1 dimensional")
    vectors = [np.flatnonzero(_known(x, "ix_")) if x.dtype.kind == "b" else x for x in vectors]
    return tuple(
        reshape(x, shape=(*(1,) * i, x.size, *(1,) * (len(vectors) - i - 1)))
        for i, x in enumerate(vectors)
    )


# -- sorting ---------------------------------------------------------------------------------------


def _check_kind(kind: Any) -> None:
    """Raise for an unknown sorting algorithm; all of them give the result of a stable sort."""
    if kind is not None and str(kind)[:1].lower() not in ("q", "h", "m", "s"):
        raise ValueError(f"sort kind must be one of 'quick', 'heap', or 'stable' (got {kind!r})")


def _check_places(x: Any, kth: Any, axis: Any, kind: Any) -> None:
    """Raise for partition indices that are out of bounds, and for what NumPy refuses."""
    x, places = array(x), known(array(kth))
    size = x.size if axis is None else x.shape[axis_of(axis, x.ndim)]
    if places is None:
        return
    np.partition([], places, kind=kind)  # any integers are in bounds
    for place in places.reshape(-1) if x.size else ():
        if not -size <= place < size:
            raise ValueError(f"kth(={place + size * (place < 0)}) out of bounds ({size})")


@answers(np.sort, beyond=("descending",))
def sort(
    a: Any, axis: Any = -1, kind: Any = None, *, stable: Any = None, descending: bool = False
) -> Any:
    """Sort along an axis in ascending or descending order; derivatives follow the elements."""
    _check_kind(kind)
    x, axis = along(array(a), axis)
    ordered = sort_p(x, axis=axis)
    return flip(ordered, axes=(axis,)) if descending else ordered


@answers(np.sort_complex)
def sort_complex(a: Any) -> Any:
    """Sort along the last axis; the result is complex."""
    x = sort(a)
    if is_complex(x.dtype):
        return x
    narrow = x.dtype.kind in "iu" and x.dtype.itemsize <= 2
    return astype(x, np.complex64 if narrow else np.complex128)


@answers(np.argsort, beyond=("descending",))
def argsort(
    a: Any, axis: Any = -1, kind: Any = None, *, stable: Any = None, descending: bool = False
) -> Any:
    """The indices that sort an array in ascending or descending order; ties keep their order."""
    _check_kind(kind)
    x, axis = along_one(array(a), axis)
    if not descending:
        return argsort_p(x, axis=axis)
    # sort the reversed array, so that ties are in order after reversing the result
    backwards = argsort_p(flip(x, axes=(axis,)), axis=axis)
    return x.shape[axis] - 1 - flip(backwards, axes=(axis,))


@answers(np.partition)
def partition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect") -> Any:
    """Partition an array: all elements are sorted, which satisfies any partition."""
    _check_places(a, kth, axis, kind)
    return sort(a, axis)


@answers(np.argpartition)
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect") -> Any:
    """The indices that partition an array: those that sort it, which satisfy any partition."""
    _check_places(a, kth, axis, kind)
    return argsort(a, axis)


@answers(np.lexsort)
def lexsort(keys: Any, axis: int = -1) -> Any:
    """The indices that sort lexicographically by several keys; the last key is the primary one."""
    arrays = [array(key) for key in keys]
    if not arrays:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if len({key.shape for key in arrays}) > 1:
        raise ValueError("all keys need to be the same shape")
    if arrays[0].ndim == 0:
        return full_p(shape=(), value=0, dtype=INDEX)
    axis = axis_of(axis, arrays[0].ndim)
    order = argsort_p(arrays[0], axis=axis)
    for key in arrays[1:]:
        order = gather_along(order, argsort_p(gather_along(key, order, axis), axis=axis), axis)
    return order


@answers(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """The insertion points of values in a sorted vector, or in one that ``sorter`` sorts."""
    row, values = vector(a, "a of np.searchsorted"), array(v)
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    if sorter is not None:
        order = vector(sorter, "sorter of np.searchsorted")
        if order.size != row.size:
            raise ValueError("sorter.size must equal a.size")
        row = gather(row, order, axes=(0,))
    if row.dtype.kind in "iu" and values.dtype.kind in "iu":  # int64 and uint64: float64
        common = np.promote_types(row.dtype, values.dtype)
        row, values = astype(row, common), astype(values, common)

    def before(elements: Any, values: Any) -> Any:
        return (
            _sorts_before(elements, values) if side == "left" else ~_sorts_before(values, elements)
        )

    if row.size > FEW_TO_COUNT:
        return _bisected(row, values, before)
    column = expand_axes(values, (values.ndim,))
    return reduce_sum(astype(before(row, column), INDEX), axes=(values.ndim,))


def _sorts_before(x: Any, y: Any) -> Any:
    """Whether numbers precede others in sorted order, in which NaN is last."""
    if is_complex(x.dtype) or is_complex(y.dtype):
        return _sorts_before_as_complex(x, y)
    if not is_float(x.dtype) and not is_float(y.dtype):
        return less(x, y)
    return ~less_equal(y, x) & equal(x, x)


def _sorts_before_as_complex(x: Any, y: Any) -> Any:
    """The same for complex numbers, which NumPy sorts by which parts are NaN, then by the parts."""
    one, two = _nan_parts(x), _nan_parts(y)
    by_real = less(real(x), real(y))
    tied = ~(by_real | less(real(y), real(x)))
    by_parts = by_real | (tied & less(imag(x), imag(y)))
    return less(one, two) | (equal(one, two) & by_parts)


def _nan_parts(x: Any) -> Any:
    """A sort key: 2 if the real part is NaN, plus 1 if the imaginary part is."""
    return 2 * astype(isnan(real(x)), INDEX) + astype(isnan(imag(x)), INDEX)


def _bisected(row: Any, values: Any, before: Callable[[Any, Any], Any]) -> Any:
    """The number of elements of a sorted vector before each value, by binary search."""
    # unsigned and bounded, so that indices need no checks
    dtype = np.dtype(np.uint32 if row.size < 1 << 31 else np.uint64)
    end = dtype.type(row.size - 1)
    found: Any = np.zeros((), dtype)
    left = row.size
    while left > 1:
        half = left // 2
        last = gather(row, minimum(found + dtype.type(half - 1), end), axes=(0,))
        found = select(before(last, values), found + dtype.type(half), found)
        left -= half
    is_before = before(gather(row, minimum(found, end), axes=(0,)), values)
    return astype(found, INDEX) + astype(is_before, INDEX)


def _nan_place(place: Callable[..., Any], beyond: float, a: Any, axis: Any, keepdims: Any) -> Any:
    x = array(a)
    if not is_inexact(x.dtype):
        return place(x, axis, keepdims=keepdims)
    absent = isnan(x)
    index = place(select(absent, x.dtype.type(beyond), x), axis, keepdims=keepdims)
    found = any_along(~absent, axis, keepdims=keepdims)
    return required_index(select(found, index, -1), failure=ALL_NAN)


@answers(np.nanargmax)
def nanargmax(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """The index of the maximum, ignoring NaN; `ValueError` if all elements are NaN."""
    return _nan_place(argmax, -np.inf, a, axis, keepdims)


@answers(np.nanargmin)
def nanargmin(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """The index of the minimum, ignoring NaN; `ValueError` if all elements are NaN."""
    return _nan_place(argmin, np.inf, a, axis, keepdims)


@answers(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The index of the bin of each value, for monotonic bins."""
    edges = array(bins)
    if is_complex(array(x).dtype) or is_complex(edges.dtype):
        raise DtypeError(f"np.digitize of complex numbers{here()}: x and bins are real")
    order = known(edges)
    falls = False
    if order is not None and order.ndim == 1:
        # no differences, which narrow integers do not hold
        falls = bool((order[1:] < order[:-1]).any())
        if falls and (order[1:] > order[:-1]).any():
            raise ValueError("bins must be monotonically increasing or decreasing")
    side = "left" if right else "right"
    if edges.size < 2 or (order is not None and not falls):
        return searchsorted(edges, x, side)
    if order is not None:
        return edges.size - searchsorted(edges[::-1], x, side)
    falling = edges[0] > edges[-1]
    place = searchsorted(select(falling, edges[::-1], edges), x, side)
    return select(falling, edges.size - place, place)
