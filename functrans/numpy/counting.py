"""Set operations, membership and counts, mostly of known elements."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functrans.ir.types import is_complex
from functrans.numpy import arrays
from functrans.numpy.define import answers, needed, refuse, sizing
from functrans.numpy.indexing import searchsorted
from functrans.numpy.joining import take_along_one
from functrans.numpy.reductions import any
from functrans.numpy.sized import different, refuse_axis
from functrans.ops.arrays.structural import expand_axes
from functrans.ops.elementwise.choice import minimum
from functrans.ops.elementwise.compare import equal, not_equal
from functrans.ops.indexing.gather import gather, scatter_add
from functrans.ops.indexing.within import counted
from functrans.ops.reductions.sorting import sort

__all__ = [
    "bincount", "isin", "trim_zeros", "unique", "unique_all", "unique_counts", "unique_inverse",
    "unique_values",
]  # fmt: skip


_SIZE = ("size", "fill_value")


@answers(np.unique, beyond=_SIZE)
def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: Any = None, *, equal_nan: bool = True, size: Any = None, fill_value: Any = None,
) -> Any:  # fmt: skip
    """The sorted distinct elements, which must be known unless ``size`` is given.

    Parameters
    ----------
    ar : array
    return_index, return_inverse, return_counts : bool
        Whether to return the first index of each distinct element, the indices that reconstruct the
        array, and the counts.
    axis : int, optional
        The axis whose slices are compared as wholes; only for known elements.
    equal_nan : bool
        Whether NaNs count as equal.
    size : int, optional
        The number of elements to return: excess ones are dropped, and missing ones filled.
    fill_value : number, optional
        The value of missing elements, the smallest element by default. Their count is 0.

    Raises
    ------
    TracerIndexError
        If the elements are not known, and no ``size`` is given.

    Examples
    --------
    >>> import numpy as np
    >>> unique(np.array([3, 1, 3]), return_counts=True, size=3, fill_value=0)
    (array([1, 3, 0]), array([1, 2, 0]))
    """
    x = arrays.array(ar)
    if size is None:
        found, first, inverse, counts = _known_different(x, axis, equal_nan)
    else:
        refuse_axis(axis)
        found, first, inverse, counts = different(x, size, fill_value, equal_nan)
    extra = [(return_index, first), (return_inverse, inverse), (return_counts, counts)]
    results = [found, *(result for wanted, result in extra if wanted)]
    return results[0] if len(results) == 1 else tuple(results)


def _known_different(x: Any, axis: Any, equal_nan: bool) -> tuple[Any, Any, Any, Any]:
    value = sizing(
        x,
        "how many different elements there are is not known, so np.unique has no shape",
        "Say how many there may be: functrans.numpy.unique(x, size=n).",
    )
    _, first, inverse, counts = np.unique(value, True, True, True, axis, equal_nan=equal_nan)
    x, axis = arrays.along(x, axis)
    return take_along_one(x, first, axis), first, inverse, counts


@answers(np.unique_values, beyond=_SIZE)
def unique_values(x: Any, *, size: Any = None, fill_value: Any = None) -> Any:
    """The sorted distinct elements; see `unique`."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


@answers(np.unique_counts, beyond=_SIZE)
def unique_counts(x: Any, *, size: Any = None, fill_value: Any = None) -> Any:
    """The sorted distinct elements and their counts."""
    parts = unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    return _named("unique_counts", parts)


@answers(np.unique_inverse, beyond=_SIZE)
def unique_inverse(x: Any, *, size: Any = None, fill_value: Any = None) -> Any:
    """The sorted distinct elements, and the indices that reconstruct the array."""
    parts = unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    return _named("unique_inverse", parts)


@answers(np.unique_all, beyond=_SIZE)
def unique_all(x: Any, *, size: Any = None, fill_value: Any = None) -> Any:
    """The sorted distinct elements with first indices, inverse indices and counts."""
    parts = unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    return _named("unique_all", parts)


def _named(name: str, parts: Any) -> Any:
    """Convert a result to NumPy's named tuple."""
    return type(getattr(np, name)(np.zeros(1)))(*parts)


FEW_TO_COMPARE = 512
"""The most bytes of elements among which others are found by comparing each with all of them."""


