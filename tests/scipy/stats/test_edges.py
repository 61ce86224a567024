"""Distributions at the ends of their support, at improper shapes, and where numbers underflow."""

import mpmath as mp
import numpy as np
import pytest
import scipy.stats

from functrans import grad, jacfwd, jit, value_and_grad, vmap
from functrans.errors import UnsupportedNumPyError
from functrans.scipy import stats


def test_skellam_of_very_many():
    """Where SciPy's Bessel function is NaN."""
    k = np.array([0.0, 3e6, -2e6])
    with mp.workdps(40):
        expected = [mp.besseli(abs(int(n)), 2 * 10**12) * mp.exp(-2 * 10**12) for n in k]
    found = jit(lambda k: stats.skellam.pmf(k, 1e12, 1e12))(k)
    np.testing.assert_allclose(found, np.array(expected, float), rtol=1e-9)


def test_invgauss_beyond_the_digits_of_the_point():
    x, mu = 1e17, 3.0
    with mp.workdps(60):
        root = mp.sqrt(mp.mpf(x))
        p, q = (mp.mpf(x) / mu - 1) / root, (mp.mpf(x) / mu + 1) / root
        # of the two Mills ratios, 1 / p - 1 / p**3 and so on: their leading terms
        expected = -p * p / 2 - mp.log(2 * mp.pi) / 2 + mp.log(1 / p - 1 / q)
    assert jit(stats.invgauss.logsf)(x, mu) == pytest.approx(float(expected), rel=1e-14)
    half = jit(stats.invgauss.logsf)(np.float32(1e10), np.float32(mu))
    assert half == pytest.approx(scipy.stats.invgauss.logsf(1e10, mu), rel=1e-5)


def test_a_density_that_is_nearly_a_box():
    """Where the power of a point, of which the probability is a function, underflows."""
    x, beta = np.array([-0.5, -0.01, 0.3]), 1e4
    cdf = stats.gennorm.cdf
    np.testing.assert_allclose(jit(cdf)(x, beta), 0.5 + 0.5 * x, rtol=1e-4)
    np.testing.assert_allclose(jit(jacfwd(lambda x: cdf(x, beta)))(x).diagonal(), 0.5, rtol=1e-4)
    slope = 0.5 * x * 0.5772156649 / beta**2
    np.testing.assert_allclose(jit(jacfwd(lambda b: cdf(x, b)))(beta), -slope, rtol=1e-3)


FAR_OUT = {  # where a share rounds to 0 or 1, and an exponential function overflows on the way
    "gumbel_r": (-1e4, ()), "gumbel_l": (1e4, ()), "moyal": (-1e4, ()), "hypsecant": (1e4, ()),
    "loggamma": (1e4, (1.5,)), "weibull_min": (1e10, (50.0,)), "gennorm": (10.0, (1e3,)),
}  # fmt: skip


@pytest.mark.parametrize("transform", [lambda f: f, jit])
@pytest.mark.parametrize("name", FAR_OUT)
def test_slopes_vanish_far_out(name, transform):
    x, shapes = FAR_OUT[name]
    for method in ("cdf", "sf", "pdf"):
        f = getattr(getattr(stats, name), method)
        with np.errstate(over="ignore"):
            slopes = [transform(of(f))(x, *shapes) for of in (jacfwd, grad)]
        np.testing.assert_array_equal(slopes, 0.0)


