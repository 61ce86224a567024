"""Iterative solvers: SciPy iterates on the host, and the solution is differentiated implicitly.

Forward mode solves the same system again, by the same method and to the same tolerance; reverse
mode solves the transposed system.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from functrans.api.closure import closure_convert
from functrans.api.host import callback
from functrans.api.linear import linear_transpose
from functrans.api.recompute import stop_gradient
from functrans.ir.types import Aval
from functrans.lax.implicit import custom_linear_solve
from functrans.lazily import lazy
from functrans.numpy.arrays import array, astype, inexact
from functrans.ops.arrays.shape import holds_tracer
from functrans.records import NamedTuple
from functrans.scipy.entries import enter
from functrans.scipy.inside import refuse_options, within_traces
from functrans.scipy.sparse.products import product
from functrans.scipy.sparse.traced import SparseMethods
from functrans.trace.tracer import Tracer

Function = Callable[..., Any]

_operator = lazy("scipy.sparse.linalg:LinearOperator")
_matrix_operator = lazy("scipy.sparse.linalg._interface:MatrixLinearOperator")


def matvec_of(matrix: Any) -> Function:
    """The matrix-vector product of a sparse matrix, an array, an operator or a function."""
    if isinstance(matrix, SparseMethods):
        return lambda x: matrix @ x
    if scipy.sparse.issparse(matrix):
        return lambda x: product(matrix, x) if isinstance(x, Tracer) else matrix @ x
    if hasattr(matrix, "matvec"):
        return lambda x: matrix.matvec(x)
    if callable(matrix):
        return lambda x: array(matrix(x))
    return lambda x: array(matrix) @ x


def common_dtype(matrix: Any, of_vectors: Any) -> Any:
    """The dtype of a solution; a function's results have that of its vectors."""
    own = getattr(matrix, "dtype", None)
    return of_vectors if own is None else np.result_type(own, of_vectors)


def _is_plain(matrix: Any) -> bool:
    """Whether a matrix can be passed to SciPy as it is, since nothing in it is traced."""
    if isinstance(matrix, SparseMethods):
        return False
    return scipy.sparse.issparse(matrix) or (
        not callable(matrix) and not hasattr(matrix, "matvec") and not holds_tracer(matrix)
    )


def _transposed(product: Function, like: Any, y: Any) -> Any:
    return linear_transpose(product, like)(y)[0]


class _OnTheHost(NamedTuple):
    """One of SciPy's methods for one matrix: what `custom_linear_solve` calls."""

    method: Function
    matrix: Any  # None if products with it are traced
    dtype: Any
    size: int
    preconditioner: Any
    options: dict[str, Any]

    def solve(self, equations: Function, right: Any) -> Any:
        """The solution, and SciPy's report on its convergence as a float."""
        return self._solved(self.matrix, equations, right, self._preconditioning())

    def solve_transposed(self, equations: Function, right: Any) -> Any:
        """The same of the transposed system."""
        matrix = None if self.matrix is None else self.matrix.T
        plain, product = self._preconditioning()
        transposed = product and partial(_transposed, product, right[0])
        given = None if plain is None else plain.T, transposed
        return self._solved(matrix, equations, right, given)

    def _preconditioning(self) -> tuple[Any, Function | None]:
        """The preconditioner, or products with it if they are traced."""
        given = self.preconditioner
        if isinstance(given, SparseMethods) or holds_tracer(given):
            return None, matvec_of(given)
        return given, None

    def _solved(
        self, matrix: Any, equations: Function, right: Any, preconditioner: tuple[Any, Any]
    ) -> Any:
        b, is_primal = right
        matvec = None if matrix is not None else lambda x: equations((x, is_primal))[0]
        given = (matrix, matvec), preconditioner
        converted = [closure_convert(f, b) if f is not None else (None, ()) for _, f in given]

        def operator(plain: Any, function: Any, captures: Any) -> Any:
            if function is None:
                return plain

            def product(x: Any) -> Any:
                return function(x.reshape(-1), *captures)

            def adjoint(y: Any) -> Any:
                return np.conj(_transposed(product, b, np.conj(y.reshape(-1))))

            return _operator((self.size, self.size), product, adjoint, dtype=self.dtype)

        def iterate(b: Any, is_primal: Any, *captures: Any) -> Any:
            functions = [function for function, _ in converted]
            plain = [matrix for matrix, _ in given]
            A, M = map(operator, plain, functions, captures)
            x, info = self.method(A, b, M=M, **self.options)
            # nobody is told that the iteration for a derivative broke down
            x = x if info >= 0 or is_primal else np.full_like(x, np.nan)
            return x, np.asarray(info, float)

        types = Aval((self.size,), self.dtype), Aval((), float)
        return callback(iterate, out_types=types)(*right, *(values for _, values in converted))


