"""Sparse matrices times traced arrays, against SciPy's products of plain ones."""

import operator

import numpy as np
import pytest
import scipy.sparse

from functrans import errors, jacrev, jit, testing, vmap
from functrans.scipy import sparse

rng = np.random.default_rng(5)
FORMATS = ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"]


def matrix(shape, form="csr", dtype=float, make=scipy.sparse.csr_array):
    dense = rng.normal(size=shape) * (rng.uniform(size=shape) < 0.4)
    return make((3 * dense).astype(dtype)).asformat(form)


PRODUCTS = {
    "A @ x": lambda a, x: a @ x,
    "A.T @ y": lambda a, x: a.T @ np.resize(x, a.shape[0]),
    "A.dot(x)": lambda a, x: a.dot(x),
    "y @ A": lambda a, x: np.ones(a.shape[0]) * x[0] @ a,
    "A @ X": lambda a, x: a @ np.stack([x, 2 * x, x**2], 1),
    "A @ column": lambda a, x: a @ x[:, None],
    "X @ A": lambda a, x: np.ones((2, a.shape[0])) * x[1] @ a,
    "A @ A.T @ y": lambda a, x: a @ (a.T @ (a @ x)),
    "(A @ A.T) @ y": lambda a, x: (a @ a.T) @ (a @ x),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("form", FORMATS)
def test_values(name, form):
    a, x = matrix((5, 4), form), rng.normal(size=4)
    expected = PRODUCTS[name](a, x)
    found = jit(lambda x: PRODUCTS[name](a, x))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    assert found.shape == expected.shape and found.dtype == expected.dtype


@pytest.mark.parametrize("name", PRODUCTS)
def test_derivatives(name):
    a, x = matrix((5, 4)), rng.normal(size=4)
    scale = 1 + np.max(np.abs(PRODUCTS[name](a, x)))  # differences of fast oscillations are rough
    testing.check_grads(lambda x: np.sin(PRODUCTS[name](a, x) / scale), (x,), order=2)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (17, 2), (300, 17)])
def test_shapes(shape):
    a, x = matrix(shape), rng.normal(size=shape[1])
    np.testing.assert_allclose(jit(lambda x: a @ x)(x), a @ x, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(jacrev(lambda x: a @ x)(x), a.toarray())


@pytest.mark.parametrize("dtypes", [(np.int64, float), (np.float32, np.float32), (complex, float),
                                    (float, complex), (np.int8, np.int64)])  # fmt: skip
def test_dtypes(dtypes):
    a, x = matrix((4, 4), dtype=dtypes[0]), np.arange(4).astype(dtypes[1])
    found, expected = jit(lambda x: a @ x)(x), a @ x
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found.dtype == expected.dtype


def test_the_older_matrices():
    a, x = matrix((3, 4), make=scipy.sparse.csr_matrix), rng.normal(size=4)
    np.testing.assert_allclose(jit(lambda x: a * x)(x), a * x)
    np.testing.assert_allclose(jit(lambda x: x[:3] * a)(x), x[:3] * a)


def test_lanes():
    a, xs = matrix((3, 4)), rng.normal(size=(5, 4))
    np.testing.assert_allclose(vmap(lambda x: a @ x)(xs), xs @ a.toarray().T)


def test_what_does_not_fit():
    a = matrix((3, 4))
    with pytest.raises(errors.ShapeError, match=r"shape \(3, 4\) cannot be .* shape \(3,\) at"):
        jit(lambda x: a @ x)(np.zeros(3))


def test_constructors_are_scipys():
    assert sparse.csr_array is scipy.sparse.csr_array
    assert "csr_array" in dir(sparse)


def test_products_outside_of_a_trace_are_scipys():
    before = scipy.sparse._base._spbase.__dict__["_matmul_dispatch"]
    a = matrix((3, 4))
    jit(lambda x: a @ x)(np.zeros(4))
    assert scipy.sparse._base._spbase.__dict__["_matmul_dispatch"] is before


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ["eq", "ge", "gt", "le", "lt", "ne"])
def test_comparisons_with_a_traced_number(name, form):
    """SciPy subtracts truth values for those that hold for what is not stored."""
    compare = getattr(operator, name)
    a = scipy.sparse.csr_array(np.array([[1.5, 0, 2], [0, -3, 0]])).asformat(form)
    for x in (1.5, 0.0, -1.0):
        found, expected = jit(lambda x: compare(a, x).toarray())(x), compare(a, x).toarray()
        np.testing.assert_array_equal(found, expected, strict=True)
