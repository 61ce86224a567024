"""In reverse mode, a step adds to accumulators in the loops that compute what is added."""

import numpy as np
import pytest

from functrans import config, grad, jit, lax


def gated(weights, state, inputs):
    """Layers whose step replaces the rows of a copy of the state, as an LSTM's does."""
    units = state.shape[1]

    def step(state, x):
        after = state.copy()
        for k in range(len(state)):
            a, b, c = (weights[k, i * units : (i + 1) * units] for i in range(3))
            gate = 1 / (1 + np.exp(-(x * a + b)))
            after[k] = gate * after[k] + (1 - gate) * np.tanh(x * c)
            x = after[k] * gate
        return after, np.sum(x * x)

    return np.sum(lax.scan(step, state, inputs)[1])


def operands(units, layers=3, steps=4):
    rng = np.random.default_rng(units)
    shapes = (layers, 3 * units), (layers, units), (steps, units)
    return [rng.normal(size=shape) for shape in shapes]


def loops_of_sums_alone(schedule):
    """The number of innermost loops that do nothing but add to memory."""
    blocks = [[]]
    for line in schedule.splitlines():
        if line.strip().startswith(("for ", "nest ")):
            blocks.append([])
        elif " = " in line or "add= " in line:
            blocks[-1].append("add= " in line)
    return sum(bool(block) and all(block) for block in blocks)


def test_loops_that_add_are_those_that_compute():
    given = operands(40)
    slopes = jit(grad(gated, argnums=(0, 1)))
    schedule = slopes.lower(*given).schedule()
    assert schedule.count("add= ") > 6
    assert loops_of_sums_alone(schedule) == 0


@pytest.mark.few(2)
@pytest.mark.parametrize("units", [20, 1030, 1, 2, 7, 17, 300])
def test_the_gradient(units, monkeypatch):
    given = operands(units, layers=2)
    wanted = grad(gated, argnums=(0, 1))(*given)
    for threads in (1, 5):
        monkeypatch.setattr(config, "threads", threads)
        found = jit(grad(gated, argnums=(0, 1)))(*given)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_the_gradient_by_differences():
    given = operands(14, layers=2)
    rng = np.random.default_rng(1)
    for number, slope in enumerate(jit(grad(gated, argnums=(0, 1, 2)))(*given)):
        along = rng.normal(size=slope.shape)
        ends = []
        for sign in (1, -1):
            moved = list(given)
            moved[number] = given[number] + sign * 1e-6 * along
            ends.append(gated(*moved))
        np.testing.assert_allclose(np.sum(slope * along), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)
