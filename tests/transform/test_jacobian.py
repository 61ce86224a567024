"""Jacobians of linear graphs written by hand, a block of rows or columns at a time."""

import numpy as np
import pytest

from functrans.ir.evaluate import evaluate
from functrans.transform.jacobian import forward_block, reverse_block
from tests.ir.written import graph

W = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

# a residual, and two inputs that it is linear in: W x + y sum(y), of which only the first moves
MADE = graph("""{ w:f64[2,3], x:f64[3], y:f64[2] ->
    a = dot_general[contract=((1,), (0,)), batch=((), ())] w x
    b = negative y
    return a, b }""")


@pytest.mark.parametrize(("start", "count"), [(0, 3), (1, 2), (2, 1)])
def test_columns(start, count):
    by_x, none = evaluate(forward_block(MADE, 1, 0, count), [W, np.int64(start)])
    np.testing.assert_array_equal(by_x, W[:, start : start + count])
    np.testing.assert_array_equal(none, np.zeros((2, count)))


@pytest.mark.parametrize(("start", "count"), [(0, 2), (1, 1)])
def test_rows(start, count):
    by_x, by_y = evaluate(reverse_block(MADE, 1, 0, count), [W, np.int64(start)])
    np.testing.assert_array_equal(by_x, W[start : start + count])
    np.testing.assert_array_equal(by_y, np.zeros((count, 2)))
    none, by_y = evaluate(reverse_block(MADE, 1, 1, count), [W, np.int64(start)])
    np.testing.assert_array_equal(none, np.zeros((count, 3)))
    np.testing.assert_array_equal(by_y, -np.eye(2)[start : start + count])


def test_the_only_row_is_no_batch():
    made = graph("{ x:f64[3] ->\n y = reduce_sum[axes=(0,)] x\n return y }")
    block = reverse_block(made, 0, 0, 1)
    (row,) = evaluate(block, [np.int64(0)])
    np.testing.assert_array_equal(row, np.ones((1, 3)))
    assert not any(eqn.primitive.name == "iota" for eqn in block.eqns)
