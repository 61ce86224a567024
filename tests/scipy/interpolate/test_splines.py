"""B-splines against SciPy: interpolation, given knots, traced points and values."""

import numpy as np
import pytest
import scipy.interpolate

from functrans import errors, testing, vmap
from functrans.scipy import interpolate
from tests.scipy.comparison import traced

_rng = np.random.default_rng(3)
X = np.sort(_rng.uniform(0, 5, 9))
Y = _rng.normal(size=(9, 2))
ROUND = np.concatenate([Y[:-1], Y[:1]])
PLACES = np.array([-0.5, X[0], 0.7, 1.9, X[4], 4.1, X[-1], 6.0])
ENDS = [None, "natural", "clamped", ([(1, [0.3, 1.0])], [(2, [0.1, 0.0])]), "periodic"]


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("k", [0, 1, 2, 3, 5])
def test_splines_through_points(k):
    expected = scipy.interpolate.make_interp_spline(X, Y, k)
    through = traced(lambda y: interpolate.make_interp_spline(X, y, k)(PLACES))
    same(through(Y), expected(PLACES))
    inner = PLACES[1:-1]
    if k:
        same(traced(lambda t: expected(t, 1))(inner), expected(inner, 1))
    inner = PLACES[1:-2] if k else PLACES[1:4]  # SciPy's integral of steps ends with the points
    same(traced(lambda t: expected.antiderivative()(t))(inner), expected.antiderivative()(inner))
    same(traced(lambda t: expected.integrate(t, 3.0))(0.7), expected.integrate(0.7, 3.0))


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("ends", ENDS, ids=str)
def test_conditions_at_the_ends(ends, k):
    if k != 3 and ends not in (None, "periodic"):
        pytest.skip("another number of conditions")
    y = ROUND if ends == "periodic" else Y
    expected = scipy.interpolate.make_interp_spline(X, y, k, bc_type=ends)(PLACES)
    same(interpolate.make_interp_spline(X, y, k, bc_type=ends)(PLACES), expected)


@pytest.mark.parametrize("k", [1, 3, 4])
def test_splines_of_fitpack(k):
    y = Y[:, 0]
    smooth = scipy.interpolate.UnivariateSpline(X, y, k=k, s=0.5)
    for ext in (0, 1, 3):
        same(traced(lambda t, e=ext: smooth(t, ext=e))(PLACES), smooth(PLACES, ext=ext))
    for make in (
        lambda y: scipy.interpolate.UnivariateSpline(X, y, k=k, s=0),
        lambda y: scipy.interpolate.InterpolatedUnivariateSpline(X, y, k=k),
    ):
        same(traced(lambda y, f=make: f(y)(PLACES))(y), make(y)(PLACES))
        same(traced(lambda y, f=make: f(y).integral(0.5, 2.0))(y), make(y).integral(0.5, 2.0))
        same(traced(lambda y, f=make: f(y).derivatives(2.0))(y), make(y).derivatives(2.0))
    tck = scipy.interpolate.splrep(X, y, k=k)
    splev, splrep, splint = (
        getattr(scipy.interpolate, name) for name in ("splev", "splrep", "splint")
    )
    same(traced(lambda y: splev(PLACES, splrep(X, y, k=k), der=1))(y), splev(PLACES, tck, der=1))
    same(traced(lambda t: splev(t, tck, ext=1))(PLACES), splev(PLACES, tck, ext=1))
    same(traced(lambda b: splint(0.5, b, tck))(9.0), splint(0.5, 9.0, tck))


@pytest.mark.parametrize("ext", [0, 1, 3, "const"])
def test_slopes_outside_of_splines_of_fitpack(ext):
    make = scipy.interpolate.InterpolatedUnivariateSpline
    expected = make(X, Y[:, 0], ext=ext).derivative()(PLACES)
    own = interpolate.InterpolatedUnivariateSpline
    same(traced(lambda y: own(X, y, ext=ext).derivative()(PLACES))(Y[:, 0]), expected)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_derivatives_where_values_are_constant_outside(k):
    spline = scipy.interpolate.InterpolatedUnivariateSpline(X, Y[:, 0], k=k, ext="const")
    tck = scipy.interpolate.splrep(X, Y[:, 0], k=k, s=0)
    splev = scipy.interpolate.splev
    for nu in range(k + 1):
        same(traced(lambda t, nu=nu: spline(t, nu))(PLACES), spline(PLACES, nu))
        through = traced(lambda t, nu=nu: splev(t, tck, der=nu, ext=3))
        same(through(PLACES), splev(PLACES, tck, der=nu, ext=3))


