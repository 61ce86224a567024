"""Pullbacks and pushforwards as values: of jitted functions, loops, and under vmap."""

import numpy as np
import pytest

from functrans import jit, lax, linear_transpose, linearize, tree, vjp, vmap
from functrans.errors import ShapeError

X = np.array([0.5, -1.0, 2.0])


def function(x):
    return np.sin(x) * x, np.sum(x**2)


@pytest.mark.parametrize("around", [lambda f: f, jit], ids=["plain", "jit"])
def test_a_jitted_function_returns_one(around):
    value, pull = around(lambda x: vjp(function, x))(X)
    _, push = around(lambda x: linearize(function, x))(X)
    np.testing.assert_allclose(value[0], function(X)[0])
    slope = np.cos(X) * X + np.sin(X)
    (ct,) = pull((np.ones(3), 2.0))
    np.testing.assert_allclose(ct, slope + 4.0 * X)
    (again,) = jit(lambda f, ct: f(ct))(pull, (np.ones(3), 2.0))
    np.testing.assert_allclose(again, ct)
    first, second = push(X)
    np.testing.assert_allclose(first, slope * X)
    np.testing.assert_allclose(second, 2.0 * X @ X)
    assert all(isinstance(x, np.ndarray | np.generic) for x in tree.leaves(pull))


def test_results_are_the_callers():
    _, pull = vjp(lambda x: 2.0 * x, X)
    (first,), (second,) = pull(X), pull(X)
    first[:] = 0.0
    np.testing.assert_array_equal(second, 2.0 * X)
    _, square = vjp(lambda x: x * x, X.copy())
    (one,) = square(np.ones(3))
    one[:] = 7.0
    np.testing.assert_array_equal(square(np.ones(3))[0], 2.0 * X)


def test_one_of_many_points_says_so():
    pulls = vmap(lambda x: vjp(function, x)[1])(np.stack([X, 2 * X]))
    with pytest.raises(ShapeError, match=r"this Pullback of function is of many points at once"):
        pulls((np.ones(3), 1.0))
    (found,) = vmap(lambda f: f((np.ones(3), 0.0)))(pulls)
    for x, row in zip((X, 2 * X), found, strict=True):
        np.testing.assert_allclose(row, np.cos(x) * x + np.sin(x))


def test_a_loop_carries_one():
    _, pull = vjp(lambda x: x**3, X)

    def step(i, carry):
        f, ct = carry
        return f, f(ct)[0] * 0.1

    _, ct = lax.fori_loop(0, 2, step, (pull, np.ones(3)))
    np.testing.assert_allclose(ct, (0.3 * X**2) ** 2)


def _grown(x):
    """A power of x, by as many steps as x asks for."""
    return lax.while_loop(lambda c: c[1] < 10.0, lambda c: (c[0] * x, c[1] + x), (x, 0.0))[0]


@pytest.mark.parametrize("linear", [vjp, linearize])
def test_maps_of_loops_of_different_lengths_are_mapped(linear):
    x = np.array([2.0, 3.0, 4.0])
    _, through = linear(vmap(_grown), x)

    def along(vector):
        (found,) = tree.leaves(through(vector))
        return found

    wanted = np.stack([along(row) for row in np.eye(3)])
    np.testing.assert_array_equal(vmap(along)(np.eye(3)), wanted)
    np.testing.assert_array_equal(jit(vmap(along))(np.eye(3)), wanted)
    np.testing.assert_array_equal(jit(along)(np.ones(3)), wanted.sum(0))
    (back,) = linear_transpose(along, np.ones(3))(np.ones(3))
    np.testing.assert_array_equal(back, wanted.sum(1))
