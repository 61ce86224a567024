"""The factorisations of `scipy.linalg`, with derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from functrans import numpy as fnp
from functrans.ir.types import real_dtype
from functrans.numpy.arrays import array
from functrans.numpy.define import needed, refuse
from functrans.ops.arrays.shape import flip
from functrans.ops.arrays.structural import cast, expand_axes, iota
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.complex_numbers import conj
from functrans.ops.linalg import factorisations as ops
from functrans.ops.linalg.ldl import ldl_p
from functrans.ops.linalg.lu import lu_p, places_in, rows_in_order
from functrans.ops.linalg.matrices import (
    INDEX,
    above,
    adjoint,
    broadcast_leading,
    columns_of,
    on_columns,
    on_rows,
    product,
    rows_of,
    transposed,
    triangle,
)
from functrans.ops.linalg.qr import pivots_p, qr_p
from functrans.ops.linalg.svd import svd_p
from functrans.ops.linalg.sylvester import polar_p
from functrans.scipy.define import answers, since_1_18, single

__all__ = [
    "cho_factor", "cho_solve", "cholesky", "diagsvd", "ldl", "lu", "lu_factor", "lu_solve",
    "null_space", "orth", "polar", "qr", "qr_multiply", "rq", "svd", "svdvals",
]  # fmt: skip

# -- Cholesky --------------------------------------------------------------------------------------


@answers(scipy.linalg.cholesky)
def cholesky(a: Any, lower: bool = False) -> Any:
    """The Cholesky factor of positive definite matrices, of which only one triangle is read.

    Parameters
    ----------
    a : array of shape (..., M, M)
    lower : bool
        Whether the factor is L in ``a = L @ L.conj().T`` or U in ``a = U.conj().T @ U``.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import linalg
    >>> grad(lambda a: np.sum(linalg.cholesky(a)))(np.array([[4.0]]))
    array([[0.25]])
    """
    return ops.cholesky(single(a), upper=not lower)


@answers(scipy.linalg.cho_factor)
def cho_factor(a: Any, lower: bool = False) -> tuple[Any, bool]:
    """The Cholesky factor for `cho_solve`; the values of the other triangle are undefined.

    They are those of this SciPy: 0 since version 1.18, before that those of ``a``.
    """
    x = single(a)
    factor = ops.cholesky(x, upper=not lower)
    if not since_1_18():
        factor = factor + triangle(x, lower=not lower, unit_diagonal=True)
    return factor, bool(lower)


@answers(scipy.linalg.cho_solve)
def cho_solve(c_and_lower: Any, b: Any) -> Any:
    """Solve ``a @ x = b`` for ``x``, given the factor of ``a`` from `cho_factor`."""
    factor, lower = c_and_lower
    x = single(factor)
    lower = bool(np.all(lower))  # SciPy's cho_factor returns one for each matrix of a stack

    def solve(columns: Any) -> Any:
        half = ops.solve_triangular(x if lower else conj(x), columns, int(not lower), lower)
        return ops.solve_triangular(conj(x) if lower else x, half, int(lower), lower)

    return of_columns(solve, single(b))


def of_columns(solve: Callable[[Any], Any], b: Any) -> Any:
    """The solution for a vector or for several columns, from a function of columns."""
    return solve(expand_axes(b, (1,)))[..., 0] if b.ndim == 1 else solve(b)


# -- LU --------------------------------------------------------------------------------------------


@answers(scipy.linalg.lu)
def lu(a: Any, permute_l: bool = False, *, p_indices: bool = False) -> Any:
    """The LU factorisation ``a = P @ L @ U`` with partial pivoting.

    Parameters
    ----------
    a : array of shape (..., M, N)
    permute_l : bool
        Whether ``P @ L`` is returned instead of P and L.
    p_indices : bool
        Whether P is returned as indices, with ``a = L[P, :] @ U``.

    Returns
    -------
    p : array of shape (..., M, M) or (..., M)
    l : array of shape (..., M, K)
        Where ``K = min(M, N)``.
    u : array of shape (..., K, N)
    """
    x = single(a)
    k = min(x.shape[-2:])
    factors, _, order = lu_p(x)
    left = triangle(columns_of(factors, 0, k), lower=True, unit_diagonal=True)
    left = left + fnp.eye(x.shape[-2], k, dtype=x.dtype)
    right = triangle(rows_of(factors, 0, k), lower=False)
    places = places_in(order)
    if permute_l:
        return rows_in_order(left, places), right
    if p_indices:
        return places, left, right
    positions = iota(size=x.shape[-2], dtype=INDEX)
    matrix = cast(equal(on_rows(places), positions), dtype=real_dtype(x.dtype))
    return matrix, left, right


@answers(scipy.linalg.lu_factor)
def lu_factor(a: Any) -> tuple[Any, Any]:
    """The LU factorisation with both triangles in one array, and the pivot indices."""
    factors, pivots, _ = lu_p(single(a))
    return factors, pivots


@answers(scipy.linalg.lu_solve)
def lu_solve(lu_and_piv: Any, b: Any, trans: int = 0) -> Any:
    """Solve ``a @ x = b`` for ``x``, given the result of `lu_factor`.

    With ``trans=1`` the matrix is transposed, with ``trans=2`` also conjugated.
    """
    factors, pivots = (array(x) for x in lu_and_piv)
    order = _order_of(pivots)
    if trans not in (0, 1, 2):
        raise ValueError(f"trans is 0, 1 or 2, not {trans!r}")
    factors = conj(factors) if trans == 2 else factors

    def solve(columns: Any) -> Any:
        if not trans:
            x = ops.solve_triangular(factors, _reordered(columns, order), 0, True, True)
            return ops.solve_triangular(factors, x, 0, False)
        x = ops.solve_triangular(factors, columns, 1, False)
        x = ops.solve_triangular(factors, x, 1, True, True)
        return _reordered(x, places_in(order))

    return of_columns(solve, single(b))


def _order_of(pivots: Any) -> Any:
    """The permutation of the rows that results from a sequence of pivot exchanges."""
    order = fnp.arange(pivots.shape[-1]) + 0 * pivots
    for i in range(pivots.shape[-1]):
        other = pivots[..., i : i + 1]
        position = fnp.arange(pivots.shape[-1])
        here, there = order[..., i : i + 1], fnp.take_along_axis(order, other, -1)
        order = fnp.where(position == i, there, fnp.where(position == other, here, order))
    return order


def _reordered(x: Any, order: Any) -> Any:
    leading = broadcast_leading(x.shape[:-2], order.shape[:-1])
    rows = fnp.broadcast_to(order, (*leading, order.shape[-1]))
    return rows_in_order(fnp.broadcast_to(x, (*leading, *x.shape[-2:])), rows)


# -- Hermitian matrices ----------------------------------------------------------------------------


@answers(scipy.linalg.ldl)
def ldl(A: Any, lower: bool = True, hermitian: bool = True) -> tuple[Any, Any, Any]:
    """The LDL factorisation ``A = L @ D @ L.conj().T`` of Hermitian, possibly indefinite matrices.

    Parameters
    ----------
    A : array of shape (..., M, M)
        One triangle is read.
    lower : bool
        Which triangle is read, and whether L is a lower triangle.
    hermitian : bool
        Whether complex matrices are Hermitian; otherwise symmetric, with ``A = L @ D @ L.T``.

    Returns
    -------
    lu : array of shape (..., M, M)
        L with permuted rows.
    d : array of shape (..., M, M)
        Block diagonal, with blocks of size 1 and 2.
    perm : array of shape (..., M)
        The permutation that makes L triangular, as ``lu[perm]``.
    """
    factor, middle, order = ldl_p(single(A), lower=bool(lower), hermitian=bool(hermitian))
    return factor, middle, order


# -- QR --------------------------------------------------------------------------------------------


@answers(scipy.linalg.qr)
def qr(a: Any, *, mode: str = "full", pivoting: bool = False) -> Any:
    """The QR factorisation ``a = Q @ R``.

    Parameters
    ----------
    a : array of shape (..., M, N)
    mode : {'full', 'r', 'economic'}
        Whether Q has all M columns, is not returned, or has ``K = min(M, N)`` columns. ('raw' is
        not supported.)
    pivoting : bool
        Whether columns are permuted so that the absolute values on the diagonal of R do not
        increase: ``a[:, P] = Q @ R``.

    Returns
    -------
    Q : array of shape (..., M, M) or (..., M, K)
    R : array of shape (..., M, N) or (..., K, N)
    P : array of shape (..., N)

    Notes
    -----
    See `functrans.numpy.linalg.qr` for the derivative.
    """
    if mode not in ("full", "r", "economic"):
        refuse(f"scipy.linalg.qr with mode={mode!r}", "use mode='full' or mode='economic'")
    x = single(a)
    order: tuple[Any, ...] = ()
    if pivoting:
        pivots = pivots_p(x)
        order = (pivots,)
        x = transposed(rows_in_order(transposed(x), pivots))
    q, r = qr_p(x, complete=mode != "economic")
    return (r, *order) if mode == "r" else (q, r, *order)


@answers(scipy.linalg.qr_multiply)
def qr_multiply(
    a: Any, c: Any, mode: str = "right", pivoting: bool = False, conjugate: bool = False
) -> Any:
    """``c @ Q`` (or ``Q @ c`` for ``mode='left'``) and R, where ``a = Q @ R``.

    Parameters
    ----------
    a : array of shape (M, N)
    c : array of one or two axes
        Of M columns, or of ``min(M, N)`` rows for ``mode='left'``.
    mode : {'left', 'right'}
    pivoting : bool
        As for `qr`, with the permutation as a third result.
    conjugate : bool
        Whether Q is conjugated.
    """
    if mode not in ("left", "right"):
        raise ValueError(f"Mode argument should be either 'left' or 'right', not {mode!r}")
    q, *rest = qr(a, mode="economic", pivoting=pivoting)
    q = conj(q) if conjugate else q
    other = single(c)
    return (product(q, other) if mode == "left" else product(other, q), *rest)


@answers(scipy.linalg.rq)
def rq(a: Any, *, mode: str = "full") -> Any:
    """The RQ factorisation ``a = R @ Q``, with orthonormal rows in Q.

    Parameters
    ----------
    a : array of shape (..., M, N)
    mode : {'full', 'r', 'economic'}
        As for `qr`, with ``K = min(M, N)`` rows of Q.

    Notes
    -----
    The factors are those of `qr` for the matrix with rows and columns in reverse order.
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError("Mode argument should be one of ['full', 'r', 'economic']")
    x = single(a)
    axes = (x.ndim - 2, x.ndim - 1)
    factors = qr_p(adjoint(flip(x, axes=axes)), complete=mode != "economic")
    q, r = (flip(adjoint(y), axes=axes) for y in factors)
    return r if mode == "r" else (r, q)


