"""Interpolants at the edges of their arguments: shapes as SciPy's, and no number for bad input."""

import numpy as np
import pytest
from scipy import interpolate as scipys

from functrans import grad, jit, vmap
from functrans.scipy import interpolate
from tests.scipy.comparison import traced

RNG = np.random.default_rng(0)
X = np.arange(6.0)
Y = np.sin(X)
POINTS = RNG.random((6, 2))
GRID = X, X


def test_the_axis_of_coefficients_is_that_of_scipys():
    c, x = RNG.standard_normal((2, 2, 2)), np.arange(3.0)

    def at(c):
        return scipys.PPoly(c, x, axis=1)(0.3)

    np.testing.assert_allclose(traced(at)(c), at(c), rtol=1e-14)
    np.testing.assert_allclose(interpolate.PPoly(c, x, axis=1)(0.3), at(c), rtol=1e-14)


def test_roots_along_another_axis():
    y = np.sin(np.arange(10.0)).reshape(2, 5)
    found, expected = (m.CubicSpline(X[:5], y, axis=1).roots() for m in (interpolate, scipys))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs)


def test_coordinates_along_the_wrong_axes_are_refused():
    with pytest.raises(ValueError, match=r"^`c` has the shape \(2, 3\): .* and axis=1$"):
        interpolate.PPoly(np.ones((2, 3)), np.arange(4.0), axis=1)
    with pytest.raises(ValueError, match=r"^`x` must be strictly increasing or decreasing\.$"):
        interpolate.PPoly(np.ones((2, 3)), np.array([0.0, 2.0, 1.0, 3.0]))


@pytest.mark.parametrize("kind", ["LinearNDInterpolator", "NearestNDInterpolator"])
@pytest.mark.parametrize("xi", [(0.5, 0.4), ((0.5, 0.4),), ([0.5, 0.4],), (np.ones((0, 2)),)])
def test_shapes_of_scattered_points(kind, xi):
    expected = getattr(scipys, kind)(POINTS, Y)(*xi)
    found = getattr(interpolate, kind)(POINTS, Y)(*xi)
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected)
    if not isinstance(xi[0], (float, tuple)):
        at = jit(lambda x: getattr(interpolate, kind)(POINTS, Y)(x))
        np.testing.assert_allclose(at(np.asarray(xi[0])), expected)


@pytest.mark.parametrize("kind", ["LinearNDInterpolator", "NearestNDInterpolator"])
def test_points_of_another_dimension_are_refused(kind):
    with pytest.raises(ValueError, match=r"expected, and `xi` has the shape \(3, 1\)$"):
        getattr(interpolate, kind)(POINTS, Y)(np.ones((3, 1)))


def test_a_grid_is_asked_for_no_points():
    def at(x):
        return scipys.RegularGridInterpolator(GRID, np.outer(Y, Y), method="pchip")(x)

    assert traced(at)(np.ones((0, 2))).shape == (0,)
    points = RNG.uniform(0, 5, (3, 2))
    np.testing.assert_allclose(traced(at)(points), at(points))
    slope = grad(lambda x: np.sum(at(x)))(points)
    step = np.array([1e-5, 0.0])
    np.testing.assert_allclose(
        slope[:, 0], (at(points + step) - at(points - step)) / 2e-5, rtol=1e-6
    )


def test_coordinates_as_numbers_give_one_value():
    found = interpolate.interpn(GRID, np.outer(Y, Y), (0.5, 1.5))
    assert found.shape == scipys.interpn(GRID, np.outer(Y, Y), (0.5, 1.5)).shape == (1,)


def test_what_should_raise_is_nan_where_values_are_unknown():
    at = jit(lambda x: scipys.UnivariateSpline(X, Y, s=0, ext="raise")(x))
    np.testing.assert_allclose(at(np.array([1.0, 9.0])), [np.sin(1.0), np.nan], rtol=1e-12)
    tck = scipys.splrep(X, Y)
    assert np.isnan(vmap(lambda x: scipys.splev(x, tck, ext=2))(np.array([9.0]))[0])


AT_COMPLEX_PLACES = {
    "lines": lambda y: scipys.interp1d(X, y)(1j),
    "a grid": lambda y: scipys.RegularGridInterpolator((X,), y)([[1j]]),
    "a product of splines": lambda y: scipys.RectBivariateSpline(X, X, np.outer(y, y)).ev(1j, 0),
    "a polynomial": lambda y: scipys.BarycentricInterpolator(X, y)(1j),
    "values of a spline": lambda y: scipys.splrep(X, 1j * y)[1],
}


@pytest.mark.parametrize("name", AT_COMPLEX_PLACES)
def test_imaginary_parts_are_not_lost_but_refused(name):
    with pytest.raises(ValueError, match=r"must be real, and the dtype is complex128: pass the"):
        jit(AT_COMPLEX_PLACES[name])(Y)


def test_half_a_derivative():
    with pytest.raises(ValueError, match=r"^a spline of degree 3 has no derivative of order 1\.5$"):
        jit(lambda y: scipys.splev(1.0, scipys.splrep(X, y), der=1.5))(Y)


