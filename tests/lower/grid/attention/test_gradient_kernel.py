"""Gradients of attention recompute scores and weights: NumPy's results, in any thread order."""

import numpy as np
import pytest

from functrans import checkpoint, grad, jit, jvp, value_and_grad, vjp, vmap
from functrans.ir.evaluate import evaluate as by_numpy
from functrans.lower.grid.target import CUDA
from functrans.scipy.special import logsumexp, softmax
from tests.emit.cuda.programs import emulated, in_registers, interpreted
from tests.emit.cuda.special import needs_compiler
from tests.lower.grid.attention.test_softmax_kernel import (
    SMALL,
    attend,
    drawn,
    grouped,
    planned,
    scores,
    weights,
)


def attention(q, k, v):
    return softmax(scores(q, k), axis=-1) @ v


def loss(function):
    return lambda *operands: np.sum(function(*operands) ** 2)


def gradient(function, argnums=(0, 1, 2)):
    return grad(loss(function), argnums)


def few(queries, keys, columns=3, terms=8, dtype=np.float64):
    shapes = (queries, terms), (keys, terms), (keys, columns)
    return [drawn(*shape, dtype=dtype) for shape in shapes]


def in_tiles(plan):
    """How many kernels make sums over pairs."""
    rows = [[row.name for row in step.kernel.scratch] for step in plan.steps]
    return sum("numbers" in names for names in rows)


