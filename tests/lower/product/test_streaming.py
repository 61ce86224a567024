"""Products that go over the same blocks of rows: attention, and its gradients."""

import numpy as np
import pytest

from functrans import config, grad, jit, trace
from functrans.loop.target import CPU
from functrans.lower import pipeline
from functrans.lower.product.stream import Streaming
from functrans.lower.verify import verify
from functrans.ops.linalg.compiled.blas import Products
from functrans.ops.linalg.compiled.forms import Forms
from functrans.optimise import optimise
from functrans.run.code import host

RNG = np.random.default_rng(0)
SMALL = CPU.having(
    Streaming(least_bytes=1, least_shared_bytes=1),
    Forms(fewest_rows=1, least_work=1),
    Products(smallest_side=2, smallest_work=1),
)


@pytest.fixture
def small(monkeypatch):
    """All products are blocked, and streamed where they can be."""
    monkeypatch.setattr(host, "other", SMALL)
    monkeypatch.setattr(config, "cache", False)


def arrays(heads, rows, others, size):
    return [RNG.standard_normal((heads, n, size)) for n in (rows, others, others)]


def softmax(x):
    e = np.exp(x - np.max(x, -1, keepdims=True))
    return e / np.sum(e, -1, keepdims=True)


def attention(q, k, v):
    return softmax(np.einsum("hqd,hkd->hqk", q, k) * 0.3) @ v


def loss(q, k, v):
    return np.sum(attention(q, k, v) ** 2)


def planned(function, *args):
    return pipeline.plan(optimise(trace(function)(*args)), SMALL)


def temporaries(function, *args):
    """The largest array between the kernels of a program, in elements."""
    return max(one.count for one in planned(function, *args).offsets)


SIZES = [(4, 16, 16, 8), (5, 20, 9, 3), (4, 7, 30, 17), (6, 33, 8, 5)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("function", [attention, grad(loss, argnums=(0, 1, 2))])
def test_attention(small, function, sizes):
    args = arrays(*sizes)
    for one, other in zip(jit(function)(*args), function(*args), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("function", [attention, grad(loss, argnums=(0, 1, 2))])
def test_every_access_is_proved(function):
    assert verify(planned(function, *arrays(4, 13, 9, 5))) == 0


def test_memory_is_linear_in_the_rows():
    whole = 4 * 400 * 400
    args = arrays(4, 400, 400, 8)
    assert temporaries(attention, *args) <= whole // 8
    assert temporaries(grad(loss, argnums=(0, 1, 2)), *args) <= whole // 8


def test_weights_that_are_a_result_are_in_memory(small):
    def both(q, k, v):
        weights = softmax(np.einsum("hqd,hkd->hqk", q, k) * 0.3)
        return weights, weights @ v

    args = arrays(4, 20, 24, 8)
    for one, other in zip(jit(both)(*args), both(*args), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_what_reads_other_rows_is_not_streamed(small):
    def shifted(q, k, v):
        weights = softmax(np.einsum("hqd,hkd->hqk", q, k))
        return weights[:, ::-1] @ v, np.cumsum(weights, axis=1) @ v

    args = arrays(4, 20, 20, 8)
    for one, other in zip(jit(shifted)(*args), shifted(*args), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_bits_do_not_depend_on_the_number_of_threads(small, monkeypatch):
    args, results = arrays(6, 40, 40, 16), set()
    function = jit(grad(loss, argnums=(0, 1, 2)))
    for number in (1, 2, 5):
        monkeypatch.setattr(config, "threads", number)
        results.add(b"".join(each.tobytes() for each in function(*args)))
    assert len(results) == 1
