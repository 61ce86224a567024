"""Register tiling of products: NumPy's results, edges included, without temporaries."""

from functools import partial

import numpy as np
import pytest

from functrans import jit
from functrans.emit.cuda.kernel import emit
from functrans.loop.grid import ProductTile
from functrans.loop.statements import Barrier, For
from functrans.loop.walk import walk
from functrans.lower.grid.target import CUDA
from tests.emit.cuda import programs
from tests.emit.cuda.programs import in_both_ways, in_registers, interpreted
from tests.emit.cuda.special import needs_compiler
from tests.targets import target

SMALL = target(
    CUDA,
    grid={
        "warp": 2,
        "block": 4,
        "largest_team": 4,
        "shortest": 3,
        "tiles": (ProductTile(8, 8, 2, 4, 4), ProductTile(4, 4, 2, 2, 2)),
        "warp_tiles": (),
        "double_tiles": (),
        "narrowest_product": 3,
        "blocks": 4,
        "least_part": 8,
    },
    unrolling={"longest": 2, "sums": 1, "elements": 2},
    reductions={"long": 1000},
)
"""A GPU whose tiles have 4 or 8 rows."""

RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.normal(size=shape)


plan = partial(programs.plan, machine=SMALL)


def tiled(made):
    """The kernels that have sums of threads' own."""
    return [step.kernel for step in made.steps if step.kernel.private]


def check(function, *operands, tolerance=1e-12, tiles=1, machine=SMALL):
    """Verified, interpreted, and run as text, in random orders."""
    made = plan(function, *operands, machine=machine)
    assert len(tiled(made)) == tiles
    expected = np.asarray(function(*operands))
    close = {"rtol": tolerance, "atol": tolerance * max(expected.size, 1)}
    for found in in_both_ways(made, operands, machine.grid):
        assert found[0].dtype == expected.dtype
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(found[0], expected, **close)
        else:
            np.testing.assert_array_equal(found[0], expected)


# rows, columns, terms: of one tile, of more, and on both sides of their edges
SIZES = [(4, 4, 17), (3, 3, 18), (5, 9, 33), (8, 16, 65), (9, 4, 21), (17, 3, 55), (7, 8, 17)]


@pytest.mark.few(1)
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_products_of_all_sizes(m, n, k):
    check(lambda x, y: x @ y, drawn(m, k), drawn(k, n), tiles=1)


FORMS = {
    "transposed left": (lambda x, y: x.T @ y, drawn(17, 9), drawn(17, 5)),
    "transposed right": (lambda x, y: x @ y.T, drawn(9, 17), drawn(5, 17)),
    "transposed result": (lambda x, y: (x @ y).T, drawn(9, 17), drawn(17, 5)),
    "batch": (lambda x, y: np.einsum("bij,bjk->bik", x, y), drawn(3, 5, 18), drawn(3, 18, 4)),
    "common operand": (lambda x, y: x @ y, drawn(3, 5, 18), drawn(18, 4)),
    "several free axes": (
        lambda x, y: np.einsum("abk,kcd->abcd", x, y), drawn(2, 3, 17), drawn(17, 3, 2),
    ),
    "several sums": (lambda x, y: np.einsum("iab,abj->ij", x, y), drawn(5, 4, 5), drawn(4, 5, 3)),
    "packing": (lambda x, y, s: (x * s + 1) @ np.abs(y), drawn(9, 17), drawn(17, 5), drawn(17)),
    "epilogue": (
        lambda x, y, b, r: np.maximum(x @ y + b, 0) * 2 + r,
        drawn(9, 17), drawn(17, 5), drawn(5), drawn(9, 5),
    ),
    "distances": (lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1), drawn(9, 17), drawn(5, 17)),
    "largest": (lambda x, y: (x[:, None] + y[None]).max(-1), drawn(9, 17), drawn(5, 17)),
    "integers": (
        lambda x, y: x @ y,
        RNG.integers(-9, 9, (9, 17), np.int32), RNG.integers(-9, 9, (17, 5), np.int32),
    ),
    "truths": (lambda x, y: x @ y, drawn(9, 17) > 1, drawn(17, 5) > 1),
}  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_products(form):
    check(*FORMS[form])


@pytest.mark.full
def test_half_floats_are_added_up_as_float32():
    x, y = (drawn(*shape).astype(np.float16) for shape in ((5, 70), (70, 4)))
    check(lambda x, y: x @ y, x, y, tolerance=2e-3)
    (kernel,) = tiled(plan(lambda x, y: x @ y, x, y))
    assert {row.dtype for row in kernel.scratch} == {np.dtype(np.float32)}
    exact = x.astype(np.float64) @ y.astype(np.float64)
    found = interpreted(plan(lambda x, y: x @ y, x, y), (x, y))
    np.testing.assert_array_equal(found[0], exact.astype(np.float16))


