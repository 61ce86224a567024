"""Memory leaks: repeated calls, and calls with ever new arguments, do not grow memory."""

import gc
import os
import sys

import numpy as np
import pytest

from functrans import grad, jit
from functrans.api import cached_calls
from functrans.run.call import jitted as call
from functrans.run.code import cache

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def resident():
    """The bytes of memory that this process has in use."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def loss(p, x):
    return np.sum(np.tanh(x @ p["w"] + p["b"]) ** 2)


@linux
@pytest.mark.slow
def test_100_000_calls_leave_resident_memory_flat():
    step = jit(grad(loss))
    large = jit(lambda x: (x.T, np.sum(x)))
    p = {"w": np.ones((4, 3)), "b": np.zeros(3)}
    x, other = np.linspace(-1, 1, 20).reshape(5, 4), np.linspace(-1, 1, 20).reshape(4, 5).T
    rows = np.zeros((300, 400))

    def calls(count):
        for i in range(count):
            step(p, other if i % 2 else x)
            if i % 100 == 0:
                large(rows)
                with pytest.raises(TypeError):
                    step(p)

    calls(5_000)
    before = resident()
    calls(100_000)
    assert resident() - before < 1 << 20


def test_a_changing_static_value_does_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(cached_calls, "MOST_ENTRIES", 5)
    traced = []

    def power(x, n):
        traced.append(n)
        return x + n

    function = jit(power, static_argnums=1)
    for n in range(12):
        assert function(1.5, n) == 1.5 + n
    assert len(function._entries) == 5
    assert function(1.5, 11) == 12.5
    assert function(1.5, 0) == 1.5
    assert traced == [*range(12), 0]


@linux
@pytest.mark.slow
def test_programs_that_are_forgotten_give_their_memory_back():
    def calls(numbers):
        function = jit(lambda x, n: np.sin(x * (n + 0.375)) + n, static_argnums=1)
        for n in numbers:
            function(np.linspace(0, 1, 100), n)
        del function
        call._program.cache_clear()
        call._runnable.cache_clear()

    calls(range(250))  # until the caches of graphs are as good as full
    code, before = len(cache._linked), resident()
    calls(range(250, 500))
    assert len(cache._linked) <= code
    assert resident() - before < 10 << 20
