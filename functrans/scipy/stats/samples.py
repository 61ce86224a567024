"""Statistics of two samples and more: correlations, regressions, tests.

p-values are computed by the distributions, and so have derivatives. Functions that depend only on
ranks have the derivative 0; SciPy computes them on the host.

References
----------
The docstrings of `scipy.stats`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from functrans.api.host import callback
from functrans.api.mapping import vmap
from functrans.api.recompute import stop_gradient
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.numpy.arrays import array, inexact, known
from functrans.numpy.define import refuse
from functrans.numpy.joining import concatenate
from functrans.ops.arrays.shape import holds_tracer
from functrans.ops.elementwise.special.distributions import chdtrc, fdtrc, stdtr
from functrans.ops.elementwise.special.incomplete import betainc
from functrans.scipy.define import answers
from functrans.scipy.stats.slices import on_slices
from functrans.scipy.stats.statistics import kurtosis, propagates, skew

__all__ = [
    "chatterjeexi", "f_oneway", "jarque_bera", "kendalltau", "kruskal", "ks_2samp", "linregress",
    "mannwhitneyu", "pearsonr", "pointbiserialr", "rankdata", "spearmanr", "ttest_1samp",
    "ttest_ind", "ttest_rel", "weightedtau", "wilcoxon",
]  # fmt: skip


class Test(NamedTuple):
    """A test statistic and its p-value."""

    statistic: Any
    pvalue: Any

    @property
    def correlation(self) -> Any:
        """The statistic of a correlation test under SciPy's alternative name."""
        return self.statistic


class StudentTest(Test):
    """A `Test` with Student's t statistic and its degrees of freedom."""

    df: Any

    def __new__(cls, statistic: Any, pvalue: Any, df: Any = None) -> StudentTest:
        self = super().__new__(cls, statistic, pvalue)
        self.df = df
        return self


class _Line(NamedTuple):
    slope: Any
    intercept: Any
    rvalue: Any
    pvalue: Any
    stderr: Any


class Line(_Line):
    """A regression line: SciPy's five numbers, and ``intercept_stderr`` as an attribute."""

    intercept_stderr: Any

    def __new__(cls, *five: Any, intercept_stderr: Any = None) -> Line:
        self = super().__new__(cls, *five)
        self.intercept_stderr = intercept_stderr
        return self


def _refuse_unless(holds: bool, what: str, instead: str) -> None:
    if not holds:
        refuse(f"scipy.stats.{what}", instead)


def on_one_axis(x: Any, axis: int | None) -> tuple[Any, int]:
    """A sample, flattened if the axis is None, and its axis."""
    x = inexact(x)
    return (x.reshape(-1), 0) if axis is None else (x, axis)


# -- ranks -----------------------------------------------------------------------------------------

_RANKS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "average": lambda left, right, _: (left + right + 1) / 2,
    "min": lambda left, right, _: left + 1,
    "max": lambda left, right, _: right,
    "dense": lambda left, right, steps: steps[left],
}
"""Ranks as functions of the number of smaller elements and the number of elements not greater."""


@answers("scipy.stats:rankdata")
def rankdata(
    a: Any, method: str = "average", *, axis: Any = None, nan_policy: str = "propagate"
) -> Any:
    """The ranks of elements, from 1 on; their derivative is 0.

    If an element is NaN, all ranks are NaN. If it is not known whether one is, integer ranks (all
    methods except ``"average"``) stay integers, and NaN counts as greater than any number.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> stats.rankdata([3.0, 1.0, 3.0])
    array([2.5, 1. , 2.5])
    """
    propagates("rankdata", nan_policy)
    if method != "ordinal" and method not in _RANKS:
        raise ValueError(f'unknown method "{method}"')
    x = stop_gradient(array(a))
    if axis is None:
        x, axis = x.reshape(-1), 0
    rows = np.moveaxis(x, axis, -1)

    def ranked(row: Any) -> Any:
        if method == "ordinal":
            return np.argsort(np.argsort(row, stable=True)) + 1
        ordered = np.sort(row)
        left, right = (np.searchsorted(ordered, row, side=side) for side in ("left", "right"))
        differs = concatenate(
            [np.ones(1, np.int64), (ordered[1:] != ordered[:-1]).astype(np.int64)]
        )
        return _RANKS[method](left, right, np.cumsum(differs))

    found = vmap(ranked)(rows.reshape(-1, rows.shape[-1])).reshape(rows.shape)
    unordered = np.any(np.isnan(rows), axis=-1, keepdims=True)
    if method == "average" or known(np.any(unordered)):
        found = np.where(unordered, np.nan, found)
    return np.moveaxis(found, -1, axis)


