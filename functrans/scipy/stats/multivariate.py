"""Distributions of vectors and matrices: log-densities through Cholesky factors.

References
----------
The docstrings of `scipy.stats`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from functrans.numpy import linalg
from functrans.numpy.arrays import astype, inexact, known
from functrans.numpy.creation import eye, zeros
from functrans.numpy.define import refuse
from functrans.numpy.joining import concatenate
from functrans.numpy.reductions import all, sum
from functrans.numpy.shapes import moveaxis, squeeze
from functrans.ops.elementwise.choice import absolute, select
from functrans.ops.elementwise.compare import equal, greater, greater_equal, less, less_equal
from functrans.ops.elementwise.exponential import exp, log, log1p
from functrans.ops.elementwise.power import sqrt
from functrans.ops.elementwise.rounding import floor
from functrans.ops.elementwise.special.entropy import xlogy
from functrans.ops.elementwise.special.gamma import digamma, gammaln, gammaln_difference
from functrans.ops.elementwise.special.log_bessel import log_ive
from functrans.ops.elementwise.stop import stop_gradient
from functrans.ops.linalg.factorisations import solve_triangular
from functrans.records import NamedTuple
from functrans.scipy.stats.counted import log_ways
from functrans.scipy.stats.degenerate import range_of
from functrans.scipy.stats.distribution import Distribution
from functrans.trace.source import here

LOG_2_PI = math.log(2 * math.pi)


class Family(NamedTuple):
    """The definition of a distribution of vectors or matrices."""

    name: str
    log: str
    """``"logpdf"`` or ``"logpmf"``."""
    density: Callable[..., Any]
    """The log-density, a function of a point and of the parameters, under SciPy's names."""
    moments: Mapping[str, Callable[..., Any]] = MappingProxyType({})
    """Functions of the parameters alone, by SciPy's names."""


class Multivariate(Distribution):
    """A SciPy distribution of vectors or matrices that accepts traced values.

    It has `logpdf` and `pdf` (`logpmf` and `pmf` if it is discrete), and some have moments; plain
    arrays are passed on to SciPy. Covariances and scale matrices must be positive definite, unless
    ``allow_singular`` is set.

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
        self._methods = (family.log, family.log.removeprefix("log"), *family.moments)

    def _traced(self, method: str) -> Callable[..., Any]:
        family = self._family
        if method not in self._methods:
            has = ", ".join(self._methods)
            refuse(f"scipy.stats.{self.name}.{method}", f"of its methods, {has} are")
        if f"log{method}" == family.log:
            return lambda *args, **kwargs: exp(family.density(*args, **kwargs))
        return family.moments.get(method, family.density)


# -- normal and t ----------------------------------------------------------------------------------


def _sizes(*parameters: Any) -> int:
    """The dimension, from a mean and a matrix, either of which may be a number."""
    sizes = [parameter.shape[-1] for parameter in parameters if parameter.ndim]
    return max(sizes, default=1)


def _as_matrix(matrix: Any, size: int) -> Any:
    """Convert a number to a multiple of the identity, and a vector to a diagonal matrix."""
    return matrix if matrix.ndim == 2 else eye(size) * matrix


def _double(x: Any) -> Any:
    """An operand in double precision, to which SciPy converts those of normal vectors."""
    return astype(inexact(x), np.float64)


def _as_points(x: Any, size: int) -> Any:
    """Points as vectors along the last axis; in one dimension, each number is a vector."""
    x = _double(x)
    if x.ndim == 0:
        return x[None]
    return x[:, None] if x.ndim == 1 and size == 1 else x


def _centred(x: Any, centre: Any, matrix: Any) -> tuple[int, Any, Any]:
    """The dimension, the points relative to a centre, by default 0, and the matrix."""
    centre, matrix = _double(0.0 if centre is None else centre), _double(matrix)
    size = _sizes(centre, matrix)
    return size, _as_points(x, size) - centre, _as_matrix(matrix, size)


def _standardised(x: Any, factor: Any) -> Any:
    """Squared Mahalanobis distances: points are whitened by a Cholesky factor."""
    columns = solve_triangular(factor, x.reshape(-1, x.shape[-1]).T, lower=True)
    return sum(columns * columns, 0).reshape(x.shape[:-1])


def _log_diagonal(factor: Any) -> Any:
    return sum(log(linalg.diagonal(factor)), -1)


def _normal(x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
    size, off, matrix = _centred(x, mean, cov)
    if not allow_singular:
        factor = linalg.cholesky(matrix)
        squares = _standardised(off, factor)
        return squeeze(-0.5 * (size * LOG_2_PI + squares) - _log_diagonal(factor))
    part = range_of(matrix)
    squares = _standardised(off @ part.onto, part.factor)
    density = -0.5 * (part.rank * LOG_2_PI + squares) - _log_diagonal(part.factor)
    outside = stop_gradient(off) @ part.null
    beyond = greater_equal(sqrt(sum(outside * outside, -1)), 1e3 * part.smallest)
    return squeeze(select(beyond & less(part.rank, size), -np.inf, density))


def _normal_entropy(mean: Any = None, cov: Any = 1) -> Any:
    mean, cov = _double(0.0 if mean is None else mean), _double(cov)
    size = _sizes(mean, cov)
    return 0.5 * size * (LOG_2_PI + 1) + _log_diagonal(linalg.cholesky(_as_matrix(cov, size)))


def _student(
    x: Any, loc: Any = None, shape: Any = 1, df: Any = 1, allow_singular: bool = False
) -> Any:
    size, off, matrix = _centred(x, loc, shape)
    if allow_singular:
        part = range_of(matrix)
        off, factor = off @ part.onto, part.factor
    else:
        factor = linalg.cholesky(matrix)
    squares = _standardised(off, factor)
    normal = equal(df, np.inf)
    df = select(normal, 1, df)
    front = gammaln_difference(0.5 * df, 0.5 * size) - 0.5 * size * log(df * math.pi)
    tail = 0.5 * (df + size) * log1p(squares / df)
    density = select(normal, -0.5 * (size * LOG_2_PI + squares), front - tail)
    return squeeze(density - _log_diagonal(factor))


# -- probability vectors and counts ----------------------------------------------------------------


def _concentration(alpha: Any) -> tuple[Any, Any]:
    """Dirichlet's parameters, NaN if one is not positive, and their sum."""
    alpha = inexact(alpha)
    alpha = select(all(greater(alpha, 0)), alpha, np.nan)
    return alpha, sum(alpha)


