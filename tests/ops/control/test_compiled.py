"""Compiled loops and branches agree with their evaluation step by step."""

import numpy as np
import pytest

from functrans import grad, jit, lax, vjp, vmap


def same(function, *args, tolerance=1e-12):
    eager, compiled = function(*args), jit(function)(*args)
    for want, got in zip(leaves(eager), leaves(compiled), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def leaves(x):
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, tuple) else [x]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [(), (3,), (70,), (5, 20)])
@pytest.mark.parametrize("length", [0, 1, 4, 7])
def test_scan(reverse, size, length):
    rng = np.random.default_rng(0)

    def f(init, xs, scale):
        def step(carry, x):
            a, b = carry
            a = np.tanh(a * scale + x)
            return (a, b + np.sum(a)), (a * 2, b)

        return lax.scan(step, (init, np.float64(0)), xs, reverse=reverse)

    same(f, rng.normal(size=size), rng.normal(size=(length, *size)), 0.5)


def test_carries_that_change_places():
    def f(a, b):
        return lax.scan(lambda c, _: ((c[1], c[0] + c[1]), c[0]), (a, b), None, length=20)

    same(f, 0.0, 1.0)
    same(f, np.zeros(100), np.ones(100))


def test_the_gradient_of_a_scan():
    def f(w, xs):
        def step(h, x):
            h = np.tanh(w @ h + x)
            return h, h

        _, hs = lax.scan(step, np.zeros(xs.shape[1]), xs)
        return np.sum(hs**2)

    rng = np.random.default_rng(0)
    for n in (3, 40):
        same(grad(f, argnums=(0, 1)), rng.normal(size=(n, n)) / n, rng.normal(size=(6, n)))


def test_a_state_that_is_stacked_too_is_computed_once():
    def activations(x, xs):
        def step(state, x):
            state = np.tanh(state + x)
            return state, state

        return lax.scan(step, x, xs)[1]

    def operations(f):
        nests = jit(f).lower(np.ones(100), np.ones((10, 100))).cost().nests
        return sum(nest.operations for nest in nests)

    once = operations(lambda x, xs: lax.scan(lambda c, x: (np.tanh(c + x), None), x, xs)[0])
    assert operations(activations) < 1.2 * once


def test_a_scan_inside_a_scan():
    def f(x):
        def inner(c, y):
            return c * y + 1, c

        def outer(c, row):
            c, ys = lax.scan(inner, c, row)
            return c, np.sum(ys)

        return lax.scan(outer, x[0, 0], x)

    same(f, np.random.default_rng(0).normal(size=(4, 5)))


def test_scan_under_vmap():
    def f(x, y):
        return lax.scan(lambda c, v: (c * v + x, c), x, y)

    rng = np.random.default_rng(0)
    same(vmap(f), rng.normal(size=30), rng.normal(size=(30, 5)))


@pytest.mark.parametrize("limit", [-1.0, 3.0, 1000.0])
def test_while_loop(limit):
    def f(x, limit):
        return lax.while_loop(lambda c: np.sum(c[0]) < limit, lambda c: (c[0] * 1.5, c[1] + 1), x)

    same(f, (np.float64(1.0), np.int64(0)), limit)
    same(f, (np.ones(90), np.int64(0)), limit)


@pytest.mark.parametrize("pick", [True, False])
def test_cond(pick):
    def f(pick, x):
        return lax.cond(pick, lambda x: (np.sin(x), x[0]), lambda x: (x * 2, np.sum(x)), x)

    same(f, np.bool_(pick), np.arange(3.0))
    same(f, np.bool_(pick), np.arange(300.0))


@pytest.mark.parametrize("number", [-1, 0, 1, 2, 7])
def test_switch(number):
    def f(number, x):
        return lax.switch(number, [np.sin, np.cos, lambda x: x * x], x)

    same(f, np.int64(number), np.arange(3.0))


def test_a_branch_that_is_not_taken_does_nothing():
    def f(pick, x, i):
        return lax.cond(pick, lambda x: x[i], lambda x: x[0], x)

    assert jit(f)(np.bool_(False), np.arange(3.0), np.int64(99)) == 0.0


@pytest.mark.dear
def test_contractions_leave_the_loop():
    def loss(w, u, b, xs):
        def step(h, x):
            h = np.tanh(x @ w + h @ u + b)
            return h, h

        _, hs = lax.scan(step, np.zeros((20, 30)), xs)
        return np.sum(hs * hs)

    rng = np.random.default_rng(0)
    w, u = rng.normal(size=(40, 30)) / 9, rng.normal(size=(30, 30)) / 9
    args = w, u, rng.normal(size=30), rng.normal(size=(12, 20, 40))
    same(loss, *args, tolerance=1e-11)
    gradient = grad(loss, argnums=(0, 1, 2, 3))
    same(gradient, *args, tolerance=1e-11)
    loops = [
        nest for nest in jit(gradient).lower(*args).schedule().split("nest") if "for t in" in nest
    ]
    # one contraction with the carry in each direction stays; the other four are outside
    assert [nest.count("add over k in 0..30") for nest in loops] == [1, 1]