def _of_ranks(name: str, of: str, count: int) -> Callable[..., Any]:
    """The public function for a rank test."""
    scipys = lazy(f"scipy.stats:{name}")

    def function(*samples: Any, **options: Any) -> Any:
        # samples may be keyword arguments
        named = [key for key, value in options.items() if holds_tracer(value)]
        plain = [stop_gradient(array(x)) for x in (*samples, *map(options.pop, named))]

        def computed(*values: Any) -> Any:
            by_name = dict(zip(named, values[len(samples) :], strict=True))
            found = scipys(*values[: len(samples)], **by_name, **options)
            return tuple(np.asarray(x, float) for x in (found[0], found[1]))

        # the shape of the result does not depend on the elements, so example data determine it
        example = computed(
            *(
                np.sin(n * np.arange(1.0, x.size + 1)).reshape(x.shape)
                for n, x in enumerate(plain, 1)
            )
        )
        types = tuple(Aval(x.shape, x.dtype) for x in example)
        return Test(*callback(computed, out_types=types)(*plain))

    function.__name__ = function.__qualname__ = name
    given = ", ".join(["[1.0, 4.0, 2.0]", "[2.0, 9.0, 3.0]"][:count])
    function.__doc__ = f"""{of}, and its p-value; their derivative is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import stats
    >>> grad(lambda x: stats.{name}(x, {given})[0])(np.array([1.0, 2.0, 5.0]))
    array([0., 0., 0.])
    """
    return answers(f"scipy.stats:{name}")(function)


chatterjeexi = _of_ranks("chatterjeexi", "Chatterjee's correlation of ranks", 1)
kendalltau = _of_ranks("kendalltau", "Kendall's correlation of ranks", 1)
kruskal = _of_ranks("kruskal", "The statistic of Kruskal and Wallis", 2)
ks_2samp = _of_ranks("ks_2samp", "The statistic of Kolmogorov and Smirnov for two samples", 1)
mannwhitneyu = _of_ranks("mannwhitneyu", "The statistic of Mann and Whitney", 1)
spearmanr = _of_ranks("spearmanr", "Spearman's correlation of ranks", 1)
weightedtau = _of_ranks("weightedtau", "A weighted correlation of ranks", 1)
wilcoxon = _of_ranks("wilcoxon", "The statistic of Wilcoxon's test of signed ranks", 1)

# -- correlation and regression --------------------------------------------------------------------


def _sided(t: Any, df: Any, alternative: str) -> Any:
    """The p-value of Student's t for a one-sided or two-sided alternative."""
    beyond = {"less": t, "greater": -t, "two-sided": -np.abs(t)}
    if alternative not in beyond:
        raise ValueError("`alternative` must be 'less', 'greater', or 'two-sided'.")
    tail = stdtr(inexact(df), beyond[alternative])
    return 2 * tail if alternative == "two-sided" else tail


def _scaled_deviations(x: Any, axis: int) -> Any:
    """The differences from the mean, scaled so that no square overflows; NaN if all are equal."""
    mean, plain = np.mean(x, axis=axis, keepdims=True), stop_gradient(x)
    low, high = (of(plain, axis=axis, keepdims=True) for of in (np.min, np.max))
    size = np.maximum(high - stop_gradient(mean), stop_gradient(mean) - low)
    # of equal numbers the mean may be rounded
    return (x - mean) * (1 / np.where(low == high, np.nan, size))


