"""Expectiles, which are found by sorting, against SciPy's, which are found by iteration."""

import numpy as np
import pytest
from scipy import stats

from functrans import grad, jit, vmap
from functrans.scipy.define import since_1_18
from functrans.testing import check_grads

RANDOM = np.random.default_rng(3)
SAMPLES = {
    "one": np.array([3.0]),
    "ties": np.array([2.0, 1.0, 2.0, 2.0, 1.0]),
    "equal": np.full(7, 0.1),
    "an offset": 1e6 + RANDOM.normal(size=17),
    "many": RANDOM.normal(size=300),
    "NaN": np.array([1.0, np.nan, 2.0]),
    "integers": np.array([[5, 3, 8], [1, 9, 2]]),
    "single": RANDOM.normal(size=(2, 5)).astype(np.float32),
}


@pytest.mark.parametrize("of", SAMPLES)
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_values_and_slopes(of, alpha):
    x = SAMPLES[of]
    every = [None] if of == "NaN" else [None, RANDOM.integers(1, 4, x.shape) * 0.5]
    for weights in every:

        def function(x, weights=weights):
            return stats.expectile(x, alpha, weights=weights)

        expected = function(x)
        for found in (jit(function)(x), vmap(function)(x[None])[0]):
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(found, expected, rtol=2e-6)
    if of in ("one", "many"):
        check_grads(function, (x,), order=1, max_elements=3)


@pytest.mark.skipif(not since_1_18(), reason="older ones have one sample")
def test_axes():
    x = RANDOM.normal(size=(2, 3, 4))
    for options in ({"axis": None}, {"axis": -1, "keepdims": True}, {"axis": (0, 2)}, {}):

        def function(x, options=options):
            return stats.expectile(x, 0.3, **options)

        np.testing.assert_allclose(jit(function)(x), function(x), rtol=1e-6)


def test_a_level_that_is_traced():
    x = SAMPLES["many"]
    check_grads(lambda level: stats.expectile(x, level), (0.3,), order=1)
    with pytest.raises(ValueError, match=r"must be in the range \[0, 1\]"):
        jit(lambda x: stats.expectile(x, 1.5))(x)


def test_levels_at_the_ends_that_are_traced():
    """The slopes are the limits: sums of distances over the number of extreme elements."""
    x = np.array([2.0, 0.5, 3.0, 0.5, 7.0])
    for level, slope in ((0.0, np.sum(x - 0.5) / 2), (1.0, np.sum(7 - x))):
        assert jit(stats.expectile)(x, level) == stats.expectile(x, level)
        assert grad(lambda level: stats.expectile(x, level))(level) == pytest.approx(slope)
