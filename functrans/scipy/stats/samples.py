"""Statistics of two samples and more: correlations, regressions, tests.

p-values are computed by the distributions, and so have derivatives. Functions that depend only on
ranks have the derivative 0; SciPy computes them on the host.

References
----------
The docstrings of `scipy.stats`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from functrans.api.host import callback
from functrans.api.mapping import vmap
from functrans.api.recompute import stop_gradient
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.numpy.arrays import array, inexact, inexact_pair, known
from functrans.numpy.joining import concatenate
from functrans.ops.arrays.shape import holds_tracer
from functrans.ops.elementwise.special.distributions import stdtr
from functrans.records import NamedTuple
from functrans.scipy.define import answers, double, since_1_18
from functrans.scipy.entries import of_scipys
from functrans.scipy.stats.slices import on_slices, propagates

__all__ = [
    "chatterjeexi", "kendalltau", "kruskal", "ks_2samp", "linregress", "mannwhitneyu",
    "pointbiserialr", "rankdata", "spearmanr", "weightedtau", "wilcoxon",
]  # fmt: skip


class Test(NamedTuple):
    """A test statistic and its p-value."""

    statistic: Any
    pvalue: Any

    @property
    def correlation(self) -> Any:
        """The statistic of a correlation test under SciPy's alternative name."""
        return self.statistic


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

    If an element is NaN, all ranks are NaN. With SciPy before 1.18, ranks are integers but for the
    method ``"average"``; if it is not known whether an element is NaN, they stay integers, and NaN
    counts as greater than any number.

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

    count = prod(rows.shape[:-1])
    found = vmap(ranked)(rows.reshape(count, rows.shape[-1])).reshape(rows.shape)
    if since_1_18():
        found = found.astype(inexact(x).dtype)
    unordered = np.any(np.isnan(rows), axis=-1, keepdims=True)
    if found.dtype.kind == "f" or known(np.any(unordered)):
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
            return np.asarray(found[0]), np.asarray(found[1])

        # shapes and dtypes do not depend on the elements, so example data determine them
        example = computed(
            *(
                np.sin(n * np.arange(1.0, x.size + 1)).reshape(x.shape).astype(inexact(x).dtype)
                for n, x in enumerate(plain, 1)
            )
        )
        types = tuple(Aval(x.shape, x.dtype) for x in example)

        def converted(*values: Any) -> Any:  # of NaN, SciPy gives some results in other dtypes
            return tuple(x.astype(t.dtype) for x, t in zip(computed(*values), types, strict=True))

        return Test(*callback(converted, out_types=types)(*plain))

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
    found = of_scipys("stats", "pearsonr")(x, y, axis=-1)
    return Test(kept(found.statistic), kept(found.pvalue))


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
    pair = inexact_pair(x, y) if since_1_18() else (double(x), double(y))
    (x, y), kept = on_slices(*pair, axis=axis, keepdims=keepdims)
    n = x.shape[-1]
    middle = np.mean(x, axis=-1)
    a = x - middle[..., None]
    b = y - np.mean(y, axis=-1, keepdims=True)
    xx, yy, xy = (np.mean(p, axis=-1) for p in (a * a, b * b, a * b))
    slope = xy / xx
    r = np.clip(xy / np.sqrt(xx * yy), -1.0, 1.0)
    df = n - 2
    if df or since_1_18():
        t = r * np.sqrt(df / ((1.0 - r + 1e-20) * (1.0 + r + 1e-20)))
        p, error = _sided(t, df, alternative), np.sqrt((1 - r * r) * yy / xx / df)
    else:  # before SciPy 1.18, the line through two points is said to be exact
        p, error = np.where(y[..., 0] == y[..., 1], 1.0, 0.0), 0.0 * slope
    five = slope, np.mean(y, axis=-1) - slope * middle, r, p, error
    of_intercept = kept(error * np.sqrt(xx + middle * middle))
    return Line(*map(kept, five), intercept_stderr=of_intercept)
