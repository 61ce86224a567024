"""Half-precision attention on tensor cores: NumPy's results, and equal scores in its gradients."""

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from functrans import grad, jit
from functrans.loop.grid import AttentionTile
from functrans.loop.statements import MatrixMultiply
from functrans.loop.walk import walk
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.optimise import optimise
from functrans.run.cuda.launches import FEW_SPILLS
from tests.emit.cuda.programs import emulated, interpreted, plan
from tests.emit.cuda.special import needs_compiler
from tests.run.cuda import registers
from tests.targets import target

ONE_WARP = target(
    CUDA,
    grid={
        "attention_tiles": (AttentionTile(16, 32, 16, 4, 4),),
        "warp_attention_tiles": (AttentionTile(16, 32, 32, 2, 8),),
    },
)
FOUR_WARPS = target(
    CUDA,
    grid={
        "attention_tiles": (AttentionTile(32, 64, 32, 4, 4),),
        "warp_attention_tiles": (AttentionTile(64, 16, 16, 2, 4),),
    },
)
OLD = target(FOUR_WARPS, grid={"warp_tiles": ()})
"""A GPU without tensor cores that we know."""

HALF, BFLOAT = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)


def drawn(*shape, dtype):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(dtype)


def attention(q, k, v):
    scores = q @ np.swapaxes(k, -1, -2) * np.float32(0.125).astype(q.dtype)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def masked(q, k, v):
    scores = q @ np.swapaxes(k, -1, -2)
    here, there = np.arange(q.shape[-2])[:, None], np.arange(k.shape[-2])
    scores = np.where(here >= there, scores, scores.dtype.type(-np.inf))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def operands(rows, partners, terms, columns, dtype):
    return (
        drawn(rows, terms, dtype=dtype) / dtype.type(4),
        drawn(partners, terms, dtype=dtype),
        drawn(partners, columns, dtype=dtype),
    )


def products(made):
    """The products on tensor cores: of which dtype their operands are."""
    steps = (step.kernel.body for step in made.steps)
    return [x.dtype for body in steps for x in walk(body) if isinstance(x, MatrixMultiply)]


def check(function, given, machine, run=interpreted):
    graph, captured, *_ = jit(function).program_for(given, {})
    made = pipeline.plan(optimise(graph), machine)
    exact = function(*(x.astype(np.float64) for x in given))
    (found,) = run(made, [*given, *captured])
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=2e-2, atol=1e-2)
    return products(made)


@pytest.mark.dear
@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [HALF, BFLOAT], ids=str)
@pytest.mark.parametrize(("rows", "partners", "columns"), [(17, 40, 20), (16, 33, 32), (9, 65, 33)])
def test_all_sizes(rows, partners, columns, dtype):
    found = check(attention, operands(rows, partners, 16, columns, dtype), ONE_WARP)
    assert found and set(found) == {dtype}


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [HALF, BFLOAT], ids=str)
def test_several_warps(dtype):
    assert check(attention, operands(20, 70, 32, 65, dtype), FOUR_WARPS)


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [HALF, BFLOAT], ids=str)
def test_as_it_is_printed(dtype):
    assert check(masked, operands(17, 40, 32, 40, dtype), ONE_WARP, emulated)


def test_sums_of_values_are_there_as_well_if_weights_are_half_floats():
    halves = plan(attention, *operands(32, 64, 32, 64, HALF), machine=FOUR_WARPS)
    single = plan(attention, *operands(32, 64, 32, 64, BFLOAT), machine=FOUR_WARPS)
    assert len(products(halves)) == 3  # two of each 16 terms, and one of the 16 keys
    assert len(products(single)) == 2  # weights are float32


def single(q, k, v):
    return attention(*(x.astype(np.float32) for x in (q, k, v)))


@pytest.mark.parametrize(
    ("function", "given", "machine"),
    [
        (attention, operands(32, 64, 40, 64, HALF), FOUR_WARPS),  # terms that fill no fragment
        (attention, operands(32, 64, 32, 64, HALF), OLD),
        (attention, operands(32, 64, 32, 64, np.dtype(np.float32)), FOUR_WARPS),
    ],
)
def test_else_they_are_multiplied_and_added(function, given, machine):
    assert not products(plan(function, *given, machine=machine))


def test_halves_that_were_made_single_before_are_halves():
    assert products(plan(single, *operands(33, 65, 32, 20, HALF), machine=FOUR_WARPS))


@pytest.mark.dear
def test_scores_that_a_gradient_makes_again_are_made_in_the_same_way():
    """Which of them is the largest is asked twice, and must be answered alike."""
    given = operands(33, 65, 32, 20, BFLOAT)
    made = plan(grad(lambda *x: np.sum(attention(*x) ** 2), (0, 1, 2)), *given, machine=FOUR_WARPS)
    pairs = [x for x in made.steps if any(row.name == "products" for row in x.kernel.private)]
    assert len(pairs) > 2
    assert not products(replace(made, steps=tuple(pairs)))


@pytest.mark.dear
@needs_compiler
@pytest.mark.parametrize("dtype", [HALF, BFLOAT], ids=str)
def test_machine_code_without_spills_in_the_loop(dtype):
    x = np.broadcast_to(dtype.type(1), (8, 8, 1024, 64))
    for architecture in registers.ARCHITECTURES:
        lowered = jit(attention).lower(x, x, x, device="cuda", architecture=architecture)
        (kernel,) = lowered.resources().kernels
        # (an address or two, stored before the loop and loaded after it)
        assert kernel.spills == kernel.local <= FEW_SPILLS
    assert re.search(r"mma\.sync\.aligned\.m16n8k16", lowered.ptx())
