"""Flat indices of values read through reshapes: correct, and without divisions."""

import numpy as np
import pytest

from functrans.loop.linear_places import divides, linear_place
from functrans.loop.nodes import INDEX, index, separated
from functrans.loop.scalar import Scalar, const, evaluate, idiv, irem
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import buffer

ROW, K = index("i", 50), index("k", 40)
X = Scalar("local", (), INDEX, ("x", "int64"))
VALUES = {ROW: np.arange(50)[:, None], K: np.arange(40), X: np.arange(-50, 50).reshape(-1, 1)}


def number_of(position, extents):
    """The place by its definition, with the wrapping arithmetic of indices."""
    total = np.zeros((), np.int64)
    for each, extent in zip(position, extents, strict=True):
        total = total * extent + evaluate(each, VALUES)
    return total


FLAT = {
    "rows of three": (ROW * 40 + K, (700, 3)),
    "rows of rows": (ROW * 40 + K, (250, 3, 3)),
    "four axes": (ROW * 40 + K, (40, 5, 2, 5)),
    "a part at an offset": (ROW * 40 + K + 7, (250, 3, 3)),
    "what the divisor divides": (ROW * 36 + K, (250, 3, 3)),
    "what a power of two divides": (ROW * 44 + K, (100, 2, 16)),
    "what may be negative": (X * 3 + 1, (250, 3, 3)),
}


@pytest.mark.parametrize("name", FLAT)
def test_quotients_and_remainders_make_up_what_was_divided(name):
    number, extents = FLAT[name]
    simplify = Simplifier()
    position = tuple(map(simplify, separated(number, extents)))
    place = linear_place(buffer("x", float, extents), position, simplify)
    expected = number_of(position, extents)
    np.testing.assert_array_equal(
        np.broadcast_to(evaluate(place, VALUES), expected.shape), expected
    )
    assert divides(position) and (not divides([place]) or name == "what may be negative")


DIVIDED = {
    "another divisor": ((idiv(K, 4), irem(K, 3)), (100, 3)),
    "another number": ((idiv(K + 1, 3), irem(K, 3)), (100, 3)),
    "another extent": ((idiv(K, 3), irem(K, 3)), (100, 4)),
    "the other way round": ((irem(K, 3), idiv(K, 3)), (3, 100)),
    "a remainder alone": ((ROW, irem(K, 3)), (100, 3)),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_other_quotients_stay(name):
    position, extents = DIVIDED[name]
    place = linear_place(buffer("x", float, extents), position, Simplifier())
    assert divides([place])
    np.testing.assert_array_equal(
        evaluate(place, VALUES) + 0 * VALUES[K], number_of(position, extents) + 0 * VALUES[K]
    )


def test_what_is_not_divided_stays():
    place = linear_place(buffer("x", float, (50, 40)), (ROW, K), Simplifier())
    assert place is Simplifier()(ROW * 40 + K)
    assert linear_place(buffer("x", float, ()), (), Simplifier()) is const(0, INDEX)
