"""Mapping of parallel loops to threads or teams, by the amount of work inside."""

import numpy as np
import pytest

from functrans import grad, jit, lax, vmap
from functrans.loop.nodes import INDEX, ZERO, block_range, index
from functrans.loop.scalar import const
from functrans.loop.statements import For, Reduce, Store, band, buffer, load
from functrans.loop.walk import walk
from functrans.lower import pipeline
from functrans.lower.grid.dealing import grid_axes
from functrans.lower.grid.launch import launch
from functrans.lower.grid.target import CUDA
from functrans.lower.plan import iterations
from functrans.lower.verify import verify
from tests.emit.cuda.programs import normed, softmax


def plan(function, *shapes, dtype=np.float32):
    return pipeline.plan(jit(function).lower(*(np.ones(s, dtype) for s in shapes)).graph(), CUDA)


def teams(made):
    return [step.kernel.team for step in made.steps]


@pytest.mark.parametrize(
    ("function", "shapes", "expected"),
    [
        (lambda x: np.sin(x) * 2, [(70_000,)], [1]),
        (lambda x: np.sin(x) * 2, [(500, 70, 3)], [1]),
        (lambda x: x.T + 1, [(300, 400)], [256]),
        (lambda x: x.T + 1, [(30, 400)], [1]),
        (softmax, [(500, 4000)], [256]),
        (softmax, [(100_000, 33)], [32]),
        (softmax, [(100_000, 10)], [1]),
        (normed, [(4096, 1024)], [128]),
        (lambda x: x.sum(axis=0), [(30, 2000)], [128]),
        (lambda x: x.sum(axis=0), [(3000, 2000)], [1024, 128]),
        (lambda x, y: x @ y, [(300, 200), (200, 400)], [64]),
        (lambda x, y: x @ y, [(3000, 200), (200, 4000)], [256]),
        (lambda x, y: x @ y, [(300, 200), (200,)], [128]),
        (lambda x, y: x @ y, [(300, 200), (200, 5)], [128]),
        (lambda x: x.sum(), [(1 << 20,)], [512, 256]),
        (lambda x: x.sum(), [(1000,)], [512]),
        (lambda x, y: x + y, [(), ()], [1]),
    ],
)
def test_who_does_an_iteration(function, shapes, expected):
    made = plan(function, *shapes)
    assert teams(made) == expected


def test_a_softmax_reads_and_writes_once():
    (step,) = plan(softmax, (500, 4000)).steps
    assert not plan(softmax, (500, 4000)).arena
    assert len(step.buffers) == 2
    assert step.kernel.scratch == step.kernel.dealt


def test_loops_inside_are_dealt_to_the_team():
    (step,) = plan(normed, (4096, 1024)).steps
    inside = [x for x in walk(step.kernel.band[-1].body) if isinstance(x, (For, Reduce))]
    assert {x.lanes for x in inside} == {step.kernel.team} == {128}


def test_a_perfect_nest_inside_is_one_loop():
    """Threads of a team do elements of several rows at once, and each in four slices of its sum."""

    def steps(x):
        def step(carry, _):
            return np.tanh(carry @ np.identity(20, x.dtype) + carry[::-1]), None

        return lax.scan(step, x, None, 3)[0]

    (step,) = [each for each in plan(steps, (7, 20)).steps if each.kernel.team > 1]
    loops = [x for x in walk(step.kernel.body) if isinstance(x, For) and x.lanes > 1]
    assert {x.index.attribute[2] for x in loops} == {140, 4 * 140}


def test_a_loop_over_a_block_of_rows_is_no_axis_of_the_grid():
    """Its range depends on the block: one thread, or a team, goes through it."""
    one, block, row = buffer("one", np.dtype(np.float32), (10,)), index("b", 3), index("r", 10)
    start, stop = block_range(block, 4, const(10, INDEX))
    inner = For(row, start, stop, (Store(one, (row,), load(one, (row,)) * 2),), parallel=True)
    outer = For(block, ZERO, const(3, INDEX), (inner,), parallel=True)
    assert grid_axes((outer,)) == (outer,)
    assert band((outer,)) == (outer, inner)


def test_rows_of_a_batch_go_through_all_steps_on_their_own():
    """A persistent kernel: the batch is the grid, and a scan is inside of it."""

    def ensemble(y):
        def step(y, _):
            x, v = y[:, 0], y[:, 1]
            return np.stack([x + 0.1 * v, v - 0.1 * np.sin(x)], axis=1), None

        return lax.scan(step, y, None, 100)[0]

    (step,) = plan(ensemble, (1000, 2)).steps
    assert (step.kernel.team, [x.index.attribute[2] for x in step.kernel.band]) == (1, [1000])


def test_each_lane_of_a_while_loop_goes_its_own_way():
    def collatz(n):
        def step(state):
            n, count = state
            return np.where(n % 2, 3 * n + 1, n // 2), count + 1

        return lax.while_loop(lambda state: state[0] > 1, step, (n, n * 0))[1]

    *_, step = plan(vmap(collatz), (1000,), dtype=np.int64).steps
    assert (step.kernel.team, iterations(step.kernel, step.sizes)) == (1, 1000)


def test_per_sample_gradients_are_verified():
    def loss(w, x, y):
        return np.sum((np.tanh(x @ w) - y) ** 2)

    made = plan(vmap(grad(loss), in_axes=(None, 0, 0)), (64, 10), (256, 64), (256, 10))
    verify(made)


def test_blocks_hold_several_warps_but_one_larger_team():
    (small,) = plan(softmax, (100_000, 33)).steps
    (large,) = plan(softmax, (500, 4000)).steps
    grid = CUDA.grid
    assert launch(small.kernel, grid)[:2] == (256, 8)
    assert launch(large.kernel, grid)[:2] == (256, 1)
    assert launch(large.kernel, grid).blocks(iterations(large.kernel, large.sizes)) == 500
    assert launch(small.kernel, grid).blocks(iterations(small.kernel, small.sizes)) == 12_500
