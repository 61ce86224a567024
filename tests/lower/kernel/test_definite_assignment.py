"""Definite assignment: every read is preceded by a write, on statements written by hand."""

import numpy as np
import pytest

from functrans.loop.nodes import INDEX, guard, index
from functrans.loop.scalar import const, idiv, irem
from functrans.loop.statements import Address, Call, For, If, Store, buffer, load
from functrans.lower.kernel.definite_assignment import assigned_before_use, used_by

F8 = np.dtype(float)
ROW, OUT, SQUARE = buffer("row", F8, (10,)), buffer("out", F8, (10,)), buffer("s", F8, (5, 5))
INTEGERS = buffer("integers", INDEX, (1,))
ONE = const(1.0, F8)


def number(n):
    return const(n, INDEX)


def write(start=0, count=10, value=ONE, op=None, target=ROW):
    """Elements one after the other."""
    i = index("i", count)
    return For(i, number(0), number(count), (Store(target, (i + start,), value, op),))


def read(start=0, count=10):
    i = index("i", count)
    return For(i, number(0), number(count), (Store(OUT, (i,), load(ROW, (i + start,))),))


def both(at_write, at_read, op=None):
    """In one loop: a write, perhaps something added to it, and then a read."""
    i = index("i", 9)
    added = (Store(ROW, (at_write(i),), ONE, op),) if op else ()
    first, last = Store(ROW, (at_write(i),), ONE), Store(OUT, (i,), load(ROW, (at_read(i),)))
    return For(i, number(0), number(9), (first, *added, last))


def flat():
    """The rows of a matrix, written by one loop."""
    i, j = index("i", 4), index("j", 5)
    inner = For(j, number(0), number(5), (Store(SQUARE, (i, j), ONE),))
    return For(i, number(0), number(4), (inner,))


def of_square(rows, columns):
    i, j = index("i", rows), index("j", columns)
    store = Store(OUT, (j,), load(SQUARE, (i, j)))
    return For(i, number(0), number(rows), (For(j, number(0), number(columns), (store,)),))


def scattered(odd):
    """Two columns of the first three rows, by quotients and remainders of one index."""
    i = index("i", 6)
    return For(i, number(0), number(6), (Store(SQUARE, (idiv(i, 2), irem(i, 2) + odd), ONE),))


YES = {
    "all of it": (write(), read()),
    "what is read was written": (write(2, 5), read(3, 3)),
    "in two pieces": (write(0, 4), write(4, 6), read()),
    "pieces in any order": (write(4, 6), write(0, 4), read(1, 8)),
    "pieces that overlap": (write(0, 7), write(3, 7), read()),
    "one by one": (Store(ROW, (number(3),), ONE), Store(OUT, (number(0),), load(ROW, (3,)))),
    "in the same iteration": (both(lambda i: i, lambda i: i),),
    "nothing is read": (write(),),
    "added to in the same iteration": (both(lambda i: i, lambda i: i, "add"),),
}
ABOVE = index("i", 19)
WITHIN = load(ROW, (ABOVE + -5,)), const(0.0, F8)
YES["what a guard lets through is inside of the row"] = (
    write(),
    For(
        ABOVE,
        number(0),
        number(19),
        (Store(OUT, (number(0),), guard((number(5) <= ABOVE) & (ABOVE < number(15)), *WITHIN)),),
    ),
)
INNER = index("j", 3)
YES["in a loop, by the statement before"] = (
    For(INNER, number(0), number(3), (write(), read(2, 5))),
)
NO = {
    "nothing was written": (read(),),
    "written after it": (read(), write()),
    "one is missing": (write(0, 9), read()),
    "one in the middle is missing": (write(0, 4), write(5, 5), read()),
    "by the next iteration": (both(lambda i: i, lambda i: i + 1),),
    "added to nothing": (write(op="add"),),
    "added to by a loop of its own": (write(), write(op="add")),
    "perhaps": (If(load(OUT, (0,)) < 1.0, (write(),)), read()),
    "by a library": (Call("f", (Address(ROW, (number(0),)),), reads=(), writes=(ROW,)), read()),
}


@pytest.mark.parametrize("name", YES)
def test_it_was_written(name):
    assert assigned_before_use(YES[name], ROW)


@pytest.mark.parametrize("name", NO)
def test_it_was_not_or_that_is_not_seen(name):
    assert not assigned_before_use(NO[name], ROW)


@pytest.mark.parametrize(("rows", "columns", "known"), [(4, 5, True), (2, 3, True), (5, 5, False)])
def test_matrices(rows, columns, known):
    assert assigned_before_use((flat(), of_square(rows, columns)), SQUARE) is known


def test_the_diagonal_is_not_all():
    i = index("i", 4)
    diagonal = For(i, number(0), number(4), (Store(SQUARE, (i, i), ONE),))
    assert not assigned_before_use((diagonal, of_square(4, 4)), SQUARE)


def test_a_range_that_two_loops_go_through():
    i, j = index("i", 2), index("j", 5)
    inner = For(j, number(0), number(5), (Store(ROW, (i * 5 + j,), ONE),))
    assert assigned_before_use((For(i, number(0), number(2), (inner,)), read()), ROW)
    gaps = For(j, number(0), number(5), (Store(ROW, (i * 6 + j,), ONE),))
    assert not assigned_before_use((For(i, number(0), number(2), (gaps,)), read()), ROW)


def test_what_a_statement_uses_itself():
    assert used_by(Store(OUT, (number(0),), load(ROW, (1,)))) == {OUT, ROW}
    assert used_by(write()) == set()
    call = Call("f", (Address(ROW, (number(0),)),), reads=(ROW,), writes=(OUT,))
    assert used_by(call) == {ROW, OUT}


def test_what_is_scattered_by_quotients_is_enumerated():
    two, three, wide = of_square(3, 2), of_square(3, 3), (scattered(0), scattered(1))
    assert assigned_before_use((scattered(0), two), SQUARE)
    assert assigned_before_use((*wide, three), SQUARE)
    assert assigned_before_use((flat(), scattered(0), of_square(4, 5)), SQUARE)
    assert not assigned_before_use((scattered(0), three), SQUARE)
    assert not assigned_before_use((*wide, of_square(4, 3)), SQUARE)
    assert not assigned_before_use((If(load(OUT, (0,)) < 1.0, (scattered(0),)), two), SQUARE)
    assert not assigned_before_use((scattered(load(INTEGERS, (0,))), two), SQUARE)
