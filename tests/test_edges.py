"""Derivatives at kinks and singularities, as promised by docs/derivatives-at-the-edges.md.

The examples on the page run in test_docs.py; these tests go further: forward against reverse mode,
second derivatives, limits.
"""

import warnings

import numpy as np
import pytest

from functrans import grad, hessian, jacfwd, jacrev

INF = np.inf

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def both(f, x):
    """The derivative of a function of one array, by both modes, which have to agree."""
    x = np.asarray(x, float)[()]
    forward, reverse = jacfwd(f)(x), jacrev(f)(x)
    np.testing.assert_array_equal(forward, reverse)
    return forward


@pytest.mark.parametrize(
    ("f", "at", "slope"),
    [
        (np.abs, 0.0, 0),
        (np.fabs, 0.0, 0),
        (np.sign, 0.0, 0),
        (np.rint, 0.5, 0),
        (np.floor, 1.0, 0),
        (np.sqrt, 0.0, INF),
        (np.cbrt, 0.0, INF),
        (np.log, 0.0, INF),
        (np.log1p, -1.0, INF),
        (np.arcsin, 1.0, INF),
        (np.arccos, 1.0, -INF),
        (np.arccosh, 1.0, INF),
        (np.arctanh, 1.0, INF),
        (np.tanh, INF, 0),
        (np.exp, -INF, 0),
        (np.reciprocal, 0.0, -INF),
        (lambda x: x**0, 0.0, 0),
        (lambda x: x**1, 0.0, 1),
        (lambda x: x**2, 0.0, 0),
        (lambda x: x**3, 0.0, 0),
        (lambda x: x**-1, 0.0, -INF),
        (lambda x: x**0.5, 0.0, INF),
        (lambda x: x**0.0, 0.0, 0),
        (lambda x: x**1.5, 0.0, 0),
        (lambda x: x**33, 0.0, 0),
        (lambda x: np.maximum(x, 0.0), 0.0, 0.5),
        (lambda x: np.minimum(x, 0.0), 0.0, 0.5),
        (lambda x: np.maximum(x, x), 1.0, 1),
        (lambda x: np.copysign(x, -1.0), 0.0, 0),
        (lambda x: np.hypot(x, 0.0), 0.0, 0),
        (lambda x: np.arctan2(x, 0.0), 0.0, 0),
        (lambda x: np.arctan2(x, INF), 1.0, 0),
        (lambda x: np.arctan2(1.0, x), -INF, 0),
        (lambda x: np.arctan2(x, 1.0), INF, 0),
        (lambda x: np.arctan2(x, INF), INF, 0),
        (lambda x: np.logaddexp(x, x), -INF, 1),
        (lambda x: np.logaddexp(x, 0.0), -INF, 0),
        (lambda x: np.logaddexp(x, 0.0), INF, 1),
        (lambda x: np.logaddexp2(x, -INF), 3.0, 1),
        (lambda x: np.fmax(x, np.nan), 3.0, 1),
        (lambda x: np.fmin(np.nan, x), 3.0, 1),
        (lambda x: np.heaviside(0.0, x), 3.0, 1),
        (lambda x: np.heaviside(x, 0.5), 0.0, 0),
    ],
)  # fmt: skip
def test_the_slope_at_a_point(f, at, slope):
    assert both(f, at) == slope


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, 0.5, -1.0])
def test_a_power_with_an_array_for_an_exponent_has_the_slopes_of_one_with_a_number(exponent):
    array = np.full(3, exponent)
    at = np.array([0.0, 1.0, 2.0])
    expected = [grad(lambda x: x**exponent)(x) for x in at]
    np.testing.assert_allclose(grad(lambda x: np.sum(x**array))(at), expected, rtol=1e-15)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, 4.0])
def test_second_derivatives_of_powers_at_zero(exponent):
    expected = {0.0: 0, 1.0: 0, 2.0: 2}.get(exponent, 0)
    assert hessian(lambda x: x ** int(exponent))(0.0) == expected
    assert hessian(lambda x: x ** np.float64(exponent))(0.0) == expected