@pytest.mark.parametrize("reverse", [False, True])
def test_many_loops_side_by_side_change_places_with_their_steps(reverse):
    def pendulum(y, pushes, friction):
        def step(y, push):
            angle, speed = y[0], y[1]
            speed = speed - 0.01 * (np.sin(angle) + friction * speed) + push
            return np.stack([angle + 0.01 * speed, speed]), angle

        return lax.scan(step, y, pushes, reverse=reverse)

    rng = np.random.default_rng(0)
    args = rng.normal(size=(70, 2)), rng.normal(size=(70, 9)), rng.random(70)
    many = vmap(pendulum)
    same(many, *args)
    same(vmap(grad(lambda *x: np.sum(pendulum(*x)[1] ** 2))), *args)
    # the loop over the steps is the inner one
    nests = jit(many).lower(*args).schedule().split("nest")
    (lines,) = [nest.splitlines() for nest in nests if "for t in" in nest]
    depth = {line.split()[1]: len(line) - len(line.lstrip()) for line in lines if " for " in line}
    assert depth["t"] > depth["i"]


def test_a_loop_of_as_many_steps_as_data_say_in_another_one():
    """Nothing bounds the inner loop of the reverse pass, which has no stack of its own."""

    def halved(state):
        y, n = state
        z, _ = lax.while_loop(lambda s: s[1] < n, lambda s: (s[0] * 0.5 + 0.1, s[1] + 1), (y, 0))
        return z, n + 1

    def f(x):
        return np.sum(lax.while_loop(lambda s: s[1] < 5, halved, (x, 0))[0] * np.cos(x))

    x = np.linspace(-1.0, 2.0, 300)
    np.testing.assert_allclose(jit(grad(f))(x), grad(f)(x), rtol=1e-12)
    total = 0.5**10  # 0 + 1 + 2 + 3 + 4 steps
    np.testing.assert_allclose(
        grad(f)(x), total * np.cos(x) - (total * x + 0.2 * (1 - total)) * np.sin(x), rtol=1e-12
    )


def test_a_pullback_of_a_jitted_while_loop_takes_its_stacks():
    """The stacks go through a program as they are: what has no size is not allocated."""

    def f(x):
        def step(c):
            return c[0] * x + np.sin(c[1]), c[1] + 1.0

        return lax.while_loop(lambda c: c[0] < 20.0, step, (1.5 * x, x))[0]

    expected = grad(f)(1.3)
    assert vjp(jit(f), 1.3)[1](1.0)[0] == pytest.approx(expected)
    assert vjp(jit(lambda x: (f(x), x)), 1.3)[1]((1.0, 0.0))[0] == pytest.approx(expected)


def layered(step_of):
    """A scan of three layers, each of which reads the one before it, as a program and by NumPy."""

    def program(xs, states, run):
        def step(carry, x):
            total, made = x, []
            for c in carry:
                gate = 1 / (1 + np.exp(-total))
                c = step_of(c, gate, total)
                total = gate * np.tanh(c)
                made.append(c)
            # a sum keeps the lanes of a step together
            return tuple(made), (np.sum(total * x), total)

        return run(step, states, xs)

    def by_python(step, states, xs):
        rows = []
        for x in xs:
            states, row = step(states, x)
            rows.append(row)
        return states, tuple(np.stack(one) for one in zip(*rows, strict=True))

    return lambda xs, *c: program(xs, c, lax.scan), lambda xs, *c: program(xs, c, by_python)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("size", [7, 12, 14, 20, 24, 31, 33, 40, 100])
def test_layers_of_a_step_one_after_the_other(size, dtype):
    compiled, plain = layered(lambda c, gate, total: c * gate + np.sin(total))
    rng = np.random.default_rng(size)
    args = [rng.normal(size=(5, size)).astype(dtype), *rng.normal(size=(3, size)).astype(dtype)]
    tolerance = 1e-12 if dtype == "f8" else 1e-5
    for want, got in zip(leaves(plain(*args)), leaves(jit(compiled)(*args)), strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    loss = jit(lambda *x: sum(np.sum(leaf**2) for leaf in leaves(compiled(*x))))
    if dtype == "f8":
        slopes = jit(grad(loss, (0, 1, 2, 3)))(*args)
        slope = sum(np.sum(each) for each in slopes)  # all elements grow together
        ends = [loss(*(x + e for x in args)) for e in (1e-6, -1e-6)]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-7, atol=1e-7)
