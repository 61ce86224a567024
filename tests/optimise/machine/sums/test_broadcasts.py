"""Sums of broadcast arrays, and of functions of them."""

import numpy as np
import pytest

from functrans import grad, jit
from functrans.optimise.machine.late_broadcasts import broadcast_last
from functrans.optimise.machine.sums.distribution import distribute_sums
from tests.ir.written import graph
from tests.optimise.machine.rewrites import rewritten, stays


def avals(made, name):
    return [eqn.outputs[0].aval.shape for eqn in made.eqns if eqn.primitive.name == name]


def test_what_is_repeated_is_computed_once():
    made = graph(
        """{ x:f64[1,30], y:f64[20,1] ->
        a = broadcast_to[shape=(20, 30)] x
        b = broadcast_to[shape=(20, 30)] y
        c = sin a
        d = multiply c a
        e = multiply d b
        return e }"""
    )
    found = rewritten(broadcast_last, made)
    assert avals(found, "sin") == [(1, 30)]
    assert sorted(avals(found, "multiply")) == [(1, 30), (20, 30)]


@pytest.mark.parametrize(
    "body",
    [
        "a = broadcast_to[shape=(20, 30)] x\n b = multiply a z",
        "a = broadcast_to[shape=(20, 30)] x\n c = broadcast_to[shape=(20, 30)] y\n"
        " b = multiply a c",
        "a = broadcast_to[shape=(20, 30)] x\n b = reduce_sum[axes=(1,)] z",
    ],
)
def test_operations_on_all_elements_stay(body):
    stays(broadcast_last, f"{{ x:f64[1,30], y:f64[20,1], z:f64[20,30] ->\n {body}\n return a, b }}")


def test_choices_by_repeated_constants_are_made_now():
    made = graph(
        """{ x:f64[20] ->
        a = broadcast_to[shape=(20,)] -1.0
        b = greater a 3.0
        c = tanh x
        d = select b c x
        return d }"""
    )
    found = rewritten(broadcast_last, made)
    assert found.outputs[0] is found.inputs[0] and not found.eqns


SHAPES = [((1, 30), (20, 30)), ((20, 1), (20, 30)), ((30,), (20, 30)), ((), (3, 4)), ((1,), (1,)),
          ((1, 5), (0, 5)), ((5, 1), (5, 0)), ((2, 1, 3), (2, 17, 3))]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int8", "bool"])
@pytest.mark.parametrize(("shape", "whole"), SHAPES)
def test_sums_are_those_of_numpy(shape, whole, dtype):
    x = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    for axis in (None, *range(len(whole))):
        f = lambda x, axis=axis: np.sum(np.broadcast_to(x, whole), axis=axis)  # noqa: E731
        expected, found = f(x), jit(f)(x)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype != "float16" else 1e-3)


def test_special_values():
    x = np.array([np.inf, -np.inf, np.nan, -0.0, 1e308, 5e-324])

    def f(x):
        return np.sum(np.broadcast_to(x[:, None], (6, 20)), axis=1)

    with np.errstate(over="ignore"):
        expected = f(x)
    found = jit(f)(x)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_a_sum_has_no_loop_over_repeated_axes():
    made = graph(
        """{ x:f64[1,30] ->
        a = broadcast_to[shape=(2000, 30)] x
        b = reduce_sum[axes=(0,)] a
        c = reduce_sum[axes=(1,)] a
        return b, c }"""
    )
    found = rewritten(distribute_sums, made)
    for eqn in found.eqns:
        assert eqn.primitive.name != "reduce_sum" or eqn.inputs[0].aval.size <= 30


def test_the_gradient_of_a_grid_is_linear_work():
    def loss(x, y):
        a, b = np.meshgrid(x, y)
        return np.sum(np.sin(a) * b + a * a)

    for n, m in ((1, 1), (2, 17), (300, 260)):
        x, y = np.linspace(-2, 2, n), np.linspace(-1, 3, m)
        by_x, by_y = jit(grad(loss, argnums=(0, 1)))(x, y)
        np.testing.assert_allclose(by_x, np.cos(x) * y.sum() + 2 * x * m, atol=1e-12)
        np.testing.assert_allclose(by_y, np.full(m, np.sin(x).sum()), atol=1e-12)


PRODUCTS = {
    "a row": ("b = broadcast_to[shape=(30, 40)] r", "r:f64[1,40]", (20, 40)),
    "columns": ("b = broadcast_to[shape=(30, 40)] r", "r:f64[30,1]", (20, 1)),
    "one number": ("b = full[shape=(30, 40), value=1.0, dtype=float64]", "r:f64[1]", (20, 1)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_equal_columns_of_a_product_are_computed_once(name):
    operand, given, shape = PRODUCTS[name]
    product = "c = dot_general[contract=((1,), (0,)), batch=((), ())] x b"
    made = graph(f"{{ x:f64[20,30], {given} ->\n {operand}\n {product}\n return c }}")
    if name == "a row":
        stays(distribute_sums, str(made))
    else:
        assert avals(rewritten(distribute_sums, made), "dot_general") == [shape]


def test_gradients_of_sums_of_outer_products():
    a, b = np.arange(1.0, 301.0), np.arange(2.0, 402.0)
    found = jit(grad(lambda a, b: np.sum(np.outer(a, b)), argnums=(0, 1)))(a, b)
    np.testing.assert_allclose(found[0], np.full(300, b.sum()))
    np.testing.assert_allclose(found[1], np.full(400, a.sum()))
