"""Quantiles, percentiles and medians: interpolation between sorted elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.errors import DtypeError
from functrans.ir.types import is_bfloat16, is_complex, is_float
from functrans.numpy.arrays import INDEX, array, astype, axes_of, flat, inexact, known, operand
from functrans.numpy.define import answers
from functrans.numpy.reductions import any, mean, restored, weights_along
from functrans.ops.arrays.promotion import dtype_key
from functrans.ops.arrays.shape import read_along, stack
from functrans.ops.arrays.structural import (
    broadcast_to,
    expand_axes,
    full_p,
    reduce_sum,
    reshape,
)
from functrans.ops.elementwise.choice import maximum, minimum, nan_if, select
from functrans.ops.elementwise.logic import isnan
from functrans.ops.indexing import views
from functrans.ops.indexing.gather import gather, gather_along
from functrans.ops.reductions.cumulative import cumsum
from functrans.ops.reductions.sorting import argsort as argsort_p
from functrans.ops.reductions.sorting import sort as sort_p
from functrans.records import NamedTuple
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]


@answers(np.median)
def median(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The median."""
    x, axes = _together(array(a), axis)
    size, last = x.shape[-1], x.ndim - 1
    ordered = sort_p(x, axis=last)
    result = mean(read_along(ordered, last, max(size - 1, 0) // 2, min(size, 2 - size % 2)), last)
    if is_float(x.dtype):
        result = _or_nan(any(isnan(x), -1), result)
    elif is_complex(x.dtype) and size:
        highest = reshape(read_along(ordered, last, size - 1, 1), shape=x.shape[:-1])
        result = select(isnan(highest), highest, result)
    return restored(result, axes, keepdims)


# -- ignoring NaN ----------------------------------------------------------------------------------


@answers(np.nanmedian)
def nanmedian(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The median, ignoring NaN."""
    x, axes = _together(array(a), axis)
    numbers = _Numbers(x)
    low, high = numbers.at(numbers.last // 2), numbers.at((numbers.last + 1) // 2)
    both = mean(stack([low, high], axis=0), 0)
    return restored(select(numbers.last % 2 == 0, astype(low, both.dtype), both), axes, keepdims)


class _Numbers:
    """The sorted rows, and the number of elements of each that are not NaN."""

    def __init__(self, x: Any) -> None:
        axis = x.ndim - 1
        if not x.shape[axis]:
            x = full_p(shape=(*x.shape[:-1], 1), value=np.nan, dtype=inexact(x).dtype)
        # NaN are sorted last
        self.ordered = sort_p(x, axis=axis)
        count = reduce_sum(astype(x == x, INDEX), axes=(axis,))
        self.last = maximum(count - 1, 0)
        """The position of the last number in each row."""

    def at(self, place: Any) -> Any:
        """The element at a position of each sorted row."""
        axis = self.ordered.ndim - 1
        positions = expand_axes(astype(place, INDEX), (axis,))
        return reshape(gather_along(self.ordered, positions, axis), shape=self.last.shape)


def _of_numbers(x: Any, levels: _Levels, axis: Any, method: str, keepdims: bool) -> Any:
    _check_method(method)
    x, axes = _together(x, axis)
    numbers = _Numbers(x)
    of_elements = method in _OF_ELEMENTS
    dtype = numbers.ordered.dtype if of_elements else _between_elements(x, levels)
    count = astype(numbers.last + 1, levels.fractions.dtype)
    results = [
        astype(_value(numbers.at, count, part, method, dtype), dtype) for part in levels.each()
    ]
    return _by_level([restored(result, axes, keepdims) for result in results], levels)


# -- computation -----------------------------------------------------------------------------------


class _Levels(NamedTuple):
    """The quantile levels, and their contribution to the result's dtype."""

    fractions: Any
    dtype: np.dtype[Any]

    def each(self) -> list[Any]:
        """The levels one by one; if there are none, one for the shape of its result."""
        every = flat(self.fractions)
        return [every[i] for i in range(every.shape[0])] or [0.0]


def _levels(q: Any, whole: int, dtype: np.dtype[Any]) -> _Levels:
    """The levels for an array of a dtype; a Python number does not contribute a dtype."""
    if is_complex(dtype):
        raise DtypeError(
            f"a quantile of complex numbers{here()}: take their real parts, or "
            "their absolute values"
        )
    fractions = array(np.true_divide(q, whole))
    if fractions.ndim > 2:
        raise ValueError("q must be a scalar or 1d")  # in NumPy's words, which takes two axes
    value = None if isinstance(q, Tracer) else fractions
    if value is not None and not ((value >= 0) & (value <= 1)).all():
        raise ValueError(
            "Quantiles must be in the range [0, 1]" if whole == 1
            else "Percentiles must be in the range [0, 100]"
        )  # fmt: skip
    # (a dtype equals the class of Python's numbers)
    yields = np.ndim(q) == 0 and isinstance(dtype_key(q), type)
    if not (yields and is_float(dtype)):
        return _Levels(fractions, fractions.dtype)
    return _Levels(fractions, np.dtype(np.float32) if is_bfloat16(dtype) else dtype)


def _together(x: Any, axis: Any) -> tuple[Any, tuple[int, ...]]:
    """Merge the given axes into one last axis."""
    axes = axes_of(axis, x.ndim)
    rest = [i for i in range(x.ndim) if i not in axes]
    moved = views.unlinked(views.permuted(x, (*rest, *axes)))
    shape = (*(x.shape[i] for i in rest), math.prod(x.shape[i] for i in axes))
    return reshape(moved, shape=shape), axes


Places = Callable[[Any, Any], tuple[Any, Any]]
"""The position of a quantile in the sorted elements, from their number and the quantile's level:
its integer part, and its fraction, by which neighbours are interpolated; None if there is none."""


def _rounded(by: Callable[[Any], Any]) -> Places:
    return lambda count, part: (by((count - 1) * part), None)


def _split(place: Any) -> tuple[Any, Any]:
    return np.floor(place), place - np.floor(place)


def _plotted(alpha: float, beta: float) -> Places:
    """The position of a quantile for two plotting position parameters (Hyndman and Fan, 1996)."""
    return lambda count, part: _split(count * part + (alpha + part * (1 - alpha - beta)) - 1)


def _midway(count: Any, part: Any) -> tuple[Any, Any]:
    low, rest = _split((count - 1) * part)
    return low, np.where(rest == 0, 0.0, 0.5)


def _averaged(count: Any, part: Any) -> tuple[Any, Any]:
    low, rest = _split(count * part - 1)
    return low, np.where(rest == 0, 0.5, 1.0)


def _closest(count: Any, part: Any) -> tuple[Any, Any]:
    low, rest = _split(count * part - 1.5)
    return np.where((rest == 0) & (low % 2 == 1), low, low + 1), None


_PLACES: dict[str, Places] = {
    "inverted_cdf": lambda count, part: (np.ceil(count * part - 1), None),
    "averaged_inverted_cdf": _averaged,
    "closest_observation": _closest,
    "interpolated_inverted_cdf": _plotted(0, 1),
    "hazen": _plotted(0.5, 0.5),
    "weibull": _plotted(0, 0),
    "linear": lambda count, part: _split((count - 1) * part),
    "median_unbiased": _plotted(1 / 3, 1 / 3),
    "normal_unbiased": _plotted(3 / 8, 3 / 8),
    "lower": _rounded(np.floor),
    "higher": _rounded(np.ceil),
    "midpoint": _midway,
    "nearest": _rounded(np.rint),
}

_OF_ELEMENTS = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
"""The methods whose results are elements of the data, in its dtype."""


def _of_ends(method: str, q: Any) -> str:
    """For integer levels (0 or 1), a method whose result is an element."""
    if isinstance(q, Tracer):
        return method
    return "lower" if method == "linear" and np.asarray(q).dtype.kind in "iu" else method


def _check_method(method: str) -> None:
    if method not in _PLACES:
        raise ValueError(f"{method!r} is not a valid method. Use one of: {list(_PLACES)}")


def _value(at: Callable[[Any], Any], count: Any, part: Any, method: str, dtype: Any) -> Any:
    """The quantile of sorted elements, of which ``at`` returns the one at a position."""
    low, rest = _PLACES[method](count, part)
    first, second = (np.minimum(np.maximum(place, 0), count - 1) for place in (low, low + 1))
    known_rest = not isinstance(rest, Tracer) and np.ndim(rest) == 0
    if rest is None or (known_rest and rest == 0):
        return at(first)
    one, other = astype(at(first), dtype), astype(at(second), dtype)
    rest = astype(array(rest), dtype)
    # interpolate from the nearer element, as in NumPy
    step = other - one
    from_above, from_below = other - step * (1 - rest), one + step * rest
    if known_rest:
        return from_above if rest >= 0.5 else from_below
    return select(rest >= 0.5, from_above, from_below)


def _quantile(x: Any, levels: _Levels, axis: Any, method: str, keepdims: bool) -> Any:
    _check_method(method)
    x, axes = _together(x, axis)
    dtype = x.dtype if method in _OF_ELEMENTS else _between_elements(x, levels)
    x = astype(x, dtype)
    size, last = x.shape[-1], x.ndim - 1
    if size == 0:
        raise ValueError("a quantile of no elements is not defined")
    ordered = sort_p(x, axis=last)

    def at(place: Any) -> Any:
        if isinstance(place, Tracer):
            return gather(ordered, astype(place, INDEX), axes=(last,))
        return _at(ordered, int(place))

    results = []
    for part in levels.each():
        result = _value(at, size, part, method, dtype)
        if is_float(dtype):
            nothing = any(isnan(x), -1)
            if isinstance(part, Tracer):
                nothing = nothing | ~((part >= 0) & (part <= 1))
            result = _or_nan(nothing, result)
        results.append(restored(result, axes, keepdims))
    return _by_level(results, levels)


def _or_nan(nothing: Any, result: Any) -> Any:
    """The result, or NaN with derivatives that are NaN: by a factor, not a selected constant."""
    return result * nan_if(nothing, result.dtype.type(1))


def _between_elements(x: Any, levels: _Levels) -> np.dtype[Any]:
    """The dtype of interpolated values."""
    if x.dtype.kind == "b":
        raise DtypeError(
            f"a quantile of truth values{here()}: what lies between two of them is "
            "not defined; convert them by .astype(float)"
        )
    return np.promote_types(x.dtype, levels.dtype)


def _by_level(results: list[Any], levels: _Levels) -> Any:
    """Stack the results for all levels, in the shape of the levels."""
    if levels.fractions.ndim == 0:
        return results[0]
    every = read_along(stack(results, axis=0), 0, 0, levels.fractions.size)
    return reshape(every, shape=(*levels.fractions.shape, *results[0].shape))


def _at(ordered: Any, place: int) -> Any:
    part = read_along(ordered, ordered.ndim - 1, place, 1)
    return reshape(part, shape=part.shape[:-1])


def _weighted(
    x: Any, levels: _Levels, axis: Any, method: str, keepdims: bool, weights: Any, ignoring: bool
) -> Any:
    """The first element up to which the elements have this part of all weight.

    ``ignoring``: whether elements that are NaN have no weight.
    """
    if method != "inverted_cdf":
        raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
    weights = array(weights)
    if weights.shape != x.shape:
        weights = broadcast_to(weights_along(weights, x, axis), shape=x.shape)
    if known(any(weights < 0)):
        raise ValueError("Weights must be non-negative.")
    (x, axes), (weights, _) = _together(x, axis), _together(weights, axis)
    last = x.ndim - 1
    if ignoring:
        weights = select(isnan(x), 0, weights)
    order = argsort_p(x, axis=last)
    ordered = gather_along(x, order, last)
    below = cumsum(astype(gather_along(weights, order, last), np.float64), axis=last, reverse=False)
    below = below / below[..., -1:]
    if known(any(isnan(below) & (ordered == ordered))):
        raise ValueError("Weights included NaN, inf or were all zero.")
    if is_float(levels.fractions.dtype):
        below = astype(below, levels.fractions.dtype)
    below = select(below == 0, -1, below)  # what has no weight is no element, for level 0 either
    results = []
    for part in levels.each():
        place = minimum(reduce_sum(astype(below < part, INDEX), axes=(last,)), x.shape[-1] - 1)
        result = views.squeeze(gather_along(ordered, expand_axes(place, (last,)), last), last)
        if is_float(x.dtype) and not ignoring:
            result = _or_nan(any(isnan(x), -1), result)
        results.append(restored(result, axes, keepdims))
    return _by_level(results, levels)


def _of_levels(
    numpy: Callable[..., Any], compute: Callable[..., Any], about: str, whole: int
) -> Any:
    """The function for levels from 0 to ``whole``."""

    def function(
        a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False,
        weights: Any = None,
    ) -> Any:  # fmt: skip
        x, q = array(a), operand(q)
        levels = _levels(q, whole, x.dtype)
        if weights is not None:
            return _weighted(x, levels, axis, method, keepdims, weights, compute is _of_numbers)
        method = _of_ends(method, q) if whole == 1 else method
        return compute(x, levels, axis, method, keepdims)

    function.__doc__ = f"The ``q``-{about}, for ``q`` from 0 to {whole}."
    return answers(numpy)(function)


quantile = _of_levels(np.quantile, _quantile, "quantile of the elements", 1)
percentile = _of_levels(np.percentile, _quantile, "th percentile of the elements", 100)
nanquantile = _of_levels(
    np.nanquantile, _of_numbers, "quantile of the elements that are not NaN", 1
)
nanpercentile = _of_levels(
    np.nanpercentile, _of_numbers, "th percentile of the elements that are not NaN", 100
)
