"""Loads of neighbours with a stride from one vector loop: vectors transposed in registers."""

import re

import numpy as np
import pytest

from functrans.emit.llvm.kernel import emit
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import const
from functrans.loop.statements import Assign, For, Kernel, Let, Store, buffer, load, local, size
from tests.emit.test_statements import by_llvm, by_text

ZERO = const(0, INDEX)
EXTENT = 32


def kernel(places, stride, lanes=8, dtype=np.float64, extent=EXTENT):
    """``y[k, i] = x[stride i + places[k]]``, for all of them in the body of one loop."""
    dtype = np.dtype(dtype)
    x = buffer("x", dtype, (stride * extent,))
    y = buffer("y", dtype, (len(places), extent))
    i = index("i", extent)
    body = tuple(
        Store(y, (const(k, INDEX), i), load(x, (i * stride + place,)))
        for k, place in enumerate(places)
    )
    loop = For(i, ZERO, const(extent, INDEX), body, lanes=lanes, whole=extent % lanes == 0)
    return Kernel((x, y), 0, (loop,))


def check(made, places, stride, dtype=np.float64, extent=EXTENT, run=by_llvm):
    x = (np.arange(stride * extent) % 251).astype(dtype)
    y = np.zeros((len(places), extent), dtype)
    run(made, [x, y], [])
    np.testing.assert_array_equal(y, x.reshape(extent, stride)[:, places].T)


def loads(made):
    """The types of what is loaded, and how many gathers there are."""
    text = emit(made)
    kinds = re.findall(r"= load (<\d+ x \w+>)", text)
    return kinds, len(re.findall(r"= call .*masked.gather", text))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.bool_])
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("count", [4, 8, 11, 16])
def test_rows_with_gaps(count, lanes, dtype):
    made = kernel(range(1, count + 1), count + 9, lanes, dtype)
    check(made, range(1, count + 1), count + 9, dtype)
    assert loads(made)[1] == 0


@pytest.mark.parametrize(
    ("places", "stride", "kinds", "gathers"),
    [
        (range(8), 24, ["<8 x double>"] * 8, 0),
        (range(12), 12, ["<8 x double>"] * 8 + ["<4 x double>"] * 8, 0),
        # the last vectors overlap those before them
        (range(7), 20, ["<4 x double>"] * 16, 0),
        (range(6), 20, ["<4 x double>"] * 8 + ["<2 x double>"] * 8, 0),
        (range(15), 15, ["<8 x double>"] * 16, 0),
        # what is left alone is gathered
        (range(9), 9, ["<8 x double>"] * 8, 1),
        (range(3), 17, ["<2 x double>"] * 8, 1),
        # in another order, with a gap
        ([3, 2, 1, 0], 19, ["<4 x double>"] * 8, 0),
        ([0, 1, 2, 4, 5, 6, 7], 19, ["<2 x double>"] * 8 + ["<4 x double>"] * 8, 1),
    ],
)
def test_what_is_loaded_together(places, stride, kinds, gathers):
    made = kernel(places, stride)
    assert loads(made) == (kinds, gathers)
    check(made, places, stride)
    check(made, places, stride, run=by_text)


def test_the_rest_of_a_loop_is_masked():
    made = kernel(range(8), 9, extent=21)
    check(made, range(8), 9, extent=21)


def test_rows_of_a_length_that_is_an_argument():
    x = buffer("x", np.dtype(np.float64), (0, size(0)))
    y = buffer("y", np.dtype(np.float64), (8, EXTENT))
    i = index("i", EXTENT)
    body = tuple(
        Store(y, (const(k, INDEX), i), load(x, (i, const(k + 2, INDEX)))) for k in range(8)
    )
    made = Kernel((x, y), 1, (For(i, ZERO, const(EXTENT, INDEX), body, lanes=8, whole=True),))
    assert loads(made) == (["<8 x double>"] * 8, 0)
    given, found = np.random.default_rng(0).random((EXTENT, 21)), np.zeros((8, EXTENT))
    by_llvm(made, [given, found], [21])
    np.testing.assert_array_equal(found, given[:, 2:10].T)