ENDS = {  # a point, shapes, and the density and the slope of its logarithm, from the formula
    "genpareto": (1.0, (-1.0,), 1.0, 0.0),
    "genextreme": (1.0, (1.0,), 1.0, 1.0),
    "genhalflogistic": (1.0, (1.0,), 2.0, 2.0),
    "fisk": (0.0, (1.0,), 1.0, -2.0),
    "exponweib": (0.0, (0.5, 2.0), 1.0, 0.0),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_end_where_a_power_vanishes(name):
    x, shapes, value, slope = ENDS[name]
    row = getattr(stats, name)
    assert jit(row.pdf)(x, *shapes) == value
    assert jit(grad(row.logpdf))(x, *shapes) == pytest.approx(slope, abs=1e-15)


IMPROPER = {
    "skewnorm": (np.inf,), "pearson3": (np.nan,), "tukeylambda": (np.inf,),
    "johnsonsu": (np.nan, 1.0), "binom": (2.5, 0.3), "betabinom": (2.5, 1.0, 1.0),
    "betanbinom": (2.5, 1.0, 1.0), "hypergeom": (5.0, 3.0, -1.0), "randint": (0.5, 3.0),
    "boltzmann": (1.0, 2.5), "nhypergeom": (20.0, 7.5, 2.0),
    "nchypergeom_fisher": (5.0, 3.0, 2.5, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", IMPROPER)
def test_improper_shapes_give_nan_at_every_point(name):
    row, points = getattr(stats, name), np.array([-np.inf, -3.0, 0.0, 1.0, 3.0])
    method = row.logpmf if hasattr(getattr(scipy.stats, name), "pmf") else row.logpdf
    assert np.isnan(jit(lambda x: method(x, *IMPROPER[name]))(points)).all()


def test_no_trials():
    """Where the only outcome is both ends of the support."""
    for method, expected in {"cdf": [0, 1, 1], "sf": [1, 0, 0]}.items():
        found = jit(getattr(stats.binom, method))(np.array([-1.0, 0.0, 1.0]), 0.0, 1.0)
        np.testing.assert_array_equal(found, expected)


def test_no_failures_to_wait_for():
    found = jit(stats.nhypergeom.pmf)(np.arange(3.0), 20, 7, 0)
    np.testing.assert_array_equal(found, scipy.stats.nhypergeom.pmf(np.arange(3.0), 20, 7, 0))


def test_a_failure_that_comes_late():
    """Where the logarithms of two gamma functions would cancel."""
    k, n, p = 1e15, 0.4, 1e-10
    with mp.workdps(40):
        ways = mp.loggamma(k + mp.mpf(n)) - mp.loggamma(n) - mp.loggamma(k + 1)
        expected = ways + n * mp.log(p) + k * mp.log1p(-mp.mpf(p))
    assert jit(stats.nbinom.logpmf)(k, n, p) == pytest.approx(float(expected), rel=1e-13)


@pytest.mark.parametrize("method", ["logpdf", "sf", "logsf", "ppf", "mean"])
def test_single_precision_is_widened(method):
    """SciPy's results are in float64; those of traced values were, with the digits of float32."""
    single = (np.float32([0.3, 0.7, 0.9]), np.float32(2.3), np.float32(0.1), np.float32(0.02))
    double = [np.float64(x) for x in single]
    single, double = (x[1:] if method == "mean" else x for x in (single, double))
    found = jit(getattr(stats.gamma, method))(*single)
    assert found.dtype == np.float64
    expected = getattr(scipy.stats.gamma, method)(*double)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    change = grad(lambda loc: np.sum(getattr(stats.norm, method)(*single[:-2], loc)))(single[-2])
    assert change.dtype == np.float32


@pytest.mark.parametrize("name", ["geninvgauss", "genhyperbolic", "johnsonsb"])
def test_a_shape_that_is_nan(name):
    """SciPy's are NaN on either side of the support, too, and of the shape of the parameters."""
    others = (1.5, 0.5) if name == "genhyperbolic" else (1.5,)
    x, shapes = -1.0, (np.array([np.nan, 0.7]), *others)
    for method, operands in (("logpdf", (x, *shapes)), ("support", shapes)):
        found, expected = (getattr(getattr(of, name), method) for of in (stats, scipy.stats))
        np.testing.assert_allclose(jit(found)(*operands), expected(*operands))


def test_infinite_ends_are_not_compared_with():
    x = np.array([-np.inf, -1.0, np.inf, np.nan])
    logpdf = jit(stats.norm.logpdf)
    assert "greater" not in str(logpdf.lower(x).graph())
    np.testing.assert_allclose(logpdf(x), scipy.stats.norm.logpdf(x), rtol=1e-15)


@pytest.mark.parametrize(
    ("name", "shapes", "front", "power"),
    [
        ("cauchy", (), -np.log(np.pi), 2),
        ("halfcauchy", (), np.log(2 / np.pi), 2),
        ("foldcauchy", (1.0,), np.log(2 / np.pi), 2),
        ("skewcauchy", (0.5,), np.log(1.5**2 / np.pi), 2),
        ("t", (3.0,), np.log(6 * np.sqrt(3) / np.pi), 4),
    ],
)
def test_squares_do_not_overflow(name, shapes, front, power):
    logpdf = getattr(stats, name).logpdf
    for x in 1e9, 1e150, 1e200, 1e308:
        found = jit(lambda x: logpdf(x, *shapes))(x)
        assert found == pytest.approx(front - power * np.log(x), rel=1e-15)
        assert jit(grad(lambda x: logpdf(x, *shapes)))(x) == pytest.approx(-power / x, rel=1e-14)
    if name in ("cauchy", "t"):
        curvature = grad(grad(lambda x: logpdf(x, *shapes)))(0.0)
        assert curvature == pytest.approx(-2.0 if name == "cauchy" else -4 / 3)


HUGE = {  # points and shapes beside the logarithm of the density, whose terms are larger than it
    "poisson": ((1.00005e10, 1e10), lambda k, m: k * mp.log(m) - m - mp.loggamma(k + 1)),
    "binom": (
        (4e6, 1e7, 0.4), lambda k, n, p: mp.log(mp.binomial(n, k) * p**k) + (n - k) * mp.log1p(-p)
    ),
    "nbinom": (
        (1e9, 1e9, 0.5), lambda k, n, p: (
            mp.log(n / (n + k)) + mp.log(mp.binomial(n + k, k) * p**n) + k * mp.log1p(-p)
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HUGE)
def test_densities_of_huge_numbers(name):
    """Some of SciPy's are off by up to 5e-5."""
    point, exactly = HUGE[name]
    with mp.workdps(40):
        expected = float(exactly(*map(mp.mpf, point)))
    distribution = getattr(stats, name)
    log = distribution.logpmf if hasattr(getattr(scipy.stats, name), "pmf") else distribution.logpdf
    assert jit(log)(*point) == pytest.approx(expected, rel=2e-12, abs=0)
    assert value_and_grad(log)(*point)[0] == pytest.approx(expected, rel=2e-12, abs=0)


@pytest.mark.parametrize("shape", [1e-300, 1e-12, 1e-3])
def test_densities_of_tiny_shapes(shape):
    """Their logarithms are as accurate as those of the shape."""
    x = np.array([1e-5, 0.3, 12.0])
    for name, a in (("gamma", shape), ("invgamma", shape), ("chi2", 2 * shape)):
        expected = getattr(scipy.stats, name).logpdf(x, a)
        np.testing.assert_allclose(jit(getattr(stats, name).logpdf)(x, a), expected, rtol=1e-13)


def test_means_that_a_symmetry_shows():
    assert grad(lambda loc: stats.vonmises.mean(2.0, loc, 3.0))(0.3) == 1
    assert np.isnan(jit(stats.cauchy.mean)(1.0, 2.0)) and np.isnan(jit(stats.cauchy.var)(1.0, 2.0))


def test_a_statistic_of_compiled_code_is_refused():
    with pytest.raises(UnsupportedNumPyError, match=r"shapiro .* write jarque_bera or normaltest"):
        vmap(stats.shapiro)(np.ones((2, 5)))


def test_no_probability_is_less_than_0():
    """That of a skewed normal distribution is a difference, of which rounding leaves the rest."""
    x = np.array([-36.0, -19.0, -8.0, -2.0])
    for share in (jit(stats.skewnorm.cdf)(x, 4.0), jit(stats.skewnorm.sf)(-x, -4.0)):
        assert (share >= 0).all()
        np.testing.assert_allclose(share, scipy.stats.skewnorm.cdf(x, 4.0), atol=1e-16)


@pytest.mark.parametrize(("x", "density", "slope"), [(1e-300, 0, 0), (1e200, None, -0.5e-200)])
def test_slopes_of_levy_where_a_quotient_overflows(x, density, slope):
    density = scipy.stats.levy.pdf(x) if density is None else density
    np.testing.assert_allclose(jit(stats.levy.sf)(1e308), scipy.stats.levy.sf(1e308), rtol=1e-12)
    for of in (jacfwd, grad):
        found = [jit(of(f))(x) for f in (stats.levy.cdf, stats.levy.logsf)]
        np.testing.assert_allclose(found, [density, slope], rtol=1e-12)
