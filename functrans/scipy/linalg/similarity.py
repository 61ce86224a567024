"""Similarity transformations of a matrix: Hessenberg and Schur form, balancing."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from functrans import numpy as fnp
from functrans.numpy.arrays import array, inexact
from functrans.numpy.define import refuse
from functrans.numpy.reductions import squared_size
from functrans.ops.elementwise.choice import absolute, select
from functrans.ops.elementwise.compare import greater
from functrans.ops.elementwise.complex_numbers import conj, imag, real
from functrans.ops.linalg.balance import balance_p
from functrans.ops.linalg.blocks import on_diagonal
from functrans.ops.linalg.eigen import eig_p
from functrans.ops.linalg.hessenberg import hessenberg_p
from functrans.ops.linalg.lu import places_in, rows_in_order
from functrans.ops.linalg.matrices import (
    above,
    adjoint,
    beside,
    columns_of,
    on_columns,
    product,
    rows_of,
)
from functrans.ops.linalg.schur import schur_p
from functrans.scipy.define import answers, double, single

__all__ = ["cdf2rdf", "hessenberg", "matrix_balance", "rsf2csf", "schur"]


@answers(scipy.linalg.hessenberg)
def hessenberg(a: Any, calc_q: bool = False) -> Any:
    """The Hessenberg form: ``a = Q @ H @ Q.conj().T``, where H is 0 below the first subdiagonal.

    Parameters
    ----------
    a : array of shape (..., M, M)
    calc_q : bool
        Whether Q is returned as a second result.

    Returns
    -------
    H : array of shape (..., M, M)
    Q : array of shape (..., M, M)
        Unitary.

    Notes
    -----
    There is no derivative where an element of the subdiagonal happens to be zero: the later vectors
    are not unique there, and are treated as constant.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import linalg
    >>> a = np.array([[1.0, 0.0, 2.0], [3.0, 1.0, 0.0], [4.0, 0.0, 1.0]])
    >>> np.round(grad(lambda a: linalg.hessenberg(a)[1, 0])(a), 3)
    array([[ 0. ,  0. ,  0. ],
           [-0.6,  0. ,  0. ],
           [-0.8,  0. ,  0. ]])
    """
    x = array(a)
    if x.shape[-1] <= 2:  # H is the matrix itself; SciPy's Q is in double precision
        h, q = x, fnp.broadcast_to(fnp.eye(x.shape[-1]), x.shape)
    else:
        h, q = hessenberg_p(single(x))
    return (h, q) if calc_q else h


@answers(scipy.linalg.schur)
def schur(a: Any, output: str = "real", *, sort: Any = None) -> tuple[Any, Any]:
    """The Schur form: ``a = Z @ T @ Z.conj().T``, where T is upper triangular.

    Parameters
    ----------
    a : array of shape (..., M, M)
    output : {'real', 'complex'}
        For real matrices with complex eigenvalues, whether T is real and has blocks of two on its
        diagonal, or is complex.
    sort : None
        Sorting of eigenvalues is not supported.

    Returns
    -------
    T : array of shape (..., M, M)
    Z : array of shape (..., M, M)
        Unitary.

    Notes
    -----
    The vectors of repeated eigenvalues, and the phases of complex vectors, are not unique; their
    derivatives along the undetermined directions are taken to be 0. Functions that do not depend on
    this choice have the correct first derivative.
    """
    if sort is not None:
        refuse("scipy.linalg.schur with sort", "select from what it gives without")
    if output not in ("real", "complex", "r", "c"):
        raise ValueError("argument must be 'real', or 'complex'")
    x = single(inexact(a))
    t, z = schur_p(_complex(x) if output.startswith("c") else x)
    return t, z


def _complex(x: Any) -> Any:
    return x.astype(np.result_type(x.dtype, np.complex64))


@answers(scipy.linalg.rsf2csf)
def rsf2csf(T: Any, Z: Any) -> tuple[Any, Any]:
    """The complex Schur form from the real one, by a rotation of each 2 x 2 block.

    Parameters
    ----------
    T : array of shape (..., M, M)
        Upper triangular, with blocks of two for complex eigenvalues.
    Z : array of shape (..., M, M)

    Returns
    -------
    T, Z : array of shape (..., M, M)
    """
    t, z = _complex(inexact(T)), _complex(inexact(Z))
    n = t.shape[-1]
    eps = float(np.finfo(t.dtype).eps)
    for m in range(n - 1, 0, -1):
        block = columns_of(rows_of(t, m - 1, m + 1), m - 1, m + 1)
        sizes = absolute(block)
        wanted = greater(sizes[..., 1, 0], eps * (sizes[..., 0, 0] + sizes[..., 1, 1]))
        first = eig_p(block)[0][..., 0] - block[..., 1, 1]
        corner = select(wanted, block[..., 1, 0], 1)
        length = fnp.sqrt(squared_size(first) + squared_size(corner))
        c, s = select(wanted, first / length, 1), select(wanted, corner / length, 0)
        rotation = fnp.stack([fnp.stack([conj(c), s], -1), fnp.stack([-s, c], -1)], -2)
        moved = product(rotation, columns_of(rows_of(t, m - 1, m + 1), m - 1, n))
        t = above(
            rows_of(t, 0, m - 1),
            beside(columns_of(rows_of(t, m - 1, m + 1), 0, m - 1), moved),
            rows_of(t, m + 1, n),
        )
        t = _columns_turned(t, m, m + 1, rotation)
        z = _columns_turned(z, m, n, rotation)
        t = t.at[..., m, m - 1].set(0)
    return t, z


def _columns_turned(x: Any, m: int, height: int, rotation: Any) -> Any:
    """Apply a rotation to two columns of the first rows of a matrix."""
    n = x.shape[-1]
    upper = rows_of(x, 0, height)
    moved = product(columns_of(upper, m - 1, m + 1), adjoint(rotation))
    upper = beside(columns_of(upper, 0, m - 1), moved, columns_of(upper, m + 1, n))
    return above(upper, rows_of(x, height, n))


@answers(scipy.linalg.cdf2rdf)
def cdf2rdf(w: Any, v: Any) -> tuple[Any, Any]:
    """Complex eigenvalues and eigenvectors of real matrices in real form, with 2 x 2 blocks.

    Parameters
    ----------
    w : array of shape (..., M)
        Conjugate pairs must be adjacent, as in the result of `eig`.
    v : array of shape (..., M, M)

    Returns
    -------
    wr : array of shape (..., M, M)
        ``[[a, b], [-b, a]]`` on the diagonal for ``a + i b`` and ``a - i b``.
    vr : array of shape (..., M, M)
    """
    values, vectors = inexact(w), double(v)
    is_complex = fnp.not_equal(imag(values), 0)
    number = fnp.cumsum(is_complex, -1)
    is_first = is_complex & fnp.equal(number % 2, 1)
    is_second = is_complex & fnp.equal(number % 2, 0)
    # i/2 (v - w) and (v + w)/2 of two vectors v and w
    following, before = fnp.roll(vectors, -1, -1), fnp.roll(vectors, 1, -1)
    first = 0.5 * (imag(following) - imag(vectors))
    second = 0.5 * (real(before) + real(vectors))
    of_vectors = select(
        on_columns(is_first), first, select(on_columns(is_second), second, real(vectors))
    )
    like = real(vectors)
    up = on_diagonal(select(is_first, imag(values), 0), like, 1)
    down = on_diagonal(select(is_second, imag(values), 0), like, -1)
    return on_diagonal(real(values), like) + up + down, of_vectors


@answers(scipy.linalg.matrix_balance)
def matrix_balance(A: Any, permute: bool = True, scale: bool = True, separate: bool = False) -> Any:
    """Balance matrices: ``B = T^-1 A T``, with rows and columns of similar norms.

    Parameters
    ----------
    A : array of shape (..., M, M)
    permute, scale : bool
        Whether T permutes rows, and whether it scales them by powers of 2.
    separate : bool
        Whether T is returned as scale factors and a permutation.

    Returns
    -------
    B : array of shape (..., M, M)
    T : array of shape (..., M, M), or a pair of arrays of shape (..., M)

    Notes
    -----
    T is piecewise constant, so its derivative is 0.
    """
    balanced, scales, order = balance_p(single(A), permuted=bool(permute), scaled=bool(scale))
    if separate:
        return balanced, (scales, order)
    matrix = on_diagonal(scales, real(double(balanced)))
    return balanced, rows_in_order(matrix, places_in(order))
