"""Several accumulators in one loop: the same sums as in separate folds."""

import numpy as np
import pytest

from functrans.loop.nodes import INDEX, fold, index
from functrans.loop.reductions import lower_folds
from functrans.loop.scalar import const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Store, buffer, load
from functrans.loop.target import CPU
from functrans.lower.nest.accumulators import with_accumulators
from tests.lower.by_hand import done_by, results
from tests.targets import target as made_up

F8 = np.dtype(float)


def folds(expressions):
    return [node for node in postorder(expressions) if node.op == "fold"]


def cut(expressions, count):
    return done_by(with_accumulators, expressions, count, simplify=Simplifier())


@pytest.mark.parametrize("op", ["add", "max"])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("n", [17, 40, 63, 100])
def test_every_number_once(op, count, n):
    x, y = buffer("x", F8, (n,)), buffer("y", F8, (1,))
    whole = fold(op, (n,), lambda k: load(x, (k,)))
    (value,) = cut([whole], count)
    parts = folds([value])
    assert len(parts) == count
    assert {part.args[1].attribute for part in parts} == {n // count}
    # in one loop, since they go over the same index
    assert len({part.attribute[1] for part in parts}) == 1
    statements, (value,) = lower_folds([value], 1, Simplifier(), CPU)
    a = np.random.default_rng(0).standard_normal(n)
    (found,) = results([*statements, Store(y, (const(0, INDEX),), value)], {x: a}, [y])
    np.testing.assert_allclose(found, [a.sum() if op == "add" else a.max()], rtol=1e-13)


def test_what_stays_as_it_is():
    x = buffer("x", F8, (100, 100))
    short = Simplifier()(load(x, (0, 0)))
    nested = fold("add", (50,), lambda i: fold("add", (50,), lambda k: load(x, (i, k))))
    whole = fold("add", (50,), lambda k: load(x, (0, k)))
    assert cut([short], 4) == [short]
    assert cut([nested], 4) == [nested]
    assert cut([whole], 1) == [whole]


def test_only_the_innermost_loop_is_cut():
    x = buffer("x", F8, (30, 40))
    whole = fold("add", (30, 40), lambda i, k: load(x, (i, k)))
    (value,) = cut([whole], 4)
    parts = folds([value])
    assert [[n.attribute for n in part.args[1:]] for part in parts] == [[30, 10]] * 4


def test_a_sum_that_ends_with_the_loop_around_stays():
    """Its length is not known."""
    x, i = buffer("x", F8, (100,)), index("i", 100)
    triangle = fold("add", (i,), lambda k: load(x, (k,)))
    assert cut([triangle], 4) == [triangle]


@pytest.mark.parametrize(("n", "count"), [(3, 2), (7, 4), (3, 4), (5, 4), (8, 4)])
def test_fewer_elements_than_two_for_each(n, count):
    """A fold over one element has no step; fewer elements than folds stay in one."""
    target = made_up(CPU, reductions={"shortest": 1})
    x, y = buffer("x", F8, (20, n)), buffer("y", F8, (1,))
    whole = fold("add", (20, n), lambda i, k: load(x, (i, k)))
    (value,) = done_by(with_accumulators, [whole], count, target=target, simplify=Simplifier())
    statements, (value,) = lower_folds([value], 1, Simplifier(), CPU)
    a = np.random.default_rng(0).standard_normal((20, n))
    (found,) = results([*statements, Store(y, (const(0, INDEX),), value)], {x: a}, [y])
    np.testing.assert_allclose(found, [a.sum()], rtol=1e-13)
