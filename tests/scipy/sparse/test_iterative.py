"""Iterative solvers, operators and exponentials, for constant matrices and traced functions."""

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from scipy.sparse.linalg import LinearOperator, aslinearoperator, expm_multiply, splu

from functrans import errors, jacfwd, jacrev, jit, jvp, vmap

_rng = np.random.default_rng(7)
DENSE = np.where(_rng.uniform(size=(6, 6)) < 0.4, 1.0, 0.0) + 6 * np.eye(6)
MATRIX = scipy.sparse.csr_array(DENSE)
EVEN = scipy.sparse.csr_array(DENSE + DENSE.T)
B = _rng.normal(size=6)
METHODS = ["bicg", "bicgstab", "cgs", "gcrotmk", "gmres", "lgmres", "minres", "tfqmr"]


def operator(a):
    return LinearOperator(
        (6, 6), matvec=lambda v: EVEN @ v + a * v, rmatvec=lambda v: EVEN @ v + a * v
    )


def solve(method, *args, **options):
    return getattr(scipy.sparse.linalg, method)(*args, rtol=1e-13, **options)[0]


PROBLEMS = {
    **{f"{m} of b": lambda a, m=m: solve(m, EVEN, a * B + a**2) for m in METHODS},
    **{
        f"{m} of an operator": lambda a, m=m: solve(m, operator(a), B)
        for m in ("bicgstab", "gmres", "minres")
    },
    "array": lambda a: solve("gmres", a * DENSE, B),
    "start": lambda a: solve("gmres", MATRIX, a * B, x0=np.ones(6)),
    "preconditioner": lambda a: solve(
        "gmres", MATRIX, a * B, M=scipy.sparse.diags_array(1 / MATRIX.diagonal())
    ),
    **{
        f"traced preconditioner of {m}": lambda a, m=m: solve(
            m, MATRIX + a * scipy.sparse.eye_array(6), B, M=np.diag(1 / (DENSE.diagonal() + a))
        )
        for m in ("gmres", "lgmres")
    },
    **{
        f"cg with {kind}": lambda a, of=of: solve("cg", EVEN, a * B, M=of(a + EVEN.diagonal()))
        for kind, of in {
            "an array": lambda d: np.diag(1 / d),
            "a sparse array": lambda d: scipy.sparse.diags_array(1 / d),
            "an operator": lambda d: LinearOperator((6, 6), matvec=lambda r: r / d, dtype=float),
        }.items()
    },
    "expm_multiply": lambda a: expm_multiply(-MATRIX, a * B),
    "expm_multiply of columns": lambda a: expm_multiply(3 * MATRIX, a * np.outer(B, [1, 2])),
    "factors": lambda a: splu(MATRIX.tocsc()).solve(a * B),
    "transposed factors": lambda a: splu(MATRIX.tocsc()).solve(a * B, "T"),
    "operator": lambda a: aslinearoperator(MATRIX) @ (a * B) + operator(2.0) @ (a * B),
    "operator and matrix": lambda a: aslinearoperator(MATRIX).matmat(a * np.outer(B, [1, 2])),
    "adjoint": lambda a: aslinearoperator(MATRIX).rmatvec(a * B),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_values_and_derivatives(name):
    function, h = PROBLEMS[name], 1e-5
    expected = function(1.3)
    found = vmap(function)(np.array([1.3, 0.7]))
    np.testing.assert_allclose(found, [expected, function(0.7)], rtol=1e-7, atol=1e-9)
    slope = (function(1.3 + h) - function(1.3 - h)) / (2 * h)
    for derivative in (jacfwd, jacrev):
        np.testing.assert_allclose(derivative(function)(1.3), slope, rtol=1e-5, atol=1e-7)


def test_when_compiled():
    function = PROBLEMS["gmres of an operator"]
    np.testing.assert_allclose(jit(function)(1.3), function(1.3), rtol=1e-9)
    np.testing.assert_allclose(jit(jacrev(function))(1.3), jacrev(function)(1.3), rtol=1e-9)


def test_the_steps_of_preconditioned_conjugate_gradients():
    spread = scipy.sparse.csr_array(EVEN + scipy.sparse.diags_array(10.0 ** np.arange(6)))
    options = {"M": np.diag(1 / spread.diagonal()), "rtol": 1e-9, "maxiter": 3}
    expected, _ = scipy.sparse.linalg.cg(spread, B, **options)
    found, info = jit(lambda b: scipy.sparse.linalg.cg(spread, b, **options))(B)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert info == 3


def test_one_that_does_not_converge():
    found = vmap(lambda b: scipy.sparse.linalg.gmres(MATRIX, b, maxiter=1, restart=1)[1])(B[None])
    assert found[0] == scipy.sparse.linalg.gmres(MATRIX, B, maxiter=1, restart=1)[1] > 0


def test_an_iteration_that_breaks_down():
    matrix, unit = DENSE + np.eye(6), np.eye(6)[0]
    system = matrix.T, unit, np.diag(1 / matrix.diagonal())
    assert scipy.sparse.linalg.bicg(*system[:2], M=system[2], rtol=1e-13)[1] < 0
    first = jacrev(lambda b: solve("bicg", matrix, b, M=system[2])[0])(B)
    assert np.isnan(first).all()
    found = jit(lambda b: scipy.sparse.linalg.bicg(matrix.T, b, M=system[2], rtol=1e-13))
    value, info = found(unit)
    assert np.isfinite(value).all() and info < 0


REFUSED = {
    r"gmres\(\.\.\., callback=\.\.\.\) is not supported .*: leave it out":
        lambda b: scipy.sparse.linalg.gmres(MATRIX, b, callback=print)[0],
    r"expm_multiply\(\.\.\., num=\.\.\.\) is not supported .*: multiply the matrix":
        lambda b: expm_multiply(MATRIX, b, num=3),
    r"linalg\.qmr is not supported .*: use gmres":
        lambda b: scipy.sparse.linalg.qmr(MATRIX, b)[0],
    r"expm_multiply of an operator is not supported .*: pass its matrix":
        lambda b: expm_multiply(aslinearoperator(MATRIX), b, traceA=0.0),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused(words):
    with pytest.raises(errors.UnsupportedNumPyError, match=words):
        vmap(REFUSED[words])(B[None])


def test_exponentials_of_integers():
    matrix = np.array([[-300, 300], [200, -200]], np.int16)
    found = jit(scipy.sparse.linalg.expm)(matrix)
    np.testing.assert_allclose(found, scipy.sparse.linalg.expm(matrix), rtol=1e-9)
    as_numbers = jvp(
        lambda a: scipy.sparse.linalg.expm(a.astype(np.int16)), (1.0 * matrix,), (1.0 * matrix,)
    )
    np.testing.assert_allclose(as_numbers[0], found)


def test_operators_of_arrays():
    matrix, b = np.array([[4.0, 2.0], [1.0, 3.0]]), np.array([1.0, 2.0])

    def solution(a, b):
        return scipy.sparse.linalg.gmres(aslinearoperator(a), b, rtol=1e-12)[0]

    wanted = np.linalg.solve(matrix, b)
    np.testing.assert_allclose(jit(solution)(matrix, b), wanted, rtol=1e-9)
    for constant in (matrix, scipy.sparse.csr_array(matrix)):
        np.testing.assert_allclose(jit(lambda b, a=constant: solution(a, b))(b), wanted, rtol=1e-9)
        slopes = jacrev(lambda b, a=constant: solution(a, b))(b)
        np.testing.assert_allclose(slopes, np.linalg.inv(matrix), rtol=1e-8)
    np.testing.assert_allclose(
        jacrev(solution)(matrix, b), jacrev(np.linalg.solve)(matrix, b), rtol=1e-8
    )
