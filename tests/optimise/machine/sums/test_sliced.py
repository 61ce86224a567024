"""Slices of contractions: the rest of the contraction is not computed."""

import numpy as np
import pytest

from functrans import jit
from functrans.optimise.machine.sums.distribution import distribute_sums
from tests.ir.written import graph
from tests.optimise.machine.rewrites import rewritten, stays

RNG = np.random.default_rng(0)

SLICES = {
    "columns": "s:f64[6,20,5] = slice[index=((0, 6, 1), (0, 20, 1), (2, 5, 3))] p",
    "rows, backwards": "s:f64[6,4,17] = slice[index=((0, 6, 1), (19, 4, -5), (0, 17, 1))] p",
    "one of the stack": "s:f64[20,17] = slice[index=(3, (0, 20, 1), (0, 17, 1))] p",
    "a transpose's": """t = transpose[permutation=(2, 0, 1)] p
        s:f64[17,2] = slice[index=((0, 17, 1), (1, 2, 1), 4)] t""",
}


@pytest.mark.parametrize("text", SLICES.values(), ids=SLICES.keys())
def test_operands_are_sliced(text):
    made = graph(
        f"""{{ x:f64[20,6,9], y:f64[6,17,9] ->
        p = dot_general[contract=((2,), (2,)), batch=((1,), (0,))] x y
        {text}
        return s }}"""
    )
    after = rewritten(distribute_sums, made)
    (product,) = (eqn for eqn in after.eqns if eqn.primitive.name == "dot_general")
    assert product.outputs[0].aval.size == made.outputs[0].aval.size


@pytest.mark.parametrize("other", ["p", "t"])
def test_a_product_that_is_read_elsewhere_is_computed_once(other):
    stays(
        distribute_sums,
        f"""{{ x:f64[20,9], y:f64[9,17] ->
        p = dot_general[contract=((1,), (0,)), batch=((), ())] x y
        t = transpose[permutation=(1, 0)] p
        s:f64[5,20] = slice[index=((0, 5, 1), (0, 20, 1))] t
        return s, {other} }}""",
    )


def skinned(weights, points, moved):
    """Points that follow several bones, each as much as its weight says (linear blend skinning)."""
    posed = points @ np.swapaxes(moved, 1, 2)
    return np.sum(weights[:, :, None] * posed[..., :3], 0)


def mixed(gates, x, experts):
    return np.sum(gates.T[:, :, None] * (x @ experts), axis=0)


@pytest.mark.parametrize("points", [1, 2, 17, 300])
def test_weighted_sums_of_products_are_one_product(points):
    given = RNG.random((9, points)), RNG.random((points, 4)), RNG.standard_normal((9, 4, 4))
    np.testing.assert_allclose(jit(skinned)(*given), skinned(*given), rtol=1e-10, atol=1e-12)


def test_no_array_has_the_axes_of_all_factors():
    given = RNG.random((100, 8)), RNG.random((100, 30)), RNG.standard_normal((8, 30, 20))
    compiled = jit(mixed)
    np.testing.assert_allclose(compiled(*given), mixed(*given), rtol=1e-10, atol=1e-10)
    assert (
        "f64[8,100,20]" not in str(compiled.lower(*given).stages()).split("== materialisation")[0]
    )


def test_infinite_weights_stay():
    gates, x = np.full((17, 3), np.inf), RNG.random((17, 30))
    given = gates, x, RNG.random((3, 30, 20)) + 1
    np.testing.assert_array_equal(jit(mixed)(*given), np.full((17, 20), np.inf))


DIAGONALS = {
    "one": (lambda a, b: np.diagonal(a @ b.T, 0, -2, -1), (17, 9), (17, 9)),
    "above": (lambda a, b: np.diagonal(a @ b.T, 3, -2, -1), (17, 9), (30, 9)),
    "below": (lambda a, b: np.diagonal(a @ b.T, -2, -2, -1), (30, 1), (17, 1)),
    "of a stack": (
        lambda a, b: np.diagonal(a @ np.swapaxes(b, 1, 2), 1, 1, 2), (4, 9, 5), (4, 9, 5)
    ),
    "of rows along two axes": (
        lambda a, b: np.diagonal(np.tensordot(a, b, (2, 1)), 0, -2, -1), (3, 17, 9), (17, 9)
    ),
    "a trace": (lambda a, b: np.trace(a @ b.T), (300, 20), (300, 20)),
    "a trace without terms": (lambda a, b: np.trace(a @ b.T), (3, 0), (3, 0)),
    "a trace of nothing": (lambda a, b: np.trace(a @ b.T), (0, 3), (0, 3)),
}  # fmt: skip


@pytest.mark.parametrize(("function", "shape", "other"), DIAGONALS.values(), ids=DIAGONALS)
def test_only_the_diagonal_of_a_product_is_computed(function, shape, other):
    a, b = RNG.standard_normal(shape), RNG.standard_normal(other)
    compiled = jit(function)
    np.testing.assert_allclose(compiled(a, b), function(a, b), rtol=1e-12, atol=1e-12)
    rows, columns, terms = shape[-2], other[-2], shape[-1]
    work = sum(nest.operations for nest in compiled.lower(a, b).cost().nests)
    whole = int(np.prod(shape[:-1])) * columns * terms
    assert work < max(whole, 1) or min(rows, columns, terms) < 2


def test_what_a_product_has_beside_its_diagonal_matters_not():
    """A row of the one and a column of the other that do not meet there are not multiplied."""
    a, b = np.eye(17), np.eye(17)
    a[3, 4], b[5, 3] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(jit(lambda a, b: np.diag(a @ b))(a, b), np.diag(a @ b))


def test_a_product_whose_diagonal_is_read_is_computed_once():
    stays(
        distribute_sums,
        """{ x:f64[20,9], y:f64[9,20] ->
        p = dot_general[contract=((1,), (0,)), batch=((), ())] x y
        f:f64[400] = reshape[shape=(400,)] p
        d:f64[20] = slice[index=((0, 20, 21),)] f
        return d, p }""",
    )
