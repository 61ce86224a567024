"""Constant-filled arrays are no inputs of programs, but created where they are used.

As inputs, they would be copied to a GPU with each call.
"""

import numpy as np
import pytest

import functrans
from functrans import jit
from functrans import numpy as fnp

COUNTED = np.random.default_rng(0).integers(0, 200, 10_000)


def assigned(x):
    y = x.copy()
    y[100:] = 3
    y[x > 5] = 2
    return y


FUNCTIONS = {
    "bincount": lambda x: np.bincount(x, minlength=5000),
    "bincount, length": lambda x: fnp.bincount(x, length=5000),
    "histogram": lambda x: np.histogram(x, 10, (0, 200))[0],
    "unique": lambda x: fnp.unique(x, return_counts=True, return_inverse=True, size=200),
    "nonzero": lambda x: fnp.nonzero(x, size=9990),
    "at": lambda x: fnp.at(x)[x].add(1),
    "at, of an array": lambda x: fnp.at(x)[x].add(np.ones(1, np.int64)),
    "at, set": lambda x: fnp.at(x)[x].set(-4),
    "assignment": assigned,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_large_is_an_input(name):
    function = FUNCTIONS[name]
    graph = functrans.trace(function)(COUNTED)
    assert sum(var.aval.size for var in graph.inputs) < COUNTED.size + 100
    found = functrans.tree.leaves(jit(function)(COUNTED))
    for x, y in zip(found, functrans.tree.leaves(function(COUNTED)), strict=True):
        np.testing.assert_array_equal(x, y)


def test_derivatives_of_what_is_counted():
    weights = np.random.default_rng(1).normal(size=10_000)

    def loss(w):
        return (np.bincount(COUNTED, w, minlength=300) ** 2).sum()

    found = functrans.grad(loss)(weights)
    expected = 2 * np.bincount(COUNTED, weights, minlength=300)[COUNTED]
    np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(jit(functrans.grad(loss))(weights), expected)
