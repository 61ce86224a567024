"""The verifier finds every kind of violation, in kernels written by hand."""

import numpy as np
import pytest

from functrans.loop.access import Scenario
from functrans.loop.collect import Accesses
from functrans.loop.decisions import Decisions
from functrans.loop.domain import Fault, TooLarge
from functrans.loop.footprints import footprint
from functrans.loop.nodes import INDEX, bounded, guard, index
from functrans.loop.scalar import const, convert, eq, irem, where
from functrans.loop.statements import (
    Address,
    Assign,
    Call,
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
    size,
)
from functrans.loop.verify import verify

F8 = np.dtype(np.float64)
ZERO, ONE = const(0, INDEX), const(1, INDEX)
DEFAULT = Scenario(None, (True,))


def run(body, buffers, written=(), scratch=(), sizes=(), scenario=DEFAULT):
    """Verify a kernel; gives the names of the buffers that are wholly written after it."""
    kernel = Kernel(tuple(buffers), len(sizes), tuple(body), tuple(scratch))
    accesses = Accesses(kernel, buffers, sizes, footprint, scenario)
    shapes = {one: [int(n.attribute) for n in one.shape] for one in buffers}
    before = {one: np.full(np.prod(shapes[one], dtype=int), one in written) for one in buffers}
    after = verify(accesses, before)
    return {one.name for one in buffers if after[one].all()}


def loop(i, body, n=None, **marks):
    stop = const(i.attribute[2] if n is None else n, INDEX)
    return For(i, ZERO, stop, tuple(body), **marks)


X, Y, Z = (buffer(name, F8, (10,)) for name in "xyz")
ROW = buffer("row", F8, (10,))
K, J = index("i", 10), index("j", 10)


TEAM = 10
OWN = buffer("own", F8, (TEAM, 2))


def run_team(*body):
    kernel = Kernel((X, Y), 0, body, (OWN,), TEAM, private=(OWN,))
    accesses = Accesses(kernel, (X, Y), (), footprint, DEFAULT)
    verify(accesses, {X: np.ones(10, bool), Y: np.zeros(10, bool)})


def dealt(i, *body, **marks):
    return loop(i, body, lanes=TEAM, **marks)


def test_what_is_private_to_threads():
    own = Store(OWN, (K, ZERO), load(X, (K,)))
    run_team(dealt(K, own), dealt(J, Store(Y, (J,), load(OWN, (J, ZERO)))))
    reads_another = Store(Y, (J,), load(OWN, (TEAM - 1 - J, ZERO)))
    with pytest.raises(Fault, match="a thread touches own of another one"):
        run_team(dealt(K, own), dealt(J, reads_another))
    with pytest.raises(Fault, match="a thread touches own of another one"):
        run_team(loop(K, [own]))
    with pytest.raises(Fault, match=r"own\[0, 1\] is read before it is written"):
        run_team(dealt(K, own), dealt(J, Store(Y, (J,), load(OWN, (J, ONE)))))


def test_a_loop_that_copies():
    assert run([loop(K, [Store(Y, (K,), load(X, (K,)))])], [X, Y], [X]) == {"x", "y"}


def test_what_nobody_has_written():
    with pytest.raises(Fault, match=r"x\[0\] is read before it is written"):
        run([loop(K, [Store(Y, (K,), load(X, (K,)))])], [X, Y])


def test_what_was_written_in_part():
    first = loop(K, [Store(Y, (K,), load(X, (K,)))], n=9)
    with pytest.raises(Fault, match=r"y\[9\] is read before it is written"):
        run([first, loop(J, [Store(Z, (J,), load(Y, (J,)))])], [X, Y, Z], [X])
    assert run([first], [X, Y], [X]) == {"x"}


