"""Rows kept in the registers of a team: read once, without barriers."""

import re

import ml_dtypes
import numpy as np
import pytest

from functrans import grad, jit
from functrans.emit.cuda.kernel import emit
from functrans.errors import PlanError
from functrans.loop.domain import Fault
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import (
    Barrier,
    For,
    Kernel,
    Let,
    Reduce,
    Store,
    buffer,
    load,
    local,
)
from functrans.loop.walk import walk
from functrans.lower import pipeline
from functrans.lower.grid.barrier_insertion import with_barriers
from functrans.lower.grid.launch import launch
from functrans.lower.grid.register_rows import with_register_rows
from functrans.lower.grid.target import CUDA
from functrans.lower.plan import Plan, Step
from functrans.lower.verify import verify
from tests.emit.cuda.programs import emulated, interpreted, machine_code, normed, plan, softmax
from tests.loop.evaluate import Memory
from tests.loop.evaluate_grid import evaluate_grid
from tests.targets import target


def drawn(*shape):
    return np.random.default_rng(0).random(shape, np.float32)


@pytest.mark.parametrize("function", [softmax, normed])
@pytest.mark.parametrize("columns", [33, 128, 1000, 4096])
def test_a_row_is_read_once(function, columns):
    (step,) = plan(function, drawn(500, columns)).steps
    kernel = step.kernel
    assert kernel.scratch == kernel.dealt != ()
    assert not any(isinstance(each, Barrier) for each in walk(kernel.body))
    source = emit(kernel, CUDA.grid)
    reads = sum(int(n or 1) for n in re.findall(r"read(\d*)\(in0", source))
    rounds = -(-columns // kernel.team)
    assert rounds <= reads < rounds + 4


@pytest.mark.few(1)
@pytest.mark.parametrize("function", [softmax, normed])
@pytest.mark.parametrize("columns", [31, 33, 64, 257, 1025])
def test_rows_of_all_lengths(function, columns):
    x = drawn(3, columns)
    made = plan(function, x)
    found = emulated(made, [x])
    np.testing.assert_allclose(found[0], function(x), rtol=1e-5, atol=1e-6)
    if columns < 64:
        np.testing.assert_allclose(interpreted(made, [x])[0], found[0], rtol=1e-6)


@pytest.mark.dear
@pytest.mark.parametrize("columns", [70, 72])
def test_rows_of_bfloat16(columns):
    def rounded(x):
        return softmax(x.astype(np.float32)).astype(x.dtype)

    x = drawn(17, columns).astype(ml_dtypes.bfloat16)
    for machine in (CUDA, LONG):
        made = plan(rounded, x, machine=machine)
        assert made.steps[0].kernel.dealt
        np.testing.assert_allclose(
            emulated(made, [x])[0].astype(np.float32), rounded(x).astype(np.float32), rtol=1e-2
        )
    machine_code(made.steps[0].kernel)


@pytest.mark.full
def test_a_row_too_long_for_registers_is_one_kernel_all_the_same():
    made = plan(softmax, drawn(64, 70_000))
    (step,) = made.steps
    assert (step.kernel.team, step.kernel.dealt) == (1024, ())
    verify(made)


def test_few_long_rows_are_a_block_each():
    (step,) = plan(lambda x: x.sum(axis=1), drawn(5, 40_000)).steps
    assert (step.kernel.team, step.extent) == (1024, 5)


TEAM, N = 4, 6
F8 = np.dtype(np.float64)
X, Y = buffer("x", F8, (N,)), buffer("y", F8, (N,))
ROW = buffer("row", F8, (N,))


def dealt(target, source, shift=0, rounds=2):
    i = index("i", N)
    n = const(N, INDEX)
    at = Scalar("irem", (Scalar("add", (i, const(shift, INDEX)), INDEX), n), INDEX)
    body = (Store(target, (i,), load(source, (at if shift else i,))),)
    return For(i, ZERO, n, body, lanes=TEAM, rounds=rounds)


def checks(kernel):
    """What is said about a kernel: by the interpreter, and by the verifier."""
    memory = [Memory(np.ones(N), True), Memory(np.ones(N), True)]
    yield lambda: evaluate_grid(kernel, memory, (), np.random.default_rng(0).permutation)
    made = Plan((X,), (Y,), (Step(kernel, (X, Y), (), 0, 0),), {}, 0)
    yield lambda: verify(made)


def test_a_private_row_needs_no_barrier():
    kernel = Kernel((X, Y), 0, (dealt(ROW, X), dealt(Y, ROW)), (ROW,), TEAM, dealt=(ROW,))
    for check in checks(kernel):
        check()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([dealt(ROW, X), Barrier(), dealt(Y, ROW, 1)], "private"),
        ([dealt(ROW, X), Barrier(), Let((local(F8),), (load(ROW, (ZERO,)),))], "private"),
        ([dealt(ROW, X, rounds=3), dealt(Y, ROW)], "not 3 rounds"),
        ([dealt(ROW, X, rounds=1), dealt(Y, ROW)], "not 1 rounds"),
    ],
)
def test_broken_promises_are_found(body, words):
    kernel = Kernel((X, Y), 0, tuple(body), (ROW,), TEAM, dealt=(ROW,))
    for check in checks(kernel):
        with pytest.raises((Fault, PlanError), match=words):
            check()


