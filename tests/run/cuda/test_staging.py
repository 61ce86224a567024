"""Copies to a GPU through pinned memory, which is reused after the transfer."""

import ctypes

import numpy as np
import pytest

import functrans
from functrans import device_put, jit
from functrans.run.cuda import staging
from functrans.run.cuda.staging import MOST, Staging
from tests.run.cuda.conftest import close
from tests.run.cuda.stub import Stub, stubs

WAITS = ("synchronize", "reach")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Pieces that arrays of some numbers fill, and streams that have none yet."""
    monkeypatch.setattr(staging, "PIECE", 256)
    monkeypatch.setattr(staging, "LARGE", 64)
    functrans.clear_caches()
    yield
    functrans.clear_caches()


class Late(Stub):
    """A GPU that copies from the host when somebody waits for it."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.delayed_events = True
        self.late = []

    def copy_in(self, address, source, stream):
        super().copy_in(address, source, stream)
        self.late.append((address, source))
        ctypes.memset(address, 0xEE, source.nbytes)

    def _come(self):
        for address, source in self.late:
            ctypes.memmove(address, source.ctypes.data, source.nbytes)
        self.late.clear()

    def reach(self, event):
        super().reach(event)
        self._come()

    def synchronize(self, stream=None):
        super().synchronize(stream)
        self._come()

    def copy_out(self, target, address, stream):
        self._come()
        super().copy_out(target, address, stream)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 31, 32, 33, 100, 600])
def test_numbers_come_whatever_becomes_of_the_array(size):
    with stubs(kind=Late) as (gpu,):
        x = np.arange(float(size))
        there = device_put(x)
        x += 1
        np.testing.assert_array_equal(np.asarray(there), np.arange(float(size)))
        del there
        functrans.clear_caches()
        close(gpu)


def test_pieces_are_not_filled_again_too_early():
    with stubs(kind=Late) as (gpu,):
        arrays = [np.full(20, float(i)) for i in range(5 * MOST)]
        there = [device_put(x) for x in arrays]
        assert gpu.count("pinned") <= MOST + 1
        for x, found in zip(arrays, there, strict=True):
            np.testing.assert_array_equal(np.asarray(found), x)
        del there, found
        functrans.clear_caches()
        close(gpu)


def test_a_piece_that_was_taken_is_filled_again(gpu):
    staged = Staging(gpu.stream())
    for _ in range(50):
        assert staged.room(200).nbytes == 200
    assert gpu.count("pinned") == 1
    assert gpu.count("reach") == 0
    del staged


def test_small_numbers_share_a_piece(gpu):
    staged = Staging(gpu.stream())
    first, second = staged.room(8), staged.room(8)
    assert second.ctypes.data - first.ctypes.data == 64
    del staged


def test_numbers_of_python_are_not_waited_for(emulated):
    x, scale = device_put(np.ones(3)), jit(lambda x, c: x * c)
    scale(x, 0.5)
    before = [emulated.count(name) for name in WAITS]
    for turn in range(30):
        found = scale(x, 0.1 * turn)
        y = x + 0.01 * turn
    assert [emulated.count(name) for name in WAITS] == before
    np.testing.assert_allclose(np.asarray(found), 2.9)
    np.testing.assert_allclose(np.asarray(y), 1.29)


def test_large_arrays_do_not_wait_for_kernels(emulated):
    """They go on a stream of their own, of which kernels wait for the writing alone."""
    x = device_put(np.arange(40.0))
    double = jit(lambda x: 2 * x)
    y = double(x)
    later = device_put(np.arange(50.0))
    assert x.memory.stream is later.memory.stream is not y.memory.stream
    kernels = y.memory.stream
    assert not any(each is kernels for each in later.memory.stream.clock)
    z = double(later)
    np.testing.assert_array_equal(np.asarray(z), 2 * np.arange(50.0))
    # and what is freed makes no transfer wait for kernels
    del x, later
    assert not any(each is kernels for each in emulated.transfers().clock)
