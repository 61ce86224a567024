"""chunked_map: every source and engine against NumPy on the whole array; failures; memory."""

import os
import subprocess
import sys
import textwrap
import time
from functools import partial

import numpy as np
import pytest

from functrans import grad, jit
from functrans.distributed import chunked_map
from functrans.errors import AxisSizeError, TreeMismatchError

RNG = np.random.default_rng(0)
X, Y, W = RNG.normal(size=(103, 4)), RNG.normal(size=103), RNG.normal(size=4)
ENGINES = ["serial", "threads"]


def gradient(chunk):
    rows, targets = chunk
    return grad(lambda w: np.sum((rows @ w - targets) ** 2))(W)


WHOLE = 2 * X.T @ (X @ W - Y)


def on_disk(folder, x, name):
    path = folder / f"{name}.bin"
    x.tofile(path)
    return np.memmap(path, x.dtype, "r", shape=x.shape)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("chunk_size", [1, 10, 103, 1000, None])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_sum_of_gradients(engine, chunk_size, compiled):
    f = jit(gradient) if compiled else gradient
    found = chunked_map(f, (X, Y), combine="sum", chunk_size=chunk_size, engine=engine)
    np.testing.assert_allclose(found, WHOLE, rtol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_results_are_joined_in_the_order_of_the_chunks(engine):
    def slow_first(rows):
        time.sleep(0.02 if rows[0, 0] == X[0, 0] else 0.0)
        return {"sum": rows.sum(1), "twice": rows * 2}

    found = chunked_map(slow_first, X, chunk_size=10, engine=engine, workers=4)
    np.testing.assert_array_equal(found["sum"], X.sum(1))
    np.testing.assert_array_equal(found["twice"], X * 2)


def test_a_function_puts_results_together():
    largest = chunked_map(lambda x: x.max(), X, combine=np.maximum, chunk_size=7)
    assert largest == X.max()


@pytest.mark.parametrize("engine", ENGINES)
def test_memory_mapped_files(engine, tmp_path):
    x, y = on_disk(tmp_path, X, "x"), on_disk(tmp_path, Y, "y")
    run = partial(chunked_map, combine="sum", chunk_size=10, engine=engine)
    np.testing.assert_allclose(run(gradient, (x, y)), WHOLE)
    part = slice(20, 61)
    np.testing.assert_allclose(run(lambda rows: rows.sum(0), x[part]), X[part].sum(0))
    np.testing.assert_allclose(run(lambda rows: rows.sum(0), x[:, 1:]), X[:, 1:].sum(0))
    np.testing.assert_allclose(run(lambda rows: rows.sum(0), x[::2]), X[::2].sum(0))


def test_what_was_written_to_a_mapping_is_read(tmp_path):
    x = np.memmap(tmp_path / "x.bin", np.float64, "w+", shape=(10, 2))
    x[:] = np.arange(20).reshape(10, 2)
    np.testing.assert_array_equal(chunked_map(lambda r: r * 1, x, chunk_size=3), x)


class Sliced:
    """Like an array of another library."""

    def __init__(self, x):
        self._x, self.shape, self.dtype = x, x.shape, x.dtype

    def __getitem__(self, rows):
        return self._x[rows].tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_of_other_libraries(engine):
    found = chunked_map(lambda r: r.sum(1), Sliced(X), chunk_size=9, engine=engine)
    np.testing.assert_allclose(found, X.sum(1))


@pytest.mark.parametrize("engine", ENGINES)
def test_iterators(engine):
    given = (X[i : i + 5] for i in range(0, 100, 5))
    found = chunked_map(lambda r: r.sum(0), given, combine="sum", engine=engine)
    np.testing.assert_allclose(found, X[:100].sum(0))


def test_no_more_chunks_are_read_than_are_soon_needed():
    read = []

    def chunks():
        for i in range(50):
            read.append(i)
            yield np.full(3, i)

    seen = []

    def together(total, result):
        seen.append(len(read) - len(seen))
        return total + result

    chunked_map(np.sum, chunks(), combine=together, engine="threads", workers=2)
    assert max(seen) <= 6


@pytest.mark.parametrize("engine", ENGINES)
def test_an_error_says_which_chunk(engine):
    def f(rows):
        if rows[0, 0] == X[20, 0]:
            raise ArithmeticError("too cold")
        return rows

    with pytest.raises(ArithmeticError, match="too cold") as caught:
        chunked_map(f, X, chunk_size=10, engine=engine)
    assert caught.value.__notes__ == ["in chunk 2 of chunked_map(f)"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"engine": "spark"}, ValueError, "engine of chunked_map is one of serial, threads, dask"),
        ({"combine": "mean"}, ValueError, "combine is 'sum', 'concatenate' or a function"),
        ({"chunk_size": 0}, ValueError, "chunk_size of chunked_map must be at least 1, not 0"),
    ],
)
def test_options_that_are_none(options, error, words):
    with pytest.raises(error, match=words):
        chunked_map(np.sum, X, **options)


