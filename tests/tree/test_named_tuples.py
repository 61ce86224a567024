"""Named tuples are rebuilt as they are: a class's own ``__new__`` is not called again."""

from collections import namedtuple
from typing import NamedTuple

import numpy as np
import pytest

import functrans as ft
from functrans import grad, jit, lax, tree, vmap


class Ray(namedtuple("Ray", "x y")):
    """It is scaled to length 1."""

    __slots__ = ()

    def __new__(cls, x, y):
        length = np.hypot(x, y)
        return super().__new__(cls, x / length, y / length)


class Square(namedtuple("Square", "low high")):
    """Of two fields and one argument."""

    def __new__(cls, low):
        return super().__new__(cls, low, low + 1.0)


class Plain(NamedTuple):
    a: float
    b: float = 2.0


def energy(u):
    return 3.0 * u.x + 4.0 * u.y


@pytest.mark.parametrize("gradient", [grad(energy), jit(grad(energy)), grad(jit(energy))])
def test_a_gradient_is_not_scaled(gradient):
    found = gradient(Ray(1.0, 1.0))
    assert type(found) is Ray
    assert tuple(found) == (3.0, 4.0)


def test_derivatives_do_not_pass_through_the_class():
    found = grad(lambda tree: energy(tree["u"]) * tree["v"][0])({"u": Ray(0.0, 1.0), "v": [2.0]})
    assert tuple(found["u"]) == (6.0, 8.0)
    assert found["v"] == [4.0]


@pytest.mark.parametrize("transform", [jit, vmap, lambda f: lambda s: lax.map(f, s)])
def test_fields_that_are_no_arguments(transform):
    found = transform(lambda s: tree.map(lambda v: 2.0 * v, s))(Square(np.arange(3.0)))
    assert type(found) is Square
    np.testing.assert_array_equal(found.low, [0.0, 2.0, 4.0])
    np.testing.assert_array_equal(found.high, [2.0, 4.0, 6.0])


def test_paths_and_structures():
    assert tree.paths([Ray(1.0, 0.0)]) == ["[0].x", "[0].y"]
    with pytest.raises(ft.errors.TreeMismatchError, match="expected a Ray, found a tuple of 2"):
        tree.check_same_structure(tree.structure(Ray(1.0, 0.0)), tree.structure((1.0, 0.0)))


def test_other_named_tuples_are_left_to_optree():
    assert "CustomTreeNode" not in str(tree.structure(Plain(1.0)))
    assert tree.map(lambda v: v + 1.0, Plain(1.0)) == Plain(2.0, 3.0)
