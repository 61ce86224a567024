"""Discrete distributions normalised by a sum over all outcomes, whose number must be known.

References
----------
The docstrings of `scipy.stats`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.numpy.define import needed
from functrans.numpy.reductions import max as largest
from functrans.numpy.reductions import sum
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal, greater_equal, less_equal
from functrans.ops.elementwise.exponential import exp, log
from functrans.ops.elementwise.special.entropy import xlogy
from functrans.ops.elementwise.special.gamma import gammaln
from functrans.scipy.stats.discrete import hypergeometric_support
from functrans.scipy.stats.distribution import Row, is_count, is_positive, is_whole
from functrans.scipy.stats.standard import one


def _outcomes(name: str, most: Any) -> Any:
    """The outcomes from 0 to the largest possible one."""
    found = needed(
        largest(select(equal(most, most), most, 0)),
        f"scipy.stats.{name} with a traced number of outcomes",
        "it is a sum over all of them: pass their number as a plain int",
    )
    return np.arange(0.0, float(found) + 1)


def _each(x: Any) -> Any:
    """Append an axis for the outcomes."""
    return np.asarray(x)[..., None] if isinstance(x, (int, float)) else x[..., None]


def _logsumexp(x: Any) -> Any:
    peak = largest(x, -1, keepdims=True)
    return peak[..., 0] + log(sum(exp(x - peak), -1))


def _zipfian_logpmf(k: Any, a: Any, n: Any) -> Any:
    each = _outcomes("zipfian", n)[1:]
    terms = select(less_equal(each, _each(n)), -_each(a) * np.log(each), -np.inf)
    return -a * log(k) - _logsumexp(terms)


def log_ways(n: Any, k: Any) -> Any:
    """The logarithm of the binomial coefficient of ``n`` over ``k``."""
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


def _log_weight(k: Any, total: Any, good: Any, drawn: Any, odds: Any) -> Any:
    return log_ways(good, k) + log_ways(total - good, drawn - k) + xlogy(k, odds)


def _fisher_logpmf(k: Any, total: Any, good: Any, drawn: Any, odds: Any) -> Any:
    low, high = hypergeometric_support(total, good, drawn, odds)
    each = _outcomes("nchypergeom_fisher", high)
    there = greater_equal(each, _each(low)) & less_equal(each, _each(high))
    possible = select(there, each, _each(low))
    weights = _log_weight(possible, *map(_each, (total, good, drawn, odds)))
    return _log_weight(k, total, good, drawn, odds) - _logsumexp(select(there, weights, -np.inf))


ROWS: tuple[Row, ...] = (
    Row(
        "zipfian", ("a", "n"), support=lambda a, n: (1.0, n), within=one,
        valid=lambda a, n: greater_equal(a, 0) & greater_equal(n, 1) & is_whole(n),
        logpdf=_zipfian_logpmf, discrete=True,
    ),
    Row(
        "nchypergeom_fisher", ("M", "n", "N", "odds"), support=hypergeometric_support,
        within=lambda *shapes: hypergeometric_support(*shapes)[0],
        valid=lambda M, n, N, odds: (
            is_positive(odds) & is_count(M, n, N) & less_equal(n, M) & less_equal(N, M)
        ),
        logpdf=_fisher_logpmf, discrete=True,
    ),
)  # fmt: skip
