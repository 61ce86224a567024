"""Distributions normalised by a sum over all outcomes, against SciPy."""

import numpy as np
import pytest
import scipy.stats

from functrans import grad, jit
from functrans.errors import UnsupportedNumPyError
from functrans.scipy import stats
from functrans.testing import check_grads

POINTS = np.arange(-1.0, 9)


@pytest.mark.parametrize("a", [0.0, 0.7, 1.0, 2.5])
@pytest.mark.parametrize("n", [1, 6])
def test_zipfian(a, n):
    found = jit(lambda a: stats.zipfian.logpmf(POINTS, a, n))(a)
    np.testing.assert_allclose(found, scipy.stats.zipfian.logpmf(POINTS, a, n), rtol=1e-12)
    check_grads(lambda a: stats.zipfian.logpmf(np.arange(1.0, n + 1), a, n), (a + 0.1,), order=2)


@pytest.mark.parametrize("counts", [(20, 7, 12), (9, 4, 5), (6, 6, 3)])
def test_fishers_noncentral_hypergeometric(counts):
    def logpmf(module, odds):
        return module.nchypergeom_fisher.logpmf(POINTS, *counts, odds)

    for odds in (0.3, 1.0, 4.0):
        found = jit(lambda odds: logpmf(stats, odds))(odds)
        np.testing.assert_allclose(found, logpmf(scipy.stats, odds), rtol=1e-9)
    inside = np.isfinite(logpmf(scipy.stats, 1.0))
    check_grads(lambda odds: logpmf(stats, odds)[inside], (1.4,), order=2)


def test_how_many_outcomes_there_are_must_be_known():
    with pytest.raises(UnsupportedNumPyError, match="pass their number as a plain int"):
        jit(lambda n: stats.zipfian.logpmf(1, 2.0, n))(5)
    assert grad(lambda a: stats.zipfian.logpmf(1, a, 2))(0.0) == pytest.approx(0.5 * np.log(2))
