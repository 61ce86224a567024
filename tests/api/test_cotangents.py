"""on_cotangent: a function observes or replaces the cotangent of a value."""

import numpy as np
import pytest

from functrans import debug, grad, hessian, jit, jvp, lax, on_cotangent, tree, vmap
from functrans.errors import CustomRuleError, NotDifferentiableError

X = np.array([1.0, 2.0])


def test_it_is_the_value():
    assert on_cotangent(3.0, lambda ct: ct) == 3.0
    np.testing.assert_array_equal(jit(lambda x: on_cotangent(x, lambda ct: 0 * ct))(X), X)


@pytest.mark.parametrize("transform", [grad, lambda f: jit(grad(f)), lambda f: grad(jit(f))])
def test_it_is_replaced(transform):
    def loss(x):
        return np.sum(on_cotangent(np.sin(x), lambda ct: np.clip(ct, -0.5, 1.0)) ** 2)

    expected = np.clip(2 * np.sin(X), -0.5, 1.0) * np.cos(X)
    np.testing.assert_allclose(transform(loss)(X), expected, rtol=1e-14)


@pytest.mark.parametrize("transform", [grad, lambda f: jit(grad(f))])
def test_it_is_seen(transform):
    seen = []

    def loss(x):
        h = on_cotangent(np.sin(x), lambda ct: debug.callback(seen.append, ct))
        return np.sum(h * h)

    np.testing.assert_allclose(transform(loss)(X), 2 * np.sin(X) * np.cos(X))
    [found] = seen
    np.testing.assert_allclose(found, 2 * np.sin(X))


def test_in_loops_and_for_each_example():
    def loop(x):
        def step(c, _):
            return on_cotangent(c * x, lambda ct: 2.0 * ct), None

        return lax.scan(step, 1.0, None, length=3)[0]

    # x**3, whose last factor's cotangent is doubled once, the one before twice, the first thrice
    expected = 4.0 * (2.0 + 4.0 + 8.0)
    assert grad(loop)(2.0) == jit(grad(loop))(2.0) == expected
    np.testing.assert_array_equal(vmap(grad(loop))(np.array([2.0, 2.0])), [expected] * 2)


def test_trees():
    def loss(params):
        params = on_cotangent(params, lambda ct: tree.map(lambda x: 0.5 * x, ct))
        return np.sum(params["a"] ** 2) + params["b"]

    found = grad(loss)({"a": X, "b": 3.0})
    np.testing.assert_array_equal(found["a"], X)
    assert found["b"] == 0.5


def test_second_derivatives_go_through_the_function():
    found = hessian(lambda x: on_cotangent(x, lambda ct: ct * ct) ** 2)(3.0)
    assert np.isclose(found, 8.0 * 3.0)  # the gradient is (2 x)**2


def test_what_is_refused():
    with pytest.raises(CustomRuleError, match=r"custom_vjp\(on_cotangent\) has shape \(3,\)"):
        grad(lambda x: on_cotangent(x, lambda ct: np.ones(3)))(1.0)
    with pytest.raises(NotDifferentiableError, match="forward mode"):
        jvp(lambda x: on_cotangent(x, lambda ct: ct), (1.0,), (1.0,))
    with pytest.raises(TypeError, match="on_cotangent"):
        on_cotangent(1.0, 2.0)
