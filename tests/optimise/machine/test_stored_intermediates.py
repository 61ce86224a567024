"""A scan stacks what is costly to recompute for another that reads its stacks."""

import numpy as np
import pytest

from functrans import grad, jit, lax, tree, value_and_grad, vmap
from functrans.ir.check import checked
from functrans.ir.evaluate import evaluate
from functrans.loop.target import CPU
from functrans.optimise import optimise
from functrans.optimise.machine.stored_intermediates import Storing, store_intermediates

RNG = np.random.default_rng(0)
XS, W, S = RNG.normal(size=(7, 3)), RNG.normal(size=(3, 3)), RNG.normal(size=3)


def chain(xs, w, s):
    """Exponentials of the carry, of a constant and of rows."""

    def step(c, x):
        return np.sin(np.exp(-c * c) * np.cos(c + s)) + x * c, None

    return np.sum(lax.scan(step, s, xs)[0])


def read_twice(xs, w, s):
    """What is stored depends on sums, and on a stack that is a result, too."""

    def step(c, x):
        c = np.tanh(w[0] * c) * np.exp(-np.sum(c**2)) + x
        return c, c

    last, stacked = lax.scan(step, s, xs)
    return np.sum(last * last) + np.sum(np.exp(-(stacked**2)))


def two_loops(xs, w, s):
    """A loop that reads what another has stacked; backward passes read from both."""
    _, first = lax.scan(lambda c, x: (np.tanh(c * x) + s, np.exp(-c * x)), s, xs)
    return np.sum(lax.scan(lambda c, y: (np.sin(c * y) * np.exp(-c * c), None), s, first)[0])


def reversed_steps(xs, w, s):
    def step(c, x):
        return np.exp(-(c**2) * x * x) * s[0] + np.tanh(c), np.cos(c)

    last, stacked = lax.scan(step, s, xs, reverse=True)
    return np.sum(last) + np.sum(stacked**2)


def multiplied(xs, w, s):
    """Products, of a vector and a vector and of a matrix and a vector, between exponentials."""

    def step(c, x):
        c = np.exp(-np.dot(c, s)) * np.tanh(w @ np.sin(c)) + x
        return c, np.dot(x, np.exp(-c * c))

    last, stacked = lax.scan(step, s, xs)
    return np.sum(last) + np.sum(stacked**2)


def exponentials(graph):
    """How many exponentials and the like each scan computes."""
    names = ("exp", "tanh", "sech_squared", "sin", "cos")
    return [
        sum(eqn.primitive.name in names for eqn in scan.params["body"].eqns)
        for scan in graph.eqns
        if scan.primitive.name == "scan"
    ]


@pytest.mark.parametrize("function", [chain, read_twice, two_loops, reversed_steps, multiplied])
@pytest.mark.parametrize("low", [Storing(), Storing(operations=1), Storing(operations=10**6)])
def test_gradients_are_the_same(function, low):
    gradient = value_and_grad(function, argnums=(0, 1, 2))
    graph, captured, *_ = jit(gradient).program_for((XS, W, S), {})
    graph, operands = optimise(graph), [XS, W, S, *captured]
    made = checked(store_intermediates(graph, CPU.having(low)), "store_intermediates")
    for one, other in zip(evaluate(made, operands), evaluate(graph, operands), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
    for one, other in zip(
        tree.leaves(jit(gradient)(XS, W, S)), tree.leaves(gradient(XS, W, S)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-11)


def test_the_backward_pass_computes_no_exponential_again():
    graph = optimise(jit(value_and_grad(chain)).lower(XS, W, S).graph())
    forward, backward = exponentials(graph)
    assert forward and backward
    forward, backward = exponentials(store_intermediates(graph, CPU))
    assert forward and not backward


def test_stacks_that_leave_the_caches_are_not_stored():
    graph = optimise(jit(value_and_grad(chain)).lower(XS, W, S).graph())
    few = CPU.having(Storing(largest=7 * 3 * 8, narrow=0))
    assert exponentials(store_intermediates(graph, few)) == exponentials(graph)


def test_more_narrow_values_are_stored():
    graph = optimise(jit(value_and_grad(chain)).lower(XS, W, S).graph())
    for narrow, stored in ((3 * 8 - 1, False), (3 * 8, True)):
        target = CPU.having(Storing(largest=0, narrow=narrow))
        assert (exponentials(store_intermediates(graph, target))[1] == 0) is stored


@pytest.mark.parametrize(("size", "is_left"), [(3, False), (512, True)])
def test_loops_that_mostly_multiply_matrices_are_left(size, is_left):
    def f(w, s):
        step = lambda c, _: (np.sin(np.exp(-c * c) * np.cos(c)) + w @ c, None)  # noqa: E731
        return np.sum(lax.scan(step, s, None, 7)[0])

    graph = optimise(jit(value_and_grad(f)).lower(np.eye(size), np.ones(size)).graph())
    assert (store_intermediates(graph, CPU) == graph) is is_left


def test_a_stack_that_nothing_reads_any_more_is_dropped():
    """The carry itself, where what is computed from it is stored."""

    def f(x):
        return lax.scan(lambda c, _: (np.exp(np.exp(-c)), None), x, None, 5)[0]

    made = store_intermediates(optimise(jit(grad(f)).lower(0.5).graph()), CPU)
    forward = next(eqn for eqn in made.eqns if eqn.primitive.name == "scan")
    bytes_of_a_step = sum(v.aval.size * 8 for v in forward.outputs if v.aval.shape[:1] == (5,)) / 5
    assert bytes_of_a_step <= 3 * 8
    np.testing.assert_allclose(jit(grad(f))(0.5), grad(f)(0.5), rtol=1e-12)


def test_lanes_of_a_batch_store_no_more_than_the_caches_hold():
    xs = RNG.normal(size=(4, 7, 3))
    gradient = vmap(grad(chain), in_axes=(0, None, None))
    expected = [grad(chain)(x, W, S) for x in xs]
    np.testing.assert_allclose(jit(gradient)(xs, W, S), expected, rtol=1e-11)
