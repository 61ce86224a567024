"""How many operations statements take."""

import numpy as np
import pytest

from functrans.loop.nodes import INDEX, fold, guard, index
from functrans.loop.operations import operations, operations_of
from functrans.loop.scalar import const
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
