"""Sequences that NumPy takes as arrays, beside traced values and with traced elements."""

import operator
from array import array
from collections import UserList, deque, namedtuple

import numpy as np
import pytest

from functrans import grad, jit, jvp

X = np.array([1.5, -2.0, 3.0])
Y = np.array([2.0, 4.0, 3.0])


class Vector:
    """A sequence with arithmetic of its own, by which Python's numbers multiply it."""

    def __init__(self, *elements):
        self.elements = elements

    def __len__(self):
        return len(self.elements)

    def __getitem__(self, i):
        return self.elements[i]

    def __rmul__(self, other):
        return Vector(*(100 * other * x for x in self.elements))


KINDS = {
    "array": lambda y: array("d", y),
    "deque": deque,
    "memoryview": memoryview,
    "named tuple": lambda y: namedtuple("Named", "a b c")(*y),
    "UserList": UserList,
    "Vector": lambda y: Vector(*y),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compiled", [jit, lambda f: lambda x: jvp(f, (x,), (x,))[0]])
def test_sequences_beside_traced_arrays_are_arrays(kind, compiled):
    given = KINDS[kind](Y)
    for operate in (operator.mul, operator.eq, operator.matmul, np.multiply, np.maximum):
        found = compiled(lambda x, o=operate: o(x, given))(X)
        np.testing.assert_array_equal(found, operate(X, Y))
    np.testing.assert_array_equal(compiled(lambda x: np.maximum(range(3), x))(X), [1.5, 1, 3])
    if kind not in ("memoryview", "named tuple"):
        places = array("q", [2, 0]) if kind == "array" else KINDS[kind]([2, 0])
        np.testing.assert_array_equal(compiled(lambda x: x[places])(X), X[[2, 0]])


def test_a_sequence_defines_what_numbers_of_python_do_with_it():
    def first(t):
        return (t * Vector(2.0, 3.0))[0]

    assert jit(first)(1.5) == first(1.5) == 300.0
    assert jit(first)(np.float64(1.5)) == first(np.float64(1.5)) == 3.0


@pytest.mark.parametrize("kind", [deque, UserList])
def test_sequences_of_traced_values_are_arrays(kind):
    def loss(x, like=kind):
        steps, numbers = like([x, 2 * x, np.sin(x)]), like([x[0], 2.0, x[1] * x[2]])
        parts = np.array(steps)[1], np.mean(steps, axis=0), x * numbers, np.hypot(numbers, 1.0)
        return np.sum(np.stack(like(parts)) ** 2) + np.dot(numbers, Y)

    for transform in (lambda f: f, jit, grad, lambda f: jit(grad(f))):
        expected = transform(lambda x: loss(x, list))(X)
        np.testing.assert_allclose(transform(loss)(X), expected, rtol=1e-13)
