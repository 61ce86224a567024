"""Goodness-of-fit tests of frequencies: chi-square and the power divergence family.

SciPy's source computes them. Whether sums agree, on which it branches, is asked where it is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.numpy.arrays import inexact, known
from functrans.scipy.define import answers
from functrans.scipy.source.reinterpret import module
from functrans.scipy.stats.slices import on_slices, propagates

__all__ = ["chisquare", "power_divergence"]


def _by_powers(
    f_obs: Any, f_exp: Any, ddof: Any, axis: Any, power: Any, sum_check: bool, keepdims: bool
) -> Any:
    given = (f_obs,) if f_exp is None else np.broadcast_arrays(inexact(f_obs), inexact(f_exp))
    slices, kept = on_slices(*given, axis=axis, keepdims=keepdims)
    observed, expected = slices if f_exp is not None else (slices[0], None)
    sum_check = sum_check and all(known(x) is not None for x in slices)
    found = module("scipy.stats._stats_py")._power_divergence(
        observed, expected, ddof, -1, power, sum_check
    )
    return type(found)(kept(found.statistic), kept(found.pvalue))


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
    return _by_powers(f_obs, f_exp, ddof, axis, "pearson", sum_check, keepdims)


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
    return _by_powers(f_obs, f_exp, ddof, axis, lambda_, True, keepdims)
