"""Laplacians and divergences against traces of dense matrices."""

import numpy as np
import pytest

from functrans import (
    custom_jvp,
    debug,
    divergence,
    errors,
    grad,
    hessian,
    jacrev,
    jit,
    laplacian,
    lax,
    tree,
    vmap,
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal(6)
W = RNG.standard_normal((6, 4))

FUNCTIONS = {
    "cubes": lambda x: np.sum(x**3),
    "a network": lambda x: np.sum(np.tanh(np.tanh(x @ W) @ W.T)),
    "a product of both": lambda x: np.sum(np.tanh(np.outer(x, x) @ x)),
    "several results": lambda x: np.sin(x) * x[::-1],
    "linear": lambda x: x * 2,
    "a constant": lambda x: 1.0,
    "one operand twice": lambda x: np.multiply(x, x),
    "a solution": lambda x: np.linalg.solve(np.outer(x, x) + np.eye(6), x),
    "a maximum": lambda x: np.max(x) ** 2,
    "a choice": lambda x: np.where(x > 0, x**2, x**3),
    "a branch": lambda x: lax.cond(x[0] > 0, lambda x: x**3, lambda x: x**4, x),
    "a scan": lambda x: lax.scan(lambda c, a: (np.sin(c * a), c), x[0], x),
    "a while loop": lambda x: lax.while_loop(lambda u: u[0] < 50, lambda u: u * u + 2, np.abs(x)),
    "a jitted function": lambda x: jit(lambda u: u**3)(x),
}


@pytest.mark.dear
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("jitted", [False, True])
def test_laplacians(name, jitted):
    function = FUNCTIONS[name]
    transform = laplacian(function)
    found = (jit(transform) if jitted else transform)(X)
    expected = tree.map(lambda h: np.trace(h, axis1=-2, axis2=-1), hessian(function)(X))
    tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-9), found, expected)


def test_all_leaves_count():
    at = {"a": X[:2], "b": X[2:].reshape(2, 2)}
    vector, unravel = tree.ravel(at)

    def f(p):
        return np.sum(np.exp(p["a"])[:, None] * p["b"] ** 2)

    expected = np.trace(hessian(lambda x: f(unravel(x)))(vector))
    np.testing.assert_allclose(laplacian(f)(at), expected)
    np.testing.assert_allclose(laplacian(lambda s, p: s * f(p), argnums=1)(2.0, at), 2 * expected)
    both = laplacian(lambda x, y: np.sum(x**2 * y**2), argnums=(0, 1))
    np.testing.assert_allclose(both(X, X), 4 * np.sum(X**2))


def test_it_composes():
    f = laplacian(lambda x: np.sum(x**4))
    np.testing.assert_allclose(grad(f)(X), 24 * X)
    np.testing.assert_allclose(f(X), 12 * np.sum(X**2))
    np.testing.assert_allclose(vmap(f)(np.stack([X, 2 * X])), 12 * np.sum(X**2) * np.array([1, 4]))
    np.testing.assert_allclose(laplacian(f)(X), 24 * 6)


@pytest.mark.parametrize("wrap", [lambda f: f, jit, lambda f: jit(jit(f))])
def test_effects_take_place_once(wrap, capsys):
    def f(x):
        debug.print("first {x}", x=x[0])
        return np.sum(lax.map(lambda a: a**3, x))

    assert wrap(laplacian(f))(np.ones(2)) == 12
    assert capsys.readouterr().out == "first 1.0\n"


def test_no_elements():
    assert laplacian(np.sum)(np.zeros(0)) == 0
    assert divergence(np.sin)(np.zeros(0)) == 0


def test_divergences():
    field = lambda x: x**2 * x[0]  # noqa: E731
    expected = np.trace(jacrev(field)(X))
    np.testing.assert_allclose(divergence(field)(X), expected)
    np.testing.assert_allclose(jit(divergence(field))(X), expected)
    assert divergence(lambda p: {"a": p["b"], "b": p["b"] * 3})({"a": X[0], "b": X[1]}) == 3
    assert divergence(lambda p: {"a": p["a"] ** 2, "b": 1.0})({"a": 4.0, "b": 1.0}) == 8


def test_errors():
    def f(x):
        return x[1:]

    with pytest.raises(errors.ShapeError, match=r"but f takes \[\(6,\)\] and returns \[\(5,\)\]"):
        divergence(f)(X)

    def g(x):
        return x * 1j

    with pytest.raises(errors.DtypeError, match="but g takes or returns complex128"):
        laplacian(g)(X)
    with pytest.raises(errors.IntegerInputError):
        laplacian(np.sum)(np.arange(3))


def test_the_laplacian_of_a_rule_that_calls_a_function_with_a_rule():
    @custom_jvp
    def sine(x):
        return np.sin(x)

    sine.defjvp(lambda x, dx: (np.sin(x[0]), np.cos(x[0]) * dx[0]))

    @custom_jvp
    def minus_cosine(x):
        return -np.cos(x)

    minus_cosine.defjvp(lambda x, dx: (minus_cosine(x[0]), sine(x[0]) * dx[0]))

    x = np.arange(1.0, 4.0)
    found = laplacian(lambda x: np.sum(minus_cosine(x) * x))(x)
    assert np.allclose(found, np.sum(2 * np.sin(x) + x * np.cos(x)))
