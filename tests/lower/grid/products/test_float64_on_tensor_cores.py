"""Products of float64 on tensor cores: what is particular to them, and transforms of them.

Sizes, forms of operands and special numbers are those of the other dtypes (`test_tensor_cores`).
"""

from dataclasses import replace

import numpy as np
import pytest

from functrans import grad, jit, vmap
from functrans.ir.types import interleaved, joined
from functrans.loop.grid import lines
from functrans.lower import pipeline
from functrans.lower.grid.launch import least_blocks, shared_rows
from functrans.lower.grid.target import CUDA
from functrans.optimise import legalised
from functrans.run.cuda import launches
from tests.emit.cuda.programs import emulated
from tests.emit.cuda.special import needs_compiler
from tests.lower.grid.products.test_tensor_cores import (
    F32,
    F64,
    GPU,
    SMALL,
    banks,
    check,
    compiled,
    drawn,
    is_copied,
    plan,
    products,
)
from tests.targets import target


def agrees(function, *operands, count, machine=SMALL):
    """The text of a plan with so many products on tensor cores computes what NumPy does."""
    made = plan(function, *operands, machine=machine)
    assert len(products(made)) == count
    found = emulated(made, operands, machine.grid)
    expected = function(*operands)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for result, wanted in zip(found, expected, strict=True):
        wanted = np.asarray(wanted)
        assert result.dtype == wanted.dtype
        np.testing.assert_allclose(result, wanted, rtol=1e-12, atol=1e-11)
    return made


def squares(x, y):
    return np.sum(np.tanh(x @ y) ** 2)


TRANSFORMED = {
    "gradients": (lambda x, y: grad(squares, argnums=(0, 1))(x, y), 3),
    "a common operand": (lambda x, y: vmap(lambda row: row @ y)(x.reshape(3, -1, 24)), 1),
    "a stack": (lambda x, y: vmap(np.matmul, in_axes=(0, None))(x.reshape(3, -1, 24), y), 1),
    "gradients of a stack": (
        lambda x, y: vmap(grad(squares), in_axes=(0, None))(x.reshape(3, -1, 24), y), 2,
    ),
}  # fmt: skip


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("name", TRANSFORMED)
def test_transforms_of_products(name):
    function, count = TRANSFORMED[name]
    agrees(function, drawn(F64, 27, 24), drawn(F64, 24, 20), count=count)


def test_operands_and_results_are_computed_on_the_way():
    x, y, b, r = (drawn(F64, *shape) for shape in ((17, 41), (41, 24), (24,), (17, 24)))

    def layer(x, y, b, r):
        return np.maximum((2 * x - 1) @ np.where(y > 0, y, 0) + b, 0) * 2 + r

    made = agrees(layer, x, y, b, r, count=1)
    assert len(made.steps) == 1
    assert not made.arena


def test_wider_numbers_are_made_on_the_way():
    x, y = drawn(F32, 17, 24), drawn(F64, 24, 18)
    agrees(lambda x, y: x @ y, x, y, count=1)


@pytest.mark.dear
@pytest.mark.parametrize("conjugated", [False, True])
def test_complex_products_are_four_real_ones(conjugated):
    def function(x, y):
        return (x.conj() if conjugated else x) @ y

    operands = [drawn(F64, *shape) + 1j * drawn(F64, *shape) for shape in ((17, 20), (20, 9))]
    graph = legalised(jit(function).lower(*operands).graph(), SMALL)
    made = pipeline.plan(graph, SMALL)
    assert len(products(made)) == 4
    found = emulated(made, [interleaved(x, x.dtype) for x in operands], SMALL.grid)
    np.testing.assert_allclose(joined(found[0], np.dtype(complex)), function(*operands), rtol=1e-12)


def test_terms_are_added_in_float64():
    x, y = np.full((8, 301), 1.0), np.full((301, 8), 1.0)
    x[:, 0] = 2.0**52  # of which float32 has no neighbour that is 1 away
    (found,) = emulated(plan(lambda x, y: x @ y, x, y), (x, y), SMALL.grid)
    np.testing.assert_array_equal(found, np.full((8, 8), 2.0**52 + 300))


