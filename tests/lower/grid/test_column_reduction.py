"""Column reductions are shared by teams, so that few columns can use many threads."""

import re

import numpy as np
import pytest

from functrans import lax
from functrans.loop.nodes import INDEX, ZERO, fold, index
from functrans.loop.reductions import Reductions, lower_folds, unblocked
from functrans.loop.scalar import const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import For, Kernel, Let, Reduce, Store, buffer, load, local
from functrans.lower.grid.barrier_insertion import with_barriers
from functrans.lower.grid.column_reduction import shared_columns
from functrans.lower.grid.launch import launch
from functrans.lower.grid.target import CUDA
from functrans.lower.plan import Step, iterations, threads
from tests.emit.cuda.programs import in_both_ways, in_registers, interpreted, plan
from tests.emit.cuda.special import needs_compiler
from tests.emit.cuda.transactions import transactions
from tests.loop.evaluate import Memory
from tests.loop.evaluate_grid import evaluate_grid
from tests.targets import target

EAGER = target(
    CUDA,
    grid={"largest_team": 64, "iterations": 2, "launch": 1, "barrier": 1}
    | {"smallest_tiled": 1, "tile_side": 8, "block": 32},
    reductions={"long": 500, "blocks": 3, "few_iterations": 100},
)
"""A GPU for which short columns are worth blocks, and teams."""


def drawn(shape, dtype=np.float32):
    return (3 * np.random.default_rng(1).random(shape)).astype(dtype)


@pytest.mark.parametrize(
    ("function", "shape", "teams"),
    [
        (lambda x: x.sum(axis=0), (1 << 16, 16), [256, 256]),
        (lambda x: x.max(axis=0), (1 << 16, 16), [256, 256]),
        (lambda x: x.T.mean(axis=1), (1 << 16, 16), [256, 256]),
        (lambda x: (x > 2).any(axis=0), (1 << 16, 16), [256, 64]),
        (lambda x: x.sum(axis=(0, 1)), (500, 100, 16), [128, 256]),
        (lambda x: x.sum(axis=0), (3000, 500), [1024, 128]),
        # what has threads enough, or few rows, is a thread's each
        (lambda x: x.sum(axis=0), (15, 300_000), [1]),
        (lambda x: x.sum(axis=0), (7, 300), [1]),
    ],
)
def test_teams(function, shape, teams):
    made = plan(function, np.broadcast_to(np.float32(1), shape))
    assert [step.kernel.team for step in made.steps] == teams


@pytest.mark.parametrize("columns", [9, 16, 40])
def test_few_columns_get_as_many_threads_as_many(columns):
    x = np.broadcast_to(np.float32(1), (1 << 16, columns))
    step = plan(lambda x: x.sum(axis=0), x).steps[0]
    assert threads(step.kernel, step.sizes) >= CUDA.grid.busy


REDUCTIONS = {
    "sum": lambda x: x.sum(axis=0),
    "mean and variance": lambda x: (x.mean(axis=0), x.var(axis=0)),
    "largest": lambda x: (x.max(axis=0), x.argmax(axis=0)),
    "any": lambda x: (x > 2.9).any(axis=0),
    "of both axes": lambda x: (x * x.reshape(x.shape[::-1]).T).sum(axis=0),
    "scaled": lambda x: x.sum(axis=0) / (1 + x.sum()),
}


@pytest.mark.parametrize("shape", [(0, 5), (1, 5), (90, 1), (80, 17), (130, 12)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_results(name, shape):
    function, x = REDUCTIONS[name], drawn(shape, np.float64)
    if shape[0] == 0 and name in ("largest", "mean and variance"):
        pytest.skip("of nothing there is none")
    made = plan(function, x, machine=EAGER)
    with np.errstate(all="ignore"):
        wanted = function(x)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for found in in_both_ways(made, [x]):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float16, np.float32])
def test_dtypes(dtype):
    x = drawn((130, 16), dtype)
    made = plan(lambda x: x.max(axis=0), x, machine=EAGER)
    assert made.steps[0].kernel.team > 1
    for found in in_both_ways(made, [x], seed=1):
        np.testing.assert_array_equal(found[0], x.max(axis=0))


def test_the_order_of_a_sum_follows_from_its_extents():
    x = drawn((900, 7))
    made = plan(lambda x: x.sum(axis=0), x, machine=EAGER)
    results = {interpreted(made, [x], seed)[0].tobytes() for seed in range(3)}
    assert len(results) == 1


def test_all_that_is_fetched_is_used(monkeypatch):
    x = drawn((512, 16))
    made = plan(lambda x: x.sum(axis=0), x, machine=EAGER)
    counted, _ = transactions(monkeypatch, made, [x])
    sectors, least = counted.sectors()
    assert sectors["in0"] == least["in0"] == x.nbytes // 32


