"""Fused attention in one kernel: NumPy's results in any thread order, no scores in memory."""

import numpy as np
import pytest

from functrans import jit, vmap
from functrans.emit.cuda.kernel import emit
from functrans.ir.evaluate import evaluate as by_numpy
from functrans.loop.grid import AttentionTile, ProductTile
from functrans.lower import pipeline
from functrans.lower.grid.target import CUDA
from functrans.optimise import optimise
from functrans.scipy.special import softmax
from tests.emit.cuda.programs import emulated, in_registers, interpreted
from tests.emit.cuda.special import needs_compiler
from tests.targets import target

SMALL = target(
    CUDA,
    grid={
        "warp": 2,
        "block": 4,
        "largest_team": 4,
        "shortest": 3,
        "tiles": (ProductTile(4, 4, 2, 2, 2),),
        "attention_tiles": (AttentionTile(4, 4, 2, 2, 2),),
        "narrowest_product": 3,
        "blocks": 4,
        "least_part": 8,
    },
    unrolling={"longest": 2, "sums": 1, "elements": 2},
    reductions={"long": 1000},
    recomputation={"rounds": 0},
)
"""A GPU whose tiles have 4 queries and 4 keys."""

RNG = np.random.default_rng(0)


def drawn(*shape, dtype=np.float64):
    return RNG.normal(size=shape).astype(dtype)


def weights(scores):
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def scores(q, k):
    return q @ np.swapaxes(k, -1, -2) / 4


def attend(q, k, v):
    return weights(scores(q, k)) @ v


def planned(function, *operands, machine=SMALL):
    """The plan of a function, and all that it is called with."""
    graph, captured, *_ = jit(function).program_for(operands, {})
    graph = optimise(graph)
    return pipeline.plan(graph, machine), (*operands, *captured), graph


def fused(plan):
    """The kernels that keep the products of queries and keys to themselves."""
    own = [[row.name for row in step.kernel.private] for step in plan.steps]
    return sum("products" in names for names in own)


def check(function, *operands, tolerance=1e-12, launches=1, text=False, machine=SMALL):
    """One kernel, without memory of its own; verified, interpreted, and run as text."""
    plan, given, graph = planned(function, *operands, machine=machine)
    assert (fused(plan), len(plan.steps)) == (1, launches)
    with np.errstate(all="ignore"):
        (expected,) = by_numpy(graph, list(given))
    results = [interpreted(plan, given)]
    if text:
        results.append(emulated(plan, given, SMALL.grid))
    for (found,) in results:
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    return plan


# queries, keys, terms, columns: of one tile, of more, and on both sides of their edges
SIZES = [(4, 17, 17, 4), (3, 18, 18, 3), (5, 19, 17, 9), (8, 20, 18, 8), (9, 33, 19, 5)]


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize(("queries", "keys", "terms", "columns"), SIZES)
def test_all_sizes(queries, keys, terms, columns):
    text = queries < 8
    check(attend, drawn(queries, terms), drawn(keys, terms), drawn(keys, columns), text=text)


@pytest.mark.full
def test_weights_that_are_divided_apart():
    again = target(SMALL, recomputation={"rounds": 2})
    plan, given, graph = planned(attend, drawn(5, 17), drawn(18, 17), drawn(18, 9), machine=again)
    assert fused(plan) == 1
    (found,) = interpreted(plan, given, 3)
    np.testing.assert_allclose(found, by_numpy(graph, list(given))[0], rtol=1e-12)


def two(q, k, v):
    return drawn(2, q, 17), drawn(2, k, 17), drawn(2, k, v)


def causal(q, k, v):
    mask = np.tril(np.ones((q.shape[-2], k.shape[-2]), bool))
    return weights(np.where(mask, scores(q, k), -np.inf)) @ v


def by_position(q, k, v):
    here, there = np.arange(q.shape[-2])[:, None], np.arange(k.shape[-2])
    return weights(scores(q, k) - 0.3 * np.abs(here - there)) @ v


