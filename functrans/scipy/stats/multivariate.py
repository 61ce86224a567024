"""Distributions of vectors and matrices: log-densities through Cholesky factors.

References
----------
The docstrings of `scipy.stats`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from functrans.errors import UnsupportedNumPyError
from functrans.numpy import linalg
from functrans.numpy.arrays import array, inexact
from functrans.numpy.creation import eye
from functrans.numpy.joining import concatenate
from functrans.numpy.reductions import all, sum
from functrans.ops.arrays.shape import holds_tracer
from functrans.ops.define import lazy
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal, greater, greater_equal
from functrans.ops.elementwise.exponential import exp, log, log1p
from functrans.ops.elementwise.rounding import floor
from functrans.ops.elementwise.special.entropy import xlogy
from functrans.ops.elementwise.special.gamma import gammaln
from functrans.ops.linalg.factorisations import solve_triangular
from functrans.trace.source import located, user_source

_stats = lazy("scipy:stats")

LOG_2_PI = math.log(2 * math.pi)


class Family(NamedTuple):
    """A distribution of arrays."""

    name: str
    log: str
    """``"logpdf"`` or ``"logpmf"``."""
    density: Callable[..., Any]
    """The logarithm of the density: of a point and the parameters, which are named as SciPy's."""


class Multivariate:
    """One of SciPy's distributions of vectors or matrices, for traced values.

    It has `logpdf` and `pdf` (`logpmf` and `pmf` if it is discrete); on plain arrays SciPy
    computes. Covariances and scale matrices must be positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.stats import multivariate_normal
    >>> grad(multivariate_normal.logpdf)(np.array([1.0, 2.0]), np.zeros(2), np.eye(2))
    array([-1., -2.])
    """

    def __init__(self, family: Family) -> None:
        self._family = family
        self.name = family.name

    def __repr__(self) -> str:
        return f"functrans.scipy.stats.{self.name}"

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_") or not hasattr(getattr(_stats.resolve(), self.name), method):
            raise AttributeError(f"{self!r} has no attribute {method!r}")

        def call(*args: Any, **kwargs: Any) -> Any:
            if any_traced(args, kwargs):
                return self._traced(method, args, kwargs)
            return getattr(getattr(_stats.resolve(), self.name), method)(*args, **kwargs)

        call.__name__ = method
        return call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The distribution with its parameters fixed."""
        return _Fixed(self, args, kwargs)

    def _traced(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        family = self._family
        if method == family.log:
            return family.density(*args, **kwargs)
        if method == family.log.removeprefix("log"):
            return exp(family.density(*args, **kwargs))
        raise UnsupportedNumPyError(
            f"scipy.stats.{self.name}.{method} is not supported on traced values"
            f"{located(user_source())}: of its methods, {family.log} is"
        )


class _Fixed:
    """A distribution with parameters: its methods take points only."""

    def __init__(
        self, distribution: Multivariate, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.dist = distribution
        self.args = args
        self.kwds = kwargs

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        function = getattr(self.dist, method)
        return lambda *points: function(*points, *self.args, **self.kwds)


def any_traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a tracer is among the arguments."""
    return any(map(holds_tracer, args)) or any(map(holds_tracer, kwargs.values()))


# -- normal and t ----------------------------------------------------------------------------------


def _sizes(*parameters: Any) -> int:
    """How many components a vector has, from a mean and a matrix that may be given as numbers."""
    sizes = [parameter.shape[-1] for parameter in parameters if parameter.ndim]
    return max(sizes, default=1)


def _as_matrix(matrix: Any, size: int) -> Any:
    """A number stands for a multiple of the identity, a vector for a diagonal."""
    return matrix if matrix.ndim == 2 else eye(size) * matrix


def _as_points(x: Any, size: int) -> Any:
    """Vectors along the last axis; for one component, each number is a vector."""
    x = inexact(x)
    if x.ndim == 0:
        return x[None]
    return x[:, None] if x.ndim == 1 and size == 1 else x


def _standardised(x: Any, factor: Any) -> Any:
    """The points times the inverse of a Cholesky factor, squared and added up."""
    columns = solve_triangular(factor, x.reshape(-1, x.shape[-1]).T, lower=True)
    return sum(columns * columns, 0).reshape(x.shape[:-1])


def _log_diagonal(factor: Any) -> Any:
    return sum(log(linalg.diagonal(factor)))


