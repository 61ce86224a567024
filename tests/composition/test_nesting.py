"""Nested transforms over closed-over traced values: no confusion of perturbations or batch axes."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import functrans as ft
from functrans import grad, hessian, jacfwd, jit, jvp, linearize, vjp, vmap
from functrans.errors import CustomRuleError


def forward(f):
    return lambda x: jvp(f, (x,), (1.0,))[1]


DERIVATIVES = [grad, forward, jacfwd, ft.jacrev]


@pytest.mark.parametrize("inner", DERIVATIVES)
@pytest.mark.parametrize("outer", DERIVATIVES)
class TestPerturbationConfusion:
    """Siskind and Pearlmutter (2005), Manzyuk et al. (2019): confusion gives 2, 1 and 0."""

    def test_sum(self, outer, inner):
        assert outer(lambda x: x * inner(lambda y: x + y)(1.0))(1.0) == 1.0

    def test_product(self, outer, inner):
        assert outer(lambda x: x * inner(lambda y: x * y)(2.0))(1.0) == 2.0

    def test_constant_in_the_inner_function(self, outer, inner):
        assert outer(lambda x: inner(lambda y: x * x)(5.0) + x)(3.0) == 1.0

    def test_inner_value_used_outside_of_it(self, outer, inner):
        # d/dx [x * d/dy(x^2 y^3 at y=x)] = d/dx [3 x^5]
        result = outer(lambda x: x * inner(lambda y: x**2 * y**3)(x))(2.0)
        assert result == pytest.approx(15 * 2.0**4)

    def test_three_levels(self, outer, inner):
        # d/dx [x d/dy [y d/dz(x y z)]] = d/dx [x 2 x y], at y=x: d/dx of 2 x^3
        result = outer(lambda x: x * inner(lambda y: y * grad(lambda z: x * y * z)(1.0))(x))(2.0)
        assert result == pytest.approx(24.0)

    def test_compiled(self, outer, inner):
        assert jit(outer(lambda x: x * inner(lambda y: x * y)(2.0)))(1.0) == 2.0
        assert outer(jit(lambda x: x * inner(lambda y: x * y)(2.0)))(1.0) == 2.0
        assert outer(lambda x: x * inner(jit(lambda y: x * y))(2.0))(1.0) == 2.0
        assert outer(lambda x: x * jit(inner(lambda y: x * y))(2.0))(1.0) == 2.0


def test_a_function_that_returns_a_function():
    # the "amazing bug": s(u)(f)(x) = f(x + u)
    def shift(u):
        return lambda f: lambda x: f(x + u)

    assert forward(lambda u: shift(u)(np.exp)(0.0))(0.0) == 1.0
    # the derivative of shift(u)(f) at u = 0, as a function of x, twice
    derivative = lambda f: lambda x: forward(lambda u: shift(u)(f)(x))(0.0)  # noqa: E731
    assert derivative(derivative(np.exp))(1.0) == pytest.approx(np.e)


@pytest.mark.parametrize("wrap", [lambda f: f, jit, ft.checkpoint])
class TestClosures:
    X = np.array([1.0, 2.0, 3.0])

    def test_vmap_of_a_function_of_an_outer_tracer(self, wrap):
        def f(x):
            return np.sum(vmap(wrap(lambda y: x * y**2))(self.X))

        assert grad(f)(2.0) == 14.0
        np.testing.assert_array_equal(vmap(f)(self.X), 14.0 * self.X)
        assert grad(grad(lambda x: f(x) * x))(2.0) == 28.0

    def test_grad_of_a_function_of_an_outer_example(self, wrap):
        result = vmap(lambda x: grad(wrap(lambda y: x * y**2))(3.0))(self.X)
        np.testing.assert_array_equal(result, 6.0 * self.X)

    def test_nested_maps(self, wrap):
        table = vmap(lambda x: vmap(wrap(lambda y: x - y))(self.X))(self.X)
        np.testing.assert_array_equal(table, self.X[:, None] - self.X)
        swapped = vmap(lambda x: vmap(wrap(lambda y: x - y), out_axes=0)(self.X), out_axes=1)
        np.testing.assert_array_equal(swapped(self.X), table.T)

    def test_hessian_of_a_function_of_an_outer_tracer(self, wrap):
        third = jacfwd(lambda x: hessian(wrap(lambda y: np.sum(x * y**3)))(x))(self.X)
        expected = np.zeros((3, 3, 3))
        np.einsum("iii->i", expected)[:] = 12 * self.X
        np.testing.assert_allclose(third, expected)

    def test_two_outer_tracers(self, wrap):
        def f(x):
            return grad(lambda y: wrap(lambda z: x * y**2 * z**3)(x))(x)

        # d/dy (x y^2 x^3) at y = x: 2 x^5
        assert grad(f)(2.0) == pytest.approx(10 * 2.0**4)


def test_the_parts_of_vjp_and_linearize_take_tracers():
    x = np.array([0.5, 1.0, 2.0])
    _, pullback = vjp(np.sin, x)
    _, pushforward = linearize(np.sin, x)
    for linear in (lambda t: pullback(t)[0], pushforward):
        np.testing.assert_allclose(linear(np.ones(3)), np.cos(x))
        np.testing.assert_allclose(linear(2 * np.ones(3)), 2 * np.cos(x))
        np.testing.assert_allclose(vmap(linear)(np.eye(3)), np.diag(np.cos(x)))
        np.testing.assert_allclose(grad(lambda t: np.sum(linear(t)))(np.ones(3)), np.cos(x))  # noqa: B023
        np.testing.assert_allclose(jit(linear)(np.ones(3)), np.cos(x))


def test_a_pullback_of_an_outer_tracer():
    def f(x):
        _, pullback = vjp(lambda z: np.sin(z) * x, x)
        return pullback(x)[0]  # x^2 cos x

    expected = 2 * 2.0 * np.cos(2.0) - 4 * np.sin(2.0)
    assert grad(f)(2.0) == pytest.approx(expected)
    assert forward(f)(2.0) == pytest.approx(expected)
    assert jit(grad(f))(2.0) == pytest.approx(expected)


def test_a_gradient_step_is_differentiated():
    def adapted(w, rate):
        return w - rate * grad(lambda v: v**4)(w)

    # d/dw of w - 4 r w^3, and by r
    assert grad(adapted)(2.0, 0.1) == pytest.approx(1 - 12 * 0.1 * 4.0)
    assert grad(adapted, argnums=1)(2.0, 0.1) == pytest.approx(-32.0)


def test_a_rule_that_uses_an_outer_tracer_is_refused():
    def f(x):
        g = ft.custom_jvp(lambda y: x * y)
        g.defjvp(lambda primals, tangents: (x * primals[0], x * tangents[0]))
        return g(3.0)

    with pytest.raises(CustomRuleError, match="uses a traced value that is not among its arg"):
        grad(f)(2.0)


def test_a_rule_made_inside_of_a_differentiated_function():
    def f(x):
        g = ft.custom_jvp(np.sin)
        g.defjvp(lambda primals, tangents: (g(*primals), 2 * np.cos(primals[0]) * tangents[0]))
        return g(x)

    assert grad(f)(1.0) == pytest.approx(2 * np.cos(1.0))
    assert grad(grad(f))(1.0) == pytest.approx(-2 * np.sin(1.0))
    np.testing.assert_allclose(vmap(grad(f))(np.ones(2)), 2 * np.cos(np.ones(2)))


class TestMethods:
    class Model:
        traced = 0

        def __init__(self, scale):
            self.scale = scale

        def plain(self, x):
            """Scales."""
            return self.scale * x**2

        gradient = grad(plain, argnums=1)

        @jit
        def compiled(self, x):
            """Scales, compiled."""
            type(self).traced += 1
            return self.scale * x**2

        @jit(static_argnames="power")
        def powered(self, x, power=2):
            return self.scale * x ** int(power)

        @jit(static_argnums=2)
        def powered_by_position(self, x, power):
            return self.scale * x ** int(power)

        @ft.checkpoint
        def again(self, x):
            return np.sin(self.scale * x)

        @vmap(in_axes=(None, 0))
        def mapped(self, x):
            return self.scale * x**2

        @ft.custom_jvp(nondiff_argnums=0)
        def custom(self, x):
            """Has a rule."""
            return self.scale * x**2

        @custom.defjvp
        def rule(self, primals, tangents):
            return self.scale * primals[0] ** 2, 100.0 * tangents[0]

        def __call__(self, x):
            return self.scale * x**2

    def test_transforms_of_bound_methods_and_callable_objects(self):
        model = self.Model(3.0)
        for function in (model.plain, model, model.compiled):
            assert grad(function)(2.0) == 12.0
            assert jit(function)(2.0) == 12.0
            np.testing.assert_array_equal(vmap(function)(np.ones(2)), [3.0, 3.0])
        assert jit(model).__name__ == "jit(Model)"

    def test_decorated_methods(self):
        model = self.Model(3.0)
        assert model.gradient(2.0) == 12.0 == self.Model.gradient(model, 2.0)
        assert grad(model.again)(0.5) == pytest.approx(3.0 * np.cos(1.5))
        np.testing.assert_array_equal(model.mapped(np.ones(2)), [3.0, 3.0])
        assert model.custom(2.0) == 12.0
        assert grad(model.custom)(2.0) == 100.0
        assert model.custom.__doc__ == "Has a rule."

    def test_a_jitted_method_is_compiled_once_for_each_instance(self):
        model, other = self.Model(3.0), self.Model(5.0)
        self.Model.traced = 0
        assert [model.compiled(2.0), model.compiled(1.0), other.compiled(2.0)] == [12.0, 3.0, 20.0]
        assert self.Model.traced == 2
        assert model.compiled.__doc__ == "Scales, compiled."
        assert "multiply" in str(model.compiled.lower(2.0).graph())

    def test_a_jitted_method_keeps_its_static_arguments(self):
        model = self.Model(3.0)
        assert model.powered(2.0, power=3) == 24.0 == model.powered(2.0, 3)
        assert model.powered_by_position(2.0, 3) == 24.0

    @pytest.mark.dear
    def test_a_jitted_method_does_not_keep_its_instance(self):
        model = self.Model(3.0)
        model.compiled(2.0)
        reference = weakref.ref(model)
        method = model.compiled
        del model
        assert method(2.0) == 12.0  # who has the method has the instance
        del method
        gc.collect()
        assert reference() is None


def test_python_numbers_that_an_operation_gives_back_as_they_are():
    # at y = 2.0, a number in the outer function, the operation is evaluated on a Python float
    def inner(x):
        return grad(lambda y: ft.stop_gradient(y) * x * y)(2.0)

    assert grad(inner)(3.0) == 2.0
    np.testing.assert_array_equal(vmap(inner)(np.array([1.0, 3.0])), [2.0, 6.0])


@pytest.mark.parametrize(
    "inner",
    [
        jit,
        lambda f: lambda y: vmap(f)(np.array([y, y]))[1],
        lambda f: lambda y: grad(lambda z: f(z) * z)(y) / 2,
        lambda f: lambda y: ft.lax.fori_loop(0, 1, lambda _, total: total + f(y), 0.0),
    ],
)
@pytest.mark.parametrize("outer", [jit, grad, vmap])
def test_an_inner_function_reads_arrays_and_views_that_are_written_to_in_between(inner, outer):
    def function(x, inner=inner):
        a = np.zeros(3)
        view = a[1:]
        read = inner(lambda y: np.sum(a * view[0]) * y)
        total = read(1.0)
        for value in (x, 5.0, x * x):
            a[1] = value
            total = total + read(1.0)
        a *= x
        return total + read(1.0)

    x, h = 1.5, 1e-6
    plain = [function(x + step, lambda f: f) for step in (0.0, h, -h)]
    expected = (plain[1] - plain[2]) / (2 * h) if outer is grad else plain[0]
    found = outer(function)(np.array([x, x]) if outer is vmap else x)
    np.testing.assert_allclose(found, np.broadcast_to(expected, np.shape(found)), rtol=1e-8)
