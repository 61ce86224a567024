"""Cubic interpolants, against SciPy's; their derivatives against finite differences."""

import numpy as np
import pytest
import scipy.interpolate

from functrans import grad, jit, testing, vmap
from functrans.scipy import interpolate

rng = np.random.default_rng(0)
CONDITIONS = [
    "not-a-knot", "natural", "clamped", "periodic", ((1, [0.3, 0.2]), (2, [0.7, 1.0])),
    ((2, [1.0, 1.0]), "not-a-knot"), ("natural", "clamped"),
]  # fmt: skip


def data(n, periodic=False):
    x, y = np.cumsum(rng.uniform(0.2, 1, n)), rng.normal(size=(n, 2))
    if periodic:
        y[-1] = y[0]
    return x, y, np.linspace(x[0] - 0.5, x[-1] + 0.5, 23)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 17])
@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_splines(n, condition):
    x, y, t = data(n, condition == "periodic")
    expected = scipy.interpolate.CubicSpline(x, y, bc_type=condition)

    def orders(y, t):
        spline = interpolate.CubicSpline(x, y, bc_type=condition)
        whole = spline.integrate(t[3], t[-4])
        return [spline(t, nu) for nu in range(5)], spline.antiderivative()(t), whole

    values, integrals, whole = jit(orders)(y, t)
    for nu, value in enumerate(values):
        np.testing.assert_allclose(value, expected(t, nu), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(integrals, expected.antiderivative()(t), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(whole, expected.integrate(t[3], t[-4]), rtol=1e-8, atol=1e-9)


OTHERS = {
    "pchip": (interpolate.PchipInterpolator, scipy.interpolate.PchipInterpolator, {}),
    "akima": (interpolate.Akima1DInterpolator, scipy.interpolate.Akima1DInterpolator, {}),
    "makima": (interpolate.Akima1DInterpolator, scipy.interpolate.Akima1DInterpolator,
               {"method": "makima"}),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("n", [2, 3, 4, 17])
def test_others(name, n):
    ours, scipys, options = OTHERS[name]
    x, y, t = data(n)
    found = jit(lambda y, t: ours(x, y, **options)(t))(y, t)
    np.testing.assert_allclose(found, scipys(x, y, **options)(t), rtol=1e-10, atol=1e-12)
    turned = jit(lambda y: ours(x, y.T, axis=1, **options)(t[5:7].reshape(2, 1)))(y)
    expected = scipys(x, y.T, axis=1, **options)(t[5:7].reshape(2, 1))
    np.testing.assert_allclose(turned, expected, rtol=1e-10, atol=1e-12)


def test_where_slopes_change_their_sign():
    x, y = np.arange(6.0), np.array([0.0, 1.0, 0.5, 0.5, 2.0, -1.0])
    t = np.linspace(0, 5, 31)
    for ours, scipys, options in OTHERS.values():
        found = jit(lambda y, o=ours, k=options: o(x, y, **k)(t))(y)
        np.testing.assert_allclose(found, scipys(x, y, **options)(t), atol=1e-12)


def test_hermite():
    x, y, t = data(5)
    found = jit(lambda y: interpolate.CubicHermiteSpline(x, y, y[::-1])(t))(y)
    expected = scipy.interpolate.CubicHermiteSpline(x, y, y[::-1])(t)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.few(1)
@pytest.mark.parametrize("make", [
    interpolate.CubicSpline, interpolate.PchipInterpolator, interpolate.Akima1DInterpolator,
], ids=lambda make: make.__name__)  # fmt: skip
def test_derivatives(make):
    x, y = np.array([0.0, 0.7, 1.5, 2.2, 3.1]), np.array([0.0, 1.0, 1.2, 3.6, 4.3])
    t = np.array([0.3, 1.1, 2.9])
    testing.check_grads(lambda x, y, t: make(x, y)(t), (x, y, t), order=2)


def test_lanes_and_breakpoints():
    x, y, _ = data(5)
    spline = scipy.interpolate.CubicSpline(x, y[:, 0])
    found = vmap(lambda y: interpolate.CubicSpline(x, y)(x[2]))(y.T)
    np.testing.assert_allclose(found, y[2])
    slope = grad(lambda t: interpolate.CubicSpline(x, y[:, 0])(t))
    np.testing.assert_allclose([slope(t) for t in x], spline(x, 1), rtol=1e-10)


def test_places_outside():
    x, y, t = data(5)
    for extrapolate in (True, False, "periodic"):
        expected = scipy.interpolate.CubicSpline(x, y)(t, extrapolate=extrapolate)
        found = jit(lambda t, e=extrapolate: interpolate.CubicSpline(x, y)(t, extrapolate=e))(t)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("extrapolate", [None, True, "periodic"])
def test_places_outside_of_akimas(extrapolate):
    x, y, t = data(5)
    expected = scipy.interpolate.Akima1DInterpolator(x, y, extrapolate=extrapolate)(t)
    found = jit(
        lambda y: interpolate.Akima1DInterpolator(x, y, extrapolate=extrapolate)(t)
    )(y)  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_by_the_full_name():
    x, y, _ = data(5)
    spline = scipy.interpolate.CubicSpline(x, y[:, 0])
    found = grad(lambda t: scipy.interpolate.CubicSpline(x, y[:, 0])(t))(x[1] + 0.1)
    np.testing.assert_allclose(found, spline(x[1] + 0.1, 1))


def test_plain_arrays():
    x, y, t = data(5)
    np.testing.assert_allclose(
        interpolate.CubicSpline(x, y)(t), scipy.interpolate.CubicSpline(x, y)(t), rtol=1e-9
    )


def test_what_is_refused():
    with pytest.raises(ValueError, match="strictly increasing"):
        interpolate.CubicSpline([0.0, 0.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="bc_type=other is not allowed"):
        interpolate.CubicSpline([0.0, 1.0, 2.0, 3.0], np.ones(4), bc_type="other")
    for make in (interpolate.PchipInterpolator, interpolate.Akima1DInterpolator):
        with pytest.raises(ValueError, match="only works with real values"):
            jit(lambda y, make=make: make(np.arange(4.0), y * 1j)(0.5))(np.ones(4))
    with pytest.raises(ValueError, match="must be identical"):
        interpolate.CubicSpline([0.0, 1.0, 2.0], [1.0, 2.0, 3.0], bc_type="periodic")
    with pytest.raises(ValueError, match="must be identical"):
        interpolate.make_interp_spline([0.0, 1.0, 2.0], [1.0, 2.0, 3.0], bc_type="periodic")
    with pytest.raises(ValueError, match="cannot be negative"):
        interpolate.CubicSpline([0.0, 1.0], [1.0, 2.0])(0.5, -1)


@pytest.mark.parametrize(
    "name",
    ["CubicSpline", "PchipInterpolator", "Akima1DInterpolator", "make_interp_spline"],
)
@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_data_must_be_finite(name, wrong):
    x = np.arange(5.0)
    y = np.where(x == 2, wrong, x)
    for of in (getattr(interpolate, name), getattr(scipy.interpolate, name)):
        with pytest.raises(ValueError, match=r"finite values|infs or nans"):
            of(x, y)
    with pytest.raises(ValueError, match="`x` must contain only finite"):
        grad(lambda a: getattr(interpolate, name)(a * y, x)(0.5))(1.0)


def test_what_is_scipys_of_plain_data():
    x, y = np.arange(4.0), np.array([-1.0, 1.0, 2.0, -1.0])
    expected = scipy.interpolate.CubicSpline(x, y).roots()
    np.testing.assert_allclose(interpolate.CubicSpline(x, y).roots(), expected)

    def quadratic(t):
        return t * scipy.interpolate.interp1d(x, y, "quadratic")(1.5)

    by_scipy = scipy.interpolate.interp1d(x, y, "quadratic")(1.5)
    np.testing.assert_allclose(grad(quadratic)(1.0), by_scipy)


@pytest.mark.parametrize("method", ["akima", "makima"])
def test_jumps_near_the_largest_number(method):
    x = np.arange(9.0)
    y = 1e160 * np.heaviside(x - 3, 0.5)
    found = jit(lambda y: interpolate.Akima1DInterpolator(x, y, method=method)(x))(y)
    plain = scipy.interpolate.Akima1DInterpolator(x, y, method=method)(x)
    np.testing.assert_allclose(found, plain)
