"""Vectors whose number of lanes is no power of two are divided into vectors of powers of two."""

import numpy as np
import pytest

from functrans.emit.llvm.kernel import emit
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import const
from functrans.loop.statements import For, Kernel, Reduce, Store, buffer, load, local, size
from functrans.run.code import native
from tests.emit.test_statements import by_llvm

QUARTERS = frozenset({"quarters"})

ZERO, TERMS = const(0, INDEX), size(1)


def tile(columns, lanes, whole, dtype, op=None):
    """Two rows of sums over terms, of a matrix by its terms times one by its columns."""
    dtype = np.dtype(dtype)
    x = buffer("x", dtype, (const(2, INDEX), TERMS))
    y = buffer("y", dtype, (TERMS, columns))
    out = buffer("out", dtype, (const(2, INDEX), columns))
    term, lane = index("k"), index("lane")
    rows = [const(row, INDEX) for row in (0, 1)]
    sums = tuple(local(dtype, f"sum{number}") for number in (0, 1))
    values = tuple(load(x, (row, term)) * load(y, (term, lane)) for row in rows)
    body = (
        Reduce(sums, ("add",) * 2, values, ((term, ZERO, TERMS),)),
        *(Store(out, (row, lane), own, op) for row, own in zip(rows, sums, strict=True)),
    )
    loop = For(lane, ZERO, columns, body, lanes, whole=whole)
    return Kernel((x, y, out), 2, (loop,), ())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lanes", [6, 12, 20, 24])
@pytest.mark.parametrize("columns", [1, 7, 16, 17, 20, 24, 25, 48, 60])
@pytest.mark.parametrize(("op", "instructions"), [(None, ()), ("add", ()), (None, {"pieces"})])
def test_sums_are_those_of_each_column(columns, lanes, dtype, op, instructions):
    rng = np.random.default_rng(0)
    for terms in (0, 1, 5, 8):
        x = rng.integers(-9, 9, (2, terms)).astype(dtype)
        y = rng.integers(-9, 9, (terms, columns)).astype(dtype)
        out = np.full((2, columns), 3, dtype)
        kernel = tile(size(0), lanes, columns % lanes == 0, dtype, op)
        by_llvm(kernel, [x, y, out], (columns, terms), instructions=instructions)
        np.testing.assert_array_equal(out, x @ y + (0 if op is None else 3))


def test_no_vector_has_another_number_of_lanes():
    text = emit(tile(size(0), 24, True, np.float64), QUARTERS)
    assert "<16 x double>" in text and "<8 x double>" in text and "<24 x double>" not in text
    native.compile_object(text)


def test_a_short_last_part_adds_four_terms_at_once():
    repeated = "<16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 1, "
    assert repeated not in emit(tile(size(0), 24, True, np.float32), QUARTERS)
    text = emit(tile(size(0), 20, True, np.float32), QUARTERS)
    assert text.count(repeated) == 2  # one for each row
    native.compile_object(text)


@pytest.mark.parametrize("lanes", [6, 13, 15])
def test_neighbours_of_an_odd_number_of_lanes_are_not_transposed(lanes):
    count, column, k = size(0), const(4, INDEX), index("k")
    x = buffer("x", np.dtype(float), (count, column))
    y = buffer("y", np.dtype(float), (count,))
    value = sum(
        (load(x, (k, const(n, INDEX))) * (n + 1.0) for n in range(1, 4)), load(x, (k, ZERO))
    )
    loop = For(k, ZERO, count, (Store(y, (k,), value),), lanes, whole=True)
    given, found = np.random.default_rng(0).normal(size=(2 * lanes, 4)), np.zeros(2 * lanes)
    by_llvm(Kernel((x, y), 1, (loop,), ()), [given, found], (2 * lanes,))
    np.testing.assert_allclose(found, given @ [1, 2, 3, 4])
