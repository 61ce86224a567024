"""Stores to neighbours from one vector loop: vectors transposed in registers."""

import re
from functools import partial

import numpy as np
import pytest

from functrans.emit.llvm.kernel import emit
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import const
from functrans.loop.statements import For, Kernel, Let, Store, buffer, load, local, size
from tests.emit.test_statements import by_llvm, by_text

ZERO = const(0, INDEX)
EXTENT = 32


def kernel(places, stride, lanes=8, dtype=np.float64, extent=EXTENT):
    """``y[stride i + places[k]] = x[k, i]``, for all of them in the body of one loop."""
    dtype = np.dtype(dtype)
    x = buffer("x", dtype, (len(places), extent))
    y = buffer("y", dtype, (stride * extent,))
    i = index("i", extent)
    names = [local(dtype, "v") for _ in places]
    loaded = [load(x, (k, i)) for k in range(len(places))]
    stores = [
        Store(y, (i * stride + place,), name) for place, name in zip(places, names, strict=True)
    ]
    body = (Let(tuple(names), tuple(loaded)), *stores)
    loop = For(i, ZERO, const(extent, INDEX), body, lanes=lanes, whole=extent % lanes == 0)
    return Kernel((x, y), 0, (loop,))


def check(made, places, stride, dtype=np.float64, extent=EXTENT, run=by_llvm):
    x = np.arange(len(places) * extent).reshape(-1, extent).astype(dtype)
    y = np.full(stride * extent, -1).astype(dtype)
    expected = y.reshape(extent, stride).copy()
    expected[:, places] = x.T
    run(made, [x, y], [])
    np.testing.assert_array_equal(y.reshape(extent, stride), expected)


def stores(made):
    """The types that are stored."""
    return re.findall(r"store (<\d+ x \w+>|\w+) ", emit(made))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.bool_])
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 8, 16])
def test_rows_without_gaps(count, lanes, dtype):
    made = kernel(range(count), count, lanes, dtype)
    check(made, range(count), count, dtype)
    # (rows whose number is no power of two need vectors of twice as many lanes)
    are_whole = all(kind.startswith("<") for kind in stores(made))
    assert are_whole == (count in (2, 4, 8, 16) or 2 * count <= lanes)


def test_pairs_are_interleaved_within_halves_of_registers_of_four_lanes():
    """LLVM would take six shuffles, each across halves."""
    made, pieces = kernel(range(2), 2, 4), frozenset({"pieces"})
    check(made, range(2), 2, run=partial(by_llvm, instructions=pieces))
    assert len(re.findall("shufflevector", emit(made, pieces))) == 3
    assert len(re.findall("shufflevector", emit(made))) == 1


@pytest.mark.parametrize("extent", [64, 70, 300])
@pytest.mark.parametrize(("count", "lanes"), [(4, 32), (4, 64), (8, 64)])
def test_bytes_in_short_rows_are_one_store(count, lanes, extent):
    made = kernel(range(count), count, lanes, np.uint8, extent)
    check(made, range(count), count, np.uint8, extent)
    assert f"<{count * lanes} x i8>" in stores(made)
    # rows of an eighth of a vector are transposed, and so are those that leave gaps
    assert f"<{2 * lanes} x i8>" not in stores(kernel(range(8), 8, 32, np.uint8, 64))
    made = kernel(range(count), count + 1, lanes, np.uint8, extent)
    check(made, range(count), count + 1, np.uint8, extent)


@pytest.mark.parametrize(
    ("places", "stride", "kinds"),
    [
        (range(8), 8, ["<8 x double>"] * 8),
        (range(1, 9), 11, ["<8 x double>"] * 8),
        # the rest goes number by number
        (range(6), 7, ["<4 x double>"] * 8 + ["double"] * 16),
        ([0, 1, 2, 3, 5, 6, 7, 8], 9, ["<4 x double>"] * 16),
        # a gap, and another order
        ([0, 2], 4, ["double"] * 16),
        ([1, 0], 2, ["double"] * 16),
        ([0, 1], 3, ["double"] * 16),
        ([0, 1], 2, ["<16 x double>"]),
    ],
)
def test_what_is_stored_together(places, stride, kinds):
    made = kernel(places, stride)
    assert stores(made) == kinds
    check(made, places, stride)
    check(made, places, stride, run=by_text)


def test_the_rest_of_a_loop_is_masked():
    made = kernel(range(8), 8, extent=21)
    check(made, range(8), 8, extent=21)


def test_what_is_read_from_the_same_memory_is_stored_in_order():
    # each number is that of the place before, which has been overwritten
    y = buffer("y", np.dtype(np.float64), (4 * EXTENT,))
    i = index("i", EXTENT)
    body = tuple(Store(y, (i * 4 + k,), load(y, (i * 4 + (k - 1),))) for k in (1, 2, 3))
    made = Kernel((y,), 0, (For(i, ZERO, const(EXTENT, INDEX), body, lanes=8, whole=True),))
    array = np.arange(4.0 * EXTENT)
    by_llvm(made, [array], [])
    np.testing.assert_array_equal(
        array.reshape(-1, 4), np.repeat(np.arange(0, 4.0 * EXTENT, 4), 4).reshape(-1, 4)
    )


@pytest.mark.parametrize("count", [4, 7, 16])
def test_rows_whose_distance_is_an_argument(count):
    # the array is read, too, but no stored value is computed from it
    x = buffer("x", np.dtype(np.float64), (count, EXTENT))
    y = buffer("y", np.dtype(np.float64), (EXTENT, size(0)))
    z = buffer("z", np.dtype(np.float64), (EXTENT,))
    i, j = index("i", EXTENT), index("j", EXTENT)
    body = tuple(Store(y, (i, const(k + 1, INDEX)), load(x, (k, i))) for k in range(count))
    again = (Store(z, (j,), load(y, (j, const(count, INDEX)))),)
    stop = const(EXTENT, INDEX)
    loops = For(i, ZERO, stop, body, lanes=16, whole=True), For(j, ZERO, stop, again)
    made = Kernel((x, y, z), 1, loops)
    whole = 1 << (count.bit_length() - 1)
    assert stores(made).count(f"<{whole} x double>") == 16
    for extent in (17, 19, 40):
        given = np.arange(1.0, count * EXTENT + 1).reshape(count, EXTENT)
        found, last = np.zeros((EXTENT, extent)), np.zeros(EXTENT)
        by_llvm(made, [given, found, last], [extent])
        expected = np.zeros((EXTENT, extent))
        expected[:, 1 : count + 1] = given.T
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(last, given[-1])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.bool_])
@pytest.mark.parametrize("extent", [32, 37])
def test_stores_in_reverse_are_reversed_vectors(dtype, extent):
    dtype = np.dtype(dtype)
    x, y = (buffer(name, dtype, (extent,)) for name in "xy")
    i, last = index("i", extent), const(extent - 1, INDEX)
    body = (Store(y, (last - i,), load(x, (i,))),)
    loop = For(i, ZERO, const(extent, INDEX), body, lanes=8, whole=extent % 8 == 0)
    made = Kernel((x, y), 0, (loop,))
    assert extent % 8 or "extractelement" not in emit(made)
    given = (np.arange(extent) % 5).astype(dtype)
    found = np.zeros(extent, dtype)
    by_llvm(made, [given, found], [])
    np.testing.assert_array_equal(found, given[::-1])
