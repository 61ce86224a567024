"""The exact text of errors about unsupported uses of SciPy functions on traced values."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import optimize, stats

from functrans import grad, jit
from functrans.errors import UnsupportedNumPyError
from tests.errors.words import X, located, message_of

# -- NaN -------------------------------------------------------------------------------------------

POLICIES = {
    **dict.fromkeys(
        ["circmean", "circstd", "circvar", "describe", "entropy", "gmean", "gstd", "hmean", "iqr",
         "kurtosis", "median_abs_deviation", "moment", "rankdata", "sem", "skew", "variation",
         "zscore"], (),
    ),
    "pmean": (2,), "ttest_1samp": (0.1,), "ttest_ind": (X,), "ttest_rel": (X,), "zmap": (X,),
}  # fmt: skip
INSTEAD = {
    "omit": "leave NaN out first, as x[~np.isnan(x)] does",
    "raise": "look for NaN in the plain array, before it is traced",
}


@pytest.mark.parametrize("policy", INSTEAD)
@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_for_nan_is_refused(name, policy):
    def summed(x):
        getattr(stats, name)(x, *POLICIES[name], nan_policy=policy)  # here
        return np.sum(x)

    found = message_of(UnsupportedNumPyError, lambda: jit(grad(summed))(X))
    assert found == located(
        f"scipy.stats.{name}(..., nan_policy={policy!r}) is not supported on traced values"
        f"{{here}}: {INSTEAD[policy]}", summed,
    )  # fmt: skip


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_that_there_is_not(name):
    function = getattr(stats, name)
    found = message_of(
        ValueError, lambda: grad(lambda x: function(x, *POLICIES[name], nan_policy="drop"))(X)
    )
    # SciPy prints a set, and one of its functions a full stop
    assert re.fullmatch(
        r"nan_policy must be one of \{(('raise'|'omit'|'propagate')(, )?){3}\}\.?", found
    )


def line(x, a):
    return a * x


@pytest.mark.parametrize("policy", INSTEAD)
def test_a_policy_of_a_fit_to_data_that_are_not_known(policy):
    def fitted(y):
        return optimize.curve_fit(line, X, y, nan_policy=policy)[0]  # here

    assert message_of(UnsupportedNumPyError, lambda: jit(fitted)(X)) == located(
        f"scipy.optimize.curve_fit(..., nan_policy={policy!r}) of data that are not known is not "
        "supported on traced values{here}: look for NaN in the plain arrays, before they are "
        "traced", fitted,
    )  # fmt: skip


def test_least_squares_has_nobody_to_call_back():
    def fitted(y):
        found = optimize.least_squares(np.sin, y, callback=print)  # here
        return found.x[0]

    assert message_of(UnsupportedNumPyError, lambda: grad(fitted)(X)) == located(
        "scipy.optimize.least_squares(..., callback=...) is not supported on traced values{here}: "
        "leave it out", fitted,
    )  # fmt: skip