@answers(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
    kind: Any = None,
) -> Any:  # fmt: skip
    """Whether each element is contained in another array."""
    x, tests = arrays.array(element), arrays.flat(arrays.array(test_elements))
    if kind is not None:  # raises for a wrong one
        np.isin(np.empty(0, x.dtype), np.empty(0, tests.dtype), kind=kind)
    nbytes = tests.size * tests.dtype.itemsize
    if nbytes > FEW_TO_COMPARE and x.dtype == tests.dtype and not is_complex(x.dtype):
        ordered = sort(tests, axis=0)
        nearest = minimum(searchsorted(ordered, x), tests.size - 1)
        found = equal(gather(ordered, nearest, axes=(0,)), x)
    else:
        found = any(equal(expand_axes(x, (x.ndim,)), tests), -1)
    return ~found if invert else found


@answers(np.bincount, beyond=("length",))
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0, *, length: Any = None) -> Any:
    """Count the occurrences of each number, or sum their weights.

    Parameters
    ----------
    x : vector of integers, none of them negative
    weights : vector, optional
    minlength : int, optional
        The minimum number of counts.
    length : int, optional
        The number of counts; larger numbers are not counted. If the numbers are not known, give
        this, or a ``minlength`` that exceeds the largest number.

    Raises
    ------
    ValueError
        If a number is negative, or if numbers are not known and one is not less than ``minlength``.

    Examples
    --------
    >>> from functrans import jit
    >>> from functrans import numpy as np
    >>> jit(lambda x: np.bincount(x, length=3))(np.array([0, 2, 2, 9]))
    array([1, 0, 2])
    """
    positions = arrays.vector(x, "x of np.bincount")
    minlength = operator.index(minlength)
    if minlength < 0:
        raise ValueError("'minlength' must not be negative")
    if positions.dtype.kind == "b":
        positions = arrays.astype(positions, np.uint8)
    if positions.dtype != np.uint64:
        arrays.check_castable(positions, arrays.INDEX, "safe")
    value = arrays.known(positions)
    if value is None and not minlength and length is None:
        refuse("np.bincount of numbers that are not known", "give minlength=, or length=")
    if value is not None and value.size and value.min() < 0:
        raise ValueError("'list' argument must have no negative elements")
    size = max(minlength, 0 if value is None or value.size == 0 else int(value.max()) + 1)
    if length is not None:  # larger numbers are counted in an extra bin, which is dropped
        size = operator.index(length)
        if positions.dtype.kind in "iu":  # a narrow dtype may not hold the size
            positions = arrays.astype(positions, arrays.INDEX)
        positions = minimum(positions, size)
    if weights is None or (length is None and not positions.size):  # no elements: integers
        added = arrays.filled(positions.shape, 1, arrays.INDEX)
    else:
        added = arrays.vector(weights, "weights of np.bincount")
        if added.dtype.kind == "c":
            raise TypeError(
                f"Cannot cast array data from {added.dtype!r} to dtype('float64') according to the "
                "rule 'safe': the weights of bincount are real"
            )
        added = arrays.astype(added, np.float64)
    if value is None and positions.dtype.kind in "iu":
        positions = counted(positions, extent=size + (length is not None))
    if value is None and positions.dtype.kind == "i":
        positions = arrays.astype(positions, np.uint64)  # not from the end
    counts = arrays.filled((size + (length is not None),), 0, added.dtype)
    return scatter_add(counts, added, positions, axes=(0,), unique=False)[:size]


@answers(np.trim_zeros, views=True)
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """Remove leading and trailing zeros, if the elements are known."""
    x = arrays.array(filt)
    if trim.lower() not in ("f", "b", "fb", "bf"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    what = "np.trim_zeros of an array whose zeros are not known"
    truths = needed(not_equal(x, 0), what, "the shape depends on them")
    index = [slice(None)] * x.ndim
    for i in arrays.axes_of(axis, x.ndim):
        found = np.flatnonzero(truths.any(tuple(j for j in range(x.ndim) if j != i)))
        start = found[0] if "f" in trim.lower() and found.size else 0
        stop = found[-1] + 1 if "b" in trim.lower() and found.size else x.shape[i]
        index[i] = slice(start, stop if found.size else 0)
    return x[tuple(index)]
