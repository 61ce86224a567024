"""Strip mining: threads execute adjacent iterations, with vector loads and stores."""

import re
from collections import Counter
from functools import partial

import numpy as np
import pytest

from functrans import jit, random
from functrans.emit.cuda.kernel import emit
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.lower.verify import verify
from tests.emit.cuda import programs
from tests.emit.cuda.programs import emulated, in_both_ways
from tests.targets import target

EAGER = target(
    CUDA,
    grid={"block": 64, "largest_team": 64, "shortest": 3, "iterations": 2, "busy": 8}
    | {"threads": 4, "shortest_in_strips": 3},
)
"""A GPU for which short arrays are worth strips."""

DTYPES = (np.float64, np.float32, np.float16, np.int8, np.bool_)


plan = partial(programs.plan, machine=EAGER)


def drawn(shape, dtype=np.float32):
    return (3 * np.random.default_rng(1).random(shape)).astype(dtype)


def wide(made, machine=EAGER):
    """How often kernels load and store several elements at once, and how many."""
    sources = [emit(step.kernel, machine.grid) for step in made.steps]
    return Counter(re.findall(r"\b(?:read|load|store)\d+(?=\()", "\n".join(sources)))


@pytest.mark.parametrize(
    ("function", "shapes", "dtype", "expected"),
    [
        (lambda x: x * 2, [(64, 64)], np.float32, {"read4": 2, "store4": 2}),
        (lambda x: x * 2, [(64, 64)], np.float64, {"read2": 2, "store2": 2}),
        (lambda x: x * 2, [(64, 64)], np.float16, {"read8": 2, "store8": 2}),
        (lambda x: ~x, [(64, 64)], np.bool_, {"read16": 2, "store16": 2}),
        (lambda x: x > 1, [(64, 64)], np.float32, {"read4": 2, "store4": 2}),
        (lambda x, y: x + y, [(64, 64)] * 2, np.float32, {"read4": 2, "store4": 1}),
        (lambda x, y: x + y, [(64, 64), (64,)], np.float32, {"read4": 2, "store4": 1}),
        (lambda x, y: x + y, [(200, 200), (200,)], np.float32, {"read4": 2, "store4": 1}),
        (lambda x, y: x + y, [(64, 66), (66,)], np.float32, {"read2": 2, "store2": 1}),
        (lambda x, y: x + y, [(64, 65), (65,)], np.float32, {}),
        (lambda x, y: x + y, [(64, 64), (64, 1)], np.float32, {"read4": 1, "store4": 1}),
        (lambda x: x.T * 2, [(64, 64)], np.float32, {}),
        (lambda x: x[:, 1:] * 2, [(64, 65)], np.float32, {"store4": 1}),
        (lambda x: x[:, ::2] * 2, [(64, 128)], np.float32, {}),
        (lambda x: x.sum(axis=0), [(20, 64)], np.float32, {"read4": 2, "store4": 2}),
        (lambda x: x.sum(axis=1), [(64, 512)], np.float32, {"read4": 1}),
        (lambda x: x.sum(axis=1), [(64, 511)], np.float32, {}),
        (lambda x: x.sum(axis=(1, 2)), [(64, 16, 32)], np.float32, {"read4": 1}),
        (lambda x: x.sum(axis=(1, 2)), [(64, 32, 32)], np.float16, {"read8": 1}),
        (lambda x: x.sum(axis=(1, 2)), [(64, 32, 12)], np.float16, {"read4": 1}),
        (lambda x: x.sum(axis=(1, 2)), [(64, 16, 30)], np.float32, {"read4": 1}),
        (lambda x: x[:, ::2].sum(axis=(1, 2)), [(64, 32, 32)], np.float32, {"read4": 1}),
        (lambda x: x[:, :, 1:].sum(axis=(1, 2)), [(64, 16, 33)], np.float32, {}),
        (lambda x: x[:, :, ::2].sum(axis=(1, 2)), [(64, 16, 64)], np.float32, {}),
    ],
)
def test_what_is_done_at_once(function, shapes, dtype, expected):
    made = plan(function, *(drawn(shape, dtype) for shape in shapes))
    assert wide(made) == expected
    verify(made)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [0, 1, 31, 33, 1025])
def test_what_is_left_at_the_end(dtype, count):
    x = drawn((count,), dtype)
    made = plan(lambda x: np.minimum(x, x[:1]) if count else x == x, x)
    wanted = np.minimum(x, x[:1]) if count else x == x
    for found in in_both_ways(made, [x]):
        np.testing.assert_array_equal(found[0], wanted)


def test_a_large_array_has_two_strips_a_thread_and_a_small_one_none():
    large, small = drawn((3 << 20,)), drawn((4000,))
    made = plan(lambda x: x * 2, large, machine=CUDA)
    assert wide(made, CUDA) == {"read4": 2, "store4": 2}
    assert [loop.index.attribute[2] for loop in made.steps[0].kernel.band] == [1536, 256]
    assert not wide(plan(lambda x: x * 2, small, machine=CUDA), CUDA)
    verify(plan(lambda x: x * 2, drawn((70_001,)), machine=CUDA))