def test_an_integral_of_a_closed_polygon():
    make = scipy.interpolate.make_interp_spline

    def of(y):
        return make(X, y, k=1, bc_type="periodic").antiderivative()(PLACES)

    same(traced(of)(ROUND), of(ROUND))


def test_smoothing():
    w = _rng.uniform(0.5, 2.0, 9)
    expected = scipy.interpolate.make_smoothing_spline(X, Y[:, 0], w, 0.3)(PLACES)
    same(
        traced(lambda y: interpolate.make_smoothing_spline(X, y, w, 0.3)(PLACES))(Y[:, 0]), expected
    )


T = np.array([0.9, 2.2])
DERIVATIVES = {
    "points": (lambda x, y: interpolate.make_interp_spline(x, y)(T), (X, Y[:, 0])),
    "even": (lambda y, t: interpolate.make_interp_spline(X, y, 4)(t), (Y, T)),
    "knots": (lambda t, c: interpolate.BSpline(t, c, 2)(T), (np.arange(-1.0, 6.0), Y[:4])),
    "smoothing": (
        lambda x, y, lam: interpolate.make_smoothing_spline(x, y, lam=lam)(T),
        (X[:5], Y[:5, 0], 0.3),
    ),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name):
    function, operands = DERIVATIVES[name]
    testing.check_grads(function, operands, order=2, max_elements=4)


def test_lanes():
    found = vmap(lambda y: interpolate.make_interp_spline(X, y)(T))(Y.T)
    same(found, scipy.interpolate.make_interp_spline(X, Y)(T).T)


REFUSED = {
    r"UnivariateSpline\(\.\.\., s=None\) is not supported .*: use make_smoothing_spline\(x, y, lam":
        lambda y: scipy.interpolate.UnivariateSpline(X, y)(1.0),
    r"splrep\(\.\.\., s=2\) is not supported .*: use make_smoothing_spline":
        lambda y: scipy.interpolate.splrep(X, y, s=2)[1],
    r"make_smoothing_spline\(\.\.\., lam=None\) is not supported .*: pass lam=":
        lambda y: scipy.interpolate.make_smoothing_spline(X, y)(1.0),
    r"scipy\.interpolate\.make_lsq_spline is not supported .*: use make_smoothing_spline, or least":
        lambda y: scipy.interpolate.make_lsq_spline(X, y, np.arange(9.0))(1.0),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused(words):
    with pytest.raises(errors.UnsupportedNumPyError, match=words):
        vmap(REFUSED[words])(Y.T)


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="Need at least 8 knots for degree 3"):
        interpolate.BSpline(np.arange(7.0), np.ones(3), 3)
    with pytest.raises(ValueError, match=r"expected 0, got 1\+0"):
        interpolate.make_interp_spline(X, Y, t=np.r_[[0.0] * 4, X[2:-2], [5.0] * 4],
                                       bc_type=([(1, 0.0)], None))  # fmt: skip


def test_an_integral_up_to_just_before_the_end_of_a_period():
    period = 0.18212704632184262
    end = np.nextafter(9 * period, 0)  # the quotient of both rounds to 9
    data = np.linspace(0, period, 6), np.array([1.0, 2.0, 3.0, 2.0, 2.0, 1.0])
    spline = interpolate.make_interp_spline(*data, 3, bc_type="periodic")
    expected = scipy.interpolate.make_interp_spline(*data, 3, bc_type="periodic")
    same(spline.integrate(0.0, end), expected.integrate(0.0, end))


def test_values_of_derivatives_of_a_negative_order_are_refused():
    spline = interpolate.BSpline(np.arange(8.0), np.array([1.0, 2.0, 4.0, 7.0]), 3)
    with pytest.raises(ValueError, match="cannot be negative"):
        spline(3.5, -1)
