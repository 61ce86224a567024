"""Products on tensor cores: sums of exact products, for all sizes and operand layouts."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from functrans import config, jit
from functrans.emit.cuda.kernel import emit
from functrans.loop.fragments import COLUMNS, ROWS
from functrans.loop.grid import WarpTile, lines
from functrans.loop.statements import MatrixMultiply, Store
from functrans.loop.walk import walk
from functrans.lower.grid.launch import launch
from functrans.lower.grid.target import CUDA
from functrans.run.cuda import launches
from functrans.run.cuda.resources import occupancy
from tests.emit.cuda import programs
from tests.emit.cuda.programs import emulated, interpreted
from tests.emit.cuda.special import needs_compiler
from tests.targets import target

ml_dtypes = pytest.importorskip("ml_dtypes")
BF16, finfo = np.dtype(ml_dtypes.bfloat16), ml_dtypes.finfo
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
DTYPES = [BF16, F16, F32, F64]

GPU = replace(CUDA, tf32=True)
SMALL = target(
    GPU,
    grid={
        "warp_tiles": (WarpTile(32, 32, 16, 16, 32), WarpTile(16, 16, 32, 16, 16)),
        "copied_tiles": (WarpTile(32, 32, 16, 16, 32, 4), WarpTile(16, 16, 32, 16, 16, 3)),
        "double_tiles": (
            WarpTile(32, 32, 8, 16, 32, 4),
            WarpTile(16, 16, 8, 16, 16, 3),
            WarpTile(32, 32, 4, 16, 32),
            WarpTile(16, 16, 8, 16, 16),
        ),
        "blocks": 4,
        "least_part": 16,
    },
    reductions={"long": 1000},
)
"""A GPU whose tiles are of one or two warps."""

RNG = np.random.default_rng(0)


def drawn(dtype, *shape):
    return RNG.normal(size=shape).astype(dtype)


plan = partial(programs.plan, machine=SMALL)


def products(made):
    """The kernels on tensor cores."""
    return [
        step.kernel
        for step in made.steps
        if any(isinstance(each, MatrixMultiply) for each in walk(step.kernel.body))
    ]


def rounded(x):
    """Operands as tensor cores take them: of float32, with 11 bits, halves away from zero."""
    wide = np.asarray(x, np.float64)
    if x.dtype != F32:
        return wide
    part, exponent = np.frexp(wide)
    part *= 2.0**11
    return np.ldexp(np.copysign(np.floor(np.abs(part) + 0.5), part) / 2.0**11, exponent)


def check(function, *operands, machine=SMALL, both=False):
    """Run the text, and interpret the plan, in random orders; both are exact but for sums."""
    made = plan(function, *operands, machine=machine)
    assert len(products(made)) == 1
    exact = function(*map(rounded, operands))
    # of as many numbers, all positive, the sum is as large as it can be
    size = function(*(np.abs(rounded(x)) for x in operands))
    found = [emulated(made, operands, machine.grid)]
    if both:
        found.append(interpreted(made, operands))
    for (result,) in found:
        dtype = np.asarray(function(*operands)).dtype
        assert result.dtype == dtype
        error = np.abs(result.astype(np.float64) - exact)
        allowed = 16 * np.finfo(max(dtype, F32)).eps * size
        if dtype.itemsize == 2:
            about = finfo(dtype)
            allowed += float(about.eps) / 2 * np.abs(exact) + float(about.smallest_subnormal)
        assert (error <= allowed).all()
    return found[0][0]


# rows, columns, terms: of one tile, of more, and on both sides of their edges
SIZES = [
    (8, 8, 17, BF16), (15, 17, 33, F32), (16, 33, 64, F16), (33, 16, 40, BF16), (33, 16, 40, F32),
    (64, 31, 18, F16), (17, 64, 65, F32), (15, 17, 33, F64), (33, 40, 21, F64), (64, 31, 18, F64),
]  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize(("m", "n", "k", "dtype"), SIZES[::-1])
def test_products_of_all_sizes(m, n, k, dtype):
    x, y = drawn(dtype, m, k), drawn(dtype, k, n)
    found = check(lambda x, y: x @ y, x, y, both=m < 16)
    # against NumPy itself, as far as operands of 11 bits, and results of float16, are from that
    expected = x.astype(np.float64) @ y.astype(np.float64)
    scale = np.abs(x.astype(np.float64)) @ np.abs(y.astype(np.float64))
    assert (np.abs(found.astype(np.float64) - expected) <= 2.0**-10 * scale).all()


# the last stretch whole and not; fewer stretches than there are tiles, as many, and more
COPIED = [
    (33, 40, 40, F16), (16, 24, 48, BF16), (40, 32, 128, F16), (33, 16, 72, F16),
    (33, 20, 40, F32), (24, 36, 64, F32), (64, 40, 64, BF16), (8, 8, 24, F16), (72, 80, 24, F16),
    (8, 16, 144, BF16), (33, 18, 20, F64), (40, 32, 64, F64), (9, 20, 22, F64), (8, 8, 18, F64),
]  # fmt: skip


def is_copied(made):
    kernel = products(made)[-1]
    late = [each for each in walk(kernel.body) if isinstance(each, Store) and each.late]
    text = emit(kernel, SMALL.grid)
    assert bool(late) == ("await_copies(" in text) == bool(re.search(r"\bcopy\w*\(", text))
    assert bool(re.search(r"\bread", text)) == (not late)
    return bool(late)


@pytest.mark.dear
@pytest.mark.few(5)
@pytest.mark.parametrize(("m", "n", "k", "dtype"), COPIED)
def test_operands_in_pieces_of_16_bytes_are_copied(m, n, k, dtype):
    x, y = drawn(dtype, m, k), drawn(dtype, k, n)
    assert is_copied(plan(lambda x, y: x @ y, x, y))
    check(lambda x, y: x @ y, x, y, both=m < 32)


COPIED_FORMS = {
    "transposed left": (lambda x, y: x.T @ y, (48, 16), (48, 8)),
    "transposed right": (lambda x, y: x @ y.T, (9, 48), (18, 48)),
    "both transposed": (lambda x, y: x.T @ y.T, (32, 16), (24, 32)),
    "transposed result": (lambda x, y: (x @ y).T, (9, 24), (24, 40)),
    "batch": (lambda x, y: x @ y, (2, 9, 24), (2, 24, 16)),
    "common operand": (lambda x, y: x @ y, (2, 9, 24), (24, 16)),
    "part of an array": (lambda x, y: x[1:, 8:32] @ y[:, 16:40], (10, 40), (24, 56)),
    "in the other order": (lambda x, y: x[::-1] @ y, (10, 48), (48, 16)),
    "epilogue": (lambda x, y: np.maximum(x @ y, 0) * 2, (9, 48), (48, 8)),
    "long sums in parts": (lambda x, y: x.T @ y, (72, 16), (72, 8)),
}


@pytest.mark.dear
@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [F64, F16, F32, BF16], ids=str)
@pytest.mark.parametrize("form", COPIED_FORMS)
def test_forms_of_operands_that_are_copied(form, dtype):
    function, *shapes = COPIED_FORMS[form]
    x, y = (drawn(dtype, *shape) for shape in shapes)
    assert is_copied(plan(function, x, y))
    check(function, x, y)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, y: x @ y, ((16, 20), (20, 16))),
        (lambda x, y: x @ y, ((16, 24), (24, 20))),
        (lambda x, y: x[:, 4:28] @ y, ((16, 32), (24, 16))),
        (lambda x, y: x[:, :24] @ y, ((16, 28), (24, 16))),
        (lambda x, y: x[:, ::-1] @ y, ((16, 24), (24, 16))),
        (lambda x, y: (x * 2) @ y, ((16, 24), (24, 16))),
        (lambda x, y: np.einsum("iab,abj->ij", x, y), ((9, 4, 8), (4, 8, 8))),
    ],
)
def test_other_operands_come_by_way_of_registers(function, shapes):
    x, y = (drawn(F16, *shape) for shape in shapes)
    assert not is_copied(plan(function, x, y))
    check(function, x, y)


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("together", [3, 1, 2, 16])
def test_tiles_near_each_other_are_computed_at_a_time(together):
    machine = target(SMALL, grid={"tiles_together": together})
    x, y = drawn(F16, 100, 40), drawn(F16, 40, 72)
    made = plan(lambda x, y: x @ y, x, y, machine=machine)
    (kernel,) = products(made)
    extents = [loop.index.attribute[2] for loop in kernel.band]
    assert extents == {1: [4, 3], 16: [1, 3, 4]}.get(together, [2, 3, 2])
    check(lambda x, y: x @ y, x, y, machine=machine)


@pytest.mark.parametrize(
    ("terms", "wanted", "parts"),
    [(4096, 5, 4), (4096, 4, 4), (1000, 2, 1), (968, 3, 3), (1016, 4, 4)],
)
def test_sums_are_cut_where_pieces_end(terms, wanted, parts):
    machine = target(GPU, grid={"blocks": wanted, "least_part": 1})
    x, y = np.ones((40, terms), F16), np.ones((terms, 40), F16)
    made = plan(lambda x, y: x @ y, x[:32], y[:, :32], machine=machine)
    assert len(made.steps) == 1 + (parts > 1)
    (kernel,) = products(made)
    (loop, *_) = [loop.index.attribute[2] for loop in kernel.band if parts > 1] or [1]
    assert loop == parts
    copied = any(isinstance(each, Store) and each.late for each in walk(kernel.body))
    assert copied == (terms % (8 * parts) == 0)


@pytest.mark.full
def test_a_thread_stores_neighbours_at_once():
    def text(n, function=lambda x, y: x @ y):
        x, y = drawn(F16, 33, 40), drawn(F16, 40, n)
        made = plan(function, x, y)
        check(function, x, y)
        return emit(products(made)[0], SMALL.grid)

    several = re.compile(r"store4\((t0|out0)")
    assert several.search(text(40))
    assert several.search(text(44))
    assert several.search(text(44, lambda x, y: np.maximum(x @ y, 0) * 2))
    assert not several.search(text(41))
    assert not several.search(text(42))
    small = target(SMALL, grid={"largest_epilogue": 8})
    x, y = drawn(F16, 33, 40), drawn(F16, 40, 44)
    made = plan(lambda x, y: np.maximum(x @ y, 0) * 2, x, y, machine=small)
    assert not several.search(emit(products(made)[0], small.grid))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_infinities_that_are_copied_stay_in_their_rows(dtype):
    x, y = drawn(dtype, 17, 48), drawn(dtype, 48, 24)
    x[8, 47], y[47, 4] = np.inf, np.nan
    made = plan(lambda x, y: x @ y, x, y)
    assert is_copied(made)
    (found,) = emulated(made, (x, y), SMALL.grid)
    expected = x.astype(np.float64) @ y.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))


def test_an_old_machine_copies_nothing():
    grid = launches.machine("sm_75").grid
    assert not grid.warp_tiles
    assert not grid.copied_tiles
    assert not grid.room_of_long_rows
    assert not grid.double_tiles
    assert launches.machine("sm_86").grid.largest_shared == 99 << 10
    assert launches.machine("sm_80").grid.largest_shared == 163 << 10


FORMS = {
    "transposed left": (lambda x, y: x.T @ y, (48, 17), (48, 9)),
    "transposed right": (lambda x, y: x @ y.T, (9, 40), (18, 40)),
    "both transposed": (lambda x, y: x.T @ y.T, (33, 17), (18, 33)),
    "transposed result": (lambda x, y: (x @ y).T, (9, 20), (20, 18)),
    "batch": (lambda x, y: np.einsum("bij,bjk->bik", x, y), (2, 9, 18), (2, 18, 10)),
    "common operand": (lambda x, y: x @ y, (2, 9, 18), (18, 16)),
    "several free axes": (lambda x, y: np.einsum("abk,kcd->abcd", x, y), (2, 5, 17), (17, 3, 4)),
    "several sums": (lambda x, y: np.einsum("iab,abj->ij", x, y), (9, 4, 5), (4, 5, 8)),
    "long sums in parts": (lambda x, y: x.T @ y, (70, 9), (70, 8)),
}
TRIED = [
    *((form, dtype) for form in list(FORMS)[:2] for dtype in DTYPES),
    *((form, DTYPES[number % 3]) for number, form in enumerate(list(FORMS)[2:])),
    *((form, F64) for form in list(FORMS)[2:]),
]


@pytest.mark.few(1)
@pytest.mark.parametrize(("form", "dtype"), TRIED)
def test_forms_of_products(form, dtype):
    function, *shapes = FORMS[form]
    check(function, *(drawn(dtype, *shape) for shape in shapes))


@pytest.mark.full
def test_operands_and_results_are_computed_on_the_way():
    x, y, b, r = (drawn(F32, *shape) for shape in ((17, 40), (40, 24), (24,), (17, 24)))

    def layer(x, y, b, r):
        return np.maximum((2 * x - 1) @ np.abs(y) + b, 0) * 2 + r

    made = plan(layer, x, y, b, r)
    assert len(made.steps) == 1
    assert not made.arena
    (found,) = emulated(made, (x, y, b, r), SMALL.grid)
    product = rounded(2 * x - 1) @ rounded(np.abs(y))
    np.testing.assert_allclose(found, np.maximum(product + b, 0) * 2 + r, rtol=1e-5, atol=1e-4)


def test_half_floats_are_kept_in_memory_rather_than_what_is_made_of_them():
    x, y = drawn(BF16, 9, 40), drawn(BF16, 40, 17)

    def layer(x, y):
        return np.maximum(x, 0).astype(BF16) @ y

    made = plan(layer, x, y)
    (kernel,) = products(made)
    assert [row.dtype for row in kernel.scratch[1:3]] == [BF16, BF16]
    assert {one.dtype for step in made.steps for one in step.buffers if one.name == "t0"} == {BF16}
    (found,) = emulated(made, (x, y), SMALL.grid)
    np.testing.assert_allclose(found, layer(x, y), rtol=1e-5, atol=1e-5)


@pytest.mark.full
def test_half_floats_are_added_up_as_float32():
    x, y = np.full((8, 301), 1.0, F16), np.full((301, 8), 0.25, F16)
    x[:, 0] = 2048  # of a sum of 512, half floats are a half apart
    (found,) = emulated(plan(lambda x, y: x @ y, x, y), (x, y), SMALL.grid)
    np.testing.assert_array_equal(found, np.full((8, 8), 512 + 300 / 4, F16))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_infinities_stay_in_their_rows(dtype):
    x, y = drawn(dtype, 9, 37), drawn(dtype, 37, 10)
    x[8, 36], y[36, 4] = np.inf, np.nan
    (found,) = emulated(plan(lambda x, y: x @ y, x, y), (x, y), SMALL.grid)
    expected = x.astype(np.float64) @ y.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))


def test_float32_is_strict_unless_it_may_be_rounded():
    x, y = drawn(F32, 17, 40), drawn(F32, 40, 24)
    assert products(plan(lambda x, y: x @ y, x, y))
    assert not products(plan(lambda x, y: x @ y, x, y, machine=replace(SMALL, tf32=False)))
    half = plan(lambda x, y: x @ y, x.astype(F16), y.astype(F16), machine=CUDA)
    assert products(half)


def test_the_setting_counts_when_a_program_is_made(monkeypatch):
    def source():
        return jit(lambda x: x @ x).lower(np.ones((40, 40), F32), device="cuda").source()

    assert "mma" not in source()
    monkeypatch.setattr(config, "matmul_precision", "tf32")
    assert "mma_float32" in source()


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1), F32),
        (lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1), F64),
        (lambda x, y: x @ y.T, np.int32),
    ],
)
def test_other_sums_are_not_of_tensor_cores(function, dtype):
    made = plan(function, *(np.ones((20, 40), dtype) for _ in "xy"))
    assert any(step.kernel.private for step in made.steps)
    assert not products(made)


@pytest.mark.full
def test_sizes_that_are_multiples_share_a_kernel():
    def text(m, n, k):
        made = plan(lambda x, y: x @ y, *(np.ones(s, BF16) for s in ((m, k), (k, n))), machine=CUDA)
        (kernel,) = products(made)
        return emit(kernel, CUDA.grid)

    assert text(4099, 6003, 8003) == text(4103, 6007, 8007)
    wide = text(4096, 6144, 8000)
    assert wide == text(2048, 6144, 8000)  # the number of terms is a constant here
    assert "copy(" in wide


def tiles(grid, dtype):
    if dtype == F64:
        return grid.double_tiles
    return [tile.of(dtype.itemsize) for tile in (*grid.warp_tiles, *grid.copied_tiles)]


TILES = [
    (tile, dtype)
    for grid in (CUDA.grid, SMALL.grid)
    for dtype in DTYPES
    for tile in tiles(grid, dtype)
]


@pytest.mark.parametrize(("tile", "dtype"), TILES, ids=str)
def test_tiles_fit_the_machine(tile, dtype):
    assert tile.threads <= CUDA.grid.largest_team
    # those of float64, and for copies, may have more than a kernel declares
    room = CUDA.grid.largest_shared if tile.is_copied or dtype == F64 else CUDA.grid.shared
    assert tile.bytes(dtype.itemsize) <= room
    if dtype == F64:
        assert tile.bytes(dtype.itemsize) <= launches.machine("sm_80").grid.largest_shared
    assert tile.warp_rows % ROWS == 0
    assert tile.warp_columns % (2 * COLUMNS) == 0
    assert tile.threads % tile.columns == 0
    each = 16 // dtype.itemsize
    for length in (tile.rows, tile.columns):
        assert length * tile.depth % (each * tile.threads) == 0


def banks(addresses):
    """The banks of shared memory that addresses of 4 bytes are in."""
    return {address // 4 % 32 for address in addresses}


@pytest.mark.parametrize("tile", [*CUDA.grid.warp_tiles, *CUDA.grid.copied_tiles], ids=str)
def test_a_warp_reads_different_banks(tile):
    for itemsize in (2, 4):
        sized = tile.of(itemsize)
        for near in (True, False):
            _, line = lines(sized.depth, sized.rows, itemsize, near)
            pitch = line * itemsize
            if itemsize == 2 or near:
                # eight rows of 16 bytes: what `ldmatrix` reads at once, or four numbers of each
                each = [row * pitch + word * 4 for row in range(8) for word in range(4)]
            else:
                each = [term * pitch + row * 4 for row in range(8) for term in range(4)]
            assert len(banks(each)) == 32
    pitch = 4 * tile.strip[1]
    half = [
        row * pitch + 8 * pair + word for row in range(4) for pair in range(4) for word in (0, 4)
    ]
    assert len(banks(half)) == 32


def compiled(function, *operands, architecture):
    grid = launches.machine(architecture).grid if architecture != "sm_100" else GPU.grid
    (kernel,) = products(plan(function, *operands, machine=replace(GPU, grid=grid)))
    made = launches.compiled(kernel, grid, architecture).cubin
    assert made.resources.spills <= launches.FEW_SPILLS
    assert ".local" not in made.ptx
    threads, _, shared = launch(kernel, grid)
    return made.ptx, occupancy(made.resources, threads, architecture, shared).blocks


KINDS = {BF16: "m16n8k16.row.col.f32.bf16", F32: "m16n8k8.row.col.f32.tf32",
         F64: "m16n8k4.row.col.f64.f64"}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("dtype", [BF16, F32, F64], ids=str)
def test_sums_are_registers(dtype):
    x, y = np.ones((60, 512), dtype), np.ones((512, 60), dtype)
    text, blocks = compiled(lambda x, y: x @ y, x, y, architecture="sm_90")
    assert blocks >= 4
    assert f"mma.sync.aligned.{KINDS[dtype]}" in text
    assert ("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in text) == (dtype == BF16)
    assert ((".f64" in text), ("fma" in text)) == (dtype == F64, False)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [512, 4096, 4097])
def test_no_tile_spills_more_than_a_few_addresses(size, dtype, architecture):
    x = np.ones((size, size), dtype)
    _, blocks = compiled(lambda x, y: np.maximum(x @ y, 0) * 2, x, x, architecture=architecture)
    # (addresses that are no multiples of others take registers, too)
    assert blocks >= (1 if size % 2 or size == 4096 else 2)


@pytest.mark.dear
@pytest.mark.few(7)  # each form of tiles once
@needs_compiler
@pytest.mark.parametrize(
    ("dtype", "size", "few", "behind"), [
        (BF16, 4096, 1, 1), (F16, 2048, 2, 2), (F32, 1000, 4, 2), (BF16, 520, 4, 2),
        (F64, 2048, 1, 1), (F64, 1000, 3, 1), (F64, 520, 4, 2),
        (F16, 4096, 1, 1), (F32, 4096, 1, 1), (BF16, 2048, 2, 2), (F32, 2048, 2, 2),
        (BF16, 1000, 4, 2), (F16, 1000, 4, 2), (F16, 520, 4, 2), (F32, 520, 4, 2),
    ],
)  # fmt: skip
def test_copies_go_past_the_registers(dtype, size, few, behind):
    x = np.ones((size, size), dtype)
    text, blocks = compiled(lambda x, y: x @ y, x, x, architecture="sm_90")
    assert blocks >= few
    assert "cp.async.cg.shared.global.L2::128B" in text
    assert f"cp.async.wait_group {behind};" in text
    assert "ld.global" not in text


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("number", range(len(CUDA.grid.warp_tiles)))
def test_the_tiles_of_the_machine(number, dtype):
    tiles = {"warp_tiles": (CUDA.grid.warp_tiles[number],), "copied_tiles": ()}
    x, y = drawn(dtype, 130, 72), drawn(dtype, 72, 136)
    check(lambda x, y: x @ y, x, y, machine=target(GPU, grid=tiles))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(CUDA.grid.copied_tiles)))
def test_the_tiles_of_the_machine_for_copies(number):
    machine = target(GPU, grid={"copied_tiles": (CUDA.grid.copied_tiles[number],)})
    x, y = drawn(F16, 130, 200), drawn(F16, 200, 264)
    check(lambda x, y: x @ y, x, y, machine=machine)
