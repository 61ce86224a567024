"""Which constant arrays are part of a program."""

import numpy as np
import pytest

from functrans import grad, jit
from functrans.ir.graph import Graph, Var
from functrans.ir.types import aval_of
from functrans.ops.arrays.known import with_known_arrays

EQUAL = {
    "ones": np.ones((3, 700)),
    "zeros": np.zeros(700, np.float32),
    "infinities": np.full((20, 20), np.inf),
    "integers": np.full(700, 7, np.int8),
    "bools": np.full(700, True),
    "complex numbers": np.full(700, 1 - 2j),
    "a broadcast": np.broadcast_to(np.float64(2), (700, 2)),
}

OTHER = {
    "one differs": np.where(np.arange(700) == 650, 2.0, 1.0),
    "a zero is negative": np.where(np.arange(700) == 650, -0.0, 0.0),
    "negative zeros": np.full(700, -0.0),
    "a negative imaginary part": np.where(np.arange(700) == 650, 1 - 0.0j, 1 + 0.0j).conj(),
    "NaN": np.full(700, np.nan),
    "few": np.ones(256),
    "none": np.ones(0),
}


def inlined(x):
    graph, left = with_known_arrays(Graph([var := Var(aval_of(x))], [], [var]), [x])
    return graph, left


@pytest.mark.parametrize("name", EQUAL)
def test_arrays_of_equal_elements(name):
    x = EQUAL[name]
    graph, left = inlined(x)
    (eqn,) = graph.eqns
    assert not left and not graph.inputs
    made = eqn.primitive.numpy(**eqn.params)
    assert made.dtype == x.dtype and made.shape == x.shape
    np.testing.assert_array_equal(made, x)


@pytest.mark.parametrize("name", OTHER)
def test_other_arrays_remain(name):
    graph, left = inlined(OTHER[name])
    assert left == [OTHER[name]] and not graph.eqns


def test_a_few_integers():
    graph, left = inlined(np.array([3, 1, 2]))
    assert not left and str(graph.eqns[0].primitive.name) == "known_integers"


def test_a_gradient_that_is_constant_reads_nothing():
    x = np.arange(1000.0)
    program = jit(grad(lambda x: np.sum(3 * x))).lower(x)
    assert "out0[i] = 0 operations on constants" in program.schedule()
    np.testing.assert_array_equal(jit(grad(np.sum))(x), np.ones(1000))


def test_a_long_array_that_counts_needs_no_memory():
    graph, left = inlined(x := np.arange(700))
    assert not left and not graph.inputs
    np.testing.assert_array_equal(graph.eqns[0].primitive.numpy(**graph.eqns[0].params), x)
    for other in (x + 1, x[::-1].copy(), np.where(x == 300, 3, x), x.astype(np.int32)):
        assert inlined(other)[1][0] is other
