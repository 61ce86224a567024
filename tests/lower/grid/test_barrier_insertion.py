"""Barriers are inserted where threads of a team would race, and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import (
    Await,
    Barrier,
    For,
    If,
    Kernel,
    Let,
    Store,
    While,
    buffer,
    load,
    local,
)
from functrans.loop.walk import walk
from functrans.lower.grid.barrier_insertion import with_barriers
from tests.loop.evaluate import Memory
from tests.loop.evaluate_grid import Fault, evaluate_grid

F8, BOOL = np.dtype(np.float64), np.dtype(bool)
TEAM, N = 4, 6
X, Y, Z = (buffer(name, F8, (N,)) for name in "xyz")
ROW = buffer("row", F8, (N,))


def number(value):
    return const(value, INDEX)


def dealt(target, source, shift=0):
    i = index("i", N)
    at = Scalar("irem", (Scalar("add", (i, number(shift)), INDEX), number(N)), INDEX)
    return For(i, ZERO, number(N), (Store(target, (i,), load(source, (at,))),), lanes=TEAM)


def steps(count, *body):
    return For(index("t", count), ZERO, number(count), body)


def barriers(kernel):
    return sum(isinstance(each, Barrier) for each in walk(kernel.body))


def first(target, source):
    return Store(target, (ZERO,), load(source, (ZERO,)))


def test_what_is_private_needs_no_barrier():
    body = (dealt(ROW, X), dealt(Y, ROW))
    for private, count in (((ROW,), 0), ((), 1)):
        kernel = Kernel((X, Y), 0, body, (ROW,), TEAM, private=private)
        assert barriers(with_barriers(kernel)) == count


def test_what_is_stored_late_is_written_where_it_is_waited_for():
    i = index("i", N)
    late = For(i, ZERO, number(N), (Store(ROW, (i,), load(X, (i,)), late=True),), lanes=TEAM)
    wait = For(index("i", N), ZERO, number(N), (Await(0),), lanes=TEAM)
    kernel = with_barriers(Kernel((X, Y), 0, (late, wait, dealt(Y, ROW, 1)), (ROW,), TEAM))
    assert [type(each) for each in kernel.body] == [For, Barrier, For, Barrier, For]
    read_and_wait = replace(wait, body=(*dealt(Y, ROW, 1).body, Await(0)))
    kernel = with_barriers(Kernel((X, Y), 0, (late, steps(2, read_and_wait)), (ROW,), TEAM))
    (loop,) = (each for each in kernel.body if isinstance(each, For) and each.lanes == 1)
    assert isinstance(loop.body[-1], Barrier)


more = Scalar("lt", (const(3.0, F8), load(ROW, (ZERO,))), BOOL)
less = Scalar("lt", (load(ROW, (ZERO,)), const(3.0, F8)), BOOL)
total = local(F8, "total")
asked = Scalar("convert", (load(ROW, (ZERO,)),), INDEX)


def minus_one():
    return Store(ROW, (ZERO,), const(-1.0, F8))


def dealt_until(bound):
    i = index("i", N)
    return For(i, ZERO, bound, (Store(ROW, (i,), const(-1.0, F8)),), lanes=TEAM)


PROGRAMS = {
    "a row that others read": ([dealt(ROW, X), dealt(Y, ROW, 1)], 1),
    "a row that is written again": (
        [dealt(ROW, X), dealt(Y, ROW, 1), dealt(ROW, X), dealt(Z, ROW)], 3,
    ),
    "nothing in common": ([dealt(Y, X), dealt(Z, X)], 0),
    "the first thread's own": ([first(Y, X), Store(Y, (ZERO,), load(Y, (ZERO,)), op="add")], 0),
    "the first thread, for all": ([first(ROW, X), Let((total,), (load(ROW, (ZERO,)),))], 1),
    "read before the first one writes": ([Let((total,), (load(X, (ZERO,)),)), first(X, Y)], 1),
    "a loop around": ([dealt(Y, X), steps(3, dealt(Z, Y, 1), dealt(Y, Z, 2))], 3),
    "a loop that shares nothing": ([steps(3, dealt(Z, X), )], 1),
    "a condition on what was written": (
        [dealt(ROW, X), If(less, (dealt(Y, X),), (dealt(Y, ROW, 1),))], 1,
    ),
    "a loop until": (
        [dealt(ROW, X), While((Let((total,), (load(ROW, (ZERO,)),)),), less, (dealt(ROW, Y),))], 3,
    ),
    "a condition on what the first thread writes": ([first(ROW, X), If(less, (minus_one(),))], 2),
    "a condition on what it writes otherwise": (
        [first(ROW, X), If(more, (first(Y, X),), (minus_one(),))], 2,
    ),
    "a condition on what all write": ([first(ROW, X), If(less, (dealt(ROW, Y),))], 2),
    "a bound that the loop's body writes": (
        [first(ROW, X), For(index("t", 1), ZERO, asked, (minus_one(),))], 3,
    ),
    "a bound that iterations of all threads write": (
        [first(ROW, X), dealt_until(asked)], 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_where_barriers_stand(name):
    body, count = PROGRAMS[name]
    kernel = with_barriers(Kernel((X, Y, Z), 0, tuple(body), (ROW,), TEAM))
    assert barriers(kernel) == count


def memory(values):
    return [Memory(np.full(N, value), True) for value in values]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(4))
def test_nothing_races_and_without_them_something_does(name, seed):
    body, count = PROGRAMS[name]
    kernel = Kernel((X, Y, Z), 0, tuple(body), (ROW,), TEAM)
    order = np.random.default_rng(seed).permutation
    evaluate_grid(with_barriers(kernel), memory((1.0, 5.0, 2.0)), (), order)
    if count and name != "a loop that shares nothing":
        with pytest.raises(Fault):
            evaluate_grid(kernel, memory((1.0, 5.0, 2.0)), (), order)


def test_threads_of_their_own_have_none():
    i = index("i", N)
    body = (
        For(i, ZERO, number(N), (first(ROW, X), Store(Y, (i,), load(ROW, (ZERO,)))), parallel=True),
    )
    kernel = Kernel((X, Y), 0, body, (ROW,), 1)
    assert with_barriers(kernel) is kernel
