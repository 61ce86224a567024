"""None as a cotangent, or as a leaf of one, stands for zeros."""

import numpy as np
import pytest

from functrans import custom_vjp, errors, grad, jit, jvp, linearize, vjp


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


def in_two_parts(cotangent):
    """A function of a tree whose backward rule returns such a cotangent of it."""

    @custom_vjp
    def f(tree):
        return tree["a"] * tree["b"][0] * tree["b"][1]

    def backward(tree, ct):
        return (cotangent(tree, ct),)

    f.defvjp(lambda tree: (f(tree), tree), backward)
    return f


TREE = {"a": np.array([2.0, 3.0]), "b": (np.array([5.0, 7.0]), 4.0)}


@pytest.mark.parametrize("compiled", [lambda f: f, jit])
@pytest.mark.parametrize(
    ("cotangent", "of_a", "of_b"),
    [
        (lambda tree, ct: {"a": ct * 10, "b": None}, [10, 10], [0, 0]),
        (lambda tree, ct: {"a": ct * 10, "b": (None, None)}, [10, 10], [0, 0]),
        (lambda tree, ct: {"a": None, "b": (ct * tree["a"], None)}, [0, 0], [2, 3]),
        (lambda tree, ct: None, [0, 0], [0, 0]),
    ],
)
def test_parts_of_what_a_backward_rule_returns(compiled, cotangent, of_a, of_b):
    f = in_two_parts(cotangent)
    found = compiled(grad(lambda tree: np.sum(f(tree))))(TREE)
    np.testing.assert_array_equal(found["a"], of_a)
    np.testing.assert_array_equal(found["b"][0], of_b)


def test_beside_integers():
    f = in_two_parts(lambda tree, ct: {"a": ct, "b": (None, None)})
    tree = {"a": np.ones(2), "b": (np.array([5.0, 7.0]), 4)}
    found = grad(lambda tree: np.sum(f(tree)), allow_int=True)(tree)
    np.testing.assert_array_equal(found["a"], [1, 1])
    np.testing.assert_array_equal(found["b"][0], [0, 0])


def test_another_structure_from_a_backward_rule_is_refused():
    f = in_two_parts(lambda tree, ct: {"a": None, "b": (None, None, None)})
    words = r"cotangent 0 of the backward rule of custom_vjp\(f\) must have the structure of the"
    with pytest.raises(errors.CustomRuleError, match=words):
        grad(lambda tree: np.sum(f(tree)))(TREE)