def divided_late(q, k, v):
    s = scores(q, k)
    powers = np.exp(s - s.max(axis=-1, keepdims=True))
    return (powers @ v) / powers.sum(axis=-1, keepdims=True)


def heads(q, k, v):
    s = np.einsum("bqhd,bkhd->bhqk", q, k) / 4
    return np.einsum("bhqk,bkhd->bqhd", weights(s), v)


def grouped(q, k, v):
    s = np.einsum("bgrqd,bgkd->bgrqk", q, k) / 4
    return np.einsum("bgrqk,bgkd->bgrqd", weights(s), v)


FORMS = {
    "batch": (attend, *two(5, 18, 4)),
    "divided late": (divided_late, *two(5, 18, 4)),
    "scipy's softmax": (lambda q, k, v: softmax(scores(q, k), axis=-1) @ v, *two(5, 18, 4)),
    "scaled before": (
        lambda q, k, v: weights((q / 4) @ np.swapaxes(k * 2, -1, -2)) @ (v + 1), *two(5, 18, 4),
    ),
    "causal": (causal, *two(17, 17, 3)),
    "positions": (by_position, *two(5, 18, 4)),
    "bias": (lambda q, k, v, b: weights(scores(q, k) + b) @ v, *two(5, 18, 4), drawn(2, 1, 18)),
    "soft cap": (lambda q, k, v: weights(np.tanh(scores(q, k) / 5) * 5) @ v, *two(5, 18, 4)),
    "dropout": (
        lambda q, k, v, keep: (weights(scores(q, k)) * keep / 0.9) @ v,
        *two(5, 18, 4), drawn(2, 5, 18) > 0,
    ),
    "short rows": (
        lambda q, k, v, b: weights(scores(q, k) + b) @ v,
        drawn(5, 8), drawn(18, 8), drawn(18, 4), drawn(5, 18),
    ),
    "heads": (heads, drawn(1, 5, 2, 17), drawn(1, 18, 2, 17), drawn(1, 18, 2, 4)),
    "groups of heads": (grouped, drawn(1, 2, 3, 3, 17), drawn(1, 2, 18, 17), drawn(1, 2, 18, 4)),
    "mapped": (vmap(vmap(attend)), drawn(2, 2, 4, 17), drawn(2, 2, 18, 17), drawn(2, 2, 18, 3)),
    "common keys": (
        vmap(attend, in_axes=(0, None, None)), drawn(2, 5, 17), drawn(18, 17), drawn(18, 4),
    ),
    "distances": (
        lambda q, k, v: weights(-((q[:, None] - k[None]) ** 2).sum(-1)) @ v,
        drawn(5, 17), drawn(18, 17), drawn(18, 4),
    ),
    "added to": (lambda q, k, v, x: x + 2 * attend(q, k, v), *two(5, 18, 4), drawn(2, 5, 4)),
    "transposed": (lambda q, k, v: np.swapaxes(attend(q, k, v), 0, 1), *two(5, 18, 4)),
}  # fmt: skip

PRINTED = {"divided late", "bias", "mapped"}
"""Forms whose text is run, too."""


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    assert check(*FORMS[form], text=form in PRINTED).arena == 0


@pytest.mark.full
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float16, 4e-3)])
@pytest.mark.parametrize("function", [attend, divided_late])
def test_narrow_floats(function, dtype, tolerance):
    operands = [x.astype(dtype) for x in two(5, 18, 4)]
    plan = check(function, *operands, tolerance=tolerance, text=dtype == np.float16)
    sums = [row for row in plan.steps[0].kernel.private if row.name == "sums"]
    assert [row.dtype for row in sums] == [np.float32]


@pytest.mark.full
def test_scores_of_a_wider_dtype():
    q, k, v = (x.astype(np.float32) for x in two(5, 18, 4))
    check(lambda q, k, v, b: weights(scores(q, k) + b) @ v, q, k, v, drawn(5, 18), tolerance=1e-6)


