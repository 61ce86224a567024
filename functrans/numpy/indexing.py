"""Reading and writing elements by position; sorting, and what is found by sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.errors import TracerIndexError
from functrans.numpy.arrays import INDEX, array, astype, axes_of, axis_of, flat, inexact, known
from functrans.numpy.define import answers, refuse
from functrans.numpy.joining import take_along_one
from functrans.numpy.reductions import any, restored
from functrans.ops import views
from functrans.ops.arithmetic import remainder
from functrans.ops.choice import maximum, minimum, select
from functrans.ops.compare import less
from functrans.ops.gather import gather_along
from functrans.ops.index import getitem
from functrans.ops.logic import isnan
from functrans.ops.shape import read_along, stack
from functrans.ops.sorting import argsort as argsort_p
from functrans.ops.sorting import sort as sort_p
from functrans.ops.structural import expand_axes, reduce_sum, reshape
from functrans.trace.source import located, user_source
from functrans.trace.tracer import Tracer

__all__ = [
    "argsort", "compress", "digitize", "extract", "ix_", "lexsort", "median", "nanmedian",
    "percentile", "quantile", "searchsorted", "sort", "take", "take_along_axis",
    "trim_zeros", "unique",
]  # fmt: skip

# -- taking ----------------------------------------------------------------------------------------


@answers(np.take)
def take(a: Any, indices: Any, axis: Any = None, *, mode: str = "raise") -> Any:
    """The elements, or parts along an axis, at some positions."""
    x, positions = array(a), array(indices)
    if positions.dtype.kind not in "iu":
        positions = astype(positions, INDEX) if positions.size == 0 else positions
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_of(axis, x.ndim)
    positions = _within(positions, x.shape[axis], mode)
    return views.unlinked(getitem(x, (*(slice(None),) * axis, positions)))


def _within(positions: Any, extent: int, mode: str) -> Any:
    """Positions as the mode has those that are out of bounds."""
    if mode == "wrap":
        return remainder(positions, extent)
    if mode == "clip":
        return minimum(maximum(positions, 0), extent - 1)
    return positions


@answers(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """For each position, the element whose index along one axis is given."""
    x, positions = array(arr), array(indices)
    if axis is None:
        x, axis = flat(x), 0
    axis = axis_of(axis, x.ndim)
    if positions.ndim != x.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    return gather_along(x, positions, axis)


@answers(np.compress)
def compress(condition: Any, a: Any, axis: Any = None) -> Any:
    """The parts along an axis for which a condition holds, which must be known."""
    x = array(a)
    if axis is None:
        x, axis = flat(x), 0
    truths = known(array(condition))
    if truths is None:
        raise TracerIndexError(
            f"how many elements np.compress takes is not known{located(user_source())}.\n"
            "Go on with the whole array: np.where(condition, x, 0.0)."
        )
    return take_along_one(x, np.flatnonzero(truths), axis_of(axis, x.ndim))


@answers(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    """The elements for which a condition holds, which must be known."""
    return compress(flat(array(condition)), flat(array(arr)), 0)


@answers(np.ix_)
def ix_(*args: Any) -> tuple[Any, ...]:
    """Index arrays for all combinations of positions."""
    vectors = [array(x) for x in args]
    return tuple(
        reshape(x, shape=(*(1,) * i, x.size, *(1,) * (len(vectors) - i - 1)))
        for i, x in enumerate(vectors)
    )


@answers(np.trim_zeros)
def trim_zeros(filt: Any, trim: str = "fb") -> Any:
    """A vector without the zeros at its ends, where it is known which these are."""
    x = array(filt)
    value = known(x)
    if value is None or x.ndim != 1:
        refuse("np.trim_zeros of an array whose zeros are not known", "the shape depends on them")
    found = np.flatnonzero(value)
    start = found[0] if "f" in trim.lower() and found.size else 0
    stop = found[-1] + 1 if "b" in trim.lower() and found.size else x.size
    return x[start:stop] if found.size else x[:0]


# -- sorting ---------------------------------------------------------------------------------------


@answers(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, *, stable: Any = None) -> Any:
    """The elements in ascending order along an axis; derivatives follow the elements."""
    x = array(a)
    if axis is None:
        x, axis = flat(x), 0
    return sort_p(x, axis=axis_of(axis, x.ndim))


@answers(np.argsort)
def argsort(a: Any, axis: Any = -1, kind: Any = None, *, stable: Any = None) -> Any:
    """The positions of the elements in ascending order; elements that tie keep their order."""
    x = array(a)
    if axis is None:
        x, axis = flat(x), 0
    return argsort_p(x, axis=axis_of(axis, x.ndim))


@answers(np.lexsort)
def lexsort(keys: Any, axis: int = -1) -> Any:
    """The positions of the elements in the order of several keys, the last of which comes first."""
    arrays = [array(key) for key in keys]
    axis = axis_of(axis, arrays[0].ndim)
    order = argsort_p(arrays[0], axis=axis)
    for key in arrays[1:]:
        order = gather_along(order, argsort_p(gather_along(key, order, axis), axis=axis), axis)
    return order


@answers(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left") -> Any:
    """Where to insert values into a sorted vector."""
    row, values = array(a), array(v)
    column = expand_axes(values, (values.ndim,))
    before = less(row, column) if side == "left" else ~less(column, row)
    return reduce_sum(astype(before, INDEX), axes=(values.ndim,))


@answers(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The number of the bin that each value lies in, for bins in ascending order."""
    edges = array(bins)
    order = known(edges)
    if order is not None and order.size > 1 and order[0] > order[-1]:
        return edges.size - searchsorted(edges[::-1], x, "right" if right else "left")
    return searchsorted(edges, x, "left" if right else "right")


