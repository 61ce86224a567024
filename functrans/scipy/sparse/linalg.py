"""`scipy.sparse.linalg`: linear systems with constant or traced sparse matrices.

SuperLU factorises a constant matrix once, when the function is traced, and a matrix of traced
values at each call. Derivatives with respect to the right-hand side and to the stored values solve
the same system again, in reverse mode with the transposed factors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from functrans.api.compressed import Structure
from functrans.ir.types import Aval
from functrans.lax.implicit import custom_linear_solve
from functrans.lax.loops import fori_loop, while_loop
from functrans.numpy.arrays import array, inexact
from functrans.numpy.define import refuse
from functrans.ops.arrays.shape import holds_tracer
from functrans.ops.calls.external import Elements, external
from functrans.scipy.inside import refuse_options, refused, within_traces
from functrans.scipy.linalg.functions import expm as dense_expm
from functrans.scipy.sparse.iterative import (
    bicg,
    bicgstab,
    cgs,
    common_dtype,
    gcrotmk,
    gmres,
    lgmres,
    matvec_of,
    minres,
    tfqmr,
)
from functrans.scipy.sparse.products import product
from functrans.scipy.sparse.traced import SparseMethods, as_traced
from functrans.trace.delegation import own

__all__ = ["bicg", "bicgstab", "cg", "cgs", "eigs", "eigsh", "expm", "expm_multiply", "factorized",
           "gcrotmk", "gmres", "inv", "lgmres", "lsmr", "lsqr", "minres", "norm", "qmr", "spilu",
           "splu", "spsolve", "spsolve_triangular", "svds", "tfqmr"]  # fmt: skip

Solve = Callable[[Any], Any]


def _solver(matrix: Any, name: str) -> Solve:
    """A function from right-hand sides to solutions, which reuses the factors of a matrix."""
    is_traced = isinstance(matrix, SparseMethods)
    if is_traced:
        matrix = as_traced(matrix)
    elif not scipy.sparse.issparse(matrix):
        refuse(f"scipy.sparse.linalg.{name} of a matrix that is not sparse", "use np.linalg.solve")
    factors: dict[Any, Any] = {}

    def solve(b: Any) -> Any:
        b = inexact(b)
        dtype = np.result_type(matrix.dtype, b.dtype, np.float32)
        if b.ndim not in (1, 2) or b.shape[0] != matrix.shape[0]:
            raise ValueError(f"the shapes {matrix.shape} and {b.shape} do not fit: {name}(A, b)")
        by = matrix.astype(dtype)
        if not is_traced and dtype not in factors:
            factors[dtype] = scipy.sparse.linalg.splu(by.tocsc())

        def on_the_host(trans: str) -> Callable[[Any, Any], Any]:
            # traced values are factorised at run time
            solved = _Latest(by._structure).solve if is_traced else factors[dtype].solve
            values = (by._values,) if is_traced else ()
            elements = Elements(partial(solved, trans=trans), several=False, vectorised=False)

            def call(matvec: Any, b: Any) -> Any:
                results = (Aval(b.shape, dtype),)
                return external(*values, b, elements=elements, results=results, lanes=())[0]

            return call

        multiply = partial(operator.matmul, by) if is_traced else partial(product, by)
        return custom_linear_solve(multiply, b.astype(dtype), on_the_host("N"), on_the_host("T"))

    return solve


class _Latest:
    """The factors of the most recent matrix with a given sparsity pattern."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._known: tuple[bytes, Any] = (b"", None)

    def solve(self, values: Any, b: Any, trans: str) -> Any:
        own, (known, factors) = values.tobytes(), self._known
        if own != known or factors is None:
            parts = values, self._structure.indices, self._structure.indptr
            matrix = scipy.sparse.csr_array(parts, shape=self._structure.shape)
            factors = scipy.sparse.linalg.splu(matrix.tocsc())
            self._known = own, factors
        return factors.solve(np.asarray(b), trans)


@within_traces("scipy.sparse.linalg:spsolve")
def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    """Solve ``A x = b`` for a sparse matrix.

    Parameters
    ----------
    A : sparse array of shape (n, n)
    b : array of shape (n,) or (n, k)

    Returns
    -------
    array like ``b``

    Raises
    ------
    RuntimeError
        If the matrix is singular.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import diags_array
    >>> from functrans import grad
    >>> from functrans.scipy.sparse.linalg import spsolve
    >>> a = diags_array([2.0, 4.0], format="csc")
    >>> grad(lambda b: np.sum(spsolve(a, b)))(np.array([1.0, 1.0]))
    array([0.5 , 0.25])
    """
    x = _solver(A, "spsolve")(b)
    # SciPy returns a vector for a single column
    return x.reshape(-1) if x.ndim == 2 and x.shape[1] == 1 else x


@within_traces("scipy.sparse.linalg:factorized")
def factorized(A: Any) -> Solve:
    """Factorise a sparse matrix once; returns a function from ``b`` to the solution of ``A x = b``.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import eye_array
    >>> from functrans import jit
    >>> from functrans.scipy.sparse.linalg import factorized
    >>> jit(lambda b: factorized(2 * eye_array(2, format="csc"))(b))(np.array([2.0, 6.0]))
    array([1., 3.])
    """
    return _solver(A, "factorized")


