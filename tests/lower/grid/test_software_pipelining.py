"""Teams that copy their next row while they store the results of one."""

import re

import numpy as np
import pytest

from functrans import grad, vmap
from functrans.emit.cuda.kernel import emit
from functrans.loop.statements import Await, For, If, Store
from functrans.loop.walk import walk
from functrans.lower.grid.target import CUDA
from functrans.lower.plan import iterations
from tests.emit.cuda.programs import emulated, interpreted, normed, plan, softmax
from tests.targets import target


def log_sum_exp(x):
    m = x.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - m).sum(axis=-1)) + m[:, 0]


def ones(*shape, dtype=np.float32):
    return np.broadcast_to(dtype(1), shape)


def rows_of_teams(step):
    """The most rows that a team processes, and the number of teams."""
    loops = [each for each in step.kernel.band[-1].body if isinstance(each, For)]
    own = [each.index.attribute[2] for each in loops if each.lanes == 1]
    return *own, iterations(step.kernel, step.sizes)


@pytest.mark.parametrize("function", [softmax, normed])
@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        ((8192, 50_257), (7, 1171)),
        ((20_000, 30_000), (8, 2500)),
        ((4, 2048, 50_257), (7, 1171)),
        ((2000, 50_257), (2000,)),  # too few rows for several teams on each multiprocessor
        ((8192, 27_000), (8192,)),  # two blocks are resident
    ],
)
def test_teams_process_several_rows_if_they_fill_shared_memory(function, shape, rows):
    (step,) = plan(function, ones(*shape)).steps
    assert step.kernel.long
    assert rows_of_teams(step) == rows


@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (log_sum_exp, [ones(8192, 50_257)]),  # a sum is the last that reads the row
        (softmax, [ones(8192, 70_001, dtype=np.float16)]),  # elements that cannot be copied
        (softmax, [ones(8192, 60_000)]),  # a row that does not fit
    ],
)
def test_what_cannot_be_copied_in_advance_is_one_row_for_each_team(function, operands):
    (step,) = plan(function, *operands).steps
    assert rows_of_teams(step) == (8192,)


def test_the_next_row_is_copied_in_the_loop_that_stores_results():
    (step,) = plan(softmax, ones(8192, 50_257)).steps
    first, turns = step.kernel.band[-1].body
    await_, *_, use, _ = turns.body
    assert isinstance(await_, Await) and isinstance(use, If)
    copies = [[x for x in walk(arm) if isinstance(x, Store) and x.late] for arm in (
        (first,), use.body, use.otherwise,
    )]  # fmt: skip
    assert [len(each) for each in copies] == [1, 1, 0]
    source = emit(step.kernel, CUDA.grid)
    assert len(re.findall(r"copy4\(t1_row", source)) == -(-50_257 // 1024) + 1


FEW = {"row_registers": 0, "rows": 64, "largest_shared": 8000, "slices": 0, "blocks": 1}


@pytest.mark.few(2)
@pytest.mark.parametrize("rows_of_a_team", [2, 8])
@pytest.mark.parametrize(("rows", "columns"), [(17, 33), (18, 64), (17, 300)])
@pytest.mark.parametrize("function", [softmax, normed])
def test_results_are_those_of_single_rows(function, rows, columns, rows_of_a_team):
    x = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    made = plan(function, x, machine=target(CUDA, grid=FEW | {"rows_of_a_team": rows_of_a_team}))
    (step,) = made.steps
    most, teams = rows_of_teams(step)
    assert most == min(rows_of_a_team, rows // 4) and teams == -(-rows // most)
    single = plan(function, x, machine=target(CUDA, grid=FEW | {"rows_of_a_team": 1}))
    found = emulated(made, [x], target(CUDA, grid=FEW).grid)
    np.testing.assert_array_equal(found, emulated(single, [x], target(CUDA, grid=FEW).grid))
    np.testing.assert_allclose(found[0], function(x), rtol=1e-4, atol=1e-6)
    if columns < 65:
        np.testing.assert_array_equal(interpreted(made, [x]), found)


@pytest.mark.parametrize(
    "function",
    [
        grad(lambda x: np.sum(softmax(x) ** 2)),
        grad(lambda x: np.sum(normed(x) ** 3)),
        vmap(lambda x: softmax(x * 2) + x.sum()),
    ],
)
def test_gradients_and_batches(function):
    x = np.random.default_rng(0).normal(size=(17, 40)).astype(np.float32)
    machine = target(CUDA, grid=FEW)
    for found in interpreted(plan(function, x, machine=machine), [x]):
        np.testing.assert_allclose(found, function(x.astype(float)), rtol=1e-3, atol=1e-4)


@pytest.mark.dear
@pytest.mark.parametrize(("columns", "copy", "rounds"), [(254, "copy8", 4), (256, "copy", 2)])
def test_wide_copies(columns, copy, rounds):
    x = np.random.default_rng(0).normal(size=(9, columns)).astype(np.float32)
    machine = target(CUDA, grid=FEW | {"largest_team": 32, "largest_shared": 2000})
    made = plan(softmax, x, machine=machine)
    (step,) = made.steps
    assert rows_of_teams(step) == (2, 5)
    assert len(re.findall(rf"\b{copy}\(", emit(step.kernel, machine.grid))) == rounds + 1
    for run in (interpreted, emulated):
        arguments = (machine.grid,) if run is emulated else ()
        np.testing.assert_allclose(run(made, [x], *arguments)[0], softmax(x), rtol=1e-5)
