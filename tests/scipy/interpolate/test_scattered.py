"""Interpolation of scattered data, against SciPy."""

import numpy as np
import pytest
import scipy.interpolate

from functrans import errors, jit, testing, vmap
from functrans.scipy import interpolate
from tests.scipy.comparison import traced

_rng = np.random.default_rng(5)
POINTS = _rng.uniform(size=(12, 2))
VALUES = _rng.normal(size=(12, 2))
PLACES = _rng.uniform(0.1, 0.9, (5, 2))
KERNELS = ["linear", "thin_plate_spline", "cubic", "quintic", "multiquadric",
           "inverse_multiquadric", "inverse_quadratic", "gaussian"]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
def test_radial_functions(kernel):
    given = {"kernel": kernel, "epsilon": 1.3, "smoothing": 0.1}
    f = scipy.interpolate.RBFInterpolator(POINTS, VALUES, **given)
    through = traced(lambda v: scipy.interpolate.RBFInterpolator(POINTS, v, **given)(PLACES))
    np.testing.assert_allclose(through(VALUES), f(PLACES), rtol=1e-7)
    np.testing.assert_allclose(traced(lambda p: f(p))(PLACES), f(PLACES), rtol=1e-7)


def test_complex_values_and_radial_functions():
    f = scipy.interpolate.RBFInterpolator(POINTS, VALUES + 1j * VALUES[::-1])
    np.testing.assert_allclose(traced(lambda p: f(p))(PLACES), f(PLACES), rtol=1e-7)


@pytest.mark.parametrize("degree", [-1, 0, 2])
def test_degrees(degree):
    given = {"kernel": "gaussian", "epsilon": 3.0, "degree": degree}
    expected = scipy.interpolate.RBFInterpolator(POINTS, VALUES, **given)(PLACES)
    np.testing.assert_allclose(
        interpolate.RBFInterpolator(POINTS, VALUES, **given)(PLACES), expected, rtol=1e-7
    )


@pytest.mark.parametrize("kernel", ["cubic", "thin_plate_spline"])
def test_derivatives_of_radial_functions(kernel):
    def f(points, values, places):
        return interpolate.RBFInterpolator(points, values, smoothing=0.1, kernel=kernel)(places)

    testing.check_grads(f, (POINTS, VALUES[:, 0], PLACES), order=2, max_elements=3)
    testing.check_grads(lambda p: f(POINTS, VALUES, p), (POINTS[:2],), order=1)


@pytest.mark.parametrize("rescale", [False, True])
@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_griddata(method, rescale):
    stretched, places = POINTS * [1.0, 9.0], _rng.uniform(-0.1, 1.1, (9, 2)) * [1.0, 9.0]

    def f(values, places):
        return scipy.interpolate.griddata(stretched, values, places, method, rescale=rescale)

    np.testing.assert_allclose(traced(f)(VALUES, places), f(VALUES, places))
    lanes = vmap(f, in_axes=(None, 0))(VALUES, places[:, None])
    np.testing.assert_allclose(lanes[:, 0], f(VALUES, places))


@pytest.mark.full
def test_derivatives_on_triangles():
    f = interpolate.LinearNDInterpolator(POINTS, VALUES[:, 0])
    testing.check_grads(f, (PLACES[2:4],), order=1)
    of_values = interpolate.LinearNDInterpolator
    testing.check_grads(
        lambda v: of_values(POINTS, v)(*PLACES[2:4].T), (VALUES[:, 0],), order=1, max_elements=2
    )


REFUSED = {
    "griddata with points that are traced is not .*: which of them are neighbours is a choice":
        lambda p: interpolate.griddata(p, VALUES, PLACES),
    r"griddata\(\.\.\., method='cubic'\) is not supported .*: use RBFInterpolator":
        lambda p: interpolate.griddata(POINTS, p, PLACES, "cubic"),
    r"griddata in one dimension is not supported .*: use interp1d":
        lambda p: interpolate.griddata(np.arange(12.0), p, PLACES),
    r"RBFInterpolator\(\.\.\., neighbors=\.\.\.\) is not supported .*: leave it out":
        lambda p: interpolate.RBFInterpolator(p, VALUES, neighbors=4),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused(words):
    with pytest.raises(errors.UnsupportedNumPyError, match=words):
        jit(REFUSED[words])(POINTS)


def test_too_few_points_for_a_degree():
    with pytest.raises(ValueError, match="At least 6 data points are required"):
        jit(lambda d: interpolate.RBFInterpolator(POINTS[:5], d, degree=2)(PLACES))(VALUES[:5])
