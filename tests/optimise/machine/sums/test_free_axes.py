"""Sums over free axes of matrix products become products of sums."""

import numpy as np
import pytest

from functrans import grad, jit
from functrans.loop.target import CPU
from functrans.optimise import legalised, optimise, rewritten

EXTENTS = (0, 1, 2, 17, 300, 2600)
SUMS = {
    "rows": lambda x, q, w: np.sum(x @ q, axis=0),
    "mean": lambda x, q, w: np.mean(x @ q, axis=0),
    "columns": lambda x, q, w: np.sum(x @ q, axis=1),
    "all": lambda x, q, w: np.sum(x @ q),
    "transposed": lambda x, q, w: np.sum((x @ q).T, axis=1),
    "weighted": lambda x, q, w: np.sum(w[:, None] * (x @ q), axis=0),
    "of many": lambda x, q, w: np.sum(np.stack([x, -x]) @ q, axis=1),
}


def drawn(rows):
    rng = np.random.default_rng(rows)
    return rng.standard_normal((rows, 64)), rng.standard_normal((64, 48)), np.ones(rows)


@pytest.mark.parametrize("function", SUMS.values(), ids=SUMS)
def test_no_product_is_made(function):
    args = drawn(2000)
    graph = jit(function).lower(*args).graph()
    made = rewritten(legalised(optimise(graph), CPU), CPU)
    assert max(eqn.outputs[0].aval.size for eqn in made.eqns) <= 2 * args[0].size
    shapes = [eqn.outputs[0].aval.shape for eqn in made.eqns]
    assert not [shape for shape in shapes if shape[-2:] == (2000, 48)]


@pytest.mark.parametrize("rows", EXTENTS)
@pytest.mark.parametrize("function", SUMS.values(), ids=SUMS)
def test_results_and_gradients(function, rows):
    if rows == 0 and function is SUMS["mean"]:
        return
    args = drawn(rows)
    np.testing.assert_allclose(jit(function)(*args), function(*args), rtol=1e-9, atol=1e-9)
    loss = lambda *args: np.sum(np.sin(function(*args) / 50))  # noqa: E731
    both = zip(jit(grad(loss, (0, 1, 2)))(*args), grad(loss, (0, 1, 2))(*args), strict=True)
    for one, other in both:
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_a_product_that_is_needed_anyway_is_summed():
    x, q, _ = drawn(2000)

    def function(x, q):
        y = x @ q
        return y, np.sum(y, axis=0)

    graph = jit(function).lower(x, q).graph()
    made = rewritten(legalised(optimise(graph), CPU), CPU)
    assert sum(eqn.primitive.name == "dot_general" for eqn in made.eqns) == 1