def test_the_order_of_statements():
    make = loop(K, [Store(Y, (K,), load(X, (K,)))])
    use = loop(J, [Store(Z, (J,), load(Y, (J,)))])
    assert "z" in run([make, use], [X, Y, Z], [X])
    with pytest.raises(Fault, match="y"):
        run([use, make], [X, Y, Z], [X])


def test_the_iteration_before_has_been():
    step = Store(Y, (K + 1,), load(Y, (K,)) + 1)
    assert "y" in run([Store(Y, (ZERO,), const(0, F8)), loop(K, [step], n=9)], [Y])
    back = Store(Y, (K,), load(Y, (K + 1,)) + 1)
    with pytest.raises(Fault, match=r"y\[1\] is read before"):
        run([Store(Y, (ZERO,), const(0, F8)), loop(K, [back], n=9)], [Y])


def test_an_update_reads_what_is_there():
    with pytest.raises(Fault, match="y"):
        run([loop(K, [Store(Y, (K,), const(1, F8), "add")])], [Y])


@pytest.mark.parametrize("shift", [-1, 1])
def test_an_index_outside(shift):
    with pytest.raises(Fault, match=r"index 0 of x goes from .* and the extent is 10"):
        run([loop(K, [Store(Y, (K,), load(X, (K + shift,)))])], [X, Y], [X])


def test_an_index_that_a_guard_holds_inside():
    value = guard(K < 9, load(X, (K + 1,)), 0)
    assert "y" in run([loop(K, [Store(Y, (K,), value)])], [X, Y], [X])
    with pytest.raises(Fault, match="index 0 of x"):
        run([loop(K, [Store(Y, (K,), where(K < 9, load(X, (K + 1,)), 0))])], [X, Y], [X])


def test_a_store_outside_of_an_empty_array():
    empty = buffer("empty", F8, (0,))
    with pytest.raises(Fault, match="index 0 of empty"):
        run([Store(empty, (ZERO,), const(1, F8))], [empty])


def test_indices_from_data():
    where_ = buffer("where", np.int64, (10,))
    at = load(where_, (K,))
    safe = Store(Y, (K,), load(X, (bounded(at, 10),)))
    assert "y" in run([loop(K, [safe])], [X, Y, where_], [X, where_])
    for mode in ("clip", "wrap"):
        held = Store(Y, (K,), load(X, (bounded(at, 10, mode),)))
        assert "y" in run([loop(K, [held])], [X, Y, where_], [X, where_])
    with pytest.raises(Fault, match="index 0 of x is from data, and not held in its extent"):
        run([loop(K, [Store(Y, (K,), load(X, (at,)))])], [X, Y, where_], [X, where_])
    with pytest.raises(Fault, match="x"):  # it may be any of them, and one is missing
        run(
            [loop(J, [Store(X, (J,), const(0, F8))], n=9), loop(K, [safe])],
            [X, Y, where_],
            [where_],
        )


def test_a_sum_with_a_term_from_data_is_held_by_what_holds_the_other_terms():
    """`3 j + k` may not exceed 6, which bounds of `3 j` and of `k` do not say."""
    starts = buffer("starts", np.int64, (10,))
    place = bounded(load(starts, (ZERO,)), 4) + 3 * J + K

    def check(most):
        value = guard(3 * J + K <= most, load(X, (place,)), 0)
        store = loop(J, [loop(K, [Store(Z, (K,), value)], n=3)], n=3)
        run([store], [X, Z, starts], [X, starts])

    check(6)
    with pytest.raises(Fault, match="index 0 of x is from data, and not held in its extent"):
        check(7)


def test_a_write_to_a_place_from_data_may_be_anywhere():
    """It leaves no element written for sure, and meets what other iterations touch."""
    where_ = buffer("where", np.int64, (10,))
    scatter = Store(Y, (bounded(load(where_, (K,)), 10),), const(1, F8))
    assert "y" not in run([loop(K, [scatter])], [Y, where_], [where_])
    assert "y" in run([loop(K, [scatter])], [Y, where_], [Y, where_])
    with pytest.raises(Fault, match=r"y\[0\] is read before it is written"):
        run([loop(K, [scatter]), Store(X, (ZERO,), load(Y, (ZERO,)))], [X, Y, where_], [X, where_])
    with pytest.raises(Fault, match="over i write element"):
        run([loop(K, [scatter], lanes=2)], [Y, where_], [Y, where_])


