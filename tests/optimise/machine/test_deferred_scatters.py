"""Scatters into zeros followed by an addition become in-place scatter-adds."""

import numpy as np
import pytest

from functrans import grad, jit
from functrans.optimise.machine.deferred_scatters import add_scatters_last
from tests.ir.written import graph
from tests.optimise.machine.rewrites import becomes, names, rewritten, stays

RNG = np.random.default_rng(0)
GIVEN = "u:f64[7], i:i64[7], k:i64[7], v:f64[6,9]"
SCATTER = """z = full[shape=(6, 9), value=0, dtype=float64]
    p = scatter_add[axes=(0, 1), unique=False] z u i k"""


def test_what_is_added_to_is_written_to():
    becomes(
        add_scatters_last,
        f"{{ {GIVEN} ->\n {SCATTER}\n w = add p v\n return w }}",
        f"{{ {GIVEN} ->\n w = scatter_add[axes=(0, 1), unique=False] v u i k\n return w }}",
    )


def test_a_scatter_is_carried_along_a_chain_of_additions():
    becomes(
        add_scatters_last,
        f"""{{ {GIVEN}, y:f64[6,9] ->
        {SCATTER}
        w = add p v
        s = reduce_sum[axes=(0, 1)] w
        t = add y w
        return s, t }}""",
        f"""{{ {GIVEN}, y:f64[6,9] ->
        r = reduce_sum[axes=(0, 1)] v
        o = reduce_sum[axes=(0,)] u
        s = add r o
        a = add y v
        t = scatter_add[axes=(0, 1), unique=False] a u i k
        return s, t }}""",
    )


def test_a_scatter_is_carried_no_further_than_to_a_result():
    becomes(
        add_scatters_last,
        f"""{{ {GIVEN}, y:f64[6,9] ->
        {SCATTER}
        w = add p v
        t = add y w
        return w, t }}""",
        f"""{{ {GIVEN}, y:f64[6,9] ->
        w = scatter_add[axes=(0, 1), unique=False] v u i k
        t = add y w
        return w, t }}""",
    )


def test_scatters_that_are_added_to_each_other_share_an_array():
    becomes(
        add_scatters_last,
        f"""{{ {GIVEN}, y:f64[6,9] ->
        {SCATTER}
        q = scatter_add[axes=(1, 0), unique=False] z u k i
        w = add p q
        s = reduce_sum[axes=(0, 1)] w
        t = add y w
        return s, t }}""",
        f"""{{ {GIVEN}, y:f64[6,9] ->
        o = reduce_sum[axes=(0,)] u
        s = add o o
        a = scatter_add[axes=(0, 1), unique=False] y u i k
        t = scatter_add[axes=(1, 0), unique=False] a u k i
        return s, t }}""",
    )


@pytest.mark.parametrize(("axes", "scatters"), [((1,), 2), ((0,), 2), ((0, 1), 1)])
def test_sums_are_scatters_along_what_is_left(axes, scatters):
    made = graph(
        f"""{{ {GIVEN} ->
        {SCATTER}
        q = reduce_sum[axes={axes}] p
        s = sin v
        w = add s p
        return q, w }}"""
    )
    after = rewritten(add_scatters_last, made)
    assert names(after).count("scatter_add") == scatters
    if scatters == 2:
        assert names(after).index("scatter_add") < names(after).index("sin")


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_sums_of_whole_rows(axes):
    made = graph(
        f"""{{ u:f64[3,4,7], i:i64[3,4], v:f64[5,6,7] ->
        z = full[shape=(5, 6, 7), value=0, dtype=float64]
        j = iota[size=4, dtype=int64]
        p = scatter_add[axes=(1, 0), unique=False] z u j i
        q = reduce_sum[axes={axes}] p
        w = add p v
        return q, w }}"""
    )
    assert names(rewritten(add_scatters_last, made)).count("scatter_add") == 2


KEPT = {
    "other readers": "w = add p v\n s = sin p\n return w, s",
    "a result": "w = add p v\n return w, p",
    "nothing but sums": "q = reduce_sum[axes=(0,)] p\n return q",
    "twice the same": "w = add p p\n return w",
    "something larger": "b = reshape[shape=(6, 9)] v\n w = add p y\n return w, b",
}


@pytest.mark.parametrize("rest", KEPT.values(), ids=KEPT.keys())
def test_what_stays(rest):
    stays(add_scatters_last, f"{{ {GIVEN}, y:f64[2,6,9] ->\n {SCATTER}\n {rest} }}")


def cross_entropy(logits, rows, labels):
    z = logits - np.max(logits, axis=-1, keepdims=True)
    logs = z - np.log(np.sum(np.exp(z), axis=-1, keepdims=True))
    return -np.mean(logs[rows, labels])


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (17, 300), (300, 10), (40, 2600)])
def test_the_gradient_of_a_cross_entropy(shape):
    logits = RNG.standard_normal(shape)
    for rows in (np.arange(shape[0]), RNG.integers(0, shape[0], 50)):
        labels = RNG.integers(-shape[1], shape[1], rows.size)
        expected = np.exp(logits) / np.sum(np.exp(logits), axis=1, keepdims=True)
        expected *= np.bincount(rows, minlength=shape[0])[:, None]
        np.subtract.at(expected, (rows, labels), 1)
        found = jit(grad(cross_entropy))(logits, rows, labels)
        np.testing.assert_allclose(found, expected / rows.size, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("row", "label"), [(5, 0), (0, 7), (-6, 0), (0, -8)])
def test_indices_are_checked(row, label):
    with pytest.raises(IndexError):
        jit(grad(cross_entropy))(np.ones((5, 7)), np.array([0, row]), np.array([1, label]))
