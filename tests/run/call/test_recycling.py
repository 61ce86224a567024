"""Memory of large results is reused once they are freed."""

import mmap
import sys
import threading

import numpy as np
import pytest

from functrans import config, jit
from functrans.run.call import memory
from tests.run.processes import run

pytestmark = pytest.mark.skipif(not memory._SUPPORTED, reason="not on this system")

X = np.linspace(0.0, 1.0, 300_000)
double = jit(lambda x: (2.0 * x, x + 1.0))


def handler_of(array):
    return np._core.multiarray.get_handler_name(array)


def kept():
    return int(memory._state[memory.KEPT])


@pytest.fixture(autouse=True)
def empty():
    """Nothing kept before, and the usual limit."""
    before = config.recycle_bytes
    double(X)
    config.recycle_bytes = 0
    config.recycle_bytes = 64 * 1024 * 1024
    yield
    config.recycle_bytes = before


@pytest.mark.parametrize("extent", [16_384, 100_000, 300_000])
def test_a_result_comes_where_the_one_before_has_been(extent):
    x = X[:extent]
    first = double(x)
    places = {array.ctypes.data for array in first}
    assert kept() == 0
    del first
    assert kept() == 2 * x.nbytes
    second = double(x)
    assert {array.ctypes.data for array in second} == places
    assert kept() == 0
    np.testing.assert_array_equal(second[0], 2.0 * x)


def test_what_somebody_has_stays_as_it_is():
    results = [double(X * i)[0] for i in range(20)]
    part = double(X * 20)[1][10:20]
    for _ in range(5):
        double(X)
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result, 2.0 * (X * i))
    np.testing.assert_array_equal(part, (X * 20 + 1)[10:20])


def test_results_are_plain_arrays():
    result, _ = double(X)
    assert handler_of(result) == "functrans"
    assert type(result) is np.ndarray
    assert result.flags.owndata
    assert result.flags.writeable
    assert result.base is None
    result.resize(400_000, refcheck=False)
    np.testing.assert_array_equal(result[:300_000], 2.0 * X)
    assert not result[300_000:].any()
    assert handler_of(result.copy()) == "default_allocator"
    assert handler_of(np.empty(300_000)) == "default_allocator"


@pytest.mark.parametrize("extent", [16_384, 20_001, 300_000])
def test_large_results_begin_at_a_cache_line(extent):
    x = np.linspace(0.0, 1.0, extent)
    results = [array for _ in range(8) for array in double(x)]
    assert [array.ctypes.data % 64 for array in results] == [0] * len(results)


def test_small_results_are_the_usual_ones():
    assert handler_of(double(X[:1000])[0]) == "default_allocator"


@pytest.mark.full
def test_no_more_is_kept_than_may_be():
    config.recycle_bytes = 5 * X.nbytes
    results = [double(X[: 300_000 - 1000 * i]) for i in range(10)]
    del results
    assert 0 < kept() <= 5 * X.nbytes
    config.recycle_bytes = 1000
    assert kept() == 0
    double(X)
    assert kept() == 0


@pytest.mark.full
def test_many_sizes_take_turns():
    for i in range(100):
        double(X[: 300_000 - 100 * i])
    assert kept() <= config.recycle_bytes
    sizes = memory._state[memory.SLOTS + 1 :: 2]
    assert kept() == sizes.sum()


def test_from_the_start_nothing_is_kept_if_nothing_may_be():
    config.recycle_bytes = 0
    other = jit(lambda x: 3.0 * x)
    assert handler_of(other(X)) == "default_allocator"


@pytest.mark.full
def test_many_threads():
    wrong = []

    def work(scale):
        for i in range(100):
            one, other = double(X * scale)
            if one[i] != 2.0 * (X[i] * scale) or other[-1] != scale + 1.0:
                wrong.append(scale)

    workers = [threading.Thread(target=work, args=(float(i),)) for i in range(1, 7)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert kept() == memory._state[memory.SLOTS + 1 :: 2].sum()


LAST = """
import os, sys
import numpy as np
from functrans import jit
x = np.linspace(0, 1, 300_000)
f = jit(lambda x: 2.0 * x)
sys.held = f(x)
f(x)
child = os.fork() if hasattr(os, "fork") else -1
if child == 0:
    os._exit(0 if np.array_equal(f(x), 2 * x) and np.array_equal(f(-x), -2 * x) else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if child > 0 else 0, f(x)[-1])
"""


@pytest.mark.full
def test_arrays_that_are_there_when_python_ends(tmp_path):
    out = run(LAST, tmp_path, PYTHONWARNINGS="ignore::DeprecationWarning")
    assert out.split() == ["0", "2.0"]


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE

    for _ in range(20):
        double(X)
    growth = []
    for _ in range(3):
        before = resident()
        for i in range(300):
            double(X[: 200_000 + 137 * (i % 50)])
        growth.append(resident() - before)
    assert growth[0] < config.recycle_bytes + 8_000_000
    # what is not freed grows each time
    assert min(growth) < 8_000_000