@answers("scipy.stats:pearsonr")
def pearsonr(
    x: Any, y: Any, *, alternative: str = "two-sided", method: Any = None, axis: int | None = 0
) -> Any:
    """Pearson's correlation coefficient, and its p-value.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.pearsonr([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])[0])
    1.0
    """
    _refuse_unless(method is None, "pearsonr(..., method=...)", "leave it out")
    (x, axis), (y, _) = on_one_axis(x, axis), on_one_axis(y, axis)
    n = x.shape[axis]
    if n != y.shape[axis] and 1 not in (n, y.shape[axis]):
        raise ValueError("`x` and `y` must have the same length along `axis`.")
    if n < 2:
        raise ValueError("`x` and `y` must have length at least 2.")
    if alternative not in ("less", "greater", "two-sided"):
        raise ValueError("`alternative` must be 'less', 'greater', or 'two-sided'.")
    a, b = _scaled_deviations(x, axis), _scaled_deviations(y, axis)
    sizes = np.sqrt(np.sum(a * a, axis=axis)) * np.sqrt(np.sum(b * b, axis=axis))
    r = np.clip(np.sum(a * b, axis=axis) / sizes, -1.0, 1.0)
    if n == 2:
        return Test(r, np.ones_like(r))
    beyond = {"less": -r, "greater": r, "two-sided": np.abs(r)}[alternative]
    tail = betainc(n / 2 - 1, n / 2 - 1, (1 - beyond) / 2)
    return Test(r, 2 * tail if alternative == "two-sided" else tail)


