"""Distributions of NaN: where a value is NaN, so are its slopes."""

import numpy as np
import pytest

from functrans import grad, jacfwd, jacrev, jit, vmap
from functrans.errors import NotDifferentiableError, UnsupportedNumPyError
from functrans.scipy import stats
from tests.scipy.stats.test_distribution import CONTINUOUS, DISCRETE, arguments

ROWS = [*CONTINUOUS.values(), *DISCRETE.values()]
METHODS = ("cdf", "sf", "logcdf", "logsf", "ppf", "isf")
COMPILED = ("logpdf", "logpmf", "cdf")


def tables(row, method):
    """Arguments of a method: usual ones, and the first of these with NaN for each of them."""
    shapes, (loc, *scale) = np.split(np.array(arguments(row), float), [len(row.shapes)])
    if method in ("ppf", "isf"):
        firsts = np.array([0.3, 0.45, 0.8])
    else:
        middle = float(row.within(*shapes))
        first = middle + np.array([0.0, 1.0] if row.discrete else [0.01, 0.04, 0.2])
        firsts = loc + first * (scale[0] if scale else 1.0)
    usual = np.array([[x, *shapes, loc, *scale] for x in firsts])
    others = usual[0] * np.where(np.arange(usual.shape[1]) > 0, 1.01, 1.0)
    unusual = np.where(np.eye(usual.shape[1], dtype=bool), np.nan, usual[0])
    return np.vstack([usual, others]) if not row.discrete else usual, unusual


def check(values, slopes, ordinary, name):
    assert np.isnan(values).all(), (name, values)
    # a slope that does not depend on what is NaN is that of numbers
    alike = np.isclose(slopes[:, None], ordinary, rtol=1e-9, atol=0).any(1)
    assert (np.isnan(slopes) | alike).all(), (name, slopes, ordinary)
    assert np.isnan(slopes).any(), name


@pytest.mark.few(4)
@pytest.mark.parametrize("jacobian", [jacfwd, jacrev])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_slopes_of_nan_are_nan(row, jacobian):
    densities = ("logpmf", "pmf") if row.discrete else ("logpdf", "pdf")
    for name in densities + METHODS:
        method = getattr(getattr(stats, row.name), name)
        usual, unusual = tables(row, name)

        def values_and_slopes(args, method=method):
            value = method(*args)
            return value, jacobian(lambda args: method(*args))(args)

        try:
            numbers, ordinary = vmap(values_and_slopes)(usual)
        except (UnsupportedNumPyError, NotDifferentiableError):
            continue
        if name in densities:  # a point outside would have slope 0
            assert np.isfinite(numbers).all()
        compiled = name in COMPILED and jacobian is jacrev
        for transform in (lambda f: f, jit)[: 1 + compiled]:
            check(*transform(vmap(values_and_slopes))(unusual), ordinary, name)


def test_missing_data_are_left_out():
    """The mask of a sum without NaN is carried past the slopes that are NaN."""
    x, mu = np.array([0.3, np.nan, 1.5]), 0.2
    for transform in (lambda f: f, jit):
        for logpdf in (lambda mu: stats.norm.logpdf(x, mu), lambda mu: stats.norm(mu).logpdf(x)):
            slope = transform(grad(lambda mu, f=logpdf: np.nansum(f(mu))))(mu)
            assert slope == pytest.approx(np.nansum(x - mu))
            kept = transform(grad(lambda mu, f=logpdf: np.sum(np.where(np.isnan(x), 0, f(mu)))))(mu)
            assert kept == pytest.approx(np.nansum(x - mu))
