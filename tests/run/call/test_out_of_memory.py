"""Failed allocations raise an exception with the size, and later calls work."""

import sys

import pytest

from tests.run import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")


def run(code, folder):
    # plans of arrays as large as these are verified element by element
    # a thread that allocates reserves 64 MB of addresses for itself, which counts as memory here
    return processes.run(code, folder, FUNCTRANS_CHECK_PLANS="0", MALLOC_ARENA_MAX="1")


LIMIT = """
import gc, resource
import numpy as np
import functrans
from functrans import config, grad, jit, lax

def in_use():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()

def limit(more):
    resource.setrlimit(resource.RLIMIT_AS, (in_use() + (more << 20), resource.RLIM_INFINITY))

def unlimited():
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

def failing(call, *args):
    try:
        call(*args)
    except MemoryError as error:
        return str(error)
    return "no error"
"""

TEMPORARIES = (
    LIMIT
    + """
config.threads = THREADS
x = np.ones(3000)
g = jit(lambda x: np.sum(np.cumsum(np.outer(x, x), axis=0)[::-1] * np.outer(x, x), axis=1))
expected = g(x[:500])
compiled = g.lower(x)._program()
limit(80)
print(failing(compiled, x))
print(failing(g, x))
print(np.array_equal(g(x[:500]), expected))
unlimited()
print(g(x).shape)
"""
)


@pytest.mark.few(1)
@pytest.mark.parametrize("threads", ["1", "2"])
def test_temporaries(threads, tmp_path):
    lines = run(TEMPORARIES.replace("THREADS", threads), tmp_path).splitlines()
    message = "functrans: 144 MB for temporaries could not be allocated"
    assert lines == [message, message, "True", "(3000,)"]


# A call of BLAS, which is held to one thread meanwhile, and Python's lock is released.
BLAS = (
    LIMIT
    + """
from functrans.run import blas
import threading, ctypes
f = jit(lambda x: np.sum(np.sin(x @ x) @ np.cos(x @ x), axis=0))
small = np.ones((300, 300))
large = np.ones((3000, 3000))
expected = f(small)
program = f.lower(large)._program()
limit(60)
users = blas._record.copy()
print(failing(program, large))
print(np.array_equal(blas._record[[0, 2, 3, 4]], users[[0, 2, 3, 4]]))
print(np.array_equal(f(small), expected))
print(threading.current_thread().is_alive(), sum(range(1000)))
"""
)


@pytest.mark.dear
def test_a_program_that_calls_blas(tmp_path):
    message, *rest = run(BLAS, tmp_path).splitlines()
    assert message.startswith("functrans: ")
    assert message.endswith(" for temporaries could not be allocated")
    assert rest == ["True", "True", "True 499500"]


RESULTS = (
    LIMIT
    + """
f = jit(lambda x: np.outer(x, x))
small, large = np.ones(500), np.ones(4000)
f(small)
compiled = f.lower(large)._program()
limit(60)
print(failing(f, large))
print(f(small)[0, 0], f(small).shape)
unlimited()
print(f(large)[-1, -1])
"""
)


@pytest.mark.full
def test_results(tmp_path):
    message, *rest = run(RESULTS, tmp_path).splitlines()
    assert "Unable to allocate 122. MiB" in message
    assert rest == ["1.0 (500, 500)", "1.0"]


KEPT = (
    LIMIT
    + """
from functrans.run.call import memory
config.recycle_bytes = 1 << 30
large = np.ones(9_000_000)
f = jit(lambda x: x + 1)
program = jit(lambda x: np.sum(np.cumsum(x)[::-1] * x)).lower(large)._program()
f(large[:8_000_000])
kept = int(memory._state[memory.KEPT])
limit(50)
print(kept, f(large)[0], int(memory._state[memory.KEPT]))
print(program(large)[0], int(memory._state[memory.KEPT]))
"""
)


