"""Terms of several sums are added in rounds: in their order, each once, whatever their number."""

import numpy as np
import pytest

from functrans.emit.llvm.kernel import emit
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import const
from functrans.loop.statements import For, Kernel, Reduce, Store, buffer, load, local, size
from functrans.run.code import native
from tests.emit.test_statements import by_llvm

ROUNDS = frozenset({"rounds"})
COLUMNS, LANES = 16, 8


def tile(rows, first, stop, dtype, most=300, apart=0):
    """Sums over some terms of a few rows times 16 columns; rows' terms may lie ``apart``."""
    x = buffer("x", dtype, (most, apart) if apart else (rows, most))
    y = buffer("y", dtype, (most, COLUMNS))
    out = buffer("out", dtype, (rows, COLUMNS))
    term, lane = index("k"), index("lane")
    numbers = [const(row, INDEX) for row in range(rows)]
    sums = tuple(local(dtype, f"sum{row}") for row in range(rows))
    places = [(term, row) if apart else (row, term) for row in numbers]
    values = tuple(load(x, place) * load(y, (term, lane)) for place in places)
    body = (
        Reduce(sums, ("add",) * rows, values, ((term, first, stop),)),
        *(Store(out, (row, lane), own, "add") for row, own in zip(numbers, sums, strict=True)),
    )
    loop = For(lane, const(0, INDEX), const(COLUMNS, INDEX), body, LANES, whole=True)
    return Kernel((x, y, out), 2, (loop,), ())


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)])
@pytest.mark.parametrize("rows", [2, 6])
@pytest.mark.parametrize("transposed", [False, True])
def test_each_term_is_added_once(rows, dtype, transposed):
    rng = np.random.default_rng(0)
    x, y = (rng.normal(scale=9, size=shape).astype(dtype) for shape in ((rows, 300), (300, 16)))
    for first, stop in (0, 0), (5, 0), (3, 4), (0, 3), (2, 6), (1, 32), (0, 33), (4, 300):
        results = []
        for instructions in frozenset(), ROUNDS:
            out = np.full((rows, COLUMNS), 3, dtype)
            given = [np.ascontiguousarray(x.T) if transposed else x, y, out]
            kernel = tile(rows, size(0), size(1), dtype, apart=rows * transposed)
            by_llvm(kernel, given, (first, stop), instructions=instructions)
            results.append(out)
        np.testing.assert_array_equal(*results)
        exact = 3 + x[:, first : max(first, stop)] @ y[first : max(first, stop)]
        np.testing.assert_allclose(results[1], exact, rtol=1e-4 if dtype == np.float32 else 1e-12)


def additions(kernel, instructions=ROUNDS):
    text = emit(kernel, instructions)
    native.compile_object(text)
    return text.count("fmul")


def test_a_round_has_four_terms_and_no_rest_where_none_is_left():
    f4, zero = np.dtype(np.float32), const(0, INDEX)
    assert additions(tile(6, zero, const(300, INDEX), f4), frozenset()) == 6
    assert additions(tile(6, zero, const(300, INDEX), f4)) == 4 * 6
    assert additions(tile(6, zero, const(299, INDEX), f4)) == 5 * 6
    assert additions(tile(6, zero, const(31, INDEX), f4)) == 6  # too few terms
    assert additions(tile(1, zero, const(300, INDEX), f4)) == 1  # one sum
    assert additions(tile(15, zero, const(300, INDEX), f4)) == 15  # more than registers hold
    assert additions(tile(6, zero, const(300, INDEX), f4, apart=16)) == 4 * 6
    assert additions(tile(6, zero, const(300, INDEX), f4, apart=17)) == 6  # not on one line


def test_the_lines_of_results_are_prefetched():
    kernel = tile(6, const(0, INDEX), const(300, INDEX), np.dtype(np.float32))
    assert emit(kernel, ROUNDS).count("call void @llvm.prefetch") == 2 * 6
    assert "llvm.prefetch" not in emit(kernel, frozenset())
