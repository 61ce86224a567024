"""Distributions of ratios and sums of gamma variables: beta, Dirichlet, chi-squared, F, t."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.types import Shape
from functrans.numpy.special import softmax
from functrans.random import checks
from functrans.random.continuous import exponentials
from functrans.random.gamma_family import log_gammas
from functrans.random.integers import signs
from functrans.random.keys import new_keys
from functrans.random.reals import standard_normal
from functrans.trace.source import here

__all__ = ["ball", "beta", "chisquare", "dirichlet", "f", "generalized_normal", "t"]

Dtype = np.dtype[Any]


@checks.distribution()
def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Floats between 0 and 1 of the density ``x**(a - 1) (1 - x)**(b - 1) / B(a, b)``.

    Parameters
    ----------
    a, b : float array
        Positive. Samples have derivatives with respect to them.

    Examples
    --------
    >>> from functrans import random
    >>> random.beta(random.key(0), 2.0, 3.0).round(6)
    np.float64(0.327956)
    """
    first, second = new_keys(key, 2)
    log_a = log_gammas(first, checks.parameter(a, dtype, shape))
    log_b = log_gammas(second, checks.parameter(b, dtype, shape))
    return 1 / (1 + np.exp(log_b - log_a))


def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Positive vectors of sum 1, of the density ``prod(x**(alpha - 1))`` up to a factor.

    Parameters
    ----------
    key : array of shape (2,), uint32
    alpha : float array of shape (..., n)
        Positive. Samples have derivatives with respect to it.
    shape : tuple of int, optional
        That of ``alpha`` without its last axis, if it is not given; ``alpha`` broadcasts to it, its
        last axis excepted.
    dtype : dtype
        float32 or float64.

    Returns
    -------
    array of shape ``(*shape, n)`` and ``dtype``

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import random
    >>> random.dirichlet(random.key(0), np.array([1.0, 2.0, 3.0])).sum().round(12)
    np.float64(1.0)
    """
    called = "random.dirichlet"
    key, dtype = checks.checked_key(key, called), checks.checked_dtype(dtype, called)
    if np.ndim(alpha) == 0:
        raise ShapeError(
            f"{called} takes a vector of weights{here()}, found one number: write np.full(n, alpha)"
        )
    return _dirichlet(
        key, alpha, shape=checks.joint_shape(shape, called, alpha, less=1), dtype=dtype
    )


@checks.sampler
def _dirichlet(key: Any, alpha: Any, *, shape: Shape, dtype: Dtype) -> Any:
    return softmax(log_gammas(key, checks.parameter(alpha, dtype, (*shape, alpha.shape[-1]))), -1)


@checks.distribution()
def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Sums of the squares of ``df`` normal numbers, where ``df`` need not be an integer.

    Parameters
    ----------
    df : float array
        Positive. Samples have derivatives with respect to it.

    Examples
    --------
    >>> from functrans import random
    >>> random.chisquare(random.key(0), 4.0).round(6)
    np.float64(2.704062)
    """
    return np.exp(_log_chisquares(key, checks.parameter(df, dtype, shape)))


def _log_chisquares(key: Any, df: Any) -> Any:
    return log_gammas(key, df / 2) + df.dtype.type(np.log(2))


@checks.distribution()
def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Ratios of the means of ``dfnum`` and of ``dfden`` squared normal numbers.

    Parameters
    ----------
    dfnum, dfden : float array
        Positive. Samples have derivatives with respect to them.

    Examples
    --------
    >>> from functrans import random
    >>> random.f(random.key(0), 4.0, 6.0).round(6)
    np.float64(1.4716)
    """
    for_denominator, for_numerator = new_keys(key, 2)
    dfnum, dfden = checks.parameter(dfnum, dtype, shape), checks.parameter(dfden, dtype, shape)
    above = _log_chisquares(for_numerator, dfnum)
    below = _log_chisquares(for_denominator, dfden)
    return np.exp(above - below) * (dfden / dfnum)


@checks.distribution()
def t(key: Any, df: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Student's t: normal numbers divided by the root of the mean of ``df`` squared normal numbers.

    Parameters
    ----------
    df : float array
        Positive. Samples have derivatives with respect to it.

    Examples
    --------
    >>> from functrans import random
    >>> random.t(random.key(0), 4.0).round(6)
    np.float64(1.438814)
    """
    for_normal, for_gamma = new_keys(key, 2)
    half = checks.parameter(df, dtype, shape) / 2
    log_ratio = np.log(half) - log_gammas(for_gamma, half)
    return standard_normal(for_normal, shape, dtype) * np.exp(log_ratio / 2)


@checks.distribution()
def generalized_normal(key: Any, p: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Floats of the density ``exp(-abs(x)**p)``, up to a factor.

    Parameters
    ----------
    p : float array
        Positive. Samples have derivatives with respect to it.

    Examples
    --------
    >>> from functrans import random
    >>> random.generalized_normal(random.key(0), 2.0).round(6)
    np.float64(0.852796)
    """
    return _generalized_normals(key, checks.parameter(p, dtype, shape))


def _generalized_normals(key: Any, p: Any) -> Any:
    first, second = new_keys(key, 2)
    return signs(second, p.shape, p.dtype) * np.exp(log_gammas(first, 1 / p) / p)


def ball(key: Any, d: Any, p: Any = 2.0, shape: Any = (), dtype: Any = np.float64) -> Any:
    """Points of the ball ``sum(abs(x)**p) <= 1`` in ``d`` dimensions, each as likely as any other.

    Parameters
    ----------
    key : array of shape (2,), uint32
    d : int
    p : float
        Positive: 2 for the Euclidean ball.
    shape : tuple of int
        The shape of the array of points.
    dtype : dtype
        float32 or float64.

    Returns
    -------
    array of shape ``(*shape, d)`` and ``dtype``

    Notes
    -----
    Barthe, Guedon, Mendelson and Naor, "A probabilistic approach to the geometry of the l_p^n-ball"
    (2005).

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import random
    >>> points = random.ball(random.key(0), 3, shape=(100,))
    >>> np.all(np.sum(points**2, axis=1) <= 1)
    np.True_
    """
    called = "random.ball"
    key, dtype = checks.checked_key(key, called), checks.checked_dtype(dtype, called)
    (d,) = checks.checked_shape(d, called)
    return _ball(key, p, shape=(*checks.joint_shape(shape, called, p), d), dtype=dtype)


@checks.sampler
def _ball(key: Any, p: Any, *, shape: Shape, dtype: Dtype) -> Any:
    first, second = new_keys(key, 2)
    p = checks.parameter(p, dtype)
    points = _generalized_normals(first, checks.parameter(p, dtype, shape))
    lengths = np.sum(np.abs(points) ** p, axis=-1) + exponentials(second, shape[:-1], dtype)
    return points / (lengths ** (1 / p))[..., None]