def test_what_an_index_on_the_way_says_is_not_read_before():
    """Two loops read a table at places that the kernel itself stores."""
    n = 64
    given, table, places, first, second = (
        buffer(name, dtype, (n,))
        for name, dtype in zip("xtpyz", (np.int64, F8, np.int64, F8, F8), strict=True)
    )

    def loop(*stores):
        i = index("i", n)
        body = tuple(Store(target, (i,), value(i)) for target, value in stores)
        return For(i, ZERO, const(n, INDEX), body, lanes=TEAM)

    def read(i):
        return load(table, (load(places, (i,)),))

    buffers = (given, table, places, first, second)
    body = (
        loop((places, lambda i: load(given, (i,))), (first, read)),
        loop((second, lambda i: read(i) * 2.0)),
    )
    step = Step(Kernel(buffers, 0, body, team=TEAM), buffers, (), 0, 0)
    kernel = with_barriers(with_register_rows(step, CUDA.grid).kernel)
    values = np.random.default_rng(0)
    where, numbers = values.permutation(n), values.random(n)
    made = [np.zeros(n, np.int64), np.zeros(n), np.zeros(n)]
    memory = [Memory(where, True), Memory(numbers, True), *(Memory(x, False) for x in made)]
    evaluate_grid(kernel, memory, (), values.permutation)
    np.testing.assert_array_equal(made[1], numbers[where])
    np.testing.assert_array_equal(made[2], 2 * numbers[where])


def test_sums_across_a_team_combine_neighbours_first():
    k = index("k", TEAM)
    values = np.array([1e16, 1.0, -1e16, 1.0])
    total = local(F8)
    x, y = buffer("x", F8, (TEAM,)), buffer("y", F8, (1,))
    terms = Reduce((total,), ("add",), (load(x, (k,)),), ((k, ZERO, const(TEAM, INDEX)),), (), TEAM)
    memory = [Memory(values, True), Memory(np.zeros(1), False)]
    evaluate_grid(Kernel((x, y), 0, (terms, Store(y, (ZERO,), total)), (), TEAM), memory, ())
    assert memory[1].array[0] == (values[0] + values[1]) + (values[2] + values[3])


# -- rows in shared memory -------------------------------------------------------------------------

LONG = target(CUDA, grid={"row_registers": 0, "rows": 64})
"""A GPU whose threads have no registers for rows, and whose teams keep rows of 17 numbers in
shared memory only as long rows."""


def log_softmax(x):
    y = x - x.max(axis=-1, keepdims=True)
    return y - np.log(np.exp(y).sum(axis=-1, keepdims=True))


def log_sum_exp(x):
    m = x.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - m).sum(axis=-1)) + m[:, 0]


def loaded_in(source, name="in0"):
    """How often an array is read in the text of a kernel: by loads, and by copies."""
    loads = re.findall(rf"(?:read|load)\d*\({name}", source)
    return len(loads), len(re.findall(rf"copy\d*\(\w+, [^,]+, {name}", source))


