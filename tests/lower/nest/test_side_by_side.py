"""Interleaving of several vectors: dependent operations, and sums along columns."""

from functools import partial

import numpy as np
import pytest

from functrans import config, jit, lax
from functrans.lower.nest.vectors import Vectors
from functrans.run.code import host
from tests.targets import take_host_for

LANES = host.target().lanes(8)
WIDE = LANES * host.target()[Vectors].wide_columns
TOGETHER = LANES * host.target()[Vectors].together


def vectors(f, *args):
    schedule = jit(f).lower(*args).schedule()
    return [int(line.split()[-1]) for line in schedule.splitlines() if " by " in line]


def test_functions_go_side_by_side():
    x = np.linspace(-3, 3, 1024)
    assert vectors(np.tanh, x) == [TOGETHER]
    assert vectors(lambda x: np.exp(x) * np.sin(x), x) == [TOGETHER]
    # conditions of conditions take more registers than numbers do
    assert vectors(lambda x: np.where((x > 0) & (x < 1), np.exp(x), np.tanh(x)), x) == [LANES]
    # a copy waits for memory; elements that are not neighbours are loaded one by one
    assert vectors(lambda x: x * 2.0, x) == [LANES]
    assert vectors(lambda x: np.tanh(x[::3]), np.linspace(-3, 3, 3072)) == [LANES]


def test_narrow_results_fill_their_vectors_without_avx512(monkeypatch):
    x = np.linspace(-3, 3, 1024)
    take_host_for(monkeypatch, vector_bytes=32, registers=16)
    assert vectors(lambda x: x.astype(np.float32), x) == [8]
    assert vectors(lambda x: x > 1, x) == [4 * host.target()[Vectors].packed]
    assert vectors(lambda x: x > 1, x.astype(np.int8)) == [32]
    take_host_for(monkeypatch, vector_bytes=64, registers=32)
    assert vectors(lambda x: x.astype(np.float32), x) == [8]
    assert vectors(lambda x: x > 1, x) == [8]


def test_all_lengths():
    before = config.threads
    for n in (0, 1, 2, 3, 5, 9, 17, 33, 300, 2600):
        x = np.random.default_rng(n).normal(size=n)
        for config.threads in (1, 2):
            found = jit(lambda x: (np.tanh(x) * np.exp(x), x))(x)
            np.testing.assert_allclose(found[0], np.tanh(x) * np.exp(x), rtol=1e-14)
            np.testing.assert_array_equal(jit(lambda x: x > 0)(x), x > 0)
    config.threads = before


def test_sums_of_columns_do_not_overlap():
    v = np.ones(60)
    for columns, parts in (
        (3 * WIDE, [WIDE]),
        (3 * WIDE + LANES, [WIDE, LANES]),
        (WIDE + WIDE // 2 + LANES, [WIDE, WIDE // 2, LANES]),
        # almost as many as fill all vectors
        (2 * WIDE - 1, [WIDE]),
    ):
        found = vectors(lambda v, w: v @ w, v, np.ones((60, columns)))
        assert found == parts, columns
    # threads share a long loop
    assert vectors(lambda v, w: v @ w, v, np.ones((60, 60 * WIDE + LANES))) == [WIDE]


def sums(v, w):
    def step(h, _):
        return h / 2 + v, h @ w

    return v @ w, w.sum(0), w.max(0), lax.scan(step, v, None, length=3)[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_any_number_of_columns(dtype, monkeypatch):
    rng = np.random.default_rng(1)
    for columns in (1, 2, 17, 63, 65, 72, 100, 135, 150, 200, 300, 361):
        v, w = rng.normal(size=40).astype(dtype), rng.normal(size=(40, columns)).astype(dtype)
        found = []
        for threads in (1, 2, 5):
            monkeypatch.setattr(config, "threads", threads)
            found.append(jit(sums)(v, w))
        product, total, largest, steps = found[0]
        close = partial(np.testing.assert_allclose, rtol=0, atol=200 * np.finfo(dtype).eps)
        exact = [sum(float(v[i] * w[i, j]) for i in range(40)) for j in range(columns)]
        close(product, exact)
        close(steps, np.outer([1, 1.5, 1.75], exact))
        close(total, [sum(float(w[i, j]) for i in range(40)) for j in range(columns)])
        np.testing.assert_array_equal(largest, [max(w[:, j]) for j in range(columns)])
        for other in found[1:]:
            for one, another in zip(found[0], other, strict=True):
                np.testing.assert_array_equal(one, another)
