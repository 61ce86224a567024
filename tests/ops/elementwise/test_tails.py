"""Derivatives where naive formulas suffer from cancellation, against mpmath, to high orders."""

import mpmath as mp
import numpy as np
import pytest
import scipy.special

from functrans import grad, jit, jvp, vmap


def derivative(function, order):
    for _ in range(order):
        function = grad(function)
    return function


def sinc(x, order):
    """Of sin(pi x) / (pi x), by the integral of t**n cos(pi x t + n pi / 2)."""
    with mp.workdps(40):
        turn = order * mp.pi / 2
        integral = mp.quad(lambda t: t**order * mp.cos(mp.pi * x * t + turn), mp.linspace(0, 1, 9))
        return float(mp.pi**order * integral)


def log_ndtr(x, order):
    with mp.workdps(150):
        step = mp.mpf(10) ** -25
        return float(mp.diff(lambda t: mp.log(mp.erfc(-t / mp.sqrt(2)) / 2), x, order, h=step))


SINC_POINTS = [0.0, 1e-8, 1e-3, 0.2, 0.31, 0.33, 0.64, 1.3, 5.2]


@pytest.mark.parametrize("order", range(6))
def test_sinc(order):
    expected = [sinc(x, order) for x in SINC_POINTS]
    function = derivative(np.sinc, order)
    np.testing.assert_allclose([function(x) for x in SINC_POINTS], expected, rtol=1e-14, atol=1e-30)
    compiled = jit(vmap(function))(np.array(SINC_POINTS))
    np.testing.assert_allclose(compiled, expected, rtol=1e-14, atol=1e-30)


@pytest.mark.few(1)
@pytest.mark.parametrize(("order", "tolerance"), [(1, 1e-14), (2, 1e-13), (3, 1e-11), (4, 1e-9)])
def test_the_logarithm_of_the_normal_distribution_function(order, tolerance):
    points = [-50.0, -9.3, -4.01, -3.99, -1.0, 0.0, 2.0, 10.0]
    expected = [log_ndtr(x, order) for x in points]
    function = derivative(scipy.special.log_ndtr, order)
    np.testing.assert_allclose([function(x) for x in points], expected, rtol=tolerance, atol=0)
    compiled = jit(vmap(function))(np.array(points))
    np.testing.assert_allclose(compiled, expected, rtol=tolerance, atol=0)


def test_far_out_the_normal_distribution_function_is_that_of_an_exponential_one():
    # the first terms of the asymptotic series
    x = -700.0
    expected = [-x - 1 / x, -1 + 1 / x**2, -2 / x**3, 6 / x**4]
    for order, value in enumerate(expected, 1):
        found = derivative(scipy.special.log_ndtr, order)(x)
        np.testing.assert_allclose(found, value, rtol=1e-4)
    assert grad(scipy.special.log_ndtr)(-1e300) == 1e300
    assert derivative(scipy.special.log_ndtr, 2)(-np.inf) == -1.0
    assert derivative(scipy.special.log_ndtr, 2)(np.inf) == 0.0


@pytest.mark.parametrize("how", [lambda f: f, jit])
def test_the_slope_of_the_tangent_far_from_the_real_axis(how):
    """Where the tangent is almost i."""
    z = np.array([0.3 + 20j, -1 - 200j, 2 + 400j])
    slope = how(lambda z: jvp(np.tan, (z,), (np.ones_like(z),))[1])
    np.testing.assert_allclose(slope(z), [complex(mp.sec(w) ** 2) for w in z], rtol=1e-13)


@pytest.mark.parametrize("how", [lambda f: f, jit])
def test_the_tails_of_the_hyperbolic_tangent_and_the_logistic_function(how):
    slope = how(grad(np.tanh))
    np.testing.assert_allclose(slope(25.0), float(mp.sech(25) ** 2), rtol=1e-14)
    np.testing.assert_allclose(slope(-25.0), slope(25.0))
    np.testing.assert_allclose(how(derivative(np.tanh, 3))(0.0), -2.0)
    second = -2 * float(mp.tanh(25) * mp.sech(25) ** 2)
    np.testing.assert_allclose(how(derivative(np.tanh, 2))(25.0), second, rtol=1e-14)
    np.testing.assert_allclose(how(grad(np.expm1))(-50.0), np.exp(-50.0), rtol=1e-14)
    logistic = how(grad(scipy.special.expit))
    for x in (25.0, 50.0, -50.0):
        expected = float(1 / (2 * mp.cosh(mp.mpf(x) / 2)) ** 2)
        np.testing.assert_allclose(logistic(x), expected, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("function", [np.arctan, np.arctanh])
def test_of_complex_numbers_whose_multiples_are_infinite(function, dtype):
    large = np.finfo(dtype).max / 2
    x = np.array([large, -large, large * 1j, -large * 1j, large * (1 - 1j)], dtype)
    found = jit(function)(x)
    np.testing.assert_allclose(found.real, function(x).real, rtol=1e-6, atol=1e-30)
    np.testing.assert_allclose(found.imag, function(x).imag, rtol=1e-6, atol=1e-30)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("how", [lambda f: f, jit])
@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (np.arctan, lambda z: 1 / (1 + z * z)),
        (np.arctanh, lambda z: 1 / (1 - z * z)),
        (np.log10, lambda z: 1 / (z * mp.log(10))),
    ],
)
def test_slopes_of_large_complex_numbers_and_beside_poles(function, slope, how):
    z = np.array([1e160 * (1 + 1j), 1e150 * (2 - 1j), 1j - 1e-9j, 1 - 1e-9, 1e-9 - 1j])
    given = how(lambda z: jvp(function, (z,), (np.ones_like(z),))[1])
    with mp.workdps(40):
        expected = [complex(slope(mp.mpc(w))) for w in z]
    np.testing.assert_allclose(given(z), expected, rtol=1e-13, atol=1e-310)
    infinite = given(np.array([complex(np.inf, 1), complex(-2, np.inf), 1e308 * (1 - 1j)]))
    np.testing.assert_allclose(infinite, np.zeros(3), atol=1e-300)


@pytest.mark.parametrize("x", [1e-20, -3e-9, 0.3, 1 - 1e-12])
@pytest.mark.parametrize("function", ["arcsin", "arccos", "arctanh"])
def test_curvatures_of_inverses_near_0_and_1(function, x):
    exact = {"arcsin": mp.asin, "arccos": mp.acos, "arctanh": mp.atanh}[function]
    with mp.workdps(80):
        expected = float(mp.diff(exact, mp.mpf(x), 2, h=mp.mpf(10) ** -35))
    assert derivative(getattr(np, function), 2)(x) == pytest.approx(expected, rel=1e-14, abs=0)
