"""Uniform and normal numbers, from which the other distributions are computed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.ir.types import Shape, fraction_bits
from functrans.ops.arrays.structural import astype
from functrans.ops.elementwise.choice import maximum
from functrans.ops.elementwise.fused import fma
from functrans.ops.random.normal import normal_quantile
from functrans.random import checks
from functrans.random.raw_bits import drawn_bits

__all__ = ["normal", "uniform"]


def uniform(
    key: Any, shape: Any = (), dtype: Any = np.float64, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Floats between two bounds, the upper one excluded, each as likely as any other.

    Parameters
    ----------
    key : array of shape (2,), uint32
    shape : tuple of int
    dtype : dtype
        A float; float16 and `ml_dtypes.bfloat16` are rounded after each operation.
    minval, maxval : array
        They broadcast to ``shape``. Samples have derivatives with respect to them.

    Returns
    -------
    array of ``shape`` and ``dtype``
        The number of random bits is that of the dtype's fraction: 52 for float64, 23 for float32,
        10 for float16 and 7 for bfloat16.

    Examples
    --------
    >>> from functrans import random
    >>> random.uniform(random.key(0), (2,)).round(6)
    array([0.418457, 0.216295])
    """
    key = checks.checked_key(key, "random.uniform")
    dtype = checks.checked_dtype(dtype, "random.uniform", checks.ANY_FLOAT)
    if _is_number(minval, 0) and _is_number(maxval, 1):
        return _unit(key, shape=checks.checked_shape(shape, "random.uniform"), dtype=dtype)
    shape = checks.joint_shape(shape, "random.uniform", minval, maxval)
    return _uniform(key, minval, maxval, shape=shape, dtype=dtype)


def _is_number(x: Any, value: int) -> bool:
    return isinstance(x, (int, float)) and x == value


@checks.sampler
def _unit(key: Any, *, shape: Shape, dtype: np.dtype[Any]) -> Any:
    return unit(key, shape, dtype)


@checks.sampler
def _uniform(key: Any, minval: Any, maxval: Any, *, shape: Shape, dtype: np.dtype[Any]) -> Any:
    return between(
        key, checks.parameter(minval, dtype), checks.parameter(maxval, dtype), shape, dtype
    )


def unit(key: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
    """Uniform numbers from 0 to 1: multiples of the machine epsilon."""
    fraction = fraction_bits(dtype)
    # no more random bits than the fraction has: bfloat16 would lose the lower 8 of 16
    word = np.dtype(np.uint8 if fraction < 8 else f"u{dtype.itemsize}")
    numbers = drawn_bits(key, shape, word) >> (8 * word.itemsize - fraction)
    return astype(numbers, dtype) * dtype.type(2.0**-fraction)


def between(key: Any, low: Any, high: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
    """Uniform numbers between two bounds of the dtype."""
    numbers, width = unit(key, shape, dtype), high - low
    # JAX's compiler rounds numbers of 16 bits after each operation
    moved = numbers * width + low if dtype.itemsize == 2 else fma(numbers, width, low)
    return maximum(low, moved)


@checks.distribution(checks.ANY_FLOAT)
def normal(key: Any, shape: Any = (), dtype: Any = np.float64) -> Any:
    """Normally distributed floats with mean 0 and variance 1.

    Parameters
    ----------
    dtype : dtype
        A float.

    Returns
    -------
    array of ``shape`` and ``dtype``
        ``sqrt(2) erfinv(u)`` for uniform ``u``.

    Examples
    --------
    >>> from functrans import random
    >>> random.normal(random.key(0), (2,)).round(6)
    array([-0.205842, -0.784766])
    """
    return standard_normal(key, shape, dtype)


def standard_normal(key: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
    """Normal numbers, by the inverse error function of uniform ones between -1 and 1."""
    low = np.nextafter(dtype.type(-1), dtype.type(0))
    numbers = between(key, low, dtype.type(1), shape, dtype)
    if dtype.itemsize > 2:
        return normal_quantile(numbers)
    # as in JAX: the inverse of the error function is rounded before it is multiplied
    quantile = normal_quantile(astype(numbers, np.float32))
    return astype(quantile * np.float32(math.sqrt(0.5)), dtype) * dtype.type(math.sqrt(2))
