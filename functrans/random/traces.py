"""Stochastic trace estimation: the trace of a matrix from matrix-vector products.

Hutchinson, "A stochastic estimator of the trace of the influence matrix" (1990); Meyer, Musco,
Musco and Woodruff, "Hutch++: optimal stochastic trace estimation" (2021).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.api.arguments import check_callable
from functrans.api.mapping import vmap
from functrans.errors import ShapeError
from functrans.random.integers import rademacher
from functrans.random.keys import split
from functrans.tracebacks import boundary
from functrans.tree.vector import ravel

__all__ = ["estimate_trace"]

METHODS = ("hutchinson", "hutch++")


@boundary
def estimate_trace(
    key: Any, product: Callable[[Any], Any], like: Any, samples: int = 30, method: str = "hutch++"
) -> Any:
    """An unbiased estimate of the trace of a linear function, by products with random signs.

    For example, ``estimate_trace(key, lambda v: hvp(f)(x, v), x)`` estimates the Laplacian of ``f``
    at ``x``, and ``lambda v: jvp(field, (x,), (v,))[1]`` the divergence of a field.

    Parameters
    ----------
    key : array of shape (2,), uint32
        As for the functions of `functrans.random`.
    product : callable
        A linear function that takes and returns pytrees like ``like``.
    like : pytree of floats
        An argument of the function, of which only the shapes matter; it has n elements.
    samples : int, optional
        The number of products.
    method : {"hutch++", "hutchinson"}, optional
        Hutchinson's estimate is the mean of ``v @ A v`` over vectors of random signs, with a
        standard deviation that falls as ``1 / sqrt(samples)``. Hutch++ uses two thirds of the
        products for the dominant subspace of the matrix, on which it computes the trace exactly;
        the deviation of the rest falls as ``1 / samples`` for positive semidefinite matrices. With
        ``samples >= 3 * n`` it is exact.

    Returns
    -------
    number
        Of the dtype of ``like``.

    Raises
    ------
    ValueError
        If the method does not exist, or there are fewer samples than 1 (3 for Hutch++).
    ShapeError
        If the result of ``product`` is not like ``like``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import hvp, random
    >>> x = np.array([1.0, 2.0, 3.0])
    >>> f = lambda x: np.sum(x**3)
    >>> random.estimate_trace(random.key(0), lambda v: hvp(f)(x, v), x, samples=9).round(9)
    np.float64(36.0)
    """
    check_callable(product, "estimate_trace")
    if method not in METHODS:
        raise ValueError(f"method of estimate_trace is one of {METHODS}, not {method!r}")
    least = 1 if method == "hutchinson" else 3
    if samples < least:
        raise ValueError(f"{method} takes {least} samples at least, not {samples}")
    vector, unravel = ravel(like)

    def products(columns: Any) -> Any:
        """The products with the rows of an array, as rows."""
        return vmap(lambda v: _raveled(product(unravel(v)), vector))(columns)

    size, dtype = vector.size, np.dtype(vector.dtype)
    if not size:
        return np.zeros((), dtype)[()]
    if method == "hutchinson":
        signs = rademacher(key, (samples, size), dtype)
        return np.sum(signs * products(signs)) / samples
    one, other = split(key)
    third = samples // 3
    signs = rademacher(one, (min(third, size), size), dtype)
    basis = np.linalg.qr(products(signs).T)[0]
    exact = np.sum(basis.T * products(basis.T))
    rest = rademacher(other, (samples - 2 * third, size), dtype)
    rest = rest - (rest @ basis) @ basis.T
    return exact + np.sum(rest * products(rest)) / (samples - 2 * third)


def _raveled(result: Any, vector: Any) -> Any:
    found = ravel(result)[0]
    if found.shape != vector.shape:
        raise ShapeError(
            f"product of estimate_trace takes {vector.size} elements, and must return as many, not "
            f"{found.size}"
        )
    return found