def check(function, *operands, pairs=17 * 18, tolerance=1e-10, text=False):
    """Nothing in memory has so many elements; verified, interpreted, and run as text."""
    plan, given, graph = planned(function, *operands)
    assert in_tiles(plan) > 0
    assert all(one.count < pairs for one in plan.offsets)
    with np.errstate(all="ignore"):
        expected = by_numpy(graph, list(given))
        results = [interpreted(plan, given)]
        if text:
            results.append(emulated(plan, given, SMALL.grid))
    for found in results:
        for x, y in zip(found, expected, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
    return plan


slow = pytest.mark.slow
"""Threads are interpreted one by one, which takes seconds for a few hundred pairs."""


@pytest.mark.full
@pytest.mark.parametrize(
    ("queries", "keys", "columns", "terms"),
    [
        (17, 18, 3, 8),
        pytest.param(31, 33, 5, 17, marks=slow),
        pytest.param(33, 31, 4, 18, marks=slow),
        pytest.param(100, 17, 4, 8, marks=slow),
        pytest.param(19, 100, 5, 8, marks=slow),
        pytest.param(17, 300, 5, 8, marks=slow),
    ],
)
def test_all_sizes(queries, keys, columns, terms):
    operands = few(queries, keys, columns, terms)
    plan = check(gradient(attention), *operands, pairs=queries * keys, text=keys == 18)
    # the result with its statistics; sums of weights times cotangents; queries; keys and values
    assert len(plan.steps) == 4
    assert in_tiles(plan) == 3


def causal(q, k, v):
    mask = np.tril(np.ones((q.shape[-2], k.shape[-2]), bool))
    return softmax(np.where(mask, scores(q, k), -np.inf), axis=-1) @ v


def heads(q, k, v):
    s = np.einsum("bqhd,bkhd->bhqk", q, k) / 4
    return np.einsum("bhqk,bkhd->bqhd", softmax(s, axis=-1), v)


def divided_late(q, k, v):
    s = scores(q, k)
    powers = np.exp(s - s.max(axis=-1, keepdims=True))
    return (powers @ v) / powers.sum(axis=-1, keepdims=True)


def twice(q, k, v):
    return attention(np.tanh(attention(q, k, v) @ np.ones((3, 8)) / 9), k, v)


FORMS = {
    "by hand": (attend, *few(17, 18)),
    "heads": (heads, drawn(1, 17, 2, 8), drawn(1, 18, 2, 8), drawn(1, 18, 2, 3)),
    "scaled before": (
        lambda q, k, v: weights((q / 4) @ np.swapaxes(k * 2, -1, -2)) @ (v + 1), *few(17, 18),
    ),
    "divided late": (divided_late, *few(17, 18)),
    "causal": (causal, *few(18, 18)),
    "bias": (lambda q, k, v, b: weights(scores(q, k) + b) @ v, *few(17, 18), drawn(18)),
    "soft cap": (lambda q, k, v: weights(np.tanh(scores(q, k) / 5) * 5) @ v, *few(17, 18)),
    "dropout": (
        lambda q, k, v, keep: (softmax(scores(q, k), axis=-1) * keep / 0.9) @ v,
        *few(17, 18), drawn(17, 18) > 0,
    ),
    "groups of heads": (
        grouped, drawn(1, 2, 3, 6, 8), drawn(1, 2, 18, 8), drawn(1, 2, 18, 3),
    ),
    "mapped": (vmap(attention), drawn(2, 17, 8), drawn(2, 18, 8), drawn(2, 18, 3)),
    "common keys": (
        vmap(attention, in_axes=(0, None, None)), drawn(2, 17, 8), drawn(18, 8), drawn(18, 3),
    ),
    "added to": (lambda q, k, v, x: x + 2 * attention(q, k, v), *few(17, 18), drawn(17, 3)),
    "transposed": (lambda q, k, v: np.swapaxes(attention(q, k, v), 0, 1), *few(17, 18)),
    "two layers": (twice, *few(17, 18)),
}  # fmt: skip

QUICK = {"by hand"}


@pytest.mark.full
@pytest.mark.parametrize("form", [x if x in QUICK else pytest.param(x, marks=slow) for x in FORMS])
def test_forms(form):
    check(gradient(FORMS[form][0]), *FORMS[form][1:])


@slow
def test_large_tiles():
    operands = few(20, 70, 18, 18, dtype=np.float32)
    plan, given, graph = planned(gradient(attend), *operands, machine=CUDA)
    assert in_tiles(plan) == 3
    found = interpreted(plan, given)
    for x, y in zip(found, by_numpy(graph, list(given)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)


def with_pullback(q, k, v, cotangent):
    out, pull = vjp(attention, q, k, v)
    return out, pull(cotangent)


def of_bias_as_well(q, k, v, bias):
    own = np.sin(bias) * np.cos(bias + 1)
    made = gradient(learnt_bias)(q, k, v, own)
    return *made, own.sum(axis=1), np.tanh(own @ v)


def log_likelihood(q, k):
    return np.sum(logsumexp(scores(q, k), axis=-1) ** 2)


def learnt_bias(q, k, v, bias):
    return softmax(scores(q, k) + bias, axis=-1) @ v


DERIVATIVES = {
    "checkpoint": (gradient(checkpoint(attention)), *few(17, 18)),
    "value and gradient": (value_and_grad(loss(attention), (0, 1, 2)), *few(17, 18)),
    "pullback": (with_pullback, *few(17, 18), drawn(17, 3)),
    "of queries": (gradient(attention, 0), *few(17, 18)),
    "of keys": (gradient(attention, 1), *few(17, 18)),
    "of values": (gradient(attention, 2), *few(17, 18)),
    "bias of keys": (gradient(learnt_bias, (0, 1, 2, 3)), *few(17, 18), drawn(18)),
    "sums without products": (of_bias_as_well, *few(17, 18), drawn(17, 18)),
    "logsumexp": (grad(log_likelihood, (0, 1)), *few(17, 18)[:2]),
    "forward": (lambda *x: jvp(attention, x[:3], x[3:]), *few(17, 18), *few(17, 18)),
    "of a plain sum": (grad(lambda *x: np.sum(attention(*x) * 3), (0, 1, 2)), *few(17, 18)),
    "each sample": (vmap(gradient(attention)), *(drawn(2, *x.shape) for x in few(17, 18))),
}


@pytest.mark.full
@pytest.mark.parametrize(
    "name", [x if x == "checkpoint" else pytest.param(x, marks=slow) for x in DERIVATIVES]
)
def test_derivatives(name):
    check(*DERIVATIVES[name])


@pytest.mark.full
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float16, 2e-2), pytest.param(np.float32, 1e-4, marks=slow)]
)
def test_narrow_floats(dtype, tolerance):
    plan = check(gradient(attention), *few(17, 18, dtype=dtype), tolerance=tolerance)
    sums = [row for step in plan.steps for row in step.kernel.private if row.name == "sums"]
    assert {row.dtype for row in sums} == {np.dtype(np.float32)}


ROWS, KEYS = np.arange(17)[:, None], np.arange(18)

SPECIAL = {
    "a row masked": np.where(ROWS == 2, -np.inf, 0.0 * KEYS),
    "first tiles masked": np.where(KEYS > 12, 0, -np.inf + 0.0 * ROWS),
    "last tiles masked": np.where(KEYS < 3, 0, -np.inf + 0.0 * ROWS),
    "all masked": np.full((17, 18), -np.inf),
    "an infinity": np.where((KEYS == 6) & (ROWS == 3), np.inf, 0.0),
    "a nan": np.where((KEYS == 17) & (ROWS == 3), np.nan, 0.0),
    "growing": 500.0 * KEYS + 0.0 * ROWS,
    "low": np.full((17, 18), -5000.0),
}


