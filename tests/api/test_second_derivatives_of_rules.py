"""Hessians of functions that have only a reverse-mode rule, which is itself differentiated."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from functrans import custom_vjp, grad, hessian, hvp, jacrev, jit, vmap

X = np.array([0.3, -0.7, 1.2])
V = np.array([1.0, 0.5, -2.0])


@custom_vjp
def slope(x):
    return np.cos(x)


slope.defvjp(lambda x: (slope(x), x), lambda x, ct: (-ct * np.sin(x),))


@custom_vjp
def wave(x):
    return np.sin(x)


# the residuals hold results of functions with rules, and so does what the backward rule computes
wave.defvjp(lambda x: (wave(x), (wave(x), x)), lambda kept, ct: (ct * slope(kept[1]),))


@custom_vjp
def growth(x):
    return np.exp(x)


growth.defvjp(lambda x: (growth(x), (growth(x), x)), lambda kept, ct: (ct * kept[0],))


def loss(x):
    return np.sum(wave(x) * growth(x)) * wave(x[0])


def plain(x):
    return np.sum(np.sin(x) * np.exp(x)) * np.sin(x[0])


EXPECTED = jacrev(grad(plain))(X)


def test_the_expected_hessian_is_that_of_finite_differences():
    step = 1e-5 * np.eye(3)
    found = np.stack([(grad(plain)(X + d) - grad(plain)(X - d)) / 2e-5 for d in step])
    assert_allclose(EXPECTED, found, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("chunk_size", [None, 1, 2])
@pytest.mark.parametrize("compiled", [lambda f: f, jit])
def test_hessian(chunk_size, compiled):
    assert_allclose(compiled(hessian(loss, chunk_size=chunk_size))(X), EXPECTED, rtol=1e-12)


@pytest.mark.parametrize("compiled", [lambda f: f, jit])
def test_hvp(compiled):
    assert_allclose(compiled(hvp(loss))(X, V), EXPECTED @ V, rtol=1e-12)


def test_under_vmap():
    points = np.stack([X, V])
    expected = [jacrev(grad(plain))(x) for x in points]
    assert_allclose(vmap(hessian(loss))(points), expected, rtol=1e-12)
    assert_allclose(vmap(hvp(loss), in_axes=(0, None))(points, V), expected @ V, rtol=1e-12)


def test_of_trees_with_auxiliary_data():
    def of_tree(tree):
        return loss(tree["a"]) * tree["b"] ** 2, wave(tree["a"])

    tree = {"a": X, "b": 2.0}
    found, aux = hvp(of_tree, has_aux=True)(tree, {"a": V, "b": 3.0})
    assert_allclose(found["a"], 4 * EXPECTED @ V + 12 * grad(plain)(X), rtol=1e-12)
    assert_allclose(found["b"], 4 * grad(plain)(X) @ V + 6 * plain(X), rtol=1e-12)
    assert_allclose(aux, np.sin(X))
    second, aux = hessian(of_tree, has_aux=True)(tree)
    assert_allclose(second["a"]["a"], 4 * EXPECTED, rtol=1e-12)
    assert_allclose(second["a"]["b"], 4 * grad(plain)(X), rtol=1e-12)
    assert_allclose(second["b"]["b"], 2 * plain(X), rtol=1e-12)
    assert_allclose(aux, np.sin(X))


def test_what_the_vector_does_not_reach():
    result = hvp(lambda tree: wave(tree[0]) ** 2 + 3 * tree[1])((0.5, 1.0), (1.0, 1.0))
    assert_allclose(result, (2 * np.cos(1.0), 0.0), rtol=1e-12)


def test_of_complex_numbers():
    z, v = np.array([0.3 + 0.2j, -0.5 + 1j]), np.array([1 - 2j, 0.5 + 0.3j])

    def real(f):
        return lambda z: np.sum(np.abs(f(z)) ** 2)

    assert_allclose(hvp(real(growth))(z, v), hvp(real(np.exp))(z, v), rtol=1e-12)
