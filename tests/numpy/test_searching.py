"""searchsorted: binary search in long vectors, counting in short ones; NumPy's results."""

import numpy as np
import pytest

from functrans import jit, vmap


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("size", [1, 2, 31, 32, 33, 64, 65, 100, 1000])
def test_searchsorted(size, side):
    rng = np.random.default_rng(size)
    row = np.sort(np.round(rng.standard_normal(size), 1))
    values = np.concatenate([row, row + 0.05, row - 0.05, [np.inf, -np.inf]])

    def search(row, values):
        return np.searchsorted(row, values, side)

    expected = search(row, values)
    np.testing.assert_array_equal(jit(search)(row, values), expected)
    np.testing.assert_array_equal(vmap(search, in_axes=(None, 0))(row, values), expected)
    rows = np.stack([row, row * 2])
    both = jit(vmap(search, in_axes=(0, None)))(rows, values)
    np.testing.assert_array_equal(both, [search(each, values) for each in rows])


def test_a_long_vector_is_not_compared_element_by_element():
    search = jit(np.searchsorted)
    row = np.linspace(0, 1, 5000)
    assert "5000]" not in str(search.lower(row, row[:7]).graph()).split("->")[1]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("copies", [1, 6])
def test_complex_numbers_are_in_the_order_that_numpy_sorts_them_by(copies, side):
    parts = [np.nan, 1.0, -2.0]
    row = np.sort(np.array([complex(re, im) for re in parts for im in parts] * copies))
    found = jit(lambda a, v: np.searchsorted(a, v, side))(row, row)
    np.testing.assert_array_equal(found, np.searchsorted(row, row, side))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("size", [3, 50])
@pytest.mark.parametrize("nans", [0, 2])
def test_nan_is_the_last_of_all_numbers(size, nans, side):
    row = np.concatenate([np.arange(float(size)), [np.nan] * nans])
    values = np.array([np.nan, 1.0, 2.5, np.inf, -np.inf])
    for dtype in (np.float64, np.float32):
        found = jit(lambda a, v: np.searchsorted(a, v, side))(row.astype(dtype), values)
        np.testing.assert_array_equal(found, np.searchsorted(row, values, side))
    count = jit(lambda v: np.searchsorted(np.arange(size), v, side))(values)
    np.testing.assert_array_equal(count, np.searchsorted(np.arange(size), values, side))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(
    "bins", [[3.0, 2.0, 2.0, 0.0], [0.0, 2.0, 2.0, 3.0], [1.0, 1.0], [1.0], [3, 1]]
)
def test_digitize_by_bins_that_rise_or_fall(bins, right):
    bins = np.array(bins)
    values = np.concatenate([bins, bins + 0.5, bins - 0.5, [np.inf, -np.inf]])

    def number(values, bins):
        return np.digitize(values, bins, right)

    expected = number(values, bins)
    np.testing.assert_array_equal(jit(number)(values, bins), expected)
    np.testing.assert_array_equal(jit(lambda x: number(x, bins))(values), expected)
    np.testing.assert_array_equal(vmap(number, in_axes=(0, None))(values, bins), expected)
    both = vmap(number, in_axes=(None, 0))(values, np.stack([bins, bins[::-1]]))
    np.testing.assert_array_equal(both, [expected, number(values, bins[::-1])])


def test_digitize_by_bins_of_which_the_last_is_nan():
    values, bins = np.array([0.0, 1.5, 3.0, np.nan]), np.array([1.0, 2.0, np.nan])
    found = jit(lambda x: np.digitize(x, bins))(values)
    np.testing.assert_array_equal(found, np.digitize(values, bins))


def test_digitize_has_no_complex_bins():
    with pytest.raises(TypeError, match="digitize of complex numbers"):
        jit(np.digitize)(np.zeros(2), np.zeros(2, complex))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("copies", [1, 6])
def test_signed_and_unsigned_numbers_are_compared_as_floats(copies, side):
    most = 2**63 - 1
    row = np.sort(np.array([0, most, most + 1, 2**64 - 1] * copies, np.uint64))
    values = np.array([most, most - 1, 0, -1])
    found = jit(lambda a, v: np.searchsorted(a, v, side))(row, values)
    np.testing.assert_array_equal(found, np.searchsorted(row, values, side))


@pytest.mark.parametrize("size", [0, 3, 63, 65, 600, 1000])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, np.bool_, complex])
def test_elements_are_found_among_few_and_among_many(size, dtype):
    rng = np.random.default_rng(size)
    x = rng.integers(0, 4 * size + 1, (7, 50)).astype(dtype)
    tests = rng.integers(0, 4 * size + 1, size).astype(dtype)
    if np.dtype(dtype).kind == "f":  # zeros of either sign are equal, NaN is in no array
        x[0, :5] = [np.nan, np.inf, -np.inf, -0.0, 0.0]
        tests[:5] = [np.nan, np.inf, -0.0, -1.0, 5.0][:size]
    for invert in (False, True):
        found = jit(lambda x, t, invert=invert: np.isin(x, t, invert=invert))(x, tests)
        np.testing.assert_array_equal(found, np.isin(x, tests, invert=invert))
        mapped = vmap(lambda x, t, invert=invert: np.isin(x, t, invert=invert), in_axes=(0, None))
        np.testing.assert_array_equal(mapped(x, tests), found)
    mixed = jit(lambda x, t: np.isin(x, t))(x.astype(np.float32), tests)
    np.testing.assert_array_equal(mixed, np.isin(x.astype(np.float32), tests))


def test_many_elements_are_not_compared_with_each_one():
    find = jit(lambda x, tests: np.isin(x, tests))
    x = np.arange(5000.0)
    assert "5000,5000]" not in str(find.lower(x, x).graph()).replace(" ", "")


@pytest.mark.parametrize("bins", [[-100, 100, 110], [110, 100, -100]])
def test_bins_whose_distances_are_not_in_range_of_their_dtype(bins):
    edges, x = np.array(bins, np.int8), np.array([-120, 0, 105, 120])
    found = jit(lambda x: np.digitize(x, edges))(x)
    np.testing.assert_array_equal(found, np.digitize(x, edges))
    truths = np.array([False, True])
    assert jit(lambda x: np.digitize(x, truths))(0.5) == np.digitize(0.5, truths)
    with pytest.raises(ValueError, match="monotonically"):
        jit(lambda x: np.digitize(x, np.array([3, 5, 1], np.uint8)))(x)
