"""Eigenvalues of Hermitian (dense, generalised, banded, tridiagonal) and of general matrices.

See `functrans.numpy.linalg.eigh` for the derivatives at repeated eigenvalues. SciPy and NumPy may
return eigenvectors of different signs; on traced values, the result is NumPy's.
"""

from __future__ import annotations

from typing import Any

import scipy.linalg

from functrans import numpy as fnp
from functrans.numpy.decompositions import are_known_real
from functrans.numpy.define import refuse
from functrans.ops.elementwise.complex_numbers import conj, real
from functrans.ops.linalg import factorisations as ops
from functrans.ops.linalg.eigen import eig_p, eigh_p
from functrans.ops.linalg.matrices import adjoint, columns_of, hermitian, product, triangle
from functrans.scipy.define import answers, single
from functrans.scipy.linalg.banded import matrix_of_half

__all__ = [
    "eig", "eig_banded", "eigh", "eigh_tridiagonal", "eigvals", "eigvals_banded", "eigvalsh",
    "eigvalsh_tridiagonal",
]  # fmt: skip


def _selected(
    values: Any, vectors: Any, index: Any, by_value: Any, eigvals_only: bool, name: str
) -> Any:
    """The requested eigenvalues: all, or some by their indices."""
    if by_value is not None:
        refuse(
            f"scipy.linalg.{name} of the eigenvalues in an interval",
            "how many there are depends on the values: choose them by their indices",
        )
    if index is not None:
        low, high = (int(i) for i in index)
        last = values.shape[-1] - 1
        if not 0 <= low <= high <= last:
            raise ValueError(
                f"Requested eigenvalue indices are not valid. Valid range is [0, {last}] and start "
                f"<= end, but start={low}, end={high} is given"
            )
        values, vectors = values[..., low : high + 1], columns_of(vectors, low, high + 1)
    return values if eigvals_only else (values, vectors)


@answers(scipy.linalg.eigh)
def eigh(
    a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False, type: int = 1,
    subset_by_index: Any = None, subset_by_value: Any = None,
) -> Any:  # fmt: skip
    """Eigenvalues and eigenvectors of Hermitian matrices, or of generalised Hermitian problems.

    Parameters
    ----------
    a : array of shape (..., M, M)
        One triangle is read.
    b : array of shape (..., M, M), optional
        A positive definite matrix, whose Cholesky factor reduces the problem to a standard one.
    lower : bool
        Which triangle is read.
    eigvals_only : bool
    type : {1, 2, 3}
        The equation, if ``b`` is given: ``a @ v = w * b @ v``, ``a @ b @ v = w * v``, or
        ``b @ a @ v = w * v``.
    subset_by_index : pair of int, optional
        The indices of the first and the last eigenvalue that are returned. (``subset_by_value`` is
        not supported, since the shape of the result would depend on the values.)

    Returns
    -------
    w : array of shape (..., N)
        In ascending order.
    v : array of shape (..., M, N)
        As columns, normalised to ``v.conj().T @ b @ v = 1`` (type 3: with ``b^-1``) if ``b`` is
        given.
    """
    x = single(a)
    if b is None:
        values, vectors = eigh_p(x, lower=bool(lower))
    else:
        values, vectors = _generalised(x, single(b), bool(lower), type)
    return _selected(values, vectors, subset_by_index, subset_by_value, eigvals_only, "eigh")


def _generalised(a: Any, b: Any, lower: bool, kind: int) -> tuple[Any, Any]:
    if kind not in (1, 2, 3):
        raise ValueError('"type" keyword only accepts 1, 2, and 3.')
    if a.shape[-2:] != b.shape[-2:]:
        raise ValueError(f"wrong b dimensions {b.shape}, should be {a.shape}")
    factor = ops.cholesky(hermitian(b, lower=lower))
    whole = hermitian(a, lower=lower)
    if kind == 1:
        half = ops.solve_triangular(factor, whole, 0, True)
        whole = adjoint(ops.solve_triangular(factor, adjoint(half), 0, True))
    else:
        whole = product(adjoint(factor), whole, factor)
    values, vectors = eigh_p(whole, lower=True)
    if kind == 3:
        return values, product(factor, vectors)
    return values, ops.solve_triangular(conj(factor), vectors, 1, True)


@answers(scipy.linalg.eigvalsh)
def eigvalsh(
    a: Any, b: Any = None, *, lower: bool = True, type: int = 1, subset_by_index: Any = None,
    subset_by_value: Any = None,
) -> Any:  # fmt: skip
    """Eigenvalues of Hermitian matrices, or of generalised Hermitian problems; see `eigh`."""
    return eigh(
        a, b, lower=lower, eigvals_only=True, type=type,
        subset_by_index=subset_by_index, subset_by_value=subset_by_value,
    )  # fmt: skip


