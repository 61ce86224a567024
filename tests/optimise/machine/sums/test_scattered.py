"""Sums over scatters: equal results, without the scattered arrays."""

import numpy as np
import pytest

import functrans.numpy as fnp
from functrans import grad, jit, tree, vmap
from functrans.errors import FunctransError
from functrans.ir.check import checked
from functrans.ir.evaluate import evaluate
from functrans.loop.target import CPU
from functrans.optimise.machine.sums.distribution import distribute_sums
from tests.ir.written import graph
from tests.optimise.machine.rewrites import stays

TABLES = """{ u:f64[6,4,5], i:i64[6,4], w:f64[6], o:f64[6,40,5] ->
    z = full[shape=(6, 40, 5), value=0, dtype=float64]
    n = iota[size=6, dtype=int64]
    c = reshape[shape=(6, 1)] n
    g = scatter_add[axes=(0, 1), unique=False] z u c i
    b = reshape[shape=(6, 1, 1)] w
    """

SUMS = {
    "total": "t = reduce_sum[axes=(0,)] g",
    "weighted": "s = multiply b g\n t = reduce_sum[axes=(0,)] s",
    "weighted and divided": """r = divide g b
        s = multiply r b
        q = divide s b
        t = reduce_sum[axes=(0,)] q""",
    "squares": "s = square g\n t = reduce_sum[axes=(1, 2)] s",
    "squares of weighted": """r = multiply g b
        s = multiply r r
        t = reduce_sum[axes=(1, 2)] s""",
}


def given(places):
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal((6, 4, 5)),
        np.asarray(places),
        rng.uniform(0.5, 2.0, 6),
        rng.standard_normal((6, 40, 5)),
    ]


PLACES = {
    "all apart": np.arange(24).reshape(6, 4),
    "repeated": np.random.default_rng(1).integers(0, 3, (6, 4)),
    "from the end": np.random.default_rng(2).choice([-40, -1, 0, 39], (6, 4)),
    "one": np.full((6, 4), 7),
}


@pytest.mark.parametrize("body", SUMS.values(), ids=SUMS.keys())
@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES.keys())
def test_sums_are_those_of_the_rows(body, places):
    made = graph(f"{TABLES} {body}\n return t }}")
    after = checked(distribute_sums(made, CPU), "distribute_sums")
    assert max(eqn.outputs[0].aval.size for eqn in after.eqns) <= 40 * 5
    (found,), (wanted,) = evaluate(after, given(places)), evaluate(made, given(places))
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


KEPT = {
    "into what is there": """h = scatter_add[axes=(0, 1), unique=False] o u c i
        t = reduce_sum[axes=(0,)] h""",
    "of half of the axes": "s = square g\n t = reduce_sum[axes=(1,)] s",
    "of all samples": "s = square g\n t = reduce_sum[axes=(0, 1, 2)] s",
    "with another array": "s = multiply g o\n t = reduce_sum[axes=(1, 2)] s",
    "absolute": "s = absolute g\n t = reduce_sum[axes=(1, 2)] s",
}


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT.keys())
def test_what_stays(body):
    stays(distribute_sums, f"{TABLES} {body}\n return t }}")


def loss(params, words, y):
    return np.mean((np.mean(params["table"][words], axis=0) @ params["v"] - y) ** 2)


def norm(params, words, y):
    return np.sqrt(sum(np.sum(g**2) for g in tree.leaves(grad(loss)(params, words, y))))


def clipped(params, words, y):
    gradient, size = grad(loss)(params, words, y), norm(params, words, y)
    return tree.map(lambda g: g / np.maximum(1.0, size / 0.3), gradient)


@pytest.mark.parametrize(("count", "length"), [(0, 2), (1, 1), (2, 17), (17, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_embeddings(count, length, dtype):
    rng = np.random.default_rng(0)
    params = {"table": rng.normal(size=(300, 6)), "v": rng.normal(size=(6, 2))}
    words, y = rng.integers(-30, 30, (count, length)), rng.normal(size=(count, 2))
    single = [(params, *sample) for sample in zip(words, y, strict=True)]
    given_ = (tree.map(lambda p: p.astype(dtype), params), words, y.astype(dtype))
    rtol = 1e-10 if dtype == np.float64 else 2e-4
    mapped = (None, 0, 0)
    norms = jit(vmap(norm, in_axes=mapped))(*given_)
    assert norms.dtype == dtype
    np.testing.assert_allclose(norms, [norm(*each) for each in single], rtol=rtol)

    def total(*args):
        return tree.map(lambda g: np.sum(g, axis=0), vmap(clipped, in_axes=mapped)(*args))

    for name, found in jit(total)(*given_).items():
        wanted = sum((clipped(*each)[name] for each in single), np.zeros(found.shape))
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol)
    written = jit(total).lower(*given_).cost().nests
    assert sum(nest.bytes_written for nest in written) < 8 * (count + 4) * 300 * 6


def test_a_place_that_is_not_there_is_an_error_as_before():
    def norms(updates, places):
        def one(update, place):
            return np.sum(fnp.at(np.zeros((50, 3)))[place].add(update) ** 2)

        return vmap(one)(updates, places)

    with pytest.raises((IndexError, FunctransError), match="50"):
        jit(norms)(np.ones((4, 2, 3)), np.full((4, 2), 50))
