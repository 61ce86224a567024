"""Cyclic colourings of bands: column ``j`` has the colour ``(j + shift) mod period``.

`cyclic_vectors` sums the basis vectors of each colour; `cyclic_diagonal` extracts one diagonal of a
matrix from its products with these sums. Colours and positions are arithmetic on indices, not
arrays. So when both are compiled together, the zeros and ones of the vectors are constants, and
fold: only the formula of the diagonal remains.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.primitive import LINEAR, ZERO_DERIVATIVE, Primitive
from functrans.ir.types import Aval
from functrans.loop import scalar
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import const
from functrans.ops.arrays.structural import absent_like, iota, place
from functrans.ops.define import primitive
from functrans.ops.elementwise.arithmetic import add, remainder
from functrans.ops.indexing.gather import scatter_set
from functrans.ops.samples import cases

# -- the vectors -----------------------------------------------------------------------------------


def _vectors(*, period: int, shift: int, size: int, dtype: np.dtype[Any]) -> Any:
    colours = (np.arange(size) + shift) % period
    return (np.arange(period)[:, None] == colours).astype(dtype)


def _pull_vectors(
    read: Any, index: Any, *, period: int, shift: int, size: int, dtype: np.dtype[Any]
) -> Any:
    colour, column = index
    apart = column + (shift % period + period) - colour
    is_own = scalar.eq(scalar.irem(apart, const(period, INDEX)), const(0, INDEX))
    return scalar.where(is_own, const(1, dtype), scalar.zero(dtype))


cyclic_vectors: Primitive = primitive(
    "cyclic_vectors",
    infer=lambda *, period, shift, size, dtype: Aval((period, size), dtype),
    numpy=_vectors,
    jvp=ZERO_DERIVATIVE,
    pull=_pull_vectors,
    samples=cases(
        ({"period": 3, "shift": 4, "size": 7, "dtype": np.dtype(np.float64)},),
        ({"period": 2, "shift": 0, "size": 1, "dtype": np.dtype(np.float32)},),
    ),
)
"""A row for each colour: 1 in the columns of that colour, and 0 elsewhere."""

# -- a diagonal of the matrix ----------------------------------------------------------------------


def _diagonal(x: Any, *, shift: int, start: int, count: int) -> Any:
    along = np.arange(count)
    return x[(along + shift) % x.shape[0], along + start]


def _infer_diagonal(x: Aval, *, shift: int, start: int, count: int) -> Aval:
    if x.ndim < 2 or not 0 <= start <= start + count <= x.shape[1]:
        raise ShapeError(f"{count} elements from {start} on of {x}")
    return x.update(shape=(count, *x.shape[2:]))


def _transpose_diagonal(ct: Any, x: Aval, *, shift: int, start: int, count: int) -> Any:
    along = iota(size=count, dtype=INDEX)
    colours = remainder(add(along, np.int64(shift)), np.int64(x.shape[0]))
    positions = colours, add(along, np.int64(start))
    return scatter_set(absent_like(x), ct, *positions, axes=(0, 1), unique=True)


def _batch_diagonal(operands: Any, axes: Any, **params: Any) -> tuple[Any, int]:
    (x,), (axis,) = operands, axes
    return cyclic_diagonal(place(x, axis, x.ndim - 1, x.shape[axis]), **params), x.ndim - 2


def _pull_diagonal(read: Any, index: Any, x: Aval, *, shift: int, start: int, count: int) -> Any:
    along, *rest = index
    period = x.shape[0]
    colour = scalar.irem(along + shift % period, const(period, INDEX))
    return read(0, (colour, along + start, *rest))


cyclic_diagonal: Primitive = primitive(
    "cyclic_diagonal",
    infer=_infer_diagonal,
    numpy=_diagonal,
    linear=LINEAR,
    transpose=[_transpose_diagonal],
    batch=_batch_diagonal,
    pull=_pull_diagonal,
    stores=True,
    samples=cases(
        ((3, 7), {"shift": 1, "start": 0, "count": 6}),
        ((2, 4), {"shift": 5, "start": 1, "count": 3}),
        ((3, 5, 2), {"shift": 0, "start": 2, "count": 2}),
    ),
)
"""Elements ``(i + shift) mod period, start + i`` for ``i < count``; other axes are kept."""
