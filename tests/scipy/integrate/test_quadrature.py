"""Integrals of functions, against SciPy's and against formulas."""

import numpy as np
import pytest
import scipy.integrate

from functrans import errors, grad, jit, value_and_grad, vmap
from functrans.scipy import integrate
from functrans.scipy.integrate.quadrature import GAUSS, KRONROD, NODES

A = 1.3
INTEGRALS = {
    "smooth": (lambda x, a: np.sin(a * x) ** 2, 0.0, 10.0),
    "backwards": (lambda x, a: np.cos(a * x), 2.0, -1.0),
    "to infinity": (lambda x, a: np.exp(-a * x), 0.0, np.inf),
    "from infinity": (lambda x, a: np.exp(a * x), -np.inf, 1.0),
    "to minus infinity": (lambda x, a: np.exp(a * x), 1.0, -np.inf),
    "both ways": (lambda x, a: np.exp(-a * x * x), -np.inf, np.inf),
    "both ways, backwards": (lambda x, a: np.exp(-a * x * x), np.inf, -np.inf),
    "singular": (lambda x, a: np.log(x) * a, 0.0, 1.0),
    "singular at the end": (lambda x, a: a / np.sqrt(1 - x), 0.0, 1.0),
    "peak": (lambda x, a: 1 / (1e-4 + (x - a) ** 2), 0.0, 3.0),
    "empty": (lambda x, a: a / x, 1.0, 1.0),
}


@pytest.mark.parametrize("degree", range(32))
def test_the_rule_is_exact_for_polynomials(degree):
    exact = 0.0 if degree % 2 else 2 / (degree + 1)
    assert abs(KRONROD @ NODES**degree - exact) < 1e-14
    assert degree > 19 or abs(GAUSS @ NODES**degree - exact) < 1e-14


