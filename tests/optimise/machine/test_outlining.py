"""Outlining: repeated steps of unrolled loops are compiled once; code size and results."""

import numpy as np
import pytest

from functrans import grad, jit, value_and_grad, vmap
from functrans.loop.target import CPU
from functrans.numpy.special import logsumexp
from functrans.optimise import optimise
from functrans.optimise.machine.outlining import Outlining, outline
from functrans.run.call.jitted import program
from functrans.testing import check_grads

LARGEST_FUNCTION = 6000
"""Lines of LLVM's text that no function of these programs has."""

MOST_FOR_A_STEP = 60
"""Lines that another step adds: numbers that are its own, and terms of sums over all steps."""


def forward_algorithm(n, states=5, letters=3):
    """Which letter comes when follows no rule."""
    rng = np.random.default_rng(n)
    letter = rng.integers(0, letters, n)

    def f(transitions, emissions):
        alpha = emissions[:, letter[0]]
        for t in range(1, n):
            alpha = logsumexp(alpha[:, None] + transitions, axis=0) + emissions[:, letter[t]]
        return logsumexp(alpha)

    return f, (rng.normal(size=(states, states)), rng.normal(size=(states, letters)))


def by_hand(n):
    """The same, with something else made of each step, and letters that are given in order."""
    rng = np.random.default_rng(n)
    emissions = rng.normal(size=(n, 4))

    def f(transitions, start):
        alpha, total = start, 0.0
        for t in range(1, n):
            paths = alpha[:, None] + transitions
            top = np.max(paths, axis=0)
            alpha = top + np.log(np.sum(np.exp(paths - top), axis=0)) + emissions[t]
            total = total + np.max(alpha)
        return total

    return f, (rng.normal(size=(4, 4)), rng.normal(size=4))


def pendulum(n):
    """The midpoint rule, with another length of each step."""

    def field(y):
        return np.stack([y[1], -np.sin(y[0])])

    def f(y, scale):
        for i in range(n):
            h = 0.01 + 0.0001 * i
            y = y + h * scale * field(y + h / 2 * field(y))
        return np.sum(y * y)

    return f, (np.array([1.0, 0.5]), 1.5)


def network(n):
    rng = np.random.default_rng(n)
    xs = rng.normal(size=(n, 4, 3))

    def f(w, u):
        h = np.zeros((4, 16))
        for t in range(n):
            h = np.tanh(h @ w + xs[t] @ u) * 0.9
            h = h + 0.1 * np.exp(-h * h) * np.sin(h)
        return np.sum(h * h)

    return f, (rng.normal(size=(16, 16)) / 8, rng.normal(size=(3, 16)))


def filtered(n):
    """Small matrices, and solutions of linear equations."""
    rng = np.random.default_rng(n)
    ys = rng.normal(size=(n, 2))

    def f(a, h):
        m, p, total = np.zeros(3), np.eye(3), 0.0
        for y in ys:
            m, p = a @ m, a @ p @ a.T + 0.1 * np.eye(3)
            s = h @ p @ h.T + 0.2 * np.eye(2)
            gain = np.linalg.solve(s, h @ p).T
            total = total + np.sum((y - h @ m) ** 2)
            m, p = m + gain @ (y - h @ m), p - gain @ s @ gain.T
        return total

    return f, (0.8 * np.eye(3) + 0.05, np.eye(2, 3) + 0.1)


FAMILIES = [forward_algorithm, by_hand, pendulum, network, filtered]


def functions(text):
    return text.split("define ")[1:]


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES)
def test_more_steps_are_no_more_code(family):
    texts = []
    for n in (48, 96):
        f, arguments = family(n)
        texts.append(jit(grad(f, argnums=(0, 1))).lower(*arguments).llvm())
    small, large = texts
    more = len(large.splitlines()) - len(small.splitlines())
    assert more < MOST_FOR_A_STEP * 48
    assert max(len(each.splitlines()) for each in functions(large)) < LARGEST_FUNCTION


