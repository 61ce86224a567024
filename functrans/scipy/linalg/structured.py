"""Matrices built from vectors and blocks, and properties of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from functrans import numpy as fnp
from functrans.errors import ShapeError
from functrans.numpy.arrays import array, common_dtype, known
from functrans.numpy.define import needed
from functrans.ops.arrays.structural import astype, broadcast_to
from functrans.ops.elementwise.complex_numbers import conj
from functrans.ops.linalg.matrices import above, adjoint, broadcast_leading, product, transposed
from functrans.ops.linalg.qr import qr_p
from functrans.ops.linalg.svd import svd_p
from functrans.ops.linalg.sylvester import polar_p
from functrans.scipy.define import answers, since_1_18, single
from functrans.trace.source import here

__all__ = [
    "bandwidth", "circulant", "clarkson_woodruff_transform", "companion", "fiedler_companion",
    "hankel", "ishermitian", "issymmetric", "orthogonal_procrustes", "subspace_angles", "toeplitz",
]  # fmt: skip

# -- matrices built from vectors -------------------------------------------------------------------


def _positions(rows: int, columns: int) -> tuple[Any, Any]:
    return np.arange(rows)[:, None], np.arange(columns)


def together(*arrays: Any, axes: int) -> list[Any]:
    """Arrays in their common dtype, with broadcast leading axes before the last ``axes``."""
    dtype = common_dtype(*arrays)
    leading: tuple[int, ...] = ()
    for x in arrays:
        leading = broadcast_leading(leading, x.shape[:-axes])
    return [broadcast_to(astype(x, dtype), shape=(*leading, *x.shape[-axes:])) for x in arrays]


def _joined(*parts: Any) -> Any:
    return fnp.concatenate(together(*parts, axes=1), -1)


def toeplitz_of(column: Any, row: Any) -> Any:
    """Toeplitz matrices, whose elements depend only on ``i - j``."""
    i, j = _positions(column.shape[-1], row.shape[-1])
    return _joined(column[..., ::-1], row[..., 1:])[..., column.shape[-1] - 1 - i + j]


def circulant_of(column: Any) -> Any:
    """Circulant matrices from their first columns."""
    i, j = _positions(column.shape[-1], column.shape[-1])
    return column[..., (i - j) % max(column.shape[-1], 1)]


@answers(scipy.linalg.toeplitz)
def toeplitz(c: Any, r: Any = None) -> Any:
    """Toeplitz matrices from their first column and, optionally, first row.

    Parameters
    ----------
    c : array of shape (..., M)
    r : array of shape (..., N), optional
        Its first element is not read. Without it, the matrix is Hermitian.
    """
    column = fnp.atleast_1d(array(c))
    return toeplitz_of(column, conj(column) if r is None else fnp.atleast_1d(array(r)))


@answers(scipy.linalg.circulant)
def circulant(c: Any) -> Any:
    """Circulant matrices from their first columns, of shape (..., N)."""
    return circulant_of(array(c))


@answers(scipy.linalg.hankel)
def hankel(c: Any, r: Any = None) -> Any:
    """Hankel matrices from their first column and last row (by default zeros).

    Parameters
    ----------
    c : array of shape (M,)
    r : array of shape (N,), optional
        Its first element is not read.
    """
    column = fnp.ravel(array(c))
    row = fnp.zeros_like(column) if r is None else fnp.ravel(array(r))
    i, j = _positions(column.size, row.size)
    return _joined(column, row[1:])[i + j]


@answers(scipy.linalg.companion)
def companion(a: Any) -> Any:
    """The companion matrices of polynomials, by their coefficients of shape (..., N)."""
    x = array(a)
    if x.shape[-1] < 2:
        raise ValueError("The length of `a` along the last axis must be at least 2.")
    if known(np.any(x[..., 0] == 0)):
        raise ValueError("The first coefficient of `a` must not be zero.")
    first = -x[..., None, 1:] / x[..., None, :1]
    n = x.shape[-1] - 1
    rest = np.eye(n - 1, n, dtype=first.dtype)
    return above(first, broadcast_to(rest, shape=(*first.shape[:-2], n - 1, n)))


@answers(scipy.linalg.fiedler_companion)
def fiedler_companion(a: Any) -> Any:
    """Pentadiagonal (Fiedler) companion matrices of polynomials, from their coefficients."""
    x = array(a)
    if x.shape[-1] < 2:
        empty = (0, 0) if x.shape[-1] and since_1_18() else (0,)
        return fnp.zeros((*x.shape[:-1], *empty), x.dtype)
    coefficients = x / x[..., :1]
    n = x.shape[-1] - 1
    i, j = _positions(n, n)
    # coefficients and ones alternate along the diagonals
    coefficient = ((j == i - 1) & (i % 2 == 0) & (i > 1)) | ((j == i + 1) & (i % 2 == 0))
    coefficient |= (i == 0) & (j == 0)
    one = ((j == i - 2) & (i % 2 == 1)) | ((j == i + 2) & (i % 2 == 0)) | ((i == 1) & (j == 0))
    which = np.where(coefficient, np.maximum(i, j) + 1, 0)
    return fnp.where(coefficient, -coefficients[..., which], np.asarray(one, x.dtype))


# -- pairs of matrices -----------------------------------------------------------------------------


@answers(scipy.linalg.orthogonal_procrustes)
def orthogonal_procrustes(A: Any, B: Any) -> tuple[Any, Any]:
    """The orthogonal Procrustes problem: the orthogonal R of least ``norm(A @ R - B)``.

    Parameters
    ----------
    A, B : array of shape (M, N)

    Notes
    -----
    R is the polar factor of ``A.conj().T @ B``, and is returned with the sum of the singular values
    of that product. Its derivative is correct for repeated singular values, too, unless one is 0.
    """
    x, y = single(A), single(B)
    if x.ndim != 2 or x.shape != y.shape:
        raise ShapeError(
            f"orthogonal_procrustes takes two matrices of one shape, not {x.shape} and {y.shape}"
            f"{here()}"
        )
    between = product(adjoint(x), y)
    return polar_p(between)[0], fnp.linalg.norm(between, "nuc")


@answers(scipy.linalg.subspace_angles)
def subspace_angles(A: Any, B: Any) -> Any:
    """The angles between the column spaces of two matrices with independent columns.

    Parameters
    ----------
    A : array of shape (M, N)
    B : array of shape (M, K)

    Returns
    -------
    array of shape (min(N, K),)
        In descending order.

    Notes
    -----
    Small angles are computed from their sines, large ones from their cosines (A. Knyazev and
    M. Argentati, "Principal angles between subspaces in an A-based scalar product", 2002).
    """
    left, right = (qr_p(single(x), complete=False)[0] for x in (A, B))
    if left.shape[-1] < right.shape[-1]:
        left, right = right, left
    between = product(adjoint(left), right)
    cosines = svd_p(between, full=False)[1][..., ::-1]
    sines = svd_p(right - product(left, between), full=False)[1]
    small = cosines * cosines >= 0.5
    # arguments outside the range of use are replaced, since derivatives there may be infinite
    by_sine = fnp.arcsin(fnp.where(small, fnp.minimum(sines, 1.0), 0.0))
    by_cosine = fnp.arccos(fnp.where(small, 0.0, fnp.minimum(cosines, 1.0)))
    return fnp.where(small, by_sine, by_cosine)


# -- properties ------------------------------------------------------------------------------------


@answers(scipy.linalg.issymmetric)
def issymmetric(a: Any, atol: Any = None, rtol: Any = None) -> Any:
    """Whether matrices equal their transposes, within given tolerances."""
    x = array(a)
    return _equal(x, transposed(x), atol, rtol)


@answers(scipy.linalg.ishermitian)
def ishermitian(a: Any, atol: Any = None, rtol: Any = None) -> Any:
    """Whether matrices equal their conjugate transposes, within given tolerances."""
    x = array(a)
    return _equal(x, adjoint(x), atol, rtol)


def _equal(x: Any, y: Any, atol: Any, rtol: Any) -> Any:
    if not atol and not rtol:
        return fnp.all(x == y, axis=(-2, -1))
    return fnp.all(fnp.isclose(x, y, atol=atol or 0.0, rtol=rtol or 0.0), axis=(-2, -1))


@answers(scipy.linalg.bandwidth)
def bandwidth(a: Any) -> Any:
    """The lower and upper bandwidth of matrices, whose values have to be known."""
    what = "scipy.linalg.bandwidth of a matrix whose values are not known"
    values = needed(array(a) != 0, what, "ask for it outside of jit and vmap")
    return scipy.linalg.bandwidth(values.astype(float))


@answers(scipy.linalg.clarkson_woodruff_transform)
def clarkson_woodruff_transform(
    input_matrix: Any, sketch_size: int, *rng: Any, **source: Any
) -> Any:
    """Clarkson-Woodruff sketching: the product with a random sparse matrix of fewer rows.

    Parameters
    ----------
    input_matrix : array of shape (..., N, M)
    sketch_size : int
        The number of rows of the result.
    rng, seed : optional
        The generator or seed for the random matrix, as in SciPy (where a positional number is a
        ``seed``). The matrix is drawn when the function is traced, so under `jit` it is a constant.

    Returns
    -------
    array of shape (..., sketch_size, M)
    """
    x = array(input_matrix)
    square = np.eye(x.shape[-2])
    sketch = scipy.linalg.clarkson_woodruff_transform(square, sketch_size, *rng, **source)
    return product(sketch, x)
