"""Products of short sums and of small matrices: kernels of their own, or sums of elements."""

import numpy as np
import pytest

from functrans import grad, jit
from functrans.run.code import host
from tests.lower.product.test_kernel import array, check


@pytest.mark.parametrize("terms", [2, 3])
@pytest.mark.parametrize(("rows", "columns"), [(200, 64), (701, 20), (17, 700), (5000, 8)])
def test_short_sums_are_products_unless_they_are_fused(rows, columns, terms):
    x, w = array(rows, terms), array(terms, columns)
    x[3, 1], w[0, 5] = np.inf, np.nan

    def is_product(function):
        return any(nest.form for nest in jit(function).lower(x, w).cost().nests)

    assert is_product(lambda x, w: x @ w)
    assert not is_product(lambda x, w: np.tanh(x @ w))
    check(lambda x, w: x @ w, x, w)
    check(lambda x, w: (x @ w, np.tanh(x @ w).sum(1)), x, w)
    check(
        grad(lambda x, w: (np.tanh(x @ w) * (x @ w)).sum(), argnums=(0, 1)),
        np.ones_like(x),
        np.ones_like(w),
    )


@pytest.mark.parametrize("columns", [2, 3])
def test_few_columns_are_a_product_from_some_terms_on(columns):
    """So many are no longer written out; without AVX-512, two or three columns fill a vector."""
    for terms in (8, 17, 20, 33, 300):
        x, w = array(2000, terms), array(terms, columns)
        *_, nest = jit(lambda x, w: x @ w).lower(x, w).cost().nests
        assert bool(nest.form) == (terms > 16 or host.target().registers <= 16)
        check(lambda x, w: x @ w, x, w)


@pytest.mark.parametrize("side", [5, 8, 12, 17])
def test_stacks_of_small_matrices_are_products_unless_they_are_fused(side):
    x, y = array(300, side, side), array(300, side, side)
    x[7, 1, 2], y[9, 3, 3] = np.inf, np.nan

    def is_product(function):
        return any(nest.form for nest in jit(function).lower(x, y).cost().nests)

    assert is_product(lambda x, y: x @ y) == (side > 5 or host.target().registers <= 16)
    assert side > 12 or not is_product(lambda x, y: np.tanh(x @ y))
    check(lambda x, y: x @ y, x, y)
    check(lambda x, y: np.swapaxes(x, 1, 2) @ y, x, y)
    check(lambda x, y: (x @ np.swapaxes(y, 1, 2), np.abs(x @ y).sum(-1)), x, y)
