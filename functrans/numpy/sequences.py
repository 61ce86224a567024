"""Sequences of samples: convolution, differences, integrals, interpolation, correlations."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import DtypeError
from functrans.ir.types import is_complex, real_dtype
from functrans.numpy.arrays import (
    array,
    astype,
    axes_of,
    axis_of,
    common_dtype,
    flat,
    inexact,
    known,
    operand,
    vector,
)
from functrans.numpy.define import answers
from functrans.numpy.indexing import searchsorted, take
from functrans.numpy.reductions import average, sum
from functrans.ops.arrays.shape import concatenate, read_along
from functrans.ops.arrays.structural import broadcast_to, expand_axes, zeros
from functrans.ops.convolution import convolution
from functrans.ops.convolution.windows import Window
from functrans.ops.elementwise.choice import maximum, minimum, select
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.complex_numbers import complex_p, conj, imag, real
from functrans.ops.elementwise.logic import isnan
from functrans.ops.indexing import views
from functrans.ops.linalg import products
from functrans.trace.source import here

__all__ = [
    "convolve", "corrcoef", "correlate", "cov", "diff", "ediff1d", "gradient", "interp",
    "trapezoid",
]  # fmt: skip

# -- sums over windows -----------------------------------------------------------------------------


_MODES = ("valid", "same", "full")


def _slid(x: Any, y: Any, mode: Any, backwards: bool) -> Any:
    """The sliding dot products of a vector with a vector that is not longer."""
    if y.size == 0:
        raise ValueError("neither of the two vectors may be empty")
    if isinstance(mode, int) and 0 <= mode < len(_MODES):
        mode = _MODES[mode]
    width = y.size
    margins = {
        "full": (width - 1, width - 1),
        "same": (width // 2, (width - 1) // 2),
        "valid": (0, 0),
    }
    if mode not in margins:
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    left, right = margins[mode]
    places = x.size + left + right - width + 1
    if backwards:
        window = Window(places, width, dilation=-1, offset=width - 1 - left)
    else:
        window = Window(places, width, offset=-left)
    return convolution.convolve(x, y, ((0,), (0,), (0,)), ((0, window),))


@answers(np.convolve)
def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    """The convolution of two vectors."""
    # NumPy takes numbers for vectors, but only here
    given = [flat(array(x)) if np.ndim(x) == 0 else x for x in (a, v)]
    x, y = (vector(each, f"{name} of np.convolve") for name, each in zip("av", given, strict=True))
    x, y = sorted((x, y), key=lambda x: -x.size)
    return _slid(x, y, mode, backwards=True)


@answers(np.correlate)
def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    """The correlation of two vectors."""
    x, y = vector(a, "a of np.correlate"), conj(vector(v, "v of np.correlate"))
    if x.size >= y.size:
        return _slid(x, y, mode, backwards=False)
    return views.unlinked(views.flip(_slid(y, x, mode, backwards=False), 0))


# -- differences and integrals ---------------------------------------------------------------------


@answers(np.diff, views=True, beyond=("prepend", "append"))
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The n-th differences along an axis."""
    x = array(a)
    if x.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    axis = axis_of(axis, x.ndim)
    if n == 0:
        return x
    parts = [x if part is x else _end_of(part, x, axis) for part in (prepend, x, append)
             if part is not None]  # fmt: skip
    x = concatenate(parts, axis=axis)
    for _ in range(n):
        size = max(0, x.shape[axis] - 1)
        start = min(1, x.shape[axis])
        later, earlier = read_along(x, axis, start, size), read_along(x, axis, 0, size)
        x = later ^ earlier if x.dtype.kind == "b" else later - earlier
    return x


def _end_of(end: Any, x: Any, axis: int) -> Any:
    """An array to prepend or append; a number stands for an array of size 1 along the axis."""
    end = array(end)
    if end.ndim:
        return end
    return broadcast_to(end, shape=(*x.shape[:axis], 1, *x.shape[axis + 1 :]))


