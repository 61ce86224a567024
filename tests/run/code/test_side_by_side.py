"""Work in parallel threads while the caller waits, and parallel compilation of modules."""

import signal
import sys
import threading
import time

import pytest

from functrans import config
from functrans.run.code import binding, native
from functrans.run.code.aside import ahead, side_by_side
from tests.run.processes import run

TEXTS = [f"define i64 @f() {{\n  ret i64 {i}\n}}\n" for i in range(12)]


@pytest.mark.parametrize("most", [1, 2, 5, 100])
def test_results_are_in_the_order_of_the_work(most):
    work = [lambda i=i: time.sleep(0.001 * (7 - i)) or i * i for i in range(7)]
    assert side_by_side(work, most) == [i * i for i in range(7)]
    assert side_by_side([], most) == []


@pytest.mark.parametrize("most", [1, 3])
def test_an_exception_is_the_callers_and_lets_nothing_else_begin(most):
    begun = []

    def work(i):
        begun.append(i)
        if i == 2:
            raise KeyError(i)
        time.sleep(0.01)

    with pytest.raises(KeyError, match="2"):
        side_by_side([lambda i=i: work(i) for i in range(100)], most)
    assert len(begun) < 10


def test_it_is_not_the_main_thread_that_works():
    names = side_by_side([threading.get_ident] * 3, 2)
    assert threading.get_ident() not in names


def test_so_many_at_a_time():
    lock, now, most = threading.Lock(), [0], [0]

    def work():
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.02)
        with lock:
            now[0] -= 1

    side_by_side([work] * 8, 3)
    assert most == [3]


def test_what_is_begun_ahead_keeps_its_exceptions():
    done = threading.Event()

    def work():
        done.set()
        raise ValueError

    ahead(work)
    assert done.wait(10)


def test_modules_have_the_same_code_however_they_are_compiled(monkeypatch):
    together = native.compile_objects(TEXTS + TEXTS[:2])
    assert together[:2] == together[12:]
    native._module.cache_clear()
    monkeypatch.setattr(config, "threads", 1)
    assert native.compile_objects(TEXTS) == together[:12]


def test_several_threads_are_in_llvm_at_a_time(monkeypatch):
    """Each with a context and a target machine that the other has not."""
    real, met = native.optimise_module, threading.Barrier(2, timeout=20)
    machines = set()

    def optimised(text, target, generator):
        machines.add(id(generator))
        met.wait()
        return real(text, target, generator)

    monkeypatch.setattr(config, "threads", 2)
    monkeypatch.setattr(native, "optimise_module", optimised)
    native._module.cache_clear()
    native.compile_objects([text.replace("ret i64 ", "ret i64 1") for text in TEXTS[:4]])
    assert len(machines) == 2


def test_a_module_that_llvm_refuses():
    with pytest.raises(RuntimeError, match="expected"):
        native.compile_objects([TEXTS[0], "define nonsense"])
    assert native.compile_object(TEXTS[0])


def test_who_is_inside_keeps_others_from_closing():
    inside, closed = binding.Inside(), threading.Event()

    def close():
        inside.close()
        closed.set()
        inside.open()

    with inside:
        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        assert not closed.wait(0.05)
    closing.join(10)
    assert closed.is_set()


BATCH = """
import signal, threading, time
import numpy as np
from functrans import jit
from functrans.run.code import native

def work(x):
    for i in range(6):
        x = np.sort(np.tanh(x[::-1] * (i + 2.0)))
    return x

x = np.random.default_rng(0).normal(size=3000)
jit(np.cos)(np.ones(3))
time.sleep(0.5)  # what is compiled beside the first call has been
real, begun = native.optimise_module, []

def slow(*given):
    begun.append(given[0])
    if len(begun) == 1:
        signal.raise_signal(signal.SIGINT)
    time.sleep(0.2)
    return real(*given)

try:
    native.optimise_module = slow
    jit(work)(x)
except KeyboardInterrupt:
    print("interrupted")
time.sleep(0.5)
print(len(begun) <= 2)
native.optimise_module = real
print(np.allclose(jit(work)(x), work(x)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the signal is sent by another thread")
def test_ctrl_c_lets_no_other_module_begin(tmp_path):
    assert run(BATCH, tmp_path, FUNCTRANS_NUM_THREADS="2").split() == [
        "interrupted",
        "True",
        "True",
    ]


FORKING = """
import os, threading, time
import numpy as np
from functrans import jit

def functions():
    for i in range(40):
        yield jit(lambda x, i=i: np.sort(np.tanh(x * (i + 1.5))) + i)

x = np.linspace(-1, 1, 50)
over = threading.Event()
compiling = threading.Thread(target=lambda: [over.is_set() or f(x) for f in functions()])
compiling.start()
time.sleep(0.05)
for n in range(8):
    child = os.fork()
    if child == 0:
        good = np.allclose(jit(lambda x: np.cos(x) * (n + 0.25))(x), np.cos(x) * (n + 0.25))
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    time.sleep(0.02)
# up to Python 3.13, a thread that is in C++ when Python ends has the process aborted
over.set()
compiling.join()
print("done")
"""


@pytest.mark.dear
@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_waits_until_nobody_is_in_llvm(tmp_path):
    assert run(FORKING, tmp_path, FUNCTRANS_CACHE="0", PYTHONWARNINGS="ignore").split() == ["done"]


def test_the_lock_that_is_not_taken_is_the_one_that_llvmlite_has():
    """The function is the library's own, with the types that llvmlite gives it."""
    wrapped = binding.llvm().ffi.lib.LLVMPY_TargetMachineEmitToMemory
    assert binding.unlocked().argtypes == wrapped.argtypes
    assert binding.unlocked().restype is wrapped.restype