def test_a_window_at_a_place_from_data_moves_with_each_iteration():
    """Where it starts need not be known, if all iterations have the same start."""
    starts, wide = buffer("starts", np.int64, (10,)), buffer("wide", F8, (30,))
    start = bounded(load(starts, (ZERO,)), 10)
    value = load(X, (K,))
    reads = [X, starts]

    def check(store, *others, **marks):
        run([loop(K, [store, *others], **(marks or {"lanes": 2}))], [X, wide, starts], reads)

    for position in (start + K, start - K + 9, start + 2 * K):
        check(Store(wide, (position,), value))
        check(Store(wide, (position,), value), parallel=True)
    held = local(INDEX, "start")
    store = Store(wide, (held + K,), value)
    body = [Let((held,), (start,)), loop(K, [store], lanes=2)]
    run(body, [X, wide, starts], reads)
    with pytest.raises(Fault, match="over i write element"):  # its own start in each iteration
        check(Store(wide, (bounded(load(starts, (K,)), 10) + K,), value))
    with pytest.raises(Fault, match="over i write element"):
        check(Let((held,), (bounded(load(starts, (K,)), 10),)), store)
    with pytest.raises(Fault, match="over i write element"):  # iterations of the inner loop meet
        check(loop(J, [Store(wide, (start + K + J,), value)]))
    with pytest.raises(Fault, match="over i"):  # two windows
        check(Store(wide, (start + K,), value), Store(wide, (start + K + 1,), value))
    with pytest.raises(Fault, match="over i"):  # the next element of what is written
        run(
            [loop(K, [Store(wide, (start + K,), load(wide, (start + K + 1,)))], lanes=2)],
            [X, wide, starts],
            [*reads, wide],
        )
    with pytest.raises(Fault, match="over i"):  # iterations that are done twice
        check(Store(wide, (start + K,), value, "add"), lanes=4, repeatable=True)
    moving = Store(starts, (ZERO,), load(starts, (ONE,)))
    with pytest.raises(Fault, match="over i"):  # the start changes
        check(Store(wide, (start + K,), value), moving)


@pytest.mark.parametrize("by_local", [False, True])
def test_iterations_that_read_their_own_rows_at_places_from_data(by_local):
    rows, held = buffer("rows", F8, (40,)), local(INDEX, "held")
    place = 3 * K + bounded(convert(load(X, (K,)), INDEX), 3)
    written = loop(J, [Store(rows, (3 * K + J,), load(X, (K,)))], n=3)
    read = Store(Y, (K,), load(rows, (held if by_local else place,)))
    run([loop(K, [written, Let((held,), (place,)), read], parallel=True)], [X, Y, rows], [X])


def test_iterations_that_meet():
    plus_one = Store(Y, (irem(K + 1, 10),), load(Y, (K,)))
    for marks in ({"parallel": True}, {"lanes": 2}):
        with pytest.raises(Fault, match=r"over i read and write element"):
            run([loop(K, [plus_one], **marks)], [Y], [Y])
        with pytest.raises(Fault, match=r"over i write element 0 of y"):
            run([loop(K, [Store(Y, (ZERO,), const(1, F8))], **marks)], [Y], [Y])
        own = Store(Y, (irem(K + 3, 10),), load(X, (K,)))
        assert "y" in run([loop(K, [own], **marks)], [X, Y], [X])
    assert "y" in run([loop(K, [plus_one])], [Y], [Y])


