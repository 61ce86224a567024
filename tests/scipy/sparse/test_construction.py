"""Sparse matrices with traced indices are refused; the error names the constructor."""

import numpy as np
import pytest
import scipy.sparse as sp

from functrans import grad, jit, vmap
from functrans.errors import UnsupportedNumPyError

X = np.array([1.0, 2.0, 3.0])
PLACES = ([0, 1, 2], [0, 1, 2])

MADE = {
    "csr_array": lambda v: sp.csr_array(np.outer(v, v)),
    "csc_array": lambda v: sp.csc_array(np.outer(v, v)),
    "coo_matrix": lambda v: sp.coo_matrix(np.outer(v, v)),
    "lil_matrix": lambda v: sp.lil_matrix(np.outer(v, v)),
    "dok_array": lambda v: sp.dok_array(np.outer(v, v)),
    "bsr_array": lambda v: sp.bsr_array(np.outer(v, v)),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("transform", [jit, grad, lambda f: vmap(f, in_axes=None, axis_size=2)])
def test_it_is_refused_by_its_name(name, transform):
    def function(v):
        made = MADE[name](v * 2.0)
        return np.sum(made @ v)

    if "vmap" in repr(transform(function)):
        function = jit(function)
    with pytest.raises(UnsupportedNumPyError) as caught:
        transform(function)(X)
    text = str(caught.value)
    assert text.startswith(f"scipy.sparse.{name} is not supported on traced values at ")
    assert "test_construction.py" in text
    assert text.endswith("shape=...), where the places are constant")


@pytest.mark.parametrize("name", MADE)
def test_of_plain_arrays_it_is_scipys(name):
    plain = MADE[name](X)
    expected = plain @ np.ones(plain.shape[1])
    found = jit(lambda x: MADE[name](X) @ (x * np.ones(plain.shape[1])))(1.0)
    np.testing.assert_allclose(found, expected)


def test_duplicates_of_bools():
    places = np.array([2, 0, 2]), np.array([1, 0, 1])
    values = np.array([True, False, True])
    joined = jit(lambda v: sp.csr_array((v, places), shape=(3, 2)).toarray())(values)
    np.testing.assert_array_equal(joined, sp.csr_array((values, places), shape=(3, 2)).toarray())
    with pytest.raises(UnsupportedNumPyError, match=r"bools with duplicates.*by csr_array"):
        jit(lambda v: sp.coo_array((v, places), shape=(3, 2)) @ np.ones(2))(values)
