"""Statuses, failures in compiled code, and covariances of least-squares fits."""

import numpy as np
import pytest
import scipy.optimize

from functrans import grad, jacfwd, jit, vmap
from functrans.scipy import optimize

TIMES = np.linspace(0.0, 4.0, 30)
DATA = np.exp(-TIMES) + 0.1 * np.cos(9 * TIMES)


def decay(x, a, b):
    return a * np.exp(-b * x)


def wave(x, a, b):
    return np.exp(a * x) * np.sin(7 * b * x)


TRANSFORMS = {
    "jit": jit,
    "grad": lambda f: grad(lambda y: f(y).sum()),
    "jit(grad)": lambda f: jit(grad(lambda y: f(y).sum())),
    "vmap": lambda f: lambda y: vmap(f)(np.stack([y, y])),
    "jit(vmap(jit))": lambda f: lambda y: jit(vmap(jit(f)))(np.stack([y, y])),
}


@pytest.mark.parametrize("result", [0, 1])
@pytest.mark.parametrize("method", ["lm", "trf"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_fit_that_does_not_converge_raises(name, method, result):
    def fit(y):
        return optimize.curve_fit(wave, TIMES, y, method=method, maxfev=2)[result]

    with pytest.raises(RuntimeError, match=r"^Optimal parameters not found: (The m|N)[a-z]+ "):
        TRANSFORMS[name](fit)(DATA)
    with pytest.raises(RuntimeError, match="Optimal parameters not found"):
        scipy.optimize.curve_fit(wave, TIMES, DATA, method=method, maxfev=2)


def test_one_lane_that_does_not_converge_is_enough():
    def fit(y, b):
        return optimize.curve_fit(lambda x, a: a * np.exp(-b * x) + 1 / b, TIMES, y, maxfev=3)[0]

    well = jit(vmap(fit, in_axes=(None, 0)))(DATA, np.array([1.0, 2.0]))
    assert np.isfinite(well).all()
    with np.errstate(all="ignore"), pytest.raises(RuntimeError, match="Optimal parameters not"):
        jit(vmap(fit, in_axes=(None, 0)))(DATA, np.array([1.0, 0.0]))


def rosenbrock(x):
    return np.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def powell(x):
    return np.stack(
        [x[0] + 10 * x[1], 5**0.5 * (x[2] - x[3]), (x[1] - 2 * x[2]) ** 2, 10 * (x[0] - x[3]) ** 2]
    )


ENDS = {
    "by the gradient": (rosenbrock, [-1.2, 1.0], {}, (1,)),
    "not at all": (rosenbrock, [-1.2, 1.0], {"max_nfev": 3}, (0,)),
    "within bounds": (rosenbrock, [-1.2, 1.0], {"bounds": (-2, 2), "max_nfev": 3}, (0,)),
    "by steps": (
        lambda p: decay(TIMES, *p) - DATA, [1.0, 0.5], {"xtol": 1e-3, "gtol": None}, (3, 4)
    ),
    "by cost": (lambda p: 1e6 * (decay(TIMES, *p) - DATA), [1.0, 0.5], {"xtol": 1e-15}, (2, 4)),
    "without full rank": (powell, [3.0, -1.0, 0.0, 1.0], {}, (1,)),
    "what nothing depends on": (lambda p: np.stack([p[0] - 2.0, 3.0]), [1.0, 5.0], {}, (1,)),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_the_status_of_least_squares(name):
    residuals, start, options, statuses = ENDS[name]
    kept = ("x", "cost", "status", "success")

    def found(x, of=optimize.least_squares):
        result = of(residuals, x, **options)
        return tuple(result[key] for key in kept)

    _, cost, status, success = jit(found)(np.array(start))
    expected = found(np.array(start), scipy.optimize.least_squares)
    assert status in statuses
    assert success == (status > 0) == expected[3]
    if success:
        np.testing.assert_allclose(cost, expected[1], rtol=1e-6, atol=1e-12)


def test_the_message_of_least_squares():
    def message(x, **options):
        return optimize.least_squares(rosenbrock, x, **options).message

    messages = []
    grad(lambda a: messages.append(message(a * np.array([-1.2, 1.0]))) or a)(1.0)
    grad(lambda a: messages.append(message(a * np.array([-1.2, 1.0]), max_nfev=2)) or a)(1.0)
    for status, found in zip((1, 0), messages, strict=True):
        options = {} if status else {"max_nfev": 2}
        expected = scipy.optimize.least_squares(rosenbrock, [-1.2, 1.0], **options)
        assert (expected.status, expected.message) == (status, found)


def test_residuals_that_are_not_finite_at_the_start():
    def found(a):
        return optimize.least_squares(lambda x: np.log(x) - a, [-1.0]).x[0]

    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="not finite in the init"):
        grad(found)(1.0)
    assert not jit(lambda a: optimize.least_squares(lambda x: x * a, [1.0]).success)(np.nan)


def test_a_valley_that_is_curved_and_narrow():
    """NIST's problem MGH10, with its certified values."""
    x = np.arange(50.0, 130.0, 5.0)
    y = np.array([
        34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744, 8261, 7030, 6005, 5147, 4427, 3820,
        3307, 2872.0,
    ])  # fmt: skip

    def fit(y):
        return optimize.curve_fit(
            lambda x, a, b, c: a * np.exp(b / (x + c)), x, y, [0.02, 4000.0, 250.0]
        )

    p, covariance = jit(fit)(y)
    np.testing.assert_allclose(p, [5.6096364710e-03, 6.1813463463e03, 3.4522363462e02], rtol=1e-7)
    errors = [1.5687892471e-04, 2.3309021107e01, 7.8486103508e-01]
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), errors, rtol=1e-6)


COVARIANCES = {
    "parameters that do the same": (
        lambda x, a, b: (a + b) * x, {"method": "trf", "jac": lambda x, a, b: np.stack([x, x], 1)}
    ),
    "a parameter without a part": (lambda x, a, b: a * x, {}),
    "as many data as parameters": (lambda x, a, b: a + b * x[:2], {"few": True}),
    "known errors": (lambda x, a, b: a + b * x[:2], {"few": True, "absolute_sigma": True}),
    "parameters far apart": (lambda x, a, b: 1e-9 * a + 1e9 * b * x, {"p0": [1e9, 1e-9]}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::scipy.optimize.OptimizeWarning")
@pytest.mark.parametrize("name", COVARIANCES)
def test_covariances(name):
    function, options = COVARIANCES[name]
    options = dict(options)
    y = DATA[:2] if options.pop("few", False) else DATA

    def covariance(y, of=optimize.curve_fit):
        return of(function, TIMES, y, **options)[1]

    expected, found = covariance(y, scipy.optimize.curve_fit), jit(covariance)(y)
    assert np.isinf(found).all() == np.isinf(expected).all()
    if np.isfinite(expected).all():
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_guess_between_traced_bounds():
    def fit(highest):
        bounds = (np.zeros(2), np.stack([5.0, highest]))
        return optimize.curve_fit(lambda x, a, b: a + b * x, xs, ys, bounds=bounds)[0]

    xs, ys = np.arange(3.0), np.array([1.0, 2.0, 4.0])
    # the slope is at its bound
    np.testing.assert_allclose(jacfwd(fit)(1.0), [-1.0, 1.0], rtol=1e-6)
