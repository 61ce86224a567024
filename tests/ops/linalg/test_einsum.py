"""The steps of einsum, and the order of the axes between them."""

import numpy as np
import pytest

from functrans import jit
from functrans.ops.linalg.einsum import einsum

RNG = np.random.default_rng(0)

SEVERAL = {
    "ni,ij,nj->n": ((50, 4), (4, 4), (50, 4)),
    "ij,ni,nj->n": ((4, 4), (50, 4), (50, 4)),
    "ij,jk,kl->il": ((30, 8), (8, 8), (8, 5)),
    "...i,ij,...j->...": ((7, 5, 3), (3, 3), (7, 5, 3)),
    "...i,ij,...j": ((5, 3), (3, 3), (7, 1, 3)),
    "abc,cd,ad->b": ((4, 5, 6), (6, 7), (4, 7)),
    "ii,ij,jk,k": ((4, 4), (4, 4), (4, 6), (6,)),
    "bij,bjk,bkl->bil": ((3, 4, 5), (3, 5, 6), (3, 6, 2)),
}


@pytest.mark.parametrize("text", SEVERAL)
def test_several_operands(text):
    operands = [RNG.standard_normal(shape) for shape in SEVERAL[text]]
    expected = np.einsum(text, *operands)
    np.testing.assert_allclose(einsum(text, *operands), expected, rtol=1e-12, atol=1e-12)
    compiled = jit(lambda *operands: np.einsum(text, *operands))
    np.testing.assert_allclose(compiled(*operands), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("text", ["ni,ij,nj->n", "ij,ni,nj->n", "nj,ij,ni->n"])
def test_rows_of_the_larger_operand_are_rows_of_the_product(text):
    shapes = {"ij": (4, 4), "ni": (50, 4), "nj": (50, 4)}
    operands = [np.ones(shapes[each]) for each in text.split("->")[0].split(",")]
    graph = jit(lambda *operands: np.einsum(text, *operands)).lower(*operands).graph()
    assert "f64[50,4] = dot_general" in str(graph)
    assert "f64[4,50]" not in str(graph)
