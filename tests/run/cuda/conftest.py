"""Fixtures of emulated GPUs."""

import gc

import pytest

import functrans
from functrans.run.cuda.memory import give_back, trim
from tests.run.cuda.emulated import emulated_gpu
from tests.run.cuda.stub import stubs


@pytest.fixture(scope="session", autouse=True)
def _no_garbage_of_others():
    """Garbage is collected often here: not among what other tests have left in caches."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def gpu():
    """A stub in place of the machine's GPU; what was not freed at the end fails the test."""
    with stubs() as (one,):
        yield one
        close(one)


@pytest.fixture
def gpus():
    """Two of them."""
    with stubs(1 << 30, 1 << 30) as both:
        yield both
        for each in both:
            close(each)


@pytest.fixture
def emulated(monkeypatch):
    """A GPU whose kernels run in the emulator; what was not freed at the end fails the test."""
    with emulated_gpu(monkeypatch) as one:
        yield one
        # programs are of this GPU, and a custom rule keeps the trace that it was noted in
        functrans.clear_caches()
        close(one)


def close(gpu):
    gpu.delayed_events = False
    if gpu.used:
        gc.collect()  # what an exception's traceback holds on to
        trim()  # what others have seen
    give_back()  # what was borrowed
    gpu.close()
