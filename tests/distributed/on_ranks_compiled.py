"""Scenarios of MPI communication from compiled code, run in several processes by `test_mpi.py`."""

import re
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from mpi4py import MPI

from functrans import grad, jit, lax, value_and_grad, vmap
from functrans import numpy as fnp
from functrans.distributed import P, shard_map
from tests.distributed.on_ranks import MPI_MESH, RANK, N, agree, both
from tests.distributed.programs import SIZE, collectives, data

WORLD = MPI.COMM_WORLD
SIZES = [0, 1, 17, 300, 2600]


def messages(function, *args):
    """The messages in the program of a function, which has no part that Python runs."""
    lowered = jit(function).lower(*args)
    assert "call NumPy" not in lowered.schedule()
    return re.findall(r"mpi_(?!rank)([a-z]+)_[a-z]+_\w+\(", lowered.source())


@pytest.mark.parametrize("name", collectives(N))
def test_in_a_loop(name):
    collective = collectives(N)[name]

    def part(x):
        def step(c, k):
            y = lax.pvary(collective(c), "data")
            return c * 0.5 + 0.1 * fnp.sum(fnp.sin(y)) / y.size, fnp.sum(y) * k

        c, sums = lax.scan(step, x, np.arange(1.0, 6.0))
        return c, lax.pvary(sums, "data")

    ours, simulated = both(part, P("data"), (P("data"), P("data")))
    _, x = data(N)
    for found, expected in zip(jit(ours)(x), simulated(x), strict=True):
        agree(found, expected)
    v = np.random.default_rng(1).normal(size=x.shape)

    def loss(f):
        return lambda x: sum(fnp.sum(part**2) for part in f(x))

    def along(f):
        return lambda x: fnp.sum(grad(loss(f))(x) * v)

    if name not in ("pmax", "pmin"):  # ties
        agree(jit(grad(along(ours)))(x), grad(along(simulated))(x))
    agree(jit(grad(loss(ours)))(x), grad(loss(simulated))(x))


@pytest.mark.parametrize("name", collectives(N))
def test_it_is_compiled_as_a_whole(name):
    collective = collectives(N)[name]
    ours, _ = both(lambda x: lax.pvary(collective(x), "data"), P("data"), P("data"))
    assert len(messages(ours, data(N)[1])) == (2 if name not in ("pvary", "axis_index") else 1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "complex128", "bool"])
def test_sizes(size, dtype):
    x = np.random.default_rng(size).integers(0, 5, size=(N, size)).astype(dtype)

    def part(x):
        (x,) = x
        ring = [(i, (i + 1) % N) for i in range(N)]
        found = [lax.all_gather(x, "data"), lax.ppermute(x, "data", ring)]
        if x.dtype.kind != "b":
            found += [lax.psum(x, "data")]
        if x.dtype.kind != "c":
            found += [lax.pmax(x, "data"), lax.pmin(x, "data")]
        rows = fnp.stack([x] * N)
        found += [lax.all_to_all(rows, "data", 0, 0)]
        if x.dtype.kind != "b":
            found += [lax.psum_scatter(rows, "data")]
        return [lax.pvary(y, "data")[None] for y in found]

    ours, simulated = both(part, P("data"), P("data"))
    for found, expected in zip(jit(ours)(x), simulated(x), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["pmax", "pmin"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_extreme_with_a_nan_is_a_nan(name, dtype):
    x = np.random.default_rng(1).normal(size=(N, 300)).astype(dtype)
    x[0, 3] = x[N - 1, 7] = np.nan
    x[0, 9], x[N - 1, 9] = -np.inf, np.inf
    extreme = {"pmax": np.max, "pmin": np.min}[name]
    ours = shard_map(lambda x: collectives(N)[name](x[0]), MPI_MESH, P("data"), P())
    np.testing.assert_array_equal(jit(ours)(x), extreme(x, axis=0))
    assert len(messages(ours, x)) == 1


# -- buckets ---------------------------------------------------------------------------------------


def network(sizes):
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=pair) / pair[0] for pair in pairwise(sizes)]
    biases = [rng.normal(size=n) for n in sizes[1:]]
    return weights, biases, rng.normal(size=(4 * N, sizes[0])), rng.normal(size=4 * N)


def loss(weights, biases, x, y):
    for w, b in zip(weights, biases, strict=True):
        x = fnp.tanh(x @ w + b)
    return lax.pmean(fnp.mean((x.sum(1) - y) ** 2), "data")


SPECS = (P(), P(), P("data"), P("data"))


@pytest.mark.few(1)
@pytest.mark.parametrize("count", [2, 1, 5])
def test_gradients_of_many_arrays_are_one_message(count):
    given = network([7, 17, 5, 9, 3, 2][: count + 1])
    step = value_and_grad(loss, argnums=(0, 1))
    ours, simulated = both(step, SPECS, (P(), (P(), P())))
    (found, by), (expected, wanted) = jit(ours)(*given), simulated(*given)
    agree(found, expected)
    for a, b in zip([*by[0], *by[1]], [*wanted[0], *wanted[1]], strict=True):
        agree(a, b)
    local = shard_map(step, MPI_MESH, SPECS, (P(), (P(), P())), local=True)
    assert messages(local, *given) == ["allreduce"]