def _dirichlet_mean(alpha: Any) -> Any:
    alpha, total = _concentration(alpha)
    return alpha / total


def _dirichlet_cov(alpha: Any) -> Any:
    alpha, total = _concentration(alpha)
    mean = alpha / total
    return (eye(mean.size) * mean - mean[:, None] * mean) / (total + 1)


def _dirichlet_entropy(alpha: Any) -> Any:
    alpha, total = _concentration(alpha)
    front = sum(gammaln(alpha)) - gammaln(total)
    return front + (total - alpha.size) * digamma(total) - sum((alpha - 1) * digamma(alpha))


_DIRICHLETS = {
    "mean": _dirichlet_mean,
    "var": lambda alpha: linalg.diagonal(_dirichlet_cov(alpha)),
    "cov": _dirichlet_cov,
    "entropy": _dirichlet_entropy,
}


def _dirichlet(x: Any, alpha: Any) -> Any:
    x, (alpha, total) = inexact(x), _concentration(alpha)
    if x.shape[0] + 1 == alpha.shape[0]:
        x = concatenate([x, 1 - sum(x, 0, keepdims=True)])
    column = alpha.reshape((-1,) + (1,) * (x.ndim - 1))
    shares = sum(xlogy(column - 1, x), 0)
    return squeeze(gammaln(total) - sum(gammaln(alpha)) + shares)


def _multinomial(x: Any, n: Any, p: Any) -> Any:
    x, n, p = inexact(x), inexact(n), inexact(p)
    # as in SciPy, the last probability is replaced by 1 minus the others
    eps = 10 * np.finfo(np.promote_types(p.dtype, np.float32)).eps
    rest, last = 1 - sum(p[..., :-1], -1, keepdims=True), p[..., -1:]
    rounded = less_equal(absolute(rest - last), eps)
    last = rest + stop_gradient(select(rounded, last - rest, 0))
    p = concatenate([p[..., :-1], last], -1)
    sound = all(greater_equal(p, 0) & less_equal(p, 1), -1) & greater_equal(n, 0)
    p = select(sound[..., None], p, 1)
    proper = all(greater_equal(x, 0) & equal(floor(x), x), -1) & equal(sum(x, -1), n)
    counts = select(proper[..., None], x, 0)
    value = gammaln(n + 1) + sum(xlogy(counts, p) - gammaln(counts + 1), -1)
    return select(sound, select(proper, value, -np.inf), np.nan)