def test_a_knob_turns_it_off():
    machine = target(GPU, grid={"double_tiles": ()})
    x = np.ones((64, 64))
    assert not products(plan(lambda x: x @ x, x, machine=machine))
    assert products(plan(lambda x: x @ x, x.astype(F32), machine=machine))


@pytest.mark.parametrize(("size", "number", "blocks"), [(2048, 0, 1), (1000, 1, 2), (2049, 3, 1)])
def test_a_tile_takes_the_shared_memory_and_registers_that_it_says(size, number, blocks):
    x = np.broadcast_to(np.float64(1), (size, size))
    (kernel,) = products(plan(lambda x, y: x @ y, x, x, machine=CUDA))
    tile = CUDA.grid.double_tiles[number]
    assert kernel.team == tile.threads
    taken = sum(row.nbytes for row in shared_rows(kernel))
    assert 0.9 * tile.bytes(8) <= taken <= tile.bytes(8)
    # accumulators of 512 bytes leave registers for one block of a multiprocessor
    assert least_blocks(kernel) == blocks


def test_the_text_says_how_many_rows_an_instruction_multiplies():
    x = np.ones((64, 64))
    for architecture, name in (("sm_80", "mma_float64_by_rows("), ("sm_90", "mma_float64(")):
        lowered = jit(lambda x: x @ x).lower(x, device="cuda", architecture=architecture)
        assert name in lowered.source()


@needs_compiler
def test_older_tensor_cores_multiply_8_rows_of_float64():
    x, y = np.ones((60, 512)), np.ones((512, 60))
    text, _ = compiled(lambda x, y: x @ y, x, y, architecture="sm_80")
    assert "mma.sync.aligned.m8n8k4.row.col.f64.f64" in text
    assert "m16n8k4" not in text


def test_float64_is_multiplied_by_threads_where_tensor_cores_are_slow():
    x = np.ones((64, 64))
    for architecture, count in (("sm_75", 0), ("sm_86", 0), ("sm_120", 0), ("sm_90", 1)):
        grid = launches.machine(architecture).grid
        made = plan(lambda x: x @ x, x, machine=replace(CUDA, grid=grid))
        assert len(products(made)) == count


@pytest.mark.parametrize("tile", CUDA.grid.double_tiles, ids=str)
def test_a_warp_reads_and_writes_different_banks_of_float64(tile):
    for near in (True, False):
        _, line = lines(tile.depth, tile.rows, 8, near)
        # half a warp reads four terms of each of four rows: both words of each number
        strides = (line, 1) if near else (1, line)
        read = [
            8 * (row * strides[0] + term * strides[1]) + word
            for row in range(4) for term in range(4) for word in (0, 4)
        ]  # fmt: skip
        assert len(banks(read)) == 32
    # a quarter of it writes two adjacent sums each of two rows
    written = [8 * (row * tile.strip[1] + 2 * pair) + word
               for row in range(2) for pair in range(4) for word in range(0, 16, 4)]  # fmt: skip
    assert len(banks(written)) == 32


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("size", [512, 1000, 4096, 4097])
def test_products_of_float64_spill_nothing(size, architecture):
    x = np.ones((size, size))
    grid = launches.machine(architecture).grid
    made = plan(lambda x, y: np.maximum(x @ y, 0) * 2, x, x, machine=replace(CUDA, grid=grid))
    (kernel,) = products(made)
    assert launches.compiled(kernel, grid, architecture).cubin.resources.spills == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(CUDA.grid.double_tiles)))
def test_the_tiles_of_the_machine_for_float64(number):
    tile = CUDA.grid.double_tiles[number]
    x, y = drawn(F64, 130, 72), drawn(F64, 72, 136)
    machine = target(GPU, grid={"double_tiles": (tile,)})
    made = plan(lambda x, y: x @ y, x, y, machine=machine)
    assert is_copied(made) == tile.is_copied
    check(lambda x, y: x @ y, x, y, machine=machine)