@answers("scipy.stats:pointbiserialr")
def pointbiserialr(
    x: Any, y: Any, *, axis: Any = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> Any:
    """The point-biserial correlation coefficient of booleans and numbers, and its p-value.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.pointbiserialr([True, False, True], [1.0, 0.0, 1.0])[0])
    1.0
    """
    propagates("pointbiserialr", nan_policy)
    (x, y), kept = on_slices(x, y, axis=axis, keepdims=keepdims)
    return Test(*map(kept, pearsonr(x, y, axis=-1)))


@answers("scipy.stats:linregress")
def linregress(
    x: Any, y: Any, alternative: str = "two-sided", *, axis: Any = 0,
    nan_policy: str = "propagate", keepdims: bool = False,
) -> Any:  # fmt: skip
    """Linear least-squares regression of two samples.

    Returns
    -------
    Line
        With ``slope``, ``intercept``, ``rvalue``, ``pvalue``, ``stderr``, ``intercept_stderr``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import stats
    >>> grad(lambda y: stats.linregress(np.arange(3.0), y).slope)(np.array([1.0, 2.0, 4.0]))
    array([-0.5,  0. ,  0.5])
    """
    propagates("linregress", nan_policy)
    (x, y), kept = on_slices(x, y, axis=axis, keepdims=keepdims)
    n = x.shape[-1]
    middle = np.mean(x, axis=-1)
    a = x - middle[..., None]
    b = y - np.mean(y, axis=-1, keepdims=True)
    xx, yy, xy = (np.mean(p, axis=-1) for p in (a * a, b * b, a * b))
    slope = xy / xx
    r = np.clip(xy / np.sqrt(xx * yy), -1.0, 1.0)
    df = n - 2
    if df:
        t = r * np.sqrt(df / ((1.0 - r + 1e-20) * (1.0 + r + 1e-20)))
        p, error = _sided(t, df, alternative), np.sqrt((1 - r * r) * yy / xx / df)
    else:  # with two points, the line is exact
        p, error = np.where(y[..., 0] == y[..., 1], 1.0, 0.0), 0.0 * slope
    five = slope, np.mean(y, axis=-1) - slope * middle, r, p, error
    of_intercept = kept(error * np.sqrt(xx + middle * middle))
    return Line(*map(kept, five), intercept_stderr=of_intercept)


# -- tests -----------------------------------------------------------------------------------------


def _student(value: Any, df: Any, alternative: str, kept: Callable[[Any], Any]) -> StudentTest:
    p = _sided(value, df, alternative)
    return StudentTest(kept(value), kept(p), kept(np.broadcast_to(df, value.shape)))


def _mean_and_variance(x: Any) -> tuple[Any, Any, int]:
    return np.mean(x, axis=-1), np.var(x, axis=-1, ddof=1), x.shape[-1]


@answers("scipy.stats:ttest_1samp")
def ttest_1samp(
    a: Any, popmean: Any, axis: Any = 0, nan_policy: str = "propagate",
    alternative: str = "two-sided", *, keepdims: bool = False,
) -> Any:  # fmt: skip
    """Student's t-test of a sample's mean: the statistic and its p-value.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.ttest_1samp([1.0, 3.0], 1.0).statistic)
    1.0
    """
    propagates("ttest_1samp", nan_policy)
    if np.ndim(popmean):
        (a, popmean), kept = on_slices(a, popmean, axis=axis, keepdims=keepdims)
        if popmean.shape[-1] != 1:
            raise ValueError("`popmean.shape[axis]` must equal 1.")
        popmean = popmean[..., 0]
    else:
        (a,), kept = on_slices(a, axis=axis, keepdims=keepdims)
    mean, variance, n = _mean_and_variance(a)
    return _student((mean - popmean) / np.sqrt(variance / n), n - 1, alternative, kept)


@answers("scipy.stats:ttest_rel")
def ttest_rel(
    a: Any, b: Any, axis: Any = 0, nan_policy: str = "propagate",
    alternative: str = "two-sided", *, keepdims: bool = False,
) -> Any:  # fmt: skip
    """Student's t-test of paired samples: the statistic and its p-value.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.ttest_rel([2.0, 3.0], [1.0, 0.0]).statistic)
    2.0
    """
    propagates("ttest_rel", nan_policy)
    (a, b), kept = on_slices(a, b, axis=axis, keepdims=keepdims)
    if a.shape[-1] != b.shape[-1]:
        raise ValueError("unequal length arrays")
    mean, variance, n = _mean_and_variance(a - b)
    return _student(mean / np.sqrt(variance / n), n - 1, alternative, kept)


@answers("scipy.stats:ttest_ind")
def ttest_ind(
    a: Any, b: Any, *, axis: Any = 0, equal_var: bool = True,
    nan_policy: str = "propagate", alternative: str = "two-sided", trim: float = 0,
    method: Any = None, keepdims: bool = False,
) -> Any:  # fmt: skip
    """Student's or Welch's t-test of independent samples: the statistic and its p-value.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.ttest_ind([1.0, 3.0], [0.0, 2.0]).statistic.round(6))
    0.707107
    """
    propagates("ttest_ind", nan_policy)
    _refuse_unless(method is None and trim == 0, "ttest_ind with trim= or method=", "leave it out")
    samples, kept = on_slices(a, b, axis=axis, keepdims=keepdims)
    (mean, v1, n1), (other, v2, n2) = map(_mean_and_variance, samples)
    if equal_var:
        df: Any = float(n1 + n2 - 2)
        # the variance of one element, which is not defined, has no share in the pooled one
        v1, v2 = (v if n > 1 else np.zeros_like(v) for v, n in ((v1, n1), (v2, n2)))
        pooled = ((n1 - 1) * v1 + (n2 - 1) * v2) / df
        size = np.sqrt(pooled * (1 / n1 + 1 / n2))
    else:
        s1, s2 = v1 / n1, v2 / n2
        df = (s1 + s2) ** 2 / (s1**2 / (n1 - 1) + s2**2 / (n2 - 1))
        size = np.sqrt(s1 + s2)
    return _student((mean - other) / size, df, alternative, kept)


@answers("scipy.stats:f_oneway")
def f_oneway(
    *samples: Any, axis: Any = 0, equal_var: bool = True, nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """One-way analysis of variance: the F statistic and its p-value.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.f_oneway([1.0, 3.0], [5.0, 7.0]).statistic)
    8.0
    """
    propagates("f_oneway", nan_policy)
    if len(samples) < 2:
        raise TypeError(f"at least two inputs are required; got {len(samples)}.")
    _refuse_unless(equal_var, "f_oneway(..., equal_var=False)", "write Welch's statistic down")
    groups, kept = on_slices(*samples, axis=axis, keepdims=keepdims)
    total = sum(x.shape[-1] for x in groups)
    middle = sum(np.sum(x, axis=-1) for x in groups) / total
    between: Any = 0.0
    within: Any = 0.0
    for x in groups:
        mean = np.mean(x, axis=-1, keepdims=True)
        between = between + x.shape[-1] * (mean[..., 0] - middle) ** 2
        within = within + np.sum((x - mean) ** 2, axis=-1)
    first, second = len(groups) - 1, total - len(groups)
    value = (between / first) / (within / second)
    return Test(kept(value), kept(fdtrc(float(first), float(second), value)))


@answers("scipy.stats:jarque_bera")
def jarque_bera(
    x: Any, *, axis: Any = None, nan_policy: str = "propagate", keepdims: bool = False
) -> Any:
    """The Jarque-Bera test of normality: the statistic and its p-value.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.jarque_bera([1.0, 2.0, 3.0]).statistic)
    0.28125
    """
    propagates("jarque_bera", nan_policy)
    (x,), kept = on_slices(x, axis=axis, keepdims=keepdims)
    value = x.shape[-1] / 6 * (skew(x, -1) ** 2 + kurtosis(x, -1) ** 2 / 4)
    return Test(kept(value), kept(chdtrc(2.0, value)))
