"""Different elements, membership, counts: mostly of elements that are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import TracerIndexError
from functrans.numpy.arrays import INDEX, array, astype, flat, known
from functrans.numpy.define import answers, refuse
from functrans.numpy.joining import take_along_one
from functrans.numpy.reductions import any
from functrans.ops.arrays.structural import expand_axes, full_p, zeros
from functrans.ops.elementwise.compare import equal
from functrans.ops.indexing.gather import scatter_add
from functrans.trace.source import located, user_source

__all__ = [
    "bincount", "isin", "trim_zeros", "unique", "unique_all", "unique_counts", "unique_inverse",
    "unique_values",
]  # fmt: skip


@answers(np.unique)
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
) -> Any:
    """The different elements in ascending order, where the elements are known."""
    x = array(ar)
    value = known(x)
    if value is None:
        raise TracerIndexError(
            f"how many different elements there are is not known, so np.unique has no shape"
            f"{located(user_source())}."
        )
    _, first, inverse, counts = np.unique(value, True, True, True, axis, equal_nan=equal_nan)
    found = take_along_one(flat(x) if axis is None else x, first, 0 if axis is None else axis)
    extra = [(return_index, first), (return_inverse, inverse), (return_counts, counts)]
    results = [found, *(result for wanted, result in extra if wanted)]
    return results[0] if len(results) == 1 else tuple(results)


def _parts(x: Any, **wanted: bool) -> Any:
    return unique(x, **wanted, equal_nan=False)


@answers(np.unique_values)
def unique_values(x: Any) -> Any:
    """The different elements in ascending order, where the elements are known."""
    return _parts(x)


@answers(np.unique_counts)
def unique_counts(x: Any) -> Any:
    """The different elements, and how often each is there."""
    return _named("unique_counts", _parts(x, return_counts=True))


@answers(np.unique_inverse)
def unique_inverse(x: Any) -> Any:
    """The different elements, and which of them each element is."""
    return _named("unique_inverse", _parts(x, return_inverse=True))


@answers(np.unique_all)
def unique_all(x: Any) -> Any:
    """The different elements, where each is first, which each element is, and how often."""
    parts = _parts(x, return_index=True, return_inverse=True, return_counts=True)
    return _named("unique_all", parts)


def _named(name: str, parts: Any) -> Any:
    """As the named tuple that NumPy gives."""
    return type(getattr(np, name)(np.zeros(1)))(*parts)


@answers(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
    kind: Any = None,
) -> Any:  # fmt: skip
    """Whether each element is among others."""
    x = array(element)
    found = any(equal(expand_axes(x, (x.ndim,)), flat(array(test_elements))), -1)
    return ~found if invert else found


@answers(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Any:
    """How often each number is there, or the sum of its weights.

    Where the numbers are not known, ``minlength`` must be given, and be more than the largest.
    """
    positions = array(x)
    value = known(positions)
    if value is None and not minlength:
        refuse("np.bincount of numbers that are not known", "give minlength=")
    if value is not None and value.size and value.min() < 0:
        raise ValueError("'list' argument must have no negative elements")
    size = max(minlength, 0 if value is None or value.size == 0 else int(value.max()) + 1)
    if weights is None:
        added = full_p(shape=positions.shape, value=1, dtype=INDEX)
    else:
        added = astype(array(weights), np.float64)
    return scatter_add(zeros((size,), added.dtype), added, positions, axes=(0,), unique=False)


@answers(np.trim_zeros)
def trim_zeros(filt: Any, trim: str = "fb") -> Any:
    """A vector without the zeros at its ends, where it is known which these are."""
    x = array(filt)
    value = known(x)
    if value is None or x.ndim != 1:
        refuse("np.trim_zeros of an array whose zeros are not known", "the shape depends on them")
    found = np.flatnonzero(value)
    start = found[0] if "f" in trim.lower() and found.size else 0
    stop = found[-1] + 1 if "b" in trim.lower() and found.size else x.size
    return x[start:stop] if found.size else x[:0]