def test_steps_of_a_loop_around_may_meet():
    """What one step writes the next one may read: only within a step iterations keep apart."""
    a, t = buffer("a", F8, (3, 10)), index("t", 2)
    body = Store(a, (t + 1, K), load(a, (t, irem(K + 1, 10))))
    start = loop(J, [Store(a, (ZERO, J), const(0, F8))])
    assert "a" in run([start, loop(t, [loop(K, [body], lanes=2)])], [a])


def test_scratch_belongs_to_an_iteration():
    a, t = buffer("a", F8, (4, 10)), index("t", 4)
    fill = loop(K, [Store(ROW, (K,), const(1, F8))])
    use = loop(J, [Store(a, (t, J), load(ROW, (J,)))])
    assert "a" in run([loop(t, [fill, use], parallel=True)], [a], scratch=[ROW])
    once = If(eq(t, 0), (fill,))
    with pytest.raises(Fault, match=r"row.* is read before it is written in the same iteration"):
        run([loop(t, [once, use], parallel=True)], [a], scratch=[ROW])
    assert "a" in run([loop(t, [once, use])], [a], scratch=[ROW])


def test_locals():
    total = local(F8, "total")
    add = Assign((total,), (total + load(X, (K,)),))
    start, end = Let((total,), (const(0, F8),)), Store(Y, (ZERO,), total)
    run([start, loop(K, [add]), end], [X, Y], [X])
    with pytest.raises(Fault, match="local total"):
        run([loop(K, [add]), end], [X, Y], [X])
    with pytest.raises(Fault, match="local total"):
        run([loop(K, [start]), end], [X, Y], [X])
    with pytest.raises(Fault, match="leaves a local for the next"):
        run([start, loop(K, [add], lanes=2), end], [X, Y], [X])


def test_the_index_of_another_loop():
    with pytest.raises(Fault, match="index j"):
        run([loop(K, [Store(Y, (J,), const(1, F8))])], [Y])


def test_a_loop_past_its_extent():
    with pytest.raises(Fault, match="loop over i leaves its extent"):
        run([loop(K, [Store(Y, (K,), const(1, F8))], n=11)], [Y])


def test_a_loop_that_is_not_come_to_may_begin_anywhere():
    first = K - 4
    inside = For(J, first, const(4, INDEX), (Store(Y, (J,), const(1, F8)),))
    run([loop(K, [If(first >= 0, (inside,))], n=8)], [Y])
    with pytest.raises(Fault, match="loop over j leaves its extent"):
        run([loop(K, [inside], n=8)], [Y])


def test_sums():
    a, s = buffer("a", F8, (10, 10)), local(F8, "s")
    total = Reduce((s,), ("add",), (load(a, (K, J)),), ((J, ZERO, const(10, INDEX)),))
    store = Store(Y, (K,), s)
    assert "y" in run([loop(K, [total, store], parallel=True)], [a, Y], [a])
    far = Reduce((s,), ("add",), (load(a, (K, J + 1)),), ((J, ZERO, const(10, INDEX)),))
    with pytest.raises(Fault, match="index 1 of a"):
        run([loop(K, [far, store])], [a, Y], [a])


def test_branches_that_depend_on_data():
    """Whatever is not written on one of the ways is not written."""
    both = If(load(X, (ZERO,)) > 0, (Store(Y, (ZERO,), const(1, F8)),), ())
    use = Store(Z, (ZERO,), load(Y, (ZERO,)))
    run([both, use], [X, Y, Z], [X], scenario=Scenario(None, (True,)))
    with pytest.raises(Fault, match="y"):
        run([both, use], [X, Y, Z], [X], scenario=Scenario(None, (False,)))


TRUTH = local(np.dtype(bool), "truth")
WHERE_TRUE = [
    [If(load(X, (J,)) > 0, (Store(Z, (J,), load(Y, (J,))),))],
    [Let((TRUTH,), (load(X, (J,)) > 0,)), If(TRUTH, (Store(Z, (J,), load(Y, (J,))),))],
]
"""Reading Y where X is positive, directly and by a local."""


