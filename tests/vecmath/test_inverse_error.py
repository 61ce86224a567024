"""The normal quantile in XLA's arithmetic, against SciPy's error function."""

import numpy as np
import pytest
from scipy import special

from functrans.loop import scalar
from functrans.vecmath.inverse_error import normal_of_uniform


def evaluated(u):
    x = scalar.Scalar("local", (), u.dtype, "u")
    return scalar.evaluate(normal_of_uniform(x), {x: u})


def relative_errors(u):
    exact = np.sqrt(2) * special.erfinv(u.astype(np.float64))
    return np.abs(evaluated(u) - exact) / np.abs(exact)


@pytest.mark.parametrize(("dtype", "bound"), [(np.float64, 5e-15), (np.float32, 4e-7)])
def test_centre(dtype, bound):
    u = np.random.default_rng(0).uniform(-0.98, 0.98, 2600).astype(dtype)
    assert relative_errors(u).max() < bound


@pytest.mark.parametrize(("dtype", "digits"), [(np.float64, 14), (np.float32, 5)])
def test_tails(dtype, digits):
    """The nearer to 1, the fewer digits of ``1 - u**2`` there are."""
    distance = 10.0 ** -np.arange(1.0, digits, 0.25)
    u = (1 - distance).astype(dtype)
    bound = 20 * np.finfo(dtype).eps * (1 + 0.1 / distance)
    assert np.all(relative_errors(u) < bound)
    np.testing.assert_array_equal(evaluated(-u), -evaluated(u))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_special_values(dtype):
    u = np.array([0.0, -0.0, 1.0, -1.0, 1.5, np.nan], dtype)
    found = evaluated(u)
    np.testing.assert_array_equal(found, np.array([0, 0, np.inf, -np.inf, np.nan, np.nan], dtype))
    assert np.signbit(found[:2]).tolist() == [False, True]
