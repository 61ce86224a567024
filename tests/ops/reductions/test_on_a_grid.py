"""Running sums, sorting, argmax and argmin on a grid, by all of its threads."""

import numpy as np
import pytest

from functrans import lax
from functrans.emit.cuda.kernel import emit
from functrans.ir.evaluate import evaluate as by_numpy
from functrans.loop.nodes import index
from functrans.loop.scalar import evaluate
from functrans.lower import pipeline
from functrans.lower.grid.launch import launch
from functrans.lower.grid.target import CUDA
from functrans.ops.reductions.compiled.grid.sorting_network import merging, room
from functrans.ops.reductions.compiled.networks import sorting
from functrans.ops.reductions.cumulative import cummax, cummin, cumprod, cumsum, cumxor
from functrans.ops.reductions.reduce import argmax, argmin
from functrans.ops.reductions.sorting import argsort, sort
from tests.emit.cuda.programs import emulated, in_both_ways, interpreted, plan
from tests.emit.cuda.special import needs_compiler
from tests.ops.on_a_grid import GRIDS, SMALL, check, compile_all, emulate, graph_of, like, threads
from tests.targets import target

NARROW = target(CUDA, grid={"sort_registers": 4, "shared": 1024})
"""A GPU that merges runs of few keys, and has warps as the emulator has them."""

BUSY = target(SMALL, grid={"threads": 4})
"""A GPU that two lines keep busy."""

SIZES = (0, 1, 2, 31, 33, 300)
ARRAYS = [
    *(((size,), 0) for size in SIZES),
    ((3, 40), 1),
    ((40, 3), 0),
    ((40, 33), 0),
    ((4, 5, 6), 1),
    ((2, 0, 3), 0),
]
SHORT = [(shape, axis) for shape, axis in ARRAYS if np.prod(shape) <= 60] + [((2, 18), 1)]
LARGE = [((300_000,), 0), ((2, 150_000), 1), ((150_000, 2), 0), ((600, 500), 1), ((600, 500), 0)]
RUNNING = {
    "cumsum": cumsum, "cumprod": cumprod, "cummax": cummax, "cummin": cummin, "cumxor": cumxor,
}  # fmt: skip
SORTS = {"sort": sort, "argsort": argsort}
POSITIONS = {"argmax": argmax, "argmin": argmin}
DTYPES = (np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_)


def drawn(shape, dtype):
    """Numbers of which many are equal; of floats, NaN of both signs, infinities, zeros with one."""
    rng = np.random.default_rng([*shape, np.dtype(dtype).num])
    least = 0 if np.dtype(dtype).kind in "ub" else -3
    x = rng.integers(least, least + 6, shape).astype(dtype)
    if x.dtype.kind == "f":
        for special in (np.nan, -np.nan, np.inf, -np.inf, -0.0):
            x[rng.random(shape) < 0.05] = special
    return x


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(("shape", "axis"), ARRAYS)
@pytest.mark.parametrize("name", RUNNING)
def test_running(name, shape, axis, grid):
    x = drawn(shape, np.int64)
    for reverse in (False, True):
        check(RUNNING[name], x, on=GRIDS[grid], axis=axis, reverse=reverse)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("size", [33, 1025])
def test_running_sums_of_floats(size, grid):
    x = np.random.default_rng(0).standard_normal(size)
    check(cumsum, x, on=GRIDS[grid], close=1e-11, axis=0, reverse=False)


@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 33), 1), ((3, 50), 1), ((2, 3, 17), 2), ((3, 9), 1)]
)
@pytest.mark.parametrize("name", RUNNING)
def test_a_team_goes_over_its_line_tile_by_tile(name, shape, axis):
    x = drawn(shape, np.int64)
    for reverse in (False, True):
        check(RUNNING[name], x, on=BUSY, axis=axis, reverse=reverse)


def test_many_long_lines_are_read_once():
    graph = graph_of(cumsum, like((1056, 50_257)), axis=1, reverse=False)
    made = pipeline.plan(graph, CUDA)
    (step,) = made.steps
    assert not made.offsets
    assert step.extent == 1056


def test_equal_lines_have_equal_sums_wherever_they_are():
    """The order in which numbers are combined follows from the shape alone."""
    line = np.random.default_rng(0).standard_normal(50)
    (found,) = check(cumsum, np.stack([line] * 5), on=BUSY, close=1e-12, axis=1, reverse=False)
    (again,) = check(
        cumsum, np.stack([line] * 5), on=BUSY, seed=1, close=1e-12, axis=1, reverse=False
    )
    np.testing.assert_array_equal(found, np.stack([found[0]] * 5))
    np.testing.assert_array_equal(found, again)


WARPS = target(CUDA, grid={"threads": 4, "busy": 8, "block": 64, "largest_team": 64})
"""The same, with warps that the emulator knows, for lines of hundreds of numbers."""