@answers(np.unique)
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
) -> Any:
    """The different elements in ascending order, where the elements are known."""
    x = array(ar)
    value = known(x)
    if value is None:
        raise TracerIndexError(
            f"how many different elements there are is not known, so np.unique has no shape"
            f"{located(user_source())}."
        )
    _, first, inverse, counts = np.unique(value, True, True, True, axis, equal_nan=equal_nan)
    found = take_along_one(flat(x) if axis is None else x, first, 0 if axis is None else axis)
    extra = [(return_index, first), (return_inverse, inverse), (return_counts, counts)]
    results = [found, *(result for wanted, result in extra if wanted)]
    return results[0] if len(results) == 1 else tuple(results)


# -- quantiles -------------------------------------------------------------------------------------


@answers(np.quantile)
def quantile(
    a: Any, q: Any, axis: Any = None, *, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The value below which a part ``q`` of the elements lies."""
    return _quantile(a, _fractions(q, 1.0), axis, method, keepdims)


@answers(np.percentile)
def percentile(
    a: Any, q: Any, axis: Any = None, *, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The value below which ``q`` percent of the elements lie."""
    return _quantile(a, _fractions(q, 100.0), axis, method, keepdims)


@answers(np.median)
def median(
    a: Any, axis: Any = None, *, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """The element in the middle, or the mean of the two there."""
    return _quantile(a, np.float64(0.5), axis, "linear", keepdims)


@answers(np.nanmedian)
def nanmedian(
    a: Any, axis: Any = None, *, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """The median of the elements that are numbers."""
    x, axes = _together(inexact(array(a)), axis)
    # NaN come last in the order, so the numbers are in front
    ordered = sort_p(x, axis=x.ndim - 1)
    count = reduce_sum(astype(~isnan(x), INDEX), axes=(x.ndim - 1,))
    low, high = ((maximum(count - 1, 0) // 2), minimum(count // 2, x.shape[-1] - 1))
    ends = [
        reshape(gather_along(ordered, expand_axes(i, (i.ndim,)), x.ndim - 1), shape=i.shape)
        for i in (low, high)
    ]
    return restored((ends[0] + ends[1]) / 2, axes, keepdims)


def _fractions(q: Any, whole: float) -> Any:
    if isinstance(q, Tracer):
        refuse("a quantile at a traced level", "give the level as a plain number or array")
    fractions = np.true_divide(q, whole)
    if not ((fractions >= 0) & (fractions <= 1)).all():
        raise ValueError(
            "Quantiles must be in the range [0, 1]" if whole == 1.0
            else "Percentiles must be in the range [0, 100]"
        )  # fmt: skip
    return fractions


def _together(x: Any, axis: Any) -> tuple[Any, tuple[int, ...]]:
    """The array with the given axes as one, the last."""
    axes = axes_of(axis, x.ndim)
    rest = [i for i in range(x.ndim) if i not in axes]
    moved = views.unlinked(views.permuted(x, (*rest, *axes)))
    return reshape(moved, shape=(*(x.shape[i] for i in rest), _size(x, axes))), axes


def _size(x: Any, axes: tuple[int, ...]) -> int:
    return int(np.prod([x.shape[i] for i in axes], dtype=np.int64))


_ROUNDED: dict[str, Callable[[Any], Any]] = {
    "lower": np.floor,
    "higher": np.ceil,
    "nearest": np.rint,
    "midpoint": lambda place: np.floor(place) + 0.5 * (place % 1 > 0),
    "linear": lambda place: place,
}


def _quantile(a: Any, q: Any, axis: Any, method: str, keepdims: bool) -> Any:
    if method not in _ROUNDED:
        refuse(f"method={method!r} of a quantile", f"use one of {', '.join(_ROUNDED)}")
    x, axes = _together(array(a), axis)
    if x.dtype.kind != "f" and method in ("linear", "midpoint"):
        x = astype(x, np.float64)
    size, last = x.shape[-1], x.ndim - 1
    if size == 0:
        raise ValueError("a quantile of no elements is not defined")
    ordered = sort_p(x, axis=last)
    results = []
    for place in _ROUNDED[method](np.ravel(q) * (size - 1)):
        low = int(np.floor(place))
        part = float(place - low)
        result = _at(ordered, low)
        if part:
            step = _at(ordered, low + 1) - result
            # the end that is nearer is the one to start from, as in NumPy
            result = (
                _at(ordered, low + 1) - step * (1 - part) if part >= 0.5 else (result + step * part)
            )
        if x.dtype.kind == "f":
            result = select(any(isnan(x), -1), np.nan, result)
        results.append(restored(result, axes, keepdims))
    if np.ndim(q) == 0:
        return results[0]
    return reshape(stack(results, axis=0), shape=(*np.shape(q), *results[0].shape))


def _at(ordered: Any, place: int) -> Any:
    part = read_along(ordered, ordered.ndim - 1, place, 1)
    return reshape(part, shape=part.shape[:-1])