@within_traces("scipy.sparse.linalg:spsolve_triangular")
def spsolve_triangular(
    A: Any, b: Any, lower: bool = True, overwrite_A: bool = False, overwrite_b: bool = False,
    unit_diagonal: bool = False,
) -> Any:  # fmt: skip
    """Solve ``A x = b`` for a sparse triangular matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from functrans import jit
    >>> from functrans.scipy.sparse.linalg import spsolve_triangular
    >>> a = csr_array(np.array([[2.0, 0.0], [1.0, 1.0]]))
    >>> jit(lambda b: spsolve_triangular(a, b))(np.array([2.0, 3.0]))
    array([1., 2.])
    """
    triangle = scipy.sparse.tril(A) if lower else scipy.sparse.triu(A)
    if unit_diagonal:
        ones = scipy.sparse.eye_array(A.shape[0])
        triangle = triangle - scipy.sparse.diags_array(A.diagonal()) + ones
    return _solver(triangle, "spsolve_triangular")(b)


@within_traces("scipy.sparse.linalg:cg")
def cg(
    A: Any, b: Any, x0: Any = None, *, rtol: Any = 1e-5, atol: Any = 0.0, maxiter: Any = None,
    M: Any = None, callback: Any = None,
) -> Any:  # fmt: skip
    """Solve ``A x = b`` by conjugate gradients, for a Hermitian positive definite matrix.

    The derivative is implicit: the system is solved again, by the same method and to the same
    tolerance.

    Parameters
    ----------
    A : sparse array, array, scipy.sparse.linalg.LinearOperator, or function of a vector
        It may depend on traced values.
    b : array of shape (n,)
    x0 : array of shape (n,), optional
    rtol, atol : float
        The iteration ends when the residual norm is at most ``max(rtol * norm(b), atol)``.
    maxiter : int, optional
    M : sparse array, array or scipy.sparse.linalg.LinearOperator, optional
        The preconditioner, an approximate inverse of ``A``.

    Returns
    -------
    x : array of shape (n,)
    info : int
        0 for success, otherwise the number of iterations.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.sparse.linalg import cg
    >>> f = lambda d: np.sum(cg(np.diag(d), np.ones(2), rtol=1e-10)[0])
    >>> grad(f)(np.array([2.0, 4.0]))
    array([-0.25  , -0.0625])
    """
    refuse_options("scipy.sparse.linalg.cg", [("callback", callback, "leave it out")])
    b = inexact(b).reshape(-1)
    b = b.astype(common_dtype(A, b.dtype))
    start = np.zeros_like(b) if x0 is None else array(x0).astype(b.dtype)
    most = 10 * b.shape[0] if maxiter is None else maxiter
    matvec, preconditioned = matvec_of(A), matvec_of(M)

    def squared(r: Any) -> Any:
        return np.vdot(r, r).real

    def conditioned(r: Any, size: Any) -> tuple[Any, Any]:
        """What a residual is preconditioned to, and its product with that."""
        if M is None:
            return r, size
        z = preconditioned(r).astype(b.dtype)
        return z, np.vdot(r, z).real

    def iterate(matvec: Solve, b: Any) -> tuple[Any, Any]:
        least = np.maximum(atol, rtol * np.sqrt(squared(b)))

        def step(state: Any) -> Any:
            x, r, p, product, _, count = state
            q = matvec(p)
            length = product / np.vdot(p, q).real
            r = r - length * q
            size = squared(r)
            z, following = conditioned(r, size)
            return x + length * p, r, z + following / product * p, following, size, count + 1

        def goes_on(state: Any) -> Any:
            return (np.sqrt(state[4]) > least) & (state[5] < most)

        size = squared(b)
        begin = np.zeros_like(b), b, *conditioned(b, size), size, 0
        x, _, _, _, size, count = while_loop(goes_on, step, begin)
        return x, np.where(np.sqrt(size) > least, count, 0)

    # with an initial guess, solve for the correction, which is linear in the residual
    rest = b - matvec(start) if x0 is not None else b

    def solve(matvec: Solve, b: Any) -> Any:
        return iterate(matvec, b)[0]

    # the transpose of a Hermitian matrix is its conjugate
    is_symmetric = b.dtype.kind == "f"
    x = custom_linear_solve(matvec, rest, solve, None if is_symmetric else solve, is_symmetric)
    return start + x, iterate(matvec, rest)[1]


qmr = refused("scipy.sparse.linalg:qmr", "use gmres")
lsqr, lsmr = (
    refused(
        f"scipy.sparse.linalg:{name}", "solve the normal equations by spsolve(A.T @ A, A.T @ b)"
    )
    for name in ("lsqr", "lsmr")
)
eigs = refused("scipy.sparse.linalg:eigs", "use np.linalg.eig of A.toarray()")
eigsh = refused("scipy.sparse.linalg:eigsh", "use np.linalg.eigh of A.toarray()")
svds = refused("scipy.sparse.linalg:svds", "use np.linalg.svd of A.toarray()")
inv = refused("scipy.sparse.linalg:inv", "use spsolve")


