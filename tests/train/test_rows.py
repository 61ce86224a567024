"""Sparse gradients of embedding look-ups equal the dense gradient."""

import re

import numpy as np
import pytest

from functrans import debug, grad, jit, lax, train, tree, value_and_grad, vmap
from functrans.errors import NotDifferentiableError
from functrans.train import Rows, value_and_row_grad

RNG = np.random.default_rng(0)
TABLE, W = RNG.normal(size=(11, 3)), RNG.normal(size=3)
IDS = np.array([[2, 7], [2, -1], [0, 7]])

READS = {
    "an array": lambda t, ids: np.tanh(t[ids]).sum(),
    "take": lambda t, ids: np.sum(np.take(t, ids, axis=0) ** 2),
    "twice": lambda t, ids: np.sum(t[ids[0]] * t[ids[1]]),
    "one row": lambda t, ids: np.sum(t[3] ** 2) + t[ids[0, 0]] @ t[-2],
    "a range of rows": lambda t, ids: np.sum(np.sin(t[2:9:3])),
    "a range backwards": lambda t, ids: np.sum(t[::-2] * np.arange(6.0)[:, None]),
    "by lanes": lambda t, ids: vmap(lambda i: np.sum(np.cos(t[i])))(ids).sum(),
    "jitted": lambda t, ids: jit(lambda t, i: np.exp(jit(lambda t: t[i])(t)))(t, ids).sum(),
    "half": lambda t, ids: np.sum(t.astype(np.float32)[ids].astype(float) ** 2),
    "shape and sign": lambda t, ids: np.sum(t[ids] ** 2) * len(t) + np.sum(t > 0),
    "no row": lambda t, ids: np.sum(t[ids[:0]]),
    "nothing": lambda t, ids: np.sum(ids) * 1.0,
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("compiled", [False, True])
def test_it_is_the_dense_gradient(read, compiled):
    def f(params, ids):
        return READS[read](params["table"], ids) * np.sum(params["w"])

    sparse, dense = value_and_row_grad(f, "table"), value_and_grad(f)
    if compiled:
        sparse, dense = jit(sparse), jit(dense)
    params = {"table": TABLE, "w": W}
    value, gradient = sparse(params, IDS)
    expected, whole = dense(params, IDS)
    tolerance = 1e-6 if read == "half" else 1e-13
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    np.testing.assert_allclose(gradient["w"], whole["w"], rtol=1e-13)
    rows = gradient["table"]
    assert rows.values.dtype == np.float64
    assert np.all((rows.indices >= 0) & (rows.indices < 11))
    np.testing.assert_allclose(rows.dense(11), whole["table"], rtol=tolerance, atol=1e-13)
    np.testing.assert_allclose(rows.merged().dense(11), whole["table"], rtol=tolerance, atol=1e-13)
    np.testing.assert_allclose(TABLE - 0.5 * rows, TABLE - 0.5 * whole["table"], rtol=1e-6)


def test_several_tables_aux_and_keywords():
    def f(params, *, ids):
        a, b = params
        rows = a[ids]
        return np.sum(rows @ b[ids].T), {"rows": rows, "table": a}

    (value, aux), (a, b) = jit(value_and_row_grad(f, has_aux=True))((TABLE, 2 * TABLE), ids=IDS[0])
    (expected, _), (dense_a, dense_b) = value_and_grad(f, has_aux=True)(
        (TABLE, 2 * TABLE), ids=IDS[0]
    )
    np.testing.assert_allclose(value, expected)
    np.testing.assert_array_equal(aux["rows"], TABLE[IDS[0]])
    np.testing.assert_array_equal(aux["table"], TABLE)
    np.testing.assert_allclose(a.dense(11), dense_a)
    np.testing.assert_allclose(b.dense(11), dense_b)


def test_for_each_example():
    def f(t, ids):
        return np.sum(np.sin(t[ids]))

    for t in (lambda g: g, jit):
        _, rows = t(vmap(value_and_row_grad(f), in_axes=(None, 0)))(TABLE, IDS)
        assert rows.values.shape == (3, 2, 3)
        np.testing.assert_allclose(
            rows.joined().dense(11), vmap(grad(f), in_axes=(None, 0))(TABLE, IDS).sum(0)
        )


def test_second_derivatives():
    def f(t):
        return np.sum(t[IDS[0]] ** 3)

    def through(t):
        return value_and_row_grad(f)(t)[1].dense(11).sum()

    np.testing.assert_allclose(grad(through)(TABLE), grad(lambda t: grad(f)(t).sum())(TABLE))


def test_effects_take_place_once():
    seen = []

    def f(t, i):
        rows = t[i]
        debug.callback(lambda x: seen.append(float(x)), rows[0])
        return rows.sum()

    value_and_row_grad(f)(TABLE, 3)
    jit(value_and_row_grad(f))(TABLE, 4)
    assert seen == [TABLE[3, 0], TABLE[4, 0]]


def test_memory_goes_with_the_look_ups():
    def step(t, ids):
        _, rows = value_and_row_grad(lambda t: np.sum(np.tanh(t[ids])))(t)
        return t - 0.1 * rows

    needed = [
        jit(step, donate_argnums=0).lower(np.zeros((n, 8)), np.arange(64)).cost().temporary_bytes
        for n in (100, 1_000_000)
    ]
    assert needed[0] == needed[1] < 100_000


def test_a_donated_table_stays_where_it_is():
    step = jit(lambda t, rows: t - 0.5 * rows, donate_argnums=0)
    table = np.zeros((6, 2))
    rows = Rows(np.array([1, 4, 1]), np.ones((3, 2)))
    table = step(table, rows)
    address = table.ctypes.data
    table = step(table, rows)
    assert table.ctypes.data == address
    np.testing.assert_array_equal(table[:, 0], [0, -2, 0, 0, -1, 0])


def test_arithmetic():
    rows = Rows(np.array([1, 0, 1]), np.array([1.0, 2.0, 4.0]))
    dense = rows.dense(3)
    np.testing.assert_array_equal(dense, [2, 5, 0])
    for made in (lambda r: -r, lambda r: np.float64(2) * r, lambda r: r * 2, lambda r: r / 4.0):
        np.testing.assert_array_equal(made(rows).dense(3), made(dense))
        np.testing.assert_array_equal(jit(made)(rows).dense(3), made(dense))
    np.testing.assert_array_equal((rows + rows).dense(3), 2 * dense)
    np.testing.assert_array_equal(np.ones(3) + rows, 1 + dense)
    np.testing.assert_array_equal(rows + np.ones(3), 1 + dense)
    assert rows.merged().indices.tolist() == [0, 1, 0]
    assert rows.merged().values.tolist() == [2, 5, 0]
    updated = tree.map(lambda p, g: p - 0.1 * g, {"t": np.ones(3)}, {"t": rows})
    np.testing.assert_allclose(updated["t"], 1 - 0.1 * dense)


def test_words():
    rows = Rows(np.array([1, 0, 1]), np.ones((3, 2)))
    with pytest.raises(TypeError, match=r"^a product of Rows is not a sum"):
        rows * rows
    with pytest.raises(TypeError, match="by a number, not by an array of shape \\(3,\\)"):
        rows * np.ones(3)
    with pytest.raises(ValueError, match=re.escape("rows of shape (2,) are added to a table")):
        np.ones((4, 3)) - rows
    with pytest.raises(IndexError):
        rows.dense(1)
    with pytest.raises(ValueError, match=re.escape("first argument of f: there are ['t'], ['w']")):

        def f(params):
            return params["t"][0].sum()

        value_and_row_grad(f, "embedding")({"t": TABLE, "w": W})


@pytest.mark.parametrize("use", [
    lambda t: t.sum(), lambda t: (t * 2)[IDS].sum(), lambda t: t[:, 1:].sum(),
    lambda t: t[IDS[:, 0], IDS[:, 0]].sum(),
    lambda t: lax.scan(lambda c, i: (c + t[i].sum(), None), 0.0, IDS[0])[0],
])  # fmt: skip
def test_other_uses_are_refused_with_their_line(use):
    words = r"argument 0 \('params'\) of .*, leaf \['t'\] is read by \w+, at test_rows.py:16\d"
    with pytest.raises(NotDifferentiableError, match=words):
        value_and_row_grad(lambda params: use(params["t"]) * 1.0)({"t": TABLE})


# -- with the other tools --------------------------------------------------------------------------


def loss(params, ids):
    return np.mean((params["t"][ids] @ params["w"]) ** 2)


PARAMS = {"t": TABLE, "w": W}
SPARSE, DENSE = value_and_row_grad(loss, "'t'"), value_and_grad(loss)


def same(sparse, dense):
    np.testing.assert_allclose(sparse["t"].dense(11), dense["t"], rtol=1e-12)
    np.testing.assert_allclose(sparse["w"], dense["w"], rtol=1e-12)


@pytest.mark.parametrize("reduce", ["mean", "sum"])
def test_accumulated(reduce):
    (value, gradient), (expected, dense) = (
        jit(train.accumulate(f, 3, reduce=reduce))(PARAMS, IDS) for f in (SPARSE, DENSE)
    )
    np.testing.assert_allclose(value, expected)
    same(gradient, dense)


def test_clipped():
    (_, sparse), (_, dense) = SPARSE(PARAMS, IDS), DENSE(PARAMS, IDS)
    np.testing.assert_allclose(train.global_norm(sparse), train.global_norm(dense))
    same(train.clip_by_global_norm(sparse, 0.1), train.clip_by_global_norm(dense, 0.1))
    same(jit(train.clip_by_value)(sparse, 0.3), train.clip_by_value(dense, 0.3))


@pytest.mark.parametrize("reduce", ["mean", "sum"])
def test_clipped_for_each_sample(reduce):
    one_sparse, one_dense = (lambda p, i, f=f: f(p, i)[1] for f in (SPARSE, DENSE))
    sparse, dense = (
        jit(train.per_sample_clipped(f, 0.2, reduce=reduce))(PARAMS, IDS)
        for f in (one_sparse, one_dense)
    )
    same(sparse, dense)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd(momentum):
    optimiser = train.sgd(0.1, momentum)
    ends = []
    for f in (SPARSE, DENSE):
        params, state = PARAMS, optimiser.init(PARAMS)

        @jit
        def step(params, state, f=f):
            updates, state = optimiser.update(f(params, IDS)[1], state)
            return train.apply_updates(params, updates), state

        for _ in range(3):
            params, state = step(params, state)
        ends.append(params)
    for key in PARAMS:
        np.testing.assert_allclose(ends[0][key], ends[1][key], rtol=1e-12)


def test_adam_says_that_it_needs_arrays():
    optimiser = train.adam(0.1)
    with pytest.raises(TypeError, match=r"\.dense\(count\) is an array"):
        optimiser.update(SPARSE(PARAMS, IDS)[1], optimiser.init(PARAMS))
