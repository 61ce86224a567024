"""Histograms over a known number of bins.

Counts are piecewise constant; derivatives are with respect to the weights and the edges.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.numpy.arrays import (
    INDEX,
    array,
    astype,
    common_dtype,
    filled,
    flat,
    inexact,
    known,
    operand,
)
from functrans.numpy.creation import linspace
from functrans.numpy.define import answers, refuse
from functrans.numpy.indexing import searchsorted
from functrans.numpy.joining import concatenate
from functrans.numpy.reductions import max, min, sum
from functrans.ops.arrays.structural import full_p, reshape
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal
from functrans.ops.indexing.gather import scatter_add
from functrans.trace.tracer import Tracer

__all__ = ["histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def _outer_edges(x: Any, bounds: Any) -> tuple[Any, Any]:
    if bounds is not None:
        first, last = (operand(bound) for bound in bounds)
        if known(first) is not None and known(last) is not None and known(first) > known(last):
            raise ValueError("max must be larger than min in range parameter.")
    elif x.size == 0:
        first, last = 0, 1
    else:
        first, last = min(x), max(x)
    if not isinstance(first, Tracer) and not isinstance(last, Tracer):
        # Python numbers stay weak, and adopt the dtype of the data
        return (first - 0.5, last + 0.5) if first == last else (first, last)
    alike = equal(first, last)
    return select(alike, first - 0.5, first), select(alike, last + 0.5, last)


def _count(bins: Any, name: str) -> int:
    if isinstance(bins, str):
        refuse(f"np.{name} with bins={bins!r}", "say how many bins there are")
    count = operator.index(bins)
    if count < 1:
        raise ValueError("`bins` must be positive, when an integer")
    return count


def _check_ascending(edges: Any, message: str) -> None:
    value = known(edges)
    if value is not None and np.any(value[:-1] > value[1:]):
        raise ValueError(message)


def _edges(x: Any, bins: Any, bounds: Any, name: str) -> Any:
    if np.ndim(bins) == 1:
        edges = array(bins)
        _check_ascending(edges, "`bins` must increase monotonically, when an array")
        return edges
    count = _count(bins, name)
    first, last = _outer_edges(x, bounds)
    dtype = inexact(full_p(shape=(), value=0, dtype=common_dtype(first, last, x))).dtype
    return linspace(first, last, count + 1, dtype=dtype)


@answers(np.histogram_bin_edges)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges of the bins of a histogram: a number of bins, or the edges themselves."""
    return _edges(flat(array(a)), bins, range, "histogram_bin_edges")


@answers(np.histogram)
def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any]:
    """The count of values, or the sum of their weights, in each bin; and the edges of the bins.

    Examples
    --------
    >>> from functrans import jit
    >>> from functrans import numpy as np
    >>> jit(lambda x: np.histogram(x, 2, (0.0, 4.0)))(np.array([1.0, 3.0, 3.5, 9.0]))
    (array([1, 2]), array([0., 2., 4.]))
    """
    x = flat(array(a))
    edges = _edges(x, bins, range, "histogram")
    count = edges.shape[0] - 1
    place = searchsorted(edges, x, "right") - astype(equal(x, edges[-1]), INDEX)
    # values outside the edges are counted in two extra bins, which are dropped
    counted = _added(place, count + 2, np.shape(a), weights)[1:-1]
    if not density:
        return counted, edges
    widths = astype(edges[1:] - edges[:-1], np.float64)
    return counted / widths / sum(counted), edges


def _added(place: Any, size: int, shape: tuple[int, ...], weights: Any) -> Any:
    """The sums of weights, or the counts, by bin index.

    A NaN belongs to the last bin, since it is sorted last.
    """
    if weights is None:
        ones = filled(place.shape, 1, INDEX)
        return scatter_add(filled((size,), 0, INDEX), ones, place, axes=(0,), unique=False)
    given = array(weights)
    if given.shape != shape:
        raise ValueError("weights should have the same shape as a.")
    exact = astype(flat(given), np.promote_types(given.dtype, np.float64))
    sums = scatter_add(filled((size,), 0, exact.dtype), exact, place, axes=(0,), unique=False)
    return astype(sums, given.dtype)


@answers(np.histogramdd)
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any]:
    """The count of points in each cell of a grid, and the edges along each axis.

    ``sample`` has a point in each row, or is a sequence of one vector for each axis.
    """
    columns = _columns(sample)
    dimensions = len(columns)
    each = list(bins) if isinstance(bins, Sequence) or np.ndim(bins) else [bins] * dimensions
    if len(each) != dimensions:
        raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    bounds = [None] * dimensions if range is None else list(range)
    if len(bounds) != dimensions:
        raise ValueError("range argument must have one entry per dimension")
    edges = [_axis_edges(*given) for given in zip(columns, each, bounds, strict=True)]
    cell: Any = 0
    for x, own in zip(columns, edges, strict=True):
        place = searchsorted(own, x, "right") - astype(equal(x, own[-1]), INDEX)
        cell = cell * (own.shape[0] + 1) + place
    padded = tuple(own.shape[0] + 1 for own in edges)
    counted = _added(cell, prod(padded), columns[0].shape, weights)
    inner = reshape(astype(counted, np.float64), shape=padded)[(slice(1, -1),) * dimensions]
    if density:
        total = sum(inner)
        for axis, own in enumerate(edges):
            widths = own[1:] - own[:-1]
            along = tuple(-1 if i == axis else 1 for i in builtins.range(dimensions))
            inner = inner / widths.reshape(along)
        inner = inner / total
    return inner, edges


def _columns(sample: Any) -> list[Any]:
    if isinstance(sample, (list, tuple)):
        dtype = common_dtype(*sample)
        vectors = [astype(flat(array(x)), dtype) for x in sample]
        return vectors if np.ndim(sample[0]) else [concatenate([flat(array(sample))])]
    points = array(sample)
    if points.ndim == 1:
        return [points]
    return [points[:, i] for i in builtins.range(points.shape[1])]


def _axis_edges(x: Any, bins: Any, bounds: Any) -> Any:
    if np.ndim(bins) == 0:
        return linspace(*_outer_edges(x, bounds), _count(bins, "histogramdd") + 1)
    edges = array(bins)
    _check_ascending(edges, "`bins` must be monotonically increasing, when an array")
    return edges


@answers(np.histogram2d)
def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Any, Any, Any]:
    """The count of points of a plane in each cell of a grid, and the edges along both axes."""
    first, second = array(x), array(y)
    if len(first) != len(second):
        raise ValueError("x and y must have the same length.")
    try:
        alike = len(bins) not in (1, 2)
    except TypeError:  # a number
        alike = False
    counted, edges = histogramdd(
        [first, second], [bins, bins] if alike else bins, range, density, weights
    )
    return counted, edges[0], edges[1]
