"""Affine index expressions: coefficients of loop indices, and distances between elements."""

import numpy as np
import pytest

from functrans.loop.affine import Coefficients
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import const, convert, idiv, where
from functrans.loop.statements import buffer, load, local, size

F8 = np.dtype(float)
P, J = index("i"), index("j")
N, T = size(0), local(INDEX)
X = buffer("x", INDEX, (N,))


@pytest.mark.parametrize(
    ("expression", "factor"),
    [
        (P, 1),
        (J, 0),
        (N, 0),
        (const(7, INDEX), 0),
        (P + J, 1),
        (J - P, -1),
        (-P, -1),
        (P * 3 + P, 4),
        (const(5, INDEX) * (P - J * 2), 5),
        (P * N, None),
        (P * P, None),
        (P * J, None),
        (P - P, 0),
        (idiv(P, const(2, INDEX)), None),
        (idiv(J, const(2, INDEX)), 0),
        (where(J < 3, P, P), None),
        (load(X, (P,)), None),
        (load(X, (J,)), 0),
        (convert(convert(P, F8), INDEX), None),
        (T + P, None),
        (local(INDEX) + P, 1),
    ],
)
def test_the_factor(expression, factor):
    assert Coefficients(P, {T}).of(expression) == factor


@pytest.mark.parametrize(
    ("shape", "position", "factor"),
    [
        ((4, 5, 6), (P, J, J), 30),
        ((4, 5, 6), (J, J, P), 1),
        ((4, 5, 6), (P, P, J), 36),
        ((4, 5, 6), (J, P * 2, J), 12),
        ((4, 5, 6), (J, J, J), 0),
        ((N, 5), (P, J), 5),
        ((5, N), (J, P), 1),
        ((5, N), (P, J), None),  # rows of a length that is known at the call
        ((5, N), (J, J), 0),
        ((5, 6), (J, P * N), None),
        ((), (), 0),
    ],
)
def test_how_far_apart_elements_are(shape, position, factor):
    assert Coefficients(P).of_element(buffer("y", F8, shape), position) == factor


def test_a_deep_expression_needs_no_deep_stack():
    deep = P
    for _ in range(20_000):
        deep = deep + J
    assert Coefficients(P).of(deep) == 1