_TERMS, _REACH = 55, 9.9
"""Numbers of terms of the Taylor series, and the norms up to which they suffice in float64."""


@within_traces("scipy.sparse.linalg:expm")
def expm(A: Any) -> Any:
    """The exponential of a dense matrix: see `functrans.scipy.linalg.expm`."""
    if isinstance(A, SparseMethods) or scipy.sparse.issparse(A):
        refuse(
            "scipy.sparse.linalg.expm of a sparse matrix",
            "use functrans.scipy.linalg.expm of A.toarray()",
        )
    return dense_expm(A)


@within_traces("scipy.sparse.linalg:expm_multiply")
def expm_multiply(
    A: Any, B: Any, start: Any = None, stop: Any = None, num: Any = None, endpoint: Any = None,
    traceA: Any = None,
) -> Any:  # fmt: skip
    """The product of the exponential of a constant matrix and an array.

    It is computed by scaling: a truncated Taylor series of ``exp(A / s)`` is applied ``s`` times.
    Source: Al-Mohy and Higham, SIAM J. Sci. Comput. 33 (2011).

    Parameters
    ----------
    A : sparse array, or array, of shape (n, n)
    B : array of shape (n,) or (n, k)

    Raises
    ------
    UnsupportedNumPyError
        For several times: ``start``, ``stop`` and ``num``.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import diags_array
    >>> from functrans import grad
    >>> from functrans.scipy.sparse.linalg import expm_multiply
    >>> a = diags_array([0.0, 1.0])
    >>> grad(lambda b: np.sum(expm_multiply(a, b)))(np.ones(2))
    array([1.        , 2.71828183])
    """
    times = [("start", start), ("stop", stop), ("num", num), ("endpoint", endpoint)]
    refuse_options(
        "scipy.sparse.linalg.expm_multiply",
        [(name, value, "multiply the matrix by each time") for name, value in times],
    )
    if isinstance(A, scipy.sparse.linalg.LinearOperator):
        refuse("scipy.sparse.linalg.expm_multiply of an operator", "pass its matrix")
    if holds_tracer(A) or isinstance(A, SparseMethods):
        refuse(
            "scipy.sparse.linalg.expm_multiply of a traced matrix",
            "use functrans.scipy.linalg.expm(A) @ B, with A.toarray() of a sparse A",
        )
    matrix = scipy.sparse.csr_array(A)
    b = inexact(B)
    dtype = np.result_type(matrix.dtype, b.dtype, np.float64)
    size = matrix.shape[0]
    shift = matrix.trace() / size
    moved = matrix - shift * scipy.sparse.eye_array(size, format="csr")
    steps = max(1, int(np.ceil(scipy.sparse.linalg.norm(moved, 1) / _REACH)))
    part, growth = (moved / steps).astype(dtype), np.exp(shift / steps)

    def term(k: Any, state: Any) -> Any:
        total, last = state
        following = product(part, last) / (k + 1.0)
        return total + following, following

    def step(_: Any, b: Any) -> Any:
        return growth * fori_loop(0, _TERMS, term, (b, b))[0]

    return fori_loop(0, steps, step, b.astype(dtype))


@within_traces("scipy.sparse.linalg:norm")
def norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    """The norm of a sparse matrix, or of its rows or columns.

    Norms other than Frobenius' are those of the dense array.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import diags_array
    >>> from functrans import grad
    >>> from functrans.scipy.sparse.linalg import norm
    >>> grad(lambda d: norm(diags_array(d), 1))(np.array([-3.0, 2.0]))
    array([-1.,  0.])
    """
    if not isinstance(x, SparseMethods):
        return own(scipy.sparse.linalg.norm)(x, ord, axis)
    if ord in (None, "fro") and axis is None:
        return np.linalg.norm(x.data)
    return np.linalg.norm(x.toarray(), ord, axis)


class _Factors:
    """SciPy's LU factors of a matrix, with a `solve` that accepts traced values."""

    def __init__(self, matrix: Any, name: str) -> None:
        self._matrix, self._name = matrix, name

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Solve the system, or the transposed one."""
        matrix = self._matrix if trans == "N" else self._matrix.T
        return _solver(matrix.conj() if trans == "H" else matrix, self._name)(rhs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(own(getattr(scipy.sparse.linalg, self._name))(self._matrix), name)


@within_traces("scipy.sparse.linalg:splu")
def splu(A: Any, **options: Any) -> Any:
    """The LU factors of a sparse matrix, with a method `solve`.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import eye_array
    >>> from functrans import jit
    >>> from functrans.scipy.sparse.linalg import splu
    >>> jit(lambda b: splu(2 * eye_array(2, format="csc")).solve(b))(np.array([2.0, 6.0]))
    array([1., 3.])
    """
    return _Factors(A, "splu")


spilu = refused("scipy.sparse.linalg:spilu", "use splu")
