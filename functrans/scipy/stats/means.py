"""Means where SciPy branches on signs, moments where it drops NaN, expectiles by sorting."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from functrans.numpy.arrays import array, inexact, inexact_pair, known
from functrans.numpy.reductions import mean, sum
from functrans.ops.arrays.structural import broadcast_to
from functrans.ops.elementwise.power import power
from functrans.scipy.define import answers, double, since_1_18
from functrans.scipy.entries import of_scipys
from functrans.scipy.stats.slices import on_slices, propagates

__all__ = ["expectile", "hmean", "moment", "pmean"]


def _sample(a: Any, dtype: Any, weights: Any) -> tuple[Any, Any]:
    """Elements and weights in the given or their common dtype."""
    if weights is None:
        return array(a) if dtype is None else array(a).astype(dtype), None
    both = inexact_pair(a, weights)
    a, weights = both if dtype is None else (x.astype(dtype) for x in both)
    return a, broadcast_to(weights, shape=a.shape)


def _weighted_mean(a: Any, axis: Any, weights: Any, keepdims: bool) -> Any:
    if weights is None:
        return mean(a, axis, keepdims=keepdims)
    weights = weights.astype(a.dtype)
    return sum(a * weights, axis, keepdims=keepdims) / sum(weights, axis, keepdims=keepdims)


def _not_negative(a: Any) -> Any:
    """Replace negative elements, for which power means are undefined, by NaN."""
    return np.where(a < 0, np.nan, a)


@answers("scipy.stats:hmean")
def hmean(
    a: Any, axis: Any = 0, dtype: Any = None, *, weights: Any = None,
    nan_policy: str = "propagate", keepdims: bool = False,
) -> Any:  # fmt: skip
    """The (weighted) harmonic mean along an axis, in the given dtype; NaN for negative elements.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.hmean([1.0, 1.0]))
    1.0
    """
    propagates("hmean", nan_policy)
    a, weights = _sample(a, dtype, weights)
    return 1 / _weighted_mean(1 / _not_negative(a), axis, weights, keepdims)


@answers("scipy.stats:pmean")
def pmean(
    a: Any, p: Any, *, axis: Any = 0, dtype: Any = None, weights: Any = None,
    nan_policy: str = "propagate", keepdims: bool = False,
) -> Any:  # fmt: skip
    """The (weighted) power mean of exponent ``p`` along an axis; the geometric mean for ``p == 0``.

    It is computed in the given dtype, and NaN for negative elements.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.pmean([1.0, 3.0], 1))
    2.0
    """
    propagates("pmean", nan_policy)
    if p == 0:
        options = {"dtype": dtype, "weights": weights, "keepdims": keepdims}
        return of_scipys("stats", "gmean")(a, axis, **options)
    a, weights = _sample(a, dtype, weights)
    powers = power(_not_negative(inexact(a)), p)
    return power(_weighted_mean(powers, axis, weights, keepdims), 1 / p)


@answers("scipy.stats:moment")
def moment(
    a: Any, order: Any = 1, axis: Any = 0, nan_policy: str = "propagate", *, center: Any = None,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The moments of one or several orders about a centre, by default the mean.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.moment([1.0, 3.0], order=2))
    1.0
    """
    propagates("moment", nan_policy)
    a = inexact(a)
    if np.ndim(order):
        orders = [moment(a, n, axis, center=center, keepdims=keepdims) for n in order]
        return np.stack(orders)
    if int(order) != order:
        raise ValueError("All elements of `order` must be integral.")
    if order < 0:
        raise ValueError(f"the order of a moment must not be negative, and it is {order}")
    if center is None and order == 1:
        return mean(0.0 * a, axis, keepdims=keepdims)
    off = a - (mean(a, axis, keepdims=True) if center is None else center)
    # products have slopes where the base is 0 or negative, too
    product = functools.reduce(operator.mul, [off] * int(order), 1.0 + 0.0 * off)
    return mean(product, axis, keepdims=keepdims)


@answers("scipy.stats:expectile")
def expectile(
    a: Any, alpha: Any = 0.5, *, weights: Any = None, axis: Any = np._NoValue,
    nan_policy: str = "propagate", keepdims: bool = False,
) -> Any:  # fmt: skip
    """The (weighted) expectile of a level along an axis, by default SciPy's: the first since 1.18.

    It is a mean, in which distances to elements below it weigh ``1 - alpha``, and to others
    ``alpha``.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.expectile([0.0, 3.0], 0.75))
    2.25
    """
    propagates("expectile", nan_policy)
    level = known(alpha)
    if level is not None and (level < 0 or level > 1):
        raise ValueError("The expectile level alpha must be in the range [0, 1].")
    axis = (0 if since_1_18() else None) if axis is np._NoValue else axis
    a = inexact(a) if since_1_18() else double(a)
    both = inexact_pair(a, np.ones_like(a) if weights is None else weights)
    (a, weights), kept = on_slices(*np.broadcast_arrays(*both), axis=axis, keepdims=keepdims)
    if isinstance(alpha, (int, float)) and level in (0, 1):  # not traced, where it has a slope
        return kept(a.min(axis=-1) if level == 0 else a.max(axis=-1))
    order = np.argsort(a, axis=-1)
    a, weights = (np.take_along_axis(x, order, -1) for x in (a, weights))
    total, moment = (np.sum(x, axis=-1, keepdims=True) for x in (weights, weights * a))
    below, moment_below = np.cumsum(weights, axis=-1), np.cumsum(weights * a, axis=-1)

    def weighted(x: Any, x_below: Any) -> Any:
        return (1 - alpha) * x_below + alpha * (x - x_below)

    # it is greater than those elements at which the balance of distances is negative; the least
    # one counts as below also where the two are equal, as for the level 0
    less = a * weighted(total, below) < weighted(moment, moment_below)
    less = less | (a == a[..., :1])
    below, moment_below = (
        np.sum(np.where(less, x, 0), axis=-1, keepdims=True) for x in (weights, weights * a)
    )
    return kept((weighted(moment, moment_below) / weighted(total, below))[..., 0])
