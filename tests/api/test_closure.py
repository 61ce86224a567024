"""`closure_convert`, and transforms that return gradients together with results."""

import numpy as np
import pytest

from functrans import closure_convert, custom_gradient, custom_vjp, grad, jit, vjp, vmap
from functrans.errors import CustomRuleError, NotDifferentiableError

X = np.array([0.5, -1.0, 2.0])


@custom_gradient
def log1pexp(x):
    e = np.exp(x)
    return np.log1p(e), lambda ct: ct * (1.0 - 1.0 / (1.0 + e))


@custom_gradient
def product(x, y):
    """A product whose gradient is doubled."""
    return {"xy": x * y}, lambda ct: (2.0 * ct["xy"] * y, 2.0 * ct["xy"] * x)


@pytest.mark.parametrize("around", [lambda f: f, jit], ids=["plain", "jit"])
def test_custom_gradient(around):
    slope = 1.0 / (1.0 + np.exp(-X))
    np.testing.assert_allclose(around(vmap(grad(log1pexp)))(X), slope)
    np.testing.assert_allclose(around(vmap(grad(grad(log1pexp))))(X), slope * (1 - slope))
    np.testing.assert_allclose(around(grad(lambda x: log1pexp(x).sum()))(X), slope)
    assert around(grad(log1pexp))(700.0) == 1.0
    for number, expected in enumerate((6.0, 4.0)):
        found = around(grad(lambda x, y: product(x, y)["xy"], argnums=number))(2.0, 3.0)
        assert found == expected


def test_custom_gradient_is_the_function_in_all_else():
    assert log1pexp(0.0) == np.log(2.0)
    assert (product.__name__, product.__doc__) == (
        "product", "A product whose gradient is doubled.",
    )  # fmt: skip


def test_the_cotangent_of_one_argument_may_be_in_a_tuple():
    of_number = custom_gradient(lambda x: (x**2, lambda ct: (5.0 * ct,)))
    of_tuple = custom_gradient(lambda xs: (xs[0] ** 2, lambda ct: (5.0 * ct,)))
    assert grad(of_number)(3.0) == 5.0
    assert grad(of_tuple)((3.0,)) == (5.0,)


def test_what_it_must_return():
    with pytest.raises(CustomRuleError, match=r"must return \(result, backward\), and returned"):
        custom_gradient(lambda x: x)(1.0)


def test_closure_convert():
    def minimise(loss, x):
        """Of a function of a function, whose rule must know of what that closes over."""
        converted, consts = closure_convert(loss, x)
        return _minimise(converted, x, *consts)

    @custom_vjp(nondiff_argnums=0)
    def _minimise(loss, x, *consts):
        for _ in range(60):
            x = x - 0.25 * grad(loss)(x, *consts)
        return x

    def forward(loss, x, *consts):
        x = _minimise(loss, x, *consts)
        return x, (x, consts)

    def backward(loss, residuals, ct):
        x, consts = residuals
        curvature = grad(grad(loss))(x, *consts)
        _, pull = vjp(lambda *consts: grad(loss)(x, *consts), *consts)
        return (np.zeros_like(x), *pull(-ct / curvature))

    _minimise.defvjp(forward, backward)
    found = grad(lambda a: minimise(lambda x: (x - np.sin(a)) ** 2, 0.0))(0.7)
    assert found == pytest.approx(np.cos(0.7))


def test_without_a_closure():
    converted, consts = closure_convert(np.sin, 1.0)
    assert consts == []
    assert converted(0.5) == np.sin(0.5)
    with pytest.raises(TypeError, match="sin was converted for 1 arguments like its examples"):
        converted((1.0, 2.0))


def test_forward_mode_is_not_there():
    from functrans import jvp

    with pytest.raises(NotDifferentiableError):
        jvp(log1pexp, (1.0,), (1.0,))
