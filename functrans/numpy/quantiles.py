"""Quantiles, percentiles and medians: sorted elements, and what lies between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.numpy.arrays import INDEX, array, astype, axes_of, inexact
from functrans.numpy.define import answers, refuse
from functrans.numpy.reductions import any, restored
from functrans.ops.arrays import views
from functrans.ops.arrays.shape import read_along, stack
from functrans.ops.arrays.structural import expand_axes, reduce_sum, reshape
from functrans.ops.elementwise.choice import maximum, select
from functrans.ops.elementwise.logic import isnan
from functrans.ops.elementwise.rounding import ceil, floor
from functrans.ops.indexing.gather import gather_along
from functrans.ops.reductions.sorting import sort as sort_p
from functrans.trace.tracer import Tracer

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]


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


# -- of the elements that are numbers --------------------------------------------------------------


@answers(np.nanmedian)
def nanmedian(
    a: Any, axis: Any = None, *, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """The median of the elements that are numbers."""
    return _of_numbers(a, np.float64(0.5), axis, "linear", keepdims)


@answers(np.nanquantile)
def nanquantile(
    a: Any, q: Any, axis: Any = None, *, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The value below which a part ``q`` of the numbers lies."""
    return _of_numbers(a, _fractions(q, 1.0), axis, method, keepdims)


@answers(np.nanpercentile)
def nanpercentile(
    a: Any, q: Any, axis: Any = None, *, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The value below which ``q`` percent of the numbers lie."""
    return _of_numbers(a, _fractions(q, 100.0), axis, method, keepdims)


def _of_numbers(a: Any, q: Any, axis: Any, method: str, keepdims: bool) -> Any:
    if method != "linear":
        refuse(f"method={method!r} of a quantile without NaN", "use 'linear'")
    x, axes = _together(inexact(a), axis)
    last = x.ndim - 1
    # NaN come last in the order, so the numbers are in front
    ordered = sort_p(x, axis=last)
    highest = maximum(reduce_sum(astype(~isnan(x), INDEX), axes=(last,)) - 1, 0)

    def at(place: Any) -> Any:
        positions = expand_axes(astype(place, INDEX), (last,))
        return reshape(gather_along(ordered, positions, last), shape=highest.shape)

    results = []
    for part in np.ravel(q):
        place = highest * part
        low, high = at(floor(place)), at(ceil(place))
        results.append(restored(low + (high - low) * (place - floor(place)), axes, keepdims))
    return _by_level(results, q)


# -- how they are found ----------------------------------------------------------------------------


def _fractions(q: Any, whole: float) -> Any:
    if isinstance(q, Tracer):
        refuse("a quantile whose q is traced", "give q as a plain number or array")
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
    return _by_level(results, q)


def _by_level(results: list[Any], q: Any) -> Any:
    """One result for each level, in the shape of the levels."""
    if np.ndim(q) == 0:
        return results[0]
    return reshape(stack(results, axis=0), shape=(*np.shape(q), *results[0].shape))


def _at(ordered: Any, place: int) -> Any:
    part = read_along(ordered, ordered.ndim - 1, place, 1)
    return reshape(part, shape=part.shape[:-1])
