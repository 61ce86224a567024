"""Positions of extremes are searched for, and the search ends where it has found one."""

import numpy as np
import pytest

from functrans import jit

EXTENTS = (17, 33, 300)
POSITIONS = {"argmax": np.argmax, "argmin": np.argmin}


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "u1"])
@pytest.mark.parametrize("extent", EXTENTS)
def test_the_first_of_equal_elements_is_found(name, dtype, extent):
    position = POSITIONS[name]
    places = sorted({0, 1 % extent, 15 % extent, 16 % extent, 31 % extent, extent // 2, extent - 1})
    rows = np.full((len(places) + 1, extent), 5, dtype)
    for row, place in zip(rows, places, strict=False):
        row[place] = row[min(place + 3, extent - 1)] = 9 if name == "argmax" else 1
    found = jit(lambda x: position(x, axis=1))(rows)
    np.testing.assert_array_equal(found, position(rows, axis=1))


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("extent", EXTENTS)
def test_the_first_nan_is_found_and_zeros_are_equal(name, extent):
    position = POSITIONS[name]
    rows = np.zeros((6, extent))
    rows[0, 0] = -0.0
    rows[1, 1:] = -0.0
    rows[2, extent // 2 :] = np.nan
    rows[3, -1], rows[3, 0] = np.nan, np.inf
    rows[4] = np.inf if name == "argmin" else -np.inf
    rows[5] = np.nan
    found = jit(lambda x: position(x, axis=1))(rows)
    np.testing.assert_array_equal(found, position(rows, axis=1))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_search_ends_at_the_first_vector_with_the_extreme(dtype):
    rows = np.zeros((50, 100), dtype)
    assert "cttz" in jit(lambda x: np.argmax(x, axis=1)).lower(rows).llvm()
    # each lane has a row of its own, which ends at another place
    assert "cttz" not in jit(lambda x: np.argmax(x, axis=0)).lower(rows).llvm()


@pytest.mark.parametrize("dtype", ["i4", "i8", "u1", "f8"])
def test_a_minimum_of_chosen_indices_is_that_of_all_elements(dtype):
    def least(x, none):
        return np.min(
            np.where(x, np.arange(len(x), dtype=dtype), np.array(none, dtype)), initial=90
        )

    for length, none in ((100, 100), (100, 0), (100, 60), (0, 0)):
        for place in (None, 0, 50, 99):
            x = np.zeros(length, bool)
            x[place : None if place is None else place + 1] = place is not None
            assert jit(lambda x, none=none: least(x, none))(x) == least(x, none)


def test_a_search_does_not_end_before_an_index_that_is_out_of_bounds():
    indices = np.zeros(100, int)
    indices[90] = 10
    with pytest.raises(IndexError):
        jit(lambda x, i: np.min(np.where(x[i] > 0, np.arange(100), 100)))(np.ones(10), indices)