@pytest.mark.parametrize(
    ("function", "row"),
    [(softmax, "t1_row"), (normed, "in0_row"), (log_softmax, "in0_row"), (log_sum_exp, "in0_row")],
)
def test_a_long_row_is_copied_to_shared_memory_once(function, row):
    x = np.broadcast_to(np.float32(1), (2048, 50_257))
    (step,) = plan(function, x).steps
    kernel = step.kernel
    assert [one.name for one in kernel.scratch] == [row]
    assert kernel.long == kernel.dealt == kernel.scratch
    assert not any(isinstance(each, Barrier) for each in walk(kernel.body))
    rounds = -(-50_257 // kernel.team)
    assert loaded_in(emit(kernel, CUDA.grid)) == (0, rounds)
    assert launch(kernel, CUDA.grid).shared == 201_040


@pytest.mark.parametrize(
    ("columns", "dtype", "copy"),
    [
        (50_257, np.float32, "copy4"), (50_258, np.float32, "copy8"), (50_304, np.float32, "copy"),
        (20_001, np.float64, "copy8"), (50_258, np.float16, "copy4"), (50_260, np.float16, "copy8"),
    ],
)  # fmt: skip
def test_copies_are_as_wide_as_rows_are_aligned(columns, dtype, copy):
    (step,) = plan(softmax, np.broadcast_to(dtype(1), (500, columns))).steps
    assert f"    {copy}(t1_row" in emit(step.kernel, CUDA.grid)


def test_elements_that_cannot_be_copied_are_loaded_once_with_several_loads_in_flight():
    (step,) = plan(softmax, np.broadcast_to(np.float16(1), (2048, 50_257))).steps
    assert loaded_in(emit(step.kernel, CUDA.grid)) == (-(-50_257 // 1024), 0)


@pytest.mark.parametrize(
    ("room", "columns", "is_long"),
    [(215 << 10, 55_040, True), (215 << 10, 55_041, False), (163 << 10, 50_257, False)],
)
def test_only_rows_that_fit_are_in_shared_memory(room, columns, is_long):
    made = plan(
        softmax, np.broadcast_to(np.float32(1), (500, columns)),
        machine=target(CUDA, grid={"largest_shared": room + CUDA.grid.slices}),
    )  # fmt: skip
    (step,) = made.steps
    assert bool(step.kernel.long) == is_long
    assert not made.offsets


def test_rows_that_are_gathered_are_computed_again():
    x, i = np.broadcast_to(np.float32(1), (500, 12_000)), np.zeros(40, int)
    made = plan(lambda x, i: softmax(x)[:, i], x, i)
    assert len(made.steps) == 1
    assert not made.offsets


@pytest.mark.parametrize("columns", [10_000, 20_000, 50_257])
def test_long_rows_that_cannot_be_dealt_are_in_memory(columns):
    def reversed_(x):
        y = np.sin(np.exp(np.sin(x)))
        return y[:, ::-1] / y.sum(axis=1, keepdims=True)

    (step,) = plan(reversed_, np.broadcast_to(np.float32(1), (8192, columns))).steps
    assert not step.kernel.scratch
    assert (step.kernel.team, step.extent) == (1024, 8192)


def test_rows_are_in_registers_if_two_blocks_are_resident_then():
    made = [plan(softmax, np.broadcast_to(np.float32(1), (500, n))) for n in (16_384, 16_385)]
    (short,), (long,) = (each.steps for each in made)
    assert short.kernel.dealt != () == short.kernel.long
    assert long.kernel.long != ()


def test_two_rows_are_in_registers_and_in_shared_memory():
    """Those of a gradient, of which shared memory holds one, and registers the other."""

    def gradient(y, g):
        return y * (g - (y * g).sum(axis=-1, keepdims=True))

    (step,) = plan(gradient, *[np.broadcast_to(np.float32(1), (500, 30_000))] * 2).steps
    assert [one.name for one in step.kernel.dealt] == ["in1_row", "in0_row"]
    assert [one.name for one in step.kernel.long] == ["in0_row"]


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("function", [softmax, normed, log_softmax, log_sum_exp])
@pytest.mark.parametrize("columns", [33, 64, 300])
def test_long_rows_of_all_lengths(function, columns, dtype):
    x = drawn(17, columns).astype(dtype)
    made = plan(function, x, machine=LONG)
    assert any(step.kernel.long for step in made.steps)
    found = emulated(made, [x])
    rough = {"rtol": 3e-2, "atol": 1e-2} if dtype == np.float16 else {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(found[0], function(np.asarray(x, float)), **rough)
    if columns < 65:
        np.testing.assert_array_equal(interpreted(made, [x])[0], found[0])


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("columns", [33, 300])
@pytest.mark.parametrize(
    "function",
    [
        grad(lambda x, y: np.sum(softmax(x) * y), argnums=(0, 1)),
        grad(lambda x, y: np.sum(normed(x) * y), argnums=(0, 1)),
        lambda x, y: (softmax(x) * y, softmax(x + y), x - y.mean(axis=-1, keepdims=True)),
        # elements are loaded once more after the row has been overwritten
        lambda x, y: softmax(x) * x,
        # and in the loop that overwrites it
        lambda x, y: (softmax(x), x + x.max(axis=-1, keepdims=True)),
    ],
)
def test_several_long_rows(function, columns):
    x, y = drawn(17, columns), drawn(17, columns)[::-1].copy()
    made = plan(function, x, y, machine=LONG)
    assert any(step.kernel.long for step in made.steps)
    expected = function(x.astype(float), y.astype(float))
    expected = expected if isinstance(expected, tuple) else (expected,)
    for run in (interpreted, emulated) if columns < 65 else (emulated,):
        for mine, right in zip(run(made, [x, y]), expected, strict=True):
            np.testing.assert_allclose(mine, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("columns", [33, 300])
def test_a_long_row_over_two_axes(columns):
    def centred(x):
        y = x - x.mean(axis=(1, 2), keepdims=True)
        return y / (y * y).sum(axis=(1, 2), keepdims=True)

    x = drawn(3, 3, columns)
    made = plan(centred, x, machine=LONG)
    assert any(step.kernel.long for step in made.steps)
    np.testing.assert_allclose(emulated(made, [x])[0], centred(x), rtol=1e-4, atol=1e-5)


def test_long_rows_in_the_place_of_the_operand():
    x = drawn(3, 301)
    made = pipeline.plan(jit(softmax).lower(x).graph(), LONG, donated=(0,))
    verify(made)
    np.testing.assert_allclose(emulated(made, [x])[0], softmax(x), rtol=1e-5)