def test_the_mixed_derivative_of_a_power_at_exponent_zero():
    # the derivative in x is y x**(y - 1), whose derivative in y is 1 / x at y = 0
    mixed = grad(grad(np.power, argnums=0), argnums=1)(2.0, 0.0)
    np.testing.assert_allclose(mixed, 0.5, rtol=1e-15)


def test_a_negative_base_with_an_integral_exponent():
    assert grad(lambda x: x ** np.float64(3))(-2.0) == 12
    assert np.isnan(grad(np.power, argnums=1)(-2.0, 3.0))


def test_the_exponent_of_zero():
    assert [grad(np.power, argnums=1)(0.0, y) for y in (2.0, 1.0, 0.0, -1.0)] == [0, 0, 0, -INF]


def test_the_curvature_of_logaddexp_at_a_tie():
    curvature = hessian(lambda x: np.logaddexp(x, 0.0))(0.0)
    np.testing.assert_allclose(curvature, 0.25, rtol=1e-15)


def products_of_others(x):
    return np.array([np.prod(np.delete(x, i)) for i in range(len(x))])


@pytest.mark.parametrize("x", [[2.0, 3.0], [2.0, 0.0, 3.0], [0.0, 0.0, 5.0, 2.0, 1.0], [0.0], []])
def test_products_with_zeros(x):
    x = np.array(x)
    np.testing.assert_allclose(both(np.prod, x), products_of_others(x), rtol=1e-15)
    rows = [products_of_others(x[: i + 1]) for i in range(len(x))]
    running = both(np.cumprod, x)
    for row, others in zip(running, rows, strict=True):
        np.testing.assert_allclose(row[: len(others)], others, rtol=1e-15)
        assert not np.any(row[len(others) :])


def test_the_second_derivative_of_a_product_with_zeros():
    x = np.array([0.0, 0.0, 3.0])
    expected = np.array([[0.0, 3.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(hessian(np.prod)(x), expected)
    np.testing.assert_array_equal(hessian(lambda x: np.cumprod(x)[-1])(x), expected)


def test_ties_share_equally():
    x = np.array([3.0, 1.0, 3.0, 3.0])
    third = 1 / 3
    np.testing.assert_allclose(both(np.max, x), [third, 0, third, third])
    np.testing.assert_allclose(both(np.min, -x), [third, 0, third, third])
    running = both(np.maximum.accumulate, x)
    expected = [[1, 0, 0, 0], [1, 0, 0, 0], [0.5, 0, 0.5, 0], [third, 0, third, third]]
    np.testing.assert_allclose(running, expected)


def test_sorting_carries_derivatives_with_the_elements():
    x = np.array([2.0, 1.0, 2.0])
    expected = [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    np.testing.assert_array_equal(both(np.sort, x), expected)


@pytest.mark.parametrize(
    ("f", "slopes"),
    [
        (lambda x: np.where(x > 0.0, np.log(x), 0.0), [0, 0, 0.5]),
        (lambda x: np.where(x > 0.0, np.sqrt(x), 0.0), [0, 0, 1 / np.sqrt(8)]),
        (lambda x: np.where(x > 0.0, np.sqrt(np.log(x)), x), [1, 1, None]),
        (lambda x: np.where(x > 0.0, 1.0 / x, 0.0) * 2.0, [0, 0, -0.5]),
        (lambda x: np.where(x > 0.0, np.where(x > 1.0, np.log(x), x), 0.0), [0, 0, 0.5]),
        (lambda x: np.exp(np.where(x > 0.0, np.power(x, -2.0), 0.0)), [0, 0, None]),
    ],
)  # fmt: skip
def test_a_branch_that_is_not_taken_contributes_nothing(f, slopes):
    x = np.array([-1.0, 0.0, 2.0])
    for slope, expected in zip(np.diag(both(f, x)), slopes, strict=True):
        assert np.isfinite(slope)
        if expected is not None:
            np.testing.assert_allclose(slope, expected, rtol=1e-15)


def test_a_branch_that_was_not_taken_gives_no_warning_in_the_backward_pass():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)))(np.array([0.0, 4.0]))
    assert caught == []
