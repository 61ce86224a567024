"""Common parts of continuous distributions: supports, constants, logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.ops.elementwise.choice import absolute, select
from functrans.ops.elementwise.compare import greater, less
from functrans.ops.elementwise.exponential import exp, expm1, log, log1p
from functrans.ops.elementwise.power import sqrt
from functrans.ops.elementwise.special.bessel import i0e, ive
from functrans.ops.elementwise.special.entropy import xlogy
from functrans.ops.elementwise.special.gamma import gammaln
from functrans.ops.elementwise.trigonometric import tan
from functrans.scipy.stats.distribution import is_positive

EULER_GAMMA = 0.5772156649015329
LOG2 = math.log(2)
LOG_PI = math.log(math.pi)
LOG_SQRT_2_PI = 0.5 * math.log(2 * math.pi)
SQRT_2 = math.sqrt(2)


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


def always(*shapes: Any) -> bool:
    return True


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


def normal_logpdf(x: Any) -> Any:
    return -0.5 * (x * x) - LOG_SQRT_2_PI


def log_i0e(kappa: Any) -> Any:
    """``log(i0e(kappa))`` for ``kappa >= 0``, with its slope -1 at 0, where `i0e` has slope 0."""
    return log(i0e(kappa)) + (absolute(kappa) - kappa)


def beyond_one(value: Any, a: Any, least: float) -> Any:
    """A moment that is finite only if the parameter exceeds a bound."""
    return select(greater(a, least), value(select(greater(a, least), a, least + 1)), np.inf)


def log_ive(order: Any, z: Any) -> Any:
    """The logarithm of ``ive(order, z)``, also where that underflows."""
    found = ive(order, z)
    lost = ~greater(found, 1e-290)  # SciPy's is NaN for orders beyond 1e9
    large = greater(order, 60)
    return select(
        lost,
        select(large, _debye(select(large, order, 60), z), xlogy(order, 0.5 * z) - z
               - gammaln(order + 1) + log1p(0.25 * z * z / (order + 1))),
        log(select(lost, 1, found)),
    )  # fmt: skip


def _debye(order: Any, z: Any) -> Any:
    """The same for large orders, by Debye's uniform expansion, DLMF 10.41.3 and 10.41.10."""
    far = sqrt(order * order + z * z)
    t = order / far
    s = t * t
    terms = (
        t * (3 - 5 * s) / 24,
        s * (81 - s * (462 - 385 * s)) / 1152,
        t * s * (30375 - s * (369603 - s * (765765 - 425425 * s))) / 414720,
        s * s
        * (4465125 - s * (94121676 - s * (349922430 - s * (446185740 - 185910725 * s))))
        / 39813120,
    )  # fmt: skip
    ratio, series = 1 / order, 0.0
    for term in terms[::-1]:
        series = ratio * (term + series)
    exponent = order * t / (1 + z / far) + order * log(z / (order + far))
    return exponent - LOG_SQRT_2_PI - 0.5 * log(far) + log1p(series)
