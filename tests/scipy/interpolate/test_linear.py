"""Linear and nearest-neighbour interpolation, against SciPy."""

import numpy as np
import pytest
import scipy.interpolate

from functrans import jit, testing
from functrans.scipy import interpolate
from tests.scipy.comparison import traced

rng = np.random.default_rng(1)
X, Y = np.array([0.0, 0.5, 1.7, 2.0, 3.1]), rng.normal(size=(5, 2))
T = np.array([-0.5, 0.0, 0.2, 0.5, 1.1, 1.7, 2.9, 3.1, 4.0])
GRID = (np.arange(4.0), np.array([0, 0.5, 2.0]))
VALUES = rng.normal(size=(4, 3, 2))


@pytest.mark.parametrize(
    "kind", ["linear", "nearest", "nearest-up", "previous", "next", "cubic", 1, 3]
)
@pytest.mark.parametrize("fill", ["extrapolate", (1.0, 2.0), 0.5])
def test_one_dimension(kind, fill):
    options = {"kind": kind, "axis": 0, "fill_value": fill, "bounds_error": False}
    expected = scipy.interpolate.interp1d(X, Y, **options)(T)
    found = jit(lambda y, t: interpolate.interp1d(X, y, **options)(t))(Y, T)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["linear", "nearest", "zero", "cubic"])
def test_single_precision(kind):
    f = scipy.interpolate.interp1d(X, Y[:, 0].astype("f"), kind, bounds_error=False)
    found, expected = jit(lambda t: f(t))(T.astype("f")), f(T.astype("f"))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("method", ["slinear", "cubic"])
def test_derivatives_on_grids(method):
    grid, values = (np.arange(4.0), np.arange(5.0) ** 2), rng.normal(size=(4, 5))
    f = scipy.interpolate.RegularGridInterpolator(grid, values, method, solver=None)
    places = np.array([[0.5, 1.5], [2.2, 9.5]])
    found = traced(lambda p: f(p, nu=(1, 2)))(places)
    np.testing.assert_allclose(found, f(places, nu=(1, 2)), rtol=1e-3, atol=1e-12)
    with pytest.raises(ValueError, match="Can only compute derivatives for methods"):
        traced(lambda p: f(p, "linear", nu=(1, 0)))(places)


def test_places_that_are_not_sorted():
    order = np.array([2, 0, 4, 1, 3])
    expected = scipy.interpolate.interp1d(X[order], Y[order].T)(T[1:-1])
    found = jit(lambda y: interpolate.interp1d(X[order], y[order].T)(T[1:-1]))(Y)
    np.testing.assert_allclose(found, expected)


def test_places_outside():
    with pytest.raises(ValueError, match="outside the interpolation range"):
        interpolate.interp1d(X, Y, axis=0)(T)
    with pytest.raises(ValueError, match="out of bounds"):
        interpolate.interpn(GRID, VALUES, np.array([5.0, 5.0]))


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, None, 0.5])
def test_grids(method, fill):
    places = rng.uniform(-0.5, 3.5, size=(5, 6, 2))
    options = {"method": method, "bounds_error": False, "fill_value": fill}
    expected = scipy.interpolate.interpn(GRID, VALUES, places, **options)
    found = jit(lambda v, p: interpolate.interpn(GRID, v, p, **options))(VALUES, places)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("method", ["linear", "nearest", "slinear", "pchip"])
def test_grids_that_decrease(method):
    grid = np.array([0.0, 1.0, 2.5, 4.0]), np.array([2.0, 1.5, 0.5, 0.0])
    values = np.random.default_rng(0).normal(size=(4, 4))
    places = np.array([[0.3, 0.2], [2.2, 1.1], [3.0, 2.0]])
    expected = scipy.interpolate.RegularGridInterpolator(grid, values, method)(places)
    found = jit(lambda v: interpolate.RegularGridInterpolator(grid, v, method)(places))(values)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    at = jit(lambda grid, v: interpolate.RegularGridInterpolator(grid, v, method)(places))
    np.testing.assert_allclose(at(grid, values), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("fill", [np.nan, None, 0.5])
def test_places_that_are_nan(fill):
    places = np.array([[np.nan, 0.2], [2.2, np.nan], [-1.0, np.nan], [1.0, 0.7]])
    for method in ("linear", "nearest"):
        options = {"method": method, "bounds_error": False, "fill_value": fill}
        expected = scipy.interpolate.interpn(GRID, VALUES, places, **options)
        found = jit(lambda p, o=options: interpolate.interpn(GRID, VALUES, p, **o))(places)
        np.testing.assert_allclose(found, expected)
    expected = scipy.interpolate.interp1d(X, Y[:, 0], "zero")([1.0, np.nan])
    found = jit(lambda y: interpolate.interp1d(X, y, "zero")(np.array([1.0, np.nan])))(Y[:, 0])
    np.testing.assert_allclose(found, expected)


def test_shapes_of_places():
    line = scipy.interpolate.RegularGridInterpolator(GRID[:1], VALUES)
    plane = scipy.interpolate.RegularGridInterpolator(GRID, VALUES)
    along, flat = np.array([0.1, 2.3, 1.2]), np.array([0.1, 0.3, 1.2, 1.4])
    found = jit(lambda v: (
        interpolate.RegularGridInterpolator(GRID[:1], v)(along),
        interpolate.RegularGridInterpolator(GRID, v)(flat),
        interpolate.RegularGridInterpolator(GRID, v)((0.5, 0.7)),
    ))(VALUES)  # fmt: skip
    for one, expected in zip(found, (line(along), plane(flat), plane((0.5, 0.7))), strict=True):
        assert one.shape == expected.shape
        np.testing.assert_allclose(one, expected, rtol=1e-12)


@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_an_axis_with_one_point(method):
    grid, values = (np.array([1.0]), GRID[1]), VALUES[:1]
    places = np.array([[1.0, 0.2], [1.0, 0.5], [1.0, 1.9]])
    expected = scipy.interpolate.interpn(grid, values, places, method)
    found = jit(lambda v, p: interpolate.interpn(grid, v, p, method))(values, places)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.full
def test_derivatives():
    places = np.array([[0.3, 0.2], [2.2, 1.1]])
    testing.check_grads(lambda v, p: interpolate.interpn(GRID, v, p), (VALUES, places), order=2)
    inside = T[1:-1] + 0.05
    testing.check_grads(lambda y: interpolate.interp1d(X, y, axis=0)(inside[:-1]), (Y,), order=2)


def test_polynomials():
    expected = scipy.interpolate.barycentric_interpolate(X, Y, T)
    found = jit(lambda y: interpolate.barycentric_interpolate(X, y, T))(Y)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    testing.check_grads(lambda y, t: interpolate.barycentric_interpolate(X, y, t), (Y, T), order=2)
