"""Discrete distributions, as table rows in SciPy's standard form.

References
----------
The docstrings of `scipy.stats`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ops.elementwise.choice import absolute, maximum, minimum, select
from functrans.ops.elementwise.compare import equal, greater, greater_equal, less, less_equal
from functrans.ops.elementwise.exponential import exp, expm1, log, log1p
from functrans.ops.elementwise.hyperbolic import tanh
from functrans.ops.elementwise.power import sqrt
from functrans.ops.elementwise.special.counts import bdtr, bdtrc, pdtr, pdtrc
from functrans.ops.elementwise.special.entropy import entr, xlog1py, xlogy
from functrans.ops.elementwise.special.gamma import betaln, zeta
from functrans.ops.elementwise.special.incomplete import betainc, betaincc
from functrans.ops.elementwise.special.log_bessel import log_ive
from functrans.ops.elementwise.special.poisson import log_poisson
from functrans.scipy.stats.distribution import Row, is_count, is_positive, is_whole
from functrans.scipy.stats.standard import (
    log_of_successes,
    one,
    positive_axis,
    real_axis,
    zero,
)


def _from_one(*shapes: Any) -> tuple[float, float]:
    return 1.0, np.inf


def _is_probability(p: Any) -> Any:
    return greater_equal(p, 0) & less_equal(p, 1)


def _log_binomial(n: Any, k: Any) -> Any:
    """The logarithm of the binomial coefficient of ``n`` over ``k``."""
    return -betaln(n - k + 1, k + 1) - log(n + 1)


def _hypergeometric_logpmf(k: Any, total: Any, good: Any, drawn: Any) -> Any:
    ways = _log_binomial(good, k) + _log_binomial(total - good, drawn - k)
    return ways - _log_binomial(total, drawn)


def _negative_hypergeometric_logpmf(k: Any, total: Any, good: Any, failures: Any) -> Any:
    at_once = equal(failures, 0)  # nothing is drawn
    r = select(at_once, 1, failures)
    ways = _log_binomial(k + r - 1, k) + _log_binomial(total - r - k, good - k)
    nothing = select(equal(k, 0), 0.0, -np.inf)
    return select(at_once, nothing, ways - _log_binomial(total, good))


def _skellam_logpmf(k: Any, mu1: Any, mu2: Any) -> Any:
    between = sqrt(mu1) - sqrt(mu2)
    scaled = log_ive(absolute(k), 2 * sqrt(mu1) * sqrt(mu2))
    return 0.5 * k * log(mu1 / mu2) - between * between + scaled


def hypergeometric_support(total: Any, good: Any, drawn: Any, *odds: Any) -> tuple[Any, Any]:
    return maximum(drawn - (total - good), 0), minimum(good, drawn)


_COUNTS: dict[str, Any] = {"support": positive_axis, "within": zero, "discrete": True}

ROWS: tuple[Row, ...] = (
    Row(
        "bernoulli", ("p",), support=lambda p: (0.0, 1.0), within=zero, valid=_is_probability,
        logpdf=lambda k, p: xlogy(k, p) + xlog1py(1 - k, -p),
        cdf=lambda k, p: bdtr(k, 1.0, p), sf=lambda k, p: bdtrc(k, 1.0, p),
        mean=lambda p: p, var=lambda p: p * (1 - p), entropy=lambda p: entr(p) + entr(1 - p),
        discrete=True,
    ),
    Row(
        "binom", ("n", "p"), support=lambda n, p: (0.0, n), within=zero,
        valid=lambda n, p: is_count(n) & _is_probability(p),
        logpdf=lambda k, n, p: log_of_successes(k, n - k, p, 1 - p),
        cdf=lambda k, n, p: betaincc(k + 1, n - k, p),
        sf=lambda k, n, p: betainc(k + 1, n - k, p),
        mean=lambda n, p: n * p, var=lambda n, p: n * p * (1 - p), discrete=True,
    ),
    Row(
        "poisson", ("mu",), **_COUNTS, valid=lambda mu: greater_equal(mu, 0),
        logpdf=log_poisson, cdf=pdtr, sf=pdtrc,
        mean=lambda mu: mu, var=lambda mu: mu,
    ),
    Row(
        "geom", ("p",), support=_from_one, within=one, discrete=True,
        valid=lambda p: greater(p, 0) & less_equal(p, 1),
        logpdf=lambda k, p: xlog1py(k - 1, -p) + log(p),
        cdf=lambda k, p: -expm1(log1p(-p) * k), sf=lambda k, p: exp(log1p(-p) * k),
        logsf=lambda k, p: log1p(-p) * k,
        mean=lambda p: 1 / p, var=lambda p: (1 - p) / (p * p),
        entropy=lambda p: entr(p) / p + entr(1 - p) / p,
    ),
    Row(
        "nbinom", ("n", "p"), **_COUNTS,
        valid=lambda n, p: greater(n, 0) & greater(p, 0) & less_equal(p, 1),
        logpdf=lambda k, n, p: log_of_successes(n, k, p, 1 - p) + log(n / (n + k)),
        cdf=lambda k, n, p: betainc(n, k + 1, p), sf=lambda k, n, p: betaincc(n, k + 1, p),
        mean=lambda n, p: n * (1 - p) / p, var=lambda n, p: n * (1 - p) / (p * p),
    ),
    Row(
        "betabinom", ("n", "a", "b"), support=lambda n, a, b: (0.0, n), within=zero,
        valid=lambda n, a, b: is_count(n) & is_positive(a, b),
        logpdf=lambda k, n, a, b: (
            _log_binomial(n, k) + betaln(k + a, n - k + b) - betaln(a, b)
        ),
        mean=lambda n, a, b: n * a / (a + b),
        var=lambda n, a, b: n * a * b * (a + b + n) / ((a + b) * (a + b) * (a + b + 1)),
        discrete=True,
    ),
    Row(
        "betanbinom", ("n", "a", "b"), **_COUNTS,
        valid=lambda n, a, b: is_count(n) & is_positive(a, b),
        logpdf=lambda k, n, a, b: (
            -log(n + k) - betaln(n, k + 1) + betaln(a + n, b + k) - betaln(a, b)
        ),
    ),
    Row(
        "hypergeom", ("M", "n", "N"), support=hypergeometric_support, discrete=True,
        within=lambda *sizes: hypergeometric_support(*sizes)[0],
        valid=lambda M, n, N: is_count(M, n, N) & less_equal(n, M) & less_equal(N, M),
        logpdf=_hypergeometric_logpmf, mean=lambda M, n, N: N * n / M,
    ),
    Row(
        "randint", ("low", "high"), support=lambda low, high: (low, high - 1), discrete=True,
        within=lambda low, high: low,
        valid=lambda low, high: is_whole(low, high) & less(low, high),
        logpdf=lambda k, low, high: -log(high - low) + 0 * k,
        cdf=lambda k, low, high: (k - low + 1) / (high - low),
        mean=lambda low, high: 0.5 * (high + low - 1),
        var=lambda low, high: ((high - low) * (high - low) - 1) / 12,
        entropy=lambda low, high: log(high - low),
    ),
    Row(
        "zipf", ("a",), support=_from_one, within=one, discrete=True,
        valid=lambda a: greater(a, 1),
        logpdf=lambda k, a: -log(zeta(a, 1.0)) - a * log(k),
    ),
    Row(
        "logser", ("p",), support=_from_one, within=one, discrete=True,
        valid=lambda p: greater(p, 0) & less(p, 1),
        logpdf=lambda k, p: k * log(p) - log(k) - log(-log1p(-p)),
        mean=lambda p: p / ((p - 1) * log1p(-p)),
    ),
    Row(
        "planck", ("lambda_",), **_COUNTS, valid=is_positive,
        logpdf=lambda k, rate: log(-expm1(-rate)) - rate * k,
        cdf=lambda k, rate: -expm1(-rate * (k + 1)), sf=lambda k, rate: exp(-rate * (k + 1)),
        logsf=lambda k, rate: -rate * (k + 1),
        mean=lambda rate: exp(-rate) / -expm1(-rate),
        var=lambda rate: exp(-rate) / (expm1(-rate) * expm1(-rate)),
    ),
    Row(
        "dlaplace", ("a",), support=real_axis, within=zero, valid=is_positive,
        logpdf=lambda k, a: log(tanh(0.5 * a)) - a * abs(k), discrete=True,
    ),
    Row(
        "boltzmann", ("lambda_", "N"), support=lambda rate, n: (0.0, n - 1), within=zero,
        valid=lambda rate, n: is_positive(rate, n) & is_whole(n), discrete=True,
        logpdf=lambda k, rate, n: log(-expm1(-rate)) - log(-expm1(-rate * n)) - rate * k,
    ),
    Row(
        "nhypergeom", ("M", "n", "r"), support=lambda M, n, r: (0.0, n), within=zero,
        valid=lambda M, n, r: is_count(M, n, r) & less_equal(n, M) & less_equal(r, M - n),
        logpdf=_negative_hypergeometric_logpmf, discrete=True,
    ),
    Row(
        "skellam", ("mu1", "mu2"), support=real_axis, within=zero,
        valid=is_positive, logpdf=_skellam_logpmf, discrete=True,
        mean=lambda mu1, mu2: mu1 - mu2, var=lambda mu1, mu2: mu1 + mu2,
    ),
    Row(
        "yulesimon", ("alpha",), support=_from_one, within=one, valid=is_positive, discrete=True,
        logpdf=lambda k, alpha: log(alpha) + betaln(k, alpha + 1),
    ),
)  # fmt: skip
