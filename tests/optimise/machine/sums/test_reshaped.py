"""Sums over reshapes are computed along the original axes or along memory."""

import numpy as np
import pytest

from functrans import jit
from functrans.optimise.machine.sums.distribution import distribute_sums
from tests.ir.written import graph
from tests.optimise.machine.rewrites import rewritten, stays

SUMS = {
    "plain": "t = reduce_sum[axes=(0, 1, 2)] x",
    "of squares": "s = multiply x x\n t = reduce_sum[axes=(0, 1, 2)] s",
    "of two": "s = subtract x y\n q = square s\n t = reduce_sum[axes=(0, 1, 2)] q",
    "with numbers": "s = multiply x n\n q = add s 2.0\n t = reduce_sum[axes=(0, 1, 2)] q",
    "the largest": "t = reduce_max[axes=(0, 1, 2)] x",
    "a product": "t = dot_general[contract=((0, 1, 2), (0, 1, 2)), batch=((), ())] x y",
}
INPUTS = "x:f64[50,3,3], y:f64[50,3,3], z:f64[50,1,3], n:f64[], v:f64[50,3,9], p:f64[50,3]"


def reduced(found):
    """The shapes of what is summed."""
    names = ("reduce_sum", "reduce_max", "dot_general")
    return [
        eqn.inputs[0].aval.shape for eqn in found.eqns if eqn.primitive.name in names
    ]  # fmt: skip


@pytest.mark.parametrize("total", SUMS.values(), ids=SUMS.keys())
def test_arrays_in_memory_have_one_axis(total):
    made = graph(f"{{ {INPUTS} ->\n {total}\n return t }}")
    assert reduced(rewritten(distribute_sums, made)) == [(450,)]


COLUMNS = {
    "of rows": "s = multiply x x\n t = reduce_sum[axes=(0,)] s",
    "with what rows share": "s = subtract x m\n t = reduce_sum[axes=(0,)] s",
    "of leading axes": "t = reduce_max[axes=(0, 1)] w",
}


@pytest.mark.parametrize("total", COLUMNS.values(), ids=COLUMNS.keys())
def test_leading_axes_and_short_ones_behind_are_one_each(total):
    made = graph(f"{{ x:f64[50,3,3], m:f64[3,3], w:f64[5,10,3,3] ->\n {total}\n return t }}")
    assert reduced(rewritten(distribute_sums, made)) == [(50, 9)]


ADJACENT = {
    "t = reduce_sum[axes=(1, 2)] w": (50, 90, 30),
    "t = reduce_max[axes=(0, 1)] w": (500, 9, 30),
    "t = reduce_prod[axes=(1, 2, 3)] w": (50, 2700),
    "s = less w 0.0\n t = reduce_or[axes=(1, 2)] s": (50, 90, 30),
}


@pytest.mark.parametrize(("total", "shape"), ADJACENT.items())
def test_adjacent_reduced_axes_are_one(total, shape):
    made = graph(f"{{ w:f64[50,10,9,30] ->\n {total}\n return t }}")
    (found,) = (x for x in rewritten(distribute_sums, made).eqns if "reduce" in x.primitive.name)
    assert found.inputs[0].aval.shape == shape


KEPT = {
    "long axes behind": "t = reduce_sum[axes=(0,)] v",
    "what is broadcast, of rows": "s = add x z\n t = reduce_sum[axes=(0,)] s",
    "what is broadcast": "s = add x z\n t = reduce_sum[axes=(0, 1, 2)] s",
    "what lies across": "s = transpose[permutation=(0, 2, 1)] x\n t = reduce_sum[axes=(0, 1, 2)] s",
    "axes that are not adjacent": "t = reduce_sum[axes=(0, 2)] x",
    "all axes of one": "t = dot_general[contract=((0, 1), (0, 1)), batch=((), ())] p v",
    "a product across": "t = dot_general[contract=((0, 1, 2), (0, 2, 1)), batch=((), ())] x y",
}


@pytest.mark.parametrize("total", KEPT.values(), ids=KEPT.keys())
def test_what_stays(total):
    stays(distribute_sums, f"{{ {INPUTS} ->\n {total}\n return t }}")


def test_a_flat_join_is_summed_part_by_part_along_memory():
    made = graph(
        """{ x:f64[500,3,3], y:f64[500,3,1] ->
        c = concatenate[axis=2] x y
        f = reshape[shape=(6000,)] c
        t = dot_general[contract=((0,), (0,)), batch=((), ())] f f
        return t }"""
    )
    assert reduced(rewritten(distribute_sums, made)) == [(4500,), (1500,)]


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (2, 3), (17, 3, 3), (300, 2), (2600, 3, 3),
                                   (40000, 5)])  # fmt: skip
def test_numbers(shape):
    x = np.random.default_rng(0).standard_normal(shape)
    np.testing.assert_allclose(jit(lambda x: np.sum(x * x))(x), np.sum(x * x), rtol=1e-12)
    np.testing.assert_allclose(jit(lambda x: np.vdot(x, x))(x), np.vdot(x, x), rtol=1e-12)
    np.testing.assert_allclose(jit(np.linalg.norm)(x.ravel()), np.linalg.norm(x), rtol=1e-12)
    np.testing.assert_allclose(jit(lambda x: np.sum(x * x, 0))(x), np.sum(x * x, 0), rtol=1e-12)
    if x.size:
        np.testing.assert_array_equal(jit(lambda x: np.max(x, 0))(x), np.max(x, 0))
        assert jit(lambda x: np.max(np.abs(x)))(x) == np.max(np.abs(x))
        x[-1] = np.nan
        assert np.isnan(jit(np.max)(x))


@pytest.mark.parametrize("labels", ["ij,ijk->k", "ijk,ij->k", "ij,ij->"])
def test_products_that_take_all_axes_of_one_operand(labels):
    sizes = {"i": 60, "j": 3, "k": 5}
    first, second = labels.split("->")[0].split(",")
    x, y = (np.ones([sizes[axis] for axis in each]) for each in (first, second))
    found = jit(lambda x, y: np.einsum(labels, x, y))(x, y)
    np.testing.assert_array_equal(found, np.einsum(labels, x, y))
