"""Common parts of continuous distributions: supports, constants, logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.ops.elementwise.choice import absolute, minimum, select
from functrans.ops.elementwise.compare import equal, greater, less
from functrans.ops.elementwise.exponential import exp, expm1, log, log1p
from functrans.ops.elementwise.power import power
from functrans.ops.elementwise.special.bessel import i0e, kve
from functrans.ops.elementwise.special.entropy import log1prel_n
from functrans.ops.elementwise.special.gamma import digamma, gammaln
from functrans.ops.elementwise.special.log_ndtr import log_ndtr
from functrans.ops.elementwise.special.poisson import log_poisson
from functrans.ops.elementwise.trigonometric import tan
from functrans.scipy.stats.distribution import UNDERFLOW, is_positive

EULER_GAMMA = 0.5772156649015329
LOG2 = math.log(2)
LOG_PI = math.log(math.pi)
LOG_SQRT_2_PI = 0.5 * math.log(2 * math.pi)
SQRT_2 = math.sqrt(2)
FAR = 25.0
"""The number from which on the asymptotic series of the Mills ratio has all digits."""


def positive_axis(*shapes: Any) -> tuple[float, float]:
    return 0.0, np.inf


def unit_interval(*shapes: Any) -> tuple[float, float]:
    return 0.0, 1.0


def one(*shapes: Any) -> float:
    return 1.0


def half(*shapes: Any) -> float:
    return 0.5


def zero(*shapes: Any) -> float:
    return 0.0


ON_POSITIVE: dict[str, Any] = {
    "support": positive_axis, "within": one, "valid": is_positive,
}  # fmt: skip
ON_UNIT: dict[str, Any] = {"support": unit_interval, "within": half, "valid": is_positive}


def real_axis(*shapes: Any) -> tuple[float, float]:
    return -np.inf, np.inf


ON_REALS: dict[str, Any] = {"support": real_axis, "within": zero, "valid": is_positive}


def log1mexp(x: Any) -> Any:
    """``log(1 - e**-x)`` for positive ``x``."""
    small = less(x, LOG2)
    near = log(-expm1(-select(small, x, 1.0)))
    return select(small, near, log1p(-exp(-select(small, 1.0, x))))


def tan_of_share(q: Any) -> Any:
    """``tan(pi q / 2)``, which is accurate for ``q`` near 1, too."""
    return select(less(q, 0.5), tan(math.pi / 2 * q), 1 / tan(math.pi / 2 * (1 - q)))


def vanishing(y: Any) -> Any:
    """``y``, held where ``exp(-y)`` is 0, which an infinite slope would make NaN."""
    return minimum(y, -UNDERFLOW)


def log1p_square(x: Any) -> Any:
    """``log(1 + x**2)``, also where the square overflows, with all derivatives at 0."""
    far = greater(absolute(x), 1e8)  # 1 is less than half a unit in the square's last place
    near, away = select(far, 0.0, x), select(far, absolute(x), 1.0)
    return select(far, 2 * log(away), log1p(near * near))


def log_of_successes(k: Any, other: Any, p: Any, q: Any) -> Any:
    """The log-probability of ``k`` successes beside others, by Poisson variables of a given sum."""
    n = k + other
    return log_poisson(k, n * p) + log_poisson(other, n * q) - log_poisson(n, n)


def normal_logpdf(x: Any) -> Any:
    return -0.5 * (x * x) - LOG_SQRT_2_PI


def log_mills(x: Any) -> Any:
    """The logarithm of the Mills ratio: the normal distribution's upper tail over its density.

    Far out, where the two logarithms would cancel, by its asymptotic series.
    """
    far = greater(x, FAR)
    near, away = select(far, 0.0, x), select(far, x, FAR)
    return select(far, mills_series(away) - log(away), log_ndtr(-near) - normal_logpdf(near))


def mills_series(x: Any) -> Any:
    """The logarithm of ``x`` times the Mills ratio, from `FAR` on."""
    step, series = 1 / (x * x), 0.0
    for k in range(15, 0, -2):
        series = -k * step * (1 + series)
    return log1p(series)


def log_shifted_tail(x: Any, shift: Any) -> Any:
    """``log(phi(x) * M(shift - x))`` for the normal density and the Mills ratio.

    It is the logarithm of an exponential times a normal probability, whose terms cancel far below
    the shift.
    """
    gap = shift - x
    far = greater(gap, FAR)
    near, away = select(far, 0.0, gap), select(far, gap, FAR)
    direct = (0.5 * shift - x) * shift + log_ndtr(-near)
    return select(far, normal_logpdf(x) + mills_series(away) - log(away), direct)


def generalised_log(x: Any, c: Any) -> Any:
    """``log(1 + c x) / c``, with its limit ``x`` for ``c == 0``."""
    return x * log1prel_n(c * x, n=0)


def generalised_pareto(x: Any, c: Any) -> tuple[Any, Any]:
    """``(-1 / c - 1) log(1 + c x)`` and ``(1 + c x)**(-1 / c)``, at the end of `c = -1`, too."""
    y = generalised_log(x, c)
    end = equal(c, -1) & equal(y, np.inf)  # 0 times infinity
    y = select(end, 0.0, y)
    return -(c + 1) * y, select(end, 1 - x, exp(-y))


def gamma_entropy(a: Any) -> Any:
    """The entropy of the gamma distribution, for large shapes as half a logarithm and a series."""
    many = greater(a, 40)
    few, r = select(many, 1.0, a), 1 / select(many, a, 40.0)
    # from the series of gammaln and digamma, NIST DLMF 5.11.1 and 5.11.2
    series = r * (1 / 90 - r * (1 / 120 + r * (1 / 210 - r * (1 / 252 + r * (1 / 210)))))
    series = 0.5 - r * (1 / 3 + r * (1 / 12 + series))
    exact = few + gammaln(few) + (1 - few) * digamma(few)
    return select(many, LOG_SQRT_2_PI - 0.5 * log(r) + series, exact)


def log1p_power(x: Any, c: Any) -> Any:
    """``log(1 + x**c)`` for ``x >= 0`` and ``c > 0``, also where the power overflows."""
    large = greater(x, 1)
    smaller = log1p(power(x, select(large, -c, c)))
    return smaller + select(large, c * log(select(large, x, 1.0)), 0.0)


def log_i0e(kappa: Any) -> Any:
    """``log(i0e(kappa))`` for ``kappa >= 0``, with its slope -1 at 0, where `i0e` has slope 0."""
    return log(i0e(kappa)) + (absolute(kappa) - kappa)


def beyond_one(value: Any, a: Any, least: float) -> Any:
    """A moment that is finite only if the parameter exceeds a bound."""
    return select(greater(a, least), value(select(greater(a, least), a, least + 1)), np.inf)


def log_kve(order: Any, z: Any) -> Any:
    """The logarithm of ``kve(order, z)``, also for so large ``z`` that SciPy's value is NaN."""
    found = kve(order, z)
    known = equal(found, found)
    hankel = 0.5 * (LOG_PI - LOG2 - log(z)) + (order * order - 0.25) / (2 * z)
    return select(known, log(select(known, found, 1.0)), hankel)