@answers(scipy.linalg.eig)
def eig(a: Any, b: Any = None, left: bool = False, right: bool = True) -> Any:
    """Eigenvalues and eigenvectors of square matrices.

    Parameters
    ----------
    a : array of shape (..., M, M)
    b, left
        Not supported on traced values: the eigenvalues of a pencil are those of ``solve(b, a)``,
        and left eigenvectors are the right ones of ``a.conj().T``.
    right : bool
        Whether eigenvectors are returned.

    Returns
    -------
    w : complex array of shape (..., M)
    vr : array of shape (..., M, M)
        As columns; complex, or real if ``a`` is real and all eigenvalues are known to be real.

    Notes
    -----
    See `functrans.numpy.linalg.eig` for the derivative.
    """
    _check_plain(b, left)
    x = single(a)
    values, vectors = eig_p(x)
    if not right:
        return values
    return values, real(vectors) if are_known_real(x, values) else vectors


def _check_plain(b: Any, left: Any) -> None:
    if b is not None:
        refuse("scipy.linalg.eig of a pencil", "use eig(solve(b, a)), or eigh(a, b)")
    if left:
        refuse("scipy.linalg.eig with vectors on the left", "use eig(a.conj().T)")


@answers(scipy.linalg.eigvals)
def eigvals(a: Any, b: Any = None) -> Any:
    """Eigenvalues of square matrices, always complex; see `eig`."""
    _check_plain(b, False)
    return eig_p(single(a))[0]


@answers(scipy.linalg.eig_banded)
def eig_banded(
    a_band: Any, lower: bool = False, eigvals_only: bool = False, *, select: str = "a",
    select_range: Any = None, max_ev: int = 0,
) -> Any:  # fmt: skip
    """Eigenvalues and eigenvectors of banded Hermitian matrices.

    The matrix is converted to dense form, so memory and time are those of `eigh`. The parameters
    are those of SciPy.
    """
    values, vectors = eigh_p(matrix_of_half(single(a_band), lower), lower=True)
    index, by_value = _selection(select, select_range)
    return _selected(values, vectors, index, by_value, eigvals_only, "eig_banded")


def _selection(select: Any, select_range: Any) -> tuple[Any, Any]:
    """Convert ``select`` and ``select_range`` to the arguments of `eigh`."""
    kind = {0: "a", 1: "v", 2: "i", "all": "a", "value": "v", "index": "i"}.get(select, select)
    if kind not in ("a", "v", "i"):
        raise ValueError("invalid argument for select")
    if kind != "a" and fnp.shape(select_range) != (2,):
        raise ValueError("select_range must be a 2-element array-like in nondecreasing order")
    return (select_range if kind == "i" else None), (select_range if kind == "v" else None)


@answers(scipy.linalg.eigvals_banded)
def eigvals_banded(
    a_band: Any, lower: bool = False, *, select: str = "a", select_range: Any = None
) -> Any:
    """Eigenvalues of banded Hermitian matrices; see `eig_banded`."""
    return eig_banded(a_band, lower, True, select=select, select_range=select_range)


@answers(scipy.linalg.eigh_tridiagonal)
def eigh_tridiagonal(
    d: Any, e: Any, eigvals_only: bool = False, select: str = "a", select_range: Any = None
) -> Any:
    """Eigenvalues and eigenvectors of real symmetric tridiagonal matrices.

    The matrix is converted to dense form, so memory and time are those of `eigh`.

    Parameters
    ----------
    d : array of shape (M,)
        The diagonal.
    e : array of shape (M - 1,)
        The elements next to the diagonal.
    eigvals_only, select, select_range
        As in SciPy; ``select='v'`` (eigenvalues in an interval) is not supported.
    """
    diagonal, beside = single(d), single(e)
    if "c" in (diagonal.dtype.kind, beside.dtype.kind):
        raise TypeError("Only real arrays currently supported")
    whole = fnp.diag(diagonal) + fnp.diag(beside, -1)
    values, vectors = eigh_p(triangle(whole, lower=True), lower=True)
    index, by_value = _selection(select, select_range)
    return _selected(values, vectors, index, by_value, eigvals_only, "eigh_tridiagonal")


@answers(scipy.linalg.eigvalsh_tridiagonal)
def eigvalsh_tridiagonal(d: Any, e: Any, select: str = "a", select_range: Any = None) -> Any:
    """Eigenvalues of real symmetric tridiagonal matrices; see `eigh_tridiagonal`."""
    return eigh_tridiagonal(d, e, True, select, select_range)
