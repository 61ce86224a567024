"""Loop tiling on nests written by hand: which loops are tiled; each element is computed once."""

from dataclasses import replace

import numpy as np
import pytest

from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import const
from functrans.loop.statements import For, Let, Reduce, Store, buffer, load, local
from functrans.loop.walk import walk
from functrans.lower.nest.tiling import tiled
from tests.lower.by_hand import done_by, results

F8 = np.dtype(float)
ZERO = const(0, INDEX)


def turned(rows, columns, width=None, lanes=8, across=True):
    """``y[i, j] = x[j, i]``, with vectors along j; the rows of x have a width."""
    width = rows if width is None else width
    x = buffer("x", F8, (columns, width) if across else (rows, columns))
    y = buffer("y", F8, (rows, columns))
    i, j = index("i", rows), index("j", columns)
    value = load(x, (j, i) if across else (i, j)) * 2.0
    inner = For(j, ZERO, const(columns, INDEX), (Store(y, (i, j), value),), lanes=lanes)
    return For(i, ZERO, const(rows, INDEX), (inner,)), x, y


def extents(loop):
    return [each.index.attribute[2] for each in walk([loop]) if isinstance(each, For)]


@pytest.mark.few(1)
@pytest.mark.parametrize("lanes", [2, 8])
@pytest.mark.parametrize(
    ("rows", "columns"), [(2, 40), (13, 40), (64, 64), (100, 70), (33, 2000), (600, 40)]
)
def test_every_element_once(rows, columns, lanes):
    if rows <= 16 and lanes == 2:
        return  # it stays
    loop, x, y = turned(rows, columns, width=16_384, lanes=lanes)  # lines a power of two apart
    done = done_by(tiled, loop)
    assert done is not loop
    a = np.arange(float(columns * rows)).reshape(columns, rows)
    whole = np.zeros((columns, 16_384))
    whole[:, :rows] = a
    (found,) = results([done], {x: whole}, [y])
    np.testing.assert_array_equal(found, a.T * 2)


@pytest.mark.dear
def test_blocks_are_inside_a_loop_that_threads_can_share():
    """``y[i, k, j] = x[j, k, i]``: all of a row is read before the next k."""
    for between, expected in ((20, [20, 6]), (3, [6, 3])):
        loop, *_ = turned(96, 64)
        k = index("k", between)
        x, y = buffer("x", F8, (64, between, 96)), buffer("y", F8, (96, between, 64))
        i, j = loop.index, loop.body[0].index
        store = Store(y, (i, k, j), load(x, (j, k, i)) * 2.0)
        vector = replace(loop.body[0], body=(store,))
        loop = replace(loop, body=(For(k, ZERO, const(between, INDEX), (vector,)),))
        done = done_by(tiled, loop)
        assert extents(done)[:2] == expected
        a = np.arange(64.0 * between * 96).reshape(64, between, 96)
        (made,) = results([done], {x: a}, [y])
        np.testing.assert_array_equal(made, a.T * 2)


def test_the_loops_that_come_out():
    """Blocks of rows; tiles of columns; eight of a block's rows together; a tile's columns."""
    loop, *_ = turned(64, 256, width=16_384)
    done = done_by(tiled, loop)
    nest = [each for each in walk([done]) if isinstance(each, For)]
    assert extents(done)[:3] == [4, 32, 8]
    assert [each.lanes for each in nest] == [1, 1, 1, 8, 1, 8]
    assert len(nest[3].body) == 8 and nest[3].whole
    # the rows that are left one by one
    assert nest[4].index is loop.index and nest[5].index is loop.body[0].index


def test_what_is_in_the_cache_needs_no_tiles():
    done = done_by(tiled, turned(64, 64)[0])
    assert extents(done) == [4, 8, 64, 64, 64]


def test_all_of_few_rows_together():
    loop, *_ = turned(12, 64)
    done = done_by(tiled, loop)
    assert done.index is loop.body[0].index and len(done.body) == 12