@pytest.mark.full
@pytest.mark.parametrize("n", [17, 24])
@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_those_without_a_compiler(family, n):
    f, arguments = family(n)
    gradient = value_and_grad(f, argnums=(0, 1))
    wanted, wanted_gradients = gradient(*arguments)
    value, gradients = jit(gradient)(*arguments)
    np.testing.assert_allclose(value, wanted, rtol=1e-11)
    for one, other in zip(gradients, wanted_gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.full
def test_steps_under_vmap():
    f, (a, b) = forward_algorithm(16)
    many = a + np.arange(3.0)[:, None, None] / 7
    compiled = jit(vmap(grad(f), in_axes=(0, None)))(many, b)
    np.testing.assert_allclose(compiled, [grad(f)(each, b) for each in many], rtol=1e-9)


def test_exponents_that_differ_stay_numbers():
    def f(x):
        return sum(np.exp(x) * x**k for k in range(2, 40))

    x = np.linspace(0.1, 0.9, 9)
    np.testing.assert_allclose(jit(f)(x), f(x), rtol=1e-13)
    assert "pow" not in jit(f).lower(x).source()


def test_a_given_up_input_that_steps_read_and_a_result_that_they_write():
    def f(x, y):
        for k in range(30):
            y = np.tanh(y * (1 + k / 7)) + np.exp(-x * y)
        return y, x - y

    x, y = np.linspace(0.1, 1.0, 40), np.linspace(0.5, 0.7, 40)
    wanted = f(x, y)
    results = jit(f, donate_argnums=(0, 1))(x.copy(), y.copy())
    for one, other in zip(results, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_each_step_may_be_a_result():
    def f(x):
        found = []
        for k in range(24):
            x = np.sin(x) / 2 + np.exp(-x * x) * np.float64(k / 30)
            found.append(x)
        return found, np.stack(found[::-1])

    x = np.linspace(0.0, 2.0, 10)
    (steps, stacked), (wanted, wanted_stacked) = jit(f)(x), f(x)
    np.testing.assert_allclose(steps, wanted, rtol=1e-12)
    np.testing.assert_allclose(stacked, wanted_stacked, rtol=1e-12)


@pytest.mark.full
def test_derivatives_of_steps():
    f, arguments = pendulum(30)
    check_grads(jit(f), arguments, order=2)


@pytest.mark.full
def test_results_of_unlike_steps():
    """Whatever is taken for a step: segments that wait for each other stay as they are."""
    target = CPU.having(Outlining(least_code=1, least_saved=1))
    changed = 0
    rng = np.random.default_rng(0)
    for seed in range(6):
        turns = np.random.default_rng(seed).integers(0, 4, 40)

        def f(x, y, turns=turns):
            for k in turns:
                if k == 0:
                    x = np.tanh(x * y) + np.roll(x, 1) * 0.5
                elif k == 1:
                    y = np.sin(x) - y / 2
                elif k == 2:
                    x = 0.5 * x[::-1] + y[0] * 0.5
                else:
                    x, y = y * 0.7, (x + y) / 2
            return np.sum(x * y)

        arguments = rng.normal(size=5) / 3, rng.normal(size=5) / 3
        gradient = grad(f, argnums=(0, 1))
        graph = optimise(jit(gradient).lower(*arguments).graph())
        outlined = outline(graph, target)
        changed += outlined is not graph
        compiled = program(outlined)(*arguments)
        for one, other in zip(compiled, gradient(*arguments), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert changed


@pytest.mark.dear
def test_runs_of_which_one_begins_within_the_last_step_of_another():
    def halved(row):
        while np.abs(row).sum() > 3:
            row = np.sin(row) * 0.5
        return row

    def total(x):
        return sum(np.sum(halved(row) ** 2) for row in x)

    x = 1.5 * np.random.default_rng(0).normal(size=(64, 17, 1))
    np.testing.assert_allclose(jit(grad(total))(x), grad(total)(x), rtol=1e-12)
