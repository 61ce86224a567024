"""Indices of a dtype too narrow for the length of the axis."""

import numpy as np
import pytest

from functrans import grad, jit
from functrans import numpy as fnp
from tests.numpy.attempts import traced

LONG = np.arange(300.0)


def put(x, i, mode):
    x = x.copy()
    np.put(x, i, 7.0, mode=mode)
    return x


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
def test_the_extent_is_no_number_of_theirs(dtype, mode):
    i = np.array([0, 5, 127, 100], dtype)
    for function in (
        lambda x, i: np.take(x, i, mode=mode),
        lambda x, i: put(x, i, mode),
        lambda x, i: np.ravel_multi_index((i, i), (300, 400), mode=mode) + x[0],
    ):
        found, expected = jit(function)(LONG, i), function(LONG, i)
        np.testing.assert_array_equal(found, expected)
        slope = grad(lambda x, f=function: np.sum(f(x, i)))(LONG)  # the indices are known
        later = jit(grad(lambda x, i, f=function: np.sum(f(x, i))))(LONG, i)
        np.testing.assert_array_equal(slope, later)


@pytest.mark.parametrize(
    "shift", [np.int8(-128), np.uint8(255), np.int16(-7), np.uint64(2**64 - 1)]
)
def test_distances_of_rolls(shift):
    found = jit(np.roll)(LONG, shift)
    np.testing.assert_array_equal(found, np.roll(LONG, int(shift)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
def test_counts_up_to_a_length(dtype):
    counts = jit(lambda x: fnp.bincount(x, length=300))(np.array([5, 100, 5], dtype))
    np.testing.assert_array_equal(counts, np.bincount([5, 100, 5], minlength=300))


def test_segments():
    starts = np.array([127, 3, 100], np.int8)
    found = jit(lambda x: np.add.reduceat(x, starts))(LONG)
    np.testing.assert_array_equal(found, np.add.reduceat(LONG, starts))


def test_truths_are_indices_of_functions():
    truths, x = np.array([True, False, True]), np.array([10.0, 20.0, 30.0])
    for function in (
        lambda x, i: np.take(x, i),
        lambda x, i: x.take(i),
        lambda x, i: np.take(x, x > 15),
        lambda x, i: np.take(x, [True, False, True]),
        lambda x, i: np.take(x, True),
        lambda x, i: np.take(x, i, mode="wrap"),
        lambda x, i: put(x, i, "raise"),
        lambda x, i: np.add.reduceat(x, [True, False]),
        lambda x, i: np.bincount(i, x, 2),
    ):
        expected = function(x, truths)
        np.testing.assert_array_equal(jit(function)(x, truths), expected)
        known = traced(function, (x, truths), with_values=True)[0]
        np.testing.assert_array_equal(known, expected)


@pytest.mark.parametrize("values", [[], [7.0]])
def test_nothing_is_put_where_there_is_no_place_or_no_value(values):
    x = np.arange(9.0).reshape(3, 3)
    for function in (
        lambda y: np.put(y, [], values),
        lambda y: np.put(y, [1], values),
        lambda y: np.putmask(y, y > 3, values),
        lambda y: np.fill_diagonal(y, values),
        lambda y: np.fill_diagonal(y, values, wrap=True),
    ):

        def assigned(x, function=function):
            y = x.copy()
            function(y)
            return y

        np.testing.assert_array_equal(jit(assigned)(x), assigned(x))
