"""Gradients of attention make scores and weights again: the numbers of NumPy, in any order."""

import numpy as np

from functrans import grad
from functrans.ir.evaluate import evaluate as by_numpy
from functrans.lower.verify import verify
from functrans.scipy.special import softmax
from tests.emit.cuda.programs import emulate_plan
from tests.loop.plans import evaluate_plan, shuffled
from tests.lower.grid.test_attention import (
    SMALL,
    planned,
    scores,
)


def loss(function):
    return lambda *operands: np.sum(function(*operands) ** 2)


def gradient(function, argnums=(0, 1, 2)):
    return grad(loss(function), argnums)


def of_scipy(q, k, v):
    return softmax(scores(q, k), axis=-1) @ v


def pairs_in_memory(plan, most):
    """The buffers of the arena that have more elements than the largest operand."""
    return [one for one in plan.offsets if one.count > most]


def check(function, *operands, tolerance=1e-10, text=False, machine=SMALL):
    """No array of pairs; verified, interpreted, and run as text; the plan."""
    plan, given, graph = planned(function, *operands, machine=machine)
    assert verify(plan) == 0
    with np.errstate(all="ignore"):
        expected = by_numpy(graph, list(given))
    results = [evaluate_plan(plan, given, shuffled(0))]
    if text:
        results.append(emulate_plan(plan, given, SMALL.grid))
    for found, status in results:
        assert status == 0
        for x, y in zip(found, expected, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
    return plan
