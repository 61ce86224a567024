"""Rows kept in the registers of a team: read once, without barriers."""

import re

import numpy as np
import pytest

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
from functrans.lower.grid.barrier_insertion import with_barriers
from functrans.lower.grid.register_rows import with_register_rows
from functrans.lower.grid.target import CUDA
from functrans.lower.plan import Plan, Step
from functrans.lower.verify import verify
from tests.emit.cuda.programs import emulated, interpreted, plan
from tests.loop.evaluate import Memory
from tests.loop.evaluate_grid import evaluate_grid


def softmax(x):
    y = np.exp(x - x.max(axis=-1, keepdims=True))
    return y / y.sum(axis=-1, keepdims=True)


def normed(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


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