@pytest.mark.dear
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(4, 256), (4, 700), (3, 1025), (2, 512), (1, 513)])
def test_tiles_as_they_are_printed(shape, reverse):
    x = drawn(shape, np.float32)
    for primitive in (cummax, cumsum):
        x = x if primitive is cummax else np.nan_to_num(x, posinf=1, neginf=2)
        graph = graph_of(primitive, x, axis=1, reverse=reverse)
        (found,) = emulated(pipeline.plan(graph, WARPS), [x], WARPS.grid)
        np.testing.assert_array_equal(found, by_numpy(graph, [x])[0])


LONG_LINES = target(CUDA, grid={"block": 64, "largest_team": 64, "rows": 2600})
"""A GPU whose teams have room for 512 numbers, of which a line has many blocks."""


@pytest.mark.dear
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8])
@pytest.mark.few(3)
@pytest.mark.parametrize("count", [511, 512, 513, 2047, 2048, 2049, 5000])
def test_blocks_of_long_lines(count, dtype):
    x = drawn((count,), dtype)
    x = np.nan_to_num(x, posinf=1, neginf=2) if x.dtype.kind == "f" else x
    for reverse in (False, True):
        graph = graph_of(cumsum, x, axis=0, reverse=reverse)
        made = pipeline.plan(graph, LONG_LINES)
        for (found,) in in_both_ways(made, [x], LONG_LINES.grid):
            np.testing.assert_array_equal(found, by_numpy(graph, [x])[0])


@pytest.mark.parametrize("extent", [1 << 26, (1 << 26) - 5])
def test_a_tile_is_read_and_written_by_16_bytes(extent):
    """Its steps are one behind the other, without a loop."""
    made = pipeline.plan(graph_of(cumsum, like((extent,)), axis=0, reverse=False), CUDA)
    texts = [emit(step.kernel, CUDA.grid) for step in made.steps if step.extent > 10_000]
    (text,) = [text for text in texts if "store4(" in text]
    assert text.count("read4(") == 2
    assert [line.strip() for line in text.splitlines() if "range(" in line] == [
        "for k in range(8):"
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extremes_of_any_dtype(name, dtype):
    check(RUNNING[name], drawn((100,), dtype), axis=0, reverse=False)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(("shape", "axis"), SHORT)
@pytest.mark.parametrize("name", SORTS)
def test_sorting(name, shape, axis, grid):
    check(SORTS[name], drawn(shape, np.float32), on=GRIDS[grid], axis=axis)


@pytest.mark.full
@pytest.mark.parametrize("name", SORTS)
def test_sorting_runs_that_become_longer_than_a_block(name):
    check(SORTS[name], drawn((100,), np.float64), on=GRIDS["small"], axis=0)


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SORTS)
def test_sorting_of_any_dtype(name, dtype):
    for grid in GRIDS.values():
        check(SORTS[name], drawn((21,), dtype), on=grid, axis=0)


@pytest.mark.full
@pytest.mark.parametrize("name", SORTS)
def test_what_is_added_to_a_block_is_behind_what_is_equal_to_it(name):
    """The numbers with which blocks are filled up are those that come last."""
    for last in (np.full(37, np.nan), np.full(37, 255, np.uint8), np.full(37, True)):
        check(SORTS[name], last, axis=0)


@pytest.mark.dear
@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "axis"), [((700,), 0), ((3, 300), 1), ((90, 2), 0), ((512,), 0), ((2, 3, 20), 1)]
)
@pytest.mark.parametrize("name", SORTS)
def test_merged_runs_as_they_are_printed(name, shape, axis, dtype):
    x = drawn(shape, dtype)
    graph = graph_of(SORTS[name], x, axis=axis)
    (found,) = emulated(pipeline.plan(graph, NARROW), [x], NARROW.grid)
    np.testing.assert_array_equal(found, by_numpy(graph, [x])[0])


@pytest.mark.dear
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_sort_keeps_all_bits(dtype):
    """Whatever a NaN says stays, and zeros have an order among each other."""
    x = drawn((50,), dtype)
    bits = x.view(f"u{x.dtype.itemsize}")
    bits[np.isnan(x)] += np.arange(np.isnan(x).sum(), dtype=bits.dtype)
    (found,) = interpreted(pipeline.plan(graph_of(sort, x, axis=0), CUDA), [x])
    np.testing.assert_array_equal(np.sort(found.view(bits.dtype)), np.sort(bits))
    ordered = found[~np.isnan(found)]
    key = np.lexsort((~np.signbit(ordered), ordered))
    np.testing.assert_array_equal(key, np.arange(len(ordered)))


@pytest.mark.parametrize("count", range(1, 11))
def test_a_network_sorts_zeros_and_ones(count):
    """It then sorts anything (Knuth, TAOCP 3, 5.3.4)."""
    for number in range(1 << count):
        x = [number >> i & 1 for i in range(count)]
        for i, j in sorting(count):
            x[i], x[j] = min(x[i], x[j]), max(x[i], x[j])
        assert x == sorted(x)


