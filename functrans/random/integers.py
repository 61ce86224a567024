"""Random integers, signs and truth values."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import DtypeError
from functrans.ir.types import Shape
from functrans.ops.arrays.structural import astype
from functrans.ops.elementwise.choice import maximum, minimum, select
from functrans.random import checks
from functrans.random.keys import new_keys
from functrans.random.raw_bits import drawn_bits
from functrans.random.reals import unit
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

__all__ = ["bernoulli", "rademacher", "randint"]


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = np.int64) -> Any:
    """Integers from ``minval`` to below ``maxval``.

    Parameters
    ----------
    key : array of shape (2,), uint32
    shape : tuple of int
    minval, maxval : int array
        They broadcast to ``shape``. Bounds outside of the dtype's range are clipped to it; where
        there is no integer between the bounds, the result is ``minval``.
    dtype : dtype
        An integer.

    Returns
    -------
    array of ``shape`` and ``dtype``
        A remainder of random bits, of at least 32. In 32 bits, the probabilities of ``n`` numbers
        are equal up to ``n / 2**64`` if ``n <= 2**16``, and otherwise, as in JAX, up to
        ``n / 2**32``: of ``3 * 2**29`` numbers, some come three times where others come twice.
        In 64 bits that is ``n / 2**128`` if ``n <= 2**32``, and otherwise ``n / 2**64``.

    Examples
    --------
    >>> from functrans import random
    >>> random.randint(random.key(0), (6,), 1, 7)
    array([4, 6, 6, 6, 4, 2])
    """
    key = checks.checked_key(key, "random.randint")
    dtype = checks.checked_dtype(dtype, "random.randint", checks.INTEGER)
    minval, maxval = (_integer(x, name) for x, name in ((minval, "minval"), (maxval, "maxval")))
    shape = checks.joint_shape(shape, "random.randint", minval, maxval)
    return _randint(key, minval, maxval, shape=shape, dtype=dtype)


def _integer(x: Any, name: str) -> Any:
    x = x if isinstance(x, Tracer) else np.asarray(x)
    if x.dtype.kind not in "iu":
        raise DtypeError(
            f"random.randint takes integers as bounds{here()}, and {name} has "
            f"dtype {x.dtype}: round it, and convert it by astype(int)"
        )
    return x


@checks.sampler
def _randint(key: Any, minval: Any, maxval: Any, *, shape: Shape, dtype: np.dtype[Any]) -> Any:
    info = np.iinfo(dtype)
    sampled = np.dtype(np.int32) if info.bits < 32 else dtype
    if sampled != dtype:
        minval = _clipped(minval, info.min, info.max, sampled)
        maxval = _clipped(maxval, info.min, info.max + 1, sampled)
    return astype(_integers(key, minval, maxval, shape, sampled), dtype)


def _clipped(x: Any, least: int, most: int, dtype: np.dtype[Any]) -> Any:
    """An integer clipped to a range, in a dtype that holds the range."""
    own = np.iinfo(x.dtype)
    x = maximum(minimum(x, x.dtype.type(min(most, own.max))), x.dtype.type(max(least, own.min)))
    return astype(x, dtype)


def _integers(key: Any, minval: Any, maxval: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
    info, word = np.iinfo(dtype), np.dtype(f"u{dtype.itemsize}")
    # the end of the range may be one more than the dtype holds
    beyond = maxval > min(info.max, np.iinfo(maxval.dtype).max)
    low, high = (_clipped(x, info.min, info.max, dtype) for x in (minval, maxval))
    there_are = high > low
    span = select(there_are, astype(high, word) - astype(low, word), word.type(1))
    span = select(beyond & there_are, span + word.type(1), span)
    first, second = new_keys(key, 2)
    upper, lower = drawn_bits(first, shape, word), drawn_bits(second, shape, word)
    # a span of 0 stands for all of the dtype's numbers, and XLA's remainder by 0 is the number
    all_of_them = span == 0
    divisor = select(all_of_them, word.type(1), span)
    shift = word.type(2 ** (info.bits // 2)) % divisor
    shift = (shift * shift) % divisor
    offset = ((upper % divisor) * shift + lower % divisor) % divisor
    offset = select(all_of_them, lower, offset)
    return low + astype(offset, dtype)


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Any:
    """Truth values that are True with probability ``p``.

    Parameters
    ----------
    key : array of shape (2,), uint32
    p : float array
    shape : tuple of int, optional
        That of ``p`` if it is not given; ``p`` broadcasts to it.

    Returns
    -------
    array of ``shape``, bool
        They have no derivative with respect to ``p``.

    Examples
    --------
    >>> from functrans import random
    >>> random.bernoulli(random.key(0), 0.3, (4,))
    array([False,  True, False, False])
    """
    key = checks.checked_key(key, "random.bernoulli")
    shape = checks.joint_shape(shape, "random.bernoulli", p)
    return _bernoulli(key, p, shape=shape, dtype=checks.float_dtype_of(p))


@checks.sampler
def _bernoulli(key: Any, p: Any, *, shape: Shape, dtype: np.dtype[Any]) -> Any:
    return unit(key, shape, dtype) < checks.parameter(p, dtype)


@checks.distribution(checks.SIGNED)
def rademacher(key: Any, shape: Any = (), dtype: Any = np.int64) -> Any:
    """Signs: 1 or -1, with the same probability.

    Parameters
    ----------
    dtype : dtype
        A signed integer or a float.

    Returns
    -------
    array of ``shape`` and ``dtype``

    Examples
    --------
    >>> from functrans import random
    >>> random.rademacher(random.key(0), (4,))
    array([ 1,  1, -1, -1])
    """
    return signs(key, shape, dtype)


def signs(key: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
    """1 or -1."""
    low = unit(key, shape, np.dtype(np.float64)) < 0.5
    return select(low, dtype.type(1), dtype.type(-1))
