"""Linear systems with structured matrices: banded, Toeplitz and circulant."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from functrans import numpy as fnp
from functrans.errors import ShapeError
from functrans.numpy.arrays import inexact, known
from functrans.numpy.fft import fft, ifft
from functrans.ops.arrays.structural import broadcast_to, expand_axes, reshape
from functrans.ops.elementwise.complex_numbers import conj
from functrans.ops.linalg import factorisations as ops
from functrans.ops.linalg.banded import banded_p, shifted, transposed_bands
from functrans.ops.linalg.matrices import above, broadcast_leading, product, rows_of
from functrans.scipy.define import answers, double, single
from functrans.scipy.linalg.structured import circulant_of, toeplitz_of
from functrans.trace.source import here

__all__ = [
    "cho_solve_banded", "cholesky_banded", "matmul_toeplitz", "solve_banded", "solve_circulant",
    "solve_toeplitz", "solveh_banded",
]  # fmt: skip


def _solved(bands: Any, b: Any, upper: int) -> Any:
    """The solution for a vector or for several columns, with broadcast leading axes."""
    is_vector = b.ndim == 1
    columns = expand_axes(b, (1,)) if is_vector else b
    leading = broadcast_leading(bands.shape[:-2], columns.shape[:-2])
    x = banded_p(
        broadcast_to(bands, shape=(*leading, *bands.shape[-2:])),
        broadcast_to(columns, shape=(*leading, *columns.shape[-2:])),
        upper=upper,
    )
    return reshape(x, shape=x.shape[:-1]) if is_vector else x


@answers(scipy.linalg.solve_banded)
def solve_banded(l_and_u: Any, ab: Any, b: Any) -> Any:
    """Solve ``a @ x = b`` for ``x``, where ``a`` is banded.

    Parameters
    ----------
    l_and_u : pair of int
        The numbers of diagonals below and above the main one.
    ab : array of shape (..., l + u + 1, M)
        The diagonals, with ``ab[u + i - j, j] == a[i, j]``.
    b : array of shape (M,) or (..., M, K)

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import linalg
    >>> bands = np.array([[0.0, 1.0], [2.0, 2.0], [1.0, 0.0]])
    >>> grad(lambda b: np.sum(linalg.solve_banded((1, 1), bands, b)))(np.ones(2)).round(3)
    array([0.333, 0.333])
    """
    lower, upper = (int(n) for n in l_and_u)
    bands = single(inexact(ab))
    if bands.shape[-2] != lower + upper + 1:
        raise ShapeError(
            f"solve_banded takes {lower + upper + 1} diagonals for (l, u) = {(lower, upper)}, not "
            f"{bands.shape[-2]}{here()}"
        )
    return _solved(bands, single(inexact(b)), upper)


def _whole(half: Any, lower: bool) -> Any:
    """All diagonals of Hermitian matrices of which the upper or lower ones are given."""
    count = half.shape[-2]
    main = rows_of(half, 0, 1) if lower else rows_of(half, count - 1, count)
    main = (main + conj(main)) * 0.5
    if lower:
        others = conj(transposed_bands(half, 0))
        return above(rows_of(others, 0, count - 1), main, rows_of(half, 1, count))
    others = conj(transposed_bands(half, count - 1))
    return above(rows_of(half, 0, count - 1), main, rows_of(others, 1, count))


def matrix_of_half(half: Any, lower: bool) -> Any:
    """Hermitian matrices from their upper or lower diagonals."""
    bands = _whole(half, lower)
    upper = (bands.shape[-2] - 1) // 2
    n = bands.shape[-1]
    total = fnp.zeros((*bands.shape[:-2], n, n), bands.dtype)
    for i in range(bands.shape[-2]):
        placed = bands[..., i, :][..., None, :] * fnp.eye(n, dtype=bands.dtype)
        total = total + shifted(placed, i - upper, placed.ndim - 2)
    return total


@answers(scipy.linalg.solveh_banded)
def solveh_banded(ab: Any, b: Any, *, lower: bool = False) -> Any:
    """Solve ``a @ x = b`` for ``x``, where ``a`` is banded, Hermitian and positive definite.

    Parameters
    ----------
    ab : array of shape (..., u + 1, M)
        The upper diagonals, with ``ab[u + i - j, j] == a[i, j]``, or if ``lower`` is true the lower
        ones, with ``ab[i - j, j] == a[i, j]``.
    b : array of shape (M,) or (..., M, K)
    """
    half = single(ab)
    return _solved(_whole(half, lower), single(b), half.shape[-2] - 1)


@answers(scipy.linalg.cholesky_banded)
def cholesky_banded(ab: Any, *, lower: bool = False) -> Any:
    """The Cholesky factor of banded Hermitian matrices, in banded form.

    The matrix is converted to dense form, so memory and time are those of `cholesky`.
    """
    half = single(ab)
    count, n = half.shape[-2:]
    factor = ops.cholesky(matrix_of_half(half, lower), upper=not lower)
    rows = []
    for i in range(count):
        offset = -i if lower else count - 1 - i
        diagonal = fnp.linalg.diagonal(factor, offset=offset)
        # elements of ``ab`` outside the matrix are kept
        size = diagonal.shape[-1]
        outside = half[..., i, size:] if lower else half[..., i, : n - size]
        rows.append(fnp.concatenate([diagonal, outside] if lower else [outside, diagonal], -1))
    return fnp.stack(rows, -2)


@answers(scipy.linalg.cho_solve_banded)
def cho_solve_banded(cb_and_lower: Any, b: Any) -> Any:
    """Solve ``a @ x = b`` for ``x``, given the factor of ``a`` from `cholesky_banded`."""
    factor, lower = cb_and_lower
    half = single(factor)
    last = half.shape[-2] - 1
    if lower:
        first = _solved(half, single(b), 0)
        return _solved(conj(transposed_bands(half, 0)), first, last)
    first = _solved(conj(transposed_bands(half, last)), single(b), 0)
    return _solved(half, first, last)


def _toeplitz_of(c_or_cr: Any) -> Any:
    if isinstance(c_or_cr, tuple):
        column, row = (double(x) for x in c_or_cr)
        return toeplitz_of(column, row)
    column = double(c_or_cr)
    return toeplitz_of(column, conj(column))


@answers(scipy.linalg.solve_toeplitz)
def solve_toeplitz(c_or_cr: Any, b: Any) -> Any:
    """Solve ``a @ x = b`` for ``x``, where ``a`` is the Toeplitz matrix of a first column and row.

    The matrix is converted to dense form, so memory and time are those of `solve`.
    """
    return ops.solve(_toeplitz_of(c_or_cr), double(b))


@answers(scipy.linalg.matmul_toeplitz)
def matmul_toeplitz(c_or_cr: Any, x: Any) -> Any:
    """The Toeplitz matrix of a first column and row, in dense form, times ``x``."""
    return product(_toeplitz_of(c_or_cr), double(x))


@answers(scipy.linalg.solve_circulant)
def solve_circulant(
    c: Any, b: Any, singular: str = "raise", tol: Any = None, caxis: int = -1, baxis: int = 0,
    outaxis: int = 0,
) -> Any:  # fmt: skip
    """Solve ``circulant(c) @ x = b`` for ``x``; the axis arguments are those of SciPy.

    The matrix is converted to dense form, so memory and time are those of `solve`. A singular
    matrix raises; a nearly singular one raises only if its values are known, which they are not
    under `jit` and `vmap`. With ``singular="lstsq"``, ``x`` is the least-squares solution, computed
    by Fourier transforms.
    """
    column = fnp.moveaxis(single(inexact(c)), caxis, -1)
    right = fnp.moveaxis(single(inexact(b)), baxis, -1)
    leading = broadcast_leading(column.shape[:-1], right.shape[:-1])
    right = broadcast_to(right, shape=(*leading, right.shape[-1]))
    values = fft(column)
    nothing = _next_to_nothing(values, tol)
    if singular == "raise":
        if known(fnp.any(nothing)):
            raise np.linalg.LinAlgError("near singular circulant matrix.")
        x = ops.solve(circulant_of(column), right[..., None])[..., 0]
    else:
        parts = fft(right) / fnp.where(nothing, 1, values)
        x = ifft(fnp.where(nothing, 0, parts))
        x = x if "c" in (column.dtype.kind, right.dtype.kind) else x.real
    return fnp.moveaxis(x, -1, outaxis)


def _next_to_nothing(values: Any, tol: Any) -> Any:
    """The eigenvalues that count as 0: at most a tolerance, by default that of rounding errors."""
    sizes = abs(values)
    if tol is None:
        eps = float(np.finfo(float).eps)
        tol = sizes.max(axis=-1, keepdims=True, initial=0) * (values.shape[-1] * eps)
    return sizes <= tol
