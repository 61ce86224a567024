"""Sums, products, extremes, averages and truth along axes; running sums and products.

docs/derivatives-at-the-edges.md lists the derivatives where elements tie, or where a norm or a
deviation is 0.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod as product_of
from typing import Any

import numpy as np

from functrans.errors import DtypeError, ShapeError
from functrans.ir.types import is_complex, is_float, is_inexact, real_dtype
from functrans.numpy.arrays import (
    Axes,
    along_one,
    array,
    asked,
    astype,
    axes_of,
    axis_of,
    flat,
    starting,
)
from functrans.numpy.define import answers
from functrans.ops.arrays.shape import concatenate
from functrans.ops.arrays.structural import broadcast_to, expand_axes, full_p, reduce_sum, transpose
from functrans.ops.elementwise.choice import maximum, minimum, select
from functrans.ops.elementwise.compare import equal, not_equal
from functrans.ops.elementwise.complex_numbers import imag as imag_part
from functrans.ops.elementwise.complex_numbers import real as real_part
from functrans.ops.elementwise.power import sqrt
from functrans.ops.indexing.views import axes_in_order
from functrans.ops.reductions import reduce
from functrans.ops.reductions.cumulative import cumprod as cumprod_p
from functrans.ops.reductions.cumulative import cumsum as cumsum_p

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "cumprod",
    "cumsum", "cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "ptp", "std",
    "sum", "var",
]  # fmt: skip

Op = Callable[..., Any]

# -- common helpers --------------------------------------------------------------------------------


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which NumPy accumulates: no integer narrower than 64 bits."""
    if dtype.kind in "bi" and dtype.itemsize < 8:
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" and dtype.itemsize < 8 else dtype


def restored(out: Any, axes: Axes, keepdims: Any) -> Any:
    """Restore the reduced axes with size 1 if ``keepdims`` is set."""
    return expand_axes(out, axes) if keepdims else out


def chosen(x: Any, where: Any, otherwise: Any) -> Any:
    """Replace elements for which ``where`` is false by the neutral element."""
    if where is True:
        return x
    where = False if where is None else where  # as in NumPy
    otherwise = otherwise if hasattr(otherwise, "dtype") else np.array(otherwise).astype(x.dtype)
    return broadcast_to(select(mask(where), x, otherwise), shape=x.shape)


def reduced_axes(axis: Any, ndim: int) -> Axes:
    """Axes to reduce, of which NumPy lets a number have one."""
    return () if ndim == 0 and axis in (0, -1) else axes_of(axis, ndim)


def folded(
    ufunc: np.ufunc, op: Op, combine: Op, x: Any, axis: Any, keepdims: Any = False,
    initial: Any = np._NoValue, where: Any = True,
) -> Any:  # fmt: skip
    """The reduction by a ufunc of a first number and the elements that a mask selects."""
    identity = ufunc.identity
    if initial is None or (where is not True and identity is None):
        asked(ufunc.reduce, x, axis, where, initial=initial)
    axes = reduced_axes(axis, x.ndim)
    if initial is None or initial is np._NoValue:
        return restored(op(chosen(x, where, identity), axes=axes), axes, keepdims)
    first = starting(initial, x.dtype)
    x = chosen(x, where, first if identity is None else identity)
    if x.size == 0:
        nothing = restored(reduce_sum(x, axes=axes), axes, keepdims)
        return broadcast_to(first, shape=nothing.shape)
    # sums and products of 16-bit floats are rounded once, after the first number
    is_rounded = identity is not None and is_float(x.dtype) and x.dtype.itemsize == 2
    wide = np.float32 if is_rounded else x.dtype
    out = combine(astype(first, wide), op(astype(x, wide), axes=axes))
    return restored(astype(out, x.dtype), axes, keepdims)


# -- sums and products -----------------------------------------------------------------------------


@answers(np.sum)
def sum(
    a: Any, axis: Any = None, dtype: Any = None, *,
    keepdims: Any = False, initial: Any = np._NoValue, where: Any = True,
) -> Any:  # fmt: skip
    """The sum of the elements along axes."""
    x = array(a)
    x = astype(x, accumulator(x.dtype) if dtype is None else dtype)
    return folded(np.add, reduce_sum, operator.add, x, axis, keepdims, initial, where)


@answers(np.prod)
def prod(
    a: Any, axis: Any = None, dtype: Any = None, *,
    keepdims: Any = False, initial: Any = np._NoValue, where: Any = True,
) -> Any:  # fmt: skip
    """The product of the elements along axes."""
    x = array(a)
    x = astype(x, accumulator(x.dtype) if dtype is None else dtype)
    return folded(np.multiply, reduce.reduce_prod, operator.mul, x, axis, keepdims, initial, where)


def _running(op: Op, a: Any, axis: Any, dtype: Any) -> Any:
    x = array(a)
    x = astype(x, accumulator(x.dtype) if dtype is None else dtype)
    x, axis = along_one(x, axis)
    return op(x, axis=axis, reverse=False)


