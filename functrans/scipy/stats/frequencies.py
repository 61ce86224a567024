"""Goodness-of-fit tests of frequencies: chi-square and the power divergence family.

References
----------
Cressie and Read, Multinomial Goodness-of-Fit Tests (1984).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.numpy.arrays import inexact, known
from functrans.ops.elementwise.special.distributions import chdtrc
from functrans.ops.elementwise.special.entropy import xlogy
from functrans.scipy.define import answers
from functrans.scipy.stats.samples import Test
from functrans.scipy.stats.slices import on_slices
from functrans.scipy.stats.statistics import propagates

__all__ = ["chisquare", "power_divergence"]

_POWERS = {
    "pearson": 1.0, "log-likelihood": 0.0, "freeman-tukey": -0.5, "mod-log-likelihood": -1.0,
    "neyman": -2.0, "cressie-read": 2 / 3,
}  # fmt: skip
"""The named members of the Cressie-Read family, by their powers."""


def _divergences(observed: Any, expected: Any, power: Any) -> Any:
    """The terms of the Cressie-Read statistic for a power."""
    if power == 1:
        return (observed - expected) ** 2 / expected
    if power == 0:
        return 2 * xlogy(observed, observed / expected)
    if power == -1:
        return 2 * xlogy(expected, expected / observed)
    return observed * ((observed / expected) ** power - 1) / (power * (power + 1) / 2)


def _by_powers(
    f_obs: Any, f_exp: Any, ddof: Any, axis: Any, power: Any, sum_check: bool, keepdims: bool
) -> Test:
    given = (f_obs,) if f_exp is None else np.broadcast_arrays(inexact(f_obs), inexact(f_exp))
    slices, kept = on_slices(*given, axis=axis, keepdims=keepdims)
    observed = slices[0]
    if f_exp is None:
        expected = np.mean(observed, axis=-1, keepdims=True)
    else:
        expected = slices[1]
        if sum_check:
            _check_sums(observed, expected)
    value = np.sum(_divergences(observed, expected, power), axis=-1)
    df = inexact(observed.shape[-1] - 1.0 - inexact(ddof))
    return Test(kept(value), kept(chdtrc(df, value)))


@answers("scipy.stats:chisquare")
def chisquare(
    f_obs: Any, f_exp: Any = None, ddof: Any = 0, axis: Any = 0, *, sum_check: bool = True,
    nan_policy: str = "propagate", keepdims: bool = False,
) -> Any:  # fmt: skip
    """The chi-square statistic of observed and expected frequencies, and its p-value.

    With ``sum_check``, it raises if the sums of observed and expected frequencies are known and
    differ; under `jit` and `vmap` they are not known.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.chisquare([1.0, 3.0]).statistic)
    1.0
    """
    propagates("chisquare", nan_policy)
    return _by_powers(f_obs, f_exp, ddof, axis, 1.0, sum_check, keepdims)


@answers("scipy.stats:power_divergence")
def power_divergence(
    f_obs: Any, f_exp: Any = None, ddof: Any = 0, axis: Any = 0, lambda_: Any = None, *,
    nan_policy: str = "propagate", keepdims: bool = False,
) -> Any:  # fmt: skip
    """The power divergence statistic (Cressie and Read), and its p-value.

    The sums of observed and expected frequencies must be equal, as for `chisquare`.

    Examples
    --------
    >>> from functrans.scipy import stats
    >>> float(stats.power_divergence([1.0, 3.0], lambda_="pearson").statistic)
    1.0
    """
    propagates("power_divergence", nan_policy)
    if isinstance(lambda_, str) and lambda_ not in _POWERS:
        raise ValueError(
            f"invalid string for lambda_: {lambda_!r}. Valid strings are {str(list(_POWERS))[1:-1]}"
        )
    power = 1.0 if lambda_ is None else _POWERS.get(lambda_, lambda_)
    return _by_powers(f_obs, f_exp, ddof, axis, power, True, keepdims)


def _check_sums(observed: Any, expected: Any) -> None:
    """Raise, as SciPy does, if the sums are known and agree to less than half of their digits."""
    tolerance = np.finfo(np.result_type(observed.dtype, expected.dtype)).eps ** 0.5
    of_observed, of_expected = (known(np.sum(x, axis=-1)) for x in (observed, expected))
    if of_observed is None or of_expected is None:
        return
    with np.errstate(invalid="ignore"):
        apart = abs(of_observed - of_expected) / np.minimum(of_observed, of_expected)
    if np.any(apart > tolerance):
        raise ValueError(
            "For each axis slice, the sum of the observed frequencies must agree with the sum of "
            f"the expected frequencies to a relative tolerance of {tolerance}, but the percent "
            f"differences are:\n{apart}"
        )
