"""Bands of parallel loops: how they are recognised, and that their order does not matter."""

import numpy as np
import pytest

from functrans.loop.access import Scenario
from functrans.loop.collect import Accesses, Fault
from functrans.loop.footprints import footprint
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import const, eq, irem
from functrans.loop.statements import (
    Assign,
    For,
    If,
    Kernel,
    Let,
    Store,
    buffer,
    load,
    local,
    serial,
)
from functrans.loop.verify import verify
from tests.loop.evaluate import Memory, evaluate
from tests.loop.plans import shuffled

F8 = np.dtype(np.float64)
ZERO = const(0, INDEX)
ROWS, COLUMNS = 4, 6
R, C, K = index("i", ROWS), index("j", COLUMNS), index("k", 3)
X, Y = (buffer(name, F8, (ROWS, COLUMNS)) for name in "xy")
ROW = buffer("row", F8, (3,))


def loop(i, *body, parallel=True, lanes=1, start=ZERO, stop=None):
    end = const(i.attribute[2], INDEX) if stop is None else stop
    return For(i, start, end, body, lanes, parallel)


def kernel(*body, scratch=()):
    return Kernel((X, Y), 0, body, scratch)


def verified(given):
    accesses = Accesses(given, (X, Y), (), footprint, Scenario(None, (True,)))
    before = {X: np.ones(ROWS * COLUMNS, bool), Y: np.zeros(ROWS * COLUMNS, bool)}
    return verify(accesses, before)[Y].all()


def evaluated(given, order):
    values = np.arange(1.0, 1 + ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    memory = [Memory(values, True), Memory(np.zeros(values.shape), False)]
    assert evaluate(given, memory, [], order=order) == 0
    assert memory[1].written.all()
    return memory[1].array


NEXT = irem(C + 1, const(COLUMNS, INDEX))
COPY = Store(Y, (R, C), load(X, (R, C)) * 2)


def test_a_band_ends_where_a_loop_is_not_alone_or_not_parallel():
    def names(*body):
        return [each.index.attribute[0] for each in kernel(*body).band]

    assert names(loop(R, loop(C, COPY))) == ["i", "j"]
    assert names(loop(R, loop(C, COPY, parallel=False))) == ["i"]
    assert names(loop(R, loop(C, COPY), parallel=False)) == []
    assert names(loop(R, loop(C, COPY), loop(C, COPY))) == ["i"]
    assert names(loop(R, loop(C, COPY)), COPY) == []
    assert names(serial(loop(R, loop(C, COPY)))) == []
    assert kernel(loop(R, loop(C, COPY))).parallel.index is R


@pytest.mark.parametrize("seed", range(3))
def test_any_order_is_as_good(seed):
    for lanes in (1, 4):
        given = kernel(loop(R, loop(C, COPY, lanes=lanes)))
        assert verified(given)
        np.testing.assert_array_equal(evaluated(given, shuffled(seed)), evaluated(given, range))


def test_a_loop_of_a_band_may_begin_where_another_one_is():
    """As loops over tiles do."""
    tile, within = index("t", 3), index("w", COLUMNS)
    copy = Store(Y, (R, within), load(X, (R, within)))
    inner = loop(within, copy, start=tile * 2, stop=tile * 2 + 2)
    given = kernel(loop(R, loop(tile, inner)))
    assert len(given.band) == 3
    assert verified(given)
    np.testing.assert_array_equal(evaluated(given, shuffled(1)), evaluated(given, range))


def test_iterations_of_an_inner_loop_that_meet():
    """Each of the outer ones has a row of its own."""
    first = Store(Y, (R, C), load(X, (R, C)))
    other = Store(Y, (R, NEXT), load(X, (R, C)))
    for body in ([other, first], [first, Store(Y, (R, C), load(Y, (R, NEXT)))]):
        given = kernel(loop(R, loop(C, *body)))
        with pytest.raises(Fault, match="iterations of the parallel loop over j"):
            verified(given)


def test_what_an_iteration_hands_on_is_not_there_in_another_order():
    before = Store(Y, (R, C), load(Y, (R, C - 1)))
    started = loop(C, before, start=const(1, INDEX))
    with pytest.raises(Fault, match=r"read before it is written"):
        evaluated(kernel(loop(R, started)), shuffled(0))
    total = local(F8, "total")
    running = loop(C, Assign((total,), (total + 1.0,)), COPY)
    with pytest.raises(Fault, match="leaves a local for the next"):
        verified(kernel(loop(R, Let((total,), (const(0.0, F8),)), running)))


def test_a_row_belongs_to_an_iteration_of_the_whole_band():
    """Another one of the inner loop may be another thread's."""
    fill = loop(K, Store(ROW, (K,), load(X, (R, C)) + 1.0), parallel=False)
    use = Store(Y, (R, C), load(ROW, (const(2, INDEX),)))
    given = kernel(loop(R, loop(C, fill, use)), scratch=(ROW,))
    assert verified(given)
    np.testing.assert_array_equal(evaluated(given, shuffled(2)), evaluated(given, range))

    first = If(eq(C, ZERO), (fill,))
    one_thread = kernel(loop(R, loop(C, first, use, parallel=False)), scratch=(ROW,))
    assert verified(one_thread)
    evaluated(one_thread, shuffled(0))
    many = kernel(loop(R, loop(C, first, use)), scratch=(ROW,))
    with pytest.raises(Fault, match=r"row\[2\] is read before it is written in the same iteration"):
        verified(many)
    with pytest.raises(Fault, match=r"row\[2\] is read before it is written"):
        evaluated(many, range)
