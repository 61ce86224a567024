"""Continuous distributions: a row each, in the standard form that SciPy has them in.

References
----------
The docstrings of `scipy.stats`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.ops.elementwise.choice import absolute, maximum, minimum, select
from functrans.ops.elementwise.compare import equal, greater, less, less_equal
from functrans.ops.elementwise.exponential import (
    exp,
    expit,
    expm1,
    log,
    log1p,
    logaddexp,
    logit,
)
from functrans.ops.elementwise.hyperbolic import arcsinh, sinh
from functrans.ops.elementwise.power import power, sqrt
from functrans.ops.elementwise.special.bessel import i0e, i1e, ive
from functrans.ops.elementwise.special.distributions import (
    chdtr,
    chdtrc,
    chdtri,
    chndtr,
    chndtrix,
    fdtr,
    fdtrc,
    fdtri,
    stdtr,
    stdtrit,
)
from functrans.ops.elementwise.special.entropy import (
    boxcox,
    boxcox1p,
    log1prel_n,
    log_expit,
    xlog1py,
    xlogy,
)
from functrans.ops.elementwise.special.errors import (
    erf,
    erfc,
    erfcinv,
    log_ndtr,
    ndtr,
    ndtri,
    ndtri_exp,
    owens_t,
)
from functrans.ops.elementwise.special.gamma import betaln, digamma, gamma, gammaln, poch
from functrans.ops.elementwise.special.incomplete import (
    betainc,
    betaincc,
    betainccinv,
    betaincinv,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
)
from functrans.ops.elementwise.trigonometric import arcsin, arctan, arctan2, sin, tan
from functrans.scipy.stats.distribution import Row, is_positive

EULER_GAMMA = 0.5772156649015329
LOG2 = math.log(2)
LOG_PI = math.log(math.pi)
LOG_SQRT_2_PI = 0.5 * math.log(2 * math.pi)
SQRT_2 = math.sqrt(2)


def _positive_axis(*shapes: Any) -> tuple[float, float]:
    return 0.0, np.inf


def _unit_interval(*shapes: Any) -> tuple[float, float]:
    return 0.0, 1.0


def _one(*shapes: Any) -> float:
    return 1.0


def _half(*shapes: Any) -> float:
    return 0.5


def _zero(*shapes: Any) -> float:
    return 0.0


def _always(*shapes: Any) -> bool:
    return True


_ON_POSITIVE: dict[str, Any] = {
    "support": _positive_axis, "within": _one, "valid": is_positive,
}  # fmt: skip
_ON_UNIT: dict[str, Any] = {"support": _unit_interval, "within": _half, "valid": is_positive}


def _real_axis(*shapes: Any) -> tuple[float, float]:
    return -np.inf, np.inf


_ON_REALS: dict[str, Any] = {"support": _real_axis, "within": _zero, "valid": is_positive}


def _log1mexp(x: Any) -> Any:
    """``log(1 - e**-x)`` for positive ``x``."""
    small = less(x, LOG2)
    near = log(-expm1(-select(small, x, 1.0)))
    return select(small, near, log1p(-exp(-select(small, 1.0, x))))


def _normal(x: Any) -> Any:
    return -0.5 * (x * x) - LOG_SQRT_2_PI


# -- on the real axis ------------------------------------------------------------------------------


def _laplace_cdf(x: Any) -> Any:
    tail = 0.5 * exp(-absolute(x))
    return select(greater(x, 0), 1 - tail, tail)


def _laplace_ppf(q: Any) -> Any:
    right = greater(q, 0.5)
    tail = log(2 * select(right, 1 - q, q))
    return select(right, -tail, tail)


def _student_logpdf(x: Any, df: Any) -> Any:
    front = log(poch(0.5 * df, 0.5)) - 0.5 * (log(df) + LOG_PI)
    return front - 0.5 * (df + 1) * log1p(x * x / df)


def _symmetric_power(x: Any, beta: Any) -> Any:
    """``abs(x)**beta``, with slope 0 at 0."""
    zero = equal(x, 0)
    return select(zero, 0, power(select(zero, 1, absolute(x)), beta))


def _symmetric_power_cdf(x: Any, beta: Any) -> Any:
    tail = 0.5 * gammaincc(1 / beta, _symmetric_power(x, beta))
    return select(greater(x, 0), 1 - tail, tail)


def _logistic_logpdf(x: Any) -> Any:
    y = -absolute(x)
    return y - 2 * log1p(exp(y))


def _hypsecant_logpdf(x: Any) -> Any:
    a = absolute(x)
    return LOG2 - LOG_PI - a - log1p(exp(-2 * a))


def _vonmises_mean_cosine(kappa: Any) -> Any:
    return i1e(kappa) / i0e(kappa)


_REALS = (
    Row(
        "norm", **_ON_REALS,
        logpdf=_normal, cdf=ndtr, sf=lambda x: ndtr(-x), logcdf=log_ndtr,
        logsf=lambda x: log_ndtr(-x), ppf=ndtri, isf=lambda q: -ndtri(q),
        mean=_zero, var=_one, entropy=lambda: LOG_SQRT_2_PI + 0.5,
    ),
    Row(
        "t", ("df",), **_ON_REALS,
        logpdf=_student_logpdf, cdf=lambda x, df: stdtr(df, x), sf=lambda x, df: stdtr(df, -x),
        ppf=lambda q, df: stdtrit(df, q), isf=lambda q, df: -stdtrit(df, q),
        mean=lambda df: select(greater(df, 1), 0.0, np.inf),
        var=lambda df: select(
            greater(df, 2), df / (select(greater(df, 2), df, 3) - 2),
            select(greater(df, 1), np.inf, np.nan),
        ),
        entropy=lambda df: (
            0.5 * (df + 1) * (digamma(0.5 * (df + 1)) - digamma(0.5 * df))
            + 0.5 * log(df) + betaln(0.5 * df, 0.5)
        ),
    ),
    Row(
        "laplace", **_ON_REALS,
        logpdf=lambda x: -LOG2 - absolute(x),
        cdf=_laplace_cdf, sf=lambda x: _laplace_cdf(-x),
        ppf=_laplace_ppf, isf=lambda q: -_laplace_ppf(q),
        mean=_zero, var=lambda: 2.0, entropy=lambda: 1 + LOG2,
    ),
    Row(
        "logistic", **_ON_REALS,
        logpdf=_logistic_logpdf, cdf=expit, sf=lambda x: expit(-x), logcdf=log_expit,
        logsf=lambda x: log_expit(-x), ppf=logit, isf=lambda q: -logit(q),
        mean=_zero, var=lambda: math.pi**2 / 3, entropy=lambda: 2.0,
    ),
    Row(
        "cauchy", **_ON_REALS,
        logpdf=lambda x: -LOG_PI - log1p(x * x),
        cdf=lambda x: arctan2(1.0, -x) / math.pi, sf=lambda x: arctan2(1.0, x) / math.pi,
        ppf=lambda q: tan(math.pi * q - math.pi / 2), isf=lambda q: tan(math.pi / 2 - math.pi * q),
        entropy=lambda: math.log(4 * math.pi),
    ),
    Row(
        "gumbel_r", **_ON_REALS,
        logpdf=lambda x: -x - exp(-x), logcdf=lambda x: -exp(-x), sf=lambda x: -expm1(-exp(-x)),
        ppf=lambda q: -log(-log(q)), isf=lambda q: -log(-log1p(-q)),
        mean=lambda: EULER_GAMMA, var=lambda: math.pi**2 / 6, entropy=lambda: EULER_GAMMA + 1,
    ),
    Row(
        "gumbel_l", **_ON_REALS,
        logpdf=lambda x: x - exp(x), cdf=lambda x: -expm1(-exp(x)), logsf=lambda x: -exp(x),
        ppf=lambda q: log(-log1p(-q)), isf=lambda q: log(-log(q)),
        mean=lambda: -EULER_GAMMA, var=lambda: math.pi**2 / 6, entropy=lambda: EULER_GAMMA + 1,
    ),
    Row(
        "hypsecant", **_ON_REALS,
        logpdf=_hypsecant_logpdf,
        cdf=lambda x: 2 / math.pi * arctan(exp(x)), sf=lambda x: 2 / math.pi * arctan(exp(-x)),
        ppf=lambda q: log(tan(math.pi / 2 * q)), isf=lambda q: -log(tan(math.pi / 2 * q)),
        mean=_zero, var=lambda: math.pi**2 / 4,
    ),
    Row(
        "moyal", **_ON_REALS,
        logpdf=lambda x: -0.5 * (x + exp(-x)) - LOG_SQRT_2_PI,
        cdf=lambda x: erfc(exp(-0.5 * x) / SQRT_2), sf=lambda x: erf(exp(-0.5 * x) / SQRT_2),
        ppf=lambda q: -log(2 * erfcinv(q) * erfcinv(q)),
        mean=lambda: LOG2 + EULER_GAMMA, var=lambda: math.pi**2 / 2,
    ),
    Row(
        "loggamma", ("c",), **_ON_REALS,
        logpdf=lambda x, c: c * x - exp(x) - gammaln(c),
        cdf=lambda x, c: gammainc(c, exp(x)), sf=lambda x, c: gammaincc(c, exp(x)),
        ppf=lambda q, c: log(gammaincinv(c, q)), isf=lambda q, c: log(gammainccinv(c, q)),
        mean=digamma,
    ),
    Row(
        "gennorm", ("beta",), **_ON_REALS,
        logpdf=lambda x, beta: (
            log(0.5 * beta) - gammaln(1 / beta) - _symmetric_power(x, beta)
        ),
        cdf=_symmetric_power_cdf, sf=lambda x, beta: _symmetric_power_cdf(-x, beta),
        mean=_zero, var=lambda beta: exp(gammaln(3 / beta) - gammaln(1 / beta)),
        entropy=lambda beta: 1 / beta - log(0.5 * beta) + gammaln(1 / beta),
    ),
    Row(
        "skewnorm", ("a",), support=_real_axis, within=_zero, valid=_always, tails=False,
        logpdf=lambda x, a: LOG2 + _normal(x) + log_ndtr(a * x),
        cdf=lambda x, a: ndtr(x) - 2 * owens_t(x, a),
        sf=lambda x, a: ndtr(-x) + 2 * owens_t(x, a),
        mean=lambda a: math.sqrt(2 / math.pi) * a / sqrt(1 + a * a),
        var=lambda a: 1 - 2 / math.pi * (a * a) / (1 + a * a),
    ),
    Row(
        "exponnorm", ("K",), **_ON_REALS,
        logpdf=lambda x, K: 0.5 / (K * K) - x / K + log_ndtr(x - 1 / K) - log(K),
        mean=lambda K: K, var=lambda K: 1 + K * K,
    ),
    Row(
        "johnsonsu", ("a", "b"), support=_real_axis, within=_zero,
        valid=lambda a, b: is_positive(b),
        logpdf=lambda x, a, b: log(b) - 0.5 * log1p(x * x) + _normal(a + b * arcsinh(x)),
        cdf=lambda x, a, b: ndtr(a + b * arcsinh(x)),
        sf=lambda x, a, b: ndtr(-a - b * arcsinh(x)),
        ppf=lambda q, a, b: sinh((ndtri(q) - a) / b),
        isf=lambda q, a, b: sinh((-ndtri(q) - a) / b),
    ),
    Row(
        "vonmises", ("kappa",), support=_real_axis, within=_zero,
        valid=lambda kappa: less_equal(0, kappa),
        logpdf=lambda x, kappa: (
            -2 * kappa * sin(0.5 * x) * sin(0.5 * x) - 2 * LOG_SQRT_2_PI - log(i0e(kappa))
        ),
        entropy=lambda kappa: (
            kappa * (1 - _vonmises_mean_cosine(kappa)) + 2 * LOG_SQRT_2_PI + log(i0e(kappa))
        ),
    ),
)  # fmt: skip

# -- on the positive axis --------------------------------------------------------------------------


def _f_logpdf(x: Any, n: Any, d: Any) -> Any:
    front = 0.5 * d * log(d) + 0.5 * n * log(n) + xlogy(0.5 * n - 1, x)
    return front - (0.5 * (n + d) * log(d + n * x) + betaln(0.5 * n, 0.5 * d))


def _f_mean(n: Any, d: Any) -> Any:
    finite = greater(d, 2)
    return select(finite, d / (select(finite, d, 3) - 2), np.inf)


def _f_var(n: Any, d: Any) -> Any:
    finite = greater(d, 4)
    m = select(finite, d, 5)
    return select(finite, 2 * m * m * (n + m - 2) / (n * (m - 2) * (m - 2) * (m - 4)), np.inf)


def _beyond_one(value: Any, a: Any, least: float) -> Any:
    """A moment that is finite for large parameters only."""
    return select(greater(a, least), value(select(greater(a, least), a, least + 1)), np.inf)


def _inverse_gaussian_parts(x: Any, mu: Any) -> tuple[Any, Any, Any]:
    root = 1 / sqrt(x)
    return root * (x / mu - 1), 2 / mu + log_ndtr(-root * (x / mu + 1)), root


def _inverse_gaussian_logcdf(x: Any, mu: Any) -> Any:
    point, other, _ = _inverse_gaussian_parts(x, mu)
    direct = log_ndtr(point)
    return direct + log1p(exp(other - direct))


def _inverse_gaussian_logsf(x: Any, mu: Any) -> Any:
    point, other, _ = _inverse_gaussian_parts(x, mu)
    direct = log_ndtr(-point)
    return direct + log1p(-exp(other - direct))


def _inverse_gaussian_logpdf(x: Any, mu: Any) -> Any:
    off = x / mu - 1
    return -LOG_SQRT_2_PI - 1.5 * log(x) - off * off / (2 * x)


def _noncentral_logpdf(x: Any, df: Any, nc: Any) -> Any:
    order = 0.5 * df - 1
    off = sqrt(x) - sqrt(nc)
    bessel = log(0.5 * ive(order, sqrt(x) * sqrt(nc)))
    return xlogy(0.5 * order, x / nc) - 0.5 * (off * off) + bessel


_POSITIVE = (
    Row(
        "expon", **_ON_POSITIVE,
        logpdf=lambda x: -x, cdf=lambda x: -expm1(-x), logcdf=_log1mexp, sf=lambda x: exp(-x),
        logsf=lambda x: -x, ppf=lambda q: -log1p(-q), isf=lambda q: -log(q),
        mean=_one, var=_one, entropy=_one,
    ),
    Row(
        "gamma", ("a",), **_ON_POSITIVE,
        logpdf=lambda x, a: xlogy(a - 1, x) - x - gammaln(a),
        cdf=lambda x, a: gammainc(a, x), sf=lambda x, a: gammaincc(a, x),
        ppf=lambda q, a: gammaincinv(a, q), isf=lambda q, a: gammainccinv(a, q),
        mean=lambda a: a, var=lambda a: a,
        entropy=lambda a: a + gammaln(a) + (1 - a) * digamma(a),
    ),
    Row(
        "chi2", ("df",), **_ON_POSITIVE,
        logpdf=lambda x, df: (
            xlogy(0.5 * df - 1, x) - 0.5 * x - gammaln(0.5 * df) - 0.5 * LOG2 * df
        ),
        cdf=lambda x, df: chdtr(df, x), sf=lambda x, df: chdtrc(df, x),
        ppf=lambda q, df: 2 * gammaincinv(0.5 * df, q), isf=lambda q, df: chdtri(df, q),
        mean=lambda df: df, var=lambda df: 2 * df,
        entropy=lambda df: (
            0.5 * df + LOG2 + gammaln(0.5 * df) + (1 - 0.5 * df) * digamma(0.5 * df)
        ),
    ),
    Row(
        "chi", ("df",), **_ON_POSITIVE,
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
        "f", ("dfn", "dfd"), **_ON_POSITIVE,
        logpdf=_f_logpdf, cdf=lambda x, n, d: fdtr(n, d, x), sf=lambda x, n, d: fdtrc(n, d, x),
        ppf=lambda q, n, d: fdtri(n, d, q), mean=_f_mean, var=_f_var,
    ),
    Row(
        "lognorm", ("s",), **_ON_POSITIVE, open=True,
        logpdf=lambda x, s: -log(x) - log(s) + _normal(log(x) / s),
        cdf=lambda x, s: ndtr(log(x) / s), sf=lambda x, s: ndtr(-log(x) / s),
        logcdf=lambda x, s: log_ndtr(log(x) / s), logsf=lambda x, s: log_ndtr(-log(x) / s),
        ppf=lambda q, s: exp(s * ndtri(q)), isf=lambda q, s: exp(-s * ndtri(q)),
        mean=lambda s: exp(0.5 * (s * s)), var=lambda s: expm1(s * s) * exp(s * s),
        entropy=lambda s: 0.5 + LOG_SQRT_2_PI + log(s),
    ),
    Row(
        "weibull_min", ("c",), **_ON_POSITIVE,
        logpdf=lambda x, c: log(c) + xlogy(c - 1, x) - power(x, c),
        cdf=lambda x, c: -expm1(-power(x, c)), logsf=lambda x, c: -power(x, c),
        ppf=lambda q, c: power(-log1p(-q), 1 / c), isf=lambda q, c: power(-log(q), 1 / c),
        mean=lambda c: gamma(1 + 1 / c),
        var=lambda c: gamma(1 + 2 / c) - gamma(1 + 1 / c) * gamma(1 + 1 / c),
        entropy=lambda c: EULER_GAMMA * (1 - 1 / c) - log(c) + 1,
    ),
    Row(
        "halfnorm", **_ON_POSITIVE,
        logpdf=lambda x: LOG2 + _normal(x), cdf=lambda x: erf(x / SQRT_2),
        sf=lambda x: erfc(x / SQRT_2), logsf=lambda x: LOG2 + log_ndtr(-x),
        ppf=lambda q: ndtri(0.5 * (1 + q)), isf=lambda q: -ndtri(0.5 * q),
        mean=lambda: math.sqrt(2 / math.pi), var=lambda: 1 - 2 / math.pi,
        entropy=lambda: 0.5 * math.log(math.pi / 2) + 0.5,
    ),
    Row(
        "halfcauchy", **_ON_POSITIVE,
        logpdf=lambda x: LOG2 - LOG_PI - log1p(x * x),
        cdf=lambda x: 2 / math.pi * arctan(x), sf=lambda x: 2 / math.pi * arctan2(1.0, x),
        ppf=lambda q: tan(math.pi / 2 * q), isf=lambda q: 1 / tan(math.pi / 2 * q),
        entropy=lambda: math.log(2 * math.pi),
    ),
    Row(
        "halflogistic", **_ON_POSITIVE,
        logpdf=lambda x: LOG2 - x - 2 * log1p(exp(-x)), sf=lambda x: 2 * expit(-x),
        cdf=lambda x: -expm1(-x) / (1 + exp(-x)), ppf=lambda q: log1p(q) - log1p(-q),
        mean=lambda: 2 * LOG2, var=lambda: math.pi**2 / 3 - 4 * LOG2**2,
        entropy=lambda: 2 - LOG2,
    ),
    Row(
        "invgamma", ("a",), **_ON_POSITIVE, open=True,
        logpdf=lambda x, a: -(a + 1) * log(x) - gammaln(a) - 1 / x,
        cdf=lambda x, a: gammaincc(a, 1 / x), sf=lambda x, a: gammainc(a, 1 / x),
        ppf=lambda q, a: 1 / gammainccinv(a, q), isf=lambda q, a: 1 / gammaincinv(a, q),
        mean=lambda a: _beyond_one(lambda a: 1 / (a - 1), a, 1),
        var=lambda a: _beyond_one(lambda a: 1 / ((a - 1) * (a - 1) * (a - 2)), a, 2),
    ),
    Row(
        "invgauss", ("mu",), **_ON_POSITIVE, open=True,
        logpdf=_inverse_gaussian_logpdf,
        logcdf=_inverse_gaussian_logcdf, logsf=_inverse_gaussian_logsf,
        mean=lambda mu: mu, var=lambda mu: mu * mu * mu,
    ),
    Row(
        "rayleigh", **_ON_POSITIVE,
        logpdf=lambda x: log(x) - 0.5 * (x * x), cdf=lambda x: -expm1(-0.5 * (x * x)),
        logsf=lambda x: -0.5 * (x * x), ppf=lambda q: sqrt(-2 * log1p(-q)),
        isf=lambda q: sqrt(-2 * log(q)),
        mean=lambda: math.sqrt(math.pi / 2), var=lambda: 2 - math.pi / 2,
        entropy=lambda: 0.5 * EULER_GAMMA + 1 - 0.5 * LOG2,
    ),
    Row(
        "maxwell", **_ON_POSITIVE,
        logpdf=lambda x: 0.5 * (LOG2 - LOG_PI) + 2 * log(x) - 0.5 * (x * x),
        cdf=lambda x: gammainc(1.5, 0.5 * (x * x)), sf=lambda x: gammaincc(1.5, 0.5 * (x * x)),
        ppf=lambda q: sqrt(2 * gammaincinv(1.5, q)), isf=lambda q: sqrt(2 * gammainccinv(1.5, q)),
        mean=lambda: 2 * math.sqrt(2 / math.pi), var=lambda: 3 - 8 / math.pi,
        entropy=lambda: EULER_GAMMA + 0.5 * math.log(2 * math.pi) - 0.5,
    ),
    Row(
        "gengamma", ("a", "c"), support=_positive_axis, within=_one,
        valid=lambda a, c: is_positive(a) & ~equal(c, 0),
        logpdf=lambda x, a, c: (
            log(absolute(c)) + xlogy(c * a - 1, x) - power(x, c) - gammaln(a)
        ),
    ),
    Row(
        "lomax", ("c",), **_ON_POSITIVE,
        logpdf=lambda x, c: log(c) - (c + 1) * log1p(x),
        cdf=lambda x, c: -expm1(-c * log1p(x)), logsf=lambda x, c: -c * log1p(x),
        ppf=lambda q, c: expm1(-log1p(-q) / c), isf=lambda q, c: expm1(-log(q) / c),
        mean=lambda c: _beyond_one(lambda c: 1 / (c - 1), c, 1),
        entropy=lambda c: 1 + 1 / c - log(c),
    ),
    Row(
        "fisk", ("c",), **_ON_POSITIVE,
        logpdf=lambda x, c: log(c) + (c - 1) * log(x) - 2 * log1p(power(x, c)),
        cdf=lambda x, c: expit(c * log(x)), sf=lambda x, c: expit(-c * log(x)),
        ppf=lambda q, c: exp(logit(q) / c), isf=lambda q, c: exp(-logit(q) / c),
        entropy=lambda c: 2 - log(c),
    ),
    Row(
        "nakagami", ("nu",), **_ON_POSITIVE,
        logpdf=lambda x, nu: (
            LOG2 + xlogy(nu, nu) - gammaln(nu) + xlogy(2 * nu - 1, x) - nu * (x * x)
        ),
        cdf=lambda x, nu: gammainc(nu, nu * (x * x)), sf=lambda x, nu: gammaincc(nu, nu * (x * x)),
        ppf=lambda q, nu: sqrt(gammaincinv(nu, q) / nu),
        isf=lambda q, nu: sqrt(gammainccinv(nu, q) / nu),
        mean=lambda nu: poch(nu, 0.5) / sqrt(nu),
    ),
    Row(
        "levy", **_ON_POSITIVE, open=True,
        logpdf=lambda x: -LOG_SQRT_2_PI - 1.5 * log(x) - 0.5 / x,
        cdf=lambda x: erfc(sqrt(0.5 / x)), sf=lambda x: erf(sqrt(0.5 / x)),
        ppf=lambda q: 1 / (ndtri(0.5 * q) * ndtri(0.5 * q)),
    ),
    Row(
        "betaprime", ("a", "b"), **_ON_POSITIVE,
        logpdf=lambda x, a, b: xlogy(a - 1, x) - xlog1py(a + b, x) - betaln(a, b),
        cdf=lambda x, a, b: betainc(a, b, x / (1 + x)),
        sf=lambda x, a, b: betainc(b, a, 1 / (1 + x)),
        mean=lambda a, b: a * _beyond_one(lambda b: 1 / (b - 1), b, 1),
    ),
    Row(
        "rice", ("b",), support=_positive_axis, within=_one,
        valid=lambda b: less_equal(0, b),
        logpdf=lambda x, b: log(x) - 0.5 * (x - b) * (x - b) + log(i0e(x * b)),
        cdf=lambda x, b: chndtr(x * x, 2.0, b * b), sf=lambda x, b: 1 - chndtr(x * x, 2.0, b * b),
        ppf=lambda q, b: sqrt(chndtrix(q, 2.0, b * b)),
    ),
    Row(
        "ncx2", ("df", "nc"), **_ON_POSITIVE, open=True,
        logpdf=_noncentral_logpdf, cdf=lambda x, df, nc: chndtr(x, df, nc),
        ppf=lambda q, df, nc: chndtrix(q, df, nc),
        mean=lambda df, nc: df + nc, var=lambda df, nc: 2 * (df + 2 * nc),
    ),
)  # fmt: skip

# -- on an interval --------------------------------------------------------------------------------


def _beta_entropy(a: Any, b: Any) -> Any:
    rest = (a - 1) * digamma(a) + (b - 1) * digamma(b)
    return betaln(a, b) - rest + (a + b - 2) * digamma(a + b)


def _log_difference(x: Any, y: Any) -> Any:
    """``log(e**x - e**y)``."""
    return x + log1p(-exp(y - x))


def _log_normal_mass(a: Any, b: Any) -> Any:
    """The logarithm of the normal probability between two points, on any side of 0."""
    right = greater(a, 0)
    left = less_equal(b, 0)
    one_sided = right | left
    # on one side, from the tail; the logarithms are the smaller the farther out
    far = select(one_sided, select(right, -b, a), -1.0)
    near = log_ndtr(select(one_sided, select(right, -a, b), 0.0))
    bounded = greater(far, -np.inf)
    tail = select(bounded, _log_difference(near, log_ndtr(select(bounded, far, -1.0))), near)
    centre = log1p(-ndtr(select(one_sided, -1.0, a)) - ndtr(-select(one_sided, 1.0, b)))
    return select(one_sided, tail, centre)


def _truncated_ppf(q: Any, a: Any, b: Any) -> Any:
    """From the left end where the interval is on the left of 0, else from the right end."""
    left = less(a, 0)
    start = log_ndtr(select(left, a, -b))
    share = log(select(left, q, 1 - q)) + _log_normal_mass(a, b)
    point = ndtri_exp(logaddexp(start, share))
    return select(left, point, -point)


def _middle(a: Any, b: Any) -> Any:
    """A point between two ends, which may be infinite."""
    low = select(greater(a, -np.inf), a, minimum(b, 0.0) - 1)
    high = select(less(b, np.inf), b, maximum(low, 0.0) + 1)
    return 0.5 * (low + high)


def _triangular_logpdf(x: Any, c: Any) -> Any:
    left = less(x, c)
    height = select(left, x / select(left, c, 1), (1 - x) / select(left, 1, _or_half(1 - c)))
    return log(2 * height)


def _or_half(x: Any) -> Any:
    return select(equal(x, 0), 0.5, x)


_INTERVALS = (
    Row(
        "uniform", **_ON_UNIT,
        logpdf=lambda x: 0.0 * x, cdf=lambda x: x, sf=lambda x: 1 - x, ppf=lambda q: q,
        isf=lambda q: 1 - q, mean=_half, var=lambda: 1 / 12, entropy=_zero,
    ),
    Row(
        "beta", ("a", "b"), **_ON_UNIT,
        logpdf=lambda x, a, b: xlog1py(b - 1, -x) + xlogy(a - 1, x) - betaln(a, b),
        cdf=lambda x, a, b: betainc(a, b, x), sf=lambda x, a, b: betaincc(a, b, x),
        ppf=lambda q, a, b: betaincinv(a, b, q), isf=lambda q, a, b: betainccinv(a, b, q),
        mean=lambda a, b: a / (a + b),
        var=lambda a, b: a * b / ((a + b) * (a + b) * (a + b + 1)), entropy=_beta_entropy,
    ),
    Row(
        "powerlaw", ("a",), **_ON_UNIT,
        logpdf=lambda x, a: log(a) + xlogy(a - 1, x), cdf=lambda x, a: power(x, a),
        logcdf=lambda x, a: a * log(x), sf=lambda x, a: -expm1(a * log(x)),
        ppf=lambda q, a: power(q, 1 / a), mean=lambda a: a / (a + 1),
        entropy=lambda a: 1 - 1 / a - log(a),
    ),
    Row(
        "arcsine", **_ON_UNIT,
        logpdf=lambda x: -LOG_PI - 0.5 * (log(x) + log1p(-x)),
        cdf=lambda x: 2 / math.pi * arcsin(sqrt(x)),
        ppf=lambda q: power(sin(math.pi / 2 * q), 2.0), mean=_half, var=lambda: 1 / 8,
    ),
    Row(
        "triang", ("c",), support=_unit_interval, within=_half,
        valid=lambda c: less_equal(0, c) & less_equal(c, 1),
        logpdf=_triangular_logpdf, mean=lambda c: (c + 1) / 3,
        var=lambda c: (1 - c + c * c) / 18, entropy=lambda c: 0.5 - LOG2 + 0 * c,
    ),
    Row(
        "pareto", ("b",), support=lambda b: (1.0, np.inf), within=lambda b: 2.0, valid=is_positive,
        logpdf=lambda x, b: log(b) - (b + 1) * log(x),
        cdf=lambda x, b: -expm1(-b * log(x)), logsf=lambda x, b: -b * log(x),
        ppf=lambda q, b: exp(-log1p(-q) / b), isf=lambda q, b: power(q, -1 / b),
        mean=lambda b: _beyond_one(lambda b: b / (b - 1), b, 1),
        var=lambda b: _beyond_one(lambda b: b / ((b - 2) * (b - 1) * (b - 1)), b, 2),
        entropy=lambda b: 1 + 1 / b - log(b),
    ),
    Row(
        "truncnorm", ("a", "b"), support=lambda a, b: (a, b), within=_middle, valid=less,
        logpdf=lambda x, a, b: _normal(x) - _log_normal_mass(a, b),
        logcdf=lambda x, a, b: _log_normal_mass(a, x) - _log_normal_mass(a, b),
        logsf=lambda x, a, b: _log_normal_mass(x, b) - _log_normal_mass(a, b),
        ppf=_truncated_ppf,
    ),
    Row(
        "truncexpon", ("b",), support=lambda b: (0.0, b), within=lambda b: 0.5 * b,
        valid=is_positive,
        logpdf=lambda x, b: -x - log(-expm1(-b)), cdf=lambda x, b: expm1(-x) / expm1(-b),
        ppf=lambda q, b: -log1p(q * expm1(-b)),
    ),
    Row(
        "loguniform", ("a", "b"), support=lambda a, b: (a, b), within=lambda a, b: 0.5 * (a + b),
        valid=lambda a, b: greater(a, 0) & less(a, b),
        logpdf=lambda x, a, b: -log(x) - log(log(b) - log(a)),
        cdf=lambda x, a, b: (log(x) - log(a)) / (log(b) - log(a)),
        ppf=lambda q, a, b: exp(log(a) + q * (log(b) - log(a))),
        mean=lambda a, b: (b - a) / (log(b) - log(a)),
    ),
    Row(
        "genextreme", ("c",),
        support=lambda c: (
            select(less(c, 0), 1 / _or_half(c), -np.inf),
            select(greater(c, 0), 1 / _or_half(c), np.inf),
        ),
        within=_zero, valid=lambda c: less(absolute(c), np.inf),
        logpdf=lambda x, c: (
            -exp(-_generalised(x, -c)) - _generalised(x, -c) + c * _generalised(x, -c)
        ),
        logcdf=lambda x, c: -exp(-_generalised(x, -c)),
        sf=lambda x, c: -expm1(-exp(-_generalised(x, -c))),
        ppf=lambda q, c: -boxcox(-log(q), c), isf=lambda q, c: -boxcox(-log1p(-q), c),
    ),
    Row(
        "genpareto", ("c",),
        support=lambda c: (0.0, select(less(c, 0), -1 / _or_half(c), np.inf)),
        within=lambda c: 0.5 / (1 + absolute(c)), valid=lambda c: less(absolute(c), np.inf),
        logpdf=lambda x, c: -(c + 1) * _generalised(x, c),
        logsf=lambda x, c: -_generalised(x, c), cdf=lambda x, c: -expm1(-_generalised(x, c)),
        ppf=lambda q, c: -boxcox1p(-q, -c), isf=lambda q, c: -boxcox(q, -c),
        entropy=lambda c: 1 + c,
    ),
)  # fmt: skip


def _generalised(x: Any, c: Any) -> Any:
    """``log(1 + c x) / c``, which is ``x`` for ``c == 0``."""
    return x * log1prel_n(c * x, n=0)


ROWS: tuple[Row, ...] = (*_REALS, *_POSITIVE, *_INTERVALS)
