"""Long reductions are split into blocks, on roots written by hand."""

import numpy as np
import pytest

from functrans.loop.nodes import INDEX, fold
from functrans.loop.reductions import lower_folds
from functrans.loop.scalar import const, convert
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import For, Kernel, Store, buffer, load
from functrans.loop.target import CPU
from functrans.lower.select.split_reductions import split_reductions
from functrans.lower.select.unrolling import Loops
from tests.emit.test_statements import by_llvm
from tests.lower.by_hand import done_by, root

F8 = np.dtype(float)
LONG = 200_001
RNG = np.random.default_rng(0)


def cut(one, loops):
    return done_by(split_reductions, one, loops, simplify=Simplifier())


def extents(one):
    return [loop.attribute[2] for loop in one.loops]


def statements_of(one):
    """A root as loops over its elements."""
    body = []
    for position, value in one.elements:
        before, (result,) = lower_folds([value], 1, Simplifier(), CPU)
        body += [*before, Store(one.target, position, result)]
    for loop in reversed(one.loops):
        body = [For(loop, const(0, INDEX), const(loop.attribute[2], INDEX), tuple(body))]
    return body


def test_a_long_sum_is_a_sum_of_sums():
    x, y = buffer("x", F8, (LONG,)), buffer("y", F8, ())
    whole = root(y, (), fold("add", (LONG,), lambda k: load(x, (k,))), output=True)
    partial, last = cut(whole, Loops())
    assert (extents(partial), extents(last)) == ([64], [])
    assert last.target is y and last.output
    assert list(last.loads) == [partial.target]
    # 64 does not divide the length: the last block is shorter
    (steps,) = (inner.attribute[1][0].attribute[2] for inner in partial.folds)
    assert steps == -(-LONG // 64)


@pytest.mark.parametrize(
    ("rows", "count", "blocks"), [(30, 5000, 2), (3, 50_001, 21), (17, 9000, 3)]
)
def test_every_number_once(rows, count, blocks):
    x, y = buffer("x", F8, (rows, count)), buffer("y", F8, (rows,))
    loops = Loops()
    (i,) = loops((rows,))
    value = fold("add", (count,), lambda k: load(x, (i, k))) * 2.0
    partial, last = cut(root(y, (i,), value), loops)
    assert (extents(partial), extents(last)) == ([blocks, rows], [rows])
    a, parts = RNG.standard_normal((rows, count)), np.zeros((blocks, rows, 1))
    found = np.zeros(rows)
    body = (*statements_of(partial), *statements_of(last))
    by_llvm(Kernel((x, partial.target, y), 0, body), [a, parts, found], [])
    np.testing.assert_allclose(found, a.sum(1) * 2, rtol=1e-12, atol=1e-12)


def test_sums_over_the_same_share_their_blocks():
    x, y = buffer("x", F8, (LONG,)), buffer("y", F8, (2,))
    values = [
        fold("add", (LONG,), lambda k: load(x, (k,))),
        fold("max", (LONG,), lambda k: load(x, (k,)) * 3.0),
    ]
    elements = tuple(((const(i, INDEX),), value) for i, value in enumerate(values))
    whole = root(y, (), values[0])
    whole = type(whole)(y, (), (), elements)
    partial, last = cut(whole, Loops())
    assert [n.attribute for n in partial.target.shape] == [64, 2]
    assert [each.attribute[0] for each in last.folds] == ["add", "max"]


def test_other_dtypes_have_blocks_of_their_own():
    x, y = buffer("x", F8, (LONG,)), buffer("y", F8, ())
    n = buffer("n", INDEX, (LONG,))
    value = fold("add", (LONG,), lambda k: load(x, (k,))) + convert(
        fold("add", (LONG,), lambda k: load(n, (k,))), F8
    )
    *partial, _ = cut(root(y, (), value), Loops())
    assert {one.target.dtype for one in partial} == {F8, INDEX}


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        (0, 1000),  # short
        (600, 1000),  # threads have rows enough
        (10, 40),  # too short for blocks
    ],
)
def test_what_stays(rows, count):
    x, y = buffer("x", F8, (rows or 1, count)), buffer("y", F8, (rows,) if rows else ())
    loops = Loops()
    indices = loops((rows,) if rows else ())
    value = fold("add", (count,), lambda k: load(x, (*(indices or (0,)), k)))
    one = root(y, indices, value)
    assert cut(one, loops) == [one]


def test_a_sum_inside_of_a_sum_stays():
    x, y = buffer("x", F8, (500, 500)), buffer("y", F8, ())
    value = fold("max", (500,), lambda i: fold("add", (500,), lambda k: load(x, (i, k))))
    one = root(y, (), value)
    assert cut(one, Loops()) == [one]


def test_rows_that_are_almost_enough_stay_whole():
    """64 parts of 50 rows of 70 would be of two columns each."""
    x, y = buffer("x", F8, (60, 50, 70)), buffer("y", F8, (60,))
    loops = Loops()
    (i,) = loops((60,))
    value = fold("add", (50, 70), lambda k, m: load(x, (i, k, m)))
    assert len(cut(root(y, (i,), value), loops)) == 1


def test_rows_from_memory_are_in_blocks():
    """However many columns there are: each block of rows is read in order."""
    x, y = buffer("x", F8, (3200, 1000)), buffer("y", F8, (1000,))
    loops = Loops()
    (i,) = loops((1000,))
    value = fold("add", (3200,), lambda k: load(x, (k, i)))
    partial, last = cut(root(y, (i,), value), loops)
    assert (extents(partial), extents(last)) == ([25, 1000], [1000])


@pytest.mark.parametrize(
    ("shape", "blocks"), [((60, 50, 70), 60), ((3, 50, 1000), 50), ((3, 50, 9000), 64)]
)
def test_contiguous_terms_stay_together(shape, blocks):
    """64 parts of 70 adjacent terms would be of two each."""
    x, y = buffer("x", F8, shape), buffer("y", F8, ())
    value = fold("add", shape, lambda *k: load(x, k))
    partial, _ = cut(root(y, (), value), Loops())
    assert extents(partial) == [blocks]
