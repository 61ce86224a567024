"""Spreads of samples, within limits or between percentiles, and distances between samples.

References
----------
The docstrings of `scipy.stats`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.api.recompute import stop_gradient
from functrans.numpy.arrays import inexact, known
from functrans.numpy.indexing import take
from functrans.numpy.joining import concatenate
from functrans.numpy.reductions import root
from functrans.scipy.define import answers
from functrans.scipy.entries import of_scipys
from functrans.scipy.stats.slices import on_slices, propagates

__all__ = [
    "circstd", "energy_distance", "iqr", "median_abs_deviation", "trim_mean", "tsem", "tstd",
    "tvar", "wasserstein_distance",
]  # fmt: skip


def _within(a: Any, limits: Any, inclusive: Any) -> Any:
    """Which elements lie within the limits. NaN does, so that results are NaN."""
    low, high = (None, None) if limits is None else limits
    beyond = np.zeros(a.shape, bool)
    if low is not None:
        beyond = beyond | (a < low if inclusive[0] else a <= low)
    if high is not None:
        beyond = beyond | (a > high if inclusive[1] else a >= high)
    return ~beyond


@answers("scipy.stats:tvar")
def tvar(
    a: Any, limits: Any = None, inclusive: Any = (True, True), axis: Any = 0, ddof: int = 1, *,
    nan_policy: str = "propagate", keepdims: bool = False,
) -> Any:  # fmt: skip
    """The variance of the elements within limits; NaN where too few are.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.tvar([1.0, 2.0, 3.0, 9.0], (0, 5)))
    1.0
    """
    propagates("tvar", nan_policy)
    a = inexact(a)
    within = _within(a, limits, inclusive)
    return np.var(a, axis=axis, ddof=ddof, where=within, keepdims=keepdims)


@answers("scipy.stats:tstd")
def tstd(
    a: Any, limits: Any = None, inclusive: Any = (True, True), axis: Any = 0, ddof: int = 1, *,
    nan_policy: str = "propagate", keepdims: bool = False,
) -> Any:  # fmt: skip
    """The standard deviation of the elements within limits; NaN where too few are.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.tstd([1.0, 2.0, 3.0, 9.0], (0, 5)))
    1.0
    """
    propagates("tstd", nan_policy)
    return root(tvar(a, limits, inclusive, axis, ddof, keepdims=keepdims))


@answers("scipy.stats:tsem")
def tsem(
    a: Any, limits: Any = None, inclusive: Any = (True, True), axis: Any = 0, ddof: int = 1, *,
    nan_policy: str = "propagate", keepdims: bool = False,
) -> Any:  # fmt: skip
    """The standard error of the mean of the elements within limits; NaN where too few are.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.tsem([1.0, 2.0, 3.0, 4.0, 9.0], (0, 5), ddof=0))
    0.5590169943749475
    """
    propagates("tsem", nan_policy)
    a = inexact(a)
    variance = tvar(a, limits, inclusive, axis, ddof, keepdims=keepdims)
    count = np.sum(_within(a, limits, inclusive), axis=axis, keepdims=keepdims)
    return root(variance / count.astype(a.dtype))


@answers("scipy.stats:iqr")
def iqr(
    x: Any, axis: Any = None, rng: Any = (25, 75), scale: Any = 1.0,
    nan_policy: str = "propagate", interpolation: Any = "linear", keepdims: bool = False,
) -> Any:  # fmt: skip
    """The interquartile range, or the range between two given percentiles.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.iqr([1.0, 2.0, 3.0]))
    1.0
    """
    propagates("iqr", nan_policy)
    x = inexact(x)
    low, high = np.percentile(
        x, np.array(sorted(rng)), axis=axis, method=interpolation, keepdims=keepdims
    )
    factor = {"normal": 2 * math.sqrt(2) * 0.476936276204470}.get(scale, scale)
    return (high - low).astype(x.dtype) / factor


@answers("scipy.stats:median_abs_deviation")
def median_abs_deviation(
    x: Any, axis: Any = 0, center: Any = np.median, scale: Any = 1.0,
    nan_policy: str = "propagate", *, keepdims: bool = False,
) -> Any:  # fmt: skip
    """The median absolute deviation from the median.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.median_abs_deviation([1.0, 2.0, 5.0]))
    1.0
    """
    propagates("median_abs_deviation", nan_policy)
    x = inexact(x)
    middle = center(x, axis=axis)
    if axis is not None:
        middle = np.expand_dims(middle, axis)
    factor = {"normal": 0.6744897501960817}.get(scale, scale)
    return np.median(np.abs(x - middle), axis=axis, keepdims=keepdims) / factor


@answers("scipy.stats:trim_mean")
def trim_mean(
    a: Any, proportiontocut: float, axis: Any = 0, *, nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The trimmed mean, without a fraction of the smallest and of the largest elements.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.trim_mean([1.0, 2.0, 9.0], 0.4))
    2.0
    """
    propagates("trim_mean", nan_policy)
    (a,), kept = on_slices(a, axis=axis, keepdims=keepdims)
    n = a.shape[-1]
    cut = int(proportiontocut * n)
    if cut < 0:
        raise ValueError("proportiontocut must not be negative")
    if 2 * cut >= n > 0:
        raise ValueError("Proportion too big.")
    mean = np.mean(np.sort(a, axis=-1)[..., cut : n - cut], axis=-1)
    # NaN is sorted last, and would be trimmed
    return kept(np.where(np.any(np.isnan(a), axis=-1), np.nan, mean))


