"""SciPy's interpolators in a trace: closed over or constructed there, by any import style."""

import numpy as np
import pytest
from scipy import interpolate

from functrans import errors, grad, testing
from tests.scipy.comparison import traced

X = np.array([0.0, 0.7, 1.5, 2.2, 3.1, 4.0])
Y = np.array([[0.0, 1.0, 1.2, 3.6, 4.3, 4.0], [1.0, 0.0, 2.0, 0.5, 0.2, 0.1]]).T
T = np.array([0.3, 1.2, 2.9])
CLASSES = {
    "CubicSpline": interpolate.CubicSpline,
    "PchipInterpolator": interpolate.PchipInterpolator,
    "Akima1DInterpolator": interpolate.Akima1DInterpolator,
    "BarycentricInterpolator": interpolate.BarycentricInterpolator,
    "make_interp_spline": interpolate.make_interp_spline,
    **{
        f"interp1d {kind}": lambda x, y, k=kind: interpolate.interp1d(x, y, k, axis=0)
        for kind in ("linear", "nearest", "previous", "quadratic", "cubic", 1)
    },
}


@pytest.mark.parametrize("name", CLASSES)
def test_closed_over_and_made_within(name):
    make = CLASSES[name]
    f = make(X, Y)
    np.testing.assert_allclose(traced(lambda t: f(t))(T), f(T), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(traced(lambda y: make(X, y)(T))(Y), f(T), rtol=1e-10, atol=1e-12)
    testing.check_grads(lambda t: f(t), (T,), order=1)
    # outside of a trace it is SciPy's, as it was
    assert type(f(T)) is np.ndarray
    assert type(f) is type(make(X, Y))


@pytest.mark.parametrize("make", [
    interpolate.CubicSpline, interpolate.PchipInterpolator, interpolate.make_interp_spline,
])  # fmt: skip
def test_their_methods(make):
    f = make(X, Y)
    for method in (
        lambda f, t: f(t, 1),
        lambda f, t: f.derivative()(t),
        lambda f, t: f.antiderivative()(t),
        lambda f, t: f.integrate(0.5, t[0]),
        lambda f, t: f.c,
        lambda f, t: f.x if hasattr(f, "x") else f.t,
    ):
        np.testing.assert_allclose(traced(lambda t, m=method: m(f, t))(T), method(f, T), atol=1e-12)
        made = traced(lambda y, m=method: m(make(X, y), T))
        np.testing.assert_allclose(made(Y), method(f, T), rtol=1e-9, atol=1e-12)


SINGLES = {
    **{
        name: lambda x, y, t, name=name: getattr(interpolate, name)(x, y)(t)
        for name in ("CubicSpline", "PchipInterpolator", "Akima1DInterpolator")
    },
    "BSpline": lambda x, y, t: interpolate.BSpline(x, y, 1)(t),
    "PPoly": lambda x, y, t: interpolate.PPoly(y[None, 1:], x)(t),
    "RBFInterpolator": lambda x, y, t: interpolate.RBFInterpolator(x[:, None], y)(t[:, None]),
    "NearestNDInterpolator": lambda x, y, t: interpolate.griddata(POINTS, y, POINTS, "nearest"),
}
POINTS = np.stack([X, X**2], 1)


@pytest.mark.parametrize("name", SINGLES)
def test_single_precision(name):
    """SciPy computes in double precision."""
    x, y, t = X.astype("f"), Y[:, 0].astype("f"), T.astype("f")
    y = y[:4] if name == "BSpline" else y
    found, expected = traced(SINGLES[name])(x, y, t), SINGLES[name](x, y, t)
    assert found.dtype == expected.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_roots_of_traced_data_are_refused():
    with pytest.raises(errors.UnsupportedNumPyError, match=r"roots.*optimize.brentq"):
        traced(lambda y: interpolate.CubicSpline(X, y).roots())(Y[:, 0])
    with pytest.raises(errors.UnsupportedNumPyError, match=r"PPoly.solve.*optimize.brentq"):
        traced(lambda y: interpolate.CubicSpline(X, Y[:, 0]).solve(y))(0.5)
    roots = interpolate.CubicSpline(X, Y[:, 0] - 1).roots()
    assert grad(lambda x: x * len(interpolate.CubicSpline(X, Y[:, 0] - 1).roots()))(1.0) == len(
        roots
    )


def test_from_spline_is_refused():
    make = interpolate.make_interp_spline
    with pytest.raises(errors.UnsupportedNumPyError, match="use the spline"):
        traced(lambda y: interpolate.PPoly.from_spline(make(X, y))(0.5))(Y)


def test_a_bernstein_polynomial():
    f = interpolate.BPoly(np.array([[1.0, 2.0], [3.0, 0.5]]), [0.0, 1.0, 2.0])
    np.testing.assert_allclose(traced(lambda t: f(t))(T[:2]), f(T[:2]))
    assert grad(lambda t: f(t))(0.5) == 2.0

    def of(c):
        return interpolate.BPoly(c, X, "periodic")(T + 5.0, 1)

    c = np.random.default_rng(0).normal(size=(4, 5, 2))
    np.testing.assert_allclose(traced(of)(c), of(c), rtol=1e-10)


def test_attributes_of_objects_of_traced_data():
    def of(y):
        cubic, spline = interpolate.CubicSpline(X, y), interpolate.BSpline(X, y[:-2], 1)
        polynomial = interpolate.BPoly(y[None, 1:], X)
        numbers = spline.k, cubic.axis, spline.extrapolate
        parts = cubic.c, cubic.x, *spline.tck[:2], polynomial.c, np.array(numbers, float)
        return np.concatenate([np.ravel(part) for part in parts])

    np.testing.assert_allclose(traced(of)(Y), of(Y), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("extrapolate", [True, False, "periodic"])
def test_breakpoints_that_decrease(extrapolate):
    c, places = np.random.default_rng(0).normal(size=(3, 5)), np.append(T, [-1.0, 0.7, 4.5])

    def values(x):
        f = interpolate.PPoly(c, x, extrapolate)
        return np.stack([f(places), f.antiderivative()(places)])

    np.testing.assert_allclose(traced(values)(X[::-1]), values(X[::-1]), rtol=1e-10)


def test_one_that_has_no_form():
    f = interpolate.KroghInterpolator(X, Y)
    with pytest.raises(errors.UnsupportedNumPyError, match=r"Krogh.*: use BarycentricInterpolator"):
        traced(lambda t: f(t))(T)
