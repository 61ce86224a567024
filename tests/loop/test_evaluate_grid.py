"""Semantics of kernels for a grid: races and divergent barriers are faults."""

import numpy as np
import pytest

from functrans.loop.domain import Fault
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, eq
from functrans.loop.statements import (
    Assign,
    Await,
    Barrier,
    For,
    If,
    Kernel,
    Let,
    Reduce,
    Store,
    While,
    buffer,
    load,
    local,
)
from tests.loop.evaluate import Memory
from tests.loop.evaluate_grid import evaluate_grid

F8 = np.dtype(np.float64)
BARRIER = Barrier()
TEAM, COUNT = 4, 6
X, Y, ROW = buffer("x", F8, (COUNT,)), buffer("y", F8, (COUNT,)), buffer("row", F8, (COUNT,))


def number(value):
    return const(value, INDEX)


def dealt(make, lanes=TEAM):
    """A loop whose iterations are the threads' of a team."""
    i = index("i", COUNT)
    return For(i, ZERO, number(COUNT), tuple(make(i)), lanes=lanes)


def shuffled(seed):
    return np.random.default_rng(seed).permutation


def run(*body, team=TEAM, order=range, x=None, scratch=(ROW,)):
    given = np.arange(COUNT, dtype=F8) if x is None else x
    memory = [Memory(given, True), Memory(np.zeros(COUNT), False)]
    status = evaluate_grid(Kernel((X, Y), 0, body, scratch, team), memory, (), order)
    return memory[1].array, status


def reversed_by_way_of(row, *between):
    """Each element is put into a row, and read there at the other end."""

    def other_end(i):
        return Scalar("sub", (number(COUNT - 1), i), INDEX)

    return (
        dealt(lambda i: [Store(row, (i,), load(X, (i,)))]),
        *between,
        dealt(lambda i: [Store(Y, (i,), load(row, (other_end(i),)))]),
    )


@pytest.mark.parametrize("seed", range(3))
def test_threads_see_what_others_wrote_before_a_barrier(seed):
    found, _ = run(*reversed_by_way_of(ROW, BARRIER), order=shuffled(seed))
    np.testing.assert_array_equal(found, np.arange(COUNT)[::-1])


@pytest.mark.parametrize("seed", range(3))
def test_a_race_is_found_in_any_order(seed):
    with pytest.raises(Fault, match=r"meet at row.* without a barrier|read before it is written"):
        run(*reversed_by_way_of(ROW), order=shuffled(seed))


def test_memory_of_the_device_is_raced_for_as_well():
    with pytest.raises(Fault, match=r"threads 0 and 1 of a team meet at y\[0\]"):
        run(dealt(lambda i: [Store(Y, (ZERO,), load(X, (i,)))]))


def test_a_team_has_its_rows_to_itself():
    row = index("team", 3)
    body = (Store(Y, (row,), load(ROW, (ZERO,))),)
    with pytest.raises(Fault, match=r"row\[0\] is read before it is written"):
        first = If(
            Scalar("eq", (row, ZERO), np.dtype(bool)), (Store(ROW, (ZERO,), load(X, (ZERO,))),)
        )
        run(For(row, ZERO, number(3), (first, BARRIER, *body), parallel=True))


OWN = buffer("own", F8, (TEAM, 2))


def of_threads(make):
    i = index("i", TEAM)
    return For(i, ZERO, number(TEAM), tuple(make(i)), lanes=TEAM)


def run_private(*body, order=range):
    memory = [Memory(np.arange(COUNT, dtype=F8), True), Memory(np.zeros(COUNT), False)]
    kernel = Kernel((X, Y), 0, body, (OWN,), TEAM, private=(OWN,))
    return evaluate_grid(kernel, memory, (), order), memory[1].array


@pytest.mark.parametrize("seed", range(3))
def test_what_is_private_stays_from_loop_to_loop_without_a_barrier(seed):
    status, found = run_private(
        of_threads(lambda i: [Store(OWN, (i, ZERO), load(X, (i,)))]),
        of_threads(lambda i: [Store(OWN, (i, ZERO), load(X, (i,)), "add")]),
        of_threads(lambda i: [Store(Y, (i,), load(OWN, (i, ZERO)))]),
        order=shuffled(seed),
    )
    assert status == 0
    np.testing.assert_array_equal(found[:TEAM], 2 * np.arange(TEAM))


def test_what_is_private_is_nobody_elses():
    with pytest.raises(Fault, match="of a team touches own of thread 0"):
        run_private(of_threads(lambda i: [Store(OWN, (ZERO, ZERO), load(X, (i,)))]))


def late(*between, behind=0):
    """Each thread stores two elements late, and reads them."""

    def body(i):
        return [
            Store(ROW, (i,), load(X, (i,)), late=True),
            *between,
            Await(behind),
            Store(Y, (i,), load(ROW, (i,))),
        ]

    return dealt(body)