@pytest.mark.full
@pytest.mark.parametrize(
    "special", [x if x == "a row masked" else pytest.param(x, marks=slow) for x in SPECIAL]
)
@pytest.mark.parametrize("soft", [softmax, pytest.param(lambda s, axis: weights(s), marks=slow)])
def test_infinities_and_nans_are_where_they_are_with_numpy(special, soft):
    def function(q, k, v, bias):
        return soft(scores(q, k) + bias, axis=-1) @ v

    check(gradient(function), *few(17, 18), SPECIAL[special])


@slow
@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_special_operands(value, number):
    operands = few(17, 18)
    operands[number][-1, 2] = value
    check(gradient(attention), *operands)


# -- what is something else -----------------------------------------------------------------------


def with_distances(q, k, v):
    return weights(-((q[:, None] - k[None]) ** 2).sum(-1)) @ v


OTHERS = {
    "few queries": (gradient(attention), *few(16, 18)),
    "bias of pairs": (gradient(learnt_bias, (0, 3)), *few(17, 18), drawn(17, 18)),
    "weights are kept": (
        lambda q, k, v: (softmax(scores(q, k), axis=-1), gradient(attention)(q, k, v)),
        *few(17, 18),
    ),
    "two softmaxes": (
        gradient(lambda q, k, v: weights(scores(q, k)) @ v + weights(-scores(q, k)) @ v),
        *few(17, 18),
    ),
    "distances": (gradient(with_distances), *few(17, 18)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_have_the_kernels_that_they_had(name):
    plan, *_ = planned(*OTHERS[name])
    assert in_tiles(plan) == 0


@pytest.mark.full
@pytest.mark.parametrize("form", [weights, lambda x: softmax(x, axis=-1)], ids=["max", "softmax"])
def test_scores_that_are_sums_of_products(form):
    """A subtracted maximum has no slope, for which the scores would be computed once more."""

    def by_slope(q, k, v, slope):
        here, there = np.arange(17.0)[:, None], np.arange(18.0)
        return form(scores(q, k) - slope * (here - there)) @ v

    operands = *few(17, 18), 0.3
    plan, *_ = planned(gradient(by_slope), *operands)
    assert in_tiles(plan) == 3
    check(gradient(by_slope), *operands)


# -- kernels for real machines --------------------------------------------------------------------


def large(terms, dtype=np.float32, length=1024):
    return [np.ones((8, 16, length, terms), dtype) for _ in range(3)]


def compiled(function, *operands, architecture="sm_90", stack=0):
    """The resources of all kernels of a function, which have sums and products in registers."""
    plan, *_ = planned(function, *operands, machine=CUDA)
    assert in_tiles(plan) > 0
    return [in_registers(kernel, architecture, stack) for kernel in plan.kernels]


@pytest.mark.full
@needs_compiler
def test_products_and_sums_are_registers():
    found = compiled(gradient(attention), *large(64))
    assert len(found) == 4
    for each in found:
        assert ".f64" not in each.ptx
        assert "ld.shared.v4.f32" in each.ptx
        assert each.resources.registers <= 120


@needs_compiler
@slow
@pytest.mark.parametrize(
    ("function", "terms", "dtype", "length", "architecture"),
    [
        (causal, 64, np.float32, 1025, "sm_80"),
        (causal, 64, np.float32, 1025, "sm_90"),
        (causal, 64, np.float32, 1025, "sm_100"),
        (attention, 128, np.float32, 1025, "sm_90"),
        (attention, 64, np.float64, 1024, "sm_90"),
        (attend, 64, np.float16, 1000, "sm_80"),
        (attend, 64, np.float16, 1000, "sm_90"),
    ],
)
def test_no_tile_spills(function, terms, dtype, length, architecture):
    operands = [x[:1] for x in large(terms, dtype, length)]
    stack = 8 if architecture == "sm_100" else 0  # stored and read by one instruction each
    compiled(gradient(function), *operands, architecture=architecture, stack=stack)


@pytest.mark.full
def test_memory_does_not_grow_with_the_square_of_the_length():
    operands = large(64)
    cost = jit(gradient(attention)).lower(*operands, device="cuda").cost()
    assert len(cost.nests) == 4
    assert cost.temporary_bytes < 1.1 * operands[0].nbytes
    assert sum(nest.bytes_written for nest in cost.nests) < 4.1 * operands[0].nbytes
