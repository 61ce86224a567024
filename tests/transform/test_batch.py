"""Batching of graphs written by hand, against a loop over the batch."""

import numpy as np
import pytest

from functrans.ir.evaluate import evaluate
from functrans.transform.batch import batch_graph, batched_aval
from tests.ir.written import aval, graph, is_graph

RNG = np.random.default_rng(0)
SIZE = 4

GRAPHS = {
    "elementwise": "{ x:f64[2,3], y:f64[3] ->\n a = multiply x y\n b = sin a\n return b }",
    "a reduction": "{ x:f64[2,3], y:f64[3] ->\n a = reduce_max[axes=(0,)] x\n b = add a y\n"
    " return b }",
    "moves": "{ x:f64[2,3], y:f64[3] ->\n a = transpose[permutation=(1, 0)] x\n"
    " b = reshape[shape=(6,)] a\n return b, y }",
    "a product": "{ x:f64[2,3], y:f64[3] ->\n"
    " a = dot_general[contract=((1,), (0,)), batch=((), ())] x y\n return a }",
}


@pytest.mark.parametrize("axes", [(0, None), (2, 0), (1, 1), (None, 1)])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_batch_is_a_loop(name, axes):
    made = graph(GRAPHS[name])
    batched, out_axes = batch_graph(made, axes, SIZE)
    inputs = [
        RNG.standard_normal(batched_aval(each, axis, SIZE).shape)
        for each, axis in zip(made.in_avals, axes, strict=True)
    ]
    found = evaluate(batched, inputs)
    for i in range(SIZE):
        lane = [
            x if axis is None else np.take(x, i, axis) for x, axis in zip(inputs, axes, strict=True)
        ]
        for one, axis, wanted in zip(found, out_axes, evaluate(made, lane), strict=True):
            one = one if axis is None else np.take(one, i, axis)
            np.testing.assert_allclose(one, wanted, rtol=1e-14)


def test_what_is_not_mapped_is_computed_once():
    made = graph("{ x:f64[3], y:f64[3] ->\n a = sin y\n b = multiply x a\n return b, a }")
    batched, out_axes = batch_graph(made, (0, None), SIZE)
    assert out_axes == (0, None)
    is_graph(batched, """{ x:f64[4,3], y:f64[3] ->
        a = sin y
        b = multiply x a
        return b, a }""")  # fmt: skip


def test_results_come_where_they_are_wanted():
    made = graph("{ x:f64[2,3] ->\n a = sin x\n return a, 1.0 }")
    batched, out_axes = batch_graph(made, (0,), SIZE, (2, 0))
    assert out_axes == (2, 0)
    assert [each.shape for each in batched.out_avals] == [(2, 3, SIZE), (SIZE,)]
    x = RNG.standard_normal((SIZE, 2, 3))
    moved, ones = evaluate(batched, [x])
    np.testing.assert_array_equal(moved, np.moveaxis(np.sin(x), 0, 2))
    np.testing.assert_array_equal(ones, np.ones(SIZE))


def test_inner_graphs_are_batched():
    inner = graph("{ x:f64[3] ->\n y = sin x\n return y }")
    made = graph("{ x:f64[3] ->\n y = jit[graph=inner, name='f'] x\n return y }", inner=inner)
    batched, _ = batch_graph(made, (0,), SIZE)
    (eqn,) = batched.eqns
    assert eqn.params["graph"].in_avals == (aval("f64[4,3]"),)


def test_types():
    assert batched_aval(aval("f64[2,3]"), None, SIZE) == aval("f64[2,3]")
    assert batched_aval(aval("f64[2,3]"), 1, SIZE) == aval("f64[2,4,3]")
    # a mapped Python number is an array
    assert batched_aval(aval("f64*[]"), 0, SIZE) == aval("f64[4]")
