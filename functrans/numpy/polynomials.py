"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.numpy.arrays import array, astype, common_dtype, counting, inexact
from functrans.numpy.contraction import convolve
from functrans.numpy.define import answers
from functrans.ops.arrays.shape import concatenate, read_along
from functrans.ops.arrays.structural import expand_axes, full_p, zeros

__all__ = ["polyadd", "polyder", "polyint", "polymul", "polysub", "polyval"]


@answers(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    """The values of a polynomial, by Horner's rule."""
    coefficients, at = array(p), array(x)
    result = full_p(shape=at.shape, value=0, dtype=common_dtype(coefficients, at))
    for i in range(coefficients.shape[0]):
        result = result * at + coefficients[i]
    return result


def _vector(p: Any) -> Any:
    x = array(p)
    return x if x.ndim else expand_axes(x, (0,))


def _longer(x: Any, size: int) -> Any:
    return concatenate([zeros((size - x.size,), x.dtype), x], axis=0) if x.size < size else x


@answers(np.polyadd)
def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials."""
    x, y = _vector(a1), _vector(a2)
    return _longer(x, y.size) + _longer(y, x.size)


@answers(np.polysub)
def polysub(a1: Any, a2: Any) -> Any:
    """The difference of two polynomials."""
    x, y = _vector(a1), _vector(a2)
    return _longer(x, y.size) - _longer(y, x.size)


@answers(np.polymul)
def polymul(a1: Any, a2: Any) -> Any:
    """The product of two polynomials."""
    return convolve(*(x if x.size else zeros((1,), x.dtype) for x in map(_vector, (a1, a2))))


@answers(np.polyder)
def polyder(p: Any, m: int = 1) -> Any:
    """The derivative of a polynomial, ``m`` times."""
    x = _vector(p)
    for _ in range(m):
        size = max(x.size - 1, 0)
        x = read_along(x, 0, 0, size) * (size - counting(size))
    return x


@answers(np.polyint)
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The integral of a polynomial, ``m`` times, with constants ``k``."""
    x = _vector(p)
    if m == 0:
        return x
    x = inexact(x)
    constants = zeros((m,), x.dtype) if k is None else astype(_vector(k), x.dtype)
    for i in range(m):
        constant = read_along(constants, 0, i if constants.size > 1 else 0, 1)
        x = concatenate([x / (x.size - counting(x.size)), constant], axis=0)
    return x
