"""Operation counts of statements."""

import numpy as np
import pytest

from functrans.loop import operations as counting
from functrans.loop.nodes import INDEX, fold, guard, index
from functrans.loop.operations import AT_ONCE, operations, operations_of
from functrans.loop.scalar import Scalar, const, irem
from functrans.loop.statements import (
    Assign,
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

F8 = np.dtype(float)
N, ZERO, TEN = size(0), const(0, INDEX), const(10, INDEX)
X, Y = buffer("x", F8, (100,)), buffer("y", F8, (100,))
P, J, T = index("i", 10), index("j", 10), local(F8)
V = load(X, (P,))
COPY, SQUARE = Store(Y, (P,), V), Store(Y, (P,), V * V)


@pytest.mark.parametrize(
    ("roots", "number"),
    [
        ([V], 0),
        ([V * V], 1),
        ([V * V, V * V + 1.0], 2),  # what is there twice is done once
        ([load(X, (P * 7 + 3,))], 0),  # finding a place is no work
        ([fold("add", (100,), lambda k: load(X, (k,)) * 2.0)], 200),
        ([guard(P < 3, V * V, 0.0)], 2),
    ],
)
def test_expressions(roots, number):
    assert operations(roots) == number


def test_branches_nest_as_deep_as_an_array_has_parts():
    value = V
    for k in range(2000):
        value = guard(P < k, V * float(k), value)
    assert operations([value]) == 2000 + 2000


@pytest.mark.parametrize(
    ("body", "number"),
    [
        ([SQUARE], 1),
        ([Store(Y, (P,), V, "add")], 1),
        ([COPY], 0),
        ([For(P, ZERO, TEN, (SQUARE,))], 10),
        ([For(P, ZERO, N, (SQUARE,))], 6),
        ([For(P, ZERO, TEN, (For(J, ZERO, P, (SQUARE,)),))], 45),
        ([Reduce((T,), ("add",), (V * V,), ((P, ZERO, TEN),))], 20),
        ([If(V < 0.0, (SQUARE,), (Store(Y, (P,), V * V * V),))], 3),
        ([While((), T < 1.0, (Assign((T,), (T * 2.0,)),))], 2),
        ([Let((T,), (V * V,)), Store(Y, (P,), V * V + T)], 2),
        # what a loop's body computes is not at hand after it
        ([For(P, ZERO, TEN, (SQUARE,)), Store(Y, (P,), V * V)], 11),
    ],
)
def test_statements(body, number):
    assert operations_of(body, (6,)) == number


def triangles(outer):
    """A loop whose extent depends on the index of one around it, and one within that does."""
    i, j, k = index("i", outer), index("j", outer), index("k", outer)
    inner = For(k, j, const(outer, INDEX), (SQUARE,))
    return [For(i, ZERO, const(outer, INDEX), (For(j, i, const(outer, INDEX), (inner, SQUARE)),))]


@pytest.mark.parametrize("outer", [1, 2, 17, 300])
def test_loops_whose_extents_depend_on_others(outer):
    expected = sum(outer - j + 1 for i in range(outer) for j in range(i, outer))
    assert operations_of(triangles(outer)) == expected


@pytest.mark.dear
def test_more_steps_than_are_looked_at_together():
    i, j = index("i", 3 * AT_ONCE), index("j", 10)
    inner = (For(j, ZERO, irem(i, TEN), (SQUARE,)),)
    rows = For(P, ZERO, TEN, (For(i, P, const(3 * AT_ONCE, INDEX), inner),))
    expected = sum(i % 10 for p in range(10) for i in range(p, 3 * AT_ONCE))
    assert operations_of([rows]) == expected


def test_the_dearer_branch_is_another_at_each_step():
    few = For(J, ZERO, P, (SQUARE,))
    many = For(J, P, TEN, (SQUARE,))
    branch = If(V < 0.0, (few,), (many,))
    expected = sum(1 + max(p, 10 - p) for p in range(10))
    assert operations_of([For(P, ZERO, TEN, (branch,))]) == expected


def test_numbers_of_operations_of_any_size():
    long = const(1 << 62, INDEX)
    loops = For(J, ZERO, long, (For(P, ZERO, long, (SQUARE,)),))
    assert operations_of([loops]) == 1 << 124


@pytest.mark.parametrize("rows", [10, 1000, 10**6 + 3, 10**12])
def test_parts_of_rows_are_counted_in_closed_form(rows):
    """The last part of them is shorter: its extent is a minimum."""
    part = 1000
    i, j = index("i", -(-rows // part)), index("j", part)
    start = i * const(part, INDEX)
    stop = Scalar("min", (start + const(part, INDEX), const(rows, INDEX)), INDEX)
    inner = For(j, start, stop, (SQUARE,))
    parts = For(i, ZERO, const(-(-rows // part), INDEX), (inner,))
    assert operations_of([parts]) == rows


def test_loops_are_not_gone_through_step_by_step(monkeypatch):
    calls = []
    evaluate = counting.evaluate
    monkeypatch.setattr(counting, "evaluate", lambda *args: calls.append(1) or evaluate(*args))
    operations_of(triangles(300))
    assert len(calls) < 200
