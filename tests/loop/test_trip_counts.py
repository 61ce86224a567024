"""Trip counts of loops in lanes: overlapping vectors, whole vectors, each iteration around them."""

import pytest

from functrans.loop.domain import Fault
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import const, minimum
from functrans.loop.statements import For, Reduce, Store, load, local
from tests.loop.test_verify import F8, ZERO, K, X, Y, loop, run


def test_an_iteration_that_is_done_twice():
    in_place = Store(X, (K,), load(X, (K,)) + 1)
    with pytest.raises(Fault, match="may be done twice reads what it overwrites of x"):
        run([loop(K, [in_place], lanes=4, repeatable=True)], [X], [X])
    assert "x" in run([loop(K, [in_place], lanes=2, whole=True)], [X], [X])
    with pytest.raises(Fault, match="no multiple of 4 lanes"):
        run([loop(K, [in_place], lanes=4, whole=True)], [X], [X])
    most, terms = local(F8), ((K, ZERO, const(10, INDEX)),)
    fold = Reduce((most,), ("max",), (load(X, (K,)),), terms, lanes=16, repeatable=True)
    for body in (loop(K, [in_place], lanes=16, repeatable=True), fold):
        with pytest.raises(Fault, match="10 iterations of a loop of 16 lanes"):
            run([body], [X], [X])


def test_the_counts_of_all_iterations_of_an_outer_loop():
    """The last of three pieces has two elements, and a vector that overlaps begins before it."""
    piece, inner = index("piece", 3), index("inner", 4)
    place = piece * 4 + inner
    store = Store(Y, (place,), load(X, (place,)))
    stop = minimum(4, 10 - piece * 4)
    for marks, broken in (
        ({"repeatable": True}, "2 iterations of a loop of 4 lanes"),
        ({"whole": True}, "2 iterations are no multiple of 4 lanes"),
    ):
        part = For(inner, ZERO, stop, (store,), lanes=4, **marks)
        with pytest.raises(Fault, match=broken):
            run([loop(piece, [part])], [X, Y], [X])
    part = For(inner, ZERO, stop, (store,), lanes=4)
    assert run([loop(piece, [part])], [X, Y], [X]) == {"x", "y"}
