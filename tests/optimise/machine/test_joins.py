"""Concatenations of very many parts, and arrays read or assigned piece by piece."""

import inspect
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrans as ft
from functrans.ir.types import aval_of
from functrans.ops.arrays.slicing import embed
from functrans.ops.compiled.elements import pattern
from functrans.ops.compiled.places import covers, disjoint
from functrans.run.call.compiled import compile_graph
from functrans.trace.stage import rewrite

MANY = 243

X = np.random.default_rng(0).normal(size=MANY)
ROWS = np.random.default_rng(1).normal(size=(MANY, 20))


def scalars(x):
    return np.stack([x[i] * x[i - 1] for i in range(MANY)])


def columns(x):
    return np.stack([x * float(i) for i in range(MANY)], 1)


def long_rows(x):
    return np.concatenate([x[:40] * float(i) for i in range(MANY)])


def different_lengths(x):
    return np.concatenate([x[: i % 7] * float(i) for i in range(MANY)])


def rows_along_the_last_axis(x):
    return np.concatenate([x[:240].reshape(-1, 20)[:, : 1 + i % 3] * i for i in range(1, MANY)], 1)


def one_after_another(x):
    y = x[:3]
    for i in range(MANY):
        y = np.concatenate([y, x[:2] * float(i)])
    return y


def a_sum_of_elements(x):
    total = 0.0
    for i in range(MANY):
        total = total + np.sin(x[i]) * x[(7 * i) % MANY]
    return total


def a_sum_of_windows(x):
    total = 0.0
    for i in range(0, MANY - 40, 9):
        total = total + x[i : i + 40] * float(i)
    return total


def a_sum_of_some(x):
    return x + sum(np.sin(x[i : i + 50 : 2]).sum() for i in range(0, 200, 20))


def assigned(x):
    y = np.zeros_like(x)
    for i in range(MANY - 1):
        y[i] = np.sin(x[i + 1])
    return y


def assigned_over_each_other(x):
    y = x.copy()
    for i in range(0, MANY - 40, 9):
        y[i : i + 40] = x[:40] * float(i)
    return y


FUNCTIONS = [
    scalars, columns, long_rows, different_lengths, rows_along_the_last_axis, one_after_another,
    a_sum_of_elements, a_sum_of_windows, a_sum_of_some, assigned, assigned_over_each_other,
]  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_values(function):
    np.testing.assert_allclose(ft.jit(function)(X), function(X), rtol=1e-12)


@pytest.mark.few(2)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients(function):
    weights = np.cos(np.arange(np.size(function(X)))).reshape(np.shape(function(X)))

    def loss(x):
        return np.sum(weights * function(x))

    gradient = ft.jit(ft.grad(loss))(X)
    direction = np.sin(np.arange(MANY))
    h = 1e-6
    slope = (loss(X + h * direction) - loss(X - h * direction)) / (2 * h)
    assert np.dot(gradient, direction) == pytest.approx(slope, rel=1e-5)
    np.testing.assert_allclose(gradient, ft.grad(loss)(X), rtol=1e-9, atol=1e-9)


@pytest.mark.few(1)
@pytest.mark.parametrize("function", [scalars, different_lengths, a_sum_of_windows, assigned])
def test_lanes_and_steps(function):
    lanes = np.stack([X, 2 * X, X - 1])
    expected = np.stack([function(x) for x in lanes])
    np.testing.assert_allclose(ft.jit(ft.vmap(function))(lanes), expected, rtol=1e-12)
    in_steps = ft.jit(lambda xs: ft.lax.scan(lambda c, x: (c, function(x)), 0.0, xs)[1])
    np.testing.assert_allclose(in_steps(lanes), expected, rtol=1e-12)


@pytest.mark.full
def test_gradients_in_lanes():
    lanes = np.stack([X, 2 * X, X - 1])
    found = ft.jit(ft.vmap(ft.grad(a_sum_of_elements)))(lanes)
    np.testing.assert_allclose(found, [ft.grad(a_sum_of_elements)(x) for x in lanes], rtol=1e-9)


@pytest.mark.full
def test_parts_that_share_rows_with_what_they_are_made_of():
    def f(x):
        p = np.exp(x)
        p = p / p.sum(1, keepdims=True)
        return np.concatenate([p[i : i + 1] * p[i - 1] for i in range(MANY)]) + p

    np.testing.assert_allclose(ft.jit(f)(ROWS), f(ROWS), rtol=1e-12)


def test_integers_and_parts_without_elements():
    k = np.arange(50)

    def f(k):
        return np.concatenate([k[: i % 3] + i for i in range(MANY)] + [k[:0]])

    np.testing.assert_array_equal(ft.jit(f)(k), f(k))


def test_places():
    assert disjoint([((0, 2, 1), 0), ((0, 2, 1), 1), ((2, 2, 1), (0, 3, 1))])
    assert not disjoint([((0, 2, 1),), ((1, 2, 1),)])
    assert not disjoint([((0, 2, 1), 0), ((0, 2, 1), 0)])


RANGES = st.tuples(st.integers(0, 9), st.integers(1, 5), st.sampled_from([1, 2, 3, 4, -1, -2]))


