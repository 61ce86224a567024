"""Custom rules that branch in Python, close over outer values, or call the function itself."""

import numpy as np
import pytest

from functrans import custom_jvp, custom_vjp, errors, grad, jit, jvp, lax, vmap


def branching_jvp():
    @custom_jvp
    def f(x):
        return x * 2 if x > 0 else x * 3

    @f.defjvp
    def rule(primals, tangents):
        (x,), (dx,) = primals, tangents
        return f(x), (20 if x > 0 else 30) * dx

    return f


def branching_vjp():
    @custom_vjp
    def f(x):
        return x * 2 if x > 0 else x * 3

    def forward(x):
        return f(x), (x, x < 0)

    def backward(residuals, ct):
        x, negative = residuals
        assert bool(negative) == bool(x < 0)
        return (ct * (30 if negative else 20),)

    f.defvjp(forward, backward)
    return f


@pytest.mark.parametrize("make", [branching_jvp, branching_vjp])
def test_a_rule_branches_in_python_where_values_are_known(make):
    f = make()
    assert grad(f)(2.0) == 20
    assert grad(f)(-2.0) == 30
    assert grad(lambda x: f(x) * f(-x))(2.0) == 20 * -6 + 4 * -30
    with pytest.raises(errors.TracerBoolError):
        jit(grad(f))(2.0)


def scaled(kind, w):
    """``x * w``, of which the rule says that the slope is ``w ** 2``."""
    if kind == "jvp":

        @custom_jvp
        def f(x):
            return x * w

        f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * w * w))
    else:

        @custom_vjp
        def f(x):
            return x * w

        f.defvjp(lambda x: (x * w, None), lambda _, ct: (ct * w * w,))
    return f


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_a_rule_closes_over_values_that_are_still_traced(kind):
    def slope(w, x):
        f = scaled(kind, w)
        return grad(lambda x: f(x) ** 2 + np.sum(vmap(f)(np.ones(3) * x)))(x)

    def expected(w, x):
        return 2 * x * w**3 + 3 * w**2

    assert jit(slope)(2.0, 3.0) == expected(2.0, 3.0)
    ws = np.array([2.0, 3.0])
    np.testing.assert_allclose(vmap(slope, in_axes=(0, None))(ws, 3.0), expected(ws, 3.0))
    np.testing.assert_allclose(jit(vmap(slope, in_axes=(0, None)))(ws, 3.0), expected(ws, 3.0))
    np.testing.assert_allclose(jit(vmap(slope))(ws, ws), expected(ws, ws))


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_what_a_rule_closes_over_has_no_derivative_of_its_own(kind):
    with pytest.raises(errors.CustomRuleError):
        grad(lambda w: scaled(kind, w)(3.0))(2.0)


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_a_rule_inside_of_a_loop_says_that_it_cannot_close_over_outer_values(kind):
    def slope(w, x):
        f = scaled(kind, w)
        return grad(lambda x: lax.fori_loop(0, 3, lambda i, x: f(x), x))(x)

    with pytest.raises(errors.CustomRuleError, match="pass it to the function as an argument"):
        jit(slope)(2.0, 3.0)


def test_a_function_that_its_rule_applies_to_a_tangent_is_transposed():
    @custom_jvp
    def doubled(x):
        return 2 * x

    doubled.defjvp(lambda primals, tangents: (doubled(*primals), doubled(*tangents)))
    assert grad(doubled)(3.0) == 2.0
    assert grad(grad(lambda x: doubled(x) ** 3))(3.0) == 24 * 2 * 3
    assert jvp(grad(lambda x: doubled(x) ** 3), (3.0,), (1.0,))[1] == 24 * 2 * 3
    x = np.arange(3.0)
    np.testing.assert_allclose(jit(vmap(grad(lambda x: doubled(x) ** 3)))(x), 24 * x**2)

    @custom_jvp
    def squared(x):
        return x * x

    squared.defjvp(lambda primals, tangents: (squared(*primals), squared(*tangents)))
    with pytest.raises(errors.NotDifferentiableError):
        grad(squared)(3.0)
