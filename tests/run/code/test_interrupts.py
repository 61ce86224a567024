"""Ctrl-C during tracing and compilation takes effect at once, and leaves no partial state."""

import os
import signal
import threading

import pytest

from functrans.run.code.aside import aside
from tests.run.processes import run, start

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="signals cannot be sent to oneself here"
)

# In place of LLVM, a call into C that takes its time, and does not care for signals.
BUSY = """
import ctypes, os, signal, threading
import numpy as np
from functrans import jit
from functrans.run.code import native

c = ctypes.CDLL(None)
c.PyThread_allocate_lock.restype = ctypes.c_void_p
c.PyThread_acquire_lock_timed.argtypes = ctypes.c_void_p, ctypes.c_longlong, ctypes.c_int
c.PyThread_release_lock.argtypes = (ctypes.c_void_p,)
lock = c.PyThread_allocate_lock()
c.PyThread_acquire_lock_timed(lock, -1, 0)
real, log = native.optimise_module, []

def busy(*given):
    native.optimise_module = real
    os.kill(os.getpid(), signal.SIGINT)
    c.PyThread_acquire_lock_timed(lock, 20_000_000, 0)
    log.append("done")
    return real(*given)

function = jit(lambda x: np.tanh(x) * 1.0625)
jit(np.cos)(np.ones(3))  # everything is loaded
native.optimise_module = busy
try:
    function(np.ones(3))
except KeyboardInterrupt:
    log.append("interrupted")
"""

AGAIN = """
other = threading.Thread(target=lambda: log.append(float(jit(lambda x: x + 1.5)(1.0))))
other.start()  # a lock that is still held would stop it for ever
c.PyThread_release_lock(lock)
other.join()
print(*log, np.allclose(function(np.ones(3)), np.tanh(1) * 1.0625))
"""


def test_it_comes_while_llvm_is_at_work(tmp_path):
    """The work is finished without the caller, whose next call gets what comes of it."""
    assert run(BUSY + AGAIN, tmp_path).split() == ["interrupted", "done", "2.5", "True"]


ENDING = """
import itertools, threading, time
from functrans.run.code import native
lines = [
    f"%y{i} = fmul double %x{i}, 1.{i}\\n%x{i + 1} = fadd double %y{i}, %x{max(0, i - 7)}"
    for i in range(1500)
]
text = "define double @f{}(double %x0) {{" + "\\n".join(lines) + "\\nret double %x1500 }}"
real = native.optimise_module
begun = threading.Event()

def optimise(*given):
    module = real(*given)
    begun.set()
    return module

def work():
    for i in itertools.count():
        native.compile_object(text.format(i))

native.optimise_module = optimise
threading.Thread(target=work, daemon=True).start()
begun.wait()
time.sleep(0.01 * {number})
"""


@pytest.mark.full
def test_the_process_ends_as_it_should_while_llvm_is_at_work(tmp_path):
    """LLVM takes itself apart when a process ends, and crashes if it is at work then."""
    for number in range(2):
        code = ENDING.replace("{number}", str(number))
        _, err = (process := start(code, tmp_path)).communicate(timeout=100)
        assert (process.returncode, err) == (0, "")


AT_THE_END = """
import atexit
import numpy as np
from functrans import jit
atexit.register(lambda: print(float(jit(lambda x: x + 0.5)(1.0))))
jit(np.tanh)(1.0)
atexit.register(lambda: print(float(jit(lambda x: x + 1.5)(1.0))))
"""


@pytest.mark.full
def test_compiling_at_the_end_of_the_process(tmp_path):
    assert run(AT_THE_END, tmp_path, FUNCTRANS_CACHE="0").split() == ["2.5", "1.5"]


# A signal comes at any time of a function's first call; so often that it gets everywhere.
ANYWHERE = """
import random, signal, threading, time
import numpy as np
from functrans import grad, jit, vmap
from functrans.ir.primitive import current
random.seed({seed})
x = np.linspace(0.5, 1.5, 40).reshape(5, 8)

def family(a):
    def plain(row):
        total = np.sum(np.sin(row * a))
        return total if total > 0 else -total
    return jit(lambda x: vmap(grad(lambda row: np.sum(np.tanh(row * a) ** 2)))(x)), jit(plain)

def results(functions):
    return functions[0](x), functions[1](x[0])

def expected(a):
    t = np.tanh(x * a)
    return 2 * t * (1 - t * t) * a, abs(np.sum(np.sin(x[0] * a)))

def right(found, a):
    return all(np.allclose(one, other) for one, other in zip(found, expected(a)))

results(family(1.0))
functions = family(2.0)
begin = time.perf_counter()
results(functions)
usual = 1.5 * (time.perf_counter() - begin)

broken_off = 0
for i in range({times}):
    a = 2.0 + (i + 1) / 64
    functions = family(a)
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, usual))
        results(functions)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        broken_off += 1
    assert current.get() is None, "something still records"
    assert right(results(functions), a), "a wrong result"
    # in another thread: no lock is held
    found = []
    other = threading.Thread(target=lambda: found.append(results(family(a))), daemon=True)
    other.start()
    other.join(60)
    assert found and right(found[0], a), "a lock is held"
print(broken_off > {times} // 8)
"""

HANDLER = """
import signal
def interrupt(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
"""


def broken_off_anywhere(folder, seed, times):
    code = HANDLER + ANYWHERE.replace("{seed}", str(seed)).replace("{times}", str(times))
    return start(code, folder, FUNCTRANS_CACHE="0")


def what_came_of(process):
    # Python says on stderr when a signal hits a finaliser, which it cannot break off
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return out.strip()


@pytest.mark.full
def test_it_may_come_anywhere(tmp_path):
    assert what_came_of(broken_off_anywhere(tmp_path, 1, 30)) == "True"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_it_may_come_anywhere_often(tmp_path, seed):
    assert what_came_of(broken_off_anywhere(tmp_path, seed, 300)) == "True"


def test_work_done_aside_gives_what_it_gives():
    here = threading.get_ident()
    assert aside(threading.get_ident) != here
    with pytest.raises(ZeroDivisionError):
        aside(lambda: 1 // 0)
    found = []
    other = threading.Thread(target=lambda: found.append(aside(threading.get_ident)))
    other.start()
    other.join()
    assert found == [other.ident]


def test_there_may_be_no_more_threads(monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("_thread.start_new_thread", refuse)
    assert aside(os.getpid) == os.getpid()
