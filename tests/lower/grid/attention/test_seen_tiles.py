"""Attention skips tiles of keys that the mask hides from all queries of a team, bit for bit."""

import numpy as np
import pytest

from functrans.emit.cuda.kernel import emit
from functrans.ir.evaluate import evaluate as by_numpy
from functrans.loop.grid import AttentionTile
from functrans.loop.statements import If
from functrans.loop.walk import walk
from functrans.scipy.special import softmax
from tests.emit.cuda.programs import emulated, interpreted
from tests.loop.evaluate_grid import _Thread
from tests.lower.grid.attention.test_softmax_kernel import (
    SMALL,
    attend,
    drawn,
    fused,
    planned,
    scores,
    weights,
)
from tests.targets import target

WARPS = target(
    SMALL,
    grid={
        "warp": 32,
        "block": 64,
        "largest_team": 64,
        "attention_tiles": (AttentionTile(16, 16, 4, 2, 2),),
    },
)
"""A GPU whose teams are two warps: what they see is combined."""

TERMS, COLUMNS = 5, 3


def positions(queries, keys):
    return np.arange(queries)[:, None], np.arange(keys)


def causal(queries, keys):
    here, there = positions(queries, keys)
    return here >= there


def window(queries, keys):
    here, there = positions(queries, keys)
    return (here >= there) & (here - there < 6)


def padding(queries, keys):
    """Nothing but padding in the last queries, and in the last keys."""
    here, there = positions(queries, keys)
    return (here < queries - 5) & (there < keys // 2)


def scattered(queries, keys):
    return np.random.default_rng(0).random((queries, keys)) < 0.05


def nothing(queries, keys):
    return np.zeros((queries, keys), bool)


def masked(q, k, v, mask):
    return weights(np.where(mask, scores(q, k), -np.inf)) @ v


def operands(queries, keys, *batch, dtype=np.float64):
    rows, terms, columns = (*batch, queries), TERMS, COLUMNS
    q, k, v = (*rows, terms), (*batch, keys, terms), (*batch, keys, columns)
    return [drawn(*shape, dtype=dtype) for shape in (q, k, v)]


def is_narrowed(plan):
    return any(isinstance(each, If) for each in conditions(plan))


def conditions(plan):
    """What is done if a tile is seen."""
    bodies = [step.kernel.body for step in plan.steps]
    found = [each for body in bodies for each in walk(body) if isinstance(each, If)]
    return [each for each in found if _is_seen(each.condition)]


def _is_seen(condition):
    """Whether it decides on a tile: its turn is the first one, if any thread sees a pair of it."""
    name = condition.args[1] if condition.op == "where" else condition
    return name.op == "local" and name.attribute[0] == "is_seen"


@pytest.fixture
def tiles(monkeypatch):
    """Of the tiles that teams have come to, which ones they have gone through."""
    seen, value = [], _Thread.value

    def asked(self, expression):
        found = value(self, expression)
        if _is_seen(expression):
            seen.append(found)
        return found

    monkeypatch.setattr(_Thread, "value", asked)
    return seen


def check(function, *operands, machine=SMALL, text=False, tolerance=1e-12, narrowed=True):
    """The numbers of NumPy, of the plan's interpreter, or of the kernel's text."""
    plan, given, graph = planned(function, *operands, machine=machine)
    assert (fused(plan), is_narrowed(plan)) == (1, narrowed)
    with np.errstate(all="ignore"):
        (expected,) = by_numpy(graph, list(given))
        (found,) = emulated(plan, given, machine.grid) if text else interpreted(plan, given)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    return expected


MASKS = [causal, window, padding, scattered, nothing]


@pytest.mark.dear
@pytest.mark.few(2)
@pytest.mark.parametrize("sizes", [(17, 17), (9, 33), (33, 18), (3, 20)])
@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask, sizes):
    check(masked, *operands(*sizes), mask(*sizes))