# -- singular values -------------------------------------------------------------------------------


@answers(scipy.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """The singular value decomposition of matrices; see `functrans.numpy.linalg.svd`."""
    u, s, vh = svd_p(single(a), full=bool(full_matrices and compute_uv))
    return (u, s, vh) if compute_uv else s


@answers(scipy.linalg.svdvals)
def svdvals(a: Any) -> Any:
    """The singular values of matrices, in descending order."""
    return svd_p(single(a), full=False)[1]


@answers(scipy.linalg.diagsvd)
def diagsvd(s: Any, M: int, N: int) -> Any:
    """Matrices of M rows and N columns with the given singular values on their diagonals."""
    x = array(s)
    if x.shape[-1] not in (M, N):
        raise ValueError("Length of s must be M or N.")
    square = on_columns(x) * fnp.eye(x.shape[-1], dtype=x.dtype)
    if x.shape[-1] == M:
        return fnp.concatenate([square, fnp.zeros((*x.shape[:-1], M, N - M), x.dtype)], -1)
    return above(square, fnp.zeros((*x.shape[:-1], M - N, N), x.dtype))


@answers(scipy.linalg.orth)
def orth(A: Any, rcond: Any = None) -> Any:
    """An orthonormal basis of the column space of a matrix, as columns.

    The shape depends on the rank, so the values have to be known, and the function cannot be used
    under `jit` and `vmap`. The vectors are singular vectors (see `functrans.numpy.linalg.svd` for
    their derivatives).
    """
    x = single(A)
    u, s, _ = svd_p(x, full=False)
    return columns_of(u, 0, _known_rank("orth", x, s, rcond))


@answers(scipy.linalg.null_space)
def null_space(A: Any, rcond: Any = None) -> Any:
    """An orthonormal basis of the kernel of a matrix, as columns; see `orth`."""
    x = single(A)
    _, s, vh = svd_p(x, full=True)
    rank = _known_rank("null_space", x, s, rcond)
    return adjoint(rows_of(vh, rank, x.shape[-1]))


def _known_rank(name: str, x: Any, s: Any, rcond: Any) -> int:
    if rcond is None:
        rcond = float(np.finfo(s.dtype).eps) * max(x.shape[-2:])
    rank = needed(
        fnp.sum(s > fnp.max(s, initial=0.0) * rcond),
        f"scipy.linalg.{name} of a matrix whose rank is not known",
        "its result's shape is the rank: under jit and vmap, take columns of svd's factors",
    )
    return int(rank)


@answers(scipy.linalg.polar)
def polar(a: Any, side: str = "right") -> tuple[Any, Any]:
    """The polar decomposition ``a = U @ P`` (or ``a = P @ U`` for ``side='left'``).

    Parameters
    ----------
    a : array of shape (..., M, N)
    side : {'left', 'right'}

    Returns
    -------
    u : array of shape (..., M, N)
        With orthonormal columns, or orthonormal rows if there are fewer rows.
    p : array of shape (..., N, N), or (..., M, M) for ``side='left'``

    Notes
    -----
    The derivative is the solution of a Sylvester equation (N. Higham, "Functions of Matrices",
    2008, section 8.2). It is correct for repeated singular values, too, unless one is 0.
    """
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    x = single(a)
    if x.shape[-2] >= x.shape[-1]:
        u, p = polar_p(x)
        return u, p if side == "right" else product(u, p, adjoint(u))
    uh, p = polar_p(adjoint(x))
    return adjoint(uh), p if side == "left" else product(uh, p, adjoint(uh))
