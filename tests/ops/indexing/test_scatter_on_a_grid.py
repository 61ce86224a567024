"""Scatters on a grid: all updates in parallel; if several set an element, the last one wins."""

import numpy as np
import pytest

import functrans
from functrans.emit.cuda.kernel import emit
from functrans.loop.statements import Store
from functrans.loop.walk import walk
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.ops.indexing.gather import (
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_multiply,
    scatter_set,
)
from tests.emit.cuda.programs import in_both_ways, plan
from tests.emit.cuda.special import needs_compiler
from tests.loop.plans import evaluate_plan, shuffled
from tests.ops.on_a_grid import GRIDS, check, compile_all, emulate, graph_of, like, threads

SIZES = (0, 1, 2, 31, 33, 300, 1025)
DTYPES = (np.float64, np.float32, np.float16, np.int64, np.int8, np.uint16, np.bool_)
EXACT = {"scatter_set": scatter_set, "scatter_max": scatter_max, "scatter_min": scatter_min}
COMBINED = {"scatter_add": scatter_add, "scatter_multiply": scatter_multiply}
ROUNDING = {np.float64: 1e-12, np.float32: 1e-4, np.float16: 0.3}


def drawn(shape, dtype, seed=0):
    rng = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind == "f":
        return rng.uniform(0.5, 1.5, shape).astype(dtype)
    return rng.integers(0, 3, shape).astype(dtype)


def indices(count, extent):
    return np.random.default_rng(count).integers(-extent, extent, count)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*EXACT, *COMBINED])
def test_of_any_size(name, size, grid):
    primitive = (EXACT | COMBINED)[name]
    operands = drawn((17,), np.int64), drawn((size,), np.int64), indices(size, 17)
    check(primitive, *operands, on=GRIDS[grid], axes=(0,), unique=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", EXACT)
def test_what_is_chosen_is_exact_in_any_order(name, dtype):
    operands = drawn((7, 3), dtype, 1), drawn((40, 3), dtype, 2), indices(40, 7)
    for seed in range(3):
        check(EXACT[name], *operands, seed=seed, axes=(0,), unique=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", COMBINED)
def test_what_is_combined_is_so_up_to_rounding(name, dtype):
    operands = drawn((7, 3), dtype, 1), drawn((20, 3), dtype, 2), indices(20, 7)
    close = ROUNDING.get(dtype)
    check(COMBINED[name], *operands, close=close, axes=(0,), unique=False)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("name", [*EXACT, "scatter_add"])
def test_indices_along_several_axes(name, grid):
    rng = np.random.default_rng(0)
    operands = (
        drawn((4, 3, 5), np.int64),
        drawn((6, 9, 5), np.int64, 1),
        rng.integers(-3, 3, 9),
        rng.integers(-4, 4, (6, 1)),
    )
    check((EXACT | COMBINED)[name], *operands, on=GRIDS[grid], axes=(1, 0), unique=False)


@pytest.mark.parametrize("name", [*EXACT, *COMBINED])
def test_indices_that_are_unique_need_no_second_look(name):
    primitive = (EXACT | COMBINED)[name]
    places = np.random.default_rng(0).permutation(40)[:33]
    operands = drawn((40,), np.float64), drawn((33,), np.float64, 1), places
    check(primitive, *operands, axes=(0,), unique=True)
    plan = pipeline.plan(graph_of(primitive, *operands, axes=(0,), unique=True), CUDA)
    stores = [x for step in plan.steps for x in walk(step.kernel.body) if isinstance(x, Store)]
    assert [store.atomic for store in stores] == [False, True]  # the copy, and the updates


@pytest.mark.parametrize("name", [*EXACT, *COMBINED])
def test_an_index_out_of_bounds_fails(name):
    operands = np.zeros(7), np.zeros(3), np.array([0, 7, 1])
    graph = graph_of((EXACT | COMBINED)[name], *operands, axes=(0,), unique=False)
    _, status = evaluate_plan(pipeline.plan(graph, CUDA), operands, shuffled(0))
    assert status == 1


@pytest.mark.parametrize("name", [*EXACT, *COMBINED])
@pytest.mark.parametrize("shape", [(100_000,), (1000, 100)])
def test_all_updates_are_done_by_threads_of_their_own(name, shape):
    operands = like(shape), like(shape), like(shape[:1], np.int64)
    found = threads((EXACT | COMBINED)[name], *operands, axes=(0,), unique=False)
    assert max(found) >= 100_000 // 4  # neighbouring elements may go in strips


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*EXACT, *COMBINED])
def test_kernels_as_they_are_printed(name, dtype):
    operands = drawn((7, 4), dtype, 1), drawn((40, 4), dtype, 2), indices(40, 7)
    close = ROUNDING.get(dtype, 0.0)
    emulate((EXACT | COMBINED)[name], *operands, close=close, axes=(0,), unique=False)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64, np.bool_])