def test_sources_that_are_none():
    with pytest.raises(TypeError, match=r"chunked_map takes arrays .* not 3"):
        chunked_map(np.sum, 3)
    with pytest.raises(AxisSizeError, match=r"source\[1\] has 3, and the first one 103"):
        chunked_map(np.sum, (X, Y[:3]))
    with pytest.raises(ValueError, match="an iterator gives chunks of its own"):
        chunked_map(np.sum, iter([X]), chunk_size=2)
    with pytest.raises(ValueError, match="the source has no chunks"):
        chunked_map(np.sum, iter([]))


def test_results_of_other_structures():
    with pytest.raises(TreeMismatchError, match="must return the same structure for every chunk"):
        chunked_map(lambda r: (r,) if len(r) == 10 else r, X, chunk_size=10)


def test_no_rows_are_one_chunk():
    assert chunked_map(lambda r: r.sum(0), X[:0], combine="sum").tolist() == [0.0] * 4


PEAK = """
    import resource, sys
    import numpy as np
    from functrans import jit
    from functrans.distributed import chunked_map
    x = np.memmap(sys.argv[1], np.float64, "r", shape=(int(sys.argv[2]), 1000))
    f = jit(lambda rows: np.sum(np.tanh(rows), axis=0))
    total = chunked_map(f, x, combine="sum", chunk_size=500, engine=sys.argv[3])
    assert total.shape == (1000,) and np.isfinite(total).all()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.dear
@pytest.mark.skipif(sys.platform == "win32", reason="resource is of Unix")
@pytest.mark.parametrize("engine", ["threads", pytest.param("serial", marks=pytest.mark.full)])
def test_memory_does_not_grow_with_the_data(engine, tmp_path):
    path = tmp_path / "x.bin"
    with path.open("wb") as file:
        for _ in range(30):
            np.ones((1000, 1000)).tofile(file)

    def peak(rows):
        command = [sys.executable, "-c", textwrap.dedent(PEAK), str(path), str(rows), engine]
        fresh = {**os.environ, "FUNCTRANS_CACHE": "0"}  # compiling takes memory, too: each time
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env=fresh)
        return int(ran.stdout)

    assert peak(30_000) < 1.1 * peak(10_000)


LIMITED = """
    import resource, sys
    import numpy as np
    from functrans import grad, jit, vmap
    from functrans.distributed import chunked_map
    rows, columns = 30_000, 1000
    x = np.memmap(sys.argv[1], np.float64, "r", shape=(rows, columns))
    w = np.full(columns, 1e-3)

    @jit
    def statistics(x):
        each = vmap(grad(lambda w, x: np.sin(x @ w)), in_axes=(None, 0))(w, x)
        return each.sum(0), (each**2).sum(0)

    chunked_map(statistics, x[:400], combine="sum", chunk_size=200)
    used = [line for line in open("/proc/self/status") if line.startswith("VmData")]
    limit = int(used[0].split()[1]) * 1024 + x.nbytes // 10
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        np.ones(x.nbytes // 8)
    except MemoryError:
        total, squares = chunked_map(statistics, x, combine="sum", chunk_size=200)
        slope = np.cos(1.0)
        assert np.allclose(total, rows * slope) and np.allclose(squares, rows * slope**2)
        print("done")
"""


@pytest.mark.dear
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is of Linux")
def test_per_sample_gradients_of_ten_times_as_much_as_may_be_allocated(tmp_path):
    path = tmp_path / "x.bin"
    with path.open("wb") as file:
        for _ in range(30):
            np.ones((1000, 1000)).tofile(file)
    command = [sys.executable, "-c", textwrap.dedent(LIMITED), str(path)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.stdout == "done\n", ran.stderr[-3000:]


@pytest.mark.full
def test_a_cluster():
    """`on_a_cluster.py` in a process of its own, which has Dask's threads and processes."""
    pytest.importorskip("distributed")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--noconftest"]
    command = [sys.executable, "-m", "pytest", *options, "tests/distributed/on_a_cluster.py"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