@pytest.mark.parametrize("where", WHERE_TRUE, ids=["directly", "by a local"])
@pytest.mark.parametrize("branches", [(True, False), (False, True), (False,), (True,)])
def test_a_condition_is_the_same_in_the_next_kernel(branches, where):
    """It is the second one of the first kernel, which reads it under another index."""
    flags, condition = buffer("flags", F8, (10,)), buffer("condition", F8, (10,))
    one, decisions, scenario = const(1, F8), Decisions(branches), Scenario(None, branches)
    first = loop(
        K,
        [
            If(load(flags, (K,)) > 0, (Store(Z, (K,), one),)),
            If(load(condition, (9 - K,)) > 0, (Store(Y, (K,), one),)),
        ],
    )

    def after(body, own, given, written):
        kernel = Kernel(tuple(own), 0, (body,), ())
        accesses = Accesses(kernel, given, (), footprint, scenario, decisions=decisions)
        return verify(accesses, dict(zip(own, written, strict=True)))

    full, empty = np.ones(10, bool), np.zeros(10, bool)
    given = [flags, condition, Y, Z]
    written = after(first, given, given, [full, full, empty, empty])
    after(loop(J, where), [X, Y, Z], [condition, Y, Z], [full, written[Y], empty])


def test_loops_that_end_when_data_say_so():
    """Two places by turns: what a step reads is what the one before has written."""
    places, steps = buffer("places", F8, (2,)), local(INDEX, "steps")
    parity = steps & 1

    def program(target):
        body = (
            Store(places, (target,), load(places, (parity,)) + 1),
            Assign((steps,), (steps + 1,)),
        )
        return [
            Let((steps,), (ZERO,)),
            Store(places, (ZERO,), load(X, (ZERO,))),
            While((), load(places, (parity,)) < 9, body),
            Store(Y, (ZERO,), load(places, (parity,))),
        ]

    for count in (0, 1, 2, 3):
        run(program(1 - parity), [X, Y, places], [X], scenario=Scenario(count, (True,)))
    with pytest.raises(Fault, match="places"):
        run(program(parity), [X, Y, places], [X], scenario=Scenario(1, (True,)))


def test_sizes_are_those_of_the_call():
    x, y = buffer("x", F8, (10,)), buffer("y", F8, (10,))
    body = For(K, ZERO, size(0), (Store(y, (K,), load(x, (K,))),))
    assert "y" in run([body], [x, y], [x], sizes=[10])
    assert "y" not in run([body], [x, y], [x], sizes=[9])


def gemm(m, n, k, at=ZERO, leading=None):
    a, b, c = (
        buffer(name, F8, shape) for name, shape in [("a", (4, 5)), ("b", (5, 6)), ("c", (4, 6))]
    )
    number = lambda value: convert(const(value, INDEX), np.int32)  # noqa: E731
    one, zero = const(1, F8), const(0, F8)
    return (a, b, c), Call(
        "dgemm",
        (
            b"N", b"N", number(n), number(m), number(k), one, Address(b, (ZERO, ZERO)),
            number(leading or 6), Address(a, (at, ZERO)), number(5), zero,
            Address(c, (ZERO, ZERO)), number(6),
        ),
        (a, b),
        (c,),
    )  # fmt: skip


def test_what_a_routine_reads_and_writes():
    (a, b, c), call = gemm(4, 6, 5)
    assert "c" in run([call], [a, b, c], [a, b])
    with pytest.raises(Fault, match=r"b.* is read before"):
        run([call], [a, b, c], [a])
    (a, b, c), call = gemm(3, 6, 5)
    assert "c" not in run([call], [a, b, c], [a, b])
    for wrong in ({"m": 5}, {"n": 7}, {"k": 6}, {"at": ONE}):
        (a, b, c), call = gemm(**{"m": 4, "n": 6, "k": 5, **wrong})
        with pytest.raises(Fault, match=r"reaches outside|columns of . overlap"):
            run([call], [a, b, c], [a, b])


