"""Solutions, inverses, determinants, norms and matrix equations of `scipy.linalg`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from functrans import numpy as fnp
from functrans.errors import ShapeError
from functrans.numpy.arrays import common_dtype, inexact, inexact_pair
from functrans.ops.arrays.structural import astype
from functrans.ops.elementwise.complex_numbers import conj
from functrans.ops.elementwise.stop import stop_gradient
from functrans.ops.linalg import factorisations as ops
from functrans.ops.linalg.matrices import (
    adjoint,
    hermitian,
    identity,
    on_rows,
    product,
    transposed,
    triangle,
)
from functrans.ops.linalg.riccati import continuous_riccati_p, discrete_riccati_p, solve_stein
from functrans.ops.linalg.svd import svdvals_p
from functrans.ops.linalg.sylvester import sylvester_p
from functrans.scipy.define import answers, double, since_1_18, single
from functrans.scipy.linalg.factors import cho_solve
from functrans.scipy.linalg.structured import together
from functrans.trace.source import here
from functrans.trace.tracer import Tracer

__all__ = [
    "det", "inv", "lstsq", "norm", "pinv", "pinvh", "solve", "solve_continuous_are",
    "solve_continuous_lyapunov", "solve_discrete_are", "solve_discrete_lyapunov", "solve_lyapunov",
    "solve_sylvester", "solve_triangular",
]  # fmt: skip

# -- systems ---------------------------------------------------------------------------------------


def _symmetric(a: Any, lower: bool) -> Any:
    strict = triangle(a, lower=lower, unit_diagonal=True)
    return triangle(a, lower=lower) + transposed(strict)


def _three_diagonals(a: Any, lower: bool) -> Any:
    rows = fnp.arange(a.shape[-1])
    return fnp.where(abs(rows[:, None] - rows) <= 1, a, 0)


_DEFINITE = ("pos", "positive definite")

_READ: dict[Any, Callable[[Any, bool], Any]] = {
    **dict.fromkeys((None, "gen", "general", "banded"), lambda a, lower: a),
    "diagonal": lambda a, lower: triangle(triangle(a, lower=True), lower=False),
    "tridiagonal": _three_diagonals,
    "upper triangular": lambda a, lower: triangle(a, lower=False),
    "lower triangular": lambda a, lower: triangle(a, lower=True),
    **dict.fromkeys(("sym", "symmetric"), _symmetric),
    **dict.fromkeys(
        ("her", "hermitian", *_DEFINITE),
        lambda a, lower: hermitian(a, lower=lower),
    ),
}
"""The elements of a matrix that are read, by its structure."""

_TRIANGULAR = {"upper triangular": False, "lower triangular": True}


def _matrix(a: Any, assume_a: Any, lower: bool) -> Any:
    if assume_a not in _READ:
        raise ValueError(f"{assume_a} is not a recognized matrix structure")
    return _READ[assume_a](single(a), lower)


@answers(scipy.linalg.solve)
def solve(
    a: Any, b: Any, lower: bool = False, *, assume_a: Any = None, transposed: bool = False
) -> Any:
    """Solve ``a @ x = b`` for ``x``.

    Parameters
    ----------
    a : array of shape (..., N, N)
    b : array of shape (N,) or (..., N, K)
    lower : bool
        Which triangle is read, if only one is for the given ``assume_a``.
    assume_a : str, optional
        The structure of the matrix, which decides which elements are read: 'general', 'diagonal',
        'tridiagonal', 'banded', 'upper triangular', 'lower triangular', 'symmetric', 'hermitian' or
        'positive definite', or SciPy's abbreviations of these. Positive definite systems are solved
        by a Cholesky factorisation.
    transposed : bool
        Whether ``a.T @ x = b`` is solved.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import linalg
    >>> a = np.array([[2.0, 0.0], [1.0, 4.0]])
    >>> grad(lambda b: linalg.solve(a, b, assume_a="pos", lower=True)[0])(np.ones(2)).round(3)
    array([ 0.571, -0.143])
    """
    a, right = map(single, inexact_pair(a, b))
    if assume_a in _TRIANGULAR:
        return ops.solve_triangular(a, right, int(transposed), _TRIANGULAR[assume_a])
    x = _matrix(a, assume_a, lower)
    if assume_a in _DEFINITE:
        # the transpose of a real symmetric matrix is itself, that of a Hermitian one its conjugate
        x = conj(x) if transposed else x
        return cho_solve((ops.cholesky(x), True), right)
    return ops.solve(x, right, transpose_a=bool(transposed))


@answers(scipy.linalg.solve_triangular)
def solve_triangular(
    a: Any, b: Any, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """Solve ``a @ x = b`` for ``x``, where ``a`` is triangular; the other triangle is not read.

    Parameters
    ----------
    a : array of shape (..., N, N)
    b : array of shape (N,) or (..., N, K)
    trans : {0, 1, 2, 'N', 'T', 'C'}
        Whether the matrix is transposed (1, 'T') or conjugated and transposed (2, 'C').
    lower, unit_diagonal : bool
        Which triangle is read, and whether the diagonal is assumed to be 1.
    """
    kind: Any = "NTC".find(trans) if isinstance(trans, str) else trans
    if kind not in (0, 1, 2):
        raise ValueError(f"trans is one of 0, 1, 2, 'N', 'T' and 'C', not {trans!r}")
    x = conj(single(a)) if kind == 2 else single(a)
    return ops.solve_triangular(x, single(b), int(kind != 0), lower, unit_diagonal)


@answers(scipy.linalg.inv)
def inv(a: Any, *, assume_a: Any = None, lower: bool = False) -> Any:
    """The inverse matrices; `assume_a` and `lower` are as for `solve`."""
    x = _matrix(a, assume_a, lower)
    if assume_a in _DEFINITE:
        return cho_solve((ops.cholesky(x), True), fnp.eye(x.shape[-1], dtype=x.dtype))
    return ops.inv(x)


@answers(scipy.linalg.det)
def det(a: Any) -> Any:
    """The determinants."""
    return ops.det(double(a))


@answers(scipy.linalg.norm)
def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """A norm of vectors or matrices: see `functrans.numpy.linalg.norm`."""
    return fnp.linalg.norm(inexact(a), ord, axis, keepdims)


# -- least squares ---------------------------------------------------------------------------------


@answers(scipy.linalg.lstsq)
def lstsq(a: Any, b: Any, cond: Any = None) -> Any:
    """The least-squares solution of ``a @ x = b`` of minimal norm.

    Parameters
    ----------
    a : array of shape (M, N)
    b : array of shape (M,) or (M, K)
    cond : float, optional
        Singular values of at most ``cond`` times the largest one count as 0; by default the machine
        epsilon.

    Returns
    -------
    x : array of shape (N,) or (N, K)
    residues : array of shape () or (K,), or (0,)
        The squared norms of ``b - a @ x``; empty if M <= N or if the rank is less than N. Under
        `jit` and `vmap`, where the rank is not known, they are empty only if M <= N.
    rank : integer
    s : array of shape (min(M, N),)
        The singular values of ``a``.
    """
    # short integers alone are float64 in newer versions, as in `solve`
    matrix, right = map(single, inexact_pair(a, b) if since_1_18() else (a, b))
    if matrix.ndim != 2 or right.ndim not in (1, 2) or right.shape[0] != matrix.shape[0]:
        raise ShapeError(
            f"lstsq takes a matrix of shape (M, N), and a right-hand side of shape (M,) or (M, K), "
            f"not {matrix.shape} and {right.shape}{here()}"
        )
    dtype = common_dtype(matrix, right)
    cutoff = float(np.finfo(dtype).eps) if cond is None else cond
    x, residues, rank, values = fnp.linalg.lstsq(matrix, right, cutoff)
    if not residues.size or since_1_18():
        residues = astype(residues, dtype)
    if residues.size and right.ndim == 1:
        residues = residues[0]
    return x, residues, astype(rank, np.int64), values


@answers(scipy.linalg.pinv)
def pinv(a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False) -> Any:
    """The pseudo-inverses of matrices.

    Parameters
    ----------
    a : array of shape (..., M, N)
    atol, rtol : float, optional
        Singular values of at most ``atol + rtol * s.max()`` count as 0. The defaults are 0 and
        ``max(M, N)`` times the machine epsilon.
    return_rank : bool
        Whether the number of remaining singular values is returned as a second result.

    Notes
    -----
    See `functrans.numpy.linalg.pinv` for the derivative.
    """
    return _pseudo_inverse(single(a), atol, rtol, return_rank)


@answers(scipy.linalg.pinvh)
def pinvh(
    a: Any, atol: Any = None, rtol: Any = None, lower: bool = True, return_rank: bool = False
) -> Any:
    """The pseudo-inverses of Hermitian matrices, of which only one triangle is read; see `pinv`."""
    return _pseudo_inverse(hermitian(single(a), lower=lower), atol, rtol, return_rank)


def _pseudo_inverse(x: Any, atol: Any, rtol: Any, return_rank: bool) -> Any:
    if any(not isinstance(tol, Tracer) and (tol or 0) < 0 for tol in (atol, rtol)):
        raise ValueError("atol and rtol values must be positive.")
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    if atol is None and not return_rank:
        return fnp.linalg.pinv(x, rtol)
    values = stop_gradient(svdvals_p(x))
    largest = fnp.max(values, axis=-1, initial=0.0)
    cutoff = rtol + (0 if atol is None else atol / fnp.where(largest == 0, 1, largest))
    inverse = fnp.linalg.pinv(x, cutoff)
    if not return_rank:
        return inverse
    return inverse, fnp.sum(values > on_rows(cutoff * largest), axis=-1)


# -- matrix equations ------------------------------------------------------------------------------


def _together(*matrices: Any) -> list[Any]:
    """Broadcast the leading axes of matrices, and convert them to a common dtype."""
    return together(*(single(inexact(x)) for x in matrices), axes=2)


@answers(scipy.linalg.solve_sylvester)
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """Solve the Sylvester equation ``a @ x + x @ b = q`` for ``x``.

    Parameters
    ----------
    a : array of shape (..., M, M)
    b : array of shape (..., N, N)
    q : array of shape (..., M, N)

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import linalg
    >>> grad(lambda a: linalg.solve_sylvester(a, np.eye(1), np.ones((1, 1)))[0, 0])(np.eye(1))
    array([[-0.25]])
    """
    return sylvester_p(*_together(a, b, q))


@answers(scipy.linalg.solve_continuous_lyapunov)
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """Solve the Lyapunov equation ``a @ x + x @ a.conj().T = q`` for ``x``."""
    x, right = _together(a, q)
    return sylvester_p(x, adjoint(x), right)


solve_lyapunov = solve_continuous_lyapunov


@answers(scipy.linalg.solve_discrete_lyapunov)
def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Any:
    """Solve the discrete Lyapunov equation ``a @ x @ a.conj().T - x + q = 0`` for ``x``.

    Parameters
    ----------
    a, q : array of shape (..., M, M)
    method : {'direct', 'bilinear'}, optional
        A linear system of ``M**2`` equations, the default for fewer than ten rows; or the bilinear
        transformation to a continuous equation.
    """
    x, right = _together(double(a), double(q))
    n = x.shape[-1]
    chosen = method or ("bilinear" if n >= 10 else "direct")
    if chosen.lower() not in ("direct", "bilinear"):
        raise ValueError(f"Unknown solver {method}")
    if chosen.lower() == "direct":
        return solve_stein(x, right)
    one = identity(n, x.dtype)
    xh = adjoint(x)
    shifted = ops.inv(xh + one)
    left = product(xh - one, shifted)
    middle = 2 * product(ops.inv(x + one), right, shifted)
    return sylvester_p(adjoint(left), left, -middle)


@answers(scipy.linalg.solve_continuous_are)
def solve_continuous_are(a: Any, b: Any, q: Any, r: Any) -> Any:
    """Solve the continuous Riccati equation for the stabilising ``x``.

    The equation is ``a^H x + x a - x b r^-1 b^H x + q = 0``.

    Parameters
    ----------
    a : array of shape (..., M, M)
    b : array of shape (..., M, N)
    q : array of shape (..., M, M)
        Its Hermitian part is used.
    r : array of shape (..., N, N)
        As ``q``; it must be nonsingular.

    Notes
    -----
    The derivative is the solution of a Lyapunov equation with the closed loop's matrix (T.-C. Kao
    and G. Hennequin, "Automatic differentiation of Sylvester, Lyapunov, and algebraic Riccati
    equations", 2020). SciPy's parameters ``e`` and ``s`` are not supported on traced values.
    """
    return continuous_riccati_p(*_together(*map(double, (a, b, q, r))))


@answers(scipy.linalg.solve_discrete_are)
def solve_discrete_are(a: Any, b: Any, q: Any, r: Any) -> Any:
    """Solve the discrete Riccati equation for the stabilising ``x``.

    The equation is ``a^H x a - x - a^H x b (r + b^H x b)^-1 b^H x a + q = 0``. Shapes and
    derivative are those of `solve_continuous_are`.
    """
    return discrete_riccati_p(*_together(*map(double, (a, b, q, r))))
