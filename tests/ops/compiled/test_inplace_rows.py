"""Scatters of rows are vectorised, and threads share the rows of running sums."""

import numpy as np
import pytest

import functrans.numpy as fnp
from functrans import config, grad, jit
from functrans.run.code import host

RNG = np.random.default_rng(0)
PLACES = RNG.integers(0, 20, 200)


def added(rows):
    total = fnp.zeros((20, *rows.shape[1:]), rows.dtype)
    np.add.at(total, PLACES, rows)
    return total


def last_set(rows):
    place = fnp.zeros((20, *rows.shape[1:]), rows.dtype)
    place[PLACES] = rows
    return place


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.bool_])
@pytest.mark.parametrize("shape", [(16,), (5,), (1,), (13,), (3, 20), (33,), (0,), ()])
def test_rows_are_scattered_whole(shape, dtype):
    rows = (RNG.standard_normal((200, *shape)) * 9).astype(dtype)
    for function in (last_set,) if dtype == np.bool_ else (last_set, added):
        expected = np.asarray(function(rows))
        np.testing.assert_allclose(jit(function)(rows), expected, rtol=1e-4, atol=1e-4)


def test_rows_go_along_vectors():
    lanes = host.target().lanes(8)
    assert f"in 0..16 by {lanes}" in jit(added).lower(np.ones((200, 16))).schedule()


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_threads_share_running_sums(name, monkeypatch):
    x = RNG.uniform(0.9, 1.1, (50, 70))
    running = getattr(np, name)
    compiled = jit(lambda x: running(x, axis=1))
    assert "for r in 0..50 in parallel" in compiled.lower(x).schedule()
    monkeypatch.setattr(config, "parallel_threshold", 0)
    for threads in (1, 3):
        monkeypatch.setattr(config, "threads", threads)
        np.testing.assert_allclose(compiled(x), running(x, axis=1), rtol=1e-12)
    loss = lambda x: np.sum(running(x, axis=1) ** 2)  # noqa: E731
    np.testing.assert_allclose(jit(grad(loss))(x), grad(loss)(x), rtol=1e-9)


@pytest.mark.parametrize("shape", [(0, 30), (5, 0, 7), (0,), (3, 0), (0, 0)])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "maximum.accumulate", "minimum.accumulate"])
def test_running_sums_of_nothing_store_nothing(name, shape):
    x = np.zeros(shape)
    running = getattr(np, name.split(".")[0])
    running = running if "." not in name else running.accumulate
    for axis in range(len(shape)):
        compiled = jit(lambda x, axis=axis: running(x, axis=axis))
        assert compiled(x).shape == shape
        assert all("=" not in line for line in body(compiled.lower(x).schedule()))
        slope = jit(grad(lambda x, axis=axis: np.sum(np.sin(running(x, axis=axis)))))
        assert slope(x).shape == shape


def body(plan):
    """The lines of a plan that say what is computed."""
    return [line for line in plan.splitlines() if line.startswith(" ")]