def _dirichlet_multinomial(x: Any, alpha: Any, n: Any) -> Any:
    x, alpha, n = inexact(x), inexact(alpha), inexact(n)
    proper = all(greater_equal(x, 0) & equal(floor(x), x), -1) & equal(sum(x, -1), n)
    counts = select(proper[..., None], x, 0)
    total = sum(alpha, -1)
    front = gammaln(n + 1) - gammaln_difference(total, n)
    each = gammaln_difference(alpha, counts) - gammaln(counts + 1)
    return select(proper, front + sum(each, -1), -np.inf)


def _normal_inverse_gamma(
    x: Any, s2: Any, mu: Any = 0, lmbda: Any = 1, a: Any = 1, b: Any = 1
) -> Any:
    x, s2, mu, lmbda, a, b = map(inexact, (x, s2, mu, lmbda, a, b))
    inside = ~less_equal(s2, 0)  # NaN stays
    variance = select(inside, s2, 1)
    of_point = 0.5 * (log(lmbda / variance) - LOG_2_PI - lmbda * (x - mu) * (x - mu) / variance)
    of_variance = a * log(b) - gammaln(a) - (a + 1) * log(variance) - b / variance
    proper = greater(lmbda, 0) & greater(a, 0) & greater(b, 0)
    return select(proper, select(inside, of_point + of_variance, -np.inf), np.nan)


def _multivariate_hypergeometric(x: Any, m: Any, n: Any) -> Any:
    x, m, n = inexact(x), inexact(m), inexact(n)
    proper = all(greater_equal(x, 0) & greater_equal(m, x) & equal(floor(x), x), -1)
    proper = proper & equal(sum(x, -1), n)
    drawn = select(proper[..., None], x, 0)
    value = sum(log_ways(m, drawn), -1) - log_ways(sum(m, -1), n)
    return select(proper, value, -np.inf)


def _random_table(x: Any, row: Any, col: Any) -> Any:
    x, row, col = inexact(x), inexact(row), inexact(col)
    proper = all(greater_equal(x, 0) & equal(floor(x), x), (-2, -1))
    proper = proper & all(equal(sum(x, -1), row), -1) & all(equal(sum(x, -2), col), -1)
    counts = select(proper[..., None, None], x, 0)
    margins = sum(gammaln(row + 1), -1) + sum(gammaln(col + 1), -1) - gammaln(sum(row, -1) + 1)
    return select(proper, margins - sum(gammaln(counts + 1), (-2, -1)), -np.inf)


def _poisson_binomial(k: Any, p: Any, loc: Any = 0) -> Any:
    """The probabilities of each number of successes, by a recursion over the trials."""
    k, p = inexact(k) - loc, inexact(p)
    count = p.shape[-1]
    chances = zeros((*p.shape[:-1], 1), p.dtype) + 1
    for i in range(count):
        chance, none = p[..., i : i + 1], zeros((*p.shape[:-1], 1), p.dtype)
        without, within = concatenate([chances, none], -1), concatenate([none, chances], -1)
        chances = without * (1 - chance) + within * chance
    number = np.arange(count + 1)
    here = sum(select(equal(k[..., None], number), chances, 0), -1)
    inside = greater(here, 0)
    value = select(inside, log(select(inside, here, 1)), -np.inf)
    proper = all(greater_equal(p, 0) & less_equal(p, 1), -1) & equal(k, k)  # not NaN
    return select(proper, value, np.nan)


# -- directions ------------------------------------------------------------------------------------


def _von_mises_fisher(x: Any, mu: Any = None, kappa: Any = 1) -> Any:
    x, mu, kappa = inexact(x), inexact(mu), inexact(kappa)
    _check_unit("x", x)
    _check_unit("mu", mu)
    half = 0.5 * mu.shape[-1]
    front = (half - 1) * log(kappa) - half * LOG_2_PI - log_ive(half - 1, kappa)
    return front + kappa * (sum(x * mu, -1) - 1)


def _check_unit(name: str, x: Any) -> None:
    """Raise if a vector is known not to have length 1."""
    values = known(x)
    if values is not None and not np.allclose(np.linalg.norm(values, axis=-1), 1.0):
        raise ValueError(f"vonmises_fisher takes vectors of length 1{here()}: {name} is not")


# -- matrices --------------------------------------------------------------------------------------


def _log_multigamma(a: Any, size: int) -> Any:
    return size * (size - 1) / 4 * math.log(math.pi) + sum(gammaln(a - 0.5 * np.arange(size)))


def _as_scale(scale: Any) -> Any:
    """Convert a number to a matrix of one element, and a vector to a diagonal matrix."""
    scale = _double(scale)
    return scale if scale.ndim == 2 else eye(max(scale.size, 1)) * scale


