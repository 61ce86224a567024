"""Roots of functions of one number, against SciPy's and against formulas."""

import numpy as np
import pytest
import scipy.optimize

from functrans import grad, jit, vmap
from functrans.scipy import optimize

A = 1.1
BRACKETED = ["bisect", "brentq", "brenth"]
EQUATIONS = {
    "cosine": (lambda x, a: np.cos(x) - a * x, 0.0, 2.0),
    "steep": (lambda x, a: np.exp(5 * x) - 20 * a, -3.0, 2.0),
    "root at the left end": (lambda x, a: a * (x - 1.0), 1.0, 2.0),
    "root at the right end": (lambda x, a: a * (x - 2.0), 1.0, 2.0),
    "saturated": (lambda x, a: np.tanh(20 * (x - a)), 0.0, 3.0),
}


@pytest.mark.parametrize("name", BRACKETED)
@pytest.mark.parametrize("equation", EQUATIONS)
def test_the_steps_are_scipys(name, equation):
    f, a, b = EQUATIONS[equation]
    root, expected = getattr(scipy.optimize, name)(f, a, b, args=(A,), full_output=True)

    def found(p):
        x, report = getattr(optimize, name)(f, a, b, args=(p,), full_output=True)
        return x, report.iterations, report.function_calls, report.converged

    x, iterations, calls, converged = jit(found)(A)
    np.testing.assert_allclose(x, root, rtol=1e-11)
    if expected.function_calls > 2:  # SciPy leaves the number unset where an end is the root
        assert abs(iterations - expected.iterations) <= 1
    assert abs(calls - expected.function_calls) <= 2
    assert converged


@pytest.mark.parametrize("find", [
    *(lambda f, a, n=n: getattr(optimize, n)(f, 0.0, 2.0, args=(a,)) for n in BRACKETED),
    lambda f, a: optimize.toms748(f, 0.0, 2.0, args=(a,)),
    lambda f, a: optimize.ridder(f, 0.0, 2.0, args=(a,), full_output=True)[0],
    lambda f, a: optimize.newton(f, 1.0, args=(a,), full_output=True)[0],
    lambda f, a: optimize.newton(f, 1.0, fprime=lambda x, a: -np.sin(x) - a, args=(a,)),
    lambda f, a: optimize.root_scalar(f, (a,), bracket=(0.0, 2.0)).root,
    lambda f, a: optimize.root_scalar(f, (a,), x0=1.0).root,
    lambda f, a: optimize.fixed_point(lambda x: np.cos(x) / a, 0.5),
], ids=[
    *BRACKETED, "toms748", "ridder", "newton", "fprime", "bracket", "x0", "fixed point",
])  # fmt: skip
def test_derivatives(find):
    f = EQUATIONS["cosine"][0]
    x = scipy.optimize.brentq(f, 0.0, 2.0, args=(A,))
    slope = -np.sin(x) - A
    first = x / slope
    second = first * (2 * slope + np.cos(x) * x) / slope**2

    def root(a):
        return find(f, a)

    np.testing.assert_allclose(jit(root)(A), x, rtol=1e-8)
    np.testing.assert_allclose(grad(root)(A), first, rtol=1e-7)
    np.testing.assert_allclose(jit(grad(grad(root)))(A), second, rtol=1e-7)


@pytest.mark.parametrize("name", BRACKETED)
def test_lanes(name):
    f, a, b = EQUATIONS["cosine"]
    parameters = np.array([0.5, 1.1, 3.0])
    found = vmap(lambda p: getattr(optimize, name)(f, a, b, args=(p,)))(parameters)
    expected = [scipy.optimize.brentq(f, a, b, args=(p,)) for p in parameters]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_many_newtons():
    values = np.array([1.0, 2.0, 9.0])
    found = jit(lambda a: optimize.newton(lambda x: x * x - a, np.ones(3)))(values)
    np.testing.assert_allclose(found, np.sqrt(values))


def test_a_fixed_point_of_a_vector():
    def pair(a):
        return optimize.fixed_point(
            lambda x: np.stack([np.cos(a * x[1]), 0.5 * np.sin(x[0])]), [0.5, 0.5],
            method="iteration", xtol=1e-12,
        )  # fmt: skip

    step = (pair_of(A + 1e-6) - pair_of(A - 1e-6)) / 2e-6
    np.testing.assert_allclose(jit(pair)(A), pair_of(A), rtol=1e-9)
    np.testing.assert_allclose(grad(lambda a: pair(a)[0])(A), step[0], rtol=1e-6)


def pair_of(a):
    function = lambda x: np.array([np.cos(a * x[1]), 0.5 * np.sin(x[0])])  # noqa: E731
    return scipy.optimize.fixed_point(function, [0.5, 0.5], method="iteration", xtol=1e-13)


