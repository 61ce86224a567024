"""Indices and distinct elements in arrays of a given size, if the elements are not known.

Their number depends on the data, on which a shape must not depend. With ``size=n``, there are n
entries: excess elements are dropped, and missing ones filled.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from functrans.ir.types import is_inexact
from functrans.numpy.arrays import INDEX, array, astype, counting, filled, flat
from functrans.numpy.define import refuse
from functrans.ops.arrays import structural
from functrans.ops.arrays.shape import concatenate, read_along
from functrans.ops.elementwise.arithmetic import floor_divide, remainder
from functrans.ops.elementwise.choice import minimum, select
from functrans.ops.elementwise.compare import equal, less, not_equal
from functrans.ops.indexing.gather import gather, scatter_add, scatter_set
from functrans.ops.reductions.cumulative import cumsum
from functrans.ops.reductions.sorting import argsort
from functrans.records import NamedTuple

# -- positions -------------------------------------------------------------------------------------


class Places(NamedTuple):
    """Flat indices of elements (0 for unused entries), and the mask of used entries."""

    positions: Any
    taken: Any

    def or_else(self, values: Any, fill: Any) -> Any:
        """Values of the used entries, and a fill value for the others."""
        mask = structural.expand_axes(self.taken, tuple(range(1, values.ndim)))
        return select(mask, values, astype(array(fill), values.dtype))


def places_of(truths: Any, size: Any) -> Places:
    """The positions of the first ``size`` true elements of a vector."""
    size = operator.index(size)
    if size < 0:
        raise ValueError(f"size must not be negative, found {size}")
    chosen = astype(truths, INDEX)
    # all others are written to an extra entry, which is dropped
    place = select(truths, minimum(cumsum(chosen, axis=0, reverse=False) - 1, size), size)
    each = counting(truths.shape[0])
    written = scatter_set(filled((size + 1,), 0, INDEX), each, place, axes=(0,), unique=False)
    taken = less(counting(size), structural.reduce_sum(chosen, axes=(0,)))
    return Places(read_along(written, 0, 0, size), taken)


def nonzero_places(x: Any, size: Any, fill_value: Any) -> tuple[Any, ...]:
    """For each axis, the indices of the first ``size`` nonzero elements."""
    if x.ndim == 0:
        raise ValueError("nonzero of an array without axes: use np.atleast_1d(x).nonzero()")
    places = places_of(not_equal(flat(x), 0), size)
    fills = fill_value if isinstance(fill_value, Sequence) else [fill_value] * x.ndim
    if len(fills) != x.ndim:
        raise ValueError(f"fill_value must be one number, or {x.ndim}: one for each axis")
    indices = []
    rest = places.positions
    for extent, fill in zip(reversed(x.shape), reversed(fills), strict=True):
        index = remainder(rest, extent)
        rest = floor_divide(rest, extent)
        indices.append(places.or_else(index, 0 if fill is None else fill))
    return tuple(reversed(indices))


# -- different elements ----------------------------------------------------------------------------


def begins(ordered: Any, equal_nan: bool = True) -> Any:
    """Whether each element of a sorted vector differs from the previous one."""
    if ordered.shape[0] == 0:
        return filled((0,), 0, bool)
    before, after = (read_along(ordered, 0, first, ordered.shape[0] - 1) for first in (0, 1))
    differ = not_equal(before, after)
    if equal_nan and is_inexact(ordered.dtype):
        differ = differ & (equal(before, before) | equal(after, after))
    return concatenate([filled((1,), 1, bool), differ], axis=0)


class Different(NamedTuple):
    """The distinct elements of an array, with the results of `numpy.unique`."""

    values: Any
    first: Any
    inverse: Any
    counts: Any


def different(x: Any, size: Any, fill_value: Any, equal_nan: bool) -> Different:
    """The first ``size`` distinct elements in ascending order.

    Without a ``fill_value``, unused entries have the least element.
    """
    row = flat(x)
    if row.shape[0] == 0:
        empty = structural.zeros((operator.index(size),), INDEX)
        values = structural.full_p(shape=empty.shape, value=0, dtype=x.dtype)
        if fill_value is not None:
            values = structural.broadcast_to(astype(array(fill_value), x.dtype), shape=empty.shape)
        return Different(values, empty, structural.zeros(x.shape, INDEX), empty)
    order = argsort(row, axis=0)
    ascending = gather(row, order, axes=(0,))
    starts = begins(ascending, equal_nan)
    places = places_of(starts, size)
    values = gather(ascending, places.positions, axes=(0,))
    if fill_value is not None:
        values = places.or_else(values, fill_value)
    group = cumsum(astype(starts, INDEX), axis=0, reverse=False) - 1
    spare = filled((operator.index(size) + 1,), 0, INDEX)
    ones = filled(group.shape, 1, INDEX)
    counts = scatter_add(spare, ones, minimum(group, operator.index(size)), axes=(0,), unique=False)
    inverse = scatter_set(filled(row.shape, 0, INDEX), group, order, axes=(0,), unique=True)
    return Different(
        values,
        gather(order, places.positions, axes=(0,)),
        structural.reshape(inverse, shape=x.shape),
        read_along(counts, 0, 0, operator.index(size)),
    )


def refuse_axis(axis: Any) -> None:
    """Raise for ``axis``, by which rows instead of elements would be compared."""
    if axis is not None:
        refuse("unique(..., axis=..., size=...)", "leave the axis out, or the size")