@given(st.lists(st.one_of(RANGES, st.integers(0, 9)), min_size=1, max_size=4))
def test_which_strided_places_are_disjoint(entries):
    """What is said to be disjoint is; and of strides that are alike all that is disjoint."""

    def indices(entry):
        return (
            {entry}
            if isinstance(entry, int)
            else {entry[0] + i * entry[2] for i in range(entry[1])}
        )

    taken = [indices(entry) for entry in entries]
    apart = sum(map(len, taken)) == len(set().union(*taken))
    found = disjoint([(entry,) for entry in entries])
    assert not found or apart
    if len({abs(e[2]) for e in entries if not isinstance(e, int) and e[1] > 1}) <= 1:
        assert found == apart
    assert covers([((0, 2, 1), 0), ((0, 2, 1), 1)], (2, 2))
    assert not covers([((0, 2, 1), 0)], (2, 2))


def test_resize_and_tile_are_an_index():
    x = ROWS[:3, :5]
    for f in (lambda x: np.resize(x, (40, 64)), lambda x: np.tile(x, (50, 3))):
        np.testing.assert_array_equal(ft.jit(f)(x), f(x))


def test_many_views_of_views_need_no_deep_stack():
    def f(x):
        for _ in range(240):
            x = x[1:]
        return x * 2

    limit = sys.getrecursionlimit()
    depth = len(inspect.stack(0))
    try:
        sys.setrecursionlimit(depth + 350)
        found = ft.jit(f)(X)
    finally:
        sys.setrecursionlimit(limit)
    np.testing.assert_array_equal(found, 2 * X[240:])


MOST_PARAMETERS = 400
"""Those of a kernel: a root that joins may bring a few more arrays than the bound."""


def sines(xs):
    return np.stack([np.sin(x) for x in xs])


@pytest.mark.full
@pytest.mark.parametrize("function", [sines, ft.grad(lambda xs: np.sum(sines(xs) ** 2))])
def test_thousands_of_numbers_are_no_kernel_of_thousands_of_arrays(function):
    xs = list(np.linspace(0.0, 3.0, 1500))
    text = ft.jit(function).lower(xs).llvm()
    heads = [line for line in text.splitlines() if line.startswith("define internal void @body")]
    assert heads
    assert max(line.count("ptr ") for line in heads) < MOST_PARAMETERS
    np.testing.assert_allclose(ft.jit(function)(xs), function(xs), rtol=1e-12)


def test_the_pattern_of_a_join_of_hundreds():
    (eqn,) = [
        eqn
        for eqn in ft.jit(sines).lower(list(np.ones(800))).graph().eqns
        if len(eqn.inputs) == 800
    ]
    found = pattern(eqn)
    assert found.reads == (1,) * 800
    assert found.by_data == (False,) * 800


@pytest.mark.parametrize("shape", [(1, MANY), (MANY,)])
def test_slices_of_a_smaller_array_are_added_to_all_rows(shape):
    """An embedded element of a sum may be broadcast: it is not one of the sum's elements."""

    def summed(x, rows):
        total = rows
        for i in range(9):
            piece = embed(x[i], index=(*(0,) * (len(shape) - 1), 2 * i), shape=shape)
            total = total + piece
        return [total]

    graph = rewrite(summed, [aval_of(X), aval_of(ROWS.T[:2].copy())])
    expected = ROWS.T[:2].copy()
    expected[:, :18:2] += X[:9]
    np.testing.assert_allclose(compile_graph(graph)(X, ROWS.T[:2].copy())[0], expected)


@pytest.mark.full
def test_gradients_of_a_table_that_is_filled_in_lanes():
    def distance(a, b):
        table = np.full((17, 17), np.inf)
        table[0, 0] = 0.0
        costs = (a[:, None] - b) ** 2
        for i in range(1, 4):
            for j in range(1, 4):
                before = np.minimum(table[i - 1, j], table[i, j - 1])
                table[i, j] = costs[i, j] + np.minimum(before, table[i - 1, j - 1])
        return table[3, 3]

    a, b = X[:32].reshape(2, 16), X[32:64].reshape(2, 16)
    found = ft.jit(ft.vmap(ft.grad(distance)))(a, b)
    np.testing.assert_allclose(found, [ft.grad(distance)(*pair) for pair in zip(a, b, strict=True)])


def gates(z, c):
    """What the gates of a cell make of the four parts of one array."""
    i, f, g, o = (z[:, 40 * k : 40 * (k + 1)] for k in range(4))
    c = np.tanh(f) * c + np.tanh(i) * np.tanh(g)
    return np.sum(np.sin(c) * o)


def test_the_cotangents_of_parts_that_fill_an_array_are_written_one_by_one():
    def both(z, c, w):
        ct = ft.grad(gates)(z, c)
        return ct, ct @ w

    rng = np.random.default_rng(0)
    z, c, w = rng.standard_normal((20, 160)), rng.standard_normal((20, 40)), np.ones((160, 8))
    compiled = ft.jit(both)
    before, *_ = str(compiled.lower(z, c, w).stages()).split("== materialisation")
    assert "assemble[" in before
    for found, wanted in zip(compiled(z, c, w), both(z, c, w), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
