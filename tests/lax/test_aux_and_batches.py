"""Auxiliary results of custom_root and custom_linear_solve, and lax.map with a batch size."""

import numpy as np
import pytest

from functrans import grad, jacfwd, jit, lax, vmap

X = np.array([2.0, 3.0, 0.5])


def newton(f, x):
    def step(state):
        x, n = state
        return x - f(x) / grad(f)(x), n + 1

    return lax.while_loop(lambda state: abs(f(state[0])) > 1e-13, step, (x, 0))


def root_with_count(a):
    return lax.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0), has_aux=True)


@pytest.mark.parametrize("around", [lambda f: f, jit], ids=["plain", "jit"])
def test_a_root_and_how_it_was_found(around):
    root, steps = around(root_with_count)(2.0)
    assert root == pytest.approx(np.sqrt(2.0))
    assert 3 <= steps <= 8
    assert steps.dtype == np.int64
    slope, aux = around(grad(root_with_count, has_aux=True))(2.0)
    assert slope == pytest.approx(0.5 / np.sqrt(2.0))
    assert aux == steps
    curved = around(grad(grad(lambda a: root_with_count(a)[0])))(2.0)
    assert curved == pytest.approx(-0.25 * 2.0**-1.5)
    roots, counts = around(vmap(root_with_count))(X)
    np.testing.assert_allclose(roots, np.sqrt(X))
    assert [root_with_count(a)[1] for a in X] == list(counts)


def jacobi(matvec, b):
    """Richardson's iteration, and the residual that it stops with."""
    x = lax.fori_loop(0, 200, lambda i, x: x + 0.3 * (b - matvec(x)), np.zeros_like(b))
    return x, {"residual": np.max(np.abs(b - matvec(x)))}


@pytest.mark.parametrize("around", [lambda f: f, jit], ids=["plain", "jit"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_a_linear_system_and_how_it_was_solved(around, symmetric):
    matrix = np.array([[2.0, 0.5, 0.0], [0.5 if symmetric else 0.1, 1.5, 0.2], [0.0, 0.2, 1.0]])

    def solved(a, b):
        options = {"symmetric": True} if symmetric else {"transpose_solve": jacobi}
        return lax.custom_linear_solve(lambda x: a @ x, b, jacobi, has_aux=True, **options)

    x, aux = around(solved)(matrix, X)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, X))
    assert aux["residual"] < 1e-8
    for number in (0, 1):
        found = around(jacfwd(lambda a, b: solved(a, b)[0], number))(matrix, X)
        expected = jacfwd(np.linalg.solve, number)(matrix, X)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        found = around(grad(lambda a, b: np.sum(solved(a, b)[0] ** 2), number))(matrix, X)
        expected = grad(lambda a, b: np.sum(np.linalg.solve(a, b) ** 2), number)(matrix, X)
        if not symmetric or number:
            np.testing.assert_allclose(found, expected, atol=1e-8)


def test_a_solver_without_aux():
    with pytest.raises(TypeError, match=r"has_aux=True: a solver must return \(solution, aux\)"):
        lax.custom_root(lambda x: x, 1.0, lambda f, x: x, lambda g, y: y, has_aux=True)


@pytest.mark.parametrize("count", [0, 1, 2, 17, 300])
@pytest.mark.parametrize("batch_size", [1, 4, 17, 1000])
@pytest.mark.parametrize("around", [lambda f: f, jit], ids=["plain", "jit"])
def test_map_in_batches(count, batch_size, around):
    xs = np.linspace(-1.0, 1.0, 2 * count).reshape(count, 2)

    def function(pair):
        x, n = pair
        return {"s": np.sin(x).sum() * n, "x": x[::-1]}

    given = (xs, np.arange(count))
    found = around(lambda given: lax.map(function, given, batch_size=batch_size))(given)
    np.testing.assert_allclose(found["s"], np.sin(xs).sum(axis=1) * np.arange(count), atol=1e-13)
    np.testing.assert_array_equal(found["x"], xs[:, ::-1])


@pytest.mark.parametrize("batch_size", [0, -1, 2.0, True])
def test_batch_sizes_that_are_none(batch_size):
    with pytest.raises(ValueError, match="batch_size of map must be a positive integer"):
        lax.map(np.sin, X, batch_size=batch_size)