def test_a_long_sum_loads_four_at_once():
    made = plan(lambda x: x.sum(), drawn((1 << 20,)), machine=CUDA)
    assert wide(made, CUDA) == {"read4": 1}


@pytest.mark.parametrize("shape", [(17, 6, 28), (3, 5, 2, 12), (2, 300, 8), (0, 6, 28), (2, 1, 16)])
def test_sums_over_several_axes(shape):
    x = drawn(shape)
    axes = tuple(range(1, len(shape)))
    made = plan(lambda x: x.sum(axis=axes), x)
    for found in in_both_ways(made, [x], EAGER.grid):
        np.testing.assert_allclose(found[0], x.sum(axis=axes), rtol=1e-5)


def test_the_planes_of_images_are_summed_by_16_bytes():
    x = np.broadcast_to(np.float32(1), (64, 32, 128, 128))
    made = plan(lambda x: x.sum(axis=(0, 2, 3)), x, machine=CUDA)
    assert wide(made, CUDA)["read4"] == 2


def test_an_element_that_is_much_work_has_a_narrower_strip():
    def much(x):
        return np.sin(np.exp(np.sin(np.tan(np.sin(np.tanh(x))))))

    assert not wide(plan(much, drawn((1 << 16,)), machine=CUDA), CUDA)


def test_where_each_element_takes_some_hundred_operations_a_thread_has_a_strip():
    """Its index arithmetic is executed once for several elements."""
    made = plan(
        lambda key: random.normal(key, (1 << 16,), np.float32),
        np.zeros(2, np.uint32), machine=CUDA,
    )  # fmt: skip
    assert wide(made, CUDA)["store4"] == 1


def test_a_short_last_axis_is_no_reason_to_go_apart():
    """Threads go along memory, rather than each along a row of its own."""
    made = plan(lambda x: x * 2, drawn((1 << 12, 3)), machine=CUDA)
    assert wide(made, CUDA) == {"read4": 1, "store4": 1}


def test_results_in_the_place_of_inputs():
    x = drawn((65,))
    graph = jit(lambda x: x * 2 + x).lower(x).graph()
    made = pipeline.plan(graph, EAGER, donated=(0,))
    verify(made)
    assert wide(made)["load4"] == wide(made)["store4"] > 0
    found = emulated(made, [x])
    np.testing.assert_array_equal(found[0], x * 2 + x)


def test_sums_over_rows_of_rows_have_loads_of_several_under_way():
    """Threads are as many as read a row by 16 bytes each, and nothing is between two rows."""
    x = np.broadcast_to(np.float32(1), (64, 4096, 1024))
    (step,) = plan(lambda x: x.sum(axis=(0, 2)), x, machine=CUDA).steps
    assert step.kernel.team == 256
    lines = emit(step.kernel, CUDA.grid).splitlines()
    (loop,) = [n for n, line in enumerate(lines) if line.strip().startswith("for ")]
    (load,) = [n for n, line in enumerate(lines) if "read4(" in line]
    assert lines[loop].index("for") + 4 == len(lines[load]) - len(lines[load].lstrip())


@pytest.mark.dear
@pytest.mark.parametrize(
    "shape", [(4, 3, 1000), (5, 3, 1023), (3, 2, 4, 260), (2, 2, 64), (7, 1, 8)]
)
def test_sums_over_rows_of_rows(shape):
    x = drawn(shape)
    axes = (0, len(shape) - 1)
    for machine in (EAGER, CUDA):
        made = plan(lambda x: x.sum(axis=axes), x, machine=machine)
        for found in in_both_ways(made, [x], machine.grid):
            np.testing.assert_allclose(found[0], x.sum(axis=axes), rtol=1e-5)


LONG = (1 << 24, (1 << 24) + 1, (1 << 24) - 1, 10_000_000, 10_000_019)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", LONG)
def test_sums_of_any_length_read_16_bytes_at_once(count, dtype):
    x = np.broadcast_to(np.zeros((), dtype), (count,))
    made = plan(lambda x: np.any(x) if dtype == np.bool_ else x.max(), x, machine=CUDA)
    width = 16 // np.dtype(dtype).itemsize
    assert wide(made, CUDA)[f"read{width}"] == 1
    verify(made)


def test_a_team_that_shares_no_loop_has_no_strips():
    """Rows too large for a thread make a team, to which nothing is dealt."""
    tiny = {
        "warp": 4, "block": 8, "largest_team": 4, "largest_local": 0, "rows": 64,
        "largest_expanded": 0, "at_once": 1, "launch": 20, "threads": 4, "in_flight": 16,
    }  # fmt: skip
    machine = target(CUDA, grid=tiny)
    x = np.array([[3.0, 1.0], [1.0, 2.0]])
    made = plan(lambda x: np.linalg.norm(x, "nuc"), x, machine=machine)
    (found,) = programs.interpreted(made, [x])
    np.testing.assert_allclose(found, np.linalg.norm(x, "nuc"))