def test_what_is_kept_for_later_goes_first(tmp_path):
    results, temporaries = run(KEPT, tmp_path).splitlines()
    assert results == "64000000 2.0 72000000"
    assert temporaries == "40500004500000.0 0"


GROWING = (
    LIMIT
    + """
def walk(x, rows):
    def step(c):
        n, y = c
        return n + 1, np.sin(y) + rows * 1e-9
    return np.sum(lax.while_loop(lambda c: c[0] < 600, step, (0, x))[1])
f = jit(grad(walk))
x, rows = np.linspace(0, 1, 40_000), np.ones(40_000)
small = f(x[:10], rows[:10])
limit(150)
message = failing(f, x, rows)
print("allocate" in message, np.array_equal(f(x[:10], rows[:10]), small))
unlimited()
print(f(x, rows).shape)
"""
)


@pytest.mark.full
def test_growing_stacks(tmp_path):
    assert run(GROWING, tmp_path).split("\n")[:2] == ["True True", "(40000,)"]


EXPORTED = (
    LIMIT
    + """
x = np.ones(3000)
held = functrans.compile(lambda x: np.cumsum(np.outer(x, x), axis=0)[::-1] * 2.0 @ x, np.ones(3000))
out = np.zeros(3000)
held.numba
functrans.compile(lambda x: x * 2.0, x)(x)  # loads Numba, whose BLAS waits for memory for ever
limit(100)
print(held.ctypes(x.ctypes.data, out.ctypes.data))
print(failing(held, x))
unlimited()
print(held.ctypes(x.ctypes.data, out.ctypes.data), out[0] == 2.0 * 3000 * 3000)
print(held(x)[-1])
"""
)


@pytest.mark.full
def test_an_exported_function_returns_a_status(tmp_path):
    assert run(EXPORTED, tmp_path).splitlines() == [
        "5",
        "memory for temporaries could not be allocated",
        "0 True",
        "6000.0",
    ]


THREADS = (
    LIMIT
    + """
from functrans.run.threads import workers as threads
config.threads = 1
f = jit(lambda x: np.exp(-x * x) * x)
x = np.linspace(0, 1, 1_000_003)
expected = f(x)
limit(30)
config.threads = 64
used = int(threads._record[threads.THREADS])
unlimited()
print(used < 64, np.array_equal(f(x), expected))
config.threads = 8
print(int(threads._record[threads.THREADS]), np.array_equal(f(x), expected))
"""
)


@pytest.mark.full
def test_with_no_room_for_threads_there_are_fewer(tmp_path):
    assert run(THREADS, tmp_path).splitlines() == ["True True", "8 True"]


CODE = (
    LIMIT
    + """
from functrans.run.code import elf
print(failing(elf._pages, 1 << 46))
f = jit(lambda x: np.sin(x) + 1)
print(f(0.0))
"""
)


def test_machine_code(tmp_path):
    message, value = run(CODE, tmp_path).splitlines()
    assert message == "functrans: 70368744177664 bytes for machine code could not be allocated"
    assert value == "1.0"


FORGOTTEN = (
    LIMIT
    + """
from functrans.run.call.compiled import compile_graph
from functrans.ir.types import aval_of
from functrans.trace.stage import rewrite

def program():
    x = np.ones(1000)
    graph = rewrite(lambda x: [np.cumsum(np.outer(x, x), axis=0)[::-1] @ x], [aval_of(x)])
    return compile_graph(graph)(x)

for _ in range(4):
    before = in_use()
    for _ in range(12):
        program()
    gc.collect()
    print(in_use() - before)
"""
)


@pytest.mark.dear
def test_the_temporaries_of_forgotten_programs_are_freed(tmp_path):
    # What is loaded once, threads' stacks and an allocator's arenas grow early on, and by how much
    # is the machine's affair; what is not freed grows each time, by 16 MB for each program.
    growth = [int(line) for line in run(FORGOTTEN, tmp_path).splitlines()]
    assert min(growth) < 40_000_000
