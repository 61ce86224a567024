"""Multivariate normal vectors, random orthogonal matrices, and truncated normal numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.api.recompute import stop_gradient
from functrans.errors import ShapeError
from functrans.ir.types import Shape
from functrans.ops.elementwise.special.errors import erf
from functrans.ops.elementwise.special.log_ndtr import log_ndtr, log_ndtr_derivative
from functrans.ops.random.normal import normal_quantile
from functrans.random import checks
from functrans.random.reals import between, normal, standard_normal
from functrans.trace.source import here

__all__ = ["multivariate_normal", "orthogonal", "truncated_normal"]

Dtype = np.dtype[Any]


def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = None, method: str = "cholesky"
) -> Any:
    """Normal vectors with a mean and a covariance.

    Parameters
    ----------
    key : array of shape (2,), uint32
    mean : float array of shape (..., n)
    cov : float array of shape (..., n, n)
        Symmetric and positive definite, or semidefinite for the methods ``"svd"`` and ``"eigh"``;
        its lower triangle is read, but for ``"svd"``. Samples have derivatives with respect to it
        and to ``mean``.
    shape : tuple of int, optional
        The shape to which ``mean`` and ``cov`` broadcast, without their last axes; if it is not
        given, their common shape.
    dtype : dtype, optional
        float32 or float64; that of the parameters if it is not given.
    method : {"cholesky", "svd", "eigh"}
        How ``cov`` is factored as ``L @ L.T``.

    Returns
    -------
    array of shape ``(*shape, n)`` and ``dtype``
        ``mean + L z`` for standard normal numbers ``z``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import random
    >>> mean, cov = np.array([1.0, 2.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    >>> random.multivariate_normal(random.key(0), mean, cov).round(6)
    array([0.708895, 1.193143])
    """
    called = "random.multivariate_normal"
    key = checks.checked_key(key, called)
    dtype = checks.checked_dtype(
        checks.float_dtype_of(mean, cov) if dtype is None else dtype, called
    )
    n = np.shape(mean)[-1] if np.ndim(mean) else None
    if n is None or np.shape(cov)[-2:] != (n, n):
        raise ShapeError(
            f"{called} takes a mean of shape (..., n) and a covariance of shape (..., n, n)"
            f"{here()}, found {np.shape(mean)} and {np.shape(cov)}"
        )
    of_mean, of_cov = np.empty(np.shape(mean)[:-1]), np.empty(np.shape(cov)[:-2])
    shape = checks.joint_shape(shape, called, of_mean, of_cov)
    if method not in _FACTORS:
        raise ValueError(
            f"method of {called} is one of {', '.join(_FACTORS)}, not {method!r}{here()}"
        )
    return _multivariate_normal(key, mean, cov, shape=shape, dtype=dtype, method=method)


def _by_singular_values(cov: Any) -> Any:
    u, s, _ = np.linalg.svd(cov)
    return u * np.sqrt(s)[..., None, :]


def _by_eigenvalues(cov: Any) -> Any:
    w, v = np.linalg.eigh(cov)
    return v * np.sqrt(np.maximum(w, 0))[..., None, :]  # (by rounding, some are less than 0)


_FACTORS: dict[str, Callable[[Any], Any]] = {
    "cholesky": np.linalg.cholesky,
    "svd": _by_singular_values,
    "eigh": _by_eigenvalues,
}


@checks.sampler
def _multivariate_normal(
    key: Any, mean: Any, cov: Any, *, shape: Shape, dtype: Dtype, method: str
) -> Any:
    mean, factor = checks.parameter(mean, dtype), _FACTORS[method](checks.parameter(cov, dtype))
    numbers = standard_normal(key, (*shape, mean.shape[-1]), dtype)
    return mean + np.matmul(factor, numbers[..., None])[..., 0]


def orthogonal(key: Any, n: Any, shape: Any = (), dtype: Any = np.float64, m: Any = None) -> Any:
    """Matrices with orthonormal columns, or rows, each as likely as any other (Haar's measure).

    Parameters
    ----------
    key : array of shape (2,), uint32
    n : int
        The number of rows.
    shape : tuple of int
        The shape of the stack of matrices.
    dtype : dtype
        float32 or float64.
    m : int, optional
        The number of columns; ``n`` if it is not given.

    Returns
    -------
    array of shape ``(*shape, n, m)`` and ``dtype``
        From the QR factorisation of a normal matrix (Stewart, 1980).

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import random
    >>> q = random.orthogonal(random.key(0), 3)
    >>> np.allclose(q.T @ q, np.eye(3))
    True
    """
    called = "random.orthogonal"
    (n,) = checks.checked_shape(n, called)
    (m,) = checks.checked_shape(n if m is None else m, called)
    shape = (*checks.checked_shape(shape, called), max(n, m), min(n, m))
    q, r = np.linalg.qr(
        normal(checks.checked_key(key, called), shape, checks.checked_dtype(dtype, called))
    )
    q = q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
    return q if n >= m else np.swapaxes(q, -1, -2)


FAR = 3.0
"""The distance from 0 beyond which the error function does not resolve probabilities."""

STEPS = 8


@checks.distribution()
def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = np.float64
) -> Any:
    """Normal numbers, given that they lie between two bounds.

    Parameters
    ----------
    lower, upper : float array
        Ascending; infinite ones too. Samples have derivatives with respect to them.

    Returns
    -------
    array of ``shape`` and ``dtype``
        Between the bounds, also where these are far out in a tail.

    Examples
    --------
    >>> from functrans import random
    >>> random.truncated_normal(random.key(0), -1.0, 1.0).round(6)
    np.float64(-0.139996)
    """
    lower, upper = checks.parameter(lower, dtype, shape), checks.parameter(upper, dtype, shape)
    mirrored = lower > FAR
    # an interval far to the right is computed by its mirror image
    low = np.where(mirrored, -upper, lower)
    high = np.where(mirrored, -lower, upper)
    far = high < -FAR
    root = dtype.type(math.sqrt(0.5))
    u = between(
        key, erf(np.where(far, -1, low) * root), erf(np.where(far, 1, high) * root), shape, dtype
    )
    centre = normal_quantile(u)
    # where there is no centre, u is uniform between erf(-1 / sqrt(2)) and erf(1 / sqrt(2))
    scale = math.erf(math.sqrt(0.5))
    part = np.where(far, u, 0) * dtype.type(0.5 / scale) + dtype.type(0.5)
    tail = _between_in_tail(part, np.where(far, low, -5), np.where(far, high, -4))
    x = np.where(far, tail, centre)
    x = np.where(mirrored, -x, x)
    least, most = stop_gradient(lower), stop_gradient(upper)
    return np.clip(x, least, most)


def _between_in_tail(part: Any, low: Any, high: Any) -> Any:
    """The quantile for a part of the probability between two bounds, both well below 0.

    Newton's method for ``log_ndtr(x) = log(p)``, which goes up from the left and never beyond.
    """
    finite = low > -np.inf
    bottom = np.where(finite, log_ndtr(np.where(finite, low, -1)), -np.inf)
    gain = log_ndtr(high) + np.log(part + (1 - part) * np.exp(bottom - log_ndtr(high)))
    level = stop_gradient(gain)
    x = -np.sqrt(-2 * level)
    for _ in range(STEPS):
        x = x + (level - log_ndtr(x)) * _mills(x)
    # two more steps carry the first and the second derivatives
    x = stop_gradient(x)
    for _ in range(2):
        x = x + (gain - log_ndtr(x)) * _mills(x)
    return x


def _mills(x: Any) -> Any:
    """``ndtr(x) / density(x)``."""
    return 1 / log_ndtr_derivative(x, n=1)
