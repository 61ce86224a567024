"""Vectors that are stored at cache lines: the results, wherever rows begin, and which loops."""

import numpy as np
import pytest

from functrans import config, jit
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import const
from functrans.loop.statements import For, Kernel, Store, buffer, load
from functrans.run.code import native
from tests.emit.test_statements import by_llvm

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8])
def test_rows_that_begin_anywhere(dtype):
    """Rows of 24 vectors and more, whose first element is at each place within a cache line."""
    length = 26 * 64 // np.dtype(dtype).itemsize
    for more in (1, 3, 8):
        x = RNG.integers(-9, 9, (5, length + more)).astype(dtype)
        compiled = jit(lambda x: x[1:, 1:-1] - x[:-1, :-2] + 2 * x[:-1, 2:])
        expected = x[1:, 1:-1] - x[:-1, :-2] + 2 * x[:-1, 2:]
        for threads in (1, 2, 5):
            config.threads = threads
            np.testing.assert_array_equal(compiled(x), expected)


def test_a_range_of_which_threads_take_parts():
    compiled = jit(lambda x: x[1:] - x[:-1])
    for start in range(4):
        x = RNG.standard_normal(100_003)[start:]
        for threads in (1, 2, 5):
            config.threads = threads
            np.testing.assert_array_equal(compiled(x), np.diff(x))


@pytest.mark.parametrize("first", [290, 295, 299])
def test_parts_of_fewer_iterations_than_lanes(first):
    """A thread may take a single iteration, and writes nothing beyond it."""
    count = 300
    x, y = buffer("x", np.dtype(float), (count,)), buffer("y", np.dtype(float), (count,))
    k = index("k", count)
    body = (Store(y, (k,), load(x, (k,)) + 1.0),)
    loop = For(k, ZERO, const(count, INDEX), body, lanes=8, parallel=True, repeatable=True)
    given, found = np.arange(count + 8.0), np.full(count + 8, -1.0)
    by_llvm(Kernel((x, y), 0, (loop,)), [given, found], [], (first, count))
    np.testing.assert_array_equal(found[first:count], given[first:count] + 1)
    assert (found[count:] == -1).all()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x[:, 1:] - x[:, :-1], True),
        (lambda x: x[:, 1:150] - x[:, :149], False),  # short rows
        (lambda x: np.exp(x[:, 1:]), False),  # memory does not delay it
        (lambda x: np.sum(x, 0) + x[0], False),
        (lambda x: x[:, 2:] > x[:, :-2], False),  # eight bytes
    ],
)
def test_which_loops(function, expected):
    text = jit(function).lower(np.ones((40, 1003))).llvm()
    assert ("ptrtoint" in text) == (expected and native.vector_bytes() == 64)
