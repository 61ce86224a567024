"""Minima, roots of systems and fits against SciPy; derivatives against finite differences."""

import numpy as np
import pytest
import scipy.optimize

from functrans import errors, grad, jacfwd, jacrev, jit, jvp, vmap
from functrans.scipy import optimize

START = np.array([-1.2, 1.0, 0.5])
TIMES = np.linspace(0, 3, 12)
DATA = 2 * np.exp(-1.3 * TIMES) + 0.01 * np.sin(20 * TIMES)


def valley(x, a):
    """Rosenbrock's, with a minimum that depends on the parameter."""
    return np.sum(a * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2) + 0.1 * a * np.sum(x**2)


def system(x, a):
    return [x[0] ** 2 + x[1] - a, np.sin(x[0]) + 2 * x[1]]


def decay(t, a, b):
    return a * np.exp(-b * t)


def lowest(a):
    return optimize.minimize(valley, START, args=(a,), tol=1e-9).x


def differences(f, a, step=1e-5):
    return (f(a + step) - f(a - step)) / (2 * step)


def test_minimize():
    expected = scipy.optimize.minimize(valley, START, args=(5.0,), tol=1e-9)

    def found(a):
        result = optimize.minimize(valley, START, args=(a,), tol=1e-9)
        return result.x, result.fun, result.jac, result.success

    x, value, slope, success = jit(found)(5.0)
    np.testing.assert_allclose(x, expected.x, atol=1e-6)
    np.testing.assert_allclose(value, expected.fun, rtol=1e-12)
    assert np.max(np.abs(slope)) < 1e-9 and success


@pytest.mark.parametrize("derivative", [jacfwd, jacrev, lambda f: jit(jacrev(f))])
def test_derivatives_of_a_minimum(derivative):
    np.testing.assert_allclose(
        derivative(lowest)(5.0), differences(lowest_of_scipy, 5.0), rtol=1e-4
    )


def lowest_of_scipy(a):
    options = {"jac": grad(valley), "hess": jacfwd(grad(valley)), "method": "trust-exact"}
    return scipy.optimize.minimize(valley, START, (a,), tol=1e-13, **options).x


def test_second_derivatives_of_a_minimum():
    slope = jacrev(lowest)
    np.testing.assert_allclose(jacfwd(slope)(5.0), differences(slope, 5.0, 1e-4), rtol=1e-4)


def test_lanes_of_minima():
    parameters = np.array([1.0, 5.0, 50.0])
    expected = [lowest_of_scipy(a) for a in parameters]
    np.testing.assert_allclose(vmap(lowest)(parameters), expected, rtol=1e-6)


def test_a_value_with_its_gradient():
    def with_gradient(x, a):
        return np.sum((x - a) ** 2), 2 * (x - a)

    found = jit(lambda a: optimize.minimize(with_gradient, np.zeros(2), (a,), jac=True).x)(3.0)
    np.testing.assert_allclose(found, [3.0, 3.0])


def test_minimum_of_one_variable():
    def f(x, a):
        return (x - a) ** 2 + x**4

    def scipys(a):
        return scipy.optimize.minimize_scalar(f, args=(a,), tol=1e-12).x

    for options in ({"bounds": (-3, 3)}, {}):
        found = lambda a, o=options: optimize.minimize_scalar(f, args=(a,), **o).x  # noqa: E731
        np.testing.assert_allclose(jit(found)(1.0), scipys(1.0), atol=1e-7)
        np.testing.assert_allclose(grad(found)(1.0), differences(scipys, 1.0, 1e-3), rtol=1e-4)


def test_minimum_at_a_bound():
    at_the_end = grad(lambda a: optimize.minimize_scalar(np.exp, bounds=(3 * a, 9)).x)
    np.testing.assert_allclose(at_the_end(1.0), 3.0)


