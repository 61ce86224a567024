"""Continuous distributions on the real line, as table rows in SciPy's standard form.

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
from functrans.ops.elementwise.exponential import exp, expit, expm1, log, log1p, logaddexp, logit
from functrans.ops.elementwise.hyperbolic import arcsinh, sinh
from functrans.ops.elementwise.power import power, sqrt
from functrans.ops.elementwise.special.bessel import i0e, i1e
from functrans.ops.elementwise.special.distributions import stdtr, stdtrit, tklmbda
from functrans.ops.elementwise.special.entropy import log_expit
from functrans.ops.elementwise.special.errors import (
    erf,
    erfc,
    erfcinv,
    erfinv,
    ndtr,
    ndtri,
    owens_t,
)
from functrans.ops.elementwise.special.gamma import betaln, digamma, gammaln, gammaln_difference
from functrans.ops.elementwise.special.incomplete import (
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
)
from functrans.ops.elementwise.special.log_ndtr import log_ndtr
from functrans.ops.elementwise.trigonometric import arctan, arctan2, sin, tan
from functrans.scipy.stats.distribution import Row, is_positive
from functrans.scipy.stats.standard import (
    EULER_GAMMA,
    LOG2,
    LOG_PI,
    LOG_SQRT_2_PI,
    ON_REALS,
    SQRT_2,
    log1p_square,
    log_i0e,
    log_shifted_tail,
    normal_logpdf,
    one,
    real_axis,
    tan_of_share,
    vanishing,
    zero,
)


def _is_finite(shape: Any) -> Any:
    return less(absolute(shape), np.inf)


def _laplace_cdf(x: Any) -> Any:
    # selected, not `absolute`, whose slope at 0 is 0
    right = greater(x, 0)
    tail = 0.5 * exp(select(right, -x, x))
    return select(right, 1 - tail, tail)


def _hypsecant_cdf(x: Any) -> Any:
    right = greater(x, 0)
    tail = 2 / math.pi * arctan(exp(select(right, -x, x)))
    return select(right, 1 - tail, tail)


def _laplace_ppf(q: Any) -> Any:
    right = greater(q, 0.5)
    tail = log(2 * select(right, 1 - q, q))
    return select(right, -tail, tail)


def _student_entropy(df: Any) -> Any:
    many = greater(df, 100)
    few = select(many, 100, df)
    exact = 0.5 * (few + 1) * (digamma(0.5 * (few + 1)) - digamma(0.5 * few))
    exact = exact + 0.5 * log(few) + betaln(0.5 * few, 0.5)
    # that of the normal distribution, and a series in 1 / df
    r = 1 / select(many, df, 100)
    series = r * (1 + r * (1 / 4 + r * (-1 / 6 + r * (-1 / 8 + r * (3 / 10 + r / 4)))))
    return select(many, 0.5 + LOG_SQRT_2_PI + series, exact)


def _student_logpdf(x: Any, df: Any) -> Any:
    normal = equal(df, np.inf)
    df = select(normal, 1, df)
    front = gammaln_difference(0.5 * df, 0.5) - 0.5 * (log(df) + LOG_PI)
    density = front - 0.5 * (df + 1) * log1p_square(x / sqrt(df))
    return select(normal, normal_logpdf(x), density)


def _symmetric_power(x: Any, beta: Any) -> Any:
    """``abs(x)**beta``, with slope 0 at 0, where only a square is curved."""
    zero = equal(x, 0)
    square = select(equal(beta, 2), x * x, 0)
    return select(zero, square, power(select(zero, 1, absolute(x)), beta))


def _symmetric_power_cdf(x: Any, beta: Any) -> Any:
    # near 0, where the power may underflow, by the first term of the incomplete gamma function
    argument = _symmetric_power(x, beta)
    near = less(argument, 1e-17)
    tail = 0.5 * gammaincc(1 / beta, select(near, 1.0, vanishing(argument)))
    middle = 0.5 + 0.5 * x * exp(-gammaln(1 + 1 / beta))
    return select(near, middle, select(greater(x, 0), 1 - tail, tail))


def _pearson_logpdf(x: Any, skew: Any) -> Any:
    """The Pearson type III log-density, stable for small skewness.

    With ``a = 4 / skew**2`` and ``u = skew x / 2``, it is ``a (log1p(u) - u) - log1p(u)`` plus the
    correction to Stirling's formula for ``gammaln(a)``.
    """
    u = 0.5 * skew * x
    return -0.5 * x * x * _log1p_remainder(u) - log1p(u) - LOG_SQRT_2_PI - _stirling_rest(skew)


def _log1p_remainder(u: Any) -> Any:
    """``2 (u - log1p(u)) / u**2``, with its limit 1 at 0."""
    small = less(absolute(u), 0.2)
    near, away = select(small, u, 0), select(small, 1, u)
    series: Any = 0
    for k in range(24, 1, -1):
        series = 2 / k - near * series
    return select(small, series, 2 * (away - log1p(away)) / (away * away))


def _stirling_rest(skew: Any) -> Any:
    """``gammaln(a) - (a - 1/2) log(a) + a - log(2 pi) / 2`` for ``a = 4 / skew**2``."""
    inverse = 0.25 * skew * skew
    large = less(inverse, 0.08)
    near, a = select(large, inverse, 0), 1 / select(large, 1, inverse)
    square = near * near
    series: Any = 0
    # B(2n) / (2n (2n - 1)) for the Bernoulli numbers B (NIST DLMF, 5.11.1)
    for term in (-3617 / 122400, 1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360,
                 1 / 12):  # fmt: skip
        series = square * series + term
    return select(large, near * series, gammaln(a) - (a - 0.5) * log(a) + a - LOG_SQRT_2_PI)


def _pearson_support(skew: Any) -> tuple[Any, Any]:
    end = -2 / select(equal(skew, 0), 1, skew)
    return select(greater(skew, 0), end, -np.inf), select(less(skew, 0), end, np.inf)


def _tukey_support(lam: Any) -> tuple[Any, Any]:
    bounded = greater(lam, 0)
    end = select(bounded, 1 / select(bounded, lam, 1), np.inf)
    return -end, end


def _tukey_logpdf(x: Any, lam: Any) -> Any:
    # q by symmetry, because 1 - p would lose the digits of tail probabilities
    p, q = tklmbda(x, lam), tklmbda(-x, lam)
    return -log(power(p, lam - 1) + power(q, lam - 1))


_UNDERFLOW = -700.0
"""The exponential function of lesser numbers may underflow."""


def _variate(x: Any) -> Any:
    """``exp(x)``, held before it overflows, where the slope of a share would be NaN."""
    return exp(minimum(x, 80.0))


def _log_gamma_cdf(x: Any, c: Any) -> Any:
    leading = exp(c * x - gammaln(c + 1))
    return select(less(x, _UNDERFLOW), leading, gammainc(c, _variate(x)))


def _log_gamma_quantile(log_share: Any, c: Any, argument: Any) -> Any:
    leading = (log_share + gammaln(c + 1)) / c
    return select(less(leading, _UNDERFLOW), leading, log(argument))


def _mean_bend(kappa: Any) -> Any:
    """``kappa * (1 - I1(kappa) / I0(kappa))``, for large values as a series."""
    many = greater(kappa, 1000)
    few, r = select(many, 1.0, kappa), 1 / select(many, kappa, 1000.0)
    series = 0.5 + r * (1 / 8 + r * (1 / 8 + r * (25 / 128 + r * (13 / 32))))
    return select(many, series, few * (1 - i1e(few) / i0e(few)))


def _cauchy_isf(q: Any) -> Any:
    central = less(absolute(q - 0.5), 0.25)
    nearer = math.pi * select(less(q, 0.5), q, q - 1)
    return select(central, tan(math.pi * (0.5 - q)), 1 / tan(nearer))


ROWS: tuple[Row, ...] = (
    Row(
        "norm", **ON_REALS,
        logpdf=normal_logpdf, cdf=ndtr, sf=lambda x: ndtr(-x), logcdf=log_ndtr,
        logsf=lambda x: log_ndtr(-x), ppf=ndtri, isf=lambda q: -ndtri(q),
        mean=zero, var=one, entropy=lambda: LOG_SQRT_2_PI + 0.5,
    ),
    Row(
        "t", ("df",), **ON_REALS,
        logpdf=_student_logpdf, cdf=lambda x, df: stdtr(df, x), sf=lambda x, df: stdtr(df, -x),
        ppf=lambda q, df: stdtrit(df, q), isf=lambda q, df: -stdtrit(df, q),
        mean=lambda df: select(greater(df, 1), 0.0, np.inf),
        var=lambda df: select(
            greater(df, 2), 1 / (1 - 2 / select(greater(df, 2), df, 3)),
            select(greater(df, 1), np.inf, np.nan),
        ),
        entropy=_student_entropy,
    ),
    Row(
        "laplace", **ON_REALS,
        logpdf=lambda x: -LOG2 - absolute(x),
        cdf=_laplace_cdf, sf=lambda x: _laplace_cdf(-x),
        ppf=_laplace_ppf, isf=lambda q: -_laplace_ppf(q),
        mean=zero, var=lambda: 2.0, entropy=lambda: 1 + LOG2,
    ),
    Row(
        "logistic", **ON_REALS,
        logpdf=lambda x: -2 * logaddexp(0.5 * x, -0.5 * x),
        cdf=expit, sf=lambda x: expit(-x), logcdf=log_expit, logsf=lambda x: log_expit(-x),
        ppf=logit, isf=lambda q: -logit(q),
        mean=zero, var=lambda: math.pi**2 / 3, entropy=lambda: 2.0,
    ),
    Row(
        "cauchy", **ON_REALS,
        logpdf=lambda x: -LOG_PI - log1p_square(x),
        cdf=lambda x: arctan2(1.0, -x) / math.pi, sf=lambda x: arctan2(1.0, x) / math.pi,
        ppf=lambda q: -_cauchy_isf(q), isf=_cauchy_isf,
        mean=lambda: np.nan, var=lambda: np.nan, entropy=lambda: math.log(4 * math.pi),
    ),
    Row(
        "gumbel_r", **ON_REALS,
        logpdf=lambda x: -x - exp(-x), logcdf=lambda x: -exp(-x),
        sf=lambda x: -expm1(-vanishing(exp(-x))),
        ppf=lambda q: -log(-log(q)), isf=lambda q: -log(-log1p(-q)),
        mean=lambda: EULER_GAMMA, var=lambda: math.pi**2 / 6, entropy=lambda: EULER_GAMMA + 1,
    ),
    Row(
        "hypsecant", **ON_REALS,
        logpdf=lambda x: LOG2 - LOG_PI - logaddexp(x, -x),
        cdf=_hypsecant_cdf, sf=lambda x: _hypsecant_cdf(-x),
        ppf=lambda q: log(tan_of_share(q)), isf=lambda q: -log(tan_of_share(q)),
        mean=zero, var=lambda: math.pi**2 / 4,
    ),
    Row(
        "moyal", **ON_REALS,
        logpdf=lambda x: -0.5 * (x + exp(-x)) - LOG_SQRT_2_PI,
        cdf=lambda x: erfc(vanishing(exp(-0.5 * x)) / SQRT_2),
        sf=lambda x: erf(vanishing(exp(-0.5 * x)) / SQRT_2),
        ppf=lambda q: -log(2 * erfcinv(q) * erfcinv(q)),
        isf=lambda q: -log(2 * erfinv(q) * erfinv(q)),
        mean=lambda: LOG2 + EULER_GAMMA, var=lambda: math.pi**2 / 2,
    ),
    Row(
        "loggamma", ("c",), **ON_REALS,
        logpdf=lambda x, c: c * x - exp(x) - gammaln(c),
        cdf=_log_gamma_cdf, sf=lambda x, c: select(
            less(x, _UNDERFLOW), 1 - _log_gamma_cdf(x, c), gammaincc(c, _variate(x))
        ),
        ppf=lambda q, c: _log_gamma_quantile(log(q), c, gammaincinv(c, q)),
        isf=lambda q, c: _log_gamma_quantile(log1p(-q), c, gammainccinv(c, q)),
        mean=digamma,
    ),
    Row(
        "gennorm", ("beta",), **ON_REALS,
        logpdf=lambda x, beta: (
            log(0.5 * beta) - gammaln(1 / beta) - _symmetric_power(x, beta)
        ),
        cdf=_symmetric_power_cdf, sf=lambda x, beta: _symmetric_power_cdf(-x, beta),
        mean=zero, var=lambda beta: exp(gammaln(3 / beta) - gammaln(1 / beta)),
        entropy=lambda beta: 1 / beta - log(0.5 * beta) + gammaln(1 / beta),
    ),
    Row(
        "skewnorm", ("a",), support=real_axis, within=zero, valid=_is_finite, tails=False,
        logpdf=lambda x, a: LOG2 + normal_logpdf(x) + log_ndtr(a * x),
        # differences, of which rounding would leave less than 0 in a tail
        cdf=lambda x, a: maximum(ndtr(x) - 2 * owens_t(x, a), 0.0),
        sf=lambda x, a: maximum(ndtr(-x) + 2 * owens_t(x, a), 0.0),
        mean=lambda a: math.sqrt(2 / math.pi) * a / sqrt(1 + a * a),
        var=lambda a: 1 - 2 / math.pi * (a * a) / (1 + a * a),
    ),
    Row(
        "exponnorm", ("K",), **ON_REALS,
        logpdf=lambda x, K: log_shifted_tail(x, 1 / K) - log(K),
        mean=lambda K: K, var=lambda K: 1 + K * K,
    ),
    Row(
        "johnsonsu", ("a", "b"), support=real_axis, within=zero,
        valid=lambda a, b: is_positive(b) & equal(a, a),
        logpdf=lambda x, a, b: log(b) - 0.5 * log1p(x * x) + normal_logpdf(a + b * arcsinh(x)),
        cdf=lambda x, a, b: ndtr(a + b * arcsinh(x)),
        sf=lambda x, a, b: ndtr(-a - b * arcsinh(x)),
        ppf=lambda q, a, b: sinh((ndtri(q) - a) / b),
        isf=lambda q, a, b: sinh((-ndtri(q) - a) / b),
    ),
    Row(
        "pearson3", ("skew",), support=_pearson_support, within=zero, valid=_is_finite, open=True,
        logpdf=_pearson_logpdf, mean=zero, var=one,
    ),
    Row(
        "tukeylambda", ("lam",), support=_tukey_support, within=zero, valid=_is_finite, open=True,
        logpdf=_tukey_logpdf, cdf=lambda x, lam: tklmbda(x, lam),
        sf=lambda x, lam: tklmbda(-x, lam), mean=zero,
    ),
    Row(
        "vonmises", ("kappa",), support=real_axis, within=zero,
        valid=lambda kappa: less_equal(0, kappa),
        logpdf=lambda x, kappa: (
            -2 * kappa * sin(0.5 * x) * sin(0.5 * x) - 2 * LOG_SQRT_2_PI - log_i0e(kappa)
        ),
        mean=zero, entropy=lambda kappa: (
            _mean_bend(kappa) + 2 * LOG_SQRT_2_PI + log_i0e(kappa)
        ),
    ),
)  # fmt: skip