def test_late_stores_are_done_once_they_are_waited_for():
    found, _ = run(late(), order=shuffled(0))
    np.testing.assert_array_equal(found, np.arange(COUNT))
    found, _ = run(late(Await(1), behind=1), order=shuffled(0))
    np.testing.assert_array_equal(found, np.arange(COUNT))
    with pytest.raises(Fault, match="before it is written"):
        run(late(behind=1))


def test_late_stores_are_of_the_thread_that_waits():
    here = [dealt(lambda i: [Store(ROW, (i,), load(X, (i,)), late=True)]), BARRIER]
    with pytest.raises(Fault, match="before it is written"):
        run(*here, dealt(lambda i: [Store(Y, (i,), load(ROW, (i,)))]))
    here.insert(1, dealt(lambda i: [Await(0)]))
    found, _ = run(*here, dealt(lambda i: [Store(Y, (i,), load(ROW, (i,)))]))
    np.testing.assert_array_equal(found, np.arange(COUNT))


def test_sums_are_combined_by_halves():
    """The order of a sum is part of its meaning."""
    values = np.array([1e16, 1.0, 3.0, -1e16, 5.0, 2.0])
    i, total = index("i", COUNT), local(F8, "s")
    fold = Reduce((total,), ("add",), (load(X, (i,)),), ((i, ZERO, number(COUNT)),), lanes=TEAM)
    found, _ = run(fold, dealt(lambda i: [Store(Y, (i,), total)]), x=values)
    own = [1e16 + 5.0, 1.0 + 2.0, 3.0, -1e16]
    assert set(found) == {(own[0] + own[2]) + (own[1] + own[3])}


def test_only_the_first_thread_stores():
    counted, _ = run(Store(Y, (ZERO,), load(X, (number(2),))), BARRIER,
                     Store(Y, (ZERO,), load(X, (number(3),)), op="add"))  # fmt: skip
    assert counted[0] == 5


def test_threads_that_part_at_a_barrier():
    i, odd = index("i", COUNT), local(F8, "odd")
    loop = For(i, ZERO, number(1), (Assign((odd,), (load(X, (ZERO,)),)),))
    choice = If(Scalar("lt", (odd, const(1.0, F8)), np.dtype(bool)), (BARRIER,))
    run(Let((odd,), (const(0.0, F8),)), loop, choice)  # all alike
    here = Barrier()
    unlike = dealt(lambda i: [Store(Y, (i,), load(X, (i,)))])
    asked = If(Scalar("lt", (load(Y, (ZERO,)), const(1.0, F8)), np.dtype(bool)), (here,))
    with pytest.raises(Fault, match="without a barrier"):
        run(unlike, asked)


def test_a_loop_ends_for_all_once_one_has_failed():
    never = const(True, np.dtype(bool))
    far = Scalar("checked", (number(COUNT + 1), number(COUNT)), INDEX)
    body = dealt(lambda i: [Store(Y, (i,), load(X, (far,)))])
    _, status = run(While((), never, (body, BARRIER)), order=shuffled(0))
    assert status


def test_a_thread_for_each_iteration():
    i = index("i", COUNT)
    double = Scalar("add", (load(X, (i,)), load(X, (i,))), F8)
    loop = For(i, ZERO, number(COUNT), (Store(Y, (i,), double),), parallel=True)
    found, _ = run(loop, team=1, order=shuffled(1), scratch=())
    np.testing.assert_array_equal(found, 2 * np.arange(COUNT))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("row", [Y, ROW])
def test_threads_may_meet_in_atomic_stores_that_do_the_same(row, seed):
    start = [dealt(lambda i: [Store(row, (i,), const(0.0, F8))]), BARRIER]
    adds = dealt(lambda i: [Store(row, (ZERO,), load(X, (i,)), "add", atomic=True)])
    copy = [BARRIER, dealt(lambda i: [Store(Y, (i,), load(row, (i,)))])] if row is ROW else []
    found, _ = run(*start, adds, *copy, order=shuffled(seed))
    np.testing.assert_array_equal(found, [np.arange(COUNT).sum(), 0, 0, 0, 0, 0])


def test_of_atomic_stores_without_an_operation_any_is_the_last():
    store = dealt(lambda i: [Store(Y, (ZERO,), load(X, (i,)), atomic=True)])
    assert len({float(run(store, order=shuffled(seed))[0][0]) for seed in range(10)}) > 1


@pytest.mark.parametrize(
    "other",
    [
        Store(Y, (ZERO,), const(2.0, F8), "max", atomic=True),
        Store(Y, (ZERO,), const(2.0, F8), "add"),
        Store(Y, (ZERO,), const(2.0, F8)),
        Store(ROW, (ZERO,), load(Y, (ZERO,))),
    ],
)
def test_an_atomic_store_and_anything_else_are_a_race(other):
    start = [dealt(lambda i: [Store(Y, (i,), const(0.0, F8))]), BARRIER]
    add = Store(Y, (ZERO,), const(1.0, F8), "add", atomic=True)
    with pytest.raises(Fault, match=r"meet at y\[0\] without a barrier"):
        run(*start, dealt(lambda i: [If(eq(i, ZERO), (add,), (other,))]))
