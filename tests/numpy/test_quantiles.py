"""Quantiles by every method, for known and traced levels."""

import warnings

import numpy as np
import pytest

from functrans import grad, jit, testing, vmap
from functrans.numpy.quantiles import _PLACES

rng = np.random.default_rng(0)
ARRAYS = {
    "vector": rng.normal(size=5),
    "matrix": rng.normal(size=(3, 4)),
    "integers": np.array([3, 1, 7, 0, 2, 2]),
    "one": np.array([2.5]),
    "single": rng.normal(size=6).astype(np.float32),
    "NaN": np.array([1.0, np.nan, 3.0, 0.5]),
}
LEVELS = [1, 0.3, np.float32(0.4), np.array([[0.25], [1.0]])]


@pytest.mark.parametrize("method", ["nearest", "linear"])
def test_the_quantile_of_no_integers_is_nan(method):
    expected = np.nanquantile(np.zeros(0, int), 0.3, method=method)
    found = jit(lambda x: np.nanquantile(x, 0.3, method=method))(np.zeros(0, int))
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("method", _PLACES)
@pytest.mark.parametrize("x", ARRAYS.values(), ids=ARRAYS)
def test_the_same_as_numpy(x, method):
    for function in (np.quantile, np.nanquantile):
        for q in LEVELS:
            for options in [{}] if x.ndim == 1 else [{"axis": 0}, {"axis": -1, "keepdims": True}]:
                expected = function(x, q, method=method, **options)
                known = vmap(lambda x, f=function, q=q, o=options: f(x, q, method=method, **o))
                traced = vmap(
                    lambda x, q, f=function, o=options: f(x, q, method=method, **o), (0, None)
                )
                for found in (known(x[None])[0], traced(x[None], q)[0]):
                    rtol = 1e-6 if x.dtype == np.float32 else 1e-12
                    np.testing.assert_allclose(found, expected, rtol=rtol)
                known_dtype = np.asarray(known(x[None])).dtype
                assert known_dtype == np.asarray(expected).dtype


@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_of_narrow_integers(dtype):
    least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.array([[least, greatest, least, greatest, 0]], dtype)

    def function(x):
        return np.quantile(x, 0.3, axis=-1)

    # NumPy's own overflow
    expected = function(x.astype(np.int64))
    for found in (jit(function)(x), vmap(function)(x), jit(vmap(function))(x)):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_median_of_complex_numbers_one_of_which_is_nan():
    nan = np.nan
    rows = [[complex(nan, 1), 1, 2], [3, complex(0, nan), 5], [1 + 2j, 3, 2]]
    for x in (np.array(rows), np.zeros((2, 0), complex)):
        with np.errstate(invalid="ignore"), warnings.catch_warnings(action="ignore"):
            expected = np.median(x, axis=1)
        found = jit(lambda x: np.median(x, axis=1))(x)
        np.testing.assert_array_equal(found.real, expected.real)
        np.testing.assert_array_equal(found.imag, expected.imag)


@pytest.mark.parametrize("method", _PLACES)
def test_derivatives(method):
    testing.check_grads(lambda x: np.quantile(x, 0.33, method=method), (ARRAYS["vector"],), order=1)


def test_a_level_is_an_argument_like_others():
    x = ARRAYS["vector"]
    assert jit(np.percentile)(x, 30) == np.percentile(x, 30)
    np.testing.assert_allclose(
        vmap(np.quantile, (None, 0))(x, LEVELS[3]), np.quantile(x, LEVELS[3])
    )
    testing.check_grads(lambda q: np.quantile(x, q), (0.33,), order=1)
    found = jit(lambda q: np.quantile(x, [q, 0.5]))(0.3)
    np.testing.assert_allclose(found, np.quantile(x, [0.3, 0.5]))
    ordered = np.sort(x)
    assert grad(np.quantile, argnums=1)(x, 0.33) == pytest.approx(4 * (ordered[2] - ordered[1]))


def test_a_traced_level_out_of_range_is_nan():
    assert np.isnan(jit(np.quantile)(ARRAYS["vector"], 1.5))


def test_an_unknown_method_is_named():
    with pytest.raises(ValueError, match="'median' is not a valid method"):
        jit(lambda x: np.quantile(x, 0.5, method="median"))(ARRAYS["vector"])