def test_knots_and_coefficients_of_traced_data():
    def of(y):
        spline = scipys.InterpolatedUnivariateSpline(X, y)
        return np.concatenate([spline.get_knots(), spline.get_coeffs()])

    np.testing.assert_allclose(traced(of)(Y), of(Y), atol=1e-12)


BAD = {
    "a value or an error": (
        lambda y: scipys.interp1d(X, y, fill_value="extrapolate", bounds_error=True)(0.5),
        r'^fill_value="extrapolate" gives a value outside, and bounds_error=True an error',
    ),
    "conditions for steps": (
        lambda y: scipys.make_interp_spline(X, y, k=0, bc_type="natural")(0.5),
        "^a spline of degree 0 has neither t= nor bc_type=: leave them out$",
    ),
    "few points": (
        lambda y: scipys.make_smoothing_spline(X[:4], y[:4], lam=1.0)(0.5),
        "^`x` and `y` must have at least 5 elements, and they have 4$",
    ),
    "an unknown mode": (
        lambda y: scipys.splev(9.0, scipys.splrep(X, y), ext=7),
        "^ext is one of .*, not 7$",
    ),
    "a derivative without data": (
        lambda y: scipys.RegularGridInterpolator(GRID, np.outer(y, y), method="cubic")(
            [[1.0, 2.0]], nu=(-1, 0)
        ),
        "^nu has a nonnegative order for each of 2 axes, not ",
    ),
    "an antiderivative": (
        lambda y: scipys.RectBivariateSpline(X, X, np.outer(y, y)).ev(1.0, 2.0, dx=-1),
        "^orders of derivatives are from 0 to less than the degrees, 3 and 3, and dx=-1, dy=0$",
    ),
    "as many derivatives as the degree": (
        lambda y: scipys.RectBivariateSpline(X, X, np.outer(y, y), kx=2).ev(1.0, 2.0, dx=2),
        "^orders of derivatives are from 0 to less than the degrees, 2 and 3, and dx=2, dy=0$",
    ),
    "a solver of nothing": (
        lambda y: scipys.RegularGridInterpolator((X,), y, solver=np.linalg.solve)([[1.0]]),
        "^method ='linear' does not accept the 'solver' argument, nor solver_args$",
    ),
    "a method of later": (
        lambda y: scipys.RegularGridInterpolator(GRID, np.outer(y, y))([[1.0, 2.0]], "best"),
        "^Method 'best' is not defined$",
    ),
    "few points of PCHIP": (
        lambda y: scipys.RegularGridInterpolator((X[:3],), y[:3], method="pchip")([[1.0]]),
        "^There are 3 points in a dimension, and method pchip requires at least 4$",
    ),
    "a word outside": (
        lambda y: scipys.interp1d(X, y, fill_value="nearest", bounds_error=False)(9.0),
        "^fill_value is a number, a pair or \"extrapolate\", not 'nearest'$",
    ),
    "decreasing knots": (
        lambda y: scipys.BSpline(np.arange(10.0)[::-1], y, 3)(4.5),
        r"^Knots must be in a non-decreasing order\.$",
    ),
    "data beyond the knots": (
        lambda y: scipys.make_interp_spline(X, y, t=np.r_[[1.0] * 4, 2, 3, [4.0] * 4])(2.5),
        r"^the data points reach beyond the inner knots t\[3\] to t\[-4\]$",
    ),
    "a negative penalty": (
        lambda y: scipys.make_smoothing_spline(X, y, lam=-1.0)(0.5),
        r"^`lam` must not be negative, and it is -1\.0$",
    ),
    "one weight": (
        lambda y: scipys.make_smoothing_spline(X, y, w=np.ones(1), lam=1.0)(0.5),
        "^`w` has 6 positive weights, one for each point$",
    ),
    "a degree of 0": (
        lambda y: scipys.UnivariateSpline(X, y, k=0, s=0)(0.5),
        "^k should be 1 <= k <= 5, and it is 0$",
    ),
    "equal points": (
        lambda y: scipys.BarycentricInterpolator([0, 1, 1, 2, 3, 4.0], y)(0.5),
        r"^Interpolation points xi must be distinct\.$",
    ),
    "a degree of -2": (
        lambda y: scipys.RBFInterpolator(POINTS, y, degree=-2)(POINTS),
        "^`degree` must be at least -1, and it is -2$",
    ),
    "values without points": (
        lambda y: scipys.NearestNDInterpolator(POINTS[:5], y)(POINTS),
        r"^there are 5 points, and values \(6,\)$",
    ),
    "complex places": (
        lambda y: scipys.CubicSpline(X + 1j, y)(0.5),
        "^`x` must be real, and the dtype is complex128: pass the real part$",
    ),
    "a high derivative": (
        lambda y: scipys.splev(0.5, scipys.splrep(X, y, k=2), der=3),
        "^a spline of degree 2 has no derivative of order 3$",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gives_no_number(name):
    call, words = BAD[name]
    with pytest.raises(ValueError):
        call(Y)
    with pytest.raises(ValueError, match=words):
        traced(call)(Y)
