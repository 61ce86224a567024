"""Set operations on vectors: intersection, union and differences.

The number of elements of a result depends on values. If these are not known, under `jit` and
`vmap`, ``size=`` gives the number: the first elements in ascending order, followed by
``fill_value`` if there are fewer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.numpy.arrays import array, astype, common_dtype, filled, flat
from functrans.numpy.counting import isin
from functrans.numpy.define import answers, sizing
from functrans.numpy.joining import concatenate, take_along_one
from functrans.numpy.sized import begins, places_of
from functrans.ops.indexing.gather import gather
from functrans.ops.reductions.sorting import argsort, sort

__all__ = ["intersect1d", "setdiff1d", "setxor1d", "union1d"]

_SIZE = ("size", "fill_value")


def _chosen(name: str, x: Any, wanted: Any, size: Any, fill: Any) -> Any:
    if size is not None:
        places = places_of(wanted, size)
        if x.shape[0] == 0:
            return filled(places.positions.shape, 0 if fill is None else fill, x.dtype)
        values = gather(x, places.positions, axes=(0,))
        return places.or_else(values, values[:1] if fill is None else fill)
    truths = sizing(
        wanted,
        f"how many different elements there are is not known, so np.{name} has no shape",
        f"Say how many there may be: functrans.numpy.{name}(x, y, size=n).",
    )
    return take_along_one(x, np.flatnonzero(truths), 0)


def _vectors(x: Any, y: Any) -> tuple[Any, Any]:
    """Two arrays as sorted vectors of one dtype."""
    dtype = common_dtype(array(x), array(y))
    first, second = (sort(astype(flat(array(of)), dtype), axis=0) for of in (x, y))
    return first, second


@answers(np.union1d, beyond=_SIZE)
def union1d(ar1: Any, ar2: Any, *, size: Any = None, fill_value: Any = None) -> Any:
    """The sorted union of two arrays."""
    both = sort(concatenate((ar1, ar2), axis=None), axis=0)
    return _chosen("union1d", both, begins(both), size, fill_value)


@answers(np.intersect1d, beyond=_SIZE)
def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: Any = None, fill_value: Any = None
) -> Any:
    """The sorted intersection of two arrays."""
    first, second = _vectors(ar1, ar2)
    wanted = begins(first) & isin(first, second)
    return _chosen("intersect1d", first, wanted, size, fill_value)


@answers(np.setxor1d, beyond=_SIZE)
def setxor1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: Any = None, fill_value: Any = None
) -> Any:
    """The sorted symmetric difference of two arrays."""
    first, second = _vectors(ar1, ar2)
    wanted = [begins(x) & ~isin(x, y) for x, y in ((first, second), (second, first))]
    both = concatenate([first, second], axis=0)
    order = argsort(both, axis=0)
    ordered = gather(both, order, axes=(0,))
    there = gather(concatenate(wanted, axis=0), order, axes=(0,))
    return _chosen("setxor1d", ordered, there, size, fill_value)


@answers(np.setdiff1d, beyond=_SIZE)
def setdiff1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: Any = None, fill_value: Any = None
) -> Any:
    """The sorted set difference of two arrays.

    With ``assume_unique``, the elements keep their order.
    """
    x = flat(array(ar1))
    if not assume_unique:
        x = sort(x, axis=0)
    wanted = ~isin(x, ar2)
    wanted = wanted if assume_unique else wanted & begins(x)
    return _chosen("setdiff1d", x, wanted, size, fill_value)