@answers(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """The differences of consecutive elements, with values prepended and appended."""
    x = flat(array(ary))
    size = max(0, x.size - 1)
    x = read_along(x, 0, min(1, x.size), size) - read_along(x, 0, 0, size)
    ends = {"to_begin": to_begin, "to_end": to_end}
    for name, end in ends.items():
        if end is not None and not np.can_cast(common_dtype(operand(end)), x.dtype, "same_kind"):
            raise TypeError(
                f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule."
            )
    parts = [part for part in (to_begin, x, to_end) if part is not None]
    return concatenate([flat(astype(array(part), x.dtype)) for part in parts], axis=0)


@answers(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """The gradient along axes by central differences."""
    x = array(f)
    axes = axes_of(axis, x.ndim) if axis is None or np.ndim(axis) else (axis_of(axis, x.ndim),)
    if axis is not None and np.ndim(axis):
        axes = tuple(axis_of(i, x.ndim) for i in axis)
    spacings = list(varargs) or [1.0]
    if len(spacings) == 1 and np.ndim(spacings[0]) == 0:
        spacings *= len(axes)
    if len(spacings) != len(axes):
        raise TypeError("invalid number of arguments")
    if x.dtype.kind == "b" and axes:
        raise DtypeError(f"np.gradient of truth values{here()}: convert them by .astype(float)")
    x = inexact(x)
    slopes = [
        astype(_slope(x, h, i, edge_order), x.dtype) for h, i in zip(spacings, axes, strict=True)
    ]
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


def _slope(x: Any, spacing: Any, axis: int, edge_order: int) -> Any:
    size = x.shape[axis]
    if size < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) "
            "elements are required."
        )
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    steps = operand(spacing)
    if np.ndim(steps) == 0:
        return _slope_of_even(x, steps, axis, edge_order)
    # the distances between neighbours, along the axis
    if steps.shape != (size,):
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    if steps.dtype.kind in "iu":
        steps = astype(steps, np.float64)  # differences of unsigned integers would wrap
    steps = diff(steps)
    steps = expand_axes(steps, tuple(i for i in range(x.ndim) if i != axis))
    rise = diff(x, axis=axis) / steps

    def part(of: Any, start: int, count: int) -> Any:
        return read_along(of, axis, start, count)

    before, after = part(steps, 0, size - 2), part(steps, 1, size - 2)
    inner = (part(rise, 0, size - 2) * after + part(rise, 1, size - 2) * before) / (before + after)
    first, last = part(rise, 0, 1), part(rise, size - 2, 1)
    if edge_order == 2:
        h0, h1 = part(steps, 0, 1), part(steps, 1, 1)
        first = first + (first - part(rise, 1, 1)) * h0 / (h0 + h1)
        k0, k1 = part(steps, size - 2, 1), part(steps, size - 3, 1)
        last = last + (last - part(rise, size - 3, 1)) * k0 / (k0 + k1)
    return concatenate([first, inner, last], axis=axis)


def _slope_of_even(x: Any, step: Any, axis: int, edge_order: int) -> Any:
    """Slopes for equal spacing."""
    size = x.shape[axis]

    def part(start: int, count: int) -> Any:
        return read_along(x, axis, start, count)

    inner = (part(2, size - 2) - part(0, size - 2)) / (2.0 * step)
    if edge_order == 1:
        first, last = part(1, 1) - part(0, 1), part(size - 1, 1) - part(size - 2, 1)
    else:
        first = -1.5 * part(0, 1) + 2.0 * part(1, 1) - 0.5 * part(2, 1)
        last = 1.5 * part(size - 1, 1) - 2.0 * part(size - 2, 1) + 0.5 * part(size - 3, 1)
    return concatenate([first / step, inner, last / step], axis=axis)


