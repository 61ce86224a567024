"""Sums over the results of products are computed in the products' kernels, from registers."""

import numpy as np
import pytest

from functrans import jit
from functrans.loop.grid import ProductTile
from functrans.lower.report import cost
from functrans.lower.verify import verify
from tests.emit.cuda.special import needs_compiler
from tests.lower.grid.products.test_register_tiling import SMALL, check, drawn, plan
from tests.targets import target

KEEPS = target(
    SMALL,
    grid={
        "warp": 32,
        "block": 32,
        "largest_team": 64,
        "tiles": (ProductTile(16, 16, 4, 2, 2), ProductTile(8, 16, 4, 2, 2)),
    },
    materialisation={"largest_expression": 4},
)
"""A GPU of small tiles of whole warps, for which each product is dear."""


def gradients(x, y):
    return np.einsum("bti,btj->bij", x, y)


def norms(x, y):
    return np.sum(gradients(x, y) ** 2, axis=(1, 2))


SIZES = [(3, 17, 4, 4), (4, 18, 17, 5)]


@pytest.mark.full
@pytest.mark.parametrize(("count", "t", "n", "m"), SIZES)
def test_squared_norms(count, t, n, m):
    check(norms, drawn(count, t, n), drawn(count, t, m), machine=KEEPS)


FUNCTIONS = {
    "with another matrix": lambda x, y, w: np.sum(gradients(x, y) * w, axis=(1, 2)),
    "and more": lambda x, y, w: np.sqrt(norms(x, y)) + np.sum(x, axis=(1, 2)),
    "the other way round": lambda x, y, w: np.sum(
        np.einsum("bti,btj->bji", x, y) ** 2 * w.T, axis=(1, 2)
    ),
    "of two products": lambda x, y, w: norms(x, y) + norms(x, x),
}


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_summed(name):
    operands = drawn(3, 17, 9), drawn(3, 17, 7), drawn(9, 7)
    check(FUNCTIONS[name], *operands, tiles=2 if name == "of two products" else 1, machine=KEEPS)


@pytest.mark.full
def test_float32():
    operands = drawn(3, 18, 9).astype(np.float32), drawn(3, 18, 7).astype(np.float32)
    check(norms, *operands, tolerance=1e-5, machine=KEEPS)


def stored(made):
    """How many elements kernels write, temporaries and results."""
    return sum(nest.bytes_written for nest in cost([made]).nests) // 8


def test_the_product_is_not_in_memory():
    x, y = drawn(3, 18, 40), drawn(3, 18, 30)
    made = plan(norms, x, y, machine=KEEPS)
    # a number for each tile of 16 rows and columns, and one for each product
    assert stored(made) == 3 * 3 * 2 + 3
    assert len(made.steps) == 2


KEPT = {
    "a result": lambda x, y: (norms(x, y), gradients(x, y)),
    "summed twice": lambda x, y: np.sum(gradients(x, y), axis=(1, 2)) / norms(x, y),
    "half of the axes": lambda x, y: np.sum(gradients(x, y) ** 2, axis=2),
    "the largest": lambda x, y: np.max(gradients(x, y), axis=(1, 2)),
}


@pytest.mark.parametrize("name", KEPT)
def test_products_that_are_needed_are_in_memory(name):
    x, y = drawn(3, 18, 40), drawn(3, 18, 30)
    made = plan(KEPT[name], x, y, machine=KEEPS)
    assert verify(made) == 0
    assert stored(made) >= 3 * 40 * 30


@needs_compiler
def test_kernels_have_no_spills():
    """Of the largest tiles, with 64 sums a thread."""
    x = np.ones((64, 20, 512), np.float32)
    lowered = jit(norms).lower(x, x, device="cuda", architecture="sm_90")
    tiles = [kernel for kernel in lowered.resources().kernels if kernel.team > 32]
    assert tiles
    assert all(kernel.spills == 0 for kernel in tiles)