SPECIAL = {
    "some masked": lambda s: np.where(np.arange(s.shape[-1]) % 5 == 3, s, -np.inf),
    "first tiles masked": lambda s: np.where(np.arange(s.shape[-1]) > 12, s, -np.inf),
    "last tiles masked": lambda s: np.where(np.arange(s.shape[-1]) < 3, s, -np.inf),
    "all masked": lambda s: np.full_like(s, -np.inf),
    "a row masked": lambda s: np.where(np.arange(5)[:, None] == 2, -np.inf, s),
    "an infinity": lambda s: np.where(np.arange(s.shape[-1]) == 6, np.inf, s),
    "a nan": lambda s: np.where(np.arange(s.shape[-1]) == 6, np.nan, s),
    "growing": lambda s: s + 500.0 * np.arange(s.shape[-1]),
    "falling": lambda s: s - 500.0 * np.arange(s.shape[-1]),
    "low": lambda s: s - 5000.0,
    "huge": lambda s: s * 1e300,
}


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("special", "divided"),
    [*((name, True) for name in SPECIAL), ("all masked", False), ("first tiles masked", False)],
)
def test_infinities_and_nans_are_where_they_are_with_numpy(special, divided):
    q, k, v = drawn(5, 17), drawn(18, 17), drawn(18, 4)
    bias = SPECIAL[special](np.zeros((5, 18))) if special != "huge" else np.zeros((5, 18))
    factor = 1e300 if special == "huge" else 1.0

    def function(q, k, v, bias):
        s = scores(q, k) * factor + bias
        powers = np.exp(s - s.max(axis=-1, keepdims=True))
        total = powers.sum(-1, keepdims=True)
        return (powers / total) @ v if divided else (powers @ v) / (1 + total)

    check(function, q, k, v, bias, text=special == "first tiles masked")


@pytest.mark.full
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_special_values_stay_in_their_columns(value):
    q, k, v = drawn(5, 17), drawn(18, 17), drawn(18, 4)
    v[17, 2] = value
    check(attend, q, k, v)


@pytest.mark.full
def test_queries_of_which_all_is_masked_by_a_softmax_that_asks():
    def guarded(q, k, v, mask):
        s = np.where(mask, scores(q, k), -np.inf)
        largest = s.max(axis=-1, keepdims=True)
        powers = np.exp(s - np.where(np.isfinite(largest), largest, 0))
        return (powers @ v) / np.maximum(powers.sum(axis=-1, keepdims=True), 1e-30)

    mask = drawn(5, 18) > 0
    mask[1] = False
    check(guarded, drawn(5, 17), drawn(18, 17), drawn(18, 4), mask)


@pytest.mark.full
def test_what_others_read_of_queries_is_stored_by_the_kernel():
    def with_logarithm(q, k, v):
        s = scores(q, k)
        largest = s.max(axis=-1, keepdims=True)
        powers = np.exp(s - largest)
        total = powers.sum(axis=-1, keepdims=True)
        return (powers / total) @ v, largest, np.log(total) + largest

    operands = drawn(2, 5, 17), drawn(2, 18, 17), drawn(2, 18, 4)
    operands[0][1, 2] = -np.inf
    plan, given, graph = planned(with_logarithm, *operands)
    assert (fused(plan), len(plan.steps)) == (1, 2)
    with np.errstate(all="ignore"):
        expected = by_numpy(graph, list(given))
        found = interpreted(plan, given)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


# -- what is something else -----------------------------------------------------------------------


def kept_scores(q, k, v):
    s = scores(q, k)
    return s, weights(s) @ v


def another_largest(q, k, v):
    s = scores(q, k)
    powers = np.exp(s - np.abs(s).max(axis=-1, keepdims=True))
    return (powers / powers.sum(axis=-1, keepdims=True)) @ v


def of_columns(q, k, v):
    s = scores(q, k)
    powers = np.exp(s - s.max(axis=-2, keepdims=True))
    return powers @ v


