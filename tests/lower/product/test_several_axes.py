"""Products that sum over several axes, packed from all orders of axes."""

import numpy as np
import pytest

from functrans import config, jit, lax
from tests.targets import take_host_for

ORDERS = [
    ("abc,bcd->ad", (37, 8, 16), (8, 16, 130)),
    ("abc,cbd->ad", (37, 8, 16), (16, 8, 130)),
    ("bac,bcd->ad", (8, 37, 16), (8, 16, 130)),
    ("bca,dcb->ad", (8, 16, 37), (130, 16, 8)),
    ("bac,dbc->ad", (5, 37, 16), (130, 5, 16)),
    ("cab,dcb->ad", (16, 37, 4), (130, 16, 4)),
    ("abef,dbef->ad", (37, 3, 4, 8), (130, 3, 4, 8)),
    ("abef,fbed->ad", (37, 3, 4, 8), (8, 3, 4, 130)),
    ("xbac,xcbd->xad", (3, 8, 37, 16), (3, 16, 8, 130)),
    ("bauc,bcud->aud", (8, 37, 1, 16), (8, 16, 1, 130)),
    ("bac,bcd->ad", (8, 1, 16), (8, 16, 130)),
    ("bac,bcd->ad", (300, 17, 16), (300, 16, 130)),
    ("bac,bcd->ad", (3, 37, 700), (3, 700, 130)),
]
MACHINES = {
    "AVX-512": {},
    "AVX2": {"vector_bytes": 32, "registers": 16},
    "any extents": {"forms": {"fewest_columns_of_several": 1}},
}


def operands(*shapes, dtype=np.float64):
    rng = np.random.default_rng(0)
    return [rng.integers(-8, 9, size=shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("order", ORDERS)
def test_orders(order, machine, monkeypatch):
    take_host_for(monkeypatch, **MACHINES[machine])
    text, *shapes = order
    for dtype in (np.float64, np.float32, np.int64):
        x, y = operands(*shapes, dtype=dtype)
        found = jit(lambda x, y: np.einsum(text, x, y))(x, y)
        np.testing.assert_array_equal(found, np.einsum(text, x, y))


def test_with_what_is_made_of_it(monkeypatch):
    x, y = operands((16, 65, 32), (32, 16, 200))
    bias = np.arange(200.0)

    def f(x, y):
        return np.maximum(np.einsum("bac,cbd->ad", x * 2, y - 1) + bias, 0).sum(1)

    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(config, "threads", threads)
        found.append(jit(f)(x, y))
        np.testing.assert_array_equal(found[-1], f(x, y))


def test_symmetric_ones_and_loops():
    (x,) = operands((16, 150, 32))
    (w,) = operands((32, 16, 130))
    np.testing.assert_array_equal(
        jit(lambda x: np.einsum("bac,bdc->ad", x, x))(x), np.einsum("bac,bdc->ad", x, x)
    )

    def step(carry, x):
        return carry + np.einsum("bac,cbd->ad", x, w), None

    found, _ = jit(lambda xs: lax.scan(step, np.zeros((150, 130)), xs))(np.stack([x, x + 1]))
    np.testing.assert_array_equal(found, np.einsum("bac,cbd->ad", 2 * x + 1, w))


def test_what_is_not_finite():
    x, y = operands((16, 65, 32), (32, 16, 200))
    x[3, 5, 7], y[20, 3, 1] = np.nan, np.inf
    found = jit(lambda x, y: np.einsum("bac,cbd->ad", x, y))(x, y)
    np.testing.assert_array_equal(found, np.einsum("bac,cbd->ad", x, y))
