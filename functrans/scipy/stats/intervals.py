"""Continuous distributions on an interval or a half-line, as table rows in SciPy's standard form.

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
from functrans.ops.elementwise.exponential import exp, expm1, log, log1p, logaddexp
from functrans.ops.elementwise.power import power, sqrt
from functrans.ops.elementwise.special.entropy import boxcox, boxcox1p, xlog1py, xlogy
from functrans.ops.elementwise.special.errors import ndtr, ndtri_exp
from functrans.ops.elementwise.special.gamma import betaln, digamma
from functrans.ops.elementwise.special.incomplete import betainc, betaincc, betainccinv, betaincinv
from functrans.ops.elementwise.special.log_ndtr import log_ndtr
from functrans.ops.elementwise.trigonometric import arcsin, sin
from functrans.scipy.stats.distribution import Row, is_positive
from functrans.scipy.stats.standard import (
    LOG2,
    LOG_PI,
    ON_UNIT,
    beyond_one,
    gamma_entropy,
    generalised_log,
    generalised_pareto,
    half,
    log1mexp,
    normal_logpdf,
    unit_interval,
    zero,
)


def _beta_entropy(a: Any, b: Any) -> Any:
    return gamma_entropy(a) + gamma_entropy(b) - gamma_entropy(a + b) - digamma(a + b)


def _log_difference(x: Any, y: Any) -> Any:
    """``log(e**x - e**y)``."""
    return x + log1p(-exp(y - x))


def _log_normal_mass(a: Any, b: Any) -> Any:
    """The logarithm of the normal probability between two points, accurate in both tails.

    Between near points, where a difference of probabilities would cancel, it is the density in the
    middle times their distance, corrected by Hermite polynomials.
    """
    middle, width = 0.5 * (a + b), b - a
    near = less(width * (1 + absolute(middle)), 0.02)
    middle, width = select(near, middle, 0.0), select(near, width, 1.0)
    x, w = middle * middle, width * width
    bent = w * (x - 1) / 24 + w * w * (x * x - 6 * x + 3) / 1920
    narrow = normal_logpdf(middle) + log(width) + log1p(bent)
    return select(near, narrow, _log_wide_mass(select(near, -1.0, a), select(near, 1.0, b)))


def _log_wide_mass(a: Any, b: Any) -> Any:
    right = greater(a, 0)
    left = less_equal(b, 0)
    one_sided = right | left
    # if both points are on one side of 0, as a difference of tail probabilities
    far = select(one_sided, select(right, -b, a), -1.0)
    near = log_ndtr(select(one_sided, select(right, -a, b), 0.0))
    bounded = greater(far, -np.inf)
    tail = select(bounded, _log_difference(near, log_ndtr(select(bounded, far, -1.0))), near)
    centre = log1p(-ndtr(select(one_sided, -1.0, a)) - ndtr(-select(one_sided, 1.0, b)))
    return select(one_sided, tail, centre)


def _truncated_ppf(q: Any, a: Any, b: Any) -> Any:
    """The truncated normal quantile, computed from the tail on the side of the interval."""
    near = less((b - a) * (1 + absolute(a)), 0.02)
    narrow = _narrow_ppf(q, select(near, a, 0.0), select(near, b, 0.01))
    return select(near, narrow, _wide_ppf(q, select(near, -1.0, a), select(near, 1.0, b)))


def _narrow_ppf(q: Any, a: Any, b: Any) -> Any:
    """The same in a narrow interval: the density's Taylor series at ``a`` is integrated.

    Newton's method inverts the integral, so that the distance from ``a`` keeps all digits.
    """
    hermite = [1.0, a]
    for n in range(1, 6):
        hermite.append(a * hermite[n] - n * hermite[n - 1])

    def series(t: Any, integrals: int) -> Any:
        total = 0.0
        for n in reversed(range(7)):
            total = (-1) ** n * hermite[n] / math.factorial(n + integrals) + t * total
        return total

    wanted = q * (b - a) * series(b - a, 1)
    t = q * (b - a)
    for _ in range(3):
        t = t - (t * series(t, 1) - wanted) / series(t, 0)
    return a + t


def _wide_ppf(q: Any, a: Any, b: Any) -> Any:
    left = less(a, 0)
    start = log_ndtr(select(left, a, -b))
    share = log(select(left, q, 1 - q)) + _log_normal_mass(a, b)
    point = ndtri_exp(logaddexp(start, share))
    return select(left, point, -point)


def _generalised_extreme_logpdf(x: Any, c: Any) -> Any:
    logarithm, share = generalised_pareto(x, -c)
    inside = ~equal(share, np.inf)  # not at the lower end of the support
    return select(inside, logarithm - share, -np.inf)


def _middle(a: Any, b: Any) -> Any:
    """A point inside an interval, whose ends may be infinite."""
    low = select(greater(a, -np.inf), a, minimum(b, 0.0) - 1)
    high = select(less(b, np.inf), b, maximum(low, 0.0) + 1)
    return 0.5 * (low + high)


def _truncated_exponential_logsf(x: Any, b: Any) -> Any:
    passed = expm1(-x) / expm1(-b)
    small = less(passed, 0.5)
    tail = log1mexp(b - x) - log1mexp(b) - x
    return select(small, log1p(-select(small, passed, 0)), tail)


def _truncated_exponential_isf(q: Any, b: Any) -> Any:
    near = greater(q, 0.5) | less(b, 1)  # the result is small beside 1
    rest, tail = -expm1(-b), exp(-b)
    far = -log(select(near, 1, tail + q * rest))
    return select(near, -log1p((q - 1) * rest), far)


def _triangular_logpdf(x: Any, c: Any) -> Any:
    left = less(x, c) | equal(c, 1)
    return LOG2 + log(select(left, x, 1 - x)) - log(select(left, c, 1 - c))


def _or_half(x: Any) -> Any:
    return select(equal(x, 0), 0.5, x)


ROWS: tuple[Row, ...] = (
    Row(
        "uniform", **ON_UNIT,
        logpdf=lambda x: 0.0 * x, cdf=lambda x: x, sf=lambda x: 1 - x, ppf=lambda q: q,
        isf=lambda q: 1 - q, mean=half, var=lambda: 1 / 12, entropy=zero,
    ),
    Row(
        "beta", ("a", "b"), **ON_UNIT,
        logpdf=lambda x, a, b: xlog1py(b - 1, -x) + xlogy(a - 1, x) - betaln(a, b),
        cdf=lambda x, a, b: betainc(a, b, x), sf=lambda x, a, b: betaincc(a, b, x),
        ppf=lambda q, a, b: betaincinv(a, b, q), isf=lambda q, a, b: betainccinv(a, b, q),
        mean=lambda a, b: a / (a + b),
        var=lambda a, b: a * b / ((a + b) * (a + b) * (a + b + 1)), entropy=_beta_entropy,
    ),
    Row(
        "powerlaw", ("a",), **ON_UNIT,
        logpdf=lambda x, a: log(a) + xlogy(a - 1, x), cdf=lambda x, a: power(x, a),
        logcdf=lambda x, a: a * log(x), sf=lambda x, a: -expm1(a * log(x)),
        ppf=lambda q, a: power(q, 1 / a), mean=lambda a: a / (a + 1),
        entropy=lambda a: 1 - 1 / a - log(a),
    ),
    Row(
        "arcsine", **ON_UNIT,
        logpdf=lambda x: -LOG_PI - 0.5 * (log(x) + log1p(-x)),
        cdf=lambda x: 2 / math.pi * arcsin(sqrt(x)),
        ppf=lambda q: power(sin(math.pi / 2 * q), 2.0), mean=half, var=lambda: 1 / 8,
    ),
    Row(
        "triang", ("c",), support=unit_interval, within=half,
        valid=lambda c: less_equal(0, c) & less_equal(c, 1),
        logpdf=_triangular_logpdf, mean=lambda c: (c + 1) / 3,
        var=lambda c: (1 - c + c * c) / 18, entropy=lambda c: 0.5 - LOG2 + 0 * c,
    ),
    Row(
        "pareto", ("b",), support=lambda b: (1.0, np.inf), within=lambda b: 2.0, valid=is_positive,
        logpdf=lambda x, b: log(b) - (b + 1) * log(x),
        cdf=lambda x, b: -expm1(-b * log(x)), logsf=lambda x, b: -b * log(x),
        ppf=lambda q, b: exp(-log1p(-q) / b), isf=lambda q, b: power(q, -1 / b),
        mean=lambda b: beyond_one(lambda b: b / (b - 1), b, 1),
        var=lambda b: beyond_one(lambda b: b / ((b - 2) * (b - 1) * (b - 1)), b, 2),
        entropy=lambda b: 1 + 1 / b - log(b),
    ),
    Row(
        "truncnorm", ("a", "b"), support=lambda a, b: (a, b), within=_middle, valid=less,
        logpdf=lambda x, a, b: normal_logpdf(x) - _log_normal_mass(a, b),
        logcdf=lambda x, a, b: _log_normal_mass(a, x) - _log_normal_mass(a, b),
        logsf=lambda x, a, b: _log_normal_mass(x, b) - _log_normal_mass(a, b),
        ppf=_truncated_ppf, isf=lambda q, a, b: select(
            less(q, 0.5), -_truncated_ppf(q, -b, -a), _truncated_ppf(1 - q, a, b)
        ),
    ),
    Row(
        "truncexpon", ("b",), support=lambda b: (0.0, b), within=lambda b: 0.5 * b,
        valid=is_positive,
        logpdf=lambda x, b: -x - log(-expm1(-b)), cdf=lambda x, b: expm1(-x) / expm1(-b),
        sf=lambda x, b: exp(-x) * expm1(x - b) / expm1(-b),
        logsf=_truncated_exponential_logsf,
        ppf=lambda q, b: -log1p(q * expm1(-b)), isf=_truncated_exponential_isf,
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
        within=zero, valid=lambda c: less(absolute(c), np.inf),
        logpdf=_generalised_extreme_logpdf,
        logcdf=lambda x, c: -generalised_pareto(x, -c)[1],
        sf=lambda x, c: -expm1(-generalised_pareto(x, -c)[1]),
        ppf=lambda q, c: -boxcox(-log(q), c), isf=lambda q, c: -boxcox(-log1p(-q), c),
    ),
    Row(
        "genpareto", ("c",),
        support=lambda c: (0.0, select(less(c, 0), -1 / _or_half(c), np.inf)),
        within=lambda c: 0.5 / (1 + absolute(c)), valid=lambda c: less(absolute(c), np.inf),
        logpdf=lambda x, c: generalised_pareto(x, c)[0],
        logsf=lambda x, c: -generalised_log(x, c), cdf=lambda x, c: -expm1(-generalised_log(x, c)),
        ppf=lambda q, c: -boxcox1p(-q, -c), isf=lambda q, c: -boxcox(q, -c),
        entropy=lambda c: 1 + c,
    ),
)  # fmt: skip
