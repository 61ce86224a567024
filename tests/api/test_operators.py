"""Jacobians, Hessians and Gauss-Newton matrices as linear operators, against dense ones."""

import numpy as np
import pytest
from scipy.sparse.linalg import cg, eigsh, lsmr, svds

from functrans import (
    custom_vjp,
    ggn_operator,
    hessian,
    hessian_operator,
    jacobian_operator,
    jacrev,
    tree,
)

RNG = np.random.default_rng(0)
W = RNG.standard_normal((5, 4))
X = RNG.standard_normal(4)


def model(x, scale=1.0):
    return np.tanh(W @ x) * scale


def loss(z):
    return np.sum(np.log(np.cosh(z)))


def check(operator, matrix):
    height, width = matrix.shape
    assert operator.shape == matrix.shape
    for x in (RNG.standard_normal(width), RNG.standard_normal((width, 1))):
        np.testing.assert_allclose(operator @ x, matrix @ x, atol=1e-12)
    for u in (RNG.standard_normal(height), RNG.standard_normal((height, 1))):
        np.testing.assert_allclose(operator.T @ u, matrix.T @ u, atol=1e-12)
    for count in (0, 3):
        many = RNG.standard_normal((width, count))
        np.testing.assert_allclose(operator @ many, matrix @ many, atol=1e-12)
        many = RNG.standard_normal((height, count))
        np.testing.assert_allclose(operator.H @ many, matrix.T @ many, atol=1e-12)


def test_a_jacobian():
    check(jacobian_operator(model, X), jacrev(model)(X))
    check(jacobian_operator(model, X, 3.0), 3 * jacrev(model)(X))


def test_a_hessian():
    def f(x):
        return loss(model(x))

    check(hessian_operator(f, X), hessian(f)(X))
    check(hessian_operator(loss, X), np.diag(1 / np.cosh(X) ** 2))


def test_a_gauss_newton_matrix():
    jacobian, z = jacrev(model)(X), model(X)
    check(ggn_operator(model, loss, X), jacobian.T @ hessian(loss)(z) @ jacobian)


def test_pytrees():
    at = {"a": X[:2], "b": X[2:].reshape(2, 1)}
    vector, unravel = tree.ravel(at)

    def f(p):
        return {"u": p["a"] * np.sum(p["b"]), "v": np.exp(p["b"])}

    def flat(x):
        return tree.ravel(f(unravel(x)))[0]

    check(jacobian_operator(f, at), jacrev(flat)(vector))

    def total(p):
        return np.sum(f(p)["u"] ** 3) + np.sum(f(p)["v"])

    check(hessian_operator(total, at), hessian(lambda x: total(unravel(x)))(vector))


def test_what_has_no_forward_mode():
    @custom_vjp
    def square(x):
        return x**2

    square.defvjp(lambda x: (x**2, x), lambda x, ct: (2 * x * ct,))
    check(hessian_operator(lambda x: np.sum(square(x) ** 2), X), np.diag(12 * X**2))


def test_solvers_run_on_them():
    jacobian = jacrev(model)(X)
    operator = jacobian_operator(model, X)
    rhs = RNG.standard_normal(5)
    expected = np.linalg.lstsq(jacobian, rhs)[0]
    np.testing.assert_allclose(lsmr(operator, rhs, atol=1e-12, btol=1e-12)[0], expected, atol=1e-6)
    largest = svds(operator, k=1, return_singular_vectors=False)
    np.testing.assert_allclose(largest, np.linalg.svd(jacobian)[1][0])
    curvature = ggn_operator(model, loss, X)
    matrix = curvature @ np.eye(4)
    solved, failed = cg(curvature, X, rtol=1e-12)
    assert not failed
    np.testing.assert_allclose(solved, np.linalg.solve(matrix, X), rtol=1e-6)
    np.testing.assert_allclose(eigsh(curvature, k=1)[0], np.linalg.eigvalsh(matrix)[-1:])


def test_float32():
    operator = jacobian_operator(model, X.astype(np.float32))
    assert operator.dtype == np.result_type(np.float32, W)
    assert hessian_operator(loss, X.astype(np.float32)).dtype == np.float32


def test_integers_are_refused():
    with pytest.raises(TypeError, match="linearize"):
        jacobian_operator(model, np.arange(4))
