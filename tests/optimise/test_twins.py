"""Twin loops: a derivative's copy of a loop replaces the function's own loop."""

import numpy as np
import pytest

from functrans import grad, jit, lax, trace, tree, value_and_grad
from functrans.optimise import optimise
from functrans.optimise.twins import merge_twins

RNG = np.random.default_rng(0)
W, V = RNG.standard_normal((4, 4)) / 2, RNG.standard_normal((4, 3))
XS = RNG.standard_normal((7, 5, 4))
LOOPS = ("scan", "counted_scan", "while_loop")


def classifier(w, v, xs):
    """What follows from the last state is computed from values, so the loop is there twice."""
    h, _ = lax.scan(lambda h, x: (np.tanh(x + h @ w), None), np.zeros((5, 4)), xs)
    return np.sum(np.log(np.sum(np.exp(h @ v), axis=1)))


def rows_too(w, v, xs):
    h, hs = lax.scan(lambda h, x: (np.tanh(x + h @ w), h.sum(axis=1)), np.zeros((5, 4)), xs)
    return np.sum(np.exp(h @ v)) + np.sum(np.sin(hs) ** 2)


def newton(w, v, xs):
    def step(x):
        return x - (x**3 - w[0, 0] ** 2 - 2.0) / (3 * x**2)

    root = lax.while_loop(lambda x: np.abs(x**3 - w[0, 0] ** 2 - 2.0) > 1e-10, step, 1.5)
    return np.exp(root) * np.sum(v)


def hoisted(w, v, xs):
    """Of the copy, what is the same in each step is done before it."""
    h, _ = lax.scan(lambda h, x: (np.tanh(x * np.exp(w[0]) + h), None), np.zeros((5, 4)), xs)
    return np.sum(np.exp(h @ v))


def overwritten(w, v, xs):
    """No step reads the first carry of the one before: the copy does not carry it (Sinkhorn).

    Both start equal; which one the copy has shows in what becomes of them.
    """

    def step(c, x):
        columns = np.log1p(np.sum(np.exp(w - c[1]), axis=1))
        return (columns, np.log1p(np.sum(np.exp(w - columns[:, None]), axis=0)) + x[0]), None

    (columns, rows), _ = lax.scan(step, (v[:, 0],) * 2, xs)
    return np.sum(np.exp(w - columns[:, None] - rows) * w)


def each_its_own(w, v, xs):
    """The loop stacks determinants, and the copy the inverses that gradients of solutions take."""

    def step(h, x):
        matrix = w + np.diag(3.0 + np.sin(h))
        return np.linalg.solve(matrix, x), np.linalg.slogdet(matrix)[1]

    h, logs = lax.scan(step, np.zeros(4), xs[:, 0])
    return np.exp(np.sum(logs) / 10) * np.sum(np.exp(h @ v))


def descent(w, v, xs):
    """Each step takes a gradient, of a sum: the copy has its cotangents of ones as an operand."""

    def energy(h, x):
        z = x @ h
        return np.sum(np.logaddexp(0.0, z) - v[0, 0] * z)

    h, _ = lax.scan(lambda h, x: (h - 0.1 * grad(energy)(h, x), None), w[0], xs)
    return np.sum(np.exp(h @ v))


def loops(graph):
    return [eqn for eqn in graph.eqns if eqn.primitive.name in LOOPS]


@pytest.mark.parametrize(
    "function",
    [classifier, rows_too, newton, hoisted, overwritten, each_its_own, descent],
)
def test_one_loop_forward_and_one_back(function):
    graph = trace(value_and_grad(function, argnums=(0, 1)))(W, V, XS)
    assert len(loops(graph)) == 3
    assert len(loops(optimise(graph))) == 2
    compiled = jit(value_and_grad(function, argnums=(0, 1)))(W, V, XS)
    expected = value_and_grad(function, argnums=(0, 1))(W, V, XS)
    for one, other in zip(tree.leaves(compiled), tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def step(h, x):
    return np.sin(h) + x, h


DIFFERENT = {
    "start": lambda xs: (lax.scan(step, xs[0], xs), lax.scan(step, xs[1], xs)),
    "rows": lambda xs: (lax.scan(step, xs[0], xs), lax.scan(step, xs[0], xs * 2)),
    "direction": lambda xs: (lax.scan(step, xs[0], xs), lax.scan(step, xs[0], xs, reverse=True)),
    "body": lambda xs: (
        lax.scan(step, xs[0], xs),
        lax.scan(lambda h, x: (np.sin(h) - x, h), xs[0], xs),
    ),
    "constant": lambda xs: (
        lax.scan(lambda h, x: (h * 2.0 + x, None), xs[0], xs),
        lax.scan(lambda h, x: (h * 3.0 + x, None), xs[0], xs),
    ),
    "condition": lambda xs: (
        lax.while_loop(lambda x: x < 3.0, lambda x: x * 2.0, np.abs(xs[0, 0, 0])),
        lax.while_loop(lambda x: x < 4.0, lambda x: x * 2.0, np.abs(xs[0, 0, 0])),
    ),
    "one after the other": lambda xs: lax.scan(step, lax.scan(step, xs[0], xs)[0], xs),
    "one in need of the other": lambda xs: lax.scan(
        step, xs[0], xs + 0 * lax.scan(step, xs[0], xs)[0]
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_loops_that_differ_stay(name):
    graph = trace(DIFFERENT[name])(XS)
    assert len(loops(merge_twins(graph))) == len(loops(graph)) == 2


@pytest.mark.parametrize("turned", [False, True])
def test_loops_with_other_rows_of_the_same_become_one(turned):
    def both(xs):
        one = lax.scan(lambda h, x: (np.sin(h) + x, np.sin(h)), xs[0], xs)[1]
        middle = np.exp(one)
        start = np.sqrt(np.abs(xs[0]))
        other = lax.scan(lambda h, x: (np.sin(h) + x, (h, np.cos(h))), xs[0], xs)[1]
        return (middle, start, *other)[:: -1 if turned else 1]

    graph = trace(both)(XS)
    assert len(loops(graph)) == 2
    assert len(loops(merge_twins(graph))) == 1
    for one, other in zip(jit(both)(XS), both(XS), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_a_gradient_of_both_kinds_of_results():
    def f(w):
        h, hs = lax.scan(lambda h, x: (np.tanh(x + h @ w), h), np.zeros((5, 4)), XS)
        return np.sum(hs * hs) * np.exp(np.mean(h))

    np.testing.assert_allclose(jit(grad(f))(W), grad(f)(W), rtol=1e-10)
