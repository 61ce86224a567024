"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.numpy.arrays import array, astype, common_dtype, counting, inexact, with_axes
from functrans.numpy.define import answers, needed
from functrans.numpy.sequences import convolve
from functrans.ops.arrays.shape import concatenate, read_along, stack
from functrans.ops.arrays.structural import full_p, zeros

__all__ = ["polyadd", "polyder", "polydiv", "polyint", "polymul", "polysub", "polyval"]


@answers(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    """The values of a polynomial, by Horner's rule."""
    coefficients, at = array(p), array(x)
    result = full_p(shape=at.shape, value=0, dtype=common_dtype(coefficients, at))
    for i in range(coefficients.shape[0]):
        result = result * at + coefficients[i]
    return result


def _longer(x: Any, size: int) -> Any:
    return concatenate([zeros((size - len(x),), x.dtype), x], axis=0) if len(x) < size else x


@answers(np.polyadd)
def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials."""
    x, y = with_axes(a1), with_axes(a2)
    return _longer(x, len(y)) + _longer(y, len(x))


@answers(np.polysub)
def polysub(a1: Any, a2: Any) -> Any:
    """The difference of two polynomials."""
    x, y = with_axes(a1), with_axes(a2)
    return _longer(x, len(y)) - _longer(y, len(x))


@answers(np.polymul)
def polymul(a1: Any, a2: Any) -> Any:
    """The product of two polynomials."""
    return convolve(*(x if x.size else zeros((1,), x.dtype) for x in map(with_axes, (a1, a2))))


@answers(np.polyder, views=True)
def polyder(p: Any, m: int = 1) -> Any:
    """The m-th derivative of a polynomial."""
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    x = with_axes(p)
    for _ in range(m):
        size = max(x.size - 1, 0)
        x = read_along(x, 0, 0, size) * (size - counting(size))
    return x


@answers(np.polyint, views=True)
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The m-th antiderivative of a polynomial, with integration constants ``k``."""
    if m == 0:
        return array(p)
    x = inexact(with_axes(p))
    constants = zeros((m,), x.dtype) if k is None else with_axes(k)
    if constants.size != 1 and constants.size < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    for i in range(m):
        constant = read_along(constants, 0, i if constants.size > 1 else 0, 1)
        x = concatenate([x / (x.size - counting(x.size)), constant], axis=0)
    return x


@answers(np.polydiv)
def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """The quotient and remainder of two polynomials, if their leading zeros are known."""
    quotient, remainder = divided(u, v)
    leading = needed(
        remainder,
        "np.polydiv of polynomials that are not known",
        "the length of the remainder depends on which coefficients are 0",
    )
    start = 0
    while start < leading.size - 1 and np.allclose(leading[start], 0, rtol=1e-14):
        start += 1
    return quotient, remainder[start:]


def divided(u: Any, v: Any) -> tuple[Any, Any]:
    """The quotient, and the remainder with as many coefficients as ``u``."""
    remainder, divisor = with_axes(u) + 0.0, with_axes(v) + 0.0
    dtype = common_dtype(remainder, divisor)
    remainder, divisor = astype(remainder, dtype), astype(divisor, dtype)
    steps = max(remainder.shape[0] - divisor.shape[0] + 1, 0)
    quotient = []
    for i in range(steps):
        quotient.append(remainder[i] / divisor[0])
        rest = remainder[i : i + divisor.shape[0]] - quotient[-1] * divisor
        remainder = concatenate([remainder[:i], rest, remainder[i + divisor.shape[0] :]], axis=0)
    return stack(quotient, axis=0) if quotient else zeros((1,), dtype), remainder
