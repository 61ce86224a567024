"""Histograms: NumPy's counts and edges; derivatives with respect to weights and edges."""

from functools import partial

import numpy as np
import pytest

from functrans import grad, jit, vmap
from functrans import numpy as fnp
from functrans.errors import UnsupportedNumPyError
from functrans.testing import check_grads
from tests.numpy.attempts import leaves

rng = np.random.default_rng(8)
X, Y, W = rng.normal(size=300), rng.normal(size=300), rng.uniform(size=300)
EDGES = np.array([-1.0, -0.5, 0.0, 2.0])
ON_EDGES = np.array([-1.0, -0.5, 0.0, 0.0, 2.0, 2.0, 2.1, -1.1, np.nan])

CALLS = [
    (lambda x: np.histogram(x), X),
    (lambda x: np.histogram(x, 5, (-1, 1), weights=W), X),
    (lambda x: np.histogram(x, 6, density=True, weights=W), X),
    (lambda x: np.histogram(x, 6, (-3, 3), density=True), X),
    (lambda x: np.histogram(x, EDGES), ON_EDGES),
    (lambda x: np.histogram(x, EDGES, weights=np.arange(9)), ON_EDGES),
    (lambda x: np.histogram(x, 4), rng.integers(0, 9, 17)),
    (lambda x: np.histogram(x, 3), np.zeros(2)),
    (lambda x: np.histogram(x, 3), np.zeros(0)),
    (lambda x: np.histogram(x.reshape(30, 10), 3, (0, 1)), X),
    (lambda x: np.histogram_bin_edges(x, 7), X),
    (lambda x: np.histogram2d(x, Y, 4), X),
    (lambda x: np.histogram2d(x, Y, [3, EDGES], density=True, weights=W), X),
    (lambda x: np.histogram2d(x, Y, EDGES), X),
    (lambda x: np.histogram2d(x, Y, 4, density=True), X.astype(np.float32)),
    (lambda x: np.histogramdd([x, Y, x * Y], 3), X),
    (lambda x: np.histogramdd(x.reshape(150, 2), (3, 2), [(-1, 1), (0, 1)]), X),
]


@pytest.mark.parametrize(("call", "x"), CALLS, ids=range(len(CALLS)))
def test_counts_and_edges(call, x):
    expected = leaves(call(x))
    batched = [out[1] for out in leaves(vmap(call)(np.stack([x, x])))]
    for found in (leaves(jit(call)(x)), batched):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_derivatives():
    def of_weights(w):
        counted, _ = np.histogram(X, 6, density=True, weights=w)
        cells, *_ = np.histogram2d(X, Y, 3, weights=w)
        return counted, cells

    check_grads(of_weights, (W,), order=1, max_elements=4)
    check_grads(lambda x: np.histogram_bin_edges(x, 4), (X[:5],), order=1)
    assert not grad(lambda x: np.histogram(x, 4, (-1.0, 1.0))[0].sum() * 1.0)(X).any()


def test_a_number_of_bins_that_depends_on_values_is_refused():
    with pytest.raises(UnsupportedNumPyError, match=r"bins='auto'.*say how many bins"):
        grad(lambda x: np.histogram(x, "auto")[0].sum() * x.sum())(X)


def test_weights_of_nothing_are_counted_as_numpy_does():
    for x, w in ((np.zeros(0, int), np.zeros(0)), (np.array([1, 1]), np.ones(2))):
        expected = np.bincount(x, w, minlength=3)
        found = jit(lambda x, w: np.bincount(x, w, minlength=3))(x, w)
        np.testing.assert_array_equal(found, expected, strict=True)


def of_a_column(x, bins, range):
    return np.histogramdd(x[:, None], bins, [range])


@pytest.mark.parametrize("function", [np.histogram, of_a_column])
@pytest.mark.parametrize("bounds", [None, (0, 2), (0.1, 0.3), (1, 1), tuple(np.float32([0, 2]))])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64])
@pytest.mark.parametrize("size", [0, 2, 17])
def test_edges_have_numpys_dtype(size, dtype, bounds, function):
    x = (3 * np.random.default_rng(size).normal(size=size)).astype(dtype)
    of_data = partial(function, bins=3, range=bounds)
    for one, other in zip(leaves(of_data(x)), leaves(jit(of_data)(x)), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.int64, np.int8])
@pytest.mark.parametrize("size", [{"minlength": 4}, {"length": 4}], ids=str)
@pytest.mark.parametrize("transform", [jit, lambda f: lambda x: vmap(f)(x[None])])
def test_negative_numbers_are_not_counted_from_the_end(dtype, size, transform):
    count = transform(lambda x: fnp.bincount(x, **size))
    np.testing.assert_array_equal(count(np.array([0, 3, 3], dtype)).ravel(), [1, 0, 0, 2])
    with pytest.raises(ValueError, match="must have no negative elements"):
        count(np.array([0, -1, 3], dtype))


@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
@pytest.mark.parametrize("transform", [jit, lambda f: lambda x: vmap(f)(x[None])])
def test_numbers_beyond_the_traced_counts_are_answered_in_words_of_bincount(dtype, transform):
    count = transform(lambda x: fnp.bincount(x, minlength=4))
    np.testing.assert_array_equal(count(np.array([0, 3, 3], dtype)).ravel(), [1, 0, 0, 2])
    words = (
        r"np\.bincount counts traced numbers below minlength=4, and found 7: pass a larger minlen"
    )
    with pytest.raises(ValueError, match=words):
        count(np.array([0, 7], dtype))


def test_what_numpy_says_does_not_concern_our_own_keywords():
    with pytest.raises(TypeError, match="use 0 instead of None for minlength"):
        jit(lambda x: fnp.bincount(x, minlength=None, length=5)).lower(np.arange(3))
