"""Scenarios that `test_mpi.py` runs in several MPI processes, compared with simulated processes.

Communication from compiled code is tested in `on_ranks_compiled.py`.
"""

import os

import numpy as np
import pytest
from mpi4py import MPI

from functrans import config, grad, jit, jvp, lax, vmap
from functrans.distributed import Mesh, P, shard_map
from tests.distributed.programs import SIZE, collectives, data, loss_of

N = MPI.COMM_WORLD.Get_size()
RANK = MPI.COMM_WORLD.Get_rank()
MPI_MESH, SIM = (Mesh({"data": N}, engine=engine) for engine in ("mpi", "sim"))
CLOSE = {"rtol": 1e-12, "atol": 1e-12}

mark = pytest.mark.parametrize("name", collectives(N))


def both(function, in_specs, out_specs):
    return (shard_map(function, mesh, in_specs, out_specs) for mesh in (MPI_MESH, SIM))


def agree(found, expected):
    """The relative difference is less than 1e-12."""
    assert np.shape(found) == np.shape(expected)
    assert np.abs(found - expected).max() < 1e-12 * max(np.abs(expected).max(), 1e-300)


@mark
def test_values(name):
    _, x = data(N)
    collective = collectives(N)[name]
    ours, simulated = both(lambda x: lax.pvary(collective(x), "data"), P("data"), P("data"))
    expected = simulated(x)
    np.testing.assert_allclose(ours(x), expected, **CLOSE)
    np.testing.assert_allclose(jit(ours)(x), expected, **CLOSE)


@mark
def test_gradients(name):
    w, x = data(N)
    loss = loss_of(collectives(N)[name])
    ours, simulated = both(loss, (P(), P("data")), P())
    expected = grad(simulated, argnums=(0, 1))(w, x)
    for transform in (lambda f: f, jit):
        found = transform(grad(ours, argnums=(0, 1)))(w, x)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, **CLOSE)
    inside, _ = both(grad(loss, argnums=(0, 1)), (P(), P("data")), (P(), P("data")))
    for a, b in zip(inside(w, x), expected, strict=True):
        np.testing.assert_allclose(a, b, **CLOSE)


@mark
def test_second_derivatives(name):
    w, x = data(N)
    loss = loss_of(collectives(N)[name])
    ours, simulated = both(loss, (P(), P("data")), P())
    v = np.random.default_rng(2).normal(size=w.shape)

    def slope(total):
        return lambda w: (grad(total)(w, x) * v).sum()

    expected = grad(slope(simulated))(w)
    for transform in (lambda f: f, jit):
        agree(transform(grad(slope(ours)))(w), expected)
    pushed = jvp(lambda w: grad(ours)(w, x), (w,), (v,))[1]
    agree(pushed, expected)

    def within(w, x):
        return grad(lambda w: (grad(loss)(w, x) * v).sum())(w)

    inside, _ = both(within, (P(), P("data")), P())
    agree(inside(w, x), expected)
    agree(jit(inside)(w, x), expected)


@mark
def test_the_pullback_is_the_adjoint(name):
    """``<c, A t> = <A* c, t>`` for whole arrays."""
    _, x = data(N)
    collective = collectives(N)[name]
    ours, _ = both(lambda x: lax.pvary(collective(x), "data"), P("data"), P("data"))
    t = np.random.default_rng(3).normal(size=x.shape)
    moved = jvp(ours, (x,), (t,))[1]
    c = np.random.default_rng(4).normal(size=moved.shape)
    for transform in (lambda f: f, jit):
        pulled = transform(grad(lambda x: (ours(x) * c).sum()))(x)
        np.testing.assert_allclose((c * moved).sum(), (pulled * t).sum(), rtol=1e-12)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int32", "uint64", "float16", "float32", "complex64", "complex128"]
)
@pytest.mark.parametrize("name", ["psum", "all_gather", "all_to_all", "ppermute", "psum_scatter"])
def test_dtypes(dtype, name):
    x = (np.arange(N * SIZE * 3).reshape(N * SIZE, 3) % 7).astype(dtype)
    collective = collectives(N)[name]
    if dtype == "bool" and name == "psum_scatter":
        pytest.skip("a sum of truths is no truth")
    ours, simulated = both(lambda x: lax.pvary(collective(x), "data"), P("data"), P("data"))
    expected = simulated(x)
    for found in (ours(x), jit(ours)(x)):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "float64", "float16"])
@pytest.mark.parametrize("name", ["pmax", "pmin"])
def test_extremes(dtype, name):
    x = np.random.default_rng(1).integers(0, 9, size=(N * SIZE, 3)).astype(dtype)
    if x.dtype.kind == "f":
        x[0, 0] = x[-1, 1] = np.nan  # which is the largest and the smallest, as for NumPy
        x[1, 2] = -np.inf
    ours, simulated = both(collectives(N)[name], P("data"), P())
    for found in (ours(x), jit(ours)(x)):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, simulated(x))