@pytest.mark.parametrize(("bits", "top", "words"), [(5, 10, 1), (5, 13, 1), (4, 10, 2), (4, 12, 2)])
def test_threads_of_a_warp_find_their_keys_in_different_banks(bits, top, words):
    number = index("thread", 1 << top - bits)
    passes = [one for end in range(bits + 1, top + 1) for one in merging(end, bits, mirrored=True)]
    lines, row = room(1 << top, bits)
    for one in passes:
        places = np.array([
            np.broadcast_to(
                evaluate(line * row + within, {number: np.arange(lines)}), lines
            )
            for line, within in one.positions(number)
        ])  # fmt: skip
        assert len(np.unique(places)) == places.size == 1 << top
        # of two words, half a warp is served at a time
        groups = places.reshape(-1, 32 // words) % (32 // words)
        assert all(len(np.unique(group)) == len(group) for group in groups)


@pytest.mark.parametrize(
    ("extent", "dtype", "team", "block"),
    [(20, np.float32, 1, 256), (1024, np.float32, 32, 256), (1000, np.float64, 64, 64),
     (8192, np.float32, 256, 256)],
)  # fmt: skip
def test_lines_that_a_team_keeps_are_read_once(extent, dtype, team, block):
    made = pipeline.plan(graph_of(sort, like((100, extent), dtype), axis=1), CUDA)
    (step,) = made.steps
    assert step.kernel.team == team
    assert launch(step.kernel, CUDA.grid).threads == block
    assert not made.offsets


@pytest.mark.dear
def test_a_thread_compares_without_branches_and_waits_once_for_each_pass():
    """32 keys: two passes of at most five steps for each doubling of the runs beyond that."""
    (kernel,) = pipeline.plan(graph_of(sort, like((64, 1024)), axis=1), CUDA).kernels
    text = emit(kernel, CUDA.grid)
    assert text.count("warp_barrier()") == 2 * 5 + 1
    assert text.count("while") == text.count("where") == 0
    assert text.count("uint32(min(") == 191 + 16 * (6 + 7 + 8 + 9 + 10)


@pytest.mark.dear
@pytest.mark.parametrize("name", SORTS)
def test_a_long_sort_is_three_kernels_however_long_it_is(name):
    for size in (1 << 16, 10_000_000):
        made = pipeline.plan(graph_of(SORTS[name], like((size,)), axis=0), CUDA)
        assert len(made.kernels) == 3
        assert [len(step.turns) for step in made.steps] == [0, 1, 0]


@pytest.mark.full
def test_a_long_sort_in_a_loop_keeps_many_threads_busy():
    def step(x, y):
        x = np.sort(x * y)
        return x, x[0]

    x = like((40_000,))
    made = plan(lambda x, y: lax.scan(step, x, y), x, like((3, 40_000)))
    sorts = [one for one in made.steps if one.kernel.team > 1]
    assert {one.kernel.team for one in sorts} == {256}
    assert max(len(one.turns) for one in sorts) == 2


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64])
@pytest.mark.parametrize(("shape", "axis"), [((300,), 0), ((2, 300), 1), ((300, 2), 0)])
@pytest.mark.parametrize("name", POSITIONS)
def test_positions_of_extremes_in_long_lines(name, shape, axis, dtype):
    check(POSITIONS[name], drawn(shape, dtype), on=GRIDS["small"], axis=axis)


@pytest.mark.parametrize(("shape", "axis"), LARGE)
@pytest.mark.parametrize("name", [*RUNNING, *SORTS])
def test_large_arrays_keep_many_threads_busy(name, shape, axis):
    params = {"reverse": False} if name in RUNNING else {}
    found = threads((RUNNING | SORTS)[name], like(shape), axis=axis, **params)
    assert max(found) >= 10_000 // 4  # neighbouring elements may go in strips


@pytest.mark.parametrize(("shape", "axis"), LARGE[:3])
@pytest.mark.parametrize("name", POSITIONS)
def test_long_lines_are_cut_for_the_positions_of_their_extremes(name, shape, axis):
    assert max(threads(POSITIONS[name], like(shape), axis=axis)) >= 10_000


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.bool_])
@pytest.mark.parametrize("name", ["cummax", *SORTS])
def test_kernels_as_they_are_printed(name, dtype):
    params = {"reverse": True} if name in RUNNING else {}
    emulate((RUNNING | SORTS)[name], drawn((300,), dtype), axis=0, **params)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1025, 2500])
@pytest.mark.parametrize("name", ["cummax", *SORTS])
def test_kernels_of_several_blocks_as_they_are_printed(name, size):
    params = {"reverse": True} if name in RUNNING else {}
    emulate((RUNNING | SORTS)[name], drawn((size,), np.float64), axis=0, **params)


@pytest.mark.few(1)
@needs_compiler
@pytest.mark.parametrize(
    ("name", "size", "dtype"),
    [
        ("cummax", 40_000, np.float64),
        ("sort", 10_000, np.bool_),
        ("sort", 1000, np.float32),
        ("argsort", 20_000, np.float32),
        ("argsort", 2000, np.float64),
    ],
)
def test_kernels_become_machine_code_without_spills(name, size, dtype):
    params = {"reverse": False} if name in RUNNING else {}
    compile_all((RUNNING | SORTS)[name], like((size,), dtype), axis=0, **params)
