"""Positions in integer index arrays: bounds, batching and code shared by `gather` and scatters.

The integer arrays broadcast to the index shape, and index the given axes of the array; in the
result, the index shape comes first and the other axes follow in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.errors import DtypeError
from functrans.ir.types import Aval, Shape, broadcast_shape
from functrans.loop import scalar
from functrans.loop.nodes import bounded
from functrans.ops.arrays.structural import align_batched, drop_axes, iota, reshape

INDEX = np.dtype(np.int64)


def index_shape(indices: Sequence[Any]) -> Shape:
    """The shape that index arrays broadcast to."""
    if len(indices) == 1:
        return indices[0].shape
    try:
        return broadcast_shape(*(i.shape for i in indices))
    except ValueError:
        shapes = " ".join(str(i.shape) for i in indices)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}"
        ) from None


@cached(1024)
def indexed_first(ndim: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    return (*axes, *(i for i in range(ndim) if i not in axes))


def check_bounds(shape: Shape, axes: tuple[int, ...], indices: Sequence[Any]) -> None:
    """Raise NumPy's IndexError for an index out of bounds, with the axis of the user's array."""
    for axis, index in zip(axes, indices, strict=True):
        wrong = (index < -shape[axis]) | (index >= shape[axis])
        if np.any(wrong):
            first = np.asarray(index)[wrong].ravel()[0]
            raise IndexError(
                f"index {first} is out of bounds for axis {axis} with size {shape[axis]}"
            )


def infer_indexed(x: Aval, indices: Sequence[Aval], axes: tuple[int, ...]) -> Shape:
    for index in indices:
        if index.dtype.kind not in "iu":
            raise DtypeError(f"an index array has an integer dtype, not {index.dtype}")
    return (*index_shape(indices), *drop_axes(x.shape, axes))


def behind(ndim: int, axes: tuple[int, ...], axis: int) -> int:
    """The position in the result of an axis that is not indexed; ``ndim`` index axes come first."""
    return ndim + sum(a not in axes for a in range(axis))


def batch_indices(indices: Sequence[Any], mapped: Sequence[int | None], size: int) -> list[Any]:
    """The index arrays with the mapped axis first, preceded by an iota along that axis."""
    ranks = [i.ndim - (axis is not None) for i, axis in zip(indices, mapped, strict=True)]
    counter = reshape(iota(size=size, dtype=INDEX), shape=(size, *(1,) * max(ranks)))
    return [
        counter,
        *(align_batched(i, axis, max(ranks)) for i, axis in zip(indices, mapped, strict=True)),
    ]


def pull_indices(
    read: Any, first: int, element: Any, x: Aval, indices: Sequence[Aval], axes: tuple[int, ...]
) -> list[Any]:
    """The position along each indexed axis, read from index arrays that broadcast."""
    zero = scalar.const(0, np.int64)
    positions = []
    for number, (index, axis) in enumerate(zip(indices, axes, strict=True), first):
        own = element[len(element) - index.ndim :]
        where = tuple(zero if n == 1 else i for i, n in zip(own, index.shape, strict=True))
        position = scalar.convert(read(number, where), np.int64)
        # the largest unsigned integers become negative ones, which are not counted from the end
        mode = "raise below 0" if index.dtype.kind == "u" else "raise"
        positions.append(bounded(position, x.shape[axis], mode))
    return positions


def flat_positions(shape: Shape, indices: Sequence[Any]) -> Any:
    """The positions in the flattened array of the elements whose first axes are indexed."""
    position: Any = np.int64(0)
    for index, extent in zip(indices, shape, strict=False):
        index = np.asarray(index).astype(np.int64, copy=False)
        position = position * extent + np.where(index < 0, index + extent, index)
    rest = prod(shape[len(indices) :])
    if rest != 1:
        position = np.asarray(position)[..., None] * rest + np.arange(rest)
    return np.reshape(position, -1)


def open_mesh(shape: Shape, axis: int, along: Any) -> list[Any]:
    """Index arrays for every axis of an array: ``along`` for one axis, an iota for the others."""
    ndim = len(shape)
    counters = [
        reshape(iota(size=n, dtype=INDEX), shape=(*(1,) * i, n, *(1,) * (ndim - i - 1)))
        for i, n in enumerate(shape)
        if i != axis
    ]
    return [*counters[:axis], along, *counters[axis:]]