@answers("scipy.stats:circstd")
def circstd(
    samples: Any, high: Any = 2 * np.pi, low: Any = 0, axis: Any = None,
    nan_policy: str = "propagate", *, normalize: bool = False,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The circular standard deviation of angles.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.circstd([1.0, 2.0]).round(6))
    0.511046
    """
    propagates("circstd", nan_policy)
    variance = of_scipys("stats", "circvar")(samples, high, low, axis, keepdims=keepdims)
    deviation = root(-2 * np.log1p(-variance))
    return deviation if normalize else deviation * ((high - low) / (2 * np.pi))


# -- distances -------------------------------------------------------------------------------------


def _steps(u: Any, v: Any, u_weights: Any, v_weights: Any) -> tuple[Any, Any]:
    """The differences of two empirical distribution functions, and the lengths of the intervals."""
    u, v = inexact(u), inexact(v)
    for sample, weights in ((u, u_weights), (v, v_weights)):
        if sample.size == 0:
            raise ValueError("Distribution can't be empty.")
        if weights is not None and np.shape(weights) != sample.shape:
            raise ValueError(
                "Value and weight array-likes for the same empirical distribution must be of the "
                "same size."
            )
        if weights is not None and known(np.any(inexact(weights) < 0)):
            raise ValueError("All weights must be non-negative.")
        total = None if weights is None else known(np.sum(inexact(weights)))
        if total is not None and not 0 < total < np.inf:
            raise ValueError(
                "Weight array-like sum must be positive and finite. Set as None for an equal "
                "distribution of weight."
            )
    places = np.sort(concatenate([u, v]))

    def function(x: Any, weights: Any) -> Any:
        order = np.argsort(stop_gradient(x))
        ordered = np.sort(stop_gradient(x))
        below = np.searchsorted(ordered, stop_gradient(places)[:-1], side="right")
        if weights is None:
            return below / x.shape[0]
        shares = concatenate([np.zeros(1), np.cumsum(take(inexact(weights), order))])
        return take(shares, below) / shares[-1]

    return function(u, u_weights) - function(v, v_weights), np.diff(places)


@answers("scipy.stats:wasserstein_distance")
def wasserstein_distance(
    u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None
) -> Any:
    """The Wasserstein distance (earth mover's distance) between two samples.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import stats
    >>> grad(lambda u: stats.wasserstein_distance(u, [5.0, 6.0]))(np.array([1.0, 3.0]))
    array([-0.5, -0.5])
    """
    difference, widths = _steps(u_values, v_values, u_weights, v_weights)
    return np.sum(np.abs(difference) * widths)


@answers("scipy.stats:energy_distance")
def energy_distance(
    u_values: Any, v_values: Any, u_weights: Any = None, v_weights: Any = None
) -> Any:
    """The energy distance between two samples.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.energy_distance([0.0], [2.0]))
    2.0
    """
    difference, widths = _steps(u_values, v_values, u_weights, v_weights)
    return np.sqrt(2 * np.sum(difference**2 * widths))