def _solver(name: str, summary: str, symmetric: bool) -> Function:
    """The public function for one of SciPy's iterative solvers."""
    scipys = lazy(f"scipy.sparse.linalg:{name}")

    def public(A: Any, b: Any, x0: Any = None, **options: Any) -> Any:
        callbacks = options.pop("callback", None)
        options.pop("callback_type", None)
        refuse_options(f"scipy.sparse.linalg.{name}", [("callback", callbacks, "leave it out")])
        preconditioner = options.pop("M", None)
        b = inexact(b).reshape(-1)
        matrix = A if _is_plain(A) else None
        dtype = common_dtype(A, b.dtype if matrix is not None else np.result_type(b.dtype, float))
        b = b.astype(dtype)
        start = None if x0 is None else stop_gradient(inexact(x0)).astype(dtype).reshape(-1)
        matvec = matvec_of(A)
        # with an initial guess, solve for the correction, which is linear in the residual
        rest = b if start is None else b - matvec(start)
        host = _OnTheHost(scipys, matrix, dtype, b.size, preconditioner, options)

        def equations(pair: Any) -> Any:
            """The system, and an equation for SciPy's report.

            Its right-hand side is 1, and in the systems that derivatives solve 0.
            """
            x, info = pair
            return matvec(x), info

        x, info = custom_linear_solve(
            equations, (rest, np.ones(())), host.solve, host.solve_transposed, symmetric
        )
        return (x if start is None else start + x), astype(stop_gradient(info), np.int64)

    public.__doc__ = f"""The solution of ``A x = b`` by {summary}.

    SciPy iterates, to its tolerances; the derivative is that of the solution, in ``b`` and in
    whatever ``A`` takes from around it if it is a function, an operator or a traced array. It is
    NaN if the iteration for it breaks down.

    Parameters
    ----------
    A : sparse array, array, scipy.sparse.linalg.LinearOperator, or function of a vector
        A sparse matrix is constant.
    b : array of shape (n,)
    x0 : array of shape (n,), optional
    **options
        As SciPy's: ``rtol``, ``atol``, ``maxiter``, ``M``, ...

    Returns
    -------
    x : array of shape (n,)
    info : int
        0 if the iteration has converged.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy.sparse.linalg import {name}
    >>> f = lambda d: np.sum({name}(np.diag(d), np.ones(2), rtol=1e-12)[0])
    >>> grad(f)(np.array([2.0, 4.0])).round(6)
    array([-0.25  , -0.0625])
    """
    return within_traces(f"scipy.sparse.linalg:{name}")(public)


bicg = _solver("bicg", "biconjugate gradients", symmetric=False)
bicgstab = _solver("bicgstab", "stabilised biconjugate gradients", symmetric=False)
cgs = _solver("cgs", "conjugate gradients squared", symmetric=False)
gcrotmk = _solver("gcrotmk", "the method GCROT(m, k)", symmetric=False)
gmres = _solver("gmres", "generalised minimal residuals", symmetric=False)
lgmres = _solver("lgmres", "the method LGMRES", symmetric=False)
minres = _solver("minres", "minimal residuals, for a symmetric matrix", symmetric=True)
tfqmr = _solver("tfqmr", "quasi-minimal residuals without transposes", symmetric=False)


# -- operators -------------------------------------------------------------------------------------


def _operator_dtype(self: Any) -> None:
    """The dtype of an operator's results; within a trace, those are traced values."""
    if self.dtype is None:
        self.dtype = np.dtype(array(self._matvec(np.zeros(self.shape[-1], np.int8))).dtype)


_OPERATOR: dict[str, Function] = {
    "matvec": lambda self, x: array(self._matvec(x)).reshape(self.shape[0], *x.shape[1:]),
    "rmatvec": lambda self, x: array(self._rmatvec(x)).reshape(self.shape[1], *x.shape[1:]),
    "matmat": lambda self, x: array(self._matmat(x)),
    "_init_dtype": _operator_dtype,
}

for _name, _ours in _OPERATOR.items():
    # within a trace, every operator is ours: its function may close over traced values
    enter(f"scipy.sparse.linalg:LinearOperator.{_name}", _ours, lambda *_: True)
enter(
    "scipy.sparse.linalg:LinearOperator.dot",
    lambda self, x: self.matvec(x) if x.ndim == 1 else self.matmat(x),
)
enter("scipy.sparse.linalg._interface:MatrixLinearOperator._matmat", lambda self, x: self.A @ x)
enter("scipy.sparse.linalg:aslinearoperator", lambda A: _matrix_operator(np.atleast_2d(A)))
