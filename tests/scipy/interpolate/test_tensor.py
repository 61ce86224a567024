"""Splines on grids against SciPy's."""

import numpy as np
import pytest
import scipy.interpolate

from functrans import errors, testing
from functrans.scipy import interpolate
from tests.scipy.comparison import traced

_rng = np.random.default_rng(4)
X, Y = np.linspace(0, 1, 6), np.linspace(0, 2, 7)
Z = _rng.normal(size=(6, 7))
A, B = np.array([-0.1, 0.3, 0.7]), np.array([0.2, 1.1, 2.5])
SPLINE = scipy.interpolate.RectBivariateSpline(X, Y, Z, kx=2)
CALLS = {
    "grid": lambda f, a: f(a, B),
    "places": lambda f, a: f(a, B, grid=False),
    "ev": lambda f, a: f.ev(a, B, dx=1),
    "slope": lambda f, a: f(a, B, dy=2),
    "integral": lambda f, a: f.integral(a[1], 0.9, 0.1, 1.5),
}


@pytest.mark.parametrize("name", CALLS)
def test_values(name):
    call = CALLS[name]
    expected = call(SPLINE, A)
    np.testing.assert_allclose(traced(lambda a: call(SPLINE, a))(A), expected, rtol=1e-8, atol=1e-9)
    through = traced(lambda z: call(scipy.interpolate.RectBivariateSpline(X, Y, z, kx=2), A))(Z)
    np.testing.assert_allclose(through, expected, rtol=1e-8, atol=1e-9)


def test_derivatives():
    def f(a, z):
        return interpolate.RectBivariateSpline(X, Y, z).ev(a, B[:2])

    testing.check_grads(f, (A[1:], Z), order=2, max_elements=3)


@pytest.mark.parametrize("method", ["linear", "nearest", "slinear", "cubic", "quintic", "pchip"])
def test_methods_of_grids(method):
    places = _rng.uniform(0, 1, (4, 2))
    # SciPy solves the systems of the last two by iterations, to few digits
    rtol = 1e-4 if method in ("cubic", "quintic") else 1e-9
    f = scipy.interpolate.RegularGridInterpolator((X, Y), Z, method)
    by_values = traced(lambda z: scipy.interpolate.interpn((X, Y), z, places, method))(Z)
    np.testing.assert_allclose(by_values, f(places), rtol, 1e-4)
    np.testing.assert_allclose(traced(lambda p: f(p))(places), f(places), rtol, 1e-4)


def test_smoothing_is_refused():
    with pytest.raises(errors.UnsupportedNumPyError, match=r"RectBivariateSpline\(\.\.\., s=1\)"):
        traced(lambda z: interpolate.RectBivariateSpline(X, Y, z, s=1)(A, B))(Z)
