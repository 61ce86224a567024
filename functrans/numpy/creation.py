"""New arrays. Within a trace they are traced, so that the traced function can assign to them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functrans.ir.on_device import holds_device
from functrans.ir.primitive import current
from functrans.ir.types import is_inexact
from functrans.numpy import arrays
from functrans.numpy.define import ORDERS, answers, refuse_keyword
from functrans.ops.arrays.shape import concatenate, flip, read_along, stack
from functrans.ops.arrays.slicing import padded, update_slice
from functrans.ops.arrays.structural import broadcast_to, expand_axes, move_axis, reshape
from functrans.ops.compiled.places import whole
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.power import raise_to
from functrans.ops.elementwise.rounding import floor
from functrans.ops.indexing import views
from functrans.subclasses import lost
from functrans.trace import protocols
from functrans.trace.tracer import Tracer

__all__ = [
    "arange", "array", "asanyarray", "asarray", "ascontiguousarray", "astype", "copy", "diag",
    "diagflat", "diagonal", "empty", "empty_like", "eye", "full", "full_like",
    "geomspace", "identity", "indices", "linspace", "logspace", "meshgrid", "ones", "ones_like",
    "tri", "tril", "triu", "vander", "zeros", "zeros_like",
]  # fmt: skip

# -- filled with one number ------------------------------------------------------------------------


@answers(np.zeros, creates=True)
def zeros(shape: Any, dtype: Any = None) -> Any:
    """An array of zeros."""
    return arrays.filled(arrays.shape_of(shape), 0, dtype or np.float64)


@answers(np.ones, creates=True)
def ones(shape: Any, dtype: Any = None) -> Any:
    """An array of ones."""
    return arrays.filled(arrays.shape_of(shape), 1, dtype or np.float64)


@answers(np.empty, creates=True)
def empty(shape: Any, dtype: Any = None) -> Any:
    """An array to be assigned to; traced, it holds zeros."""
    return arrays.filled(arrays.shape_of(shape), 0, dtype or np.float64)


@answers(np.full, creates=True)
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """An array filled with one number, or with a broadcast array."""
    return _full(arrays.shape_of(shape), fill_value, dtype)


def _full(shape: tuple[int, ...], fill_value: Any, dtype: Any) -> Any:
    value = arrays.array(fill_value) if dtype is None else arrays.in_dtype(fill_value, dtype)
    if isinstance(value, Tracer):
        return arrays.duplicate(broadcast_to(arrays.astype(value, value.dtype), shape=shape))
    if is_inexact(value.dtype) or value.ndim:
        # a float may change from call to call: an operand, so that the graph stays the same
        return select(arrays.filled(shape, True, np.bool_), value, value)
    return arrays.filled(shape, value.item(), value.dtype)


def _shape_like(x: Any, shape: Any) -> tuple[int, ...]:
    own: tuple[int, ...] = arrays.array(x).shape
    return own if shape is None else arrays.shape_of(shape)


def _dtype_like(x: Any, dtype: Any) -> Any:
    return arrays.array(x).dtype if dtype is None else dtype


@answers(np.zeros_like, creates=True)
def zeros_like(a: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    """Zeros with the shape and dtype of an array."""
    return arrays.filled(_shape_like(a, shape), 0, _dtype_like(a, dtype))


@answers(np.ones_like, creates=True)
def ones_like(a: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    """Ones with the shape and dtype of an array."""
    return arrays.filled(_shape_like(a, shape), 1, _dtype_like(a, dtype))


@answers(np.empty_like, creates=True)
def empty_like(prototype: Any, /, dtype: Any = None, *, shape: Any = None) -> Any:
    """An array to be assigned to; traced, it holds zeros."""
    return arrays.filled(_shape_like(prototype, shape), 0, _dtype_like(prototype, dtype))


@answers(np.full_like, creates=True)
def full_like(a: Any, fill_value: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    """One number with the shape and dtype of an array."""
    return _full(_shape_like(a, shape), fill_value, _dtype_like(a, dtype))


# -- numbers in a row ------------------------------------------------------------------------------


@answers(np.arange, creates=True)
def arange(*args: Any, **kwargs: Any) -> Any:
    """Evenly spaced numbers; the bounds must be known during tracing."""
    make: Any = np.arange  # its type has an overload for each kind of number
    kwargs = {name: _number(x) for name, x in kwargs.items() if name != "like"}
    row = make(*map(_number, args), **kwargs)
    return arrays.duplicate(arrays.constant(row))


def _number(x: Any) -> Any:
    """A known number that determines the number of elements."""
    if not isinstance(x, Tracer):
        return x
    return operator.index(x) if x.dtype.kind in "biu" else x.__float__()


@answers(np.linspace, creates=True)
def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None, axis: int = 0,
) -> Any:  # fmt: skip
    """``num`` evenly spaced numbers over an interval."""
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    start, stop = arrays.inexact_pair(start, stop)
    intervals = num - 1 if endpoint else num
    step = (stop - start) / intervals if intervals > 0 else (stop - start) * np.nan
    ndim = step.ndim + 1
    if intervals > 0:
        row = arrays.astype(arrays.counting(num, 0, ndim), step.dtype) * step + start
    else:
        row = arrays.filled((num, *step.shape), 0, step.dtype) + start
    if endpoint and num > 1:
        last = broadcast_to(expand_axes(stop, (0,)), shape=(1, *step.shape))
        row = concatenate([read_along(row, 0, 0, num - 1), last], axis=0)
    if dtype is not None:
        row = arrays.astype(floor(row) if np.dtype(dtype).kind in "iu" else row, dtype)
    row = move_axis(row, 0, arrays.axis_of(axis, ndim))
    return (row, step) if retstep else row


@answers(np.logspace, creates=True)
def logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0,
    dtype: Any = None, axis: int = 0,
) -> Any:  # fmt: skip
    """Powers of ``base`` with evenly spaced exponents."""
    base = arrays.operand(base)
    if np.ndim(base):
        ndim = max(np.ndim(x) for x in (start, stop, base))
        start, stop, base = (at_least_axes(x, ndim) for x in (start, stop, base))
        base = expand_axes(base, (arrays.axis_of(axis, ndim + 1),))
    powers = raise_to(base, linspace(start, stop, num, endpoint, axis=axis))
    return powers if dtype is None else arrays.astype(powers, dtype)


def at_least_axes(x: Any, ndim: int) -> Any:
    """Add leading axes up to a minimal number of axes."""
    x = arrays.array(x)
    return expand_axes(x, tuple(range(ndim - x.ndim)))


@answers(np.geomspace, creates=True)
def geomspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """Numbers spaced evenly on a logarithmic scale, between two of the same sign."""
    start, stop = arrays.inexact(start), arrays.inexact(stop)
    if any(np.any(arrays.known(end) == 0) for end in (start, stop)):
        raise ValueError("Geometric sequence cannot include zero")
    working = np.result_type(start.dtype, stop.dtype, np.zeros((), dtype))
    start, stop = arrays.astype(start, working), arrays.astype(stop, working)
    # rotate so that start is on the positive axis, and back
    sign = np.sign(start)
    start, stop = start / sign, stop / sign
    num = operator.index(num)
    inner = raise_to(10.0, linspace(np.log10(start), np.log10(stop), num, endpoint))
    shape = inner.shape[1:]
    ends = [(0, start)] * (num > 0) + [(num - 1, stop)] * (endpoint and num > 1)
    for i, end in ends:
        index = (i, *map(whole, shape))
        inner = update_slice(inner, broadcast_to(end, shape=shape), index=index)
    inner = inner * sign
    if dtype is not None:
        inner = arrays.astype(inner, dtype)
    return move_axis(inner, 0, arrays.axis_of(axis, inner.ndim))


# -- from existing data ----------------------------------------------------------------------------


@protocols.implements(np.asarray)
def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: bool | None = None,
    like: Any = None,
) -> Any:  # fmt: skip
    """As `numpy.asarray`, also of sequences of traced values; traced within a trace."""
    if current.get() is None:
        if holds_device((a,), {}):
            x = arrays.array(a)  # it stays on its device
            return x if dtype is None else arrays.astype(x, dtype)
        return np.asarray(a, dtype, order, device=device, copy=copy)
    if order not in ORDERS:
        refuse_keyword(np.asarray, "order")
    # subclasses are converted to plain arrays
    x = protocols.strengthened(arrays.constant(np.asarray(a) if lost(a) else arrays.array(a)))
    if dtype is not None and x.dtype != np.dtype(dtype):
        return views.as_array(arrays.astype(x, dtype))
    # an array made from a list is new, too
    if copy or not hasattr(a, "dtype"):
        return views.as_array(arrays.duplicate(x))
    x = views.as_array(x)
    return views.in_order(x, f"np.asarray(..., order={order!r})") if order in ("C", "F") else x


@protocols.implements(np.asanyarray)
def asanyarray(a: Any, dtype: Any = None, order: Any = None, **keywords: Any) -> Any:
    """As `asarray`."""
    return asarray(a, dtype, order, **keywords)


@protocols.implements(np.ascontiguousarray)
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """As `asarray`, with at least one axis."""
    x = asarray(a, dtype, "C")
    return x if x.ndim else views.reshaped(x, (1,))


@protocols.implements(np.asfortranarray)
def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """As `ascontiguousarray`."""
    x = asarray(a, dtype, "F")
    return x if x.ndim else views.reshaped(x, (1,))


@protocols.implements(np.array)
def array(
    object: Any, dtype: Any = None, *, copy: bool | None = True, order: Any = "K",
    subok: bool = False, ndmin: int = 0, like: Any = None,
) -> Any:  # fmt: skip
    """As `numpy.array`, also of sequences of traced values; traced within a trace."""
    x = asarray(object, dtype, order, copy=copy)
    return views.reshaped(x, (*(1,) * (ndmin - x.ndim), *x.shape)) if ndmin > x.ndim else x


@answers(np.copy, creates=True)
def copy(a: Any, order: Any = "K", subok: bool = False) -> Any:
    """A copy that can be assigned to."""
    return arrays.duplicate(arrays.constant(arrays.array(a)))


@answers(np.astype, views=True)
def astype(x: Any, dtype: Any, /, *, copy: bool = True) -> Any:
    """Convert an array to another dtype."""
    return x.astype(dtype, copy=copy)


# -- matrices --------------------------------------------------------------------------------------


def _rows_and_crossings(rows: int, columns: int, k: Any) -> tuple[Any, Any]:
    """The index of each row, and for each column the row of its element on the k-th diagonal.

    All diagonals beyond the corners are empty, so ``k`` is clamped to avoid overflow.
    """
    if not isinstance(k, Tracer):
        k = min(max(k, -rows), columns)
    return arrays.counting(rows, 0, 2), arrays.counting(columns, 1, 2) - k


def _at_or_below(rows: int, columns: int, k: Any) -> Any:
    """Whether each element of a matrix is on or below the k-th diagonal."""
    row, crossed = _rows_and_crossings(rows, columns, k)
    return row >= crossed


@answers(np.eye, creates=True)
def eye(N: Any, M: Any = None, k: int = 0, dtype: Any = float) -> Any:
    """A matrix with ones on a diagonal."""
    rows, columns = operator.index(N), operator.index(N if M is None else M)
    row, crossed = _rows_and_crossings(rows, columns, operator.index(k))
    return arrays.astype(row == crossed, dtype)


@answers(np.identity, creates=True)
def identity(n: Any, dtype: Any = None) -> Any:
    """The identity matrix."""
    return eye(n, dtype=dtype or float)


@answers(np.tri, creates=True)
def tri(N: Any, M: Any = None, k: int = 0, dtype: Any = float) -> Any:
    """A matrix with ones on and below a diagonal."""
    rows, columns = operator.index(N), operator.index(N if M is None else M)
    return arrays.astype(_at_or_below(rows, columns, operator.index(k)), dtype)


@answers(np.tril)
def tril(m: Any, k: int = 0) -> Any:
    """The lower triangle, with zeros above it."""
    m = arrays.array(m)
    return select(_at_or_below(*_rows_and_columns(m), k), m, m.dtype.type(0))


@answers(np.triu)
def triu(m: Any, k: int = 0) -> Any:
    """The upper triangle, with zeros below it."""
    m = arrays.array(m)
    return select(_at_or_below(*_rows_and_columns(m), k - 1), m.dtype.type(0), m)


def _rows_and_columns(m: Any) -> tuple[int, int]:
    # NumPy makes a matrix of a vector by repeating it
    return (m.shape[0], m.shape[0]) if m.ndim == 1 else m.shape[-2:]


@answers(np.diag, views=True)
def diag(v: Any, k: int = 0) -> Any:
    """The matrix with a vector on its diagonal, or the diagonal of a matrix."""
    v = arrays.array(v)
    if v.ndim == 1:
        n = v.shape[0] + abs(k)
        start = k if k >= 0 else -k * n
        entry = (start, v.shape[0], n + 1) if v.shape[0] else whole(0)
        return reshape(padded(v, index=(entry,), shape=(n * n,)), shape=(n, n))
    if v.ndim == 2:
        return diagonal(v, k)
    raise ValueError("Input must be 1- or 2-d.")


@answers(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Any:
    """The matrix with the flattened elements of an array on its diagonal."""
    return diag(arrays.flat(arrays.array(v)), k)


@answers(np.diagonal, views=True)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """A diagonal, read-only as in NumPy."""
    return views.diagonal(arrays.array(a), offset, axis1, axis2)


@answers(np.vander)
def vander(x: Any, N: Any = None, increasing: bool = False) -> Any:
    """The Vandermonde matrix of a vector."""
    x = arrays.array(x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    columns = x.shape[0] if N is None else operator.index(N)
    if columns < 0:
        raise ValueError("negative dimensions are not allowed")
    dtype = np.promote_types(x.dtype, np.int64)
    x = arrays.astype(x, dtype)
    powers = [arrays.filled(x.shape, 1, dtype), x]  # not 1 * x: an infinity would become NaN
    while len(powers) < columns:
        powers.append(powers[-1] * x)
    if columns == 0:
        return arrays.filled((x.shape[0], 0), 0, dtype)
    together = stack(powers[:columns], axis=1)
    return together if increasing else flip(together, axes=(1,))


# -- grids -----------------------------------------------------------------------------------------


@answers(np.meshgrid, views=True)
def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Any, ...]:
    """Coordinate arrays of a grid from coordinate vectors."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    vectors = [views.reshape(arrays.array(x), -1) for x in xi]
    place = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        place[:2] = 1, 0
    shape = [1] * len(vectors)
    for vector, axis in zip(vectors, place, strict=True):
        shape[axis] = vector.shape[0]
    grids = []
    for vector, axis in zip(vectors, place, strict=True):
        own = tuple(n if i == axis else 1 for i, n in enumerate(shape))
        grid = views.reshape(vector, own)
        grid = grid if sparse else views.broadcast_to(grid, shape)
        grids.append(arrays.duplicate(grid) if copy else grid)
    return tuple(grids)


@answers(np.indices, creates=True)
def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """The indices of a grid, as one array for each axis."""
    shape = arrays.shape_of(dimensions)
    each = [arrays.astype(arrays.counting(n, i, len(shape)), dtype) for i, n in enumerate(shape)]
    if sparse:
        return tuple(each)
    if not each:
        return arrays.filled((0,), 0, dtype)
    return stack([broadcast_to(x, shape=shape) for x in each], axis=0)
