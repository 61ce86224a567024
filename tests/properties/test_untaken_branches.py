"""Branches of a ``where`` that are not taken cause no NaN, in all equivalent forms."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pytest

from functrans import checkpoint, grad, hessian, jacfwd, jacrev, jit, jvp, vjp, vmap


class Branch(NamedTuple):
    """A function with its first two derivatives, to be used above 0 only."""

    name: str
    value: object
    slope: object
    curvature: object


BRANCHES = [
    Branch("log", np.log, lambda x: 1 / x, lambda x: -(x**-2.0)),
    Branch("sqrt", np.sqrt, lambda x: 0.5 * x**-0.5, lambda x: -0.25 * x**-1.5),
    Branch("reciprocal", lambda x: 1.0 / x, lambda x: -(x**-2.0), lambda x: 2 * x**-3.0),
    Branch("power", lambda x: x**0.3, lambda x: 0.3 * x**-0.7, lambda x: -0.21 * x**-1.7),
    Branch("negative power", lambda x: x**-2.0, lambda x: -2 * x**-3.0, lambda x: 6 * x**-4.0),
    Branch("arctanh", lambda x: np.arctanh(1 - x), lambda x: 1 / (x * x - 2 * x),
           lambda x: (2 - 2 * x) / (x * x - 2 * x) ** 2),
    Branch("composed", lambda x: np.sin(np.log(np.sqrt(x))),
           lambda x: np.cos(np.log(x) / 2) / (2 * x),
           lambda x: -(np.sin(np.log(x) / 2) / 2 + np.cos(np.log(x) / 2)) / (2 * x**2)),
]  # fmt: skip

X = np.array([0.0, 0.5, -1.0, 1.5])
TAKEN = X > 0


def guarded(branch, x):
    """The branch where it may be taken, x / 3 elsewhere."""
    return np.where(x > 0, branch.value(x), x / 3.0)


def expected(rule, other):
    values = np.full(X.shape, other)
    values[TAKEN] = rule(X[TAKEN])
    return values


@pytest.fixture(autouse=True)
def numpys_own_warnings_are_not_meant():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


each = pytest.mark.parametrize("branch", BRANCHES, ids=lambda branch: branch.name)
FORMS = {
    "eager": lambda f: f,
    "jit": jit,
    "checkpoint": checkpoint,
    "vmap": lambda f: lambda x: vmap(f)(x[None])[0],
}
in_each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@each
@in_each_form
def test_elementwise(branch, form):
    def f(x):
        return np.sum(guarded(branch, x) * np.arange(1.0, 5.0))

    slopes = expected(branch.slope, 1 / 3.0) * np.arange(1.0, 5.0)
    np.testing.assert_allclose(form(grad(f))(X), slopes)
    np.testing.assert_allclose(grad(form(f))(X), slopes)
    np.testing.assert_allclose(
        np.diag(form(jacfwd(lambda x: guarded(branch, x)))(X)), slopes / np.arange(1.0, 5.0)
    )
    np.testing.assert_allclose(
        np.diag(form(jacrev(lambda x: guarded(branch, x)))(X)), slopes / np.arange(1.0, 5.0)
    )


@each
@in_each_form
def test_second_derivatives(branch, form):
    def f(x):
        return np.sum(guarded(branch, x))

    curvatures = np.diag(expected(branch.curvature, 0.0))
    np.testing.assert_allclose(form(hessian(f))(X), curvatures, atol=1e-12)
    np.testing.assert_allclose(form(jacrev(grad(f)))(X), curvatures, atol=1e-12)
    np.testing.assert_allclose(hessian(form(f))(X), curvatures, atol=1e-12)


@each
@pytest.mark.parametrize("x", X)
def test_a_number(branch, x):
    f = lambda x: guarded(branch, x)  # noqa: E731
    slope = branch.slope(x) if x > 0 else 1 / 3.0
    for derivative in (grad(f), jit(grad(f)), jacfwd(f), lambda x: vjp(f, x)[1](1.0)[0],
                       lambda x: vmap(grad(f))(np.stack([x, x]))[1]):  # fmt: skip
        np.testing.assert_allclose(derivative(x), slope)
    # forward mode multiplies before it chooses, and chooses afterwards
    np.testing.assert_allclose(jvp(f, (x,), (1.0,))[1], slope)


@each
@in_each_form
def test_a_mask_and_a_branch_that_are_broadcast(branch, form):
    mask = TAKEN[:, None] & np.array([True, False, True])

    def f(x):
        return np.sum(np.where(mask, branch.value(x)[:, None], 0.0) * np.array([1.0, 2.0, 3.0]))

    np.testing.assert_allclose(form(grad(f))(X), 4 * expected(branch.slope, 0.0))


@each
@in_each_form
def test_a_branch_that_is_reduced(branch, form):
    rows = np.stack([X[TAKEN], X[~TAKEN]])

    def f(x):
        return np.sum(np.where(np.array([True, False]), np.sum(branch.value(x), axis=1), 1.0))

    result = form(grad(f))(rows)
    np.testing.assert_allclose(result[0], branch.slope(rows[0]))
    assert list(result[1]) == [0.0, 0.0]


@each
@in_each_form
@pytest.mark.parametrize(
    "moved",
    [
        lambda y: y[::-1][::-1],
        lambda y: y.reshape(2, 2).T.T.reshape(4),
        lambda y: y[None].repeat(1, axis=0)[0],
        lambda y: y.astype(np.float64) * 1.0,
        lambda y: np.concatenate([y[:2], y[2:]]),
        lambda y: y[np.array([1, 0, 3, 2])][np.array([1, 0, 3, 2])],
        lambda y: np.broadcast_to(y, (3, 4))[1],
        lambda y: np.negative(-y),
    ],
)
def test_a_branch_that_is_moved_before_the_choice(branch, form, moved):
    def f(x):
        return np.sum(np.where(TAKEN, moved(branch.value(x)), 0.0))

    np.testing.assert_allclose(form(grad(f))(X), expected(branch.slope, 0.0))


@pytest.mark.parametrize(
    "gathered",
    [
        lambda y: y[np.array([0, 1, 0, 3, 2])],
        lambda y: np.repeat(y, 2),
        lambda y: np.broadcast_to(y, (3, 4)),
        lambda y: np.cumsum(y),
        lambda y: np.tile(y, (2, 2)),
        lambda y: np.pad(y, 1),
        lambda y: y.reshape(2, 2).sum(axis=1),
        lambda y: np.sort(y),
    ],
)
@in_each_form
def test_a_branch_of_which_nothing_is_let_through(gathered, form):
    def f(x):
        y = gathered(np.log(x))
        return np.sum(np.where(np.zeros(y.shape, bool), y, 0.0))

    assert list(form(grad(f))(X)) == [0.0] * 4


@each
def test_both_branches_and_nested_choices(branch):
    def f(x):
        inner = np.where(x < 1.0, branch.value(x), branch.value(x) ** 2)
        return np.sum(np.where(x > 0, inner, np.where(x < 0, branch.value(-x), 2.0)))

    with np.errstate(all="ignore"):
        low, high, negative = (X > 0) & (X < 1), X >= 1, X < 0
        slopes = np.zeros(4)
        slopes[low] = branch.slope(X[low])
        slopes[high] = 2 * branch.value(X[high]) * branch.slope(X[high])
        slopes[negative] = -branch.slope(-X[negative])
    np.testing.assert_allclose(grad(f)(X), slopes)
    np.testing.assert_allclose(jit(grad(f))(X), slopes)


def test_each_of_many_masks():
    def f(x):
        y = np.where(x > 0, np.sqrt(x), 0.0)
        y = np.where(x > 0.7, y * np.log(x), y)
        return np.sum(np.where(np.isfinite(x), y / np.where(y == 0, 1.0, y), 0.0))

    assert np.all(np.isfinite(grad(f)(X)))
    np.testing.assert_allclose(grad(f)(X), 0.0, atol=1e-12)