def test_vmap_of_shards():
    x = np.random.default_rng(1).normal(size=(5, N * 2, 3))
    ours, simulated = both(
        lambda x: x - lax.all_gather(x, "data", axis=0, tiled=True).mean(0), P("data"), P("data")
    )
    np.testing.assert_allclose(vmap(ours)(x), vmap(simulated)(x), **CLOSE)
    last = np.moveaxis(x, 0, 2)
    found, expected = (vmap(f, in_axes=2, out_axes=1)(last) for f in (ours, simulated))
    np.testing.assert_allclose(found, expected, **CLOSE)


def test_parts_of_ones_own():
    _, x = data(N)
    own = x[RANK * SIZE : (RANK + 1) * SIZE]
    w = np.ones(3)

    def loss(w, x):
        return lax.psum(np.sin(x @ w).sum(), "data")

    total = shard_map(loss, MPI_MESH, (P(), P("data")), P(), local=True)
    np.testing.assert_allclose(total(w, own), np.sin(x @ w).sum(), **CLOSE)
    by_w, by_x = grad(total, argnums=(0, 1))(w, own)
    np.testing.assert_allclose(by_w, x.T @ np.cos(x @ w), **CLOSE)
    np.testing.assert_allclose(by_x, np.cos(own @ w)[:, None] * w, **CLOSE)


def test_a_loop_that_runs_until_all_agree():
    def f(x):
        def goes_on(c):
            return lax.pmax(abs(c).max(), "data") > 1.0

        return lax.while_loop(goes_on, lambda c: c * 0.5, x)

    ours, simulated = both(f, P("data"), P("data"))
    _, x = data(N)
    np.testing.assert_array_equal(ours(x * 10), simulated(x * 10))
    np.testing.assert_array_equal(jit(ours)(x * 10), simulated(x * 10))


def test_training_in_a_scan():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(N * 8, 3)), rng.normal(size=N * 8)

    def train(w, x, y):
        def step(w, _):
            g = grad(lambda w: lax.pmean(((x @ w - y) ** 2).mean(), "data"))(w)
            return w - 0.1 * g, None

        return lax.scan(step, w, None, length=20)[0]

    ours, simulated = both(train, (P(), P("data"), P("data")), P())
    w = np.zeros(3)
    np.testing.assert_allclose(jit(ours)(w, x, y), simulated(w, x, y), **CLOSE)


def test_programs_that_differ_are_an_error_and_no_hang():
    def f(x):
        return x * (2.0 if RANK == 0 else 3.0)

    ours = shard_map(f, MPI_MESH, P("data"), P("data"))
    with pytest.raises(RuntimeError, match="f has become another program in the processes"):
        ours(np.ones(N))


def test_arrays_that_are_closed_over_and_differ():
    mine = np.full(3, float(RANK))
    ours = shard_map(lambda x: x + mine, MPI_MESH, P(), P())
    with pytest.raises(RuntimeError, match="closes over arrays that are not the same"):
        ours(np.ones(3))


def test_the_threads_are_shared_out():
    assert config.threads >= 1
    assert config.threads * N <= max(N, os.cpu_count())


def test_a_mesh_of_another_size():
    with pytest.raises(ValueError, match=f"has {N + 1} processes, and MPI has started {N}: mpi"):
        Mesh({"data": N + 1}, engine="mpi")


@pytest.mark.skipif(N != 4, reason="a grid of two by two")
@pytest.mark.parametrize("engine", ["mpi", "sim"])
def test_two_axes(engine):
    mesh = Mesh({"rows": 2, "columns": 2}, engine=engine)
    rng = np.random.default_rng(6)
    a, w = rng.normal(size=(8, 4)), rng.normal(size=(4, 3))

    def product(x, w):
        return lax.psum(x @ w, "columns")

    f = shard_map(product, mesh, (P("rows", "columns"), P("columns")), P("rows"))
    np.testing.assert_allclose(f(a, w), a @ w, **CLOSE)
    by_w = jit(grad(lambda w: np.sin(f(a, w)).sum()))(w)
    np.testing.assert_allclose(by_w, a.T @ np.cos(a @ w), **CLOSE)

    def number(x):
        return x + lax.axis_index("rows") * 10 + lax.axis_index("columns")

    by_rows = shard_map(number, mesh, P(("rows", "columns")), P(("rows", "columns")))
    np.testing.assert_array_equal(by_rows(np.zeros(8)), [0, 0, 1, 1, 10, 10, 11, 11])