def test_short_vectors_take_no_rows_together():
    done = done_by(tiled, turned(64, 64, width=16_384, lanes=2)[0])
    assert [each.lanes for each in walk([done]) if isinstance(each, For)] == [1, 1, 1, 2]
    assert extents(done)[:2] == [4, 8]  # tiles of a cache line


def test_locals_of_rows_that_are_done_together_are_their_own():
    loop, x, y = turned(12, 40)
    (inner,) = loop.body
    (store,) = inner.body
    once, twice = local(F8), local(F8)
    lets = Let((once,), (store.value,)), Let((twice,), (once + 1.0,))
    body = (*lets, Store(y, store.indices, once * twice))
    done = done_by(tiled, replace(loop, body=(replace(inner, body=body),)))
    a = np.arange(480.0).reshape(40, 12)
    (found,) = results([done], {x: a}, [y])
    np.testing.assert_array_equal(found, (2 * a * (2 * a + 1)).T)
    targets = [x for each in walk([done]) if isinstance(each, Let) for x in each.targets]
    assert len(set(targets)) == 24


def test_a_long_loop_has_longer_blocks():
    done = done_by(tiled, turned(1024, 64, width=16_384)[0])
    assert extents(done)[0] == 16


@pytest.mark.parametrize("width", [28, 16_384])
def test_rows_that_are_not_enough_for_two_blocks_are_done_together(width):
    done = done_by(tiled, turned(28, 64, width=width)[0])
    together = [len(each.body) for each in walk([done]) if isinstance(each, For) and each.lanes > 1]
    assert together == [8, 1]


@pytest.mark.parametrize(
    "loop",
    [
        turned(64, 64, across=False)[0],  # in the order of memory
        turned(64, 64, lanes=1)[0],  # no vectors
        turned(16, 64, width=16_384, lanes=2)[0],  # too few rows to cut
        turned(64, 64, lanes=2)[0],  # all of it is in the cache
        turned(64, 64)[0].body[0],  # one loop
    ],
)
def test_what_stays(loop):
    assert done_by(tiled, loop) is loop


def test_loops_with_sums_inside_stay():
    loop, x, y = turned(64, 64, width=16_384)
    (inner,) = loop.body
    k, total = index("k", 5), local(F8)
    reduce = Reduce((total,), ("add",), (load(x, (inner.index, k)),), ((k, ZERO, const(5, INDEX)),))
    store = Store(y, (loop.index, inner.index), total)
    summed = For(inner.index, ZERO, inner.stop, (reduce, store), lanes=8)
    with_sum = For(loop.index, ZERO, loop.stop, (summed,))
    assert done_by(tiled, with_sum) is with_sum


@pytest.mark.parametrize(
    ("count", "apart", "together"),
    [(7, 64, [64, 8]), (8, 64, [8, 1, 8]), (8, 0, [72, 9])],
)
@pytest.mark.parametrize("width", [64, 16_384])
def test_only_what_is_read_across_is_combined(count, apart, together, width):
    """``y[i, j] = x[j, i]``, and copies beside it, or in its place: the last one stays the last."""
    loop, x, _ = turned(64, 64, width=width)
    i, j = loop.index, loop.body[0].index
    y, z = buffer("y", F8, (64, 64 + apart * count)), buffer("z", F8, (64, 64))
    places = [(i, j + (n + 1) * apart) for n in range(count)]
    copies = [Store(y, place, load(z, (i, j))) for place in places]
    body = (Store(y, (i, j), load(x, (j, i))), *copies)
    done = done_by(tiled, replace(loop, body=(replace(loop.body[0], body=body),)))
    vectors = [each for each in walk([done]) if isinstance(each, For) and each.lanes > 1]
    assert [len(each.body) for each in vectors] == together
    a, b = np.arange(64.0 * width).reshape(64, width), np.arange(4096.0).reshape(64, 64) + 0.5
    (made,) = results([done], {x: a, z: b}, [y])
    np.testing.assert_array_equal(made, np.hstack([a[:, :64].T, *[b] * count]) if apart else b)
