"""Attention of half floats with scores in registers: NumPy's results, whatever the layout is."""

import numpy as np
import pytest

from functrans import jit
from functrans.loop.statements import Store
from functrans.loop.walk import walk
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.optimise import optimise
from functrans.run.cuda.launches import FEW_SPILLS
from functrans.scipy.special import softmax
from tests.emit.cuda.programs import emulated, interpreted
from tests.emit.cuda.special import needs_compiler
from tests.lower.grid.attention.test_seen_tiles import causal, nothing, padding, scattered, window
from tests.lower.grid.attention.test_warp_tiles import (
    FOUR_WARPS,
    HALF,
    ONE_WARP,
    attention,
    operands,
    products,
)
from tests.run.cuda import registers
from tests.targets import target

MACHINES = {"one warp": ONE_WARP, "four warps": FOUR_WARPS}


def weights(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def planned(function, given, machine):
    graph, captured, *_ = jit(function).program_for(given, {})
    return pipeline.plan(optimise(graph), machine), captured


def private(made):
    return {row.name for step in made.steps for row in step.kernel.private}


def compared(function, given, machine, run=interpreted):
    """The kernel's result, which is that of float32 but for rounding."""
    made, captured = planned(function, given, machine)
    assert "scores" in private(made)
    (found,) = run(made, [*given, *captured])
    expected = function(*(x.astype(np.float32) for x in given))
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2e-2, atol=1.5e-2)
    return found


def copied(made):
    """The tiles into which something is copied asynchronously."""
    bodies = (step.kernel.body for step in made.steps)
    return {x.target.name for body in bodies for x in walk(body) if isinstance(x, Store) and x.late}


@pytest.mark.dear
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("rows", "partners", "terms", "columns"),
    [(16, 32, 16, 16), (17, 40, 32, 20), (70, 33, 16, 33), (64, 64, 48, 64), (9, 17, 16, 8)],
)
def test_sizes(rows, partners, terms, columns, machine):
    compared(attention, operands(rows, partners, terms, columns, HALF), MACHINES[machine])


def by_columns(q, k, v):
    """Keys and values whose terms are not contiguous."""
    return weights(q @ k) @ np.swapaxes(v, -1, -2)


def heads_inside(q, k, v):
    """Heads between positions and terms, as a projection leaves them."""
    q, k, v = (np.swapaxes(x, 0, 1) for x in (q, k, v))
    return np.swapaxes(attention(q, k, v), 0, 1)


def computed(q, k, v):
    """Operands that are no plain loads."""
    return attention(q * q.dtype.type(2), -k, v + v.dtype.type(1))


def by_softmax(q, k, v):
    return softmax(q @ np.swapaxes(k, -1, -2), axis=-1) @ v


def capped(q, k, v):
    scores = q @ np.swapaxes(k, -1, -2)
    slope = np.arange(k.shape[-2]).astype(scores.dtype) / scores.dtype.type(16)
    return weights(np.tanh(scores) * scores.dtype.type(4) - slope) @ v


ORDERS = {by_columns: (None, (1, 0), (1, 0)), heads_inside: ((1, 0, 2),) * 3}


@pytest.mark.few(2)
@pytest.mark.parametrize("run", [interpreted, emulated])
@pytest.mark.parametrize("count", [40, 37])
@pytest.mark.parametrize(
    "function", [by_columns, heads_inside, computed, by_softmax, capped], ids=lambda f: f.__name__
)
def test_layouts_and_expressions(function, count, run):
    given = list(operands(19, count, 16, 24, HALF))
    if function is heads_inside:
        given = [np.stack([x, x[::-1], -x]) for x in given]
    given = [
        np.ascontiguousarray(x if order is None else x.transpose(order))
        for x, order in zip(given, ORDERS.get(function, (None,) * 3), strict=True)
    ]
    compared(function, given, ONE_WARP, run)