def test_without_a_root():
    f = EQUATIONS["cosine"][0]
    with pytest.raises(ValueError, match="must have different signs"):
        grad(lambda a: optimize.brentq(f, 2.0, 3.0, args=(a,)))(A)
    assert np.isnan(jit(lambda a: optimize.brentq(f, 2.0, 3.0, args=(a,)))(A))
    assert np.isnan(jit(lambda a: optimize.newton(lambda x: x * x + a, 0.3, maxiter=4))(A))


def test_by_the_full_name():
    f = EQUATIONS["cosine"][0]
    found = grad(lambda a: scipy.optimize.brentq(f, 0.0, 2.0, args=(a,)))(A)
    np.testing.assert_allclose(found, grad(lambda a: optimize.brentq(f, 0.0, 2.0, args=(a,)))(A))


def test_a_method_that_there_is_not():
    with pytest.raises(ValueError, match="Unknown solver other"):
        jit(lambda a: optimize.root_scalar(lambda x: x - a, x0=1.0, method="other"))(A)


SINGLE = {
    "brentq": lambda a: optimize.brentq(lambda x: x**3 - a, a * 0, a),
    "newton": lambda a: optimize.newton(lambda x: x**3 - a, np.float32(1)),
    "fixed_point": lambda a: optimize.fixed_point(lambda x: (x + a / x**2) / 2, np.float32(1)),
    "root": lambda a: optimize.root(lambda x: x**3 - a, np.ones(1, np.float32)).x[0],
    "minimize": lambda a: optimize.minimize(
        lambda x: x[0] ** 4 / 4 - a * x[0], np.ones(1, np.float32), tol=1e-11
    ).x[0],
}


@pytest.mark.parametrize("name", SINGLE)
def test_single_precision_is_converted(name):
    """In single precision, steps would not become as small as the tolerances ask for."""
    solve, a = SINGLE[name], np.float32(2)
    np.testing.assert_allclose(jit(solve)(a), 2 ** (1 / 3), rtol=1e-7)
    np.testing.assert_allclose(grad(solve)(a), 2 ** (-2 / 3) / 3, rtol=1e-6)


STEPS = {
    "secant": {},
    "two guesses": {"x1": 1.7},
    "newton": {"fprime": lambda x: -np.sin(x) + 0.2},
    "halley": {"fprime": lambda x: -np.sin(x) + 0.2, "fprime2": lambda x: -np.cos(x)},
}


@pytest.mark.parametrize("name", STEPS)
def test_the_root_that_is_found_is_scipys(name):
    """From far away, another method finds another root, or none."""

    def root(x):
        return scipy.optimize.newton(lambda x: np.cos(x) + 0.2 * x, x, **STEPS[name])

    starts = (-2.0, 0.4, 1.3, 2.6, 5.1)
    np.testing.assert_allclose([jit(root)(x) for x in starts], [root(x) for x in starts], rtol=1e-7)


def test_secants_converge_where_tangents_do_not():
    assert abs(jit(lambda x: optimize.newton(np.tanh, x))(1.2)) < 1e-8
    assert np.isnan(jit(lambda x: optimize.root_scalar(np.tanh, x0=x).root)(1.2))


def test_methods_are_chosen_as_in_scipy():
    def found(**options):
        return jit(
            lambda x: optimize.root_scalar(lambda x: np.cos(x) + 0.2 * x, x0=x, **options).root
        )

    def scipys(**options):
        return scipy.optimize.root_scalar(lambda x: np.cos(x) + 0.2 * x, x0=2.6, **options).root

    for options in ({"x1": 2.9}, {"method": "secant"}, STEPS["halley"], {"options": {"xtol": 0.1}}):
        np.testing.assert_allclose(found(**options)(2.6), scipys(**options), rtol=1e-6)
    with pytest.raises(ValueError, match="fprime must be specified for halley"):
        found(method="halley")(2.6)


UNKNOWN = {
    "root": lambda a: optimize.root(lambda x: x - a, [1.0], method="foo").x,
    "minimize_scalar": lambda a: optimize.minimize_scalar(lambda x: (x - a) ** 2, method="foo").x,
    "least_squares": lambda a: optimize.least_squares(lambda x: x - a, [1.0], tr_solver="foo").x,
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_options_that_there_are_not(name):
    with pytest.raises(ValueError, match=r"must be one of .*, not 'foo'$"):
        jit(UNKNOWN[name])(2.0)


def test_a_list_is_a_sequence_of_arguments():
    found = jit(lambda a: optimize.newton(lambda x, b: x * x - a * b, 1.0, args=[8.0]))(2.0)
    np.testing.assert_allclose(found, 4.0)
    found = jit(lambda a: optimize.fixed_point(lambda x, b: np.cos(a * b * x), 1.0, args=[0.25]))
    np.testing.assert_allclose(found(2.0), 0.9003672225898, rtol=1e-8)
    with pytest.raises(ValueError, match=r"^'x0' must only have one dimension\.$"):
        jit(lambda a: optimize.minimize(lambda x: np.sum((x - a) ** 2), [[1.0, 2.0]]).x)(2.0)
