"""The logarithm of a Poisson probability, by its saddle point.

For large numbers its terms are far larger than their sum. It is written as the divergence of the
mean from the count, without cancellation, and the remainder of Stirling's series. Binomial
probabilities consist of three of them.

References
----------
C. Loader, "Fast and accurate computation of binomial probabilities" (2000).
NIST Digital Library of Mathematical Functions, 5.11.1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans import vecmath
from functrans.ir.primitive import Primitive
from functrans.lazily import lazy
from functrans.ops.elementwise.choice import absolute, or_one, select
from functrans.ops.elementwise.compare import less
from functrans.ops.elementwise.exponential import log
from functrans.ops.elementwise.special.gamma import digamma
from functrans.ops.elementwise.special.polygammas import BERNOULLI
from functrans.ops.elementwise.special.scipy import computed, ratio
from functrans.ops.samples import reals

_xlogy, _gammaln = lazy("scipy.special:xlogy"), lazy("scipy.special:gammaln")


def _log_poisson(k: Any, mu: Any) -> Any:
    """By the saddle point where Stirling's series has all digits, and by the terms elsewhere."""
    many, half_log = k > 12.5, 0.5 * math.log(2 * math.pi)
    with np.errstate(all="ignore"):
        n = np.where(many, k, 12.5)
        off = (mu - n) / n
        near = abs(off) < 0.2
        u = np.where(near, off, 0.0)
        gap, stirling = u * 0, u * 0
        for j in range(24, 1, -1):  # off - log1p(off)
            gap = 1 / j - u * gap
        gap = np.where(near, u * u * gap, off - (np.log(mu) - np.log(n)))
        for j in range(8, 0, -1):
            stirling = stirling / (n * n) + BERNOULLI[j - 1] / (2 * j * (2 * j - 1))
        large = -half_log - 0.5 * np.log(n) - stirling / n - n * gap
        small = _xlogy(k, mu) - mu - _gammaln(k + 1)
    return np.where((k > -1) & (mu >= 0), np.where(many, large, small), np.nan)[()]


def _slope_in_mean(k: Any, mu: Any) -> Any:
    """``k / mu - 1``, near 0 by the difference; far from there, its slope would cancel."""
    near = less(absolute(k - mu), 0.5 * mu)
    return select(near, (k - mu) / or_one(mu), ratio(k, mu) - 1)


log_poisson: Primitive = computed(
    "log_poisson", _log_poisson, [reals(0.5, 30), reals(5, 20)],
    lambda k, mu: log(mu) - digamma(k + 1), _slope_in_mean,
    scalar=vecmath.log_poisson,
)  # fmt: skip
"""``k log(mu) - mu - gammaln(k + 1)``, for large numbers without cancellation."""
