"""Forked children compile and run, whatever other threads of the parent were doing."""

import os

import pytest

from functrans.run import blas
from tests.run.processes import run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def forking(code, folder):
    # Python 3.12 warns of every fork of a process with threads; that it works is what is tested
    return run(CHILDREN + code, folder, PYTHONWARNINGS="ignore::DeprecationWarning").split()


# A child that hangs is killed, and counts as one that failed.
CHILDREN = """
import itertools, os, signal, threading, time
import numpy as np
from functrans import config, grad, jit
config.threads = 2

def status_of(work):
    child = os.fork()
    if child == 0:
        code = 3
        try:
            code = 0 if work() else 4
        finally:
            os._exit(code)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"

def works(a, x=np.linspace(0, 1, 500_000)):
    found = jit(lambda x: np.tanh(a * x) + a)(x)
    return np.allclose(found, np.tanh(a * x) + a, rtol=1e-14)
"""

COMPILING = """
from functrans.run.code import cache
config.cache = False
stop = threading.Event()
numbers = itertools.count(2)

def work():
    while not stop.is_set():
        a = next(numbers) / 64
        jit(grad(lambda x: np.sum(np.sin(a * x) ** 2)))(np.ones(7))

workers = [threading.Thread(target=work) for _ in range(2)]
for worker in workers:
    worker.start()
codes = [status_of(lambda: works(1 + i / 128)) for i in range(12)]
stop.set()
for worker in workers:
    worker.join()
print(*codes, works(7.0))
"""


@pytest.mark.full
def test_forks_while_other_threads_trace_and_compile(tmp_path):
    assert forking(COMPILING, tmp_path) == ["0"] * 12 + ["True"]


FIRST = """
config.cache = False
codes = []
worker = threading.Thread(target=works, args=(2.0,))
worker.start()
while worker.is_alive() and len(codes) < 40:
    time.sleep(0.01)
    codes.append(status_of(lambda: works(3.0)))
worker.join()
print(*set(codes))
"""


@pytest.mark.full
def test_forks_while_another_thread_loads_the_compiler(tmp_path):
    """What another thread was about to import, a child could never import."""
    assert forking(FIRST, tmp_path) == ["0"]


POOL = """
import multiprocessing
stop = threading.Event()

def work():
    for a in itertools.count(2):
        if stop.is_set():
            return
        works(a / 64)

def one(a):
    return works(1 + a / 128)

worker = threading.Thread(target=work)
worker.start()
with multiprocessing.get_context("fork").Pool(2) as pool:
    results = pool.map_async(one, range(6)).get(timeout=100)
stop.set()
worker.join()
print(*results)
"""


@pytest.mark.full
def test_processes_of_multiprocessing(tmp_path):
    assert forking(POOL, tmp_path) == ["True"] * 6


INSIDE = """
config.cache = False
codes = []

@jit
def function(x):
    child = os.fork()
    if child == 0:
        codes.append("child")
    else:
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return np.tanh(x) + 1

right = np.allclose(function(np.ones(5)), np.tanh(1) + 1) and works(1.5)
if "child" in codes:
    os._exit(0 if right else 3)
print(*codes, right)
"""


@pytest.mark.dear
def test_a_fork_by_the_thread_that_traces(tmp_path):
    """The child goes on with what it was doing, under the locks that it has."""
    assert forking(INSIDE, tmp_path) == ["0", "True"]


BLAS = """
import threadpoolctl
from functrans.run import blas
rows = np.eye(800) + np.ones((800, 800))
inverse = jit(np.linalg.inv)  # by LAPACK, which calls BLAS
inverse(rows)

def limits():
    return [each["num_threads"] for each in threadpoolctl.threadpool_info()
            if each["internal_api"] == "openblas"]

def as_before():
    return limits() == before

before = limits()
codes = []
stop = threading.Event()

def work():
    while not stop.is_set():
        inverse(rows)

worker = threading.Thread(target=work)
worker.start()
end = time.monotonic() + 100
while len(codes) < 3 and time.monotonic() < end:
    if blas._record[0]:
        codes.append(status_of(lambda: blas._record[0] == 0 and as_before()))
    time.sleep(0.001)
stop.set()
worker.join()
print(*codes)
"""


def test_a_fork_while_another_thread_is_in_blas(tmp_path):
    """BLAS is held to one thread meanwhile; in the child nobody would let it go again."""
    if not blas.limiter():
        pytest.skip("this BLAS keeps its threads")
    assert forking(BLAS, tmp_path) == ["0"] * 3
