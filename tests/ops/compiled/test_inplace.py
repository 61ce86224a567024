"""Scatters and running sums in machine code: on their samples, under jit, inside of loops."""

import numpy as np
import pytest

from functrans import grad, jit, lax
from functrans.loop.target import CPU
from functrans.lower.select.partition import partition
from functrans.run.call.compiled import compile_graph
from tests.primitives.harness import cases

CASES = {
    name: case for name, case in cases(np.float64).items()
    if case.primitive.name.startswith(("scatter_", "cum"))
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_samples(case):
    assert len(partition(case.graph(), CPU)) == 1
    (got,) = compile_graph(case.graph())(*case.operands)
    (want,) = case.numpy(*case.operands)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-14)


def test_an_index_out_of_bounds():
    f = jit(lambda x, i: np.exp(x)[i])
    g = jit(grad(lambda x, i: np.sum(np.exp(x)[i] ** 2)))
    x = np.arange(3.0)
    for wrong in ([0, 3], [-4, 0]):
        for function in (f, g):
            with pytest.raises(IndexError):
                function(x, np.array(wrong))


def test_the_gradient_of_an_embedding_is_one_program():
    def loss(table, tokens, w):
        return np.sum(np.tanh(table[tokens] @ w))

    rng = np.random.default_rng(0)
    args = rng.normal(size=(50, 16)), rng.integers(-50, 50, (8, 9)), rng.normal(size=(16, 20))
    np.testing.assert_allclose(jit(grad(loss))(*args), grad(loss)(*args), rtol=1e-12, atol=1e-12)
    assert "NumPy" not in jit(grad(loss)).lower(*args).schedule()


def test_a_scatter_in_a_loop():
    def count(places):
        def step(counts, place):
            return counts.at[place].add(1.0), np.sum(np.cumsum(counts)[place])

        return lax.scan(step, np.zeros(5), places)

    places = np.array([[0, 1], [1, 4], [1, 1], [2, 0]])
    for got, want in zip(jit(count)(places), count(places), strict=True):
        np.testing.assert_allclose(got, want)
