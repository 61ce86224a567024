"""Sums of polynomials of `numpy.polynomial`, for traced values, by their three-term recurrences.

NumPy's functions convert the coefficients to plain arrays, and test whether the points are an
``np.ndarray``. Where a traced function calls them, the functions of this module are called instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.lazily import lazy
from functrans.numpy.arrays import inexact, operand, with_axes
from functrans.ops.arrays.shape import stack
from functrans.ops.arrays.structural import reshape
from functrans.records import NamedTuple

Function = Callable[..., Any]
_answer_for_functions = lazy("functrans.numpy.series_objects:answer_for_functions")
_answer_for_methods = lazy("functrans.numpy.series_objects:answer_for_methods")


class Basis(NamedTuple):
    """Polynomials ``p[k + 1] = factor(k, x) p[k] + before(k) p[k - 1]``, where ``p[0] = 1``."""

    prefix: str
    """The prefix of the names of NumPy's functions."""
    first: Function
    factor: Function
    before: Function


BASES = {
    "polynomial": Basis("poly", lambda x: x, lambda k, x: x, lambda k: 0),
    "chebyshev": Basis("cheb", lambda x: x, lambda k, x: 2 * x, lambda k: -1),
    "legendre": Basis(
        "leg", lambda x: x, lambda k, x: (2 * k + 1) / (k + 1) * x, lambda k: -k / (k + 1)
    ),
    "hermite": Basis("herm", lambda x: 2 * x, lambda k, x: 2 * x, lambda k: -2 * k),
    "hermite_e": Basis("herme", lambda x: x, lambda k, x: x, lambda k: -k),
    "laguerre": Basis(
        "lag", lambda x: 1 - x, lambda k, x: (2 * k + 1 - x) / (k + 1), lambda k: -k / (k + 1)
    ),
}
"""The recurrences of the polynomials (DLMF, 18.9), by the names of NumPy's modules."""


def value(basis: Basis, x: Any, c: Any, tensor: bool = True) -> Any:
    """The sum of ``c[k] p[k](x)``, by Clenshaw's recurrence.

    With ``tensor``, each column of ``c`` gives a sum at each place.
    """
    at, coefficients = operand(x), with_axes(inexact(c))  # a Python number takes the dtype of ``c``
    if tensor:
        coefficients = reshape(coefficients, shape=coefficients.shape + (1,) * np.ndim(at))
    return clenshaw(basis, at, coefficients)


def clenshaw(basis: Basis, at: Any, coefficients: Any) -> Any:
    """The sum at numbers, or at a polynomial."""
    last: Any = 0
    sum_: Any = 0
    for k in range(coefficients.shape[0] - 1, 0, -1):
        last, sum_ = sum_, coefficients[k] + basis.factor(k, at) * sum_ + basis.before(k + 1) * last
    return coefficients[0] + basis.before(1) * last + basis.first(at) * sum_


def vandermonde(basis: Basis, x: Any, deg: int) -> Any:
    """The values of the polynomials up to a degree, along a new last axis."""
    at = with_axes(inexact(x))
    columns = [at * 0 + 1, basis.first(at)]
    for k in range(1, deg):
        columns.append(basis.factor(k, at) * columns[k] + basis.before(k) * columns[k - 1])
    return stack(columns[: deg + 1], axis=at.ndim)


def answer_for(name: str) -> None:
    """Install the dispatch in the functions of a module of `numpy.polynomial`."""
    _answer_for_functions(name)
    _answer_for_methods()
