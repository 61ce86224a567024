"""Slices at traced indices, and segment sums, under the names of `jax.lax`.

``x[i : i + 3]`` usually suffices; it raises if the slice is out of bounds. The functions here shift
the slice into the array instead, as in JAX.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from functrans.errors import DtypeError, ShapeError
from functrans.ir.types import Shape
from functrans.lax.sliding import integers, limit
from functrans.ops.arrays.shape import asarray, holds_tracer
from functrans.ops.arrays.slicing import read_slice, update_slice
from functrans.ops.arrays.structural import astype, full_p, inverse, iota, reshape, transpose
from functrans.ops.compiled.places import Index, whole
from functrans.ops.elementwise.choice import maximum, minimum, select
from functrans.ops.elementwise.compare import greater_equal, less
from functrans.ops.indexing.gather import (
    gather,
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_multiply,
    scatter_set,
)
from functrans.ops.indexing.positions import indexed_first
from functrans.ops.indexing.views import copy
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

_INDEX = np.dtype(np.int64)


def dynamic_slice(operand: Any, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> Any:
    """A slice of an array that starts at traced indices.

    Parameters
    ----------
    operand : array
    start_indices : sequence of int, or array of integers
        One for each axis; negative ones count from the end. A slice that exceeds the array is
        shifted into it.
    slice_sizes : sequence of int
        The shape of the result.

    Raises
    ------
    ShapeError
        If the number of indices or sizes is not that of axes, or if a size is larger than the
        array's.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit, lax
    >>> x = np.arange(12).reshape(3, 4)
    >>> jit(lambda x, i: lax.dynamic_slice(x, (i, 2), (2, 2)))(x, 1)
    array([[ 6,  7],
           [10, 11]])
    >>> lax.dynamic_slice(x, (5, 0), (1, 4))
    array([[ 8,  9, 10, 11]])
    """
    x = asarray(operand)
    sizes = integers(slice_sizes)
    if sizes is None:
        _no_sequence(slice_sizes, "slice_sizes")
    starts = _starts(x, start_indices, sizes, "slice_sizes")
    index, axes, positions = _part(x.shape, starts, sizes)
    part = read_slice(x, index=index)
    if axes:
        part = gather(part, *positions, axes=axes)
        return transpose(part, permutation=inverse(indexed_first(x.ndim, axes)))
    return copy(part)


def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0) -> Any:
    """`dynamic_slice` along one axis.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.dynamic_slice_in_dim(np.arange(5), 3, 2)
    array([3, 4])
    """
    x = asarray(operand)
    axis = _axis(axis, x.ndim)
    sizes = [operator.index(slice_size) if i == axis else n for i, n in enumerate(x.shape)]
    return dynamic_slice(x, [start_index if i == axis else 0 for i in range(x.ndim)], sizes)


def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Any:
    """`dynamic_slice` of one element along one axis; ``keepdims`` keeps the axis.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.dynamic_index_in_dim(np.arange(5), 3, keepdims=False)
    np.int64(3)
    """
    x = asarray(operand)
    axis = _axis(axis, x.ndim)
    part = dynamic_slice_in_dim(x, index, 1, axis)
    return part if keepdims else part[(*(slice(None),) * axis, 0)]


def dynamic_update_slice(operand: Any, update: Any, start_indices: Sequence[Any]) -> Any:
    """An array in which a slice that starts at traced indices is replaced.

    Parameters
    ----------
    operand : array
    update : array
        The new slice, with as many axes; it is converted to the dtype of ``operand``.
    start_indices : sequence of int, or array of integers
        As for `dynamic_slice`.

    Raises
    ------
    ShapeError
        If ``update`` does not fit into the array.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.dynamic_update_slice(np.zeros(4), np.ones(2), [1])
    array([0., 1., 1., 0.])
    """
    x, new = asarray(operand), asarray(update)
    starts = _starts(x, start_indices, new.shape, "the shape of update")
    index, axes, positions = _part(x.shape, starts, new.shape)
    new = astype(new, x.dtype)
    if axes:
        new = transpose(new, permutation=indexed_first(x.ndim, axes))
        part = read_slice(x, index=index)
        new = scatter_set(part, new, *positions, axes=axes, unique=True)
    return update_slice(x, new, index=index)


def _part(
    shape: Shape, starts: Sequence[Any], sizes: Sequence[int]
) -> tuple[Index, tuple[int, ...], list[Any]]:
    """The index of a part: slices along axes on which its start is known, indices along the others.

    Returns the slice, which takes all of the other axes, these axes, and their indices.
    """
    axes = tuple(axis for axis, start in enumerate(starts) if holds_tracer(start))
    index = tuple(
        whole(extent) if axis in axes else (starts[axis], sizes[axis], 1)
        for axis, extent in enumerate(shape)
    )
    positions = []
    for number, axis in enumerate(axes, 1):
        own = starts[axis] + iota(size=sizes[axis], dtype=_INDEX)
        positions.append(reshape(own, shape=(sizes[axis], *(1,) * (len(axes) - number))))
    return index, axes, positions


def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int = 0) -> Any:
    """`dynamic_update_slice` along one axis.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.dynamic_update_slice_in_dim(np.zeros((2, 3)), np.ones((2, 1)), 2, axis=1)
    array([[0., 0., 1.],
           [0., 0., 1.]])
    """
    x = asarray(operand)
    axis = _axis(axis, x.ndim)
    return dynamic_update_slice(x, update, [start_index if i == axis else 0 for i in range(x.ndim)])


def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int = 0) -> Any:
    """`dynamic_update_slice` of one element along one axis, which ``update`` may lack.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.dynamic_update_index_in_dim(np.zeros(3), 5.0, 1)
    array([0., 5., 0.])
    """
    x, new = asarray(operand), asarray(update)
    axis = _axis(axis, x.ndim)
    if new.ndim == x.ndim - 1:
        new = reshape(new, shape=(*new.shape[:axis], 1, *new.shape[axis:]))
    return dynamic_update_slice_in_dim(x, new, index, axis)


def _axis(axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis % ndim


def _no_sequence(given: Any, name: str = "start_indices") -> NoReturn:
    raise ShapeError(
        f"{name} must hold an integer for each axis, as (0, 2) does, and is {given!r}{here()}"
    )


def _starts(x: Any, starts: Any, sizes: Sequence[int], what: str) -> list[Any]:
    """The start of a part of the given shape, shifted into the array."""
    if not isinstance(starts, (list, tuple)):
        starts = list(asarray(starts)) if np.ndim(starts) == 1 else _no_sequence(starts)
    if len(starts) != x.ndim or len(sizes) != x.ndim:
        raise ShapeError(
            f"a part of an array of shape {x.shape} has {x.ndim} start_indices and as many axes, "
            f"not {len(starts)} and {len(sizes)}{here()}"
        )
    for axis, (size, extent) in enumerate(zip(sizes, x.shape, strict=True)):
        if not 0 <= size <= extent:
            raise ShapeError(f"{what} has {size} along axis {axis}, and the array {extent}{here()}")
    return [
        _inside(start, extent, size)
        for start, extent, size in zip(starts, x.shape, sizes, strict=True)
    ]


def _integers(x: Any, name: str) -> Any:
    if x.dtype.kind not in "iu":
        raise DtypeError(f"{name} are integers, not {x.dtype}{here()}")
    return astype(x, _INDEX)


def _inside(start: Any, extent: int, size: int) -> Any:
    last = extent - size
    if not holds_tracer(start):
        if isinstance(start, bool) or not hasattr(start, "__index__"):
            raise DtypeError(f"a start index is an integer, not {start!r}{here()}")
        first = operator.index(start)
        return max(0, min(first + extent if first < 0 else first, last))
    if last == 0:
        return 0
    if start.dtype.kind == "u":  # the largest uint64 would become negative
        start = minimum(astype(start, np.uint64), np.uint64(last))
    start = _integers(start, "start indices")
    from_front = select(less(start, 0), start + extent, start)
    return maximum(minimum(from_front, last), 0)


# -- segments --------------------------------------------------------------------------------------


def segment_sum(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Any:  # fmt: skip
    """Sums of the rows of each segment.

    Parameters
    ----------
    data : array of shape (n, ...)
    segment_ids : array of int, of shape (n,)
        The segment of each row. Rows whose segment is out of range are ignored.
    num_segments : int, optional
        The number of segments; by default, one more than the largest segment, which must then be
        known. It is required under `jit` and `vmap`.
    indices_are_sorted, unique_indices : bool
        For compatibility with JAX. Their only effect is that `segment_prod` has a derivative with
        ``unique_indices``.

    Returns
    -------
    array of shape (num_segments, ...)
        0 for a segment without rows.

    Raises
    ------
    ShapeError
        If ``segment_ids`` does not have one number for each row, or the number of segments is
        unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.segment_sum(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 0]), 3)
    array([5., 0., 2.])
    """
    return _by_segment(scatter_add, lambda dtype: 0, data, segment_ids, num_segments, False)


def segment_prod(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Any:  # fmt: skip
    """Products of the rows of each segment; see `segment_sum`.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.segment_prod(np.array([3.0, 2.0, 4.0]), np.array([0, 2, 0]), 3)
    array([12.,  1.,  2.])
    """
    return _by_segment(
        scatter_multiply, lambda dtype: 1, data, segment_ids, num_segments, unique_indices
    )


def segment_max(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Any:  # fmt: skip
    """The maximum of the rows of each segment; -inf, or the least integer, if it has none.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.segment_max(np.array([3.0, 2.0, 4.0]), np.array([0, 2, 0]), 3)
    array([  4., -inf,   2.])
    """
    return _by_segment(scatter_max, partial(limit, sign=-1), data, segment_ids, num_segments, False)


def segment_min(
    data: Any, segment_ids: Any, num_segments: int | None = None, indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Any:  # fmt: skip
    """The minimum of the rows of each segment; inf, or the largest integer, if it has none.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import lax
    >>> lax.segment_min(np.array([3.0, 2.0, 4.0]), np.array([0, 2, 0]), 3)
    array([ 3., inf,  2.])
    """
    return _by_segment(scatter_min, partial(limit, sign=1), data, segment_ids, num_segments, False)


def _by_segment(
    scatter: Callable[..., Any], neutral: Callable[[np.dtype[Any]], Any], data: Any,
    segment_ids: Any, num_segments: int | None, unique: bool,
) -> Any:  # fmt: skip
    x, ids = asarray(data), asarray(segment_ids)
    if ids.ndim != 1 or x.ndim == 0 or ids.shape[0] != x.shape[0]:
        raise ShapeError(
            f"segment_ids has one number for each row of data, which has shape {x.shape}, and not "
            f"the shape {ids.shape}{here()}"
        )
    count = _number_of_segments(ids) if num_segments is None else operator.index(num_segments)
    ids = _integers(ids, "segment_ids")
    outside = np.logical_or(less(ids, 0), greater_equal(ids, count))
    # ignored rows go to an extra segment, which is dropped
    places = select(outside, count, ids)
    empty = full_p(shape=(count + 1, *x.shape[1:]), value=neutral(x.dtype), dtype=x.dtype)
    return scatter(empty, x, places, axes=(0,), unique=unique)[:count]


def _number_of_segments(ids: Any) -> int:
    value = ids._known_value if isinstance(ids, Tracer) else ids
    if not isinstance(value, np.ndarray):
        raise ShapeError(
            f"the number of segments decides the shape of the result, and segment_ids is traced"
            f"{here()}: say it by num_segments"
        )
    return int(value.max()) + 1 if value.size else 0