@pytest.mark.parametrize("name", INTEGRALS)
def test_values_and_derivatives(name):
    f, low, high = INTEGRALS[name]

    def integral(a):
        return integrate.quad(f, low, high, args=(a,))[0]

    def scipys(a):
        return scipy.integrate.quad(f, low, high, args=(a,))[0]

    accuracy = 3e-6 if "singular" in name else 1e-8
    value, slope = value_and_grad(integral)(A)
    np.testing.assert_allclose(value, scipys(A), rtol=accuracy)
    difference = (scipys(A + 1e-5) - scipys(A - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, difference, rtol=1e-5, atol=1e-9)


@pytest.mark.full
@pytest.mark.parametrize("name", ["smooth", "both ways"])
def test_compiled(name):
    f, low, high = INTEGRALS[name]

    def integral(a):
        return integrate.quad(f, low, high, args=(a,))[0]

    expected = value_and_grad(integral)(A)
    np.testing.assert_allclose(jit(value_and_grad(integral))(A), expected, rtol=1e-12)


@pytest.mark.full
def test_the_estimate_of_the_error_is_quadpacks():
    f, low, high = INTEGRALS["smooth"]
    _, error = jit(lambda a: integrate.quad(f, low, high, (a,), epsabs=1e-3))(A)
    _, expected = scipy.integrate.quad(f, low, high, (A,), epsabs=1e-3)
    np.testing.assert_allclose(error, expected, rtol=1e-3)


def test_by_the_limits():
    def between(a, b):
        return integrate.quad(np.cos, a, b)[0]

    np.testing.assert_allclose(grad(between, (0, 1))(0.3, 2.0), [-np.cos(0.3), np.cos(2.0)])
    np.testing.assert_allclose(grad(grad(between, 1), 1)(0.3, 2.0), -np.sin(2.0))


@pytest.mark.parametrize("a", [-0.7, 0.1, 1.4])
def test_by_a_limit_of_an_integrand_with_jumps_and_kinks(a):
    def density(x):
        return np.where(x > 0.3, 2.0, 1.0) * np.exp(-np.abs(x))

    slope = -np.sign(a) * density(a)
    for end in (2.0, -2.0, np.inf, -np.inf):
        first = grad(lambda a, end=end: integrate.quad(density, a, end)[0])
        np.testing.assert_allclose(first(a), -density(a), rtol=1e-9)
        np.testing.assert_allclose(grad(first)(a), -slope, rtol=1e-8)


def test_lanes():
    ends = np.array([0.5, 3.0, -1.0])
    found = vmap(lambda b: integrate.quad(lambda x: np.cos(20 * b * x), 0.0, b)[0])(ends)
    np.testing.assert_allclose(found, np.sin(20 * ends**2) / (20 * ends), atol=1e-12)


@pytest.mark.full
def test_points_where_the_integrand_is_not_smooth():
    def kink(a):
        return integrate.quad(lambda x: a * np.abs(x - 0.3), 0.0, 1.0, points=[0.3])

    value, error = jit(kink)(2.0)
    np.testing.assert_allclose(value, 0.58)
    assert error < 1e-13


@pytest.mark.full
def test_complex_integrands():
    def wave(k):
        return integrate.quad(lambda x: np.exp(1j * k * x), 0.0, 1.0, complex_func=True)[0]

    np.testing.assert_allclose(jit(wave)(2.0), (np.exp(2j) - 1) / 2j)


def test_vectors():
    powers = np.array([1.0, 2.5])
    expected = scipy.integrate.quad_vec(lambda x: x**powers, 0.0, 2.0)[0]
    found = jit(lambda k: integrate.quad_vec(lambda x: x**k, 0.0, 2.0)[0])(powers)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_several_variables():
    def triangle(a):
        return integrate.dblquad(lambda y, x: a * x * y, 0, 1, 0, lambda x: a * x)[0]

    np.testing.assert_allclose(grad(triangle)(A), 3 * A**2 / 8)


@pytest.mark.full
def test_the_order_of_the_variables_is_scipys():
    def f(z, y, x, a):
        return x + 2 * y + 3 * z * a

    ranges = [lambda y, x, a: (x * y, 3.0), lambda x, a: (x, 2), (0, 1)]
    expected = scipy.integrate.nquad(f, ranges, (A,))[0]
    once = {"limit": 1}
    found = grad(lambda a: integrate.nquad(f, ranges, (a,), once)[0])
    difference = scipy.integrate.nquad(f, ranges, (A + 1,))[0] - expected
    np.testing.assert_allclose(found(A), difference, rtol=1e-9)


@pytest.mark.parametrize("n", [1, 5, 20])
def test_a_fixed_order(n):
    expected = scipy.integrate.fixed_quad(np.exp, 0.0, 1.5, n=n)[0]
    found = jit(lambda b: integrate.fixed_quad(np.exp, 0.0, b, n=n)[0])(1.5)
    np.testing.assert_allclose(found, expected)


def test_what_is_refused():
    with pytest.raises(errors.UnsupportedNumPyError, match="multiply the integrand by the weight"):
        jit(lambda a: integrate.quad(np.sin, 0.0, a, weight="cos", wvar=1.0))(1.0)
    with pytest.raises(
        errors.UnsupportedNumPyError, match=r"\(func\(x\) - func\(c\)\) / \(x - c\)"
    ):
        jit(lambda a: integrate.quad(np.sin, 0.0, a, weight="cauchy", wvar=0.5))(1.0)
    with pytest.raises(errors.UnsupportedNumPyError, match="collocation equations"):
        jit(lambda a: integrate.solve_bvp(None, None, a, a))(1.0)
    with pytest.raises(ValueError, match="use quad_vec"):
        jit(lambda a: integrate.quad(lambda x: a * np.ones(2), 0.0, 1.0))(1.0)


def test_a_principal_value_by_what_its_refusal_says():
    b, c = 2.0, 0.9
    rest = jit(lambda b: integrate.quad(lambda x: (np.exp(x) - np.exp(c)) / (x - c), 0.0, b)[0])(b)
    expected = scipy.integrate.quad(np.exp, 0.0, b, weight="cauchy", wvar=c)[0]
    assert rest + np.exp(c) * np.log((b - c) / c) == pytest.approx(expected, rel=1e-10)
