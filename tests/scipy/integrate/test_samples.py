"""Integrals of samples, against SciPy."""

import numpy as np
import pytest
import scipy.integrate

from functrans import jit, testing, vmap
from functrans.scipy import integrate

rng = np.random.default_rng(3)
RULES = ["trapezoid", "cumulative_trapezoid", "simpson", "cumulative_simpson"]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("count", [2, 3, 4, 5, 17, 300])
def test_values(name, count):
    ours, scipys = (getattr(module, name) for module in (integrate, scipy.integrate))
    y = rng.normal(size=(2, count))
    x = np.cumsum(rng.uniform(0.1, 1.0, size=count))
    for options in ({}, {"dx": 0.3}, {"x": x}, {"x": np.stack([x, 2 * x])}):
        expected = scipys(y, **options)
        np.testing.assert_allclose(jit(lambda y, o=options: ours(y, **o))(y), expected, rtol=1e-11)
    turned = jit(lambda y, x: ours(y, x=x, axis=0))(y.T.copy(), x)
    np.testing.assert_allclose(turned, scipys(y.T, x=x, axis=0), rtol=1e-11)


@pytest.mark.parametrize("count", [2, 5, 6])
def test_simpsons_dtypes(count):
    y, x = rng.normal(size=(2, count)).astype(np.float32)
    for options in ({"dx": 0.3}, {"x": x}):
        expected = scipy.integrate.simpson(y, **options)
        found = jit(lambda y, o=options: integrate.simpson(y, **o))(y)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("name", [n for n in RULES if "cumulative" in n])
def test_the_integral_to_the_first_sample(name):
    y = rng.normal(size=(2, 6))
    expected = getattr(scipy.integrate, name)(y, initial=0)
    found = jit(lambda y: getattr(integrate, name)(y, initial=0))(y)
    np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.parametrize("count", [2, 3, 5, 17])
def test_romberg(count):
    y = rng.normal(size=(count, 3))
    found = jit(lambda y: integrate.romb(y, dx=0.5, axis=0))(y)
    np.testing.assert_allclose(found, scipy.integrate.romb(y, dx=0.5, axis=0), rtol=1e-12)


def test_romberg_takes_a_power_of_two_and_one():
    with pytest.raises(ValueError, match="one plus a non-negative power of 2"):
        jit(integrate.romb)(np.zeros(4))


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("count", [4, 5])
def test_derivatives(name, count):
    x = np.cumsum(rng.uniform(0.3, 1.0, size=count))
    y = rng.normal(size=count)
    testing.check_grads(lambda y, x: getattr(integrate, name)(y, x=x), (y, x), order=2)


def test_lanes():
    ys = rng.normal(size=(3, 7))
    found = vmap(integrate.simpson)(ys)
    np.testing.assert_allclose(found, [scipy.integrate.simpson(y) for y in ys])


def test_plain_arrays_are_integrated_by_scipy():
    y = [1, 2, 3]
    assert type(integrate.simpson(y)) is type(scipy.integrate.simpson(y))