@answers(np.cumsum)
def cumsum(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """The sums of the elements up to each one."""
    return _running(cumsum_p, a, axis, dtype)


@answers(np.cumprod)
def cumprod(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """The products of the elements up to each one."""
    return _running(cumprod_p, a, axis, dtype)


def _array_api_running(
    op: Op, neutral: int, x: Any, axis: Any, dtype: Any, include_initial: bool
) -> Any:
    x = array(x)
    if axis is None and x.ndim > 1:
        raise ValueError("an array of more than one axis needs the argument `axis`")
    x = x if x.ndim else flat(x)
    axis = axis_of(0 if axis is None else axis, x.ndim)
    out = _running(op, x, axis, dtype)
    if not include_initial:
        return out
    shape = (*out.shape[:axis], 1, *out.shape[axis + 1 :])
    return concatenate([full_p(shape=shape, value=neutral, dtype=out.dtype), out], axis=axis)


@answers(np.cumulative_sum)
def cumulative_sum(
    x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """The sums of the elements up to each one."""
    return _array_api_running(cumsum_p, 0, x, axis, dtype, include_initial)


@answers(np.cumulative_prod)
def cumulative_prod(
    x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """The products of the elements up to each one."""
    return _array_api_running(cumprod_p, 1, x, axis, dtype, include_initial)


@answers(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The number of nonzero elements."""
    return sum(truth(a), axis, keepdims=keepdims)


# -- extremes --------------------------------------------------------------------------------------


@answers(np.max, np.amax)
def max(
    a: Any, axis: Any = None, *,
    keepdims: Any = False, initial: Any = np._NoValue, where: Any = True,
) -> Any:  # fmt: skip
    """The maximum along axes; equal maxima share the derivative."""
    return folded(np.maximum, reduce.reduce_max, maximum, array(a), axis, keepdims, initial, where)


@answers(np.min, np.amin)
def min(
    a: Any, axis: Any = None, *,
    keepdims: Any = False, initial: Any = np._NoValue, where: Any = True,
) -> Any:  # fmt: skip
    """The minimum along axes; equal minima share the derivative."""
    return folded(np.minimum, reduce.reduce_min, minimum, array(a), axis, keepdims, initial, where)


amax, amin = max, min


@answers(np.ptp)
def ptp(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """The range: maximum minus minimum."""
    return max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims)


def _position(op: Op, a: Any, axis: Any, keepdims: Any) -> Any:
    x = array(a)
    if axis is None:
        out = op(flat(x), axis=0)
        return expand_axes(out, tuple(range(x.ndim))) if keepdims else out
    if x.ndim == 0 and axis in (0, -1):
        return op(flat(x), axis=0)
    axis = axis_of(axis, x.ndim)
    return restored(op(x, axis=axis), (axis,), keepdims)


@answers(np.argmax)
def argmax(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """The index of the (first) maximum."""
    return _position(reduce.argmax, a, axis, keepdims)


@answers(np.argmin)
def argmin(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """The index of the (first) minimum."""
    return _position(reduce.argmin, a, axis, keepdims)


# -- truth -----------------------------------------------------------------------------------------


def mask(where: Any, name: str = "where=") -> Any:
    """Convert to truth values; arrays of numbers are refused, which may be meant as weights."""
    x = truth(where)
    if getattr(where, "dtype", x.dtype).kind != "b":
        raise DtypeError(
            f"{name} takes truth values, not {where.dtype}: write a comparison, as x != 0"
        )
    return x


def truth(x: Any) -> Any:
    """Whether each element is not 0."""
    x = array(x)
    return x if x.dtype.kind == "b" else not_equal(x, 0)


@answers(np.all)
def all(a: Any, axis: Any = None, *, keepdims: Any = False, where: Any = True) -> Any:
    """Whether all elements along axes are true."""
    x = chosen(truth(a), where, True)
    axes = reduced_axes(axis, x.ndim)
    return restored(reduce.reduce_and(x, axes=axes), axes, keepdims)


@answers(np.any)
def any(a: Any, axis: Any = None, *, keepdims: Any = False, where: Any = True) -> Any:
    """Whether some element along axes is true."""
    x = chosen(truth(a), where, False)
    axes = reduced_axes(axis, x.ndim)
    return restored(reduce.reduce_or(x, axes=axes), axes, keepdims)


# -- averages --------------------------------------------------------------------------------------


def _count(x: Any, axes: Axes, where: Any) -> Any:
    """The number of averaged elements; an array if there is a mask."""
    if where is True:
        return product_of(x.shape[axis] for axis in axes)
    return reduce_sum(astype(broadcast_to(mask(where), shape=x.shape), np.int64), axes=axes)


def _working_dtype(x: Any, dtype: Any) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The dtypes of accumulation and of the result; 16-bit floats accumulate in float32."""
    if dtype is not None:
        return np.dtype(dtype), np.dtype(dtype)
    if is_float(x.dtype) and x.dtype.itemsize == 2:
        return np.dtype(np.float32), x.dtype
    return (x.dtype, x.dtype) if is_inexact(x.dtype) else (np.dtype(np.float64),) * 2


@answers(np.mean)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, *, keepdims: Any = False, where: Any = True
) -> Any:
    """The mean along axes."""
    x = array(a)
    working, final = _working_dtype(x, dtype)
    axes = axes_of(axis, x.ndim)
    count = _count(x, axes, where)
    total = reduce_sum(chosen(astype(x, working), where, 0), axes=axes)
    return restored(astype(_shared(total, count), final), axes, keepdims)


def _shared(total: Any, count: Any) -> Any:
    """A total divided by a number of elements, which narrow dtypes cannot represent."""
    wide = is_inexact(total.dtype) and total.dtype.itemsize >= 4
    dtype = real_dtype(total.dtype) if wide else np.dtype(np.float64)
    return total / (count if wide and isinstance(count, int) else astype(array(count), dtype))


def variance(
    a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any, mean: Any,
    correction: Any, nan_of_too_few: bool = False,
) -> Any:  # fmt: skip
    """The mean of the squared distances from the mean, or from a given number."""
    if correction is not None:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    x = array(a)
    working, final = _working_dtype(x, dtype)
    axes = axes_of(axis, x.ndim)
    count = _count(x, axes, where)
    if mean is None:
        total = reduce_sum(chosen(astype(x, working), where, 0), axes=axes)
        mean = expand_axes(astype(_shared(total, count), working), axes)
    elif dtype is None and is_inexact(x.dtype) and not nan_of_too_few:
        # of the distances (NumPy's nanvar rounds them to the array's dtype)
        working, final = _working_dtype(x - mean, None)
    distance = astype(squared_size(x - mean), real_dtype(working))
    total = reduce_sum(chosen(distance, where, 0), axes=axes)
    freedom = maximum(count - ddof, 0)
    variance = _shared(total, freedom)
    if nan_of_too_few:
        variance = select(freedom > 0, variance, np.nan)
    final = real_dtype(final) if dtype is None else final
    return restored(astype(variance, final), axes, keepdims)


@answers(np.var)
def var(
    a: Any, axis: Any = None, dtype: Any = None, *, ddof: Any = 0, keepdims: Any = False,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    """The variance of the elements along axes."""
    return variance(a, axis, dtype, ddof, keepdims, where, mean, correction)


@answers(np.std)
def std(
    a: Any, axis: Any = None, dtype: Any = None, *, ddof: Any = 0, keepdims: Any = False,
    where: Any = True, mean: Any = None, correction: Any = None,
) -> Any:  # fmt: skip
    """The standard deviation along axes; where it is 0, its derivative is 0."""
    return deviation(np.std, var, a, axis, dtype, ddof, keepdims, where, mean, correction)


def deviation(
    numpy: Op, squared: Op, a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any,
    mean: Any, correction: Any,
) -> Any:  # fmt: skip
    """The root of a variance, in its dtype; NumPy is asked about one that the user gives."""
    x = array(a)
    out = squared(
        x, axis, dtype, ddof=ddof, keepdims=keepdims, where=where, mean=mean, correction=correction
    )
    if dtype is not None:
        asked(numpy, x, axis, dtype=dtype, keepdims=keepdims)
    return astype(root(out), out.dtype)


def squared_size(x: Any) -> Any:
    """The squared absolute values, which are differentiable at 0."""
    if not is_complex(x.dtype):
        return x * x
    a, b = real_part(x), imag_part(x)
    return a * a + b * b


def root(x: Any) -> Any:
    """The square root of a sum of squares, with derivative 0 where the sum is 0."""
    nothing = equal(x, 0)
    return select(nothing, 0, sqrt(select(nothing, 1, x)))


@answers(np.average)
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = False
) -> Any:
    """The weighted average along axes."""
    x = array(a)
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        scale: Any = x.size // result.size if result.size else 0
    else:
        weights = array(weights)
        if weights.shape != x.shape:
            weights = weights_along(weights, x, axis)
        dtype = np.promote_types(x.dtype, weights.dtype)
        if x.dtype.kind in "biu":
            dtype = np.promote_types(dtype, np.float64)
        scale = sum(weights, axis, dtype, keepdims=keepdims)
        result = sum(astype(x, dtype) * weights, axis, dtype, keepdims=keepdims) / scale
    if not returned:
        return result
    return result, broadcast_to(astype(array(scale), result.dtype), shape=result.shape)


def weights_along(weights: Any, x: Any, axis: Any) -> Any:
    """Reshape weights of some axes to broadcast to the array."""
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = axes_in_order(axis, x.ndim)  # of the weights' own
    if weights.shape != tuple(x.shape[i] for i in axes):
        raise ShapeError(
            f"weights of shape {weights.shape} for axes {axes} of an array of shape {x.shape}"
        )
    weights = transpose(weights, permutation=tuple(np.argsort(axes).tolist()))
    return expand_axes(weights, tuple(i for i in range(x.ndim) if i not in axes))
