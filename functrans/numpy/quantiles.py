"""Quantiles, percentiles and medians: sorted elements, and what lies between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from functrans.errors import DtypeError
from functrans.ir.types import is_bfloat16, is_complex, is_float
from functrans.numpy.arrays import INDEX, array, astype, axes_of, inexact
from functrans.numpy.define import answers, refuse
from functrans.numpy.reductions import any, mean, restored
from functrans.ops.arrays import views
from functrans.ops.arrays.shape import read_along, stack
from functrans.ops.arrays.structural import expand_axes, full_p, reduce_sum, reshape
from functrans.ops.elementwise.choice import maximum, select
from functrans.ops.elementwise.logic import isnan
from functrans.ops.elementwise.rounding import ceil, floor
from functrans.ops.indexing.gather import gather_along
from functrans.ops.reductions.sorting import sort as sort_p
from functrans.trace.source import located, user_source
from functrans.trace.tracer import Tracer

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]


@answers(np.quantile)
def quantile(
    a: Any, q: Any, axis: Any = None, *, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The value below which a part ``q`` of the elements lies."""
    x = array(a)
    return _quantile(x, _levels(q, 1, x.dtype), axis, method, keepdims)


@answers(np.percentile)
def percentile(
    a: Any, q: Any, axis: Any = None, *, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The value below which ``q`` percent of the elements lie."""
    x = array(a)
    return _quantile(x, _levels(q, 100, x.dtype), axis, method, keepdims)


@answers(np.median)
def median(
    a: Any, axis: Any = None, *, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """The element in the middle, or the mean of the two there."""
    x, axes = _together(array(a), axis)
    size, last = x.shape[-1], x.ndim - 1
    middle = read_along(sort_p(x, axis=last), last, max(size - 1, 0) // 2, min(size, 2 - size % 2))
    result = mean(middle, last)
    if is_float(x.dtype):
        result = select(any(isnan(x), -1), result.dtype.type(np.nan), result)
    return restored(result, axes, keepdims)


# -- of the elements that are numbers --------------------------------------------------------------


@answers(np.nanmedian)
def nanmedian(
    a: Any, axis: Any = None, *, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """The median of the elements that are numbers."""
    x, axes = _together(array(a), axis)
    numbers = _Numbers(x)
    low, high = numbers.at(numbers.last // 2), numbers.at((numbers.last + 1) // 2)
    both = mean(stack([low, high], axis=0), 0)
    return restored(select(numbers.last % 2 == 0, astype(low, both.dtype), both), axes, keepdims)


@answers(np.nanquantile)
def nanquantile(
    a: Any, q: Any, axis: Any = None, *, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The value below which a part ``q`` of the numbers lies."""
    x = array(a)
    return _of_numbers(x, _levels(q, 1, x.dtype), axis, method, keepdims)


@answers(np.nanpercentile)
def nanpercentile(
    a: Any, q: Any, axis: Any = None, *, overwrite_input: bool = False, method: str = "linear",
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The value below which ``q`` percent of the numbers lie."""
    x = array(a)
    return _of_numbers(x, _levels(q, 100, x.dtype), axis, method, keepdims)


class _Numbers:
    """What is no NaN in rows, in ascending order."""

    def __init__(self, x: Any) -> None:
        axis = x.ndim - 1
        if not x.shape[axis]:
            x = full_p(shape=(*x.shape[:-1], 1), value=np.nan, dtype=inexact(x).dtype)
        # NaN come last in the order, so the numbers are in front
        self.ordered = sort_p(x, axis=axis)
        count = reduce_sum(astype(x == x, INDEX), axes=(axis,))
        self.last = maximum(count - 1, 0)
        """The position of the last number in each row."""

    def at(self, place: Any) -> Any:
        """The number at a position in each row."""
        axis = self.ordered.ndim - 1
        positions = expand_axes(astype(place, INDEX), (axis,))
        return reshape(gather_along(self.ordered, positions, axis), shape=self.last.shape)


def _of_numbers(x: Any, levels: _Levels, axis: Any, method: str, keepdims: bool) -> Any:
    if method != "linear":
        refuse(f"method={method!r} of a quantile without NaN", "use 'linear'")
    x, axes = _together(x, axis)
    numbers = _Numbers(x)
    dtype = _between_elements(x, levels)
    results = []
    for part in np.ravel(levels.fractions):
        place = numbers.last * part
        low, high = (astype(numbers.at(end(place)), dtype) for end in (floor, ceil))
        weight = astype(place - floor(place), dtype)
        results.append(restored(low + (high - low) * weight, axes, keepdims))
    return _by_level(results, levels.fractions)


# -- how they are found ----------------------------------------------------------------------------


class _Levels(NamedTuple):
    """Which parts of the elements lie below, and the dtype that they bring to the result."""

    fractions: Any
    dtype: np.dtype[Any]


def _levels(q: Any, whole: int, dtype: np.dtype[Any]) -> _Levels:
    """The levels for an array of a dtype; a Python number brings none."""
    if isinstance(q, Tracer):
        refuse("a quantile whose q is traced", "give q as a plain number or array")
    if is_complex(dtype):
        raise DtypeError(
            f"a quantile of complex numbers{located(user_source())}: take their real parts, or "
            "their absolute values"
        )
    fractions = np.true_divide(q, whole)
    if not ((fractions >= 0) & (fractions <= 1)).all():
        raise ValueError(
            "Quantiles must be in the range [0, 1]" if whole == 1
            else "Percentiles must be in the range [0, 100]"
        )  # fmt: skip
    own = np.asarray(fractions).dtype
    if isinstance(q, (int, float)) and is_float(dtype):
        own = np.dtype(np.float32) if is_bfloat16(dtype) else dtype
    return _Levels(fractions, own)


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


def _quantile(x: Any, levels: _Levels, axis: Any, method: str, keepdims: bool) -> Any:
    if method not in _ROUNDED:
        refuse(f"method={method!r} of a quantile", f"use one of {', '.join(_ROUNDED)}")
    x, axes = _together(x, axis)
    if method in ("linear", "midpoint"):
        x = astype(x, _between_elements(x, levels))
    size, last = x.shape[-1], x.ndim - 1
    if size == 0:
        raise ValueError("a quantile of no elements is not defined")
    ordered = sort_p(x, axis=last)
    results = []
    for place in _ROUNDED[method](np.ravel(levels.fractions) * (size - 1)):
        low = int(np.floor(place))
        part = float(place - low)
        result = _at(ordered, low)
        if part:
            step = _at(ordered, low + 1) - result
            # the end that is nearer is the one to start from, as in NumPy
            result = (
                _at(ordered, low + 1) - step * (1 - part) if part >= 0.5 else (result + step * part)
            )
        if is_float(x.dtype):
            result = select(any(isnan(x), -1), result.dtype.type(np.nan), result)
        results.append(restored(result, axes, keepdims))
    return _by_level(results, levels.fractions)


def _between_elements(x: Any, levels: _Levels) -> np.dtype[Any]:
    """The dtype of what lies between two elements."""
    if x.dtype.kind == "b":
        raise DtypeError(
            f"a quantile of truth values{located(user_source())}: what lies between two of them is "
            "not defined; convert them by .astype(float)"
        )
    return np.promote_types(x.dtype, levels.dtype)


def _by_level(results: list[Any], q: Any) -> Any:
    """One result for each level, in the shape of the levels."""
    if np.ndim(q) == 0:
        return results[0]
    return reshape(stack(results, axis=0), shape=(*np.shape(q), *results[0].shape))


def _at(ordered: Any, place: int) -> Any:
    part = read_along(ordered, ordered.ndim - 1, place, 1)
    return reshape(part, shape=part.shape[:-1])