@pytest.mark.full
@pytest.mark.parametrize("length", [64, 65, pytest.param(129, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mask", MASKS)
def test_texts(mask, length):
    given = operands(length, length)
    check(masked, *given, mask(length, length), machine=WARPS, text=True)
    given[2][length - 2, 1] = np.inf
    check(masked, *given, mask(length, length), machine=WARPS, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("length", [64, 65, 129])
@pytest.mark.parametrize("mask", [causal, window])
def test_long_rows(mask, length):
    check(masked, *operands(length, length), mask(length, length))


@pytest.mark.dear
@pytest.mark.parametrize(
    ("mask", "visited"), [(causal, 1 + 2 + 3 + 4 + 5), (window, 1 + 2 + 3 + 3 + 3), (nothing, 0)]
)
def test_tiles_that_nobody_sees_are_left_out(tiles, mask, visited):
    check(masked, *operands(20, 20), mask(20, 20))
    assert (sum(tiles), len(tiles)) == (4 * visited, 4 * 25)


FORMS = {
    "batch": (masked, *operands(9, 17, 2), causal(9, 17)),
    "a mask each": (masked, *operands(9, 17, 2), np.stack([causal(9, 17), window(9, 17)])),
    "of keys": (masked, *operands(9, 17, 2), np.arange(17) < np.array([[[3]], [[9]]])),
    "the other side": (
        lambda q, k, v, mask: weights(np.where(mask, -np.inf, scores(q, k))) @ v,
        *operands(9, 17), ~causal(9, 17),
    ),
    "two masks": (
        lambda q, k, v, mask, other: weights(
            np.where(mask, np.where(other, scores(q, k), -np.inf), -np.inf)
        ) @ v,
        *operands(9, 17), causal(9, 17), window(9, 17),
    ),
    "positions": (
        lambda q, k, v, here, there: masked(q, k, v, here[:, None] >= there),
        *operands(9, 17), np.arange(9), np.arange(17),
    ),
    "scipy's softmax": (
        lambda q, k, v, mask: softmax(np.where(mask, scores(q, k), -np.inf), axis=-1) @ v,
        *operands(9, 17), padding(9, 17),
    ),
    "biased": (
        lambda q, k, v, mask, b: weights(np.where(mask, scores(q, k) + b, -np.inf)) @ v,
        *operands(9, 17), causal(9, 17), drawn(9, 17),
    ),
    "groups": (
        lambda q, k, v, mask: np.einsum(
            "bgrqk,bgkd->bgrqd",
            weights(np.where(mask, np.einsum("bgrqd,bgkd->bgrqk", q, k) / 4, -np.inf)),
            v,
        ),
        drawn(1, 2, 3, 7, TERMS), *operands(7, 17, 1, 2)[1:], causal(7, 17),
    ),
}  # fmt: skip


@pytest.mark.dear
@pytest.mark.few(2)
@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    function, q, k, v, *others = FORMS[form]
    spoilt = v.copy()
    spoilt[..., -2, 1] = np.inf
    check(function, q, k, v, *others)
    check(function, q, k, spoilt, *others)


@pytest.mark.dear
@pytest.mark.few(2)
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("mask", [causal, padding])
def test_special_operands(mask, number, value):
    for place in (0, 5, 16):
        given = operands(17, 17)
        given[number][place, 1] = value
        check(masked, *given, mask(17, 17))


@pytest.mark.dear
def test_values_that_are_not_finite_are_nans_where_they_are_masked(tiles):
    q, k, v = operands(20, 20)
    v[13, 1] = np.inf
    found = check(masked, q, k, v, causal(20, 20))
    assert np.isnan(found[:13, 1]).all()
    assert np.isfinite(found[:, 0]).all()
    # teams that skip the tile of that value process what they have skipped in a second turn
    assert sum(tiles) == 4 * (5 + 5 + 5 + 4 + 5)


@pytest.mark.dear
def test_keys_that_are_not_finite_are_hidden(tiles):
    q, k, v = operands(20, 20)
    k[13:] = np.nan
    found = check(masked, q, k, v, causal(20, 20))
    assert np.isfinite(found[:13]).all()
    assert sum(tiles) == 4 * 15


@pytest.mark.dear
def test_queries_that_see_nothing_are_nan():
    found = check(masked, *operands(17, 17), padding(17, 17))
    assert np.isnan(found[12:]).all()
    assert np.isfinite(found[:12]).all()


@pytest.mark.dear
def test_a_softmax_that_asks_for_its_largest():
    def guarded(q, k, v, mask):
        s = np.where(mask, scores(q, k), -np.inf)
        largest = s.max(axis=-1, keepdims=True)
        powers = np.exp(s - np.where(np.isfinite(largest), largest, 0))
        return (powers @ v) / np.maximum(powers.sum(axis=-1, keepdims=True), 1e-30)

    check(guarded, *operands(17, 17), padding(17, 17))


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float16, 4e-3)])
def test_narrow_floats(dtype, tolerance):
    given = operands(17, 17, dtype=dtype)
    check(masked, *given, causal(17, 17), tolerance=tolerance)
    given[2][15, 1] = np.inf
    check(masked, *given, causal(17, 17), tolerance=tolerance)


OTHERS = {
    "another number": lambda q, k, v, mask: weights(np.where(mask, scores(q, k), -1e9)) @ v,
    "added": lambda q, k, v, mask: weights(scores(q, k) + np.where(mask, 0, -np.inf)) @ v,
    "dropout": lambda q, k, v, mask: (
        weights(np.where(mask, scores(q, k), -np.inf)) * (k @ k.T)[:9] @ v
    ),
    "of scores": lambda q, k, v, mask: weights(
        np.where(scores(q, k) > 0, scores(q, k), -np.inf)
    ) @ v,
    "no mask": lambda q, k, v, mask: attend(q, k, v),
}  # fmt: skip


@pytest.mark.dear
@pytest.mark.parametrize("name", OTHERS)
def test_others_go_over_all_tiles(name):
    check(OTHERS[name], *operands(9, 17), causal(9, 17), narrowed=False)


@pytest.mark.dear
def test_few_tiles_are_gone_over():
    machine = target(SMALL, grid={"fewest_tiles": 6})
    check(masked, *operands(9, 20), causal(9, 20), machine=machine, narrowed=False)


def test_the_kernel_without_a_mask_is_what_it_was():
    def text(fewest):
        machine = target(SMALL, grid={"fewest_tiles": fewest})
        plan, *_ = planned(attend, *operands(17, 17), machine=machine)
        return emit(plan.steps[0].kernel, SMALL.grid)

    assert text(1) == text(1000)
