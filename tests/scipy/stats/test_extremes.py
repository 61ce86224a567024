"""Distributions at extreme points and parameters, where simple formulas lose accuracy."""

import mpmath as mp
import numpy as np
import pytest
import scipy.stats

from functrans import grad, hessian, jacfwd, jit, testing
from functrans.scipy import stats

SHARES = np.array([1e-300, 1e-30, 1e-12, 0.25, 0.5, 0.75])
CASES = {
    "triang at its mode": ("triang", "pdf", np.array([0, 1]), 1),
    "triang falling": ("triang", "pdf", np.array([0.0, 0.3, 1.0]), 0),
    "truncexpon.isf": ("truncexpon", "isf", np.array([2e-15, 3.7e-50]), np.array([20.0, 100.0])),
    "betaprime.sf, small": ("betaprime", "sf", np.array([1e-22, 1e-100, 0.5]), 0.05, 100.0),
    "betaprime.cdf, large": ("betaprime", "cdf", np.array([1e22, 1e40, 2.0]), 0.05, 0.1),
    "binom of many": ("binom", "pmf", np.arange(3.0), 1541096362225563.0, 1.0477878413173978e-18),
    "planck.logsf": ("planck", "logsf", np.array([3.0, 2000.0]), 1000.0),
    "t.entropy": ("t", "entropy", np.array([1.0, 99.9, 100.1, 1e6, np.inf])),
    "t, normal": ("t", "logpdf", np.array([0.3, -2.0, 30.0]), np.inf),
    "t.var": ("t", "var", np.array([2.5, 1e300, np.inf, 2.0, 1.0])),
    "gengamma at 0": ("gengamma", "logpdf", np.array([0.0, 1.0]), 1.0, -1.0),
    "ncx2 of many": ("ncx2", "pdf", np.linspace(11432, 12582, 5), 6700.0, 5300.0),
    "cauchy.ppf": ("cauchy", "ppf", SHARES),
    "cauchy.isf": ("cauchy", "isf", SHARES),
    "halflogistic.isf": ("halflogistic", "isf", SHARES),
    "gamma.isf": ("gamma", "isf", SHARES, 1.5),
    "chi.isf": ("chi", "isf", SHARES, 78.0),
    "invgamma.ppf": ("invgamma", "ppf", SHARES, 4.0),
    "loggamma.ppf": ("loggamma", "ppf", SHARES, 0.4),
    "loggamma.sf": ("loggamma", "sf", np.array([-5000.0, -1305.0, -690.0, 2.0]), 0.004),
    "loggamma.cdf": ("loggamma", "logcdf", np.array([-np.inf, -5000.0, -690.0, 2.0]), 0.004),
    "genextreme at its lower end": ("genextreme", "pdf", np.array([-10.0, -9.0]), -0.1),
    "genhalflogistic at its end": ("genhalflogistic", "pdf", np.array([0.0, 2.0]), 0.5),
    "truncpareto that rises": ("truncpareto", "pdf", np.array([1.0, 2.0, 5.0]), -2.0, 5.0),
    "skellam far away": ("skellam", "pmf", np.array([1e10, -1e10, 3.0]), 15.0, 8.0),
    "skellam of many": ("skellam", "logpmf", np.array([9890.0, 10291.0]), 10637.28, 26.01),
    "binom of many, always": ("binom", "cdf", np.array([0.0, 2.0]), 2.0**40, 1.0),
    "binom of many, rarely": ("binom", "sf", np.array([0.0, 3.0]), 2.0**40, 1e-12),
    "weibull_min without a variance": ("weibull_min", "var", np.array([1e-3, 2.0])),
    "ncx2 of very many": ("ncx2", "pdf", np.array([9999800000.0, 1e10]), 1.5, 1e10),
    "ncx2.sf": ("ncx2", "sf", np.array([0.0, 1.0, 60.0, 200.0, np.inf]), 4.0, 1.5),
    "ncx2.sf, central": ("ncx2", "sf", np.array([1.0, 60.0]), 4.0, 0.0),
    "ncx2.logsf": ("ncx2", "logsf", np.array([1.0, 60.0, 200.0]), 4.0, 1.5),
    "ncx2.isf": ("ncx2", "isf", np.append(SHARES, [0.0, 1.0]), 4.0, 1.5),
    "ncx2 far below": ("ncx2", "pdf", np.array([1e-3, 1.0, 3.0]), 150.0, 2.0),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_values_are_scipys(case):
    name, method, *operands = case
    expected = getattr(getattr(scipy.stats, name), method)(*operands)
    found = jit(lambda *operands: getattr(getattr(stats, name), method)(*operands))(*operands)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


SHAPES = {
    "f": (3.0, 4.0),
    "halfcauchy": (),
    "hypsecant": (),
    "levy": (),
    "moyal": (),
    "rice": (1.5,),
    "truncnorm": (-0.1, 200.0),
}


@pytest.mark.parametrize("share", [1e-100, 1e-12, 0.3, 1 - 2.0**-40])
@pytest.mark.parametrize("name", SHAPES)
def test_the_other_way_from_a_tail(name, share):
    """Where SciPy subtracts the share from 1, or from a rounded angle."""
    row, shapes = getattr(stats, name), SHAPES[name]
    for there, back in (("isf", "sf"), ("ppf", "cdf")):
        if name == "truncnorm" and there == "ppf":
            continue
        x = jit(lambda q, there=there: getattr(row, there)(q, *shapes))(share)
        found = jit(lambda x, back=back: getattr(row, back)(x, *shapes))(x)
        np.testing.assert_allclose(found, share, rtol=1e-9)


@pytest.mark.parametrize(("x", "b"), [(19.999999, 20.0), (99.999999, 100.0), (3.0, 5.0)])
def test_the_tail_of_a_truncated_exponential(x, b):
    with mp.workdps(40):
        expected = (mp.exp(-mp.mpf(x)) - mp.exp(-mp.mpf(b))) / -mp.expm1(-mp.mpf(b))
    assert jit(stats.truncexpon.sf)(x, b) == pytest.approx(float(expected), rel=1e-12)


PRECISELY = {  # distribution, method, operands, and the value with 40 digits
    "wrapcauchy at its peak": (
        "wrapcauchy", "logpdf", (1e-10, 1 - 2.0**-40),
        lambda x, c: mp.log((1 - c * c) / (2 * mp.pi * (1 + c * c - 2 * c * mp.cos(x)))),
    ),
    "truncexpon.isf near 1": (
        "truncexpon", "isf", (1 - 2.0**-40, 0.3),
        lambda q, b: -mp.log(mp.exp(-b) - q * mp.expm1(-b)),
    ),
    "truncexpon.isf of a short interval": (
        "truncexpon", "isf", (0.01, 1e-10),
        lambda q, b: -mp.log(mp.exp(-b) - q * mp.expm1(-b)),
    ),
    "truncexpon.logsf at the end": (
        "truncexpon", "logsf", (999.999, 1000.0),
        lambda x, b: mp.log(mp.exp(-x) - mp.exp(-b)) - mp.log(-mp.expm1(-b)),
    ),
    "truncexpon.logsf at 0": (
        "truncexpon", "logsf", (1e-9, 0.3),
        lambda x, b: mp.log(mp.exp(-x) - mp.exp(-b)) - mp.log(-mp.expm1(-b)),
    ),
    "truncpareto, nearly uniform in logarithms": (
        "truncpareto", "logpdf", (2.0, 1e-9, 3.0),
        lambda x, b, c: mp.log(b / (1 - c**-b)) - (b + 1) * mp.log(x),
    ),
    "truncpareto that rises far": (
        "truncpareto", "logpdf", (1e130, -3.0, 1e140),
        lambda x, b, c: mp.log(b / (1 - c**-b)) - (b + 1) * mp.log(x),
    ),
    "truncweibull_min": (
        "truncweibull_min", "logpdf", (2.0, 1.5, 0.5),
        lambda x, c, a: mp.log(c) + (c - 1) * mp.log(x) - x**c + a**c, np.inf,
    ),
    "triang near its end": ("triang", "logpdf", (1e-200, 0.3), lambda x, c: mp.log(2 * x / c)),
    "trapezoid near its end": (
        "trapezoid", "logpdf", (1e-200, 0.3, 0.6),
        lambda x, c, d: mp.log(2 / (d - c + 1)) + mp.log(x / c),
    ),
    "exponnorm, nearly normal": (
        "exponnorm", "logpdf", (0.3, 1e-6),
        lambda x, K: 0.5 / K**2 - x / K + mp.log(mp.ncdf(x - 1 / K)) - mp.log(K),
    ),
    "dpareto_lognorm far out": (
        "dpareto_lognorm", "logpdf", (1e20, 0.1, 0.01, 1.2, 1.4),
        lambda x, u, s, a, b: mp.log(a * b / ((a + b) * x)) + mp.log(
            mp.npdf((mp.log(x) - u) / s)
            * (mills(a * s - (mp.log(x) - u) / s) + mills(b * s + (mp.log(x) - u) / s))
        ),
    ),
    "invgauss.logsf far out": (
        "invgauss", "logsf", (1e6, 2.5), lambda x, mu: mp.log(
            mp.ncdf((1 - x / mu) / mp.sqrt(x))
            - mp.exp(2 / mu) * mp.ncdf(-(1 + x / mu) / mp.sqrt(x))
        ),
    ),
    "invgauss.logsf in a heavy tail": (
        "invgauss", "logsf", (1e4, 1e4), lambda x, mu: mp.log(
            mp.ncdf((1 - x / mu) / mp.sqrt(x))
            - mp.exp(2 / mu) * mp.ncdf(-(1 + x / mu) / mp.sqrt(x))
        ),
    ),
    "invgauss.logsf near 0": (
        "invgauss", "logsf", (0.02, 0.15), lambda x, mu: mp.log(
            mp.ncdf((1 - x / mu) / mp.sqrt(x))
            - mp.exp(2 / mu) * mp.ncdf(-(1 + x / mu) / mp.sqrt(x))
        ),
    ),
    "invgauss.logcdf of a small mean": (
        "invgauss", "logcdf", (0.9e-9, 1e-9), lambda x, mu: mp.log(
            mp.ncdf((x / mu - 1) / mp.sqrt(x))
            + mp.exp(2 / mu) * mp.ncdf(-(1 + x / mu) / mp.sqrt(x))
        ),
    ),
    "jf_skew_t far out": (
        "jf_skew_t", "logpdf", (1e9, 2.3, 0.7), lambda x, a, b: (
            (a + 0.5) * mp.log(1 + x / mp.sqrt(a + b + x * x))
            + (b + 0.5) * mp.log(1 - x / mp.sqrt(a + b + x * x))
            - (a + b - 1) * mp.log(2) - mp.log(mp.beta(a, b)) - 0.5 * mp.log(a + b)
        ),
    ),
    "genlogistic far out": (
        "genlogistic", "logpdf", (-1e9, 1e-8),
        lambda x, c: mp.log(c) - x - (c + 1) * mp.log(1 + mp.exp(-x)),
    ),
    "burr12 far out": (
        "burr12", "logpdf", (200.0, 150.0, 1.2),
        lambda x, c, d: mp.log(c * d) + (c - 1) * mp.log(x) - (d + 1) * mp.log(1 + x**c),
    ),
    "kappa3 far out": (
        "kappa3", "logpdf", (200.0, 150.0),
        lambda x, a: mp.log(a) - (1 + 1 / a) * mp.log(a + x**a),
    ),
    "fisk far out": (
        "fisk", "logpdf", (200.0, 150.0),
        lambda x, c: mp.log(c) + (c - 1) * mp.log(x) - 2 * mp.log(1 + x**c),
    ),
    "f, nearly a chi square": (
        "f", "logpdf", (1.3, 2.5, 1e9),
        lambda x, n, d: (
            0.5 * d * mp.log(d) + 0.5 * n * mp.log(n) + (0.5 * n - 1) * mp.log(x)
            - 0.5 * (n + d) * mp.log(d + n * x) - mp.log(mp.beta(0.5 * n, 0.5 * d))
        ),
    ),
    "bradford, nearly uniform": (
        "bradford", "logpdf", (0.3, 1e-8), lambda x, c: mp.log(c / (mp.log1p(c) * (1 + c * x))),
    ),
    "genhalflogistic, nearly logistic": (
        "genhalflogistic", "logpdf", (0.7, 1e-8), lambda x, c: (
            mp.log(2) + (1 / c - 1) * mp.log(1 - c * x) - 2 * mp.log(1 + (1 - c * x) ** (1 / c))
        ),
    ),
    "geninvgauss of a large scale": (
        "geninvgauss", "logpdf", (1.00001,), lambda x: (
            0.5 * mp.log(x) - 0.5e10 * (x + 1 / x) - mp.log(2 * mp.besselk(1.5, 10**10))
        ), 1.5, 1e10,
    ),
    "gamma.entropy": (
        "gamma", "entropy", (1e10,), lambda a: a + mp.loggamma(a) + (1 - a) * mp.digamma(a),
    ),
    "gamma.entropy, where the series begins": (
        "gamma", "entropy", (40.001,), lambda a: a + mp.loggamma(a) + (1 - a) * mp.digamma(a),
    ),
    "beta.entropy": (
        "beta", "entropy", (1e10, 1.5), lambda a, b: (
            mp.log(mp.beta(a, b)) - (a - 1) * mp.digamma(a) - (b - 1) * mp.digamma(b)
            + (a + b - 2) * mp.digamma(a + b)
        ),
    ),
    "vonmises.entropy": (
        "vonmises", "entropy", (1e10,), lambda kappa: (
            mp.log(2 * mp.pi * mp.besseli(0, kappa))
            - kappa * mp.besseli(1, kappa) / mp.besseli(0, kappa)
        ),
    ),
}  # fmt: skip


def mills(x):
    """The normal distribution's upper tail over its density."""
    return mp.ncdf(-x) / mp.npdf(x)


def jet(exact, operands, i):
    """The value, and two derivatives in an operand, by differences of 120 digits."""
    with mp.workdps(120):
        x = [mp.mpf(each) for each in operands]
        h = x[i] * mp.mpf(10) ** -30
        left, value, right = (exact(*x[:i], x[i] + n * h, *x[i + 1 :]) for n in (-1, 0, 1))
        return value, (right - left) / (2 * h), (right - 2 * value + left) / h**2


@pytest.mark.parametrize("case", PRECISELY.values(), ids=PRECISELY)
def test_values_slopes_and_curvatures(case):
    name, method, operands, exact, *fixed = case

    def f(*operands):
        return getattr(getattr(stats, name), method)(*operands, *fixed)

    for i, x in enumerate(operands):
        value, slope, curvature = map(float, jet(exact, operands, i))
        assert jit(f)(*operands) == pytest.approx(value, rel=1e-12)
        scale = 1e-14 * (abs(value / x) + abs(slope))
        assert jit(grad(f, i))(*operands) == pytest.approx(slope, rel=1e-9, abs=scale)
        found = jit(grad(grad(f, i), i))(*operands)
        if np.isfinite(curvature):
            assert found == pytest.approx(curvature, rel=1e-7, abs=100 * scale / x)


@pytest.mark.full
def test_derivatives():
    density = jit(lambda x, nc: stats.ncx2.logpdf(x, 6700.0, nc))
    testing.check_grads(density, (np.array([11500.0, 12000.0]), 5300.0), order=1)
    tail = jit(stats.betaprime.sf)
    testing.check_grads(tail, (np.array([0.3, 1.5]), 1.2, 2.1), order=1)


LOGARITHMS = ["beta", "cauchy", "f", "gamma", "laplace", "pareto", "t", "weibull_min"]


@pytest.mark.parametrize("name", LOGARITHMS)
@pytest.mark.parametrize("method", ["logcdf", "logsf"])
def test_logarithms_of_shares_near_1(name, method):
    distribution = getattr(scipy.stats, name)
    shapes = (2.31, 0.627)[: distribution.numargs]
    points = np.append(
        distribution.ppf([1e-12, 1e-3, 0.6], *shapes), distribution.isf(1e-9, *shapes)
    )
    found = jit(lambda x: getattr(getattr(stats, name), method)(x, *shapes))(points)
    np.testing.assert_allclose(found, getattr(distribution, method)(points, *shapes), rtol=1e-9)


@pytest.mark.parametrize("transform", [lambda f: f, jit])
def test_slopes_and_curvatures_in_the_middle(transform):
    """Formulas in ``abs(x)`` have to be smooth at 0, where its derivative is taken to be 0."""
    for name, curvature in {"logistic": -0.5, "hypsecant": -1.0, "gennorm": -2.0}.items():
        shapes = (2.0,) if name == "gennorm" else ()
        curved = grad(grad(getattr(stats, name).logpdf))
        assert transform(curved)(0.0, *shapes) == pytest.approx(curvature)
    for name, shapes in {"laplace": (), "gennorm": (1.3,)}.items():
        height = getattr(scipy.stats, name).pdf(0.0, *shapes)
        for method, slope in {"cdf": height, "sf": -height, "logcdf": 2 * height}.items():
            f = getattr(getattr(stats, name), method)
            assert transform(grad(f))(0.0, *shapes) == pytest.approx(slope)


AT_0 = {  # distribution, method, shapes before the one that is 0
    "vonmises": ("vonmises", "logpdf", ()), "vonmises_line": ("vonmises_line", "logpdf", ()),
    "rice.logpdf": ("rice", "logpdf", ()), "rice.cdf": ("rice", "cdf", ()),
    "ncx2.logpdf": ("ncx2", "logpdf", (3.0,)), "ncx2.cdf": ("ncx2", "cdf", (3.0,)),
}  # fmt: skip


@pytest.mark.parametrize("case", AT_0.values(), ids=AT_0)
def test_slopes_in_a_parameter_at_0(case):
    """Of the concentration and of the noncentrality, from the right."""
    name, method, before = case
    x, h = np.array([0.3, 2.0]), 1e-4
    f, theirs = (getattr(getattr(m, name), method) for m in (stats, scipy.stats))
    values = [theirs(x, *before, p) for p in (0.0, h, 2 * h)]
    slopes = jit(jacfwd(lambda p: f(x, *before, p)))(0.0)
    np.testing.assert_allclose(jit(f)(x, *before, 0.0), values[0], rtol=1e-12)
    expected = (4 * values[1] - 3 * values[0] - values[2]) / (2 * h)
    np.testing.assert_allclose(slopes, expected, rtol=1e-6, atol=1e-7)


def test_entropy_of_vonmises_at_0():
    assert jit(grad(stats.vonmises.entropy))(0.0) == pytest.approx(0.0)


PAIR = np.array([[[2.0, 3.0], [0.5, 0.1]], [[0.5, 0.1], [1.0, 4.0]]])  # along the last axis
P = np.arange(1.0, 89.0) / np.arange(1.0, 89.0).sum()
OF_VECTORS = {
    "one point": ("multivariate_normal", "logpdf", np.ones((1, 3)), np.zeros(3), np.eye(3)),
    "one number": ("multivariate_t", "logpdf", np.ones(1), np.zeros(1), np.eye(1)),
    "one column": ("dirichlet", "logpdf", np.array([[0.2], [0.8]]), np.ones(2)),
    "t that is normal": ("multivariate_t", "logpdf", np.eye(2), np.zeros(2), np.eye(2), np.inf),
    "no probability": ("poisson_binom", "logpmf", np.array([0.0, 1.0]), np.array([0.1, 1.5])),
    "numbers that are missing": (
        "poisson_binom",
        "logpmf",
        np.array([np.nan, 0.0, 7.0]),
        np.array([0.1, 0.5]),
        0.0,
    ),
    "variances": ("normal_inverse_gamma", "logpdf", 0.3, np.array([np.nan, -1.0, 0.0, 2.0])),
    "two matrices": ("wishart", "logpdf", PAIR, 5.0, np.eye(2)),
    "two inverse matrices": ("invwishart", "logpdf", PAIR, 5.0, np.eye(2)),
    "numbers": ("wishart", "logpdf", np.array([0.3, 2.0]), 5.0, 2.0),
    "a diagonal": ("invwishart", "logpdf", np.array([0.3, 2.0]), 5.0, np.array([1.0, 2.0])),
    "shares that are rounded": ("multinomial", "logpmf", np.ones(88), 88, P),
    "no shares": ("multinomial", "logpmf", np.array([3.0, 4.0]), 7, np.array([-2.0, 3.0])),
    "a negative count": ("multinomial", "logpmf", np.ones(2), -2, np.array([0.3, 0.7])),
}


@pytest.mark.parametrize("case", OF_VECTORS.values(), ids=OF_VECTORS)
def test_vectors(case):
    name, method, *operands = case
    expected = getattr(getattr(scipy.stats, name), method)(*operands)
    found = jit(lambda *operands: getattr(getattr(stats, name), method)(*operands))(*operands)
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_directions_in_many_dimensions():
    """Where Bessel's function of a high order underflows."""
    mu = np.eye(1000)[0]
    with mp.workdps(40):
        front = 499 * mp.log(50) - 500 * mp.log(2 * mp.pi) - mp.log(mp.besseli(499, 50))
    found = jit(lambda kappa: stats.vonmises_fisher.logpdf(mu, mu, kappa))(50.0)
    assert found == pytest.approx(float(front + 50), rel=1e-12)


@pytest.mark.parametrize("method", ["mean", "var", "std", "entropy", "support"])
def test_parameters_broadcast_and_improper_ones_give_nan(method):
    loc, scale = np.array([0.0, np.nan, 1.0]), np.array([[1.0], [-1.0]])
    expected = getattr(scipy.stats.norm, method)(loc, scale)
    found = jit(getattr(stats.norm, method))(loc, scale)
    for one, other in zip(np.atleast_3d(found), np.atleast_3d(expected), strict=True):
        np.testing.assert_allclose(one, other)


STATISTICS = {
    "skew": lambda s, x: s.skew(x, bias=False),
    "kurtosis": lambda s, x: s.kurtosis(x),
    "zscore": lambda s, x: s.zscore(x),
    "moments": lambda s, x: s.moment(x, [0, 1, 2, 3]),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_equal_numbers_have_no_shape(name):
    for x in (np.repeat(0.1, 10), np.ones(4), np.array([1e10, 1e10 + 1e-5, 1e10]), np.arange(5.0)):
        expected = STATISTICS[name](scipy.stats, x)
        found = jit(lambda x: STATISTICS[name](stats, x))(x)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


def test_lists_hold_traced_values():
    found = jit(lambda a, b: stats.norm.logpdf([a, b], [b, a]))(1.2, 2.3)
    np.testing.assert_allclose(found, scipy.stats.norm.logpdf([1.2, 2.3], [2.3, 1.2]))


def test_curvature_of_a_density_far_out():
    curvature = hessian(lambda x: stats.t.logpdf(x, 3.0))
    for x in (1e80, 1e100):
        np.testing.assert_allclose(curvature(x), 4 / x**2, rtol=1e-14)


@pytest.mark.parametrize(
    ("a", "width"), [(0.0, 1e-8), (5.0, 1e-10), (-3.0, 1e-12), (30.0, 1e-9), (0.3, 1e-2)]
)
def test_a_normal_truncated_to_a_narrow_interval(a, width):
    """A difference of probabilities would cancel, as SciPy's does."""
    b, x = a + width, a + width / 4
    with mp.workdps(40):
        mass = mp.quad(mp.npdf, [mp.mpf(a), mp.mpf(b)])
        level, at_a, at_b = mp.log(mp.npdf(x) / mass), mp.npdf(a) / mass, mp.npdf(b) / mass
        below = mp.quad(mp.npdf, [mp.mpf(a), mp.mpf(x)]) / mass
    logpdf = stats.truncnorm.logpdf
    np.testing.assert_allclose(jit(logpdf)(x, a, b), float(level), rtol=1e-13)
    np.testing.assert_allclose(jit(stats.truncnorm.cdf)(x, a, b), float(below), rtol=1e-12)
    slopes = [float(at_a), -float(at_b)]
    np.testing.assert_allclose(grad(logpdf, argnums=(1, 2))(x, a, b), slopes, rtol=1e-12)


@pytest.mark.parametrize(("a", "width"), [(0.0, 1e-20), (-1e-12, 2e-12), (1e3, 1e-6), (0.3, 1e-2)])
@pytest.mark.parametrize("q", [1e-10, 0.3, 0.75])
def test_quantiles_of_a_normal_truncated_to_a_narrow_interval(q, a, width):
    """The distance from the nearer end has all digits; SciPy's has those of a probability."""
    b = a + width
    with mp.workdps(60):
        low, high, level = mp.mpf(a), mp.mpf(b), mp.mpf(q)

        def excess(t):
            return mp.quad(lambda s: mp.exp(-s * (low + s / 2)), [0, t]) - level * whole

        whole = mp.quad(lambda s: mp.exp(-s * (low + s / 2)), [0, high - low])
        expected = low + mp.findroot(excess, (0, high - low), solver="anderson")
    np.testing.assert_allclose(jit(stats.truncnorm.ppf)(q, a, b), float(expected), rtol=2e-15)
    np.testing.assert_allclose(jit(stats.truncnorm.isf)(q, -b, -a), -float(expected), rtol=2e-15)
