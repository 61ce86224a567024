"""Continuous distributions, by transformations of uniform and normal numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.ir.types import Shape
from functrans.random import checks
from functrans.random.integers import signs
from functrans.random.keys import new_keys
from functrans.random.reals import between, standard_normal, unit

__all__ = [
    "cauchy", "double_sided_maxwell", "exponential", "gumbel", "laplace", "logistic", "lognormal",
    "maxwell", "pareto", "rayleigh", "triangular", "weibull_min",
]  # fmt: skip

Dtype = np.dtype[Any]

# -- without parameters ----------------------------------------------------------------------------


def exponentials(key: Any, shape: Shape, dtype: Dtype) -> Any:
    return -np.log1p(-unit(key, shape, dtype))


def positive(key: Any, shape: Shape, dtype: Dtype) -> Any:
    """Uniform numbers from 0 to 1, all of them positive."""
    return between(key, np.finfo(dtype).tiny, dtype.type(1), shape, dtype)


def gumbels(key: Any, shape: Shape, dtype: Dtype) -> Any:
    return -np.log(-np.log(positive(key, shape, dtype)))


def _laplaces(key: Any, shape: Shape, dtype: Dtype) -> Any:
    low = np.nextafter(dtype.type(-1), dtype.type(0))
    u = between(key, low, dtype.type(1), shape, dtype)
    return np.sign(u) * np.log1p(-np.abs(u))


def _logistics(key: Any, shape: Shape, dtype: Dtype) -> Any:
    u = positive(key, shape, dtype)
    return np.log(u) - np.log1p(-u)


def _cauchys(key: Any, shape: Shape, dtype: Dtype) -> Any:
    u = between(key, np.finfo(dtype).eps, dtype.type(1), shape, dtype)
    return np.tan(dtype.type(math.pi) * (u - dtype.type(0.5)))


def _maxwells(key: Any, shape: Shape, dtype: Dtype) -> Any:
    return np.sqrt(np.sum(standard_normal(key, (*shape, 3), dtype) ** 2, axis=-1))


def _standard(
    name: str, draw: Callable[[Any, Shape, Dtype], Any], what: str, example: str
) -> Callable[..., Any]:
    """The public function of a distribution without parameters."""

    def public(key: Any, shape: Any = (), dtype: Any = np.float64) -> Any:
        return draw(key, shape, dtype)

    public.__name__ = public.__qualname__ = name
    public.__doc__ = f"""{what}

    Parameters
    ----------

    Returns
    -------
    array of ``shape`` and ``dtype``

    Examples
    --------
    >>> from functrans import random
    >>> random.{name}(random.key(0), (2,)).round(6)
    {example}
    """
    return checks.distribution()(public)


exponential = _standard(
    "exponential", exponentials,
    "Floats of the density ``exp(-x)``, for positive ``x``.",
    "array([0.542071, 0.243723])",
)  # fmt: skip
gumbel = _standard(
    "gumbel", gumbels,
    "Floats of the distribution function ``exp(-exp(-x))``: maxima of many numbers.",
    "array([ 0.137906, -0.425993])",
)  # fmt: skip
laplace = _standard(
    "laplace", _laplaces,
    "Floats of the density ``exp(-abs(x)) / 2``.",
    "array([0.178034, 0.837963])",
)  # fmt: skip
logistic = _standard(
    "logistic", _logistics,
    "Floats of the distribution function ``1 / (1 + exp(-x))``.",
    "array([-0.32911 , -1.287387])",
)  # fmt: skip
cauchy = _standard(
    "cauchy", _cauchys,
    "Floats of the density ``1 / (pi (1 + x**2))``, which has no mean.",
    "array([-0.26193 , -1.237846])",
)  # fmt: skip
maxwell = _standard(
    "maxwell", _maxwells,
    "Floats of the density ``sqrt(2 / pi) x**2 exp(-x**2 / 2)``: lengths of normal 3-vectors.",
    "array([1.98907 , 0.424607])",
)  # fmt: skip

# -- with parameters -------------------------------------------------------------------------------


@checks.distribution()
def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Floats whose logarithm is normal, with mean 0 and standard deviation ``sigma``.

    Parameters
    ----------
    sigma : float array
        Samples have derivatives with respect to it.

    Examples
    --------
    >>> from functrans import random
    >>> random.lognormal(random.key(0), 0.5).round(6)
    np.float64(0.902198)
    """
    return np.exp(checks.parameter(sigma, dtype) * standard_normal(key, shape, dtype))


@checks.distribution()
def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Floats of the density ``b / x**(b + 1)``, for ``x`` from 1 up.

    Parameters
    ----------
    b : float array
        Positive. Samples have derivatives with respect to it.

    Examples
    --------
    >>> from functrans import random
    >>> random.pareto(random.key(0), 3.0).round(6)
    np.float64(1.198044)
    """
    return np.exp(exponentials(key, shape, dtype) / checks.parameter(b, dtype))


@checks.distribution()
def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = np.float64) -> Any:
    """Lengths of normal 2-vectors, of the standard deviation ``scale`` in both directions.

    Parameters
    ----------
    scale : float array
        Positive. Samples have derivatives with respect to it.

    Examples
    --------
    >>> from functrans import random
    >>> random.rayleigh(random.key(0), 2.0).round(6)
    np.float64(2.639971)
    """
    return checks.parameter(scale, dtype) * np.sqrt(-2 * np.log(positive(key, shape, dtype)))


@checks.distribution()
def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = None, dtype: Any = np.float64
) -> Any:
    """Floats of the distribution function ``1 - exp(-(x / scale)**concentration)``.

    Parameters
    ----------
    scale, concentration : float array
        Positive. Samples have derivatives with respect to them.

    Examples
    --------
    >>> from functrans import random
    >>> random.weibull_min(random.key(0), 2.0, 1.5).round(6)
    np.float64(1.329639)
    """
    exponent = 1 / checks.parameter(concentration, dtype)
    return np.power(exponentials(key, shape, dtype), exponent) * checks.parameter(scale, dtype)


@checks.distribution()
def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = np.float64
) -> Any:
    """Floats whose density rises linearly from ``left`` to ``mode``, and falls to ``right``.

    Parameters
    ----------
    left, mode, right : float array
        Ascending. Samples have derivatives with respect to them.

    Examples
    --------
    >>> from functrans import random
    >>> random.triangular(random.key(0), 0.0, 1.0, 4.0).round(6)
    np.float64(1.358312)
    """
    left, mode, right = (checks.parameter(x, dtype) for x in (left, mode, right))
    u = unit(key, shape, dtype)
    width = right - left
    rising = u * width < mode - left
    # the root that is not selected could have an infinite derivative, or NaN
    square = np.where(rising, u * (mode - left), (1 - u) * (right - mode)) * width
    root = np.sqrt(np.where(square > 0, square, 1)) * (square > 0)
    return np.where(rising, left + root, right - root)


@checks.distribution()
def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Any = None, dtype: Any = np.float64
) -> Any:
    """Maxwell's numbers with a random sign, times ``scale``, around ``loc``.

    Parameters
    ----------
    loc, scale : float array
        Samples have derivatives with respect to them.

    Examples
    --------
    >>> from functrans import random
    >>> random.double_sided_maxwell(random.key(0), 1.0, 2.0).round(6)
    np.float64(4.969224)
    """
    first, second = new_keys(key, 2)
    numbers = signs(second, shape, dtype) * _maxwells(first, shape, dtype)
    return numbers * checks.parameter(scale, dtype) + checks.parameter(loc, dtype)
