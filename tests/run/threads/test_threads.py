"""Compiled functions in several threads, with several threads, and in forked processes."""

import itertools
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import threadpoolctl

from functrans import config, grad, jit, value_and_grad, vmap
from functrans.run.code import cache
from functrans.run.threads import workers as threads
from tests.run.processes import run

X = np.linspace(-2.0, 3.0, 300_001)
ROWS = X[:300_000].reshape(3000, 100)


def waves(x):
    return np.sum(np.exp(-x * x) * np.sin(3 * x))


def softmax(rows):
    shifted = np.exp(rows - rows.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


CASES = {
    "elementwise": (lambda x: (np.tanh(x), x * x), X),
    "sum": (waves, X),
    "gradient": (value_and_grad(waves), X),
    "rows": (softmax, ROWS),
    "columns": (lambda rows: (rows.sum(axis=0), rows.max(axis=0)), ROWS),
    "cumulative": (np.cumsum, X),
    "product": (lambda rows: rows.T @ rows, ROWS),
    "batched": (vmap(grad(lambda row: np.sum(np.outer(row, row) * 0.5))), ROWS),
    "gather": (lambda x: x[::-1][np.arange(1000)] + x[5:1005], X),
}


def leaves(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.fixture
def several():
    """Several threads, whatever the environment says; programs find out when they are called."""
    before = config.threads
    config.threads = max(2, before)
    yield
    config.threads = before


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("threshold", [0, 200_000])
def test_the_bits_do_not_depend_on_the_number_of_threads(name, threshold, several, monkeypatch):
    function, x = CASES[name]
    monkeypatch.setattr(config, "parallel_threshold", threshold)
    # a constant of its own, so that it is compiled for this threshold
    compiled = jit(lambda x: function(x * (1.0 + threshold / 2**50)))
    config.threads = 1
    expected = leaves(compiled(x))
    for number in (2, 1, 3, 64):
        config.threads = number
        for one, other in zip(leaves(compiled(x)), expected, strict=True):
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_no_more_threads_are_used_than_there_are(several):
    jit(np.tanh)(np.linspace(0, 1, 1_000_003))
    config.threads = 10_000
    assert 1 < threads._record[threads.THREADS] <= threads.MOST_THREADS
    config.threads = 1
    assert threads._record[threads.THREADS] == 1


def test_threadpoolctl_limits_our_threads(several):
    threads.record()
    number = threads._record[threads.THREADS]
    assert number > 1
    with threadpoolctl.threadpool_limits(1):
        assert threads._record[threads.THREADS] == 1
    assert threads._record[threads.THREADS] == number
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        assert threads._record[threads.THREADS] == number


@pytest.mark.dear
def test_one_function_in_several_threads(several):
    for function, x in CASES.values():
        compiled = jit(function)
        expected = [leaves(compiled(x * scale)) for scale in range(4)]
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(leaves, pool.map(compiled, [x * (i % 4) for i in range(24)])))
        for i, result in enumerate(results):
            for one, other in zip(result, expected[i % 4], strict=True):
                np.testing.assert_array_equal(one, other)


def test_functions_compiled_at_once():
    barrier = threading.Barrier(6)

    def compile_and_call(i):
        function = jit(grad(lambda x: np.sum(np.cos(x * (i + 1.03125)) ** 2)))
        barrier.wait()
        return function(X[:1000])

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(compile_and_call, range(6)))
    for i, result in enumerate(results):
        a = i + 1.03125
        np.testing.assert_allclose(result, -a * np.sin(2 * a * X[:1000]), atol=1e-12)


def test_one_function_is_traced_and_compiled_once_by_all():
    traces = itertools.count()  # (a list would be state that tracing changes)
    barrier = threading.Barrier(6)

    @jit
    def function(x):
        next(traces)
        return np.sum(np.sin(x) * 1.015625)

    def call(_):
        barrier.wait()
        return function(X)

    before = cache.statistics().compiled
    jit(lambda x: np.sum(np.sin(x) * 1.03125))(X)
    between = cache.statistics().compiled
    with ThreadPoolExecutor(6) as pool:
        results = set(pool.map(call, range(6)))
    assert next(traces) == len(results) == 1
    assert cache.statistics().compiled - between <= between - before


