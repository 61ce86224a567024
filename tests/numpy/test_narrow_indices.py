"""Indices of a dtype too narrow for the length of the axis."""

import numpy as np
import pytest

from functrans import grad, jit
from functrans import numpy as fnp

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
