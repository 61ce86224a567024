"""Acyclic colourings satisfy their definition; entries recovered by substitution."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from functrans import hessian, jit
from functrans.api import sparse
from functrans.transform.acyclic import colour_acyclic, substituted, substitution
from functrans.transform.colouring import colour_star, count_colours

PATTERNS = st.tuples(
    st.sampled_from([0, 1, 2, 5, 17, 40]), st.floats(0, 0.5), st.integers(0, 2**32 - 1)
)


def drawn_pattern(drawn):
    size, density, seed = drawn
    rng = np.random.default_rng(seed)
    half = rng.random((size, size)) < density
    return sp.csr_array(half | half.T), rng


@given(PATTERNS)
def test_any_two_colours_make_a_forest(drawn):
    pattern, _ = drawn_pattern(drawn)
    colours = colour_acyclic(pattern)
    edges = pattern.toarray() & ~np.eye(pattern.shape[0], dtype=bool)
    assert not np.any(edges & (colours[:, None] == colours))
    for pair in combinations(range(count_colours(colours)), 2):
        chosen = np.isin(colours, pair)
        inside = edges[np.ix_(chosen, chosen)]
        trees, _ = connected_components(inside)
        assert inside.sum() // 2 == chosen.sum() - trees


@given(PATTERNS)
def test_substitution(drawn):
    """Integers, so that nothing is rounded; with entries on some of the diagonal."""
    pattern, rng = drawn_pattern(drawn)
    colours = colour_acyclic(pattern)
    how = substitution(pattern, colours)
    matrix = rng.integers(1, 100, pattern.shape) * 1.0
    matrix = (matrix + matrix.T) * pattern.toarray()
    vectors = np.zeros((count_colours(colours), len(colours)))
    vectors[colours, np.arange(len(colours))] = 1
    products = np.ravel(vectors @ matrix)
    np.testing.assert_array_equal(substituted(products, how), matrix[pattern.nonzero()])


def lattice(size):
    """The edges of a cube of points, each with its nearest neighbours."""
    points = np.arange(size**3).reshape(size, size, size)
    ends = [(points[1:], points[:-1]), (points[:, 1:], points[:, :-1]),
            (points[:, :, 1:], points[:, :, :-1])]  # fmt: skip
    return [np.concatenate([np.ravel(end[i]) for end in ends]) for i in range(2)]


@pytest.mark.dear
def test_it_takes_fewer_products_than_a_star_colouring():
    first, second = lattice(7)

    def energy(x):
        return np.sum(np.exp(np.sin(x[first]) * x[second])) + np.sum(x**4)

    x = np.random.default_rng(0).standard_normal(343)
    whole = sp.coo_array((np.ones(len(first), bool), (first, second)), shape=(343, 343))
    pattern = sp.csr_array(whole + whole.T + sp.eye_array(343, dtype=bool))
    plan = sparse._planned(pattern, True, False)
    assert plan.substitution is not None
    assert 3 * count_colours(plan.colours) <= 2 * count_colours(colour_star(pattern))
    expected = hessian(energy)(x)
    for transform in (hessian(energy, sparse=True), jit(hessian(energy, sparse=True))):
        np.testing.assert_allclose(transform(x).toarray(), expected, atol=1e-11)
    chunks = hessian(energy, sparse=True, chunk_size=2)
    np.testing.assert_allclose(jit(chunks)(x).toarray(), expected, atol=1e-11)


def test_long_paths_are_not_substituted():
    """A chain takes two colours, but its entries would depend on all before them."""
    path = sp.diags_array([np.ones(600)] * 3, offsets=[-1, 0, 1], shape=(600, 600), dtype=bool)
    pattern = sp.csr_array(path)
    colours = colour_acyclic(pattern)
    assert count_colours(colours) == 2
    assert substitution(pattern, colours) is None
