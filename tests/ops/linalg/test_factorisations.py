"""Linear algebra: NumPy's results and errors, derivatives to second order, stacks of matrices."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from functrans import grad, hessian, jacfwd, jacrev, jit, trace, vmap
from functrans.errors import ShapeError
from functrans.ops.linalg import factorisations as linalg
from tests.amount import examples


def regular(*shape, seed=0):
    x = np.random.default_rng(seed).normal(size=shape)
    return x + 2 * np.eye(shape[-1])


def positive(*shape):
    x = regular(*shape)
    return x @ np.swapaxes(x, -1, -2)


FUNCTIONS = {
    "cholesky": (linalg.cholesky, np.linalg.cholesky, positive),
    "inv": (linalg.inv, np.linalg.inv, regular),
    "det": (linalg.det, np.linalg.det, regular),
    "logdet": (lambda a: linalg.slogdet(a).logabsdet, lambda a: np.linalg.slogdet(a)[1], regular),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (2, 1, 2, 2), (0, 2, 2), (1, 1)])
def test_stacks_and_mapping(name, shape):
    ours, numpy, draw = FUNCTIONS[name]
    a = draw(*shape)
    np.testing.assert_allclose(ours(a), numpy(a))
    np.testing.assert_allclose(vmap(ours, -1, -1)(np.stack([a, 2 * a], -1))[..., 1], numpy(2 * a))
    np.testing.assert_allclose(jit(ours)(a), numpy(a))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_forwards_and_backwards(name):
    ours, numpy, draw = FUNCTIONS[name]
    a = draw(3, 3)
    step = 1e-6
    differences = np.stack(
        [
            (numpy(a + step * e) - numpy(a - step * e)) / (2 * step)
            for e in np.eye(9).reshape(9, 3, 3)
        ],
        -1,
    )
    expected = differences.reshape(*differences.shape[:-1], 3, 3)
    np.testing.assert_allclose(jacfwd(ours)(a), expected, atol=1e-7)
    np.testing.assert_allclose(jacrev(ours)(a), expected, atol=1e-7)
    np.testing.assert_allclose(jacfwd(jacrev(ours))(a), jacrev(jacfwd(ours))(a), atol=1e-12)


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_reads_one_triangle(upper):
    a = positive(3, 3)
    other = np.triu(a) if upper else np.tril(a)
    expected = np.linalg.cholesky(a, upper=upper)
    np.testing.assert_allclose(linalg.cholesky(other, upper=upper), expected)
    gradient = grad(lambda a: (linalg.cholesky(a, upper=upper) ** 2).sum())(a)
    # the squares of a row add up to the diagonal element
    np.testing.assert_allclose(gradient, np.eye(3), atol=1e-14)


def test_known_derivatives():
    a = regular(3, 3)
    np.testing.assert_allclose(grad(linalg.det)(a), np.linalg.det(a) * np.linalg.inv(a).T)
    inverse = np.linalg.inv(a)
    np.testing.assert_allclose(grad(lambda a: linalg.slogdet(a)[1])(a), inverse.T)
    np.testing.assert_allclose(
        hessian(lambda a: linalg.slogdet(a)[1])(a), -np.einsum("li,jk->ijkl", inverse, inverse)
    )


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_det_of_a_singular_matrix(rank):
    u, _, vh = np.linalg.svd(regular(4, 4))
    a = (u * (np.arange(4) < rank)) @ vh
    minors = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(4)]
        for i in range(4)
    ]
    np.testing.assert_allclose(grad(linalg.det)(a), minors, atol=1e-14)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.sampled_from([(), (2,), (1,), (3, 2)]),
    st.sampled_from([(), (2,), (1,), (3, 1)]),
    st.integers(0, 3),
    st.integers(1, 2),
)
def test_solve(leading, right_leading, n, k):
    a = regular(*leading, n, n) if n else np.zeros((*leading, 0, 0))
    b = np.random.default_rng(1).normal(size=(*right_leading, n, k))
    np.testing.assert_allclose(linalg.solve(a, b), np.linalg.solve(a, b), atol=1e-12)
    vector = np.ones(n)
    np.testing.assert_allclose(linalg.solve(a, vector), np.linalg.solve(a, vector), atol=1e-12)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("unit_diagonal", [False, True])
def test_solve_triangular(lower, trans, unit_diagonal):
    a, b = regular(3, 3), np.ones(3)
    options = {"lower": lower, "trans": trans, "unit_diagonal": unit_diagonal}
    expected = scipy.linalg.solve_triangular(a, b, **options)
    np.testing.assert_allclose(linalg.solve_triangular(a, b, **options), expected)
    stacked = linalg.solve_triangular(np.stack([a, a]), b, **options)
    np.testing.assert_allclose(stacked, [expected, expected])

    def f(a, b):
        return linalg.solve_triangular(a, b, **options)

    for argument in (0, 1):
        forwards, backwards = jacfwd(f, argument)(a, b), jacrev(f, argument)(a, b)
        np.testing.assert_allclose(forwards, backwards, atol=1e-12)
    t = (np.tril if lower else np.triu)(a, (-1 if lower else 1) * unit_diagonal)
    matrix = t + np.eye(3) * unit_diagonal
    matrix = matrix.T if trans else matrix
    np.testing.assert_allclose(jacrev(f, 1)(a, b), np.linalg.inv(matrix), atol=1e-14)


def test_derivatives_of_solve():
    a, b = regular(3, 3), np.arange(3.0)
    inverse, x = np.linalg.inv(a), np.linalg.solve(a, b)
    np.testing.assert_allclose(jacrev(linalg.solve, 1)(a, b), inverse)
    expected = -np.einsum("ij,k->ijk", inverse, x)
    np.testing.assert_allclose(jacrev(linalg.solve)(a, b), expected)
    np.testing.assert_allclose(jacfwd(linalg.solve)(a, b), expected)
    mapped = vmap(linalg.solve, (None, 1), 1)
    np.testing.assert_allclose(mapped(a, np.eye(3)), inverse, atol=1e-12)


@pytest.mark.parametrize("n", [-2, -1, 0, 1, 2, 5])
def test_matrix_power(n):
    a = regular(2, 3, 3) / 3
    np.testing.assert_allclose(linalg.matrix_power(a, n), np.linalg.matrix_power(a, n))


def test_errors():
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        grad(lambda a: linalg.inv(a).sum())(np.ones((2, 2)))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        grad(lambda a: linalg.cholesky(a).sum())(-np.eye(2))
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        linalg.solve_triangular(np.zeros((2, 2)), np.ones(2))
    for f in (linalg.inv, linalg.cholesky, linalg.det):
        with pytest.raises(ShapeError, match=r"square matrices .* not an array of shape \(2, 3\)"):
            jit(f)(np.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"right-hand sides of shape \(n,\) or \(\.\.\., n, k\)"):
        linalg.solve(np.eye(3), np.ones(2))
    with pytest.raises(ShapeError, match=r"\(2,\) and \(3,\), do not broadcast"):
        linalg.solve(regular(2, 2, 2), np.ones((3, 2, 1)))


SOLVERS = {
    "solve": np.linalg.solve,
    "triangular_solve": scipy.linalg.solve_triangular,
    "solve_banded": lambda bands, b: scipy.linalg.solve_banded((1, 1), bands, b),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_one_solution_serves_the_derivatives_of_the_matrix_and_of_the_right_hand_side(name):
    def loss(a, b):
        return np.sum(SOLVERS[name](a, b) ** 2)

    both = trace(grad(loss, argnums=(0, 1)))(regular(3, 3), np.arange(3.0))
    assert [eqn.primitive.name for eqn in both.eqns].count(name) == 2
