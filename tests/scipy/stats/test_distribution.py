"""Distributions against SciPy: all methods of each distribution, inside and outside the support."""

import mpmath
import numpy as np
import pytest
import scipy.stats

from functrans import grad, jit, value_and_grad
from functrans.errors import NotDifferentiableError, UnsupportedNumPyError
from functrans.scipy import stats
from functrans.scipy.stats import (
    densities,
    derived,
    discrete,
    intervals,
    positive_axis,
    real_axis,
)
from functrans.testing import check_grads
from tests.scipy.comparison import traced

CONTINUOUS = {
    row.name: row
    for module in (real_axis, positive_axis, intervals, densities, derived)
    for row in module.ROWS
}
DISCRETE = {row.name: row for row in discrete.ROWS}

SHAPES = {
    "truncnorm": (-1.0, 2.0), "loguniform": (0.5, 3.0), "triang": (0.3,), "genextreme": (0.3,),
    "bernoulli": (0.3,), "binom": (5, 0.3), "geom": (0.3,), "nbinom": (2.5, 0.3),
    "betabinom": (5, 2.0, 1.5), "betanbinom": (5, 2.0, 1.5), "hypergeom": (20, 7, 12),
    "erlang": (2.0,), "genhyperbolic": (0.7, 1.5, 0.4), "norminvgauss": (1.5, 0.4),
    "skewcauchy": (0.3,), "dpareto_lognorm": (0.3, 1.2, 1.7, 2.1), "pearson3": (0.8,),
    "tukeylambda": (0.3,),
    "trapezoid": (0.3, 0.6), "truncweibull_min": (1.4, 0.3, 2.0), "wrapcauchy": (0.3,),
    "truncpareto": (1.3, 4.0), "boltzmann": (0.4, 6), "nhypergeom": (20, 7, 5),
    "randint": (2, 7), "logser": (0.4,), "zipf": (2.5,), "ncx2": (3.0, 2.0),
}  # fmt: skip
METHODS = ("cdf", "sf", "ppf", "isf", "mean", "var", "entropy")
POINTS = np.array([-4.0, -1.0, 0.25, 0.999, 1.5, 2.0, 6.0, np.nan])


def arguments(row):
    shapes = SHAPES.get(row.name, tuple(1.3 + 0.9 * i for i in range(len(row.shapes))))
    return (*shapes, 1) if row.discrete else (*shapes, 0.5, 2.0)


