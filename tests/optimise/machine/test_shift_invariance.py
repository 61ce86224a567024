"""No gradient through a maximum that is subtracted for the sake of range only."""

import numpy as np
import pytest

from functrans import grad, jit
from functrans.optimise import optimise
from functrans.optimise.machine.shift_invariance import leave_out_shifts
from tests.lower.by_hand import done_by
from tests.optimise.machine.rewrites import names, rewritten, stays

RNG = np.random.default_rng(0)
X, W = RNG.standard_normal((2, 3, 5, 5))


def softmax(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def logsumexp(x, axis=-1):
    largest = np.max(x, axis)
    return np.log(np.sum(np.exp(x - np.expand_dims(largest, axis)), axis)) + largest


def log_softmax(x):
    z = x - np.max(x, -1, keepdims=True)
    return z - np.log(np.sum(np.exp(z), -1, keepdims=True))


def shifted(x):
    return np.exp(x - np.max(x, -1, keepdims=True))


def softmin(x):
    e = np.exp(np.min(x, -1, keepdims=True) - x)
    return e / np.sum(e, -1, keepdims=True)


def divided(x, y):
    return x / np.sum(x, y, keepdims=True)


INVARIANT = {
    "softmax": lambda x, w: np.sum(softmax(x) * w),
    "softmax along columns": lambda x, w: np.sum(softmax(x, -2) * w),
    "softmax of all": lambda x, w: np.sum(softmax(x, (0, 1, 2)) * w),
    "softmax of matrices": lambda x, w: np.sum(softmax(x, (1, 2)) * w),
    "softmax, squared": lambda x, w: np.sum(softmax(x) ** 2 * w),
    "softmax at a temperature": lambda x, w: np.sum(softmax(x * 0.3) * w),
    "softmin": lambda x, w: np.sum(softmin(x) * w),
    "logsumexp": lambda x, w: np.sum(logsumexp(x) * w[..., 0]),
    "logsumexp along columns": lambda x, w: np.sum(logsumexp(x, 1) * w[:, 0]),
    "cross-entropy": lambda x, w: np.sum(log_softmax(x) * w),
    "cross-entropy of classes": lambda x, w: (
        -np.mean(log_softmax(x[0])[np.arange(5), np.array([0, 3, 1, 1, 4])])
    ),
    "attention": lambda x, w: np.sum((softmax(x @ np.swapaxes(w, 1, 2)) @ w) ** 2),
}

VARIANT = {
    "differences": lambda x, w: np.sum((x - np.max(x, -1, keepdims=True)) * w),
    "exponentials": lambda x, w: np.sum(shifted(x) * w),
    "logsumexp without its maximum": lambda x, w: np.sum(
        np.log(np.sum(shifted(x), -1)) * w[..., 0]
    ),
    "divided along the other axis": lambda x, w: np.sum(divided(shifted(x), 1) * w),
    "divided by more": lambda x, w: np.sum(
        (lambda e: e / (1 + np.sum(e, -1, keepdims=True)))(shifted(x)) * w
    ),
}


def gradient(function):
    return optimise(jit(grad(function)).lower(X, W).graph(optimised=False))


@pytest.mark.parametrize("name", INVARIANT)
def test_the_largest_elements_are_not_looked_for(name):
    before = gradient(INVARIANT[name])
    assert "equal" in names(before)
    assert "equal" not in names(rewritten(leave_out_shifts, before))


@pytest.mark.parametrize("name", VARIANT)
def test_a_gradient_that_does_not_cancel_stays(name):
    before = gradient(VARIANT[name])
    assert done_by(leave_out_shifts, before) == before


@pytest.mark.parametrize("name", INVARIANT)
def test_ties_and_derivatives_of_higher_order(name):
    function = INVARIANT[name]
    tied = np.round(X)

    def slope(x, w):
        return np.sum(grad(function)(x, w) * w)

    for derivative in (grad(function), grad(slope)):
        np.testing.assert_allclose(
            jit(derivative)(tied, W), derivative(tied, W), rtol=1e-10, atol=1e-12
        )


def test_rows_without_numbers_are_nan_as_before():
    masked = np.where(W < -0.5, -np.inf, X)
    masked[1, 2] = -np.inf
    derivative = grad(INVARIANT["softmax"])
    with np.errstate(invalid="ignore"):
        wanted = derivative(masked, W)
    assert np.isnan(wanted[1, 2]).all() and np.isfinite(wanted[0]).all()
    np.testing.assert_allclose(jit(derivative)(masked, W), wanted, rtol=1e-10, atol=1e-12)


def test_what_repeats_along_another_axis_is_no_factor_of_a_row():
    # the sum of `d` over rows is not a multiple of `b`, whose elements are those of a row
    stays(
        leave_out_shifts,
        """{ x:f64[4,4], b:f64[4], m:bool[4,4] ->
        c = reshape[shape=(1,4)] b
        d = broadcast_to[shape=(4,4)] c
        e = reduce_sum[axes=(1,)] d
        f = multiply b 4.0
        g = subtract e f
        h = reshape[shape=(4,1)] g
        i = broadcast_to[shape=(4,4)] h
        j = select m i 0.0
        k = add x j
        return k }""",
    )


def test_numbers_that_are_not_finite_do_not_cancel():
    stays(
        leave_out_shifts,
        """{ x:f64[4,4], b:f64[4,1], m:bool[4,4] ->
        c = multiply b nan
        i = broadcast_to[shape=(4,4)] c
        j = select m i 0.0
        k = add x j
        return k }""",
    )
