"""None in the place of a cotangent, or of a part of it, stands for zeros."""

import numpy as np
import pytest

from functrans import errors, jit, jvp, linearize, vjp


def parts(x):
    return {"a": x * 2, "b": (x**2, None, x)}


@pytest.mark.parametrize(
    ("cotangent", "expected"),
    [
        ({"a": 1.0, "b": (1.0, None, None)}, 8.0),
        ({"a": None, "b": (None, None, 3.0)}, 3.0),
        ({"a": 1.0, "b": None}, 2.0),
        (None, 0.0),
    ],
)
def test_parts_of_a_cotangent_are_left_out(cotangent, expected):
    _, pullback = vjp(parts, 3.0)
    assert pullback(cotangent) == (expected,)
    assert jit(lambda x: vjp(parts, x)[1](cotangent))(3.0) == (expected,)


@pytest.mark.parametrize(
    ("cotangent", "words"),
    [
        ({"a": 1.0, "b": 2.0}, r"at \['b'\]: expected a tuple of 3, found a leaf"),
        ({"a": None}, r"at \['b'\]: expected a tuple of 3, found no such key"),
        ({"a": None, "b": (None, None)}, r"at \['b'\]: expected a tuple of 3, found a tuple of 2"),
    ],
)
def test_another_structure_is_refused(cotangent, words):
    _, pullback = vjp(parts, 3.0)
    with pytest.raises(errors.TreeMismatchError, match=words):
        pullback(cotangent)


def test_the_place_of_a_wrong_shape_is_named_beside_absent_parts():
    _, pullback = vjp(parts, np.ones(2))
    with pytest.raises(errors.ShapeError, match=r"at \['b'\]\[2\]: expected \(2,\), found \(3,\)"):
        pullback({"a": None, "b": (None, None, np.ones(3))})


def test_parts_of_tangents_are_left_out():
    def product(x, y):
        return x * y

    assert jvp(product, (2.0, 3.0), (None, 1.0)) == (6.0, 2.0)
    assert linearize(product, 2.0, 3.0)[1](1.0, None) == 3.0
