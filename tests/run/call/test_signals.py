"""Signals interrupt compiled code, and leave no broken state."""

import signal

import pytest

from tests.run.processes import run

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="signals cannot be sent to oneself here"
)

# Each loop would take minutes at least.
LOOPS = """
import os, signal, threading
import numpy as np
from functrans import config, jit, lax, vmap
config.threads = 2

STEPS = 10**11
matrix, vector = np.eye(200), np.linspace(0.1, 1.0, 100_000)
pairs = lambda c: lax.scan(lambda c, x: (c * 0.999 + x, None), c, np.ones(50))[0]
sines = lambda c, n: lax.fori_loop(0, n, lambda i, c: np.sin(c), c)
count = lambda s: (s[0] + 1, s[1])
loops = {
    "numbers": (lambda c, n: lax.fori_loop(0, n, lambda i, c: c * 0.999 + 1, c), 1.0),
    "while": (lambda c, n: lax.while_loop(lambda s: s[0] < n, count, (0, c)), 1.0),
    "nested": (lambda c, n: lax.fori_loop(0, n, lambda i, c: pairs(c), c), 1.0),
    "products": (lambda c, n: lax.fori_loop(0, n, lambda i, c: c @ c, c), matrix),
    "vectors": (sines, vector),
    "threads": (vmap(sines, (0, None)), vector),
}
compiled = {name: jit(function) for name, (function, _) in loops.items()}

def begin(name, n):
    return compiled[name](loops[name][1], n)

def later(number=signal.SIGINT, delay=0.2):
    sender = threading.Timer(delay, lambda: os.kill(os.getpid(), number))
    sender.start()
    return sender
"""

INTERRUPTED = """
for name, (_, given) in loops.items():
    before, expected = np.copy(given), begin(name, 3)
    for _ in range(2):
        sender = later()
        try:
            begin(name, STEPS)
        except KeyboardInterrupt:
            print(name)
        sender.join()
    assert np.array_equal(given, before)
    assert str(begin(name, 3)) == str(expected)
"""


@pytest.mark.dear
def test_loops_are_interrupted(tmp_path):
    printed = run(LOOPS + INTERRUPTED, tmp_path).split()
    assert printed == [
        name
        for name in ("numbers", "while", "nested", "products", "vectors", "threads")
        for _ in range(2)
    ]


# steps of known number, in the lanes of vectors
LANES = """
for shape in [(50,), (50, 3)]:
    steps = jit(vmap(lambda c: lax.fori_loop(0, STEPS, lambda i, c: np.sin(c), c)))
    sender = later()
    try:
        steps(np.ones(shape))
    except KeyboardInterrupt:
        print("interrupted")
    sender.join()
"""


def test_loops_in_lanes_of_vectors_are_interrupted(tmp_path):
    assert run(LOOPS + LANES, tmp_path).split() == ["interrupted"] * 2


# 600 sines of each of many numbers
LONG_KERNEL = """
def many(x):
    for _ in range(600):
        x = np.sin(x) * 1.5
    return np.sum(x)

x, kernel = np.ones(3 * 10**7, np.float32), jit(many)
kernel(x[:100_000])  # which is compiled to the same code
sender = later(delay=1.0)
try:
    kernel(x)
except KeyboardInterrupt:
    print("interrupted")
sender.join()
"""


def test_a_long_kernel_is_interrupted(tmp_path):
    assert run(LOOPS + LONG_KERNEL, tmp_path).split() == ["interrupted"]


# The loop goes on after a handler that returns, and ends by one that raises.
HANDLED = """
calls = []

def handle(number, frame):
    calls.append(float(begin("numbers", 2)))
    if len(calls) == 3:
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise TimeoutError

signal.signal(signal.SIGALRM, handle)
begin("numbers", 2)
signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
try:
    begin("numbers", STEPS)
except TimeoutError:
    print(len(calls), set(calls) == {float(begin("numbers", 2))})

ticks = []
signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
found = []
while not ticks:
    found.append(begin("while", 300_000_000)[0])
signal.setitimer(signal.ITIMER_REAL, 0)
print(set(found) == {300_000_000})
"""


@pytest.mark.dear
def test_other_handlers_run_too(tmp_path):
    assert run(LOOPS + HANDLED, tmp_path).split() == ["3", "True", "True"]


OTHER_THREAD = """
begin("numbers", 3)
working = threading.Thread(target=begin, args=("numbers", STEPS), daemon=True)
working.start()
sender = later()
try:
    while True:
        sender.join()
except KeyboardInterrupt:
    print("interrupted", working.is_alive())
"""


def test_a_loop_of_another_thread_lets_the_main_one_run(tmp_path):
    assert run(LOOPS + OTHER_THREAD, tmp_path).split() == ["interrupted", "True"]


DONATED = """
step = jit(sines, donate_argnums=0)
given = np.copy(vector)
step(np.copy(vector), 3)
sender = later()
try:
    step(given, STEPS)
except KeyboardInterrupt:
    print(given.shape == vector.shape, np.allclose(step(np.copy(vector), 1), np.sin(vector)))
sender.join()
"""


@pytest.mark.dear
def test_donated_arrays_can_be_written_again(tmp_path):
    assert run(LOOPS + DONATED, tmp_path).split() == ["True", "True"]
