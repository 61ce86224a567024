"""Reductions that ignore NaN: it is replaced by the identity of the operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from functrans.ir.types import is_inexact
from functrans.numpy.arrays import Axes, array
from functrans.numpy.define import answers
from functrans.numpy.reductions import (
    any,
    cumprod,
    cumsum,
    deviation,
    folded,
    mask,
    mean,
    prod,
    sum,
    variance,
)
from functrans.ops.elementwise.choice import fmax, fmin, select
from functrans.ops.elementwise.logic import isnan
from functrans.ops.reductions.reduce import reduce_max, reduce_min

__all__ = [
    "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum",
    "nanvar",
]  # fmt: skip


def _without_nan(a: Any, replacement: float) -> Any:
    x = array(a)
    return select(isnan(x), x.dtype.type(replacement), x) if is_inexact(x.dtype) else x


@answers(np.nansum)
def nansum(
    a: Any, axis: Any = None, dtype: Any = None, *,
    keepdims: Any = False, initial: Any = np._NoValue, where: Any = True,
) -> Any:  # fmt: skip
    """The sum, ignoring NaN."""
    return sum(_without_nan(a, 0), axis, dtype, keepdims=keepdims, initial=initial, where=where)


@answers(np.nanprod)
def nanprod(
    a: Any, axis: Any = None, dtype: Any = None, *,
    keepdims: Any = False, initial: Any = np._NoValue, where: Any = True,
) -> Any:  # fmt: skip
    """The product, ignoring NaN."""
    return prod(_without_nan(a, 1), axis, dtype, keepdims=keepdims, initial=initial, where=where)


@answers(np.nancumsum)
def nancumsum(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """The running sums, ignoring NaN."""
    return cumsum(_without_nan(a, 0), axis, dtype)


@answers(np.nancumprod)
def nancumprod(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """The running products, ignoring NaN."""
    return cumprod(_without_nan(a, 1), axis, dtype)


def _numbers(x: Any, where: Any, dtype: Any = None) -> Any:
    """The mask of elements that are not NaN and for which ``where`` holds."""
    if dtype is not None and is_inexact(x.dtype) and not is_inexact(np.dtype(dtype)):
        raise TypeError("of floats, dtype= is to be one that has NaN: convert by .astype")
    present = x == x
    return present if where is True else present & mask(where)


@answers(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, *, keepdims: Any = False, where: Any = True
) -> Any:
    """The mean, ignoring NaN."""
    return mean(a, axis, dtype, keepdims=keepdims, where=_numbers(array(a), where, dtype))


@answers(np.nanvar)
def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, *, ddof: Any = 0, keepdims: Any = False,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    """The variance, ignoring NaN."""
    x = array(a)
    floats = is_inexact(x.dtype)
    where = _numbers(x, where, dtype) if floats else where
    x = _without_nan(x, 0)
    return variance(x, axis, dtype, ddof, keepdims, where, mean, correction, nan_of_too_few=floats)


@answers(np.nanstd)
def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, *, ddof: Any = 0, keepdims: Any = False,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    """The standard deviation, ignoring NaN."""
    return deviation(np.nanstd, nanvar, a, axis, dtype, ddof, keepdims, where, mean, correction)


def _extreme(op: Callable[..., Any], worst: float, x: Any, *, axes: Axes) -> Any:
    if not is_inexact(x.dtype):
        return op(x, axes=axes)
    return select(any(x == x, axes), op(_without_nan(x, worst), axes=axes), x.dtype.type(np.nan))


largest = partial(_extreme, reduce_max, -np.inf)
smallest = partial(_extreme, reduce_min, np.inf)


@answers(np.nanmax)
def nanmax(
    a: Any, axis: Any = None, *,
    keepdims: Any = False, initial: Any = np._NoValue, where: Any = True,
) -> Any:  # fmt: skip
    """The maximum, ignoring NaN."""
    return folded(np.fmax, largest, fmax, array(a), axis, keepdims, initial, where)


@answers(np.nanmin)
def nanmin(
    a: Any, axis: Any = None, *,
    keepdims: Any = False, initial: Any = np._NoValue, where: Any = True,
) -> Any:  # fmt: skip
    """The minimum, ignoring NaN."""
    return folded(np.fmin, smallest, fmin, array(a), axis, keepdims, initial, where)
