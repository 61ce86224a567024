"""Statistics of samples: generalised means, moments, z-scores and entropy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrans.numpy.arrays import array, axes_of, inexact, inexact_pair
from functrans.numpy.define import refuse
from functrans.numpy.reductions import mean, restored, std, sum
from functrans.ops.arrays.structural import broadcast_to
from functrans.ops.elementwise.exponential import exp, log
from functrans.ops.elementwise.power import power, sqrt
from functrans.ops.elementwise.special.entropy import entr, rel_entr
from functrans.scipy.define import answers

__all__ = [
    "entropy", "gmean", "gstd", "hmean", "kurtosis", "moment", "pmean", "sem", "skew", "variation",
    "zmap", "zscore",
]  # fmt: skip


_WITHOUT_NAN = {
    "omit": "leave NaN out first, as x[~np.isnan(x)] does",
    "raise": "look for NaN in the plain array, before it is traced",
}
"""What to write instead of each ``nan_policy``."""


def propagates(function: str, nan_policy: str) -> None:
    """Raise unless NaN are propagated: whether there are any may be unknown in a trace."""
    if nan_policy == "propagate":
        return
    if nan_policy not in _WITHOUT_NAN:
        raise ValueError("nan_policy must be one of {'propagate', 'raise', 'omit'}")
    refuse(f"scipy.stats.{function}(..., nan_policy={nan_policy!r})", _WITHOUT_NAN[nan_policy])


def _centred(a: Any, axis: Any) -> Any:
    return a - mean(a, axis, keepdims=True)


def _central(a: Any, order: int, axis: Any, keepdims: bool = False) -> Any:
    """A central moment."""
    return mean(power_of(_centred(a, axis), order), axis, keepdims=keepdims)


def _variance(a: Any, axis: Any, keepdims: bool) -> Any:
    """The second central moment; NaN if it is no larger than the rounding error of the mean."""
    second, middle = _central(a, 2, axis, keepdims), mean(a, axis, keepdims=keepdims)
    rounding = np.finfo(a.dtype).eps * middle
    return np.where(second <= rounding * rounding, np.nan, second)


def power_of(x: Any, order: int) -> Any:
    """An integer power by multiplications, differentiable for bases that are 0 or negative."""
    result = 1.0 + 0.0 * x if order == 0 else x
    for _ in range(order - 1):
        result = result * x
    return result


def _size(a: Any, axis: Any) -> int:
    return math.prod(a.shape[i] for i in axes_of(axis, a.ndim))


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


@answers("scipy.stats:gmean")
def gmean(
    a: Any, axis: Any = 0, dtype: Any = None, weights: Any = None, *,
    nan_policy: str = "propagate", keepdims: bool = False,
) -> Any:  # fmt: skip
    """The (weighted) geometric mean along an axis, in the given dtype.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.gmean([1.0, 4.0]))
    2.0
    """
    propagates("gmean", nan_policy)
    a, weights = _sample(a, dtype, weights)
    return exp(_weighted_mean(log(a), axis, weights, keepdims))


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
        return gmean(a, axis, dtype, weights, keepdims=keepdims)
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
    if center is None and order == 1:
        return mean(0.0 * a, axis, keepdims=keepdims)
    off = _centred(a, axis) if center is None else a - center
    return mean(power_of(off, int(order)), axis, keepdims=keepdims)


@answers("scipy.stats:skew")
def skew(
    a: Any, axis: Any = 0, bias: bool = True, nan_policy: str = "propagate", *,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The skewness along an axis.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.skew([1.0, 2.0, 3.0]))
    0.0
    """
    propagates("skew", nan_policy)
    a = inexact(a)
    second, third = _variance(a, axis, keepdims), _central(a, 3, axis, keepdims)
    value = third / (second * sqrt(second))
    n = _size(a, axis)
    return value if bias or n < 3 else value * (math.sqrt(n * (n - 1)) / (n - 2))


