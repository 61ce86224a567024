"""Distribution of nests over kernels for occupancy, and scans as loops of the host."""

from itertools import pairwise

import numpy as np
import pytest

from functrans import grad, jit, lax, vmap
from functrans.ir.evaluate import evaluate as by_numpy
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.lower.plan import Repeat, Step, iterations
from tests.emit.cuda.programs import interpreted, plan
from tests.lower.test_targets import SMALL_CUDA
from tests.targets import target

EAGER = target(SMALL_CUDA, grid={"launch": 1, "apart": 1, "rows": 64})
"""A GPU for which every kernel is worth its launch."""

RNG = np.random.default_rng(0)


def drawn(*shapes):
    return tuple(RNG.normal(size=shape) / 3 for shape in shapes)


def heat(u):
    def step(u, _):
        around = sum(np.roll(u, by, axis) for by in (1, -1) for axis in (0, 1))
        return u + 0.1 * (around - 4 * u), None

    return lax.scan(step, u, None, 5)[0]


def power(a, v):
    def step(v, _):
        u = a @ v
        return u / np.sqrt(np.sum(u * u)), np.sum(u)

    return lax.scan(step, v, None, 3)


def recurrent(w, h, xs):
    return lax.scan(lambda h, x: (np.tanh(h @ w + x), h.sum(axis=1)), h, xs)


def nested(w, h):
    def outer(h, _):
        h, sums = lax.scan(lambda c, x: (np.tanh(c @ w) + x, c.sum()), h, w[0])
        return h, sums

    return lax.scan(outer, h, None, 2)


def either(p, x):
    return lax.cond(p, lambda x: np.sin(x) + x.sum(), lambda x: np.cos(x) * 2, x)


def counted(x):
    def step(state):
        y, n = state
        return np.sin(y) + y.sum() / 40, n + 1

    return lax.while_loop(lambda state: state[1] < 3, step, (x, 0))[0]


def attention(q, k, v):
    z = q @ np.swapaxes(k, -1, -2)
    z = np.exp(z - z.max(axis=-1, keepdims=True))
    return (z / z.sum(axis=-1, keepdims=True)) @ v


def rows(x):
    """Rows too large for a team of a small GPU."""
    y = np.exp(x - x.max(axis=1, keepdims=True))
    return y / y.sum(axis=1, keepdims=True)


PROGRAMS = {
    "steps on a grid of points": (heat, *drawn((9, 11))),
    "products in steps": (power, *drawn((12, 12), (12,))),
    "rows of a batch": (recurrent, *drawn((6, 6), (5, 6), (3, 5, 6))),
    "its gradient": (
        grad(lambda w, h, xs: np.sum(recurrent(w, h, xs)[1] ** 2), argnums=(0, 1)),
        *drawn((6, 6), (5, 6), (3, 5, 6)),
    ),
    "steps in steps": (nested, *drawn((7, 7), (4, 7))),
    "a branch": (either, np.bool_(True), *drawn(90)),
    "the other branch": (either, np.bool_(False), *drawn(90)),
    "as long as it holds": (counted, *drawn(40)),
    "attention": (grad(lambda *x: np.sum(attention(*x) ** 2), (0, 1)), *drawn(*[(2, 3, 9, 8)] * 3)),
    "long rows": (rows, *drawn((6, 40))),
    "lanes": (vmap(counted), *drawn((6, 40))),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_compute_what_numpy_does(name):
    function, *operands = PROGRAMS[name]
    graph = jit(function).lower(*operands).graph()
    wanted = by_numpy(graph, list(operands))
    for seed, machine in enumerate((SMALL_CUDA, EAGER)):
        found = interpreted(pipeline.plan(graph, machine), operands, seed)
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)


def turns(made):
    return [len(step.turns) for step in made.steps]


def test_steps_without_rows_of_their_own_are_the_hosts():
    made = plan(heat, np.ones((512, 512)))
    before, repeat, after = made.schedule
    assert isinstance(before, Step) and isinstance(after, Step) and isinstance(repeat, Repeat)
    assert repeat.count == 5
    (step,) = repeat.steps
    assert len(step.kernel.band) == 2
    assert step.kernel.sizes == len(step.sizes) + 1


def test_small_steps_stay_in_one_kernel():
    assert turns(plan(heat, np.ones((9, 9)))) == [0]


def test_loops_of_the_host_are_one_in_another():
    made = plan(nested, *drawn((7, 7), (4, 7)), machine=EAGER)
    (repeat,) = [each for each in made.schedule if isinstance(each, Repeat)]
    (inner,) = [each for each in repeat.steps if isinstance(each, Repeat)]
    assert (repeat.count, inner.count) == (2, 7)
    assert set(turns(made)) == {0, 1, 2}


def test_few_matrices_are_shared_by_more_than_as_many_teams():
    made = plan(attention, *[np.ones((4, 4, 128, 32), np.float32)] * 3)
    for step in made.steps:
        assert iterations(step.kernel, step.sizes) * step.kernel.team >= 4 * 128


def test_each_kernel_of_a_branch_asks_for_itself():
    made = plan(either, np.bool_(True), np.ones(100_000))
    assert len(made.steps) > 1
    assert all(made.inputs[0] in step.buffers for step in made.steps)


def test_small_kernels_next_to_each_other_are_one():
    def steps(x, w):
        for number in range(10):
            x = np.tanh(x @ w + number)
        return x

    (step,) = plan(steps, np.ones(64), np.ones((64, 64))).steps
    assert step.kernel.team == 64


@pytest.mark.full
def test_rows_that_a_team_has_no_room_for_are_computed_again():
    made = plan(rows, np.ones((200, 60_000)))
    assert all(step.kernel.team > 1 and not step.kernel.scratch for step in made.steps)
    assert not made.offsets
    for columns in (2000, 20_000):
        assert plan(rows, np.ones((2000, columns))).steps[0].kernel.scratch


def test_rows_have_extents_that_a_compiler_knows():
    (step,) = plan(rows, np.ones((2000, 2000), np.float32)).steps
    assert {row.nbytes for row in step.kernel.scratch} == {8000}


def test_what_is_repeated_lives_for_all_turns():
    made = plan(power, *drawn((60, 60), (60,)), machine=EAGER)
    (repeat,) = [each for each in made.schedule if isinstance(each, Repeat)]
    places = sorted((made.offsets[x], x.nbytes) for x in repeat.buffers if x in made.offsets)
    assert len(places) > 2
    assert all(a + n <= b for (a, n), (b, _) in pairwise(places))


@pytest.mark.parametrize("room", [0, 1 << 30])
def test_rows_without_room_are_one_threads(room):
    """Loops inside of branches are then no longer independent, either."""

    def picked(x):
        return lax.cond(x.sum() > 0, np.sin, lambda x: np.cumsum(x, axis=1) * 0.1, x)

    small = {"warp": 4, "block": 4, "largest_team": 4, "busy": 1, "at_once": 1, "iterations": 2}
    machine = target(CUDA, grid={**small, "rows": 64, "largest_expanded": room})
    x = -np.arange(100.0).reshape(1, 100)
    (found,) = interpreted(plan(picked, x, machine=machine), [x], 3)
    np.testing.assert_allclose(found, np.cumsum(x, axis=1) * 0.1)