@pytest.mark.parametrize(
    "bracket", [None, (0.0, 1.0), (0.0, -0.5), (-0.1, 1.0, 2.0), (0.5, -0.8, -4.0)], ids=str
)
def test_the_minimum_in_a_bracket(bracket):
    def f(x, a):
        return (x * x - 1) ** 2 + 0.1 * a * x

    def lowest(a):
        return scipy.optimize.minimize_scalar(f, bracket, args=(a,)).x

    np.testing.assert_allclose(jit(lowest)(1.2), lowest(1.2), atol=1e-6)
    x = lowest(1.2)
    np.testing.assert_allclose(grad(lowest)(1.2), -0.1 / (12 * x * x - 4), rtol=1e-5)


def test_what_is_no_bracket():
    with pytest.raises(ValueError, match="must have the least value"):
        grad(lambda a: optimize.minimize_scalar(lambda x: a * x, (0.0, 1.0, 2.0)).x)(1.0)
    assert not jit(lambda a: optimize.minimize_scalar(lambda x: a * x).success)(1.0)


def test_roots_of_systems():
    expected = scipy.optimize.root(system, [1.0, 1.0], (2.0,))

    def found(a):
        result = optimize.root(system, [1.0, 1.0], (a,))
        return result.x, result.fun, result.success

    x, value, success = jit(found)(2.0)
    np.testing.assert_allclose(x, expected.x, rtol=1e-9)
    np.testing.assert_allclose(value, 0.0, atol=1e-12)
    assert success
    slope = jacrev(lambda a: optimize.fsolve(system, [1.0, 1.0], (a,)))(2.0)
    by_scipy = differences(
        lambda a: scipy.optimize.fsolve(system, [1.0, 1.0], (a,), xtol=1e-13), 2.0
    )
    np.testing.assert_allclose(slope, by_scipy, rtol=1e-5)


def test_a_system_without_a_root():
    assert not jit(lambda a: optimize.root(lambda x: x**2 + a, [1.0]).success)(1.0)


def test_least_squares():
    def residuals(p, y):
        return decay(TIMES, *p) - y

    expected = scipy.optimize.least_squares(residuals, [1.0, 1.0], args=(DATA,))

    def found(y):
        result = optimize.least_squares(residuals, [1.0, 1.0], args=(y,))
        return result.x, result.cost, result.jac, result.success

    x, cost, jac, success = jit(found)(DATA)
    np.testing.assert_allclose(x, expected.x, rtol=1e-6)
    np.testing.assert_allclose(cost, expected.cost, rtol=1e-8)
    np.testing.assert_allclose(jac, expected.jac, rtol=1e-5)
    assert success


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"p0": [1.5, 1.0]},
        {"sigma": np.linspace(0.1, 0.2, 12)},
        {"sigma": np.linspace(0.1, 0.2, 12), "absolute_sigma": True},
        {"sigma": np.diag(np.linspace(0.1, 0.2, 12)) + 0.01, "absolute_sigma": True},
        {"method": "trf"},
        {"method": "trf", "loss": "soft_l1", "f_scale": 0.05},
        {"bounds": (0, 9), "loss": "cauchy", "f_scale": 0.05, "maxfev": 500},
    ],
)
def test_curve_fit(options):
    expected, covariance = scipy.optimize.curve_fit(decay, TIMES, DATA, **options)
    p, c = jit(lambda y: optimize.curve_fit(decay, TIMES, y, **options))(DATA)
    np.testing.assert_allclose(p, expected, rtol=1e-6)
    np.testing.assert_allclose(c, covariance, rtol=1e-4)