def _as_matrices(x: Any, size: int) -> Any:
    """Matrices along the last two axes; SciPy's counts the matrices along the last axis."""
    x = _double(x)
    if x.ndim == 3:
        return moveaxis(x, -1, 0)
    if x.ndim == 1 and size == 1:
        return x[:, None, None]
    return x if x.ndim == 2 else eye(size) * x


def _wishart(x: Any, df: Any, scale: Any, way: int = 1) -> Any:
    """The log-density of Wishart's distribution, or of that of its inverses, for ``way = -1``."""
    scale, df = _as_scale(scale), _double(df)
    size = scale.shape[-1]
    x = _as_matrices(x, size)
    factor, of_x = (linalg.cholesky(matrix) for matrix in (scale, x))
    divisor, dividend = (factor, of_x)[::way]
    quotient = solve_triangular(divisor, dividend, lower=True)
    shape = (way * df - size - 1) * _log_diagonal(of_x) - 0.5 * sum(quotient * quotient, (-2, -1))
    front = 0.5 * df * size * math.log(2) + way * df * _log_diagonal(factor)
    return squeeze(shape - front - _log_multigamma(0.5 * df, size))


def _spread(spread: Any, size: int) -> Any:
    """The Cholesky factor of a row or column covariance, which may be given as a number."""
    spread = inexact(spread)
    matrix = spread * eye(size) if spread.ndim < 2 else spread
    if matrix.shape != (size, size):
        raise ValueError(
            f"a covariance or spread of shape {spread.shape} for matrices with {size} rows or "
            "columns: a number, a vector of as many numbers, or a matrix is expected"
        )
    return linalg.cholesky(matrix)


def _sides(x: Any, mean: Any, rows: Any, columns: Any) -> tuple[Any, Any, Any]:
    """Matrices whitened by their row and column covariances, and the Cholesky factors of these."""
    x = inexact(x)
    m, n = x.shape[-2:]
    left, right = _spread(rows, m), _spread(columns, n)
    off = x if mean is None else x - inexact(mean)
    leading = off.shape[:-2]
    half = solve_triangular(left, moveaxis(off, -2, 0).reshape(m, -1), lower=True)
    half = moveaxis(half.reshape(m, *leading, n), -1, 0).reshape(n, -1)
    whole = solve_triangular(right, half, lower=True).reshape(n, m, *leading)
    return moveaxis(whole, (1, 0), (-2, -1)), left, right


def _matrix_normal(x: Any, mean: Any = None, rowcov: Any = 1, colcov: Any = 1) -> Any:
    off, left, right = _sides(x, mean, rowcov, colcov)
    m, n = off.shape[-2:]
    front = -0.5 * m * n * LOG_2_PI - n * _log_diagonal(left) - m * _log_diagonal(right)
    return front - 0.5 * sum(off * off, (-2, -1))


def _matrix_t(
    x: Any, mean: Any = None, row_spread: Any = 1, col_spread: Any = 1, df: Any = 1
) -> Any:
    off, left, right = _sides(x, mean, row_spread, col_spread)
    m, n = off.shape[-2:]
    df = inexact(df)
    _, spread = linalg.slogdet(eye(n) + moveaxis(off, -1, -2) @ off)
    power = 0.5 * (df + m + n - 1)
    front = _log_multigamma(power, n) - _log_multigamma(power - 0.5 * m, n)
    front = front - 0.5 * m * n * math.log(math.pi)
    return front - n * _log_diagonal(left) - m * _log_diagonal(right) - power * spread


FAMILIES: tuple[Family, ...] = (
    Family("multivariate_normal", "logpdf", _normal, {"entropy": _normal_entropy}),
    Family("multivariate_t", "logpdf", _student),
    Family("dirichlet", "logpdf", _dirichlet, _DIRICHLETS),
    Family("multinomial", "logpmf", _multinomial),
    Family("dirichlet_multinomial", "logpmf", _dirichlet_multinomial),
    Family("normal_inverse_gamma", "logpdf", _normal_inverse_gamma),
    Family("multivariate_hypergeom", "logpmf", _multivariate_hypergeometric),
    Family("random_table", "logpmf", _random_table),
    Family("poisson_binom", "logpmf", _poisson_binomial),
    Family("vonmises_fisher", "logpdf", _von_mises_fisher),
    Family("matrix_normal", "logpdf", _matrix_normal),
    Family("matrix_t", "logpdf", _matrix_t),
    Family("wishart", "logpdf", lambda x, df, scale: _wishart(x, df, scale)),
    Family("invwishart", "logpdf", lambda x, df, scale: _wishart(x, df, scale, way=-1)),
)
