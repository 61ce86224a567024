"""Relocation: the buffers of statements become parts of others, or locals."""

import numpy as np
import pytest

from functrans.loop.nodes import INDEX, index
from functrans.loop.relocation import Relocation, constant_positions
from functrans.loop.scalar import const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Address,
    Call,
    For,
    If,
    Let,
    Rows,
    Store,
    buffer,
    load,
    local,
)

F8 = np.dtype(float)
ZERO, ONE, TWO = (const(i, INDEX) for i in range(3))
P, STEP = index("i", 2), index("step", 5)
X, Y = buffer("x", F8, (2,)), buffer("y", F8, (2,))
ALL = buffer("all", F8, (5, 2))


@pytest.fixture
def relocation():
    return Relocation(Simplifier())


def test_a_row_of_a_stack(relocation):
    relocation.moved[X] = ALL, (STEP,)
    store = relocation.statement(Store(X, (P,), load(X, (P,)) * load(Y, (P,))))
    assert (store.target, store.indices) == (ALL, (STEP, P))
    assert store.value == load(ALL, (STEP, P)) * load(Y, (P,))


def test_elements_in_locals(relocation):
    first, second = local(F8), local(F8)
    relocation.held[X] = {(ZERO,): first, (ONE,): second}
    assert relocation.expressions([load(X, (ZERO,)) - load(X, (ONE,))]) == [first - second]
    with pytest.raises(KeyError):
        relocation.expressions([load(X, (TWO,))])


def test_what_is_written_becomes_a_local(relocation):
    relocation.made[Y] = {}
    let, store = relocation.statements([
        Store(Y, (ONE,), load(X, (ZERO,))),
        Store(X, (ZERO,), load(Y, (ONE,)) * 2),
    ])  # fmt: skip
    assert isinstance(let, Let) and let.values == (load(X, (ZERO,)),)
    assert store.value == let.targets[0] * 2
    assert relocation.made[Y] == {(ONE,): let.targets[0]}


def test_an_index_that_was_read_from_what_moved(relocation):
    places, rows = buffer("places", INDEX, (2,)), buffer("rows", INDEX, (5, 2))
    relocation.moved[places] = rows, (STEP,)
    relocation.moved[X] = ALL, (STEP,)
    (found,) = relocation.expressions([load(X, (load(places, (P,)),))])
    assert found == load(ALL, (STEP, load(rows, (STEP, P))))


def test_loops_inside_stay_independent(relocation):
    relocation.moved[X] = ALL, (STEP,)
    loop = relocation.statement(
        For(P, ZERO, TWO, (Store(X, (P,), load(Y, (P,))),), lanes=2, parallel=True)
    )
    assert (loop.parallel, loop.lanes) == (True, 2)
    assert loop.body[0].target is ALL


def test_the_rows_of_a_call_are_behind_the_new_axes(relocation):
    call = Call(
        "dcopy",
        (TWO, Address(X, (ZERO,)), ONE, Address(Y, (ZERO,)), ONE),
        reads=(X,),
        writes=(Y,),
        rows=Rows(0, {1: 0, 3: 0}),
    )
    relocation.moved[X] = ALL, (STEP,)
    moved = relocation.statement(call)
    assert (moved.reads, moved.writes) == ((ALL,), (Y,))
    assert moved.arguments[1].indices == (STEP, ZERO)
    assert (moved.rows.count, moved.rows.axes) == (0, {1: 1, 3: 0})


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        ([Store(X, (ZERO,), load(Y, (ONE,)))], {X, Y}),
        ([Store(X, (ZERO,), load(Y, (P,)))], {X}),
        ([Store(X, (P,), load(Y, (ONE,)))], {Y}),
        ([For(P, ZERO, TWO, (Store(X, (ZERO,), load(Y, (ONE,))),))], {Y}),
        ([If(load(Y, (ONE,)) < 1.0, (Store(X, (ZERO,), load(Y, (ONE,))),))], {Y}),
        ([Call("dcopy", (Address(X, (ZERO,)),), reads=(X,), writes=())], {Y}),
        ([], {X, Y}),
    ],
)
def test_which_buffers_could_be_locals(statements, found):
    assert constant_positions(statements, {X, Y}) == found
