"""Sharing loops among threads, without the rest of the compiler."""

import ctypes
import subprocess
import sys
import threading
from itertools import pairwise

import pytest

from functrans import config
from functrans.run.threads import workers as threads
from functrans.run.threads.pool import SHARE

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
POINTERS = (ctypes.c_void_p,) * 3
NUMBERS = (ctypes.c_int64,) * 3


@pytest.fixture
def share():
    """The native function, with threads to share with."""
    before = config.threads
    address = threads.record()
    config.threads = 4
    native = ctypes.CFUNCTYPE(None, *POINTERS, *NUMBERS)(int(threads._record[SHARE]))
    yield lambda kernel, *numbers: native(
        address, ctypes.cast(kernel, ctypes.c_void_p), 0, *numbers
    )
    config.threads = before


@pytest.mark.parametrize("extent", [1, 2, 7, 8, 63, 64, 65, 999, 1000, 100_001])
@pytest.mark.parametrize("grain", [1, 8, 64])
@pytest.mark.parametrize("number", [2, 3, 4])
def test_each_index_is_done_once(share, extent, grain, number):
    parts = []
    share(KERNEL(lambda start, stop, _: parts.append((start, stop))), extent, grain, number)
    parts.sort()
    assert parts[0][0] == 0
    assert parts[-1][1] == extent
    assert all(one[1] == other[0] for one, other in pairwise(parts))
    assert all((stop - start) % grain == 0 for start, stop in parts[:-1])


def test_several_threads_take_part(share):
    """Each waits for the other, and says when it has come; what a callback raises is lost."""
    both = threading.Barrier(2, timeout=60)
    arrived = []

    def kernel(start, _stop, _data):
        both.wait()
        arrived.append(start)

    share(KERNEL(kernel), 2, 1, 2)
    assert sorted(arrived) == [0, 1]


def test_one_slow_part_does_not_keep_the_others_waiting(share):
    """While one thread is held up, the other does all that is left, also of the first one's."""
    done = []
    rest = threading.Event()

    def kernel(start, _stop, _data):
        if start == 0:
            assert rest.wait(60)
        done.append(start)
        if len(done) == 7:
            rest.set()

    share(KERNEL(kernel), 8, 1, 2)
    assert sorted(done) == list(range(8))


def test_many_short_loops_one_after_the_other(share):
    done = []
    kernel = KERNEL(lambda start, stop, _: done.append(stop - start))
    for number in range(2000):
        share(kernel, 16, 1, 2 + number % 3)
    assert sum(done) == 16 * 2000


def test_with_no_threads_to_be_had_the_caller_works_alone(share, monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    started = threads._started
    monkeypatch.setattr(threads._thread, "start_new_thread", refuse)
    config.threads = started + 10
    assert threads._record[threads.THREADS] == started + 1


def test_threads_have_enough_stack_whatever_the_program_gives_its_own(share, monkeypatch):
    def stack():
        size = threading.stack_size(0)  # which sets it
        threading.stack_size(size)
        return size

    stacks = []
    monkeypatch.setattr(threads._thread, "start_new_thread", lambda *_: stacks.append(stack()))
    started = threads._started
    monkeypatch.setattr(threads, "_started", started)
    before = threading.stack_size(64 * 1024)
    try:
        config.threads = started + 3
        assert stack() == 64 * 1024
        threading.stack_size(1 << 26)
        config.threads = started + 4
    finally:
        threading.stack_size(before)
    assert stacks == [1 << 20, 1 << 20, 1 << 26]


@pytest.mark.full
def test_a_process_ends_with_its_threads_asleep_or_awake():
    for pause in (0, 0.1):
        code = f"""
import time, numpy as np, functrans
functrans.config.threads = 3
print(functrans.jit(np.cos)(np.zeros(1_000_000)).sum())
time.sleep({pause})
"""
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert run.stdout == "1000000.0\n"
        assert run.stderr == ""