@pytest.mark.full
def test_what_the_host_repeats():
    """Kernels of a step of a scan have tiles, and are shared, as others are."""

    def step(state, x):
        state = np.sin(state.T) + x
        return state, state.sum(axis=0)

    def function(state, xs):
        return lax.scan(step, state, xs)

    state, xs = drawn((34, 34)), drawn((2, 34))
    made = plan(function, state, xs, machine=EAGER)
    repeated = [one.kernel for one in made.steps if one.turns]
    assert repeated
    assert all(kernel.team > 1 and kernel.scratch for kernel in repeated)
    assert all(kernel.narrow for kernel in repeated)
    found = interpreted(made, [state, xs])
    for one, other in zip(found, function(state, xs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)


@pytest.mark.dear
@needs_compiler
@pytest.mark.parametrize("name", ["sum", "mean and variance", "largest", "any"])
def test_machine_code(name):
    """Without spills or local memory, with loads of 16 bytes."""
    made = plan(REDUCTIONS[name], np.broadcast_to(np.float32(1), (1 << 16, 16)))
    for number, step in enumerate(made.steps):
        code = in_registers(step.kernel)
        if number == 0:
            assert "ld.global.nc.v4.f32" in code.ptx
            assert not re.search(r"ld\.global\.nc\.f32", code.ptx)


@pytest.mark.parametrize("extents", [(100,), (5000,), (40, 70), (3, 40)])
def test_a_sum_of_partial_sums_is_one_again(extents):
    x = buffer("x", np.float32, extents)
    total = fold("add", extents, lambda *at: load(x, at))
    (made,), _ = lower_folds([total], 1, Simplifier(), CUDA)
    assert isinstance(made, Reduce)
    assert made.body
    whole = unblocked(made)
    assert not whole.body
    assert [(start, stop) for _, start, stop in whole.loops] == [
        (ZERO, const(extent, INDEX)) for extent in extents
    ]
    counters = [counter for counter, *_ in whole.loops]
    assert whole.values == (load(x, counters),)


def test_a_sum_of_something_else_is_left_alone():
    x = buffer("x", np.float32, (20, 30))
    largest = fold("max", (20,), lambda i: fold("add", (30,), lambda k: load(x, (i, k))))
    (made,), _ = lower_folds([largest], 1, Simplifier(), CUDA)
    assert isinstance(made, Reduce)
    assert unblocked(made) is made


@pytest.mark.dear
@pytest.mark.parametrize("columns", [8, 33])
def test_what_is_read_before_it_is_overwritten(columns):
    """A column has a local, which is of a number that a store replaces and another one needs."""
    rows = 200
    x = buffer("x", np.float64, (rows, columns))
    held, out = (buffer(name, np.float64, (columns,)) for name in ("held", "out"))
    j, k = index("j", columns), index("k", rows)
    before, total = local(held.dtype, "before"), local(x.dtype, "total")
    body = (
        Let((before,), (load(held, (j,)) * 2.0,)),
        Reduce((total,), ("add",), (load(x, (k, j)) * before,), ((k, ZERO, const(rows, INDEX)),)),
        Store(held, (j,), total),
        Store(out, (j,), before + total),
    )
    band = For(j, ZERO, const(columns, INDEX), body, parallel=True)
    buffers = (x, held, out)
    step = Step(Kernel(buffers, 0, (band,), team=1), buffers, (), columns, 0)
    shared = shared_columns(step, EAGER.grid, EAGER[Reductions], 16)
    assert shared.kernel.team > 1
    numbers = np.random.default_rng(0)
    given, first, made = numbers.random((rows, columns)), numbers.random(columns), np.zeros(columns)
    now = first.copy()
    memory = [Memory(given.reshape(-1), True), Memory(now, True), Memory(made, False)]
    evaluate_grid(with_barriers(shared.kernel), memory, shared.sizes, numbers.permutation)
    total_of = (given * 2 * first).sum(axis=0)
    np.testing.assert_allclose(now, total_of, rtol=1e-12)
    np.testing.assert_allclose(made, 2 * first + total_of, rtol=1e-12)


MULTIPROCESSORS = 132


@pytest.mark.parametrize("shape", [(1 << 20, 16), (1 << 20, 3), (65536, 1024), (100_000, 300)])
def test_long_columns_keep_all_multiprocessors_busy(shape):
    made = plan(lambda x: x.sum(axis=0), np.broadcast_to(np.float32(1), shape))
    first = made.steps[0]
    blocks = launch(first.kernel, CUDA.grid).blocks(iterations(first.kernel, first.sizes))
    assert blocks >= MULTIPROCESSORS
