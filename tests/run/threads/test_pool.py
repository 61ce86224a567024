"""The thread pool, tested without the rest of the compiler."""

import ctypes
import subprocess
import sys
import threading
from itertools import pairwise

import pytest

from functrans import config
from functrans.loop.failures import INTERRUPTED
from functrans.run.call.steps import FLAG_WORDS
from functrans.run.threads import workers as threads
from functrans.run.threads.pool import SHARE

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
POINTERS = (ctypes.c_void_p,) * 3
NUMBERS = (ctypes.c_int64,) * 4
LOOK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@pytest.fixture
def share():
    """The native function, with threads to share with."""
    before = config.threads
    address = threads.record()
    config.threads = 4
    native = ctypes.CFUNCTYPE(None, *POINTERS, *NUMBERS)(int(threads._record[SHARE]))

    def call(kernel, extent, grain, number, longest=None, look=lambda _: None):
        looks = LOOK(look)
        flag = (ctypes.c_void_p * FLAG_WORDS)(0, ctypes.cast(looks, ctypes.c_void_p))
        data = (ctypes.c_void_p * 1)(ctypes.addressof(flag))
        code = ctypes.cast(kernel, ctypes.c_void_p)
        native(address, code, data, extent, grain, number, longest or extent)

    yield call
    config.threads = before


@pytest.mark.parametrize("extent", [1, 2, 7, 8, 63, 64, 65, 600, 999, 1000, 2600, 100_001])
@pytest.mark.parametrize("grain", [1, 8, 64, 256])
@pytest.mark.parametrize("number", [2, 3, 4])
def test_each_index_is_done_once(share, extent, grain, number):
    parts = []
    share(KERNEL(lambda start, stop, _: parts.append((start, stop))), extent, grain, number)
    parts.sort()
    assert parts[0][0] == 0
    assert parts[-1][1] == extent
    assert all(one[1] == other[0] for one, other in pairwise(parts))
    assert all((stop - start) % grain == 0 for start, stop in parts[:-1])


@pytest.mark.parametrize("longest", [64, 128, 1024])
def test_no_part_is_longer_than_is_allowed(share, longest):
    parts = []
    kernel = KERNEL(lambda start, stop, _: parts.append((start, stop)))
    share(kernel, 100_001, 8, 3, longest)
    parts.sort()
    assert (parts[0][0], parts[-1][1]) == (0, 100_001)
    assert all(one[1] == other[0] for one, other in pairwise(parts))
    assert {stop - start for start, stop in parts[:-1]} == {longest}


def test_nobody_begins_another_part_when_the_status_says_so(share):
    begun = []

    def look(flag):
        if len(begun) >= 10:
            ctypes.c_int64.from_address(flag).value = INTERRUPTED

    share(KERNEL(lambda start, *_: begun.append(start)), 64_000, 8, 2, 64, look)
    assert 10 <= len(begun) <= 12
    again = []
    share(KERNEL(lambda start, *_: again.append(start)), 64_000, 8, 2, 64)
    assert len(again) == 1000


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
