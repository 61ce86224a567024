"""Derivatives of quotients."""

import numpy as np
import pytest

from functrans import grad, hessian, jacfwd, jit, testing

X, Y = np.random.default_rng(0).uniform(1, 2, (2, 30, 40))


@pytest.mark.parametrize("shape", [(30, 1), (40,), (), (1, 1), (30, 40)])
def test_derivatives_by_divisors(shape):
    y = Y.ravel()[: int(np.prod(shape))].reshape(shape)
    testing.check_grads(lambda x, y: np.sum(np.sin(x / y)), (X[:, :40], y), max_elements=4)


def test_a_divisor_of_few_elements_is_divided_by_once():
    def by_divisor(x, y):
        return np.sum((x / y) ** 2)

    graph = str(jit(grad(by_divisor, argnums=1)).lower(X, Y[:, :1]).graph())
    assert graph.count("f64[30,40] = divide") == 1  # the quotient itself
    assert graph.count("f64[30,1] = divide") == 1


OF_SMALL_NUMBERS = {
    # functions of z = -400, whose exponential squared is 0, and their slopes
    "log": (lambda z: np.log(np.exp(z)), 1.0, 0.0),
    "quotient": (lambda z: np.exp(-400.0) / np.exp(z), -1.0, 1.0),
    "reciprocal": (lambda z: np.exp(-400.0) * np.reciprocal(np.exp(z)), -1.0, 1.0),
    "negative power": (lambda z: np.exp(-400.0) * np.exp(z) ** -1, -1.0, 1.0),
}


@pytest.mark.parametrize("name", OF_SMALL_NUMBERS)
def test_squares_of_small_divisors_do_not_underflow(name):
    function, slope, curvature = OF_SMALL_NUMBERS[name]
    for wrap in (lambda f: f, jit):
        np.testing.assert_allclose(wrap(grad(function))(-400.0), slope, rtol=1e-14)
        for second in (hessian(function), jacfwd(jacfwd(function)), grad(grad(function))):
            np.testing.assert_allclose(wrap(second)(-400.0), curvature, rtol=1e-14)