@pytest.mark.parametrize("loss", ["linear", "soft_l1", "huber", "cauchy", "arctan"])
def test_the_jacobian_of_a_loss(loss):
    def residuals(p, y):
        return decay(TIMES, *p) - y

    def jacobian(y, of=optimize.least_squares):
        return of(residuals, [1.0, 1.0], args=(y,), loss=loss, f_scale=0.02).jac

    expected = jacobian(DATA, scipy.optimize.least_squares)
    np.testing.assert_allclose(jit(jacobian)(DATA), expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    "sigma", [None, np.linspace(0.1, 0.2, 12), np.diag(np.linspace(0.1, 0.2, 12)) + 0.01]
)
def test_data_that_are_not_there(sigma):
    times, data = TIMES.copy(), DATA.copy()
    times[2] = data[5] = np.nan

    def fit(y, of=optimize.curve_fit):
        return of(decay, times, y, sigma=sigma, nan_policy="omit")

    expected, covariance = fit(data, scipy.optimize.curve_fit)
    p, c = jvp(fit, (data,), (np.ones(12),))[0]
    np.testing.assert_allclose(p, expected, rtol=1e-6)
    np.testing.assert_allclose(c, covariance, rtol=1e-4)
    whole = jvp(lambda y: optimize.curve_fit(decay, TIMES, y, nan_policy="raise"), (DATA,), (DATA,))
    np.testing.assert_allclose(
        whole[0][0], scipy.optimize.curve_fit(decay, TIMES, DATA)[0], rtol=1e-6
    )


BROKEN = np.where(TIMES == TIMES[3], np.nan, DATA)
AS_SCIPY = {
    "NaN": {},
    "NaN, asked for": {"check_finite": True},
    "raise": {"nan_policy": "raise"},
    "propagate": {"nan_policy": "propagate"},
    "another policy": {"nan_policy": "drop"},
    "within bounds": {"check_finite": False, "method": "lm", "bounds": (0, 9)},
    "errors of others": {"check_finite": False, "sigma": np.ones(5)},
    "further arguments": {"check_finite": False, "args": (1.0,)},
    "too many parameters": {"check_finite": False, "p0": np.ones(20)},
}


@pytest.mark.parametrize("name", AS_SCIPY)
def test_what_curve_fit_raises(name):
    def fit(a, of=optimize.curve_fit):
        return of(decay, TIMES, a * BROKEN, **AS_SCIPY[name])[0][0]

    with pytest.raises((ValueError, TypeError)) as ours:
        grad(fit)(1.0)
    with pytest.raises(type(ours.value)) as scipys:
        fit(1.0, scipy.optimize.curve_fit)
    assert str(ours.value) == str(scipys.value)


def test_options_of_the_other_method():
    with pytest.raises(TypeError, match=r"by method='lm' takes no 'loss': .* method='trf'"):
        jit(lambda y: optimize.curve_fit(decay, TIMES, y, loss="huber"))(DATA)
    with pytest.raises(ValueError, match=r"must be 'trf', 'dogbox' or 'lm', not 'newton'"):
        jit(lambda y: optimize.curve_fit(decay, TIMES, y, method="newton"))(DATA)


def test_derivatives_of_a_fit():
    slopes = jacrev(lambda y: optimize.curve_fit(decay, TIMES, y)[0])(DATA)
    step = 1e-4 * np.eye(12)[3]
    ends = [scipy.optimize.curve_fit(decay, TIMES, DATA + s * step)[0] for s in (1, -1)]
    np.testing.assert_allclose(slopes[:, 3], (ends[0] - ends[1]) / 2e-4, rtol=1e-4)


REFUSED = [
    (lambda a: optimize.minimize(valley, START, (a,), method="other").x,
     r"minimize\(\.\.\., method='other'\).*use one of"),
    (lambda a: optimize.quadratic_assignment(a * np.eye(2), np.eye(2)).fun, r"its result is a cho"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "words"), REFUSED)
def test_what_is_refused(function, words):
    with pytest.raises(errors.UnsupportedNumPyError, match=words):
        vmap(function)(np.ones(2))


def line(x, a, b):
    return a + b * x


@pytest.mark.parametrize("method", ["lm", "trf"])
def test_covariances_of_a_fit_without_spare_data(method):
    def covariance(y):
        return optimize.curve_fit(line, np.arange(2.0), y, p0=[1.0, 2.0], method=method)[1]

    assert np.isposinf(jit(covariance)(np.array([1.0, 4.0]))).all()


def test_one_number_for_all_places():
    def covariance(y, of=optimize):
        return of.curve_fit(line, np.arange(9.0), y * np.ones(1), [1.0, 2.0], method="trf")[1]

    found, expected = jit(covariance)(0.5), covariance(0.5, scipy.optimize)
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