def test_what_waits_for_another_sum_has_a_message_of_its_own():
    def part(x, y):
        mean = lax.pmean(x, "data")
        spread = lax.pmean((x - mean) ** 2, "data")
        other = lax.psum(y * 2, "data")
        return mean, spread, other, lax.psum(other * y + mean, "data")

    ours, simulated = both(part, P("data"), P())
    x, y = np.random.default_rng(2).normal(size=(2, 3 * N, 4))
    for found, expected in zip(jit(ours)(x, y), simulated(x, y), strict=True):
        agree(found, expected)
    local = shard_map(part, MPI_MESH, P("data"), P(), local=True)
    assert messages(local, x, y) == ["allreduce"] * 2


def test_large_arrays_and_others_dtypes_have_messages_of_their_own():
    def part(a, b, c, d):
        return [lax.psum(x * 2, "data") for x in (a, b, c, d)]

    given = [np.ones(1 << 15), np.ones(5), np.ones((2, 2)), np.ones(5, np.float32)]
    ours = shard_map(part, MPI_MESH, P(), P())
    for found, x in zip(jit(ours)(*given), given, strict=True):
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, x * 2 * N)
    assert messages(ours, *given) == ["allreduce"] * 3


# -- where they stand ------------------------------------------------------------------------------


def test_steps_that_hand_nothing_on_keep_their_order():
    """A scan without a carry would be shared by threads, if it passed no messages."""

    def part(x):
        return lax.scan(lambda _, row: (None, lax.psum(row, "data")), None, x)[1]

    ours, simulated = both(part, P(None, "data"), P())
    x = np.random.default_rng(3).normal(size=(200, 64 * N))
    agree(jit(ours)(x), simulated(x))


def test_in_a_branch_and_in_a_loop_that_ends_when_all_agree():
    def part(x):
        def step(c):
            larger = lax.pmax(fnp.max(c), "data") > 3.0

            def less(c):
                return c * 0.5 - 0.1 * lax.pvary(lax.pmean(c, "data"), "data")

            return lax.cond(larger, less, lambda c: c * 0.9, c)

        return lax.while_loop(lambda c: lax.psum(fnp.sum(c**2), "data") > 1.0, step, x)

    ours, simulated = both(part, P("data"), P("data"))
    x = np.random.default_rng(4).normal(size=(5 * N, 3)) * 4
    agree(jit(ours)(x), simulated(x))
    assert messages(ours, x)


def test_layers_that_are_outlined():
    def part(w, x):
        for _ in range(6):
            x = fnp.tanh(lax.psum(x @ w, "data"))
            x = lax.pvary(x, "data")
        return lax.pmean(x, "data")

    ours, simulated = both(part, (P(), P("data")), P())
    w, x = np.random.default_rng(5).normal(size=(20, 20)), np.ones((20 * N, 20))
    agree(jit(ours)(w, x), simulated(w, x))
    assert "call NumPy" not in jit(ours).lower(w, x).schedule()


def test_a_batch_of_messages_is_one():
    ours, simulated = both(
        lambda x: fnp.sin(x) - lax.pmean(fnp.cos(x), "data"), P("data"), P("data")
    )
    x = np.random.default_rng(6).normal(size=(5, N * 2, 3))
    agree(jit(vmap(ours))(x), vmap(simulated)(x))


@pytest.mark.parametrize("backend", ["native", "numba"])
def test_each_back_end_calls_mpi(backend):
    def part(x):
        def step(c, _):
            return lax.pvary(lax.pmean(c, "data"), "data"), lax.pmax(c, "data")

        return lax.scan(step, x, None, length=3)[1]

    ours, simulated = both(part, P("data"), P())
    _, x = data(N)
    agree(jit(ours, backend=backend)(x), simulated(x))


def test_other_threads_of_python_run_while_one_waits():
    f = jit(shard_map(lambda x: lax.psum(x, "data"), MPI_MESH, P("data"), P()))
    x = np.ones(N)
    f(x)
    turns, over = 0, threading.Event()

    def count():
        nonlocal turns
        while not over.is_set():
            turns += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    if RANK:
        time.sleep(0.3)
    before = turns
    f(x)
    over.set()
    thread.join()
    assert RANK or turns - before > 20


def test_half_floats_go_by_python():
    """What MPI cannot add up is added up in float32."""
    ours, simulated = both(lambda x: lax.psum(x, "data"), P("data"), P())
    x = (np.arange(N * SIZE) % 7).astype(np.float16)
    assert jit(ours)(x).dtype == np.float16
    np.testing.assert_array_equal(jit(ours)(x), simulated(x))
    assert "call NumPy" in jit(ours).lower(x).schedule()
