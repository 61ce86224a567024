"""Random permutations, and choices among elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.errors import DtypeError, ShapeError
from functrans.ir.types import Shape
from functrans.numpy.arrays import array, axis_of
from functrans.numpy.indexing import argsort, searchsorted, take, take_along_axis
from functrans.numpy.reductions import cumsum
from functrans.ops.arrays.structural import astype, iota, made
from functrans.ops.elementwise.exponential import log
from functrans.random import checks
from functrans.random.continuous import gumbels
from functrans.random.integers import randint
from functrans.random.keys import new_keys
from functrans.random.raw_bits import drawn_bits
from functrans.random.reals import unit
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

__all__ = ["choice", "permutation", "shuffle"]

INDEX = np.dtype(np.int64)


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """The slices of an array along an axis, in a random order.

    Parameters
    ----------
    key : array of shape (2,), uint32
    x : array or int
        An integer stands for ``np.arange(x)``.
    axis : int
    independent : bool
        Whether each line along the axis has an order of its own.

    Returns
    -------
    array like ``x``

    Examples
    --------
    >>> from functrans import random
    >>> random.permutation(random.key(0), 5)
    array([0, 1, 4, 3, 2])
    """
    key = checks.checked_key(key, "random.permutation")
    size = _size(x, "random.permutation")
    if size is not None:
        return _permutation(key, size=size)
    x = array(x)
    return _permuted(key, x, axis=axis_of(axis, x.ndim), independent=bool(independent))


def shuffle(key: Any, x: Any, axis: int = 0) -> Any:
    """As `permutation`: the result is a new array, and ``x`` is unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import random
    >>> random.shuffle(random.key(0), np.array([1.0, 2.0, 3.0]))
    array([1., 2., 3.])
    """
    return permutation(key, x, axis)


def _size(x: Any, what: str) -> int | None:
    """The number of elements to choose from, if it is given instead of the elements."""
    if np.ndim(x) != 0:
        return None
    kind = np.asarray(x).dtype.kind if not isinstance(x, Tracer) else "traced"
    if kind not in "iu" or int(x) < 0:
        found = x._aval if isinstance(x, Tracer) else x
        raise DtypeError(
            f"{what} takes an array or the number of elements{here()}, found "
            f"{found}: write an integer that is not negative, and not traced"
        )
    return int(x)


@checks.sampler
def _permutation(key: Any, *, size: int) -> Any:
    return _shuffled(key, made(iota, size=size, dtype=INDEX), 0)


@checks.sampler
def _permuted(key: Any, x: Any, *, axis: int, independent: bool) -> Any:
    if independent or x.ndim == 1:
        return _shuffled(key, x, axis)
    order = _shuffled(key, made(iota, size=x.shape[axis], dtype=INDEX), 0)
    return take(x, order, axis)


def _shuffled(key: Any, x: Any, axis: int) -> Any:
    """Shuffled by repeated sorting with random keys, so that equal keys have no effect."""
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, now = new_keys(key, 2)
        x = take_along_axis(x, argsort(drawn_bits(now, x.shape, checks.KEY), axis), axis)
    return x


def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0
) -> Any:
    """Elements of an array, or slices along an axis, chosen at random.

    Parameters
    ----------
    key : array of shape (2,), uint32
    a : array or int
        An integer stands for ``np.arange(a)``.
    shape : tuple of int
        How many to choose.
    replace : bool
        Whether an element may be chosen more than once.
    p : float array, optional
        The probability of each element; all are equal if it is not given.
    axis : int

    Returns
    -------
    array
        In the shape of ``a``, with ``shape`` in place of the axis.

    Raises
    ------
    AxisSizeError
        If there is no element to choose from; or, without replacement, if there are fewer elements
        than requested.
    ShapeError
        If ``p`` is not one probability for each element.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import random
    >>> p = np.array([0.0, 0.5, 0.5])
    >>> random.choice(random.key(0), np.array(["a", "b", "c"]), (4,), p=p)
    array(['c', 'c', 'b', 'b'], dtype='<U1')
    """
    key = checks.checked_key(key, "random.choice")
    shape = checks.checked_shape(shape, "random.choice")
    size = _size(a, "random.choice")
    if size is None:
        a = array(a)
        axis = axis_of(axis, a.ndim)
        size = a.shape[axis]
    else:
        a, axis = np.arange(size), 0
    checks.check_enough(math.prod(shape), size, replace, "random.choice", "elements")
    if p is None:
        positions = _positions(key, shape=shape, size=size, replace=bool(replace))
    else:
        if np.shape(p) != (size,):
            raise ShapeError(
                f"random.choice takes one probability for each of {size} elements"
                f"{here()}, found p of shape {np.shape(p)}"
            )
        positions = _weighted(
            key, p, shape=shape, replace=bool(replace), dtype=checks.float_dtype_of(p)
        )
    return take(a, positions, axis)


@checks.sampler
def _positions(key: Any, *, shape: Shape, size: int, replace: bool) -> Any:
    if replace:
        return randint(key, shape, 0, size)
    order = _shuffled(key, made(iota, size=size, dtype=INDEX), 0)
    return order[: math.prod(shape)].reshape(shape)


@checks.sampler
def _weighted(key: Any, p: Any, *, shape: Shape, replace: bool, dtype: np.dtype[Any]) -> Any:
    p = checks.parameter(p, dtype)
    if replace:
        sums = cumsum(p)
        up_to = sums[-1] * (1 - unit(key, shape, dtype))
        return astype(searchsorted(sums, up_to), INDEX)
    # the largest perturbed logarithms are a sample without replacement (Gumbel's trick)
    scores = gumbels(key, p.shape, dtype) + log(p)
    return argsort(-scores, 0)[: math.prod(shape)].reshape(shape)
