"""Sparse linear systems against dense ones."""

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

from functrans import errors, grad, jacrev, jit, testing, vmap
from functrans.scipy.sparse import linalg

rng = np.random.default_rng(6)
DENSE = np.diag([4.0, 5.0, 6.0, 3.0]) + rng.normal(size=(4, 4)) * (rng.uniform(size=(4, 4)) < 0.4)
A = scipy.sparse.csc_array(DENSE)
B = rng.normal(size=4)


@pytest.mark.parametrize("b", [B, B[:, None], rng.normal(size=(4, 3)), B + 1j], ids=str)
def test_spsolve(b):
    expected = scipy.sparse.linalg.spsolve(A, b)
    found = jit(lambda b: linalg.spsolve(A, b))(b)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.shape == expected.shape


def test_derivatives_and_lanes():
    testing.check_grads(lambda b: np.sin(linalg.spsolve(A, b)), (B,), order=2)
    np.testing.assert_allclose(jit(jacrev(lambda b: linalg.spsolve(A, b)))(B), np.linalg.inv(DENSE))
    bs = rng.normal(size=(3, 4))
    found = vmap(lambda b: linalg.spsolve(A, b))(bs)
    np.testing.assert_allclose(found, np.linalg.solve(DENSE, bs.T).T)


def test_by_the_full_name():
    found = grad(lambda b: np.sum(scipy.sparse.linalg.spsolve(A, b)))(B)
    np.testing.assert_allclose(found, np.linalg.solve(DENSE.T, np.ones(4)))


def test_factors():
    found = jit(lambda b: linalg.factorized(A)(b))(B)
    np.testing.assert_allclose(found, np.linalg.solve(DENSE, B))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit_diagonal", [True, False])
def test_triangles(lower, unit_diagonal):
    options = {"lower": lower, "unit_diagonal": unit_diagonal}
    triangle = (scipy.sparse.tril if lower else scipy.sparse.triu)(A).tocsr()
    expected = scipy.sparse.linalg.spsolve_triangular(triangle, B, **options)
    found = jit(lambda b: linalg.spsolve_triangular(triangle, b, **options))(B)
    np.testing.assert_allclose(found, expected)


def test_conjugate_gradients():
    symmetric = DENSE @ DENSE.T
    sparse = scipy.sparse.csr_array(symmetric)
    expected, info = scipy.sparse.linalg.cg(sparse, B, rtol=1e-3)
    found, ours = jit(lambda b: linalg.cg(sparse, b, rtol=1e-3))(B)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert ours == info == 0
    exact = jacrev(lambda b: linalg.cg(sparse, b, rtol=1e-12)[0])(B)
    np.testing.assert_allclose(exact, np.linalg.inv(symmetric), rtol=1e-8)
    assert jit(lambda b: linalg.cg(sparse, b, maxiter=1)[1])(B) == 1

    def by_the_matrix(a):
        return np.sum(linalg.cg(a, B, x0=np.ones(4), rtol=1e-12)[0])

    by_solve = grad(lambda a: np.sum(np.linalg.solve(a, B)))(symmetric)
    np.testing.assert_allclose(grad(by_the_matrix)(symmetric), by_solve, rtol=1e-7)


def test_what_is_refused():
    with pytest.raises(errors.UnsupportedNumPyError, match=r"use np\.linalg\.solve"):
        jit(lambda b: linalg.spsolve(DENSE, b))(B)


HERMITIAN = DENSE + DENSE.T + 4 * np.eye(4) + 1j * (np.triu(DENSE, 1) - np.tril(DENSE.T, -1))


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array])
def test_conjugate_gradients_of_a_complex_matrix(convert):
    def solved(b):
        return linalg.cg(convert(HERMITIAN), b, rtol=1e-13)[0]

    for b in (B, B + 1j * B[::-1]):
        np.testing.assert_allclose(jit(solved)(b), np.linalg.solve(HERMITIAN, b), rtol=1e-9)
    inverse = np.linalg.inv(HERMITIAN)
    np.testing.assert_allclose(jacrev(lambda b: solved(b).real)(B), inverse.real, atol=1e-9)
    np.testing.assert_allclose(jacrev(lambda b: solved(b).imag)(B), inverse.imag, atol=1e-9)


def test_a_complex_array_and_a_real_right_hand_side():
    found = jit(lambda a, b: linalg.gmres(a, b, rtol=1e-12)[0])(HERMITIAN, B)
    np.testing.assert_allclose(found, np.linalg.solve(HERMITIAN, B), rtol=1e-8)
