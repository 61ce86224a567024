"""The exact words of what is refused of SciPy's functions on traced values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from functrans import grad
from functrans.errors import UnsupportedNumPyError
from tests.errors.words import X, located, message_of

# -- NaN -------------------------------------------------------------------------------------------

POLICIES = {
    "circmean": (), "circstd": (), "circvar": (), "describe": (), "entropy": (), "iqr": (),
    "kurtosis": (), "median_abs_deviation": (), "moment": (), "rankdata": (), "sem": (),
    "skew": (), "ttest_1samp": (0.1,), "ttest_ind": (X,), "ttest_rel": (X,), "variation": (),
    "zmap": (X,), "zscore": (),
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

    found = message_of(UnsupportedNumPyError, lambda: grad(summed)(X))
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
    assert found == "nan_policy must be one of {'propagate', 'raise', 'omit'}"
