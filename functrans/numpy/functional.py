"""Functions with function arguments, and `numpy.piecewise`, whose pieces are functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.numpy.arrays import array, astype, axis_of
from functrans.numpy.define import answers
from functrans.numpy.joining import stack
from functrans.ops.arrays.structural import broadcast_to, reshape
from functrans.ops.elementwise.choice import select
from functrans.ops.indexing import views

__all__ = ["apply_along_axis", "apply_over_axes", "piecewise"]


@answers(np.apply_along_axis)
def apply_along_axis(
    func1d: Callable[..., Any], axis: Any, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """Apply a function of vectors to each vector along an axis."""
    x = array(arr)
    axis = axis_of(axis, x.ndim)
    rows = views.unlinked(views.moveaxis(x, axis, -1))
    leading = rows.shape[:-1]
    rows = reshape(rows, shape=(int(np.prod(leading, dtype=np.int64)), x.shape[axis]))
    if rows.shape[0] == 0:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    results = [array(func1d(rows[i], *args, **kwargs)) for i in range(rows.shape[0])]
    out = stack(results)
    out = reshape(out, shape=(*leading, *out.shape[1:]))
    # the axes of a result replace the vector's axis
    order = list(range(len(leading)))
    order[axis:axis] = range(len(leading), out.ndim)
    return views.unlinked(views.permuted(out, order))


@answers(np.apply_over_axes, views=True)
def apply_over_axes(func: Callable[[Any, int], Any], a: Any, axes: Any) -> Any:
    """Apply a function of an array and an axis for several axes in turn."""
    x = array(a)
    for axis in np.atleast_1d(axes):
        result = array(func(x, axis_of(int(axis), x.ndim)))
        x = result if result.ndim == x.ndim else views.expand_dims(result, int(axis))
        if x.ndim != array(a).ndim:
            raise ValueError("function is not returning an array of the correct shape")
    return x


@answers(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """For each element, the function of the last condition that holds; all are computed."""
    x = array(x)
    conditions = [array(c) for c in condlist] if isinstance(condlist, (list, tuple)) else None
    if conditions is None or (conditions and conditions[0].ndim == 0 and x.ndim):
        conditions = [array(condlist)]
    result: Any = 0
    if len(funclist) == len(conditions) + 1:
        result = _value(funclist[-1], x, args, kw)
    elif len(funclist) != len(conditions):
        n = len(conditions)
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    result = broadcast_to(_assigned(result, x.dtype), shape=x.shape)
    for condition, function in zip(conditions, funclist, strict=False):
        value = _assigned(_value(function, x, args, kw), x.dtype)
        result = select(condition, value, result)
    return result


def _assigned(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a value to an array's dtype; Python numbers must be within its range."""
    return np.asarray(value, dtype) if type(value) is int else astype(array(value), dtype)


def _value(function: Any, x: Any, args: Any, kw: Any) -> Any:
    return function(x, *args, **kw) if callable(function) else function
