"""Sums, means and deviations of labelled regions of images, with constant labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import UnsupportedNumPyError
from functrans.numpy.arrays import array
from functrans.numpy.counting import bincount
from functrans.numpy.reductions import root, sum
from functrans.numpy.shapes import broadcast_to
from functrans.ops.arrays.shape import holds_tracer
from functrans.ops.elementwise.choice import select
from functrans.scipy.define import answers
from functrans.scipy.entries import of_scipys
from functrans.trace.source import located, user_source

__all__ = ["mean", "standard_deviation", "sum_labels"]


def _counts_and_sums(input: Any, labels: Any, index: Any) -> tuple[Any, Any]:
    """The number of elements with each label, and their sum."""
    if holds_tracer((labels, index)):
        raise UnsupportedNumPyError(
            f"traced labels of an image are not supported{located(user_source())}: label it "
            "outside of the traced function"
        )
    x = array(input)
    if labels is None:
        return x.size, sum(x)
    labels = np.asarray(labels)
    shape = np.broadcast_shapes(x.shape, labels.shape)
    elements, labels = broadcast_to(x, shape).reshape(-1), np.broadcast_to(labels, shape).ravel()
    if index is None or np.isscalar(index):
        chosen = np.flatnonzero(labels > 0 if index is None else labels == index)
        return chosen.size, sum(elements[chosen])
    index = np.asarray(index)
    found, places = np.unique(labels, return_inverse=True)
    at = np.minimum(np.searchsorted(found, index), found.size - 1)
    known = found[at] == index
    sums = bincount(places, weights=elements)
    return np.where(known, np.bincount(places)[at], 0), select(known, sums[at], 0.0)


@answers("scipy.ndimage:sum_labels")
def sum_labels(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The sums of the elements that have each label.

    Parameters
    ----------
    input : array
    labels : array of int, optional
    index : int or array of int, optional
        The labels to use; by default, all elements with labels above 0 form one region.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import jit
    >>> from functrans.scipy import ndimage
    >>> labels = np.array([1, 2, 2])
    >>> jit(lambda x: ndimage.sum_labels(x, labels, [1, 2]))(np.array([1.0, 2.0, 3.0]))
    array([1., 5.])
    """
    return _counts_and_sums(input, labels, index)[1]


@answers("scipy.ndimage:mean")
def mean(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The means of the elements that have each label; as `sum_labels`."""
    counts, sums = _counts_and_sums(input, labels, index)
    return sums / np.asarray(counts).astype(np.float64)


@answers("scipy.ndimage:standard_deviation")
def standard_deviation(input: Any, labels: Any = None, index: Any = None) -> Any:
    """The standard deviations of labelled elements; where one is 0, so is its derivative."""
    return root(array(of_scipys("ndimage", "variance")(input, labels, index)))
