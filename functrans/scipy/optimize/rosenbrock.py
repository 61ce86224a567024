"""The Rosenbrock function, a standard test problem for minimisers, and its derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.numpy.arrays import array, astype, inexact
from functrans.numpy.creation import diag
from functrans.numpy.joining import concatenate
from functrans.numpy.reductions import sum
from functrans.ops.arrays.structural import zeros
from functrans.scipy.define import answers

__all__ = ["rosen", "rosen_der", "rosen_hess", "rosen_hess_prod"]


def _at_first_and_second(first: Any, second: Any) -> Any:
    """Add the contributions of each pair of neighbours to its first and to its second element."""
    nothing = zeros((1, *first.shape[1:]), first.dtype)
    return concatenate([first, nothing]) + concatenate([nothing, second])


def _curvatures(x: Any) -> tuple[Any, Any]:
    """The diagonal of the Hessian, and its first off-diagonal."""
    first = 1200.0 * x[:-1] ** 2 - 400.0 * x[1:] + 2.0
    return _at_first_and_second(first, np.full(first.shape, 200.0, x.dtype)), -400.0 * x[:-1]


def _of_two_or_more(x: Any) -> Any:
    x = inexact(x)
    if x.shape[0] < 2:
        raise IndexError("Rosenbrock's function has derivatives for two numbers or more")
    return x


@answers("scipy.optimize:rosen")
def rosen(x: Any) -> Any:
    """The Rosenbrock function, ``sum(100 * (x[1:] - x[:-1]**2)**2 + (1 - x[:-1])**2)``.

    Parameters
    ----------
    x : array
        The variables lie along the first axis.

    Returns
    -------
    array

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import optimize
    >>> grad(optimize.rosen)(np.array([1.0, 2.0]))
    array([-400.,  200.])
    """
    x = inexact(x)
    return sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2, axis=0)


@answers("scipy.optimize:rosen_der")
def rosen_der(x: Any) -> Any:
    """The gradient of `rosen`, in the shape of ``x``."""
    x = _of_two_or_more(x)
    above = x[1:] - x[:-1] ** 2
    return _at_first_and_second(-400.0 * above * x[:-1] - 2.0 * (1.0 - x[:-1]), 200.0 * above)


@answers("scipy.optimize:rosen_hess")
def rosen_hess(x: Any) -> Any:
    """The Hessian of `rosen` at a vector."""
    diagonal, beside = _curvatures(_of_two_or_more(x))
    return diag(diagonal) + diag(beside, 1) + diag(beside, -1)


@answers("scipy.optimize:rosen_hess_prod")
def rosen_hess_prod(x: Any, p: Any) -> Any:
    """The product of the Hessian of `rosen` at ``x`` with a vector ``p``."""
    x = _of_two_or_more(x)
    diagonal, beside = _curvatures(x)
    p = astype(array(p), x.dtype)
    return diagonal * p + _at_first_and_second(beside * p[1:], beside * p[:-1])
