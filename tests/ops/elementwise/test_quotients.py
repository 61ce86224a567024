"""Derivatives of quotients."""

import numpy as np
import pytest

from functrans import grad, jit, testing

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
