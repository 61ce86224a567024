"""Stochastic trace estimation: unbiased, exact for the documented cases, and accurate."""

import numpy as np
import pytest

from functrans import errors, grad, hvp, jit, jvp, random, vmap

RNG = np.random.default_rng(0)
FACTOR = RNG.standard_normal((40, 40)) * 0.8 ** np.arange(40)
MATRIX = FACTOR @ FACTOR.T
"""Positive definite, with eigenvalues that fall fast: what Hutch++ is made for."""


def product(v):
    return MATRIX @ v


@pytest.mark.parametrize("method", ["hutchinson", "hutch++"])
def test_the_mean_is_the_trace(method):
    keys = random.split(random.key(0), 400)
    found = jit(vmap(lambda key: random.estimate_trace(key, product, np.ones(40), 9, method)))(keys)
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - np.trace(MATRIX)) < 4 * error


@pytest.mark.dear
def test_where_a_few_eigenvalues_are_most_of_it_hutch_is_far_closer():
    keys = random.split(random.key(1), 200)

    def deviation(samples, method):
        one = lambda key: random.estimate_trace(key, product, np.ones(40), samples, method)  # noqa: E731
        return np.std(jit(vmap(one))(keys))

    assert deviation(48, "hutch++") < deviation(48, "hutchinson") / 10


def test_exact():
    x = np.arange(1.0, 4.0)
    for samples in (9, 10, 30):
        found = random.estimate_trace(random.key(2), lambda v: MATRIX[:3, :3] @ v, x, samples)
        np.testing.assert_allclose(found, np.trace(MATRIX[:3, :3]))
    # signs do not matter where the matrix is diagonal
    found = random.estimate_trace(random.key(2), lambda v: x * v, x, 1, "hutchinson")
    np.testing.assert_allclose(found, 6)
    assert random.estimate_trace(random.key(0), lambda v: v, np.zeros(0)) == 0


def test_laplacians_and_divergences_of_pytrees():
    at = {"a": np.array([1.0, 2.0]), "b": 3.0}

    def f(p):
        return np.sum(p["a"] ** 3) * p["b"]

    found = random.estimate_trace(random.key(3), lambda v: hvp(f)(at, v), at, samples=9)
    np.testing.assert_allclose(found, 6 * 3 * 3)

    def divergence(x):
        return random.estimate_trace(random.key(4), lambda v: jvp(np.sin, (x,), (v,))[1], x, 9)

    x = np.array([0.1, 0.2, 0.3])
    np.testing.assert_allclose(divergence(x), np.sum(np.cos(x)))

    def linear(x):
        own = lambda v: jvp(np.sin, (x,), (v,))[1]  # noqa: E731
        return random.estimate_trace(random.key(4), own, x, 4, "hutchinson")

    np.testing.assert_allclose(grad(linear)(x), -np.sin(x))


def test_float32():
    x = np.ones(5, np.float32)
    assert random.estimate_trace(random.key(0), lambda v: v * 2, x).dtype == np.float32


def test_errors():
    with pytest.raises(ValueError, match=r"is one of \('hutchinson', 'hutch\+\+'\), not 'exact'"):
        random.estimate_trace(random.key(0), product, np.ones(40), method="exact")
    with pytest.raises(ValueError, match=r"hutch\+\+ takes 3 samples at least, not 2"):
        random.estimate_trace(random.key(0), product, np.ones(40), 2)
    with pytest.raises(errors.ShapeError, match="takes 40 elements, and must return as many"):
        random.estimate_trace(random.key(0), lambda v: v[:4], np.ones(40))
