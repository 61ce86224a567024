"""Colourings: every entry can be recovered from the products, for random patterns."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from functrans.transform.colouring import (
    colour_columns,
    colour_star,
    count_colours,
    places_of_columns,
    places_of_star,
)

PATTERNS = st.tuples(
    st.sampled_from([0, 1, 2, 17, 40]), st.floats(0, 0.5), st.integers(0, 2**32 - 1)
)


def products(matrix, colours):
    seeds = np.zeros((matrix.shape[1], count_colours(colours)))
    seeds[np.arange(len(colours)), colours] = 1
    return matrix @ seeds


def check(matrix, pattern, colours, places):
    rows, of_columns = places(pattern, colours)
    found = products(matrix, colours)[rows, of_columns]
    np.testing.assert_array_equal(found, matrix[pattern.nonzero()])


@given(PATTERNS)
def test_columns(drawn):
    size, density, seed = drawn
    rng = np.random.default_rng(seed)
    pattern = sp.csr_array(rng.random((size + 3, size)) < density)
    matrix = rng.integers(1, 100, pattern.shape) * pattern.toarray()
    check(matrix, pattern, colour_columns(pattern), places_of_columns)


@given(PATTERNS)
def test_symmetric_matrices(drawn):
    size, density, seed = drawn
    rng = np.random.default_rng(seed)
    half = rng.random((size, size)) < density
    pattern = sp.csr_array(half | half.T)
    matrix = rng.integers(1, 100, pattern.shape)
    matrix = (matrix + matrix.T) * pattern.toarray()
    check(matrix, pattern, colour_star(pattern), places_of_star)


@pytest.mark.parametrize("colour", [colour_columns, colour_star])
def test_a_band_takes_as_many_colours_as_it_is_wide(colour):
    band = sp.diags_array([np.ones(2600)] * 3, offsets=[-1, 0, 1], shape=(2600, 2600))
    assert count_colours(colour(band.tocsr())) == 3


def test_an_arrow_takes_two_colours_if_it_is_symmetric():
    arrow = np.eye(300, dtype=bool)
    arrow[0] = arrow[:, 0] = True
    assert count_colours(colour_star(sp.csr_array(arrow))) == 2
    assert count_colours(colour_columns(sp.csr_array(arrow))) == 300


def test_a_dense_matrix_takes_a_colour_for_each_column():
    dense = sp.csr_array(np.ones((5, 5), bool))
    assert count_colours(colour_columns(dense)) == count_colours(colour_star(dense)) == 5
