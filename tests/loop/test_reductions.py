"""Lowering of folds to loops: shared loops for equal extents, pairwise sums, partial results."""

from math import prod

import numpy as np
import pytest

from functrans.loop.nodes import INDEX, fold
from functrans.loop.reductions import lower_folds
from functrans.loop.scalar import const, postorder
from functrans.loop.scalar import evaluate as evaluate_scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Kernel, Reduce, Store, buffer, load
from functrans.loop.target import CPU
from functrans.loop.walk import walk
from tests.loop.evaluate import Memory, evaluate

F8, F4 = np.dtype(float), np.dtype("f4")
RNG = np.random.default_rng(0)
ROWS, COLUMNS = 40, 300


def lowered(make, shape=(COLUMNS,), lanes=4, dtype=F8):
    """The statements for expressions of an array, and what these come to."""
    x = buffer("x", dtype, shape)
    statements, values = lower_folds(make(x), lanes, Simplifier(), CPU)
    y = buffer("y", dtype, (len(values),))
    stores = [Store(y, (const(i, INDEX),), value) for i, value in enumerate(values)]
    kernel = Kernel((x, y), 0, (*statements, *stores))
    a, b = RNG.standard_normal(shape).astype(dtype), np.zeros(len(values), dtype)
    evaluate(kernel, [Memory(a, True), Memory(b, False)], ())
    assert not any(node.op == "fold" for node in postorder(values))
    return statements, a, b


def reductions(statements):
    return [each for each in walk(statements) if isinstance(each, Reduce)]


def terms(reduce):
    """How many numbers are added one after the other, in the first of the blocks."""
    bounds = [bound for _, *pair in reduce.loops for bound in pair]
    first = {node: 0 for node in postorder(bounds) if node.op == "index"}
    extents = [evaluate_scalar(b, first) - evaluate_scalar(a, first) for _, a, b in reduce.loops]
    return -(-prod(extents) // reduce.lanes)


def maximum(x):
    return fold("max", (COLUMNS,), lambda k: load(x, (k,)))


def test_one_maximum_is_one_loop():
    statements, a, found = lowered(lambda x: [maximum(x) * 2])
    (loop,) = reductions(statements)
    assert (loop.ops, loop.body) == (("max",), ())
    assert [stop.attribute for _, _, stop in loop.loops] == [COLUMNS]
    np.testing.assert_array_equal(found, [a.max() * 2])


def test_equal_extents_share_a_loop():
    statements, a, found = lowered(
        lambda x: [maximum(x), fold("min", (COLUMNS,), lambda k: load(x, (k,)) * 3)]
    )
    (loop,) = reductions(statements)
    assert loop.ops == ("max", "min")
    np.testing.assert_array_equal(found, [a.max(), (a * 3).min()])


def test_what_needs_another_comes_after_it():
    """A sum of what is above half the maximum."""

    def make(x):
        most = maximum(x)
        return [fold("max", (COLUMNS,), lambda k: most - load(x, (k,)))]

    statements, a, found = lowered(make)
    assert len(statements) == 2 and len(reductions(statements)) == 2
    np.testing.assert_array_equal(found, [(a.max() - a).max()])


def test_a_fold_inside_of_a_fold_is_a_loop_inside():
    def make(x):
        def row(i):
            return fold("min", (COLUMNS,), lambda k: load(x, (i, k)))

        return [fold("max", (ROWS,), row)]

    statements, a, found = lowered(make, (ROWS, COLUMNS))
    (outer,) = statements
    (inner,) = outer.body
    assert (outer.ops, inner.ops) == (("max",), ("min",))
    assert outer.lanes == 1
    np.testing.assert_array_equal(found, [a.min(axis=1).max()])


@pytest.mark.parametrize("lanes", [1, 4, 8])
@pytest.mark.parametrize("n", [17, 32, 33, 100, 1000, 4099])
def test_long_sums_are_sums_of_sums(n, lanes):
    statements, a, found = lowered(
        lambda x: [fold("add", (n,), lambda k: load(x, (k,)))], (n,), lanes
    )
    np.testing.assert_allclose(found, [a.sum()], rtol=1e-13, atol=1e-13)
    assert all(terms(each) <= 32 for each in reductions(statements))
    assert len(reductions(statements)) >= (2 if n > 32 * lanes * 4 else 1)


def test_integers_are_added_in_one_go():
    statements, *_ = lowered(
        lambda x: [fold("add", (1000,), lambda k: load(x, (k,)))], (1000,), dtype=np.dtype(int)
    )
    assert len(reductions(statements)) == 1


def test_without_folds_there_is_nothing_to_do():
    statements, a, found = lowered(lambda x: [load(x, (3,)) + 1])
    assert statements == []
    np.testing.assert_array_equal(found, [a[3] + 1])


@pytest.mark.parametrize(
    ("lanes", "count", "work", "number"),
    [(4, 1000, 0, 16), (1, 1000, 0, 1), (4, 5, 0, 4), (8, 17, 0, 16), (4, 1000, 60, 4)],
)
def test_partial_results(lanes, count, work, number):
    """Vectors of them, four for plain work, and no more than there are elements."""

    def value(x, k):
        v = load(x, (k,))
        for _ in range(work):
            v = v * v + 1.0
        return v

    statements, *_ = lowered(
        lambda x: [fold("max", (count,), lambda k: value(x, k))], (count,), lanes
    )
    assert [each.lanes for each in reductions(statements)] == ([number] if count > 16 else [])
