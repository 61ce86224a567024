"""Recognition of matrix products among roots, and the choice of their tiles."""

import numpy as np
import pytest

from functrans.loop.nodes import fold, guard, index
from functrans.loop.scalar import maximum
from functrans.loop.statements import buffer, load
from functrans.loop.target import CPU
from functrans.lower.grid.products.recognition import product_of
from functrans.lower.grid.target import CUDA
from tests.lower.by_hand import root

F4 = np.dtype(np.float32)
M, N, K = 1000, 700, 50
R, C, B = index("i", M), index("j", N), index("b", 3)
X, Y = buffer("x", F4, (M, K)), buffer("y", F4, (K, N))
OUT = buffer("out", F4, (M, N))


def summed(term, op="add", terms=K):
    return fold(op, [terms], term)


def found(value, target=OUT, loops=(R, C), machine=CUDA):
    return product_of(root(target, loops, value), machine)


def test_a_product_of_matrices():
    product = found(summed(lambda k: load(X, (R, k)) * load(Y, (k, C))))
    assert (product.rows, product.columns, product.batch) == ((R,), (C,), ())
    assert product.padded
    assert {x.attribute for x in product.left} == {X}
    assert {x.attribute for x in product.right} == {Y}


def test_each_side_is_as_large_as_can_be():
    product = found(summed(lambda k: (load(X, (R, k)) * 2 + 1) * abs(load(Y, (k, C)))))
    assert [x.op for x in (*product.left, *product.right)] == ["add", "abs"]
    assert product.padded


@pytest.mark.parametrize(
    "value",
    [
        summed(lambda k: abs(load(X, (R, k)) - load(Y, (k, C)))),
        summed(lambda k: load(X, (R, k)) + load(Y, (k, C)), "max"),
        summed(lambda k: maximum(load(X, (R, k)), load(Y, (k, C)))),
    ],
)
def test_other_terms_of_two_operands(value):
    product = found(value)
    assert not product.padded


THREE = buffer("three", F4, (M, N, K))
NONE = {
    "a sum of one operand": summed(lambda k: load(X, (R, k))),
    "an operand with both axes": summed(lambda k: load(THREE, (R, C, k)) * load(X, (R, k))),
    "terms that are chosen": summed(lambda k: guard(R < C, load(X, (R, k)) * load(Y, (k, C)), 0)),
    "no sum": load(X, (R, R)) * load(Y, (C, C)),
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_product(name):
    assert found(NONE[name]) is None


def test_a_cpu_has_no_tiles():
    value = summed(lambda k: load(X, (R, k)) * load(Y, (k, C)))
    assert found(value, machine=CPU) is None


def test_axes_of_both_operands_are_a_batch():
    x, y = buffer("x", F4, (3, M, K)), buffer("y", F4, (3, K, N))
    value = summed(lambda k: load(x, (B, R, k)) * load(y, (B, k, C)))
    product = found(value, buffer("out", F4, (3, M, N)), (B, R, C))
    assert (product.batch, product.rows, product.columns) == ((B,), (R,), (C,))


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "side"),
    [
        (4096, 4096, np.float32, 128),
        (4096, 4096, np.float64, 128),
        (1000, 700, np.float32, 64),
        (300, 300, np.float32, 32),
        (100_000, 20, np.float32, 32),
        (20, 5, np.float32, None),
    ],
)
def test_tiles_are_as_large_as_leaves_enough_of_them(rows, columns, dtype, side):
    i, j = index("i", rows), index("j", columns)
    x, y = buffer("x", dtype, (rows, K)), buffer("y", dtype, (K, columns))
    value = summed(lambda k: load(x, (i, k)) * load(y, (k, j)))
    product = found(value, buffer("out", dtype, (rows, columns)), (i, j))
    assert (product.tile.rows if product else None) == side


def test_long_sums_of_few_results_have_parts():
    for rows, parts in ((64, 66), (1 << 12, 1)):
        i, j = index("i", rows), index("j", rows)
        x, y = buffer("x", F4, (rows, 1 << 16)), buffer("y", F4, (1 << 16, rows))
        value = summed(lambda k: load(x, (i, k)) * load(y, (k, j)), terms=1 << 16)  # noqa: B023
        product = found(value, buffer("out", F4, (rows, rows)), (i, j))
        assert product.parts(CUDA.grid) == parts
