"""Scan fission on a grid: a recurrence shared by all samples of a batch gets its own loop."""

import numpy as np
import pytest

import functrans
from functrans import grad, jit, lax, tree, vmap
from functrans.ir.check import checked
from functrans.ir.evaluate import evaluate
from functrans.loop.target import CPU
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.lower.plan import Repeat
from functrans.optimise import optimise, rewritten
from functrans.optimise.grid.scan_fission import Fission, split_scans
from tests.targets import target

RNG = np.random.default_rng(0)
FEW = target(CUDA, fission={"least_batch": 3})


def scans(graph):
    return [eqn for eqn in graph.eqns if eqn.primitive.name == "scan"]


def carried(graph):
    """The shapes of the carry of each scan."""
    return [
        [x.aval.shape for x in eqn.params["body"].outputs[: eqn.params["n_carry"]]]
        for eqn in scans(graph)
    ]


def kalman(transition, observation, noise, ys):
    """The negative log-likelihood of a series of observations."""
    n = transition.shape[0]

    def step(carry, y):
        x, p = carry
        x, p = transition @ x, transition @ p @ transition.T + noise * np.eye(n)
        s = observation @ p @ observation.T + np.eye(len(y))
        r = y - observation @ x
        chol = np.linalg.cholesky(s)
        w = functrans.scipy.linalg.solve_triangular(chol, r, lower=True)
        gain = np.linalg.solve(s, observation @ p).T
        loss = w @ w / 2 + np.sum(np.log(np.diagonal(chol)))
        return (x + gain @ r, p - gain @ observation @ p), loss

    return np.sum(lax.scan(step, (np.zeros(n), np.eye(n)), ys)[1])


def shared(transition, observation, noise, ys):
    """Filters with one covariance for all."""
    return np.sum(vmap(kalman, in_axes=(None, None, None, 0))(transition, observation, noise, ys))


def own(transition, observation, noise, ys):
    """Filters with a covariance each."""
    noises = noise + np.arange(len(ys)) / 10
    return np.sum(vmap(kalman, in_axes=(None, None, 0, 0))(transition, observation, noises, ys))


def operands(batch, steps=4, n=3, m=2):
    transition = np.eye(n) + RNG.normal(size=(n, n)) / 10
    return transition, RNG.normal(size=(m, n)), 0.1, RNG.normal(size=(batch, steps, m))


def graph_of(function, *given):
    return with_operands(function, *given)[0]


def with_operands(function, *given):
    """The graph of a function, and what it takes: arrays from outside, too."""
    graph, captured, *_ = jit(function).program_for(given, {})
    return optimise(graph), [*tree.leaves(given), *captured]


def gradient(function):
    return grad(function, argnums=(0, 1, 2, 3))


FUNCTIONS = {
    "value": shared,
    "gradient": gradient(shared),
    "each its own": own,
    "gradient of each its own": gradient(own),
}


@pytest.mark.parametrize("batch", [1, 3, 5])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_parts_compute_what_the_whole_does(name, batch):
    graph, given = with_operands(FUNCTIONS[name], *operands(batch))
    wanted = evaluate(graph, given)
    for made in (checked(split_scans(graph, FEW), "split_scans"), rewritten(graph, FEW)):
        for x, y in zip(evaluate(made, given), wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


def test_the_covariance_comes_first():
    assert carried(split_scans(graph_of(shared, *operands(50)), CUDA)) == [[(3, 3)], [(50, 3)]]


def test_in_reverse_the_samples_come_first():
    after = carried(split_scans(graph_of(gradient(shared), *operands(50)), CUDA))[2:]
    assert [any(50 in shape for shape in shapes) for shapes in after] == [True, False]


def test_what_each_sample_has_stays_together():
    graph = graph_of(gradient(own), *operands(50))
    assert len(scans(split_scans(graph, CUDA))) == len(scans(graph)) == 2


def test_a_cpu_has_no_use_for_it():
    graph = graph_of(shared, *operands(50))
    assert len(scans(rewritten(graph, CPU))) == len(scans(graph)) == 1


def test_few_samples_stay_with_what_they_share():
    graph = graph_of(shared, *operands(CUDA[Fission].least_batch - 1))
    assert len(scans(split_scans(graph, CUDA))) == 1


def test_stacks_without_room_are_not_made():
    little = target(CUDA, motion={"largest_stack": 100})
    assert len(scans(split_scans(graph_of(shared, *operands(50)), little))) == 1


def test_counters_stay_where_they_are():
    def counted(h):
        def step(carry, _):
            h, n = carry
            return (np.sin(h) + n, n + 1.0), None

        return lax.scan(step, (h, 0.0), None, 5)[0]

    assert len(scans(split_scans(graph_of(counted, np.ones((50, 3))), CUDA))) == 1


def test_parts_that_need_each_other_stay_together():
    def mixed(h, w):
        def step(carry, _):
            h, w = carry
            return (np.tanh(h @ w), w @ w + h.T @ h / 100), None

        return lax.scan(step, (h, w), None, 5)[0]

    graph = graph_of(mixed, np.ones((50, 3)), np.eye(3))
    assert len(scans(split_scans(graph, CUDA))) == 1


def test_a_carry_that_only_hands_on_what_the_other_was():
    def delayed(h, w):
        def step(carry, x):
            h, before, w = carry
            return (np.tanh(h @ before) + x, w, w @ w / 2), w.sum()

        return lax.scan(step, (h, w, w), np.arange(4.0))

    graph, given = with_operands(delayed, RNG.normal(size=(50, 3)), RNG.normal(size=(3, 3)))
    made = checked(split_scans(graph, CUDA), "split_scans")
    assert len(scans(made)) == 2
    for x, y in zip(evaluate(made, given), evaluate(graph, given), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_filters_are_kernels_without_loops_of_the_host(name):
    """Of 400 filters each goes through its steps on its own, in both directions."""
    graph = graph_of(FUNCTIONS[name], *operands(400, steps=50))
    made = pipeline.plan(graph, CUDA)
    assert not any(isinstance(each, Repeat) for each in made.schedule)
    assert len(made.steps) <= 14