@pytest.mark.few(6)
@pytest.mark.parametrize("row", [*CONTINUOUS.values(), *DISCRETE.values()], ids=lambda r: r.name)
def test_methods_are_scipys(row):
    ours, theirs = getattr(stats, row.name), getattr(scipy.stats, row.name)
    points = np.arange(-2.0, 9) if row.discrete else POINTS
    log = "logpmf" if row.discrete else "logpdf"
    names = [log, *(name for name in METHODS if getattr(row, name) is not None)]
    if row.discrete:
        names = [name for name in names if name not in ("ppf", "isf")]
    first = {"ppf": (np.array([0, 0.3, 0.9, 1, 1.5]),), "isf": (np.array([0, 0.3, 0.9, 1, 1.5]),)}
    first |= dict.fromkeys(("mean", "var", "entropy"), ())
    args = arguments(row)

    def all_of(module):
        return [getattr(module, name)(*first.get(name, (points,)), *args) for name in names]

    traced = jit(lambda *args: [
        getattr(ours, name)(*first.get(name, (points,)), *args) for name in names
    ])(*args)  # fmt: skip
    for name, found, expected in zip(names, traced, all_of(theirs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13, err_msg=name)


ORDERS_FIXED = ("ncx2", "genhyperbolic", "geninvgauss")


@pytest.mark.filterwarnings("ignore:The shape parameter of the erlang")
@pytest.mark.parametrize("name", [n for n in CONTINUOUS if n not in ORDERS_FIXED])
def test_log_densities_have_derivatives(name):
    args = arguments(CONTINUOUS[name])
    inside = getattr(scipy.stats, name).ppf(np.array([0.2, 0.7]), *args)
    check_grads(getattr(stats, name).logpdf, (inside, *args), order=1)


@pytest.mark.parametrize("name", ["genhyperbolic", "geninvgauss"])
def test_but_not_in_the_order_of_a_bessel_function(name):
    order, *others = arguments(CONTINUOUS[name])
    logpdf = getattr(stats, name).logpdf
    check_grads(lambda x, *others: logpdf(x, order, *others), (1.7, *others), order=1)
    with pytest.raises(NotDifferentiableError, match="hold the order fixed"):
        grad(logpdf, argnums=1)(1.7, order, *others)


@pytest.mark.parametrize("name", [row.name for row in (*densities.ROWS, *derived.ROWS)])
def test_at_the_ends_of_a_support(name):
    args = arguments(CONTINUOUS[name])
    ends = np.array(getattr(scipy.stats, name).support(*args))
    ends = ends[np.isfinite(ends)]
    with np.errstate(all="ignore"):
        found = traced(getattr(stats, name).pdf)(ends, *args)
        expected = getattr(scipy.stats, name).pdf(ends, *args)
    assert not np.isnan(found).any()
    is_known = ~np.isnan(expected)  # SciPy has NaN at some infinities and infinite densities
    np.testing.assert_allclose(found[is_known], expected[is_known], atol=1e-13)


@pytest.mark.parametrize("name", ["expon", "gamma", "lognorm", "invgamma", "uniform"])
def test_outside_of_the_support_nothing_moves(name):
    x = np.array([-3.0, -1e-300, 0.0, 1.5, np.inf, -np.inf])
    shapes = (1.0,) * len(CONTINUOUS[name].shapes)
    moved = grad(lambda x: np.sum(np.exp(getattr(stats, name).logpdf(x, *shapes))))(x)
    assert not np.isnan(moved).any()
    assert (moved[[0, 1, 4, 5]] == 0).all()


@pytest.mark.parametrize("skew", [0.0, 1e-7, -0.01, 0.56, 0.57, -3.0])
def test_pearsons_third_is_smooth_where_it_is_normal(skew):
    x = np.array([-0.4, 0.3, 0.6])
    slopes = grad(lambda s: np.sum(stats.pearson3.logpdf(x, s)))(skew)
    with mpmath.workdps(60):

        def logpdf(s, x):
            a = 4 / (s * s)
            return (
                mpmath.log(abs(2 / s))
                + (a - 1) * mpmath.log(a + 2 * x / s)
                - (a + 2 * x / s)
                - mpmath.loggamma(a)
            )

        s = mpmath.mpf(skew) or mpmath.mpf("1e-18")
        expected = sum(mpmath.diff(lambda s, v=v: logpdf(s, v), s, h=abs(s) / 10**12) for v in x)
    np.testing.assert_allclose(slopes, float(expected), rtol=1e-9)


def test_a_frozen_distribution():
    slope = grad(lambda mu: stats.norm(mu, 2.0).logpdf(1.0))(0.3)
    assert slope == pytest.approx(0.175)


def test_what_to_write_instead_of_drawing():
    with pytest.raises(UnsupportedNumPyError, match=r"^scipy\.stats\.norm\.rvs .*functrans\.r"):
        grad(lambda mu: stats.norm.rvs(mu))(0.0)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("nct.logpdf", lambda df: stats.nct.logpdf(0.3, df, 2.0)),
        ("nct", lambda df: stats.nct(df, 2.0).logpdf(0.3)),
    ],
)
def test_a_distribution_without_a_traced_form(name, call):
    assert call(1.5) == scipy.stats.nct.logpdf(0.3, 1.5, 2.0)
    with pytest.raises(UnsupportedNumPyError, match=rf"^scipy\.stats\.{name} is not .*special$"):
        grad(call)(1.5)


# distributions whose log-density needs a function of SciPy's that has no compiled form
HOSTED = {"ncx2", "skellam", "zipf", "genhyperbolic", "geninvgauss", "tukeylambda"}


@pytest.mark.few(40)
@pytest.mark.parametrize("name", [n for n in (*CONTINUOUS, *DISCRETE) if n not in HOSTED])
def test_log_densities_and_their_slopes_are_compiled_whole(name):
    row = {**CONTINUOUS, **DISCRETE}[name]
    density = getattr(getattr(stats, name), "logpmf" if row.discrete else "logpdf")
    args = arguments(row)

    def total(x, *args):
        return np.sum(density(x, *args))

    slope = value_and_grad(total, argnums=tuple(range(1, 1 + len(row.shapes))) or 0)
    schedule = str(jit(slope).lower(np.array([0.4, 0.7, 1.0]), *map(float, args)).schedule())
    assert "call NumPy" not in schedule