@answers(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule."""
    values = array(y)
    own = axis_of(axis, values.ndim)
    if x is None:
        steps: Any = dx
    else:
        steps = array(x)
        steps = diff(steps, axis=0 if steps.ndim == 1 else axis)
        if steps.ndim == 1:
            steps = expand_axes(steps, tuple(i for i in range(values.ndim) if i != own))
    size = max(0, values.shape[own] - 1)
    start = min(1, values.shape[own])
    pairs = read_along(values, own, start, size) + read_along(values, own, 0, size)
    return sum(steps * pairs / 2.0, axis)


@answers(np.interp)
def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Piecewise linear interpolation at ``x`` of points in ascending order."""
    at, places, values = array(x), vector(xp, "xp of np.interp"), vector(fp, "fp of np.interp")
    if places.size == 0:
        raise ValueError("array of sample points is empty")
    if places.size != values.size:
        raise ValueError("fp and xp are not of the same length.")
    if is_complex(at.dtype) or is_complex(places.dtype):
        raise DtypeError(
            f"np.interp at complex numbers{here()}: x and xp are real, and only fp may be complex"
        )
    ends = [array(end) for end in (left, right) if end is not None]
    if any(is_complex(end.dtype) for end in ends) and not is_complex(values.dtype):
        raise DtypeError(
            f"must be real number, not complex: an end of np.interp{here()}; "
            "if fp is meant to be complex, write fp.astype(complex)"
        )
    at, places = astype(at, np.float64), astype(places, np.float64)
    values = astype(values, np.promote_types(values.dtype, np.float64))
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value")
        period = abs(period)
        left = right = None  # the interval of each point
        at, places = at % period, places % period
        order = np.argsort(places)
        places, values = take(places, order), take(values, order)
        places = concatenate([places[-1:] - period, places, places[:1] + period], axis=0)
        values = concatenate([values[-1:], values, values[:1]], axis=0)
    last = places.shape[0] - 1
    if last == 0:
        inside = broadcast_to(values[0], shape=at.shape)
    else:
        above = minimum(maximum(searchsorted(places, at, "right"), 1), last)
        x0, x1 = take(places, above - 1), take(places, above)
        y0, y1 = take(values, above - 1), take(values, above)
        inside = _on_line(at, x0, x1, y0, y1)
    low = values[0] if left is None else left
    high = values[last] if right is None else right
    result = select(at < places[0], low, select(at > places[last], high, inside))
    return select(equal(at, places[last]), values[last], result)


def _on_line(at: Any, x0: Any, x1: Any, y0: Any, y1: Any) -> Any:
    """The linear interpolant between two points, whose values may be infinite or NaN."""
    if is_complex(y0.dtype):
        parts = (_on_line(at, x0, x1, part(y0), part(y1)) for part in (real, imag))
        return complex_p(*parts)
    slope = (y1 - y0) / (x1 - x0)
    from_below, from_above = y0 + slope * (at - x0), y1 + slope * (at - x1)
    level = equal(at, at) & equal(y0, y1) & isnan(from_above)
    otherwise = select(equal(at, x0) | level, y0, from_above)
    return select(isnan(from_below), otherwise, from_below)


# -- statistics of several variables ---------------------------------------------------------------


@answers(np.cov)
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None,
    fweights: Any = None, aweights: Any = None, *, dtype: Any = None,
) -> Any:  # fmt: skip
    """The covariance matrix of variables, one in each row."""
    x = _variables(m, rowvar)
    if x.shape[0] == 0:
        return zeros((0, 0), np.float64)
    if y is not None:
        # (a single row is one variable in any case, as in NumPy)
        x = concatenate([x, _variables(y, rowvar or np.shape(y)[:1] == (1,))], axis=0)
    x = astype(x, np.promote_types(x.dtype, np.float64) if dtype is None else dtype)
    ddof = (0 if bias else 1) if ddof is None else ddof
    if ddof != int(ddof):
        raise ValueError("ddof must be integer")
    weights: Any = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            given = vector(given, f"{name} of np.cov")
            if name == "fweights" and known(np.any(given != np.round(given))):
                raise TypeError("fweights must be integer")
            if known(np.any(given < 0)):
                raise ValueError(f"{name} cannot be negative")
            weights = given if weights is None else weights * given
    mean = average(x, 1, weights)
    total: Any = x.shape[1] if weights is None else sum(weights)
    if weights is None or ddof == 0:
        freedom = total - (ddof if weights is None else 0)
    elif aweights is None:
        freedom = total - ddof
    else:
        freedom = total - ddof * sum(weights * array(aweights)) / total
    x = x - expand_axes(mean, (1,))
    weighted = x if weights is None else x * weights
    # multiply by the reciprocal, as NumPy does: covariances of one observation are NaN
    scale = astype(array(np.true_divide(1, maximum(freedom, 0))), real_dtype(x.dtype))
    return views.squeeze(products.dot(x, conj(views.transpose(weighted))) * scale)


def _variables(m: Any, rowvar: bool) -> Any:
    x = array(m)
    if x.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    x = expand_axes(x, tuple(range(2 - x.ndim)))
    return x if rowvar or array(m).ndim < 2 else views.transpose(x)


@answers(np.corrcoef)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """The correlation matrix of variables, one in each row."""
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    deviation = np.sqrt(real(views.diagonal(c)))
    c = c / deviation[:, None] / deviation[None, :]
    parts = (maximum(minimum(part, 1.0), -1.0) for part in (real(c), imag(c)))
    return complex_p(*parts) if is_complex(c.dtype) else next(parts)
