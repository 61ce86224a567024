"""The loop of a kernel that threads share."""

import ctypes

import numpy as np
import pytest

from functrans.emit.llvm.kernel import ENTRY, emit
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import const
from functrans.loop.statements import For, Kernel, Store, buffer, load
from functrans.run.code import cache

X, OUT = buffer("x", float, (40,)), buffer("out", float, (40,))
ROW = index("i", 40)


def kernel(start):
    store = Store(OUT, (ROW,), load(X, (ROW,)))
    loop = For(ROW, const(start, INDEX), const(40, INDEX), (store,), parallel=True)
    return Kernel((X, OUT), 0, (loop,))


def test_threads_share_a_loop_from_0_on():
    made = kernel(0)
    assert made.parallel is made.body[0]


@pytest.mark.parametrize("start", [1, 4])
def test_a_loop_that_starts_elsewhere_is_one_threads(start):
    """The parts of a range that threads are given count from 0."""
    assert kernel(start).parallel is None


@pytest.mark.parametrize("start", [0, 4])
def test_machine_code_does_the_iterations_of_the_loop_and_no_others(start):
    code = cache.load(emit(kernel(start)), ENTRY, {})
    flag, x, out = np.zeros(11, np.int64), np.arange(40.0), np.full(40, -1.0)
    words = np.array([one.ctypes.data for one in (flag, x, out)], np.int64)
    extent = 40 if kernel(start).parallel is not None else 0
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(code.address)
    run(0, extent, words.ctypes.data)
    np.testing.assert_array_equal(out, np.where(np.arange(40) < start, -1.0, x))