def some_weights(q, k, v):
    s = scores(q, k)
    powers = np.exp(s - s.max(axis=-1, keepdims=True))
    return (powers @ v) / powers[:, :17].sum(axis=-1, keepdims=True)


def some_values(q, k, v):
    return weights(scores(q, k))[:, :17] @ v[:17]


OTHERS = {
    "some weights": some_weights,
    "some values": some_values,
    "kept weights": lambda q, k, v: (weights(scores(q, k)), attend(q, k, v)),
    "kept scores": kept_scores,
    "another largest": another_largest,
    "along queries": of_columns,
    "a power of two": lambda q, k, v: np.exp2(scores(q, k) - scores(q, k).max(-1)[:, None]) @ v,
    "not divided": lambda q, k, v: np.exp(scores(q, k) - scores(q, k).max(-1)[:, None]) @ v,
    "few queries": lambda q, k, v: attend(q[:2], k, v),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_have_the_kernels_that_they_had(name):
    operands = drawn(19, 17), drawn(18, 17), drawn(18, 4)
    plan, *_ = planned(OTHERS[name], *operands)
    assert fused(plan) == 0


@pytest.mark.full
def test_a_bias_that_others_read_too_is_read_from_memory():
    def both(q, k, v, b):
        bias = np.exp(b @ np.swapaxes(b, 0, 1))
        first = weights(scores(q, k) + bias) @ v
        return weights(scores(first, k) - bias) @ v

    q, k, v, b = drawn(17, 17), drawn(17, 17), drawn(17, 17), drawn(17, 17)
    plan, given, graph = planned(both, q, k, v, b)
    assert fused(plan) == 2
    found = interpreted(plan, given, 2)
    np.testing.assert_allclose(found[0], by_numpy(graph, list(given))[0], rtol=1e-9)


# -- kernels for real machines --------------------------------------------------------------------


def floats(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


def compiled(function, *operands, architecture="sm_90"):
    """The one kernel of a function, in registers."""
    plan, *_ = planned(function, *operands, machine=CUDA)
    (step,) = plan.steps
    return in_registers(step.kernel, architecture=architecture), step.kernel


def operands(terms, dtype=np.float32, length=1024):
    return [floats(2, 8, length, terms, dtype=dtype) for _ in range(3)]


@pytest.mark.full
@needs_compiler
def test_products_and_sums_are_registers():
    made, kernel = compiled(attend, *operands(64))
    assert kernel.team == 256
    assert "fma.rn.f32" in made.ptx
    assert ".f64" not in made.ptx
    assert "ld.shared.v4.f32" in made.ptx
    assert made.resources.registers <= 88


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize(
    ("function", "terms", "dtype", "length"),
    [
        (causal, 64, np.float32, 1025),
        (attend, 128, np.float32, 1025),
        (attend, 64, np.float64, 1024),
        (divided_late, 64, np.float16, 1000),
    ],
)
def test_no_tile_spills(function, terms, dtype, length, architecture):
    compiled(function, *operands(terms, dtype, length), architecture=architecture)


def test_a_kernel_serves_many_sizes():
    def text(length):
        plan, *_ = planned(attend, *operands(64, length=length), machine=CUDA)
        return emit(plan.steps[0].kernel, CUDA.grid)

    assert text(1025) == text(1033)


def test_each_operand_is_read_from_memory_by_its_tiles_alone():
    q, k, v = operands(64)
    cost = jit(attend).lower(q, k, v, device="cuda").cost()
    (nest,) = cost.nests
    assert nest.bytes_written == q.nbytes


@pytest.mark.parametrize("tile", CUDA.grid.attention_tiles)
def test_tiles_fit_the_machine(tile):
    grid = CUDA.grid
    assert grid.warp <= tile.threads <= grid.largest_team
    assert tile.keys % tile.depth == 0
    assert tile.depth % tile.thread_keys == 0
    assert tile.queries * tile.depth % tile.threads == 0
    assert tile.keys * tile.depth % tile.threads == 0
    assert tile.bytes(64, 64, 4) <= grid.shared
