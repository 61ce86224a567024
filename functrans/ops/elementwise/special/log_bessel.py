"""Logarithms of modified Bessel functions of the first kind, by the series where SciPy's fail.

References
----------
NIST Digital Library of Mathematical Functions, 10.25.2, 10.40.1 and 10.41.
"""

from __future__ import annotations

import math
from typing import Any

from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import greater
from functrans.ops.elementwise.exponential import log, log1p
from functrans.ops.elementwise.power import sqrt
from functrans.ops.elementwise.special.bessel import ive
from functrans.ops.elementwise.special.entropy import xlogy
from functrans.ops.elementwise.special.gamma import gammaln

LOG_SQRT_2_PI = 0.5 * math.log(2 * math.pi)


def log_ive(order: Any, z: Any) -> Any:
    """The logarithm of ``ive(order, z)``, also where that underflows."""
    found = ive(order, z)
    lost = ~greater(found, 1e-290)  # SciPy's is NaN for orders beyond 1e9
    large = greater(order, 60)
    return select(
        lost,
        select(large, _debye(select(large, order, 60), z), _log_ive_at_ends(order, z)),
        log(select(lost, 1, found)),
    )


def _log_ive_at_ends(order: Any, z: Any) -> Any:
    """The same for small orders, where ``z`` is tiny or so large that SciPy's value is NaN."""
    far = greater(z, 1e4)
    near, away = select(far, 1.0, z), select(far, z, 1e4)
    power_series = xlogy(order, 0.5 * near) - near - gammaln(order + 1)
    power_series = power_series + log1p(0.25 * near * near / (order + 1))
    hankel = -LOG_SQRT_2_PI - 0.5 * log(away) - (order * order - 0.25) / (2 * away)
    return select(far, hankel, power_series)


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
