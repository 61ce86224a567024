"""Traversal of statements: their parts, reads and writes, and rewriting."""

import numpy as np
import pytest

from functrans.loop.nodes import INDEX, bounded, index, required
from functrans.loop.scalar import const
from functrans.loop.statements import (
    Address,
    Assign,
    Call,
    For,
    If,
    Let,
    Reduce,
    Store,
    While,
    buffer,
    load,
    local,
    size,
)
from functrans.loop.walk import children, expressions, loaded, may_fail, rebuilt, stored, walk

F8 = np.dtype(float)
N, ZERO = size(0), const(0, INDEX)
A, B, C, D = (buffer(name, F8, (N,)) for name in "abcd")
P, K, T, U = index("i"), index("k"), local(F8), local(F8)

LET = Let((T,), (load(A, (P,)),))
ASSIGN = Assign((T,), (T * 2,))
STORE = Store(B, (P,), T)
ADD = Store(C, (ZERO,), T, "add")
SUM = Reduce((U,), ("add",), (load(D, (K,)),), ((K, ZERO, N),), body=(LET,))
CALL = Call(
    "dcopy",
    (N, Address(A, (P,)), const(1, INDEX), Address(B, (ZERO,)), b"N"),
    reads=(A,),
    writes=(B,),
)
IF = If(T < 1.0, (STORE,), (ASSIGN,))
WHILE = While((LET,), T < 1.0, (ASSIGN,))
FOR = For(P, ZERO, N, (LET, STORE))


@pytest.mark.parametrize(
    ("statement", "inside", "parts"),
    [
        (LET, (), (load(A, (P,)),)),
        (ASSIGN, (), (T * 2,)),
        (STORE, (), (P, T)),
        (SUM, (LET,), (ZERO, N, load(D, (K,)))),
        (CALL, (), (N, P, const(1, INDEX), ZERO)),
        (IF, (STORE, ASSIGN), (T < 1.0,)),
        (WHILE, (LET, ASSIGN), (T < 1.0,)),
        (FOR, (LET, STORE), (ZERO, N)),
    ],
)
def test_what_stands_in_a_statement(statement, inside, parts):
    assert children(statement) == inside
    assert expressions(statement) == parts


def test_outer_statements_come_first():
    loop = For(P, ZERO, N, (IF, SUM))
    assert list(walk([loop, ADD])) == [loop, IF, STORE, ASSIGN, SUM, LET, ADD]


@pytest.mark.parametrize(
    ("statement", "read", "written"),
    [
        (FOR, {A}, {B}),
        (ADD, {C}, {C}),  # adding reads what is there
        (SUM, {A, D}, set()),
        (CALL, {A}, {B}),
        (If(load(C, (P,)) < 0.0, (STORE,)), {C}, {B}),
        (Store(B, (bounded(load(buffer("p", INDEX, (N,)), (P,)), N),), T), {"p"}, {B}),
    ],
)
def test_what_is_read_and_written(statement, read, written):
    found = loaded([statement])
    assert found == read or {one.name for one in found} == read
    assert stored([statement]) == written


def test_what_may_fail():
    place = bounded(load(buffer("p", INDEX, (N,)), (P,)), N)
    assert may_fail([For(P, ZERO, N, (Store(B, (place,), T),))])
    assert may_fail([Let((T,), (required(T < 1.0, T, 2),))])
    assert not may_fail([FOR, SUM, CALL, IF, WHILE])


def parts_of(statement):
    """What a statement is made of, in a form that can be compared."""
    parts = dict(vars(statement))
    if isinstance(statement, Call):
        addresses = (vars(x) if isinstance(x, Address) else x for x in statement.arguments)
        parts["arguments"] = list(addresses)
    return parts


@pytest.mark.parametrize("statement", [LET, ASSIGN, STORE, ADD, SUM, CALL, IF, WHILE, FOR])
def test_rebuilt_with_everything_as_it_is(statement):
    again = rebuilt(
        statement,
        body=lambda body: body,
        values=lambda values: values,
        indices=lambda indices: indices,
        element=lambda target, position: (target, position),
        buffer=lambda one: one,
    )
    assert type(again) is type(statement)
    assert parts_of(again) == parts_of(statement)


def test_rebuilt_with_other_parts():
    def parts(statement):
        return rebuilt(
            statement,
            body=lambda body: (*body, ADD),
            values=lambda values: [value * 3 for value in values],
            indices=lambda indices: [each + 1 for each in indices],
            element=lambda target, position: (D, (ZERO, *position)),
            buffer=lambda one: {A: C}.get(one, one),
        )

    store = parts(STORE)
    assert (store.target, store.indices, store.value, store.op) == (D, (ZERO, P), T * 3, None)
    assert parts(ADD).op == "add"
    loop = parts(FOR)
    assert (loop.start, loop.stop, loop.body) == (ZERO + 1, N + 1, (LET, STORE, ADD))
    total = parts(SUM)
    assert (total.loops, total.values) == (((K, ZERO + 1, N + 1),), (load(D, (K,)) * 3,))
    call = parts(CALL)
    assert (call.reads, call.writes) == ((C,), (B,))
    assert call.arguments[0] == N + 1 and call.arguments[4] == b"N"
    assert (call.arguments[1].target, call.arguments[1].indices) == (D, (ZERO, P))
    choice = parts(IF)
    assert (choice.body, choice.otherwise) == ((STORE, ADD), (ASSIGN, ADD))
    again = parts(WHILE)
    assert (again.prepare, again.body) == ((LET, ADD), (ASSIGN, ADD))
