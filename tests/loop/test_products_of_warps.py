"""Warp-level matrix products: semantics and verification."""

import numpy as np
import pytest

from functrans.loop.access import Scenario
from functrans.loop.collect import Accesses
from functrans.loop.domain import Fault
from functrans.loop.footprints import footprint
from functrans.loop.fragments import own_columns, own_rows, own_sums
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.operations import operations_of
from functrans.loop.scalar import const, idiv, irem
from functrans.loop.statements import (
    Address,
    Barrier,
    For,
    If,
    Kernel,
    MatrixMultiply,
    Panel,
    Store,
    buffer,
    load,
)
from functrans.loop.text import text
from functrans.loop.verify import verify
from functrans.loop.walk import loaded, stored
from tests.loop.evaluate import Memory
from tests.loop.evaluate_grid import evaluate_grid

TEAM = 64
X, Y = buffer("x", np.float32, (16, 8)), buffer("y", np.float32, (16, 8))
OUT = buffer("out", np.float32, (TEAM, 8))
LEFT, RIGHT = buffer("left", np.float32, (16, 8)), buffer("right", np.float32, (8, 16))
SUMS = buffer("sums", np.float32, (TEAM, 8))
BARRIER = Barrier()


def number(value):
    return const(value, INDEX)


def dealt(make, count=TEAM):
    thread = index("thread", count)
    return For(thread, ZERO, number(count), tuple(make(thread)), lanes=TEAM)


def started(thread):
    """Each thread puts two numbers of both operands, and sums of nothing, in their places."""
    for each in range(2):
        at = thread + TEAM * each
        row, term = idiv(at, number(8)), irem(at, number(8))
        yield Store(LEFT, (row, term), load(X, (row, term)))
        yield Store(RIGHT, (term, row), load(Y, (row, term)))
    for each in range(8):
        yield Store(SUMS, (thread, number(each)), const(0, np.float32))


def product(thread, left=ZERO, right=ZERO):
    return MatrixMultiply(
        Address(SUMS, (thread, ZERO)),
        Panel(Address(LEFT, (left, ZERO)), 16, 8, 1),
        Panel(Address(RIGHT, (ZERO, right)), 16, 1, 16),
    )


def stored_sums(thread):
    for each in range(8):
        yield Store(OUT, (thread, number(each)), load(SUMS, (thread, number(each))))


def kernel(make=lambda thread: [product(thread)], between=(BARRIER,), count=TEAM):
    body = (dealt(started), *between, dealt(make, count), dealt(stored_sums))
    return Kernel((X, Y, OUT), 0, body, (LEFT, RIGHT, SUMS), TEAM, private=(SUMS,))


def run(given, x, y, order=range):
    memory = [Memory(x, True), Memory(y, True), Memory(np.zeros((TEAM, 8), np.float32), False)]
    assert evaluate_grid(given, memory, (), order) == 0
    return memory[2].array


def verified(given):
    accesses = Accesses(given, (X, Y, OUT), (), footprint, Scenario(None, (True,)))
    full, empty = np.ones(128, bool), np.zeros(TEAM * 8, bool)
    assert verify(accesses, {X: full, Y: full, OUT: empty})[OUT].all()


RNG = np.random.default_rng(0)
A, B = RNG.integers(-9, 9, (2, 16, 8)).astype(np.float32)


def test_each_thread_has_its_sums():
    verified(kernel())
    found = run(kernel(), A, B, np.random.default_rng(1).permutation)
    expected = A @ B.T
    for thread in range(TEAM):
        rows, columns = own_rows(thread % 32 // 4, 16), own_columns(thread % 4, 16)
        for each, (row, column) in zip(found[thread], own_sums(16, 16), strict=True):
            assert each == expected[rows[row], columns[column]]


def test_a_race_for_the_operands():
    with pytest.raises(Fault, match=r"before it is written|without a barrier"):
        run(kernel(between=()), A, B, np.random.default_rng(1).permutation)


WRONG = {
    "some threads of a warp": (
        lambda thread: [If(thread < 40, (product(thread),))], TEAM, "same product of matrices",
    ),
    "of different places": (
        lambda thread: [product(thread, right=irem(thread, number(2)))], TEAM,
        "same product of matrices|outside of right",
    ),
    "half a warp": (lambda thread: [product(thread)], 48, "same product|whole warps"),
    "past the end": (
        lambda thread: [product(thread, left=number(1))], TEAM, "outside of left",
    ),
    "sums of another thread": (
        lambda thread: [product(TEAM - 1 - thread)], TEAM, "of thread|of another one",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_found_out(name):
    make, count, message = WRONG[name]
    given = kernel(make, count=count)
    with pytest.raises(Fault, match=message):
        verified(given)
    with pytest.raises(Fault, match=message):
        run(given, A, B)


def test_warps_may_do_different_products():
    given = kernel(lambda thread: [If(thread < 32, (product(thread),), ())])
    verified(given)
    found = run(given, A, B)
    assert found[:32].any()
    assert not found[32:].any()


def test_only_whole_warps_of_a_team():
    thread = index("thread", 4)
    sums = buffer("sums", np.float32, (4, 8))
    statement = MatrixMultiply(
        Address(sums, (thread, ZERO)), *(product(thread).left, product(thread).right)
    )
    body = (For(thread, ZERO, number(4), (statement,), lanes=4),)
    given = Kernel((), 0, body, (LEFT, RIGHT, sums), 4, private=(sums,))
    with pytest.raises(Fault, match="whole warps of a team"):
        Accesses(given, (), (), footprint, Scenario(None, (True,)))


def test_bits_that_nobody_looks_at():
    with pytest.raises(Fault, match="do not look at the last bits of left"):
        run(kernel(), A + np.float32(1e-6), B)


def test_what_is_read_and_written_and_how_it_looks():
    statement = product(index("thread", TEAM))
    assert loaded([statement]) == {LEFT, RIGHT, SUMS}
    assert stored([statement]) == {SUMS}
    assert (
        "&sums[thread, 0] += (&left[0, 0]: 16 rows by 8, 1) @ (&right[0, 0]: 16 rows by 1, 16).T"
        in text(kernel()).replace("thread1", "thread")
    )


def test_all_threads_together_do_the_operations_of_the_product():
    # of two warps, each of which does all of it
    loop = dealt(lambda thread: [product(thread)])
    assert operations_of([loop]) == 2 * (2 * 16 * 16 * 8)
