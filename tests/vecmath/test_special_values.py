"""Zeros, infinities, NaN, subnormal numbers and the ends of domains, against NumPy and SciPy."""

import itertools

import numpy as np
import pytest
import scipy.special

from tests.vecmath.reference import DTYPES, apply

UNARY = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cos": np.cos,
    "cosh": np.cosh,
    "digamma": scipy.special.digamma,
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "logit": scipy.special.logit,
    "sigmoid": scipy.special.expit,
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}
BINARY = {
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "logaddexp": np.logaddexp,
    "logaddexp2": np.logaddexp2,
    "power": np.power,
    "xlogy": scipy.special.xlogy,
}


def specials(dtype):
    info = np.finfo(dtype)
    subnormal = info.smallest_subnormal
    positive = [0, subnormal, info.tiny, 1e-5, 0.5, 1, 1.5, 2, 3, 1e5, info.max, np.inf]
    return np.array([*positive, *(-x for x in positive), np.nan], dtype)


def assert_same(function, got, expected, *operands):
    """Equal up to 4 units in the last place, zeros and infinities by sign, NaN where NaN."""
    eps = np.finfo(got.dtype).eps
    cancels = function in ("digamma", "logaddexp", "logaddexp2")
    close = np.isclose(got, expected, rtol=4 * eps, atol=eps if cancels else 0)
    # a subnormal number may be one off
    close |= np.abs(got - expected) <= np.finfo(got.dtype).smallest_subnormal
    signs = (np.signbit(got) == np.signbit(expected)) | (expected != 0)
    right = np.where(np.isnan(expected), np.isnan(got), (close | (got == expected)) & signs)
    assert right.all(), [
        (*(float(x[k]) for x in operands), float(got[k]), float(expected[k]))
        for k in np.flatnonzero(~right)
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    x = specials(dtype)
    with np.errstate(all="ignore"):
        assert_same(name, apply(name, x), UNARY[name](x), x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    x, y = np.array(list(itertools.product(specials(dtype), repeat=2)), dtype).T.copy()
    with np.errstate(all="ignore"):
        assert_same(name, apply(name, x, y), BINARY[name](x, y), x, y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lgamma_as_c99_says(dtype):
    x = np.array([0.0, -0.0, 1, 2, -1, -2, np.inf, -np.inf, np.nan], dtype)
    expected = np.array([np.inf, np.inf, 0, 0, np.inf, np.inf, np.inf, np.inf, np.nan], dtype)
    assert np.array_equal(apply("lgamma", x), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_ndtr(dtype):
    x = np.array([np.inf, -np.inf, np.nan, 0.0, 100, -1e10], dtype)
    expected = np.array([0, -np.inf, np.nan, np.log(0.5), 0, -5e19], dtype)
    np.testing.assert_allclose(apply("log_ndtr", x), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softplus(dtype):
    x = np.array([np.inf, -np.inf, np.nan, 0.0, 1000, -1000], dtype)
    expected = np.array([np.inf, 0, np.nan, np.log(2), 1000, 0], dtype)
    np.testing.assert_allclose(apply("softplus", x), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_at_the_ends_of_the_range(dtype):
    info = np.finfo(dtype)
    last = np.nextafter(np.log(info.max), dtype(0))
    x = np.array([last, last * dtype(1 + 1e-6)], dtype)
    got = apply("exp", x)
    assert np.isfinite(got[0]) and got[1] == np.inf
    # the hyperbolic sine is half of that
    got = apply("sinh", x)
    assert np.isfinite(got).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["beta", "betaln"])
def test_beta_of_infinite_operands(name, dtype):
    """Far on the right, its sign is that of the gamma function of the other operand."""
    a = np.array([-0.5, -1.43, -8.6, -1, 0, 2, np.inf, 10, -3, 3], dtype)
    b = np.array([np.inf] * 7 + [-np.inf] * 3, dtype)
    expected = getattr(scipy.special, name)(a, b)
    np.testing.assert_array_equal(apply(name, a, b), expected)
    np.testing.assert_array_equal(apply(name, b, a), expected)