def test_what_is_plain_is_copied_asynchronously():
    made, _ = planned(attention, operands(32, 64, 32, 64, HALF), FOUR_WARPS)
    assert copied(made) == {"queries", "keys", "values"}
    made, _ = planned(attention, operands(32, 64, 32, 20, HALF), FOUR_WARPS)
    assert copied(made) == {"queries", "keys"}  # rows of 20 values are not aligned
    made, _ = planned(computed, operands(32, 64, 32, 64, HALF), FOUR_WARPS)
    assert not copied(made)


@pytest.mark.dear
@pytest.mark.few(2)
@pytest.mark.parametrize("run", [interpreted, emulated])
@pytest.mark.parametrize(
    "mask", [causal, window, padding, scattered, nothing], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("machine", MACHINES)
def test_masks(mask, machine, run):
    """Masked tiles are skipped; a query without keys is NaN, as in NumPy."""
    seen = mask(70, 130)

    def attend(q, k, v):
        scores = q @ np.swapaxes(k, -1, -2)
        return weights(np.where(seen, scores, scores.dtype.type(-np.inf))) @ v

    with np.errstate(invalid="ignore"):
        compared(attend, operands(70, 130, 16, 16, HALF), MACHINES[machine], run)


@pytest.mark.dear
def test_infinities_are_where_numpy_has_them():
    q, k, v = operands(20, 90, 16, 16, HALF)
    v[3, 2], v[80, 5], k[7, 1] = np.inf, np.nan, np.inf
    seen = causal(20, 90)

    def attend(q, k, v):
        scores = q @ np.swapaxes(k, -1, -2)
        return weights(np.where(seen, scores, scores.dtype.type(-np.inf))) @ v

    with np.errstate(invalid="ignore"):
        found = compared(attend, (q, k, v), ONE_WARP)
    assert np.isnan(found).any()
    assert not np.isnan(found).all()


@pytest.mark.dear
def test_rows_that_fill_a_tile_have_no_weight():
    q, k, v = operands(20, 33, 16, 16, HALF)
    k[-1], v[-1] = k[-1] * HALF.type(8), np.inf
    k[-1, 0] = -np.inf
    q = abs(q)
    with np.errstate(invalid="ignore"):
        for machine in MACHINES.values():
            compared(attention, (q, k, v), machine)


@pytest.mark.dear
def test_weights_are_those_of_half_floats():
    """Each is rounded once, at the largest score so far."""
    rng = np.random.default_rng(0)
    q, k = (rng.integers(-4, 5, size=(n, 16)).astype(HALF) / HALF.type(2) for n in (64, 96))
    v = np.eye(96, 16, dtype=np.float16)
    found = compared(attention, (q, k, v), ONE_WARP)
    scores = (q.astype(np.float32) @ k.T.astype(np.float32)).astype(np.float16) * HALF.type(0.125)
    e = np.exp((scores - scores.max(axis=1, keepdims=True)).astype(np.float64)).astype(np.float16)
    total = e.astype(np.float64).sum(axis=1, keepdims=True).astype(np.float16)
    exact = e[:, :16].astype(np.float64) / total.astype(np.float64)
    gap = np.abs(found - exact) / np.spacing(exact.astype(np.float16))
    assert gap.max() < 2
    assert np.median(gap) < 0.5


@pytest.mark.dear
@needs_compiler
def test_machine_code_without_spills_in_the_loop():
    for architecture in registers.ARCHITECTURES:
        for width, queries in ((64, 128), (128, 128), (64, 32)):
            x = np.broadcast_to(np.float16(1), (64, queries, width))
            lowered = jit(attention).lower(x, x, x, device="cuda", architecture=architecture)
            (kernel,) = lowered.resources().kernels
            # (an address or two, stored before the loop and loaded after it)
            assert kernel.spills == kernel.local <= FEW_SPILLS
            text = lowered.ptx()
            for instruction in ("cp.async", "ldmatrix", "mma.sync", "ex2.approx.ftz"):
                assert instruction in text


def test_older_machines_and_single_precision_have_other_kernels():
    old = target(CUDA, grid={"warp_tiles": ()})
    for machine, dtype in ((old, HALF), (CUDA, np.dtype(np.float32))):
        made, _ = planned(attention, operands(64, 64, 32, 32, dtype), machine)
        assert "products" in private(made)
        assert "scores" not in private(made)
        assert not products(made)