def test_what_is_stored_to_is_read_again():
    """Each number is that of the place before, which has just been overwritten."""
    y = buffer("y", np.dtype(np.float64), (9 * EXTENT,))
    i = index("i", EXTENT)
    body = tuple(Store(y, (i * 9 + k,), load(y, (i * 9 + (k - 1),))) for k in range(1, 6))
    made = Kernel((y,), 0, (For(i, ZERO, const(EXTENT, INDEX), body, lanes=8, whole=True),))
    found = np.arange(9.0 * EXTENT)
    by_llvm(made, [found], [])
    expected = np.arange(9.0 * EXTENT).reshape(-1, 9)
    expected[:, 1:6] = expected[:, :1]
    np.testing.assert_array_equal(found.reshape(-1, 9), expected)


def test_what_is_read_before_it_is_stored_to_is_loaded_together():
    """The rows of a buffer are reversed in place."""
    y = buffer("y", np.dtype(np.float64), (EXTENT, 8))
    i = index("i", EXTENT)
    names = tuple(local(np.dtype(np.float64)) for _ in range(8))
    places = [(i, const(k, INDEX)) for k in range(8)]
    take = Let(names, tuple(load(y, place) for place in places))
    put = tuple(Store(y, place, name) for place, name in zip(places, names[::-1], strict=True))
    loop = For(i, ZERO, const(EXTENT, INDEX), (take, *put), lanes=8, whole=True)
    made = Kernel((y,), 0, (loop,))
    assert loads(made) == (["<8 x double>"] * 8, 0)
    given = np.random.default_rng(0).random((EXTENT, 8))
    found = given.copy()
    by_llvm(made, [found], [])
    np.testing.assert_array_equal(found, given[:, ::-1])


def test_a_place_that_is_assigned_to_is_read_again():
    """Half of the loads are behind an assignment to what their place is made of."""
    x = buffer("x", np.dtype(np.float64), (9 * EXTENT + 9,))
    y = buffer("y", np.dtype(np.float64), (8, EXTENT))
    i, shift = index("i", EXTENT), local(INDEX, "shift")

    def copies(rows):
        return tuple(
            Store(y, (const(4 * half + k, INDEX), i), load(x, (i * 9 + shift + k,)))
            for half in rows
            for k in range(4)
        )

    body = (
        Let((shift,), (ZERO,)),
        *copies([0]),
        Assign((shift,), (const(9, INDEX),)),
        *copies([1]),
    )
    made = Kernel((x, y), 0, (For(i, ZERO, const(EXTENT, INDEX), body, lanes=8, whole=True),))
    given, found = np.arange(9.0 * EXTENT + 9), np.zeros((8, EXTENT))
    by_llvm(made, [given, found], [])
    rows = given.reshape(-1, 9)[:, :4].T
    np.testing.assert_array_equal(found, np.concatenate([rows[:, :-1], rows[:, 1:]]))


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("count", [4, 8, 13])
def test_rows_that_data_point_at(count, lanes):
    x = buffer("x", np.dtype(np.float64), (20, 15))
    y = buffer("y", np.dtype(np.float64), (count, EXTENT))
    rows = buffer("rows", INDEX, (EXTENT,))
    i = index("i", EXTENT)
    body = tuple(
        Store(y, (const(k, INDEX), i), load(x, (load(rows, (i,)), const(k + 1, INDEX))))
        for k in range(count)
    )
    loop = For(i, ZERO, const(EXTENT, INDEX), body, lanes=lanes, whole=True)
    made = Kernel((x, rows, y), 0, (loop,))
    rng = np.random.default_rng(0)
    given, places = rng.random((20, 15)), rng.integers(0, 20, EXTENT)
    found = np.zeros((count, EXTENT))
    by_llvm(made, [given, places, found], [])
    np.testing.assert_array_equal(found, given[places, 1 : count + 1].T)
    assert f"<{min(lanes, 1 << (count.bit_length() - 1))} x double>" in loads(made)[0]