def test_infinities_stay_in_their_rows():
    x, y = drawn(9, 17), drawn(17, 5)
    x[8, 16], y[16, 4] = np.inf, np.nan
    made = plan(lambda x, y: x @ y, x, y)
    found = interpreted(made, (x, y), 1)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(found[0], x @ y, rtol=1e-12)


def test_results_of_the_same_indices_are_computed_in_registers():
    x, y, b = drawn(9, 17), drawn(17, 5), drawn(5)
    made = plan(lambda x, y, b: (np.sqrt(np.abs(x @ y + b)), x @ y), x, y, b)
    (step,) = made.steps
    assert not made.arena
    assert len(step.buffers) == 5


@pytest.mark.full
def test_long_sums_of_few_results_are_shared_by_blocks():
    x, y = drawn(100, 5), drawn(100, 4)
    made = plan(lambda x, y: x.T @ y, x, y)
    assert len(made.steps) == 2
    first = made.steps[0].kernel
    assert [loop.index.attribute[2] for loop in first.band] == [2, 2, 1]
    check(lambda x, y: x.T @ y, x, y)


def test_one_barrier_a_stretch_of_terms():
    (kernel,) = tiled(plan(lambda x, y: x @ y, drawn(9, 40), drawn(40, 5)))
    (loop,) = [
        x for x in walk(kernel.body) if isinstance(x, For) and x.index.attribute[0] == "stretch"
    ]
    assert [type(each) for each in loop.body] == [For, Barrier]


def test_a_kernel_serves_many_sizes():
    def text(m, n, k):
        x, y = (drawn(*shape).astype(np.float32) for shape in ((m, k), (k, n)))
        (kernel,) = tiled(plan(lambda x, y: x @ y, x, y, machine=CUDA))
        return emit(kernel, CUDA.grid)

    assert text(500, 600, 700) == text(501, 602, 703)


def registers(function, *operands):
    (kernel,) = tiled(plan(function, *operands, machine=CUDA))
    return in_registers(kernel), kernel


def floats(*shape):
    return np.ones(shape, np.float32)


@needs_compiler
def test_sums_are_registers():
    made, kernel = registers(lambda x, y: x @ y, floats(1024, 64), floats(64, 2048))
    assert kernel.team == 256
    assert "fma.rn.f32" in made.ptx
    assert ".f64" not in made.ptx
    assert "ld.shared.v4.f32" in made.ptx


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "operands"),
    [
        (lambda x, y: np.maximum(x @ y, 0) * 2, (floats(2100, 999), floats(999, 2100))),
        (lambda x, y: x.T @ y, (floats(3001, 40), floats(3001, 50))),
        (lambda x, y: x @ y, (np.ones((1100, 700)), np.ones((700, 900)))),
    ],
)  # fmt: skip
def test_no_tile_spills(function, operands):
    registers(function, *operands)


@pytest.mark.parametrize("size", [4, 8])
def test_tiles_fit_the_machine(size):
    grid = CUDA.grid
    for tile in grid.tiles:
        assert tile.threads <= grid.largest_team
        assert tile.threads > grid.warp
        assert tile.rows * tile.depth % tile.threads == 0
        assert tile.columns * tile.depth % tile.threads == 0
        if tile.sums * size <= grid.registers:
            assert 2 * tile.bytes(size) <= grid.shared


IN_TURN = target(SMALL, grid={"largest_epilogue": 400})
"""A GPU for which a hyperbolic tangent is too long to be written out for all sums of a thread."""


@pytest.mark.full
@pytest.mark.parametrize(("m", "n"), [(4, 4), (9, 17)])
def test_long_epilogues_go_row_by_row(m, n):
    def layer(x, w, b):
        return np.tanh(x @ w + b)

    operands = drawn(m, 18), drawn(18, n), drawn(n)
    check(layer, *operands, machine=IN_TURN)
    assert len(plan(layer, *operands, machine=IN_TURN).steps) == 1


@pytest.mark.full
@needs_compiler
def test_long_epilogues_of_the_largest_tiles_have_no_spills():
    x, b = np.ones((2048, 2048), np.float32), np.ones(2048, np.float32)
    layer = jit(lambda x, w, b: np.tanh(x @ w + b))
    (kernel,) = layer.lower(x, x, b, device="cuda", architecture="sm_90").resources().kernels
    assert kernel.spills == 0


@pytest.mark.full
def test_results_that_are_read_across_are_not_those_of_the_tile():
    """They share the loop over the stack alone with what reads them."""
    x, y, z = (np.random.default_rng(n).normal(size=(2, 18, 18)) for n in range(3))

    def function(x, y, z):
        return np.sort(np.swapaxes(z + x @ y, 1, 2), axis=1)

    (found,) = interpreted(plan(function, x, y, z, machine=CUDA), [x, y, z])
    np.testing.assert_allclose(found, function(x, y, z), rtol=1e-12, atol=1e-12)