@pytest.mark.parametrize("name", ["scatter_max", "scatter_min", *COMBINED])
def test_few_elements_are_updated_in_shared_memory_first(name, dtype):
    operands = drawn((2, 3), dtype, 1), drawn((30, 2), dtype, 2), indices(30, 3)
    params = {"axes": (1,), "unique": False}
    primitive = (EXACT | COMBINED)[name]
    plan = pipeline.plan(graph_of(primitive, *operands, **params), GRIDS["small"])
    assert [one.name[-7:] for one in plan.steps[-1].kernel.scratch] == ["private"]
    check(primitive, *operands, on=GRIDS["small"], close=ROUNDING.get(dtype), **params)


NATIVE = {
    # a thread of a team adds up what fits into 32 bits
    "one": (np.int64, lambda v: 1, np.int32),
    "seven": (np.uint64, lambda v: 7, np.uint32),
    "below zero": (np.int64, lambda v: -1000, np.int32),
    "large": (np.int64, lambda v: 1 << 30, np.int64),
    "unknown": (np.int64, lambda v: v, np.int64),
    "bytes": (np.int8, lambda v: v * 31, np.int32),
    "bytes without a sign": (np.uint8, lambda v: v, np.uint32),
}


def counting(dtype, added):
    def run(x, i, v):
        return functrans.numpy.at(x)[i].add(np.asarray(added(v)).astype(dtype))

    return run


@pytest.mark.dear
@pytest.mark.parametrize("count", [29, 63, 64, 100, 1000, 1025])
@pytest.mark.parametrize("name", NATIVE)
def test_integers_are_counted_in_what_shared_memory_adds_by_itself(name, count):
    dtype, added, private = NATIVE[name]
    rng = np.random.default_rng(count)
    operands = (
        rng.integers(0, 9, 7).astype(dtype),
        rng.integers(-7, 7, count),
        rng.integers(0, 9, count).astype(np.int16),
    )
    made = plan(counting(dtype, added), *operands, machine=GRIDS["small"])
    (row,) = made.steps[-1].kernel.scratch
    assert row.dtype == private
    expected = operands[0].copy()
    np.add.at(expected, operands[1], np.asarray(added(operands[2])).astype(dtype))
    for (found,) in in_both_ways(made, operands, GRIDS["small"].grid):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["scatter_max", "scatter_min", "scatter_multiply"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64])
def test_integers_of_few_bytes_are_combined_in_four(name, dtype):
    rng = np.random.default_rng(0)
    limits = np.iinfo(dtype)
    operands = (
        drawn((5,), dtype, 1),
        rng.integers(limits.min, limits.max, 300, dtype, endpoint=True),
        indices(300, 5),
    )
    check((EXACT | COMBINED)[name], *operands, on=GRIDS["small"], axes=(0,), unique=False)


def test_a_position_in_no_block_is_not_read():
    for position in (0, 50, 255):
        places = np.zeros(256, np.int64)
        places[position] = 7
        graph = graph_of(scatter_add, np.zeros(7), np.zeros(256), places, axes=(0,), unique=False)
        operands = np.zeros(7), np.zeros(256), places
        _, status = evaluate_plan(pipeline.plan(graph, GRIDS["small"]), operands, shuffled(0))
        assert status == 1


def test_counts_read_what_a_thread_counts_at_once():
    made = plan(lambda i: np.bincount(i, minlength=256), like((1 << 26,), np.int64))
    kernel = made.steps[-1].kernel
    text = emit(kernel, CUDA.grid)
    assert "read2(" in text
    assert 'shared("int32", 256)' in text
    assert len(made.inputs) == 1


def test_elements_that_fill_shared_memory_are_updated_there():
    for dtype, count, fits in (
        (np.float32, 4000, True),
        (np.float32, CUDA.grid.rows // 4, True),
        (np.float32, CUDA.grid.rows // 4 + 1, False),
        (np.float64, CUDA.grid.rows // 8, True),
        (np.float64, CUDA.grid.rows // 8 + 1, False),
    ):
        operands = like((count,), dtype), like((1 << 26,), dtype), like((1 << 26,), np.int64)
        graph = graph_of(scatter_add, *operands, axes=(0,), unique=False)
        assert bool(pipeline.plan(graph, CUDA).steps[-1].kernel.scratch) == fits


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.bool_])
@pytest.mark.parametrize("name", ["scatter_set", "scatter_max", "scatter_add"])
def test_kernels_become_machine_code_without_spills(name, dtype):
    operands = like((300, 4), dtype), like((500, 4), dtype), like((500,), np.int64)
    compile_all((EXACT | COMBINED)[name], *operands, axes=(0,), unique=False)