@answers("scipy.stats:kurtosis")
def kurtosis(
    a: Any, axis: Any = 0, fisher: bool = True, bias: bool = True, nan_policy: str = "propagate", *,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The kurtosis along an axis; by Fisher's definition, minus 3.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.kurtosis([1.0, 3.0], fisher=False))
    1.0
    """
    propagates("kurtosis", nan_policy)
    a = inexact(a)
    second, fourth = _variance(a, axis, keepdims), _central(a, 4, axis, keepdims)
    value = fourth / (second * second)
    n = _size(a, axis)
    if not bias and n > 3:
        value = ((n * n - 1.0) * value - 3 * (n - 1) ** 2) / ((n - 2) * (n - 3)) + 3
    return value - 3 if fisher else value


@answers("scipy.stats:sem")
def sem(
    a: Any, axis: Any = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Any:
    """The standard error of the mean along an axis.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.sem([1.0, 3.0]))
    1.0
    """
    propagates("sem", nan_policy)
    a = inexact(a)
    return std(a, axis, ddof=ddof, keepdims=keepdims) / math.sqrt(_size(a, axis))


@answers("scipy.stats:variation")
def variation(
    a: Any, axis: Any = 0, nan_policy: str = "propagate", ddof: int = 0, *, keepdims: bool = False
) -> Any:
    """The coefficient of variation: the standard deviation divided by the mean.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.variation([1.0, 3.0]))
    0.5
    """
    propagates("variation", nan_policy)
    a = inexact(a)
    return std(a, axis, ddof=ddof, keepdims=keepdims) / mean(a, axis, keepdims=keepdims)


@answers("scipy.stats:gstd")
def gstd(
    a: Any, axis: Any = 0, ddof: int = 1, *, nan_policy: str = "propagate", keepdims: bool = False
) -> Any:
    """The geometric standard deviation along an axis.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.gstd([2.0, 2.0]))
    1.0
    """
    propagates("gstd", nan_policy)
    return exp(_deviation(log(inexact(a)), axis, ddof, keepdims))


def _deviation(a: Any, axis: Any, ddof: int, keepdims: bool = True) -> Any:
    """The standard deviation; NaN, not infinite as NumPy's, without degrees of freedom."""
    if _size(a, axis) <= ddof:
        return std(a, axis, keepdims=keepdims) * np.nan
    return std(a, axis, ddof=ddof, keepdims=keepdims)


@answers("scipy.stats:zscore")
def zscore(a: Any, axis: Any = 0, ddof: int = 0, nan_policy: str = "propagate") -> Any:
    """The z-scores: each element's distance from the mean in standard deviations.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> stats.zscore([1.0, 3.0])
    array([-1.,  1.])
    """
    propagates("zscore", nan_policy)
    a = inexact(a)
    deviation, middle = _deviation(a, axis, ddof), mean(a, axis, keepdims=True)
    rounded = deviation <= np.finfo(a.dtype).eps * np.abs(middle)
    return (a - middle) / np.where(rounded, np.nan, deviation)


@answers("scipy.stats:zmap")
def zmap(
    scores: Any, compare: Any, axis: Any = 0, ddof: int = 0, nan_policy: str = "propagate"
) -> Any:
    """The z-scores of elements relative to the mean and standard deviation of another sample.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> stats.zmap([5.0], [1.0, 3.0])
    array([3.])
    """
    propagates("zmap", nan_policy)
    compare = inexact(compare)
    off = inexact(scores) - mean(compare, axis, keepdims=True)
    return off / _deviation(compare, axis, ddof)


@answers("scipy.stats:entropy")
def entropy(
    pk: Any, qk: Any = None, base: Any = None, axis: Any = 0, *, nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The Shannon entropy, or the relative entropy; probabilities are normalised to sum 1.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.entropy([0.5, 0.5], base=2))
    1.0
    """
    propagates("entropy", nan_policy)
    pk = _shares(pk, axis)
    terms = entr(pk) if qk is None else rel_entr(pk, _shares(qk, axis))
    axes = axes_of(axis, terms.ndim)
    total = restored(sum(terms, axes), axes, keepdims)
    return total if base is None else total / math.log(base)


def _shares(pk: Any, axis: Any) -> Any:
    pk = inexact(pk)
    return pk / sum(pk, axis, keepdims=True)
