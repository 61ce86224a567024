"""Programs of products of stacks over the same rows are executed block by block."""

import numpy as np
import pytest

import functrans
from functrans import config, jit, value_and_grad
from functrans.scipy.special import logsumexp
from tests.targets import take_host_for

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    take_host_for(monkeypatch, row_blocks={"least_bytes": 1, "block_bytes": 1, "fewest_rows": 16})


def mixture(alphas, means, factors, x):
    y = np.einsum("kij,nkj->nki", factors, x[:, None] - means)
    return np.sum(logsumexp(alphas - np.sum(y * y, 2), axis=1))


def operands(rows, components=5, columns=20):
    shapes = (components,), (components, columns), (components, columns, columns), (rows, columns)
    return [RNG.standard_normal(shape) / 2 for shape in shapes]


def turns(function, *args):
    """The numbers of times that the program calls its kernels."""
    lines = str(function.lower(*args).schedule()).splitlines()
    return {line.split(", in ")[1] for line in lines if line.startswith("nest") and ", in " in line}


def check(function, *args):
    found = jit(function)(*args)
    functrans.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9), found, function(*args)
    )


@pytest.mark.parametrize("rows", [96, 100, 97])
def test_gradients_of_a_mixture(rows):
    function, args = value_and_grad(mixture, argnums=(0, 1, 2)), operands(rows)
    assert turns(jit(function), *args) == {f"{rows // 16} turns"}
    check(function, *args)


@pytest.mark.dear
def test_triangles_of_which_half_of_the_sums_is_read():
    def of_triangles(alphas, means, below, x):
        return mixture(alphas, means, np.tril(below), x)

    function, args = value_and_grad(of_triangles, argnums=(0, 1, 2)), operands(97)
    assert turns(jit(function), *args)
    check(function, *args)
    args[1][:, 3] = np.inf
    check(lambda *args: function(*args)[1][2], *args)


def test_results_of_each_row_and_sums():
    def function(factors, x, weights):
        y = np.einsum("kij,nkj->kni", factors, x)
        z = np.exp(-np.sum(y * y, 2)) * weights[:, None]
        ratios = z / np.sum(z, 0)
        moments = np.einsum("kni,kn,knj->kij", y, ratios, np.tanh(y))
        return ratios, np.sum(ratios, 1), moments, np.max(y)

    weights, _, factors, x = operands(100)
    x = np.stack([x, x + 1, x * x, -x, x / 2], 1)
    assert turns(jit(function), factors, x, weights)
    check(function, factors, x, weights)


def test_bits_do_not_depend_on_threads(monkeypatch):
    function, args = jit(value_and_grad(mixture, argnums=(0, 1, 2))), operands(100)
    monkeypatch.setattr(config, "parallel_threshold", 0)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(config, "threads", threads)
        found.append([x.tobytes() for x in functrans.tree.leaves(function(*args))])
    assert found[0] == found[1] == found[2]


def test_streams_and_single_products_stay(monkeypatch):
    _, _, factors, x = operands(100)
    assert not turns(jit(lambda a, x: np.tanh(np.einsum("kij,nj->kni", a, x))), factors, x)