@pytest.mark.full
def test_other_threads_run_meanwhile():
    """A call with much work holds neither the interpreter's lock nor anything else of Python's."""
    busy = jit(lambda x: np.sum(np.sin(np.exp(np.cos(x)))))
    x = np.linspace(0, 1, 20_000_000)
    busy(x)
    done = threading.Event()
    during = 0

    def work():
        busy(x)
        done.set()

    old = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # Python itself takes the lock away from nobody
    try:
        worker = threading.Thread(target=work)
        worker.start()
        while not done.is_set():
            during += 1
            time.sleep(0.0005)
        worker.join()
    finally:
        sys.setswitchinterval(old)
    assert during > 10


def forking(code, folder):
    # Python 3.12 warns of every fork of a process with threads; that it works is what is tested
    return run(code, folder, PYTHONWARNINGS="ignore::DeprecationWarning").split()


FORK = """
import os
import numpy as np
from functrans import config, jit
config.threads = 2
x = np.linspace(0, 1, 1_000_003)
function = jit(lambda x: np.exp(-x * x) * x + np.sum(x @ x))
expected = function(x)
child = os.fork()
if child == 0:
    right = np.array_equal(function(x), expected)
    right &= np.allclose(jit(lambda x: np.tanh(x) + 1)(x), np.tanh(x) + 1, rtol=1e-15)
    os._exit(0 if right else 3)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), np.array_equal(function(x), expected))
"""


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_goes_on(tmp_path):
    assert forking(FORK, tmp_path) == ["0", "True"]


FORK_WHILE_BUSY = """
import os, threading
import numpy as np
from functrans import config, jit
config.threads = 2
x = np.linspace(0, 1, 3_000_000)
function = jit(lambda x: np.sin(np.exp(np.cos(x))))
expected = function(x)
stop = threading.Event()
def work():
    while not stop.is_set():
        function(x)
worker = threading.Thread(target=work)
worker.start()
codes = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(function(x), expected) else 3)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.set()
worker.join()
print(*codes)
"""


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_while_another_thread_computes(tmp_path):
    assert forking(FORK_WHILE_BUSY, tmp_path) == ["0"] * 8


@pytest.mark.parametrize("name", CASES)
def test_one_to_eight_threads_give_the_same(name, several):
    function, x = CASES[name]
    compiled = jit(function)
    results = set()
    for number in range(1, 9):
        config.threads = number
        results.add(b"".join(np.asarray(leaf).tobytes() for leaf in leaves(compiled(x))))
    assert len(results) == 1


INTERRUPTED = """
import os, signal, threading, time
import numpy as np
from functrans import config, jit
config.threads = 2
x = np.linspace(0, 1, 4_000_000)
long = jit(lambda x: np.sum(np.cumsum(np.sin(np.exp(np.cos(x))))[::-1] * x))
blas = jit(lambda x: np.sum(np.sin(x @ x) @ x))
square = np.ones((700, 700))
expected = long(x), blas(square)
for call, given in ((long, x), (blas, square)):
    for _ in range(5):
        sender = threading.Timer(0.03, lambda: os.kill(os.getpid(), signal.SIGINT))
        try:
            sender.start()
            while True:
                call(given)
        except KeyboardInterrupt:
            pass
        sender.join()
print((long(x), blas(square)) == expected)
from functrans.run import blas
from functrans.run.threads import pool
from functrans.run.threads import workers as threads
print(int(blas._record[0]), int(blas._record[4]), int(threads._record[pool.BUSY]))
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="signals are another thing there")
def test_an_interrupt_waits_for_the_end_of_a_call(tmp_path):
    assert run(INTERRUPTED, tmp_path).split() == ["True", "0", "0", "0"]
