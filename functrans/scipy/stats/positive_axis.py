"""Continuous distributions on the positive half-line, as table rows in SciPy's standard form.

References
----------
The docstrings of `scipy.stats`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.ops.elementwise.choice import absolute, select
from functrans.ops.elementwise.compare import equal, greater, less, less_equal
from functrans.ops.elementwise.exponential import exp, expit, expm1, log, log1p, logaddexp, logit
from functrans.ops.elementwise.power import power, sqrt
from functrans.ops.elementwise.special.distributions import (
    chdtr,
    chdtrc,
    chdtri,
    chndtr,
    chndtrc,
    chndtrcix,
    chndtrix,
    fdtr,
    fdtrc,
    fdtri,
    noncentral_log_density,
)
from functrans.ops.elementwise.special.entropy import xlog1py, xlogy
from functrans.ops.elementwise.special.errors import erf, erfc, erfinv, ndtr, ndtri
from functrans.ops.elementwise.special.gamma import betaln, digamma, gamma, gammaln, poch
from functrans.ops.elementwise.special.incomplete import (
    betainc,
    betaincc,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
)
from functrans.ops.elementwise.special.log_ndtr import log_ndtr
from functrans.ops.elementwise.trigonometric import arctan, arctan2
from functrans.scipy.stats.distribution import Row, is_positive
from functrans.scipy.stats.standard import (
    EULER_GAMMA,
    FAR,
    LOG2,
    LOG_PI,
    LOG_SQRT_2_PI,
    ON_POSITIVE,
    SQRT_2,
    beyond_one,
    gamma_entropy,
    log1mexp,
    log1p_power,
    log1p_square,
    log_i0e,
    log_mills,
    log_shifted_tail,
    mills_series,
    normal_logpdf,
    one,
    positive_axis,
    tan_of_share,
    vanishing,
)


def _f_logpdf(x: Any, n: Any, d: Any) -> Any:
    # by the ratio of the two variables, without n log(n) and d log(d), which would cancel
    r = n / d * x
    large = greater(r, 1)
    power_of_r = xlogy(select(large, -0.5 * d - 1, 0.5 * n - 1), r)
    smaller = select(large, 1 / select(large, r, 1.0), r)
    rest = log(n / d) - betaln(0.5 * n, 0.5 * d)
    return power_of_r - 0.5 * (n + d) * log1p(smaller) + rest


def _f_mean(n: Any, d: Any) -> Any:
    finite = greater(d, 2)
    return select(finite, d / (select(finite, d, 3) - 2), np.inf)


def _f_var(n: Any, d: Any) -> Any:
    finite = greater(d, 4)
    m = select(finite, d, 5)
    return select(finite, 2 * m * m * (n + m - 2) / (n * (m - 2) * (m - 2) * (m - 4)), np.inf)


def _inverse_gaussian_logcdf(x: Any, mu: Any) -> Any:
    # the second normal probability, times exp(2 / mu), over the density at the first point
    point, other = (x / mu - 1) / sqrt(x), log_mills((x / mu + 1) / sqrt(x))
    return logaddexp(log_ndtr(point), normal_logpdf(point) + other)


def _inverse_gaussian_logsf(x: Any, mu: Any) -> Any:
    point, other = (x / mu - 1) / sqrt(x), (x / mu + 1) / sqrt(x)
    direct = log_mills(point)
    far = greater(point, FAR)  # both ratios are nearly inverse to their points
    away, beyond = select(far, point, FAR), select(far, other, FAR)
    gap = log1p(-2 / (x / mu + 1)) + mills_series(beyond) - mills_series(away)
    share = -expm1(select(far, gap, log_mills(select(far, FAR, other)) - direct))
    below = _inverse_gaussian_logcdf(x, mu)
    small = less(below, -1)
    near = log1p(-exp(select(small, below, -1.0)))
    return select(small, near, normal_logpdf(point) + direct + log(share))


def _inverse_gaussian_logpdf(x: Any, mu: Any) -> Any:
    off = x / mu - 1
    return -LOG_SQRT_2_PI - 1.5 * log(x) - off * off / (2 * x)


def _double_pareto_logpdf(x: Any, u: Any, s: Any, a: Any, b: Any) -> Any:
    z = (log(x) - u) / s
    front = log(a) + log(b) - log(a + b) - log(x)
    return front + logaddexp(log_shifted_tail(z, a * s), log_shifted_tail(-z, b * s))


def _weibull_var(c: Any) -> Any:
    second = gamma(1 + 2 / c)
    finite = less(second, np.inf)
    first = gamma(1 + 1 / select(finite, c, 1))
    return select(finite, second - first * first, np.inf)


def _by_size(x: Any, small: Any, large: Any) -> Any:
    """``small(x / (1 + x))`` for x <= 1, else ``large(1 / (1 + x))``, to avoid rounding to 1."""
    inside = less(x, 1)
    near, away = select(inside, x, 1), select(inside, 1, x)
    return select(inside, small(near / (1 + near)), large(1 / (1 + away)))


def _generalized_logpdf(x: Any, a: Any, c: Any) -> Any:
    gone = equal(x, 0) & less(c, 0)  # avoids inf - inf
    x = select(gone, 1, x)
    found = log(absolute(c)) + xlogy(c * a - 1, x) - power(x, c) - gammaln(a)
    return select(gone, -np.inf, found)


ROWS: tuple[Row, ...] = (
    Row(
        "expon", **ON_POSITIVE,
        logpdf=lambda x: -x, cdf=lambda x: -expm1(-x), logcdf=log1mexp, sf=lambda x: exp(-x),
        logsf=lambda x: -x, ppf=lambda q: -log1p(-q), isf=lambda q: -log(q),
        mean=one, var=one, entropy=one,
    ),
    Row(
        "gamma", ("a",), **ON_POSITIVE,
        logpdf=lambda x, a: xlogy(a - 1, x) - x - gammaln(a),
        cdf=lambda x, a: gammainc(a, x), sf=lambda x, a: gammaincc(a, x),
        ppf=lambda q, a: gammaincinv(a, q), isf=lambda q, a: gammainccinv(a, q),
        mean=lambda a: a, var=lambda a: a,
        entropy=gamma_entropy,
    ),
    Row(
        "chi2", ("df",), **ON_POSITIVE,
        logpdf=lambda x, df: (
            xlogy(0.5 * df - 1, x) - 0.5 * x - gammaln(0.5 * df) - 0.5 * LOG2 * df
        ),
        cdf=lambda x, df: chdtr(df, x), sf=lambda x, df: chdtrc(df, x),
        ppf=lambda q, df: 2 * gammaincinv(0.5 * df, q), isf=lambda q, df: chdtri(df, q),
        mean=lambda df: df, var=lambda df: 2 * df,
        entropy=lambda df: LOG2 + gamma_entropy(0.5 * df),
    ),
    Row(
        "chi", ("df",), **ON_POSITIVE,
        logpdf=lambda x, df: (
            LOG2 - 0.5 * LOG2 * df - gammaln(0.5 * df) + xlogy(df - 1, x) - 0.5 * (x * x)
        ),
        cdf=lambda x, df: gammainc(0.5 * df, 0.5 * (x * x)),
        sf=lambda x, df: gammaincc(0.5 * df, 0.5 * (x * x)),
        ppf=lambda q, df: sqrt(2 * gammaincinv(0.5 * df, q)),
        isf=lambda q, df: sqrt(2 * gammainccinv(0.5 * df, q)),
        mean=lambda df: SQRT_2 * poch(0.5 * df, 0.5),
        var=lambda df: df - 2 * power(poch(0.5 * df, 0.5), 2.0),
    ),
    Row(
        "f", ("dfn", "dfd"), **ON_POSITIVE,
        logpdf=_f_logpdf, cdf=lambda x, n, d: fdtr(n, d, x), sf=lambda x, n, d: fdtrc(n, d, x),
        ppf=lambda q, n, d: fdtri(n, d, q), isf=lambda q, n, d: 1 / fdtri(d, n, q),
        mean=_f_mean, var=_f_var,
    ),
    Row(
        "lognorm", ("s",), **ON_POSITIVE, open=True,
        logpdf=lambda x, s: -log(x) - log(s) + normal_logpdf(log(x) / s),
        cdf=lambda x, s: ndtr(log(x) / s), sf=lambda x, s: ndtr(-log(x) / s),
        logcdf=lambda x, s: log_ndtr(log(x) / s), logsf=lambda x, s: log_ndtr(-log(x) / s),
        ppf=lambda q, s: exp(s * ndtri(q)), isf=lambda q, s: exp(-s * ndtri(q)),
        mean=lambda s: exp(0.5 * (s * s)), var=lambda s: expm1(s * s) * exp(s * s),
        entropy=lambda s: 0.5 + LOG_SQRT_2_PI + log(s),
    ),
    Row(
        "weibull_min", ("c",), **ON_POSITIVE,
        logpdf=lambda x, c: log(c) + xlogy(c - 1, x) - power(x, c),
        cdf=lambda x, c: -expm1(-vanishing(power(x, c))), logsf=lambda x, c: -power(x, c),
        ppf=lambda q, c: power(-log1p(-q), 1 / c), isf=lambda q, c: power(-log(q), 1 / c),
        mean=lambda c: gamma(1 + 1 / c),
        var=_weibull_var,
        entropy=lambda c: EULER_GAMMA * (1 - 1 / c) - log(c) + 1,
    ),
    Row(
        "halfnorm", **ON_POSITIVE,
        logpdf=lambda x: LOG2 + normal_logpdf(x), cdf=lambda x: erf(x / SQRT_2),
        sf=lambda x: erfc(x / SQRT_2), logsf=lambda x: LOG2 + log_ndtr(-x),
        ppf=lambda q: ndtri(0.5 * (1 + q)), isf=lambda q: -ndtri(0.5 * q),
        mean=lambda: math.sqrt(2 / math.pi), var=lambda: 1 - 2 / math.pi,
        entropy=lambda: 0.5 * math.log(math.pi / 2) + 0.5,
    ),
    Row(
        "halfcauchy", **ON_POSITIVE,
        logpdf=lambda x: LOG2 - LOG_PI - log1p_square(x),
        cdf=lambda x: 2 / math.pi * arctan(x), sf=lambda x: 2 / math.pi * arctan2(1.0, x),
        ppf=tan_of_share, isf=lambda q: 1 / tan_of_share(q),
        entropy=lambda: math.log(2 * math.pi),
    ),
    Row(
        "halflogistic", **ON_POSITIVE,
        logpdf=lambda x: LOG2 - x - 2 * log1p(exp(-x)), sf=lambda x: 2 * expit(-x),
        cdf=lambda x: -expm1(-x) / (1 + exp(-x)), ppf=lambda q: log1p(q) - log1p(-q),
        isf=lambda q: log1p(1 - q) - log(q),
        mean=lambda: 2 * LOG2, var=lambda: math.pi**2 / 3 - 4 * LOG2**2,
        entropy=lambda: 2 - LOG2,
    ),
    Row(
        "invgamma", ("a",), **ON_POSITIVE, open=True,
        logpdf=lambda x, a: -(a + 1) * log(x) - gammaln(a) - 1 / x,
        cdf=lambda x, a: gammaincc(a, 1 / x), sf=lambda x, a: gammainc(a, 1 / x),
        ppf=lambda q, a: 1 / gammainccinv(a, q), isf=lambda q, a: 1 / gammaincinv(a, q),
        mean=lambda a: beyond_one(lambda a: 1 / (a - 1), a, 1),
        var=lambda a: beyond_one(lambda a: 1 / ((a - 1) * (a - 1) * (a - 2)), a, 2),
        entropy=lambda a: gamma_entropy(a) - 2 * digamma(a),
    ),
    Row(
        "invgauss", ("mu",), **ON_POSITIVE, open=True,
        logpdf=_inverse_gaussian_logpdf,
        logcdf=_inverse_gaussian_logcdf, logsf=_inverse_gaussian_logsf,
        mean=lambda mu: mu, var=lambda mu: mu * mu * mu,
    ),
    Row(
        "rayleigh", **ON_POSITIVE,
        logpdf=lambda x: log(x) - 0.5 * (x * x), cdf=lambda x: -expm1(-0.5 * (x * x)),
        logsf=lambda x: -0.5 * (x * x), ppf=lambda q: sqrt(-2 * log1p(-q)),
        isf=lambda q: sqrt(-2 * log(q)),
        mean=lambda: math.sqrt(math.pi / 2), var=lambda: 2 - math.pi / 2,
        entropy=lambda: 0.5 * EULER_GAMMA + 1 - 0.5 * LOG2,
    ),
    Row(
        "maxwell", **ON_POSITIVE,
        logpdf=lambda x: 0.5 * (LOG2 - LOG_PI) + 2 * log(x) - 0.5 * (x * x),
        cdf=lambda x: gammainc(1.5, 0.5 * (x * x)), sf=lambda x: gammaincc(1.5, 0.5 * (x * x)),
        ppf=lambda q: sqrt(2 * gammaincinv(1.5, q)), isf=lambda q: sqrt(2 * gammainccinv(1.5, q)),
        mean=lambda: 2 * math.sqrt(2 / math.pi), var=lambda: 3 - 8 / math.pi,
        entropy=lambda: EULER_GAMMA + 0.5 * math.log(2 * math.pi) - 0.5,
    ),
    Row(
        "gengamma", ("a", "c"), support=positive_axis, within=one,
        valid=lambda a, c: is_positive(a) & ~equal(c, 0),
        logpdf=_generalized_logpdf,
    ),
    Row(
        "lomax", ("c",), **ON_POSITIVE,
        logpdf=lambda x, c: log(c) - (c + 1) * log1p(x),
        cdf=lambda x, c: -expm1(-c * log1p(x)), logsf=lambda x, c: -c * log1p(x),
        ppf=lambda q, c: expm1(-log1p(-q) / c), isf=lambda q, c: expm1(-log(q) / c),
        mean=lambda c: beyond_one(lambda c: 1 / (c - 1), c, 1),
        entropy=lambda c: 1 + 1 / c - log(c),
    ),
    Row(
        "fisk", ("c",), **ON_POSITIVE,
        logpdf=lambda x, c: log(c) + xlogy(c - 1, x) - 2 * log1p_power(x, c),
        cdf=lambda x, c: expit(c * log(x)), sf=lambda x, c: expit(-c * log(x)),
        ppf=lambda q, c: exp(logit(q) / c), isf=lambda q, c: exp(-logit(q) / c),
        entropy=lambda c: 2 - log(c),
    ),
    Row(
        "nakagami", ("nu",), **ON_POSITIVE,
        logpdf=lambda x, nu: (
            LOG2 + xlogy(nu, nu) - gammaln(nu) + xlogy(2 * nu - 1, x) - nu * (x * x)
        ),
        cdf=lambda x, nu: gammainc(nu, nu * (x * x)), sf=lambda x, nu: gammaincc(nu, nu * (x * x)),
        ppf=lambda q, nu: sqrt(gammaincinv(nu, q) / nu),
        isf=lambda q, nu: sqrt(gammainccinv(nu, q) / nu),
        mean=lambda nu: poch(nu, 0.5) / sqrt(nu),
    ),
    Row(
        "levy", **ON_POSITIVE, open=True,
        logpdf=lambda x: -LOG_SQRT_2_PI - 1.5 * log(x) - 0.5 / x,
        # not the root of a quotient, in whose slope the square of x would overflow or underflow
        cdf=lambda x: erfc(vanishing(math.sqrt(0.5) / sqrt(x))),
        sf=lambda x: erf(vanishing(math.sqrt(0.5) / sqrt(x))),
        ppf=lambda q: 1 / (ndtri(0.5 * q) * ndtri(0.5 * q)),
        isf=lambda q: 0.5 / (erfinv(q) * erfinv(q)),
    ),
    Row(
        "betaprime", ("a", "b"), **ON_POSITIVE,
        logpdf=lambda x, a, b: xlogy(a - 1, x) - xlog1py(a + b, x) - betaln(a, b),
        cdf=lambda x, a, b: _by_size(x, lambda p: betainc(a, b, p), lambda q: betaincc(b, a, q)),
        sf=lambda x, a, b: _by_size(x, lambda p: betaincc(a, b, p), lambda q: betainc(b, a, q)),
        mean=lambda a, b: a * beyond_one(lambda b: 1 / (b - 1), b, 1),
    ),
    Row(
        "rice", ("b",), support=positive_axis, within=one,
        valid=lambda b: less_equal(0, b),
        logpdf=lambda x, b: log(x) - 0.5 * (x - b) * (x - b) + log_i0e(x * b),
        cdf=lambda x, b: chndtr(x * x, 2.0, b * b), sf=lambda x, b: chndtrc(x * x, 2.0, b * b),
        ppf=lambda q, b: sqrt(chndtrix(q, 2.0, b * b)),
        isf=lambda q, b: sqrt(chndtrcix(q, 2.0, b * b)),
    ),
    Row(
        "ncx2", ("df", "nc"), support=positive_axis, within=one, open=True,
        valid=lambda df, nc: greater(df, 0) & less_equal(0, nc),
        logpdf=noncentral_log_density, cdf=chndtr, sf=chndtrc, ppf=chndtrix, isf=chndtrcix,
        mean=lambda df, nc: df + nc, var=lambda df, nc: 2 * (df + 2 * nc),
    ),
    Row(
        "dpareto_lognorm", ("u", "s", "a", "b"), support=positive_axis, within=one, open=True,
        valid=lambda u, s, a, b: is_positive(s, a, b) & equal(u, u), logpdf=_double_pareto_logpdf,
    ),
)  # fmt: skip