def _normal(x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
    mean = inexact(0.0 if mean is None else mean)
    cov = inexact(cov)
    size = _sizes(mean, cov)
    off = _as_points(x, size) - mean
    factor = linalg.cholesky(_as_matrix(cov, size))
    return -0.5 * (size * LOG_2_PI + _standardised(off, factor)) - _log_diagonal(factor)


def _student(
    x: Any, loc: Any = None, shape: Any = 1, df: Any = 1, allow_singular: bool = False
) -> Any:
    loc = inexact(0.0 if loc is None else loc)
    shape = inexact(shape)
    size = _sizes(loc, shape)
    off = _as_points(x, size) - loc
    factor = linalg.cholesky(_as_matrix(shape, size))
    front = gammaln(0.5 * (df + size)) - gammaln(0.5 * df) - 0.5 * size * log(df * math.pi)
    tail = 0.5 * (df + size) * log1p(_standardised(off, factor) / df)
    return front - _log_diagonal(factor) - tail


# -- shares and counts -----------------------------------------------------------------------------


def _dirichlet(x: Any, alpha: Any) -> Any:
    x, alpha = inexact(x), inexact(alpha)
    if x.shape[0] + 1 == alpha.shape[0]:
        x = concatenate([x, 1 - sum(x, 0, keepdims=True)])
    column = alpha.reshape((-1,) + (1,) * (x.ndim - 1))
    return gammaln(sum(alpha)) - sum(gammaln(alpha)) + sum(xlogy(column - 1, x), 0)


def _multinomial(x: Any, n: Any, p: Any) -> Any:
    x, p = inexact(x), inexact(p)
    # as SciPy has it, the last probability is what the others leave
    p = concatenate([p[..., :-1], 1 - sum(p[..., :-1], -1, keepdims=True)], -1)
    proper = all(greater_equal(x, 0) & equal(floor(x), x), -1) & equal(sum(x, -1), n)
    counts = select(proper[..., None], x, 0)
    value = gammaln(inexact(n) + 1) + sum(xlogy(counts, p) - gammaln(counts + 1), -1)
    return select(proper, value, -np.inf)


def _dirichlet_multinomial(x: Any, alpha: Any, n: Any) -> Any:
    x, alpha, n = inexact(x), inexact(alpha), inexact(n)
    proper = all(greater_equal(x, 0) & equal(floor(x), x), -1) & equal(sum(x, -1), n)
    counts = select(proper[..., None], x, 0)
    total = sum(alpha, -1)
    front = gammaln(total) + gammaln(n + 1) - gammaln(n + total)
    each = gammaln(counts + alpha) - gammaln(alpha) - gammaln(counts + 1)
    return select(proper, front + sum(each, -1), -np.inf)


def _normal_inverse_gamma(
    x: Any, s2: Any, mu: Any = 0, lmbda: Any = 1, a: Any = 1, b: Any = 1
) -> Any:
    x, s2, mu, lmbda, a, b = map(inexact, (x, s2, mu, lmbda, a, b))
    inside = greater(s2, 0)
    variance = select(inside, s2, 1)
    of_point = 0.5 * (log(lmbda / variance) - LOG_2_PI - lmbda * (x - mu) * (x - mu) / variance)
    of_variance = a * log(b) - gammaln(a) - (a + 1) * log(variance) - b / variance
    proper = greater(lmbda, 0) & greater(a, 0) & greater(b, 0)
    return select(proper, select(inside, of_point + of_variance, -np.inf), np.nan)


# -- matrices --------------------------------------------------------------------------------------


def _log_multigamma(a: Any, size: int) -> Any:
    return size * (size - 1) / 4 * math.log(math.pi) + sum(gammaln(a - 0.5 * np.arange(size)))


def _wishart(x: Any, df: Any, scale: Any) -> Any:
    x, scale, df = inexact(x), array(scale), inexact(df)
    size = scale.shape[-1]
    factor, of_x = linalg.cholesky(scale), linalg.cholesky(x)
    quotient = solve_triangular(factor, of_x, lower=True)
    shape = (df - size - 1) * _log_diagonal(of_x) - 0.5 * sum(quotient * quotient)
    front = 0.5 * df * size * math.log(2) + df * _log_diagonal(factor)
    return shape - front - _log_multigamma(0.5 * df, size)


def _inverse_wishart(x: Any, df: Any, scale: Any) -> Any:
    x, scale, df = inexact(x), inexact(scale), inexact(df)
    size = scale.shape[-1]
    factor, of_x = linalg.cholesky(scale), linalg.cholesky(x)
    quotient = solve_triangular(of_x, factor, lower=True)
    shape = -(df + size + 1) * _log_diagonal(of_x) - 0.5 * sum(quotient * quotient)
    front = 0.5 * df * size * math.log(2) - df * _log_diagonal(factor)
    return shape - front - _log_multigamma(0.5 * df, size)


FAMILIES: tuple[Family, ...] = (
    Family("multivariate_normal", "logpdf", _normal),
    Family("multivariate_t", "logpdf", _student),
    Family("dirichlet", "logpdf", _dirichlet),
    Family("multinomial", "logpmf", _multinomial),
    Family("dirichlet_multinomial", "logpmf", _dirichlet_multinomial),
    Family("normal_inverse_gamma", "logpdf", _normal_inverse_gamma),
    Family("wishart", "logpdf", _wishart),
    Family("invwishart", "logpdf", _inverse_wishart),
)