def test_what_is_too_large_says_so():
    large = buffer("large", F8, (10**7,))
    i = index("i", 10**7)
    with pytest.raises(TooLarge):
        run([loop(i, [Store(large, (i,), const(1, F8))])], [large])


def added(position, **how):
    return Store(Y, (position,), load(X, (K,)), "add", **how)


@pytest.mark.parametrize("position", [ZERO, bounded(convert(load(X, (K,)), INDEX), 10)])
def test_iterations_may_meet_in_atomic_stores(position):
    for marks in ({"parallel": True}, {"lanes": 4}):
        assert run([loop(K, [added(position, atomic=True)], **marks)], [X, Y], [X, Y])
        with pytest.raises(Fault, match="write element"):
            run([loop(K, [added(position)], **marks)], [X, Y], [X, Y])


@pytest.mark.parametrize(
    "other",
    [
        Store(Y, (ONE,), load(X, (K,)), "max", atomic=True),
        Store(Y, (ONE,), load(X, (K,)), atomic=True),
        Store(Y, (K,), load(X, (K,))),
        Store(Z, (K,), load(Y, (ONE,))),
    ],
)
def test_what_is_added_to_in_atomic_stores_is_not_touched_otherwise(other):
    body = [added(ONE, atomic=True), other]
    with pytest.raises(Fault, match="iterations of the parallel loop over i"):
        run([loop(K, body, parallel=True)], [X, Y, Z], [X, Y])


def test_an_atomic_store_reads_what_must_have_been_written():
    with pytest.raises(Fault, match=r"y\[0\] is read before it is written"):
        run([loop(K, [added(ZERO, atomic=True)], parallel=True)], [X, Y], [X])


# -- messages --------------------------------------------------------------------------------------


I4 = np.dtype(np.int32)
PARTS, STATUS = buffer("parts", F8, (2, 10)), buffer("status", I4, (1,))


def message(kind, part, whole, x, out, *partners):
    start = [Address(each, (ZERO,) * len(each.shape)) for each in (x, out)]
    counts = (const(part, I4), const(whole, I4))
    arguments = (*counts, *start, *partners, Address(STATUS, (ZERO,)))
    return Call(f"mpi_{kind}_sum_f8_link", arguments, (x,), (out, STATUS))


@pytest.mark.parametrize(
    ("statement", "read", "written"),
    [
        (message("allreduce", 10, 10, X, Y), X, Y),
        (message("allgather", 10, 20, X, PARTS), X, PARTS),
        (message("reducescatter", 10, 20, PARTS, X), PARTS, X),
        (message("alltoall", 5, 10, X, Y), X, Y),
        (message("sendrecv", 10, 10, X, Y, const(1, I4), const(-1, I4)), X, Y),
    ],
)
def test_what_messages_read_and_write(statement, read, written):
    buffers = [read, written, STATUS]
    assert run([statement], buffers, {read}) == {each.name for each in buffers}
    with pytest.raises(Fault, match=f"{read.name}.* is read before it is written"):
        run([statement], buffers)


def test_a_message_that_is_longer_than_its_array():
    with pytest.raises(Fault, match="outside"):
        run([message("allreduce", 11, 11, X, Y)], [X, Y, STATUS], {X})


@pytest.mark.parametrize("marks", [{"parallel": True}, {"lanes": 2}])
def test_a_message_in_a_loop_whose_iterations_have_no_order(marks):
    body = [Store(Z, (K,), const(0, F8)), message("allreduce", 10, 10, X, Y)]
    with pytest.raises(Fault, match="iterations that may go on in any order pass messages"):
        run([loop(K, body, **marks)], [X, Y, Z, STATUS], {X})
