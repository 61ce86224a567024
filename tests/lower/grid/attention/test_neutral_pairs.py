"""Gradients of attention skip tiles that the mask excludes, if they contribute nothing."""

import numpy as np
import pytest

from functrans import grad
from functrans.ir.evaluate import evaluate as by_numpy
from functrans.scipy.special import softmax
from tests.emit.cuda.programs import emulated, interpreted
from tests.lower.grid.attention.test_seen_tiles import (
    MASKS,
    WARPS,
    causal,
    conditions,
    padding,
    tiles,
    window,
)
from tests.lower.grid.attention.test_softmax_kernel import (
    SMALL,
    drawn,
    fused,
    planned,
    scores,
    weights,
)
from tests.targets import target

__all__ = ["tiles"]


def all_tiles(machine):
    """The same machine, which looks at no mask."""
    return target(machine, grid={"fewest_tiles": 1 << 30})


def by_softmax(q, k, v, mask):
    return softmax(np.where(mask, scores(q, k), -np.inf), axis=-1) @ v


def by_hand(q, k, v, mask):
    return weights(np.where(mask, scores(q, k), -np.inf)) @ v


def gradient(function):
    def loss(q, k, v, cotangent, *others):
        return np.sum(function(q, k, v, *others) * cotangent)

    return grad(loss, (0, 1, 2))


def arrays(queries, keys, dtype=np.float64):
    shapes = (queries, 8), (keys, 8), (keys, 3), (queries, 3)
    return [drawn(*shape, dtype=dtype) for shape in shapes]


def check_of_tiles(function, *given, machine=SMALL, text=False):
    """What all tiles give, to the bit: infinities and NaNs, too."""
    results = []
    for each in (machine, all_tiles(machine)):
        plan, passed, graph = planned(gradient(function), *given, machine=each)
        assert fused(plan) > 3
        assert len(conditions(plan)) == (fused(plan) if each is machine else 0)
        with np.errstate(all="ignore"):
            results.append(emulated(plan, passed, each.grid) if text else interpreted(plan, passed))
            expected = by_numpy(graph, list(passed))
    for found, whole in zip(*results, strict=True):
        np.testing.assert_array_equal(found, whole)
    return zip(results[0], expected, strict=True)


def check(function, *given, tolerance=1e-10):
    """What all tiles give, and NumPy."""
    for found, expected in check_of_tiles(function, *given):
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.full
@pytest.mark.parametrize("sizes", [(17, 18), (18, 21), (22, 17)])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("function", [by_softmax, by_hand])
def test_masks(function, mask, sizes):
    check(function, *arrays(*sizes), mask(*sizes))


@pytest.mark.dear
@pytest.mark.few(1)
@pytest.mark.parametrize(("mask", "visited"), [(causal, 15), (window, 12)])
def test_tiles_that_nobody_sees_are_left_out(tiles, mask, visited):
    plan, given, _ = planned(gradient(by_softmax), *arrays(20, 20), mask(20, 20))
    interpreted(plan, given)
    asked = 4 * fused(plan)
    assert (sum(tiles), len(tiles)) == (asked * visited, asked * 25)


SPECIAL = [np.inf, np.nan, 1e200]


@pytest.mark.full
@pytest.mark.parametrize("value", SPECIAL)
@pytest.mark.parametrize("number", [0, 1, 2, 3])
@pytest.mark.parametrize("mask", [causal, padding])
@pytest.mark.parametrize("function", [by_softmax, by_hand])
def test_special_operands(function, mask, number, value):
    for place in (1, 16):
        given = arrays(17, 17)
        given[number][place, 1] = value
        check_of_tiles(function, *given, mask(17, 17))


@pytest.mark.full
@pytest.mark.parametrize("function", [by_softmax, by_hand])
def test_texts(function):
    given = arrays(65, 65)
    check_of_tiles(function, *given, causal(65, 65), machine=WARPS, text=True)
    given[3][60, 1] = np.inf
    check_of_tiles(function, *given, causal(65, 65), machine=WARPS, text=True)


@pytest.mark.full
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-4), (np.float16, 2e-2)])
def test_narrow_floats(dtype, tolerance):
    check(by_softmax, *arrays(17, 17, dtype=dtype), causal(17, 17), tolerance=tolerance)


def test_dropout_is_no_mask():
    def dropped(q, k, v, keep):
        return np.where(keep, weights(scores(q, k)), 0) @ v

    plan, *_ = planned(gradient(dropped), *arrays(17, 18), causal(17, 18))
    assert not conditions(plan)
