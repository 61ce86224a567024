"""Distributions against SciPy's: a set of methods for each row, on both sides of the support."""

import numpy as np
import pytest
import scipy.stats

from functrans import grad, jit
from functrans.errors import UnsupportedNumPyError
from functrans.scipy import stats
from functrans.scipy.stats import discrete, intervals, positive_axis, real_axis
from functrans.testing import check_grads

CONTINUOUS = {row.name: row for row in (*real_axis.ROWS, *positive_axis.ROWS, *intervals.ROWS)}
DISCRETE = {row.name: row for row in discrete.ROWS}

SHAPES = {
    "truncnorm": (-1.0, 2.0), "loguniform": (0.5, 3.0), "triang": (0.3,), "genextreme": (0.3,),
    "bernoulli": (0.3,), "binom": (5, 0.3), "geom": (0.3,), "nbinom": (2.5, 0.3),
    "betabinom": (5, 2.0, 1.5), "betanbinom": (5, 2.0, 1.5), "hypergeom": (20, 7, 12),
    "randint": (2, 7), "logser": (0.4,), "zipf": (2.5,), "ncx2": (3.0, 2.0),
}  # fmt: skip
METHODS = ("cdf", "sf", "ppf", "isf", "mean", "var", "entropy")
POINTS = np.array([-4.0, -1.0, 0.25, 0.999, 1.5, 2.0, 6.0, np.nan])


def arguments(row):
    shapes = SHAPES.get(row.name, tuple(1.3 + 0.9 * i for i in range(len(row.shapes))))
    return (*shapes, 1) if row.discrete else (*shapes, 0.5, 2.0)


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


@pytest.mark.parametrize("name", [n for n in CONTINUOUS if n != "ncx2"])
def test_log_densities_have_derivatives(name):
    args = arguments(CONTINUOUS[name])
    inside = getattr(scipy.stats, name).ppf(np.array([0.2, 0.7]), *args)
    check_grads(getattr(stats, name).logpdf, (inside, *args), order=1)


@pytest.mark.parametrize("name", ["expon", "gamma", "lognorm", "invgamma", "uniform"])
def test_outside_of_the_support_nothing_moves(name):
    x = np.array([-3.0, -1e-300, 0.0, 1.5, np.inf, -np.inf])
    shapes = (1.0,) * len(CONTINUOUS[name].shapes)
    moved = grad(lambda x: np.sum(np.exp(getattr(stats, name).logpdf(x, *shapes))))(x)
    assert not np.isnan(moved).any()
    assert (moved[[0, 1, 4, 5]] == 0).all()


def test_a_frozen_distribution():
    slope = grad(lambda mu: stats.norm(mu, 2.0).logpdf(1.0))(0.3)
    assert slope == pytest.approx(0.175)


def test_what_to_write_instead_of_drawing():
    with pytest.raises(UnsupportedNumPyError, match=r"^scipy\.stats\.norm\.rvs .*functrans\.r"):
        grad(lambda mu: stats.norm.rvs(mu))(0.0)
