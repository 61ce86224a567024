"""Banded patterns: cyclic colourings, and entries read as diagonals."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from functrans import jit
from functrans.transform.bands import band_of, cyclic_colours, read_band
from functrans.transform.colouring import count_colours, places_of_columns


def banded(rows, columns, offsets, rng):
    """A matrix of numbers along diagonals."""
    matrix = np.zeros((rows, columns))
    for offset in offsets:
        i = np.arange(rows)
        inside = (i + offset >= 0) & (i + offset < columns)
        matrix[i[inside], i[inside] + offset] = rng.integers(1, 100, inside.sum())
    return matrix


def cyclic_products(matrix, colours):
    vectors = np.zeros((count_colours(colours), matrix.shape[1]))
    vectors[colours, np.arange(matrix.shape[1])] = 1
    return vectors @ matrix.T


@given(
    st.integers(300, 400), st.integers(-5, 5), st.sets(st.integers(-4, 4), min_size=1),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_the_entries_are_diagonals(rows, wider, offsets, seed):
    matrix = banded(rows, rows + wider, offsets, np.random.default_rng(seed))
    pattern = sp.csr_array(matrix != 0)
    colours = cyclic_colours(pattern, 32)
    if colours is None:
        assert pattern.nnz < 600
        return
    places = places_of_columns(pattern, colours)
    band = band_of(pattern, places, count_colours(colours))
    found = read_band(cyclic_products(matrix, colours), band)
    np.testing.assert_array_equal(found, matrix[pattern.nonzero()])


def test_compiled():
    matrix = banded(400, 400, [-2, 0, 1], np.random.default_rng(0))
    pattern = sp.csr_array(matrix != 0)
    colours = cyclic_colours(pattern, 32)
    band = band_of(pattern, places_of_columns(pattern, colours), count_colours(colours))
    read = jit(lambda x: read_band(x, band))
    found = read(cyclic_products(matrix, colours))
    np.testing.assert_array_equal(found, matrix[pattern.nonzero()])


@pytest.mark.parametrize("density", [0.01, 0.5])
def test_no_band(density):
    pattern = sp.csr_array(np.random.default_rng(0).random((300, 300)) < density)
    colours = cyclic_colours(pattern, 32)
    if colours is not None:
        places = places_of_columns(pattern, colours)
        assert band_of(pattern, places, count_colours(colours)) is None


def test_too_few_alike():
    """A row in the middle that is another one: the rest would be written out one by one."""
    matrix = banded(400, 400, [-1, 0, 1], np.random.default_rng(0))
    matrix[200, 202] = 1
    pattern = sp.csr_array(matrix != 0)
    colours = cyclic_colours(pattern, 8)
    assert band_of(pattern, places_of_columns(pattern, colours), count_colours(colours)) is None
