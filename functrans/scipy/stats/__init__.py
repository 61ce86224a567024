"""The distributions of `scipy.stats` and its statistics, under its names, for traced values, too.

On plain arrays SciPy computes. ``norm.logpdf(x, loc, scale)``, ``norm(loc, scale).logpdf(x)`` and
their kin are differentiable in the points and in all parameters that have a derivative.
"""

from __future__ import annotations

from typing import Any

from functrans.ops.define import lazy
from functrans.scipy.stats import counted as _counted
from functrans.scipy.stats import densities as _densities
from functrans.scipy.stats import discrete as _discrete
from functrans.scipy.stats import intervals as _intervals
from functrans.scipy.stats import multivariate as _multivariate
from functrans.scipy.stats import positive_axis as _positive_axis
from functrans.scipy.stats import real_axis as _real_axis
from functrans.scipy.stats import statistics as _statistics
from functrans.scipy.stats.distribution import Distribution as _Distribution
from functrans.scipy.stats.distribution import Untraced as _Untraced
from functrans.scipy.stats.statistics import *  # noqa: F403

_ROWS = (
    *_real_axis.ROWS,
    *_positive_axis.ROWS,
    *_intervals.ROWS,
    *_densities.ROWS,
    *_discrete.ROWS,
    *_counted.ROWS,
)

_DISTRIBUTIONS: dict[str, Any] = {
    **{row.name: _Distribution(row) for row in _ROWS},
    **{family.name: _multivariate.Multivariate(family) for family in _multivariate.FAMILIES},
}
_DISTRIBUTIONS["reciprocal"] = _DISTRIBUTIONS["loguniform"]

__all__ = [*_DISTRIBUTIONS, *_statistics.__all__]

globals().update(_DISTRIBUTIONS)

_stats = lazy("scipy:stats")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    found = getattr(_stats.resolve(), name)
    is_distribution = hasattr(found, "logpdf") or hasattr(found, "logpmf")
    return _Untraced(name, found) if is_distribution and not isinstance(found, type) else found


def __dir__() -> list[str]:
    return sorted({*__all__, *_stats.resolve().__all__})
