"""Matrix decompositions of `numpy.linalg`, with derivatives.

Each function documents its derivatives at degenerate spectra.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.types import is_complex
from functrans.numpy.arrays import array, known
from functrans.numpy.define import answers, refuse
from functrans.ops.arrays.shape import flip
from functrans.ops.arrays.structural import astype, broadcast_to
from functrans.ops.elementwise.choice import absolute, select
from functrans.ops.elementwise.compare import not_equal
from functrans.ops.elementwise.complex_numbers import imag, real
from functrans.ops.elementwise.logic import signbit
from functrans.ops.indexing.gather import gather_along
from functrans.ops.linalg import factorisations as ops
from functrans.ops.linalg.eigen import eig_p, eigh_p
from functrans.ops.linalg.matrices import adjoint, on_columns
from functrans.ops.linalg.qr import qr_p
from functrans.ops.linalg.svd import svd_p
from functrans.ops.reductions.sorting import argsort

__all__ = ["cholesky", "eig", "eigh", "eigvals", "eigvalsh", "qr", "svd", "svdvals"]

# NumPy's own classes, so that branches may return its results or traced ones
EigResult = type(np.linalg.eig(np.eye(1)))
EighResult = type(np.linalg.eigh(np.eye(1)))
SVDResult = type(np.linalg.svd(np.eye(1)))
QRResult = type(np.linalg.qr(np.eye(1)))


@answers(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """The Cholesky factor of positive definite matrices, of which only one triangle is read."""
    return ops.cholesky(a, upper=upper)


@answers(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> Any:
    """The eigenvalues and eigenvectors of Hermitian matrices, of which only one triangle is read.

    Parameters
    ----------
    a : array of shape (..., N, N)
    UPLO : {'L', 'U'}
        The triangle that is read. The derivative is with respect to its elements, each of which
        represents two of the matrix.

    Returns
    -------
    eigenvalues : array of shape (..., N)
        In ascending order.
    eigenvectors : array of shape (..., N, N)
        As columns.

    Notes
    -----
    The derivative is that of perturbation theory [1]_. The eigenvectors of equal eigenvalues (up to
    rounding) are determined only up to a rotation of their eigenspace, whose derivative is taken to
    be 0. So first derivatives are right for symmetric functions of the eigenvalues, such as
    ``np.sum(f(w))``, and for projections on whole eigenspaces. For functions of both, such as
    ``(v * f(w)) @ v.T``, and for second derivatives, the part within the eigenspace is missing: use
    matrix functions there (`functrans.scipy.linalg.expm`, ``sqrtm``, ``logm``), whose derivatives
    need no eigenvectors.

    References
    ----------
    .. [1] M. Giles, "An extended collection of matrix derivative results for forward and reverse
       mode algorithmic differentiation", 2008, section 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> grad(lambda a: np.linalg.eigh(a).eigenvalues[0])(np.array([[2.0, 1.0], [1.0, 2.0]]))
    array([[ 0.5,  0. ],
           [-1. ,  0.5]])
    """
    return EighResult(*eigh_p(array(a), lower=_lower(UPLO)))


@answers(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of Hermitian matrices, in ascending order; see `eigh`."""
    return eigh_p(array(a), lower=_lower(UPLO))[0]


def _lower(uplo: str) -> bool:
    if uplo.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return uplo.upper() == "L"


@answers(np.linalg.eig)
def eig(a: Any) -> Any:
    """The eigenvalues and eigenvectors of square matrices.

    Parameters
    ----------
    a : array of shape (..., M, M)

    Returns
    -------
    eigenvalues : array of shape (..., M)
        Complex. As in NumPy before 2.5, which has them complex, they are real if ``a`` is real and
        all of them are known to be real; they are not known under `jit` and `vmap`.
    eigenvectors : array of shape (..., M, M)
        As columns of length 1, whose largest components are real.

    Notes
    -----
    The derivative is that of perturbation theory, for eigenvectors normalised in this way. For
    equal eigenvalues (up to rounding), see `eigh`; a defective matrix has no derivative.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> grad(lambda a: np.linalg.eig(a).eigenvalues[0].real)(np.array([[1.0, 1.0], [0.0, 3.0]]))
    array([[ 1. ,  0. ],
           [-0.5,  0. ]])
    """
    x = array(a)
    values, vectors = eig_p(x)
    if _REAL_IF_KNOWN and are_known_real(x, values):
        values, vectors = real(values), real(vectors)
    return EigResult(values, vectors)


@answers(np.linalg.eigvals)
def eigvals(a: Any) -> Any:
    """The eigenvalues of square matrices; see `eig`."""
    return real_if_known(a) if _REAL_IF_KNOWN else eig_p(array(a))[0]


_REAL_IF_KNOWN = np.lib.NumpyVersion(np.__version__) < "2.5.0.dev0"


def real_if_known(a: Any) -> Any:
    """The eigenvalues of matrices; real if ``a`` is real and all of them are known to be real."""
    x = array(a)
    values = eig_p(x)[0]
    return real(values) if are_known_real(x, values) else values


def are_known_real(x: Any, values: Any) -> bool:
    """Whether eigenvalues are known to be real, as those of a real matrix."""
    if is_complex(x.dtype):
        return False
    some = known(not_equal(imag(values), 0))
    return some is not None and not some.any()


@answers(np.linalg.svd)
def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """The singular value decomposition of matrices, with singular values in descending order.

    Parameters
    ----------
    a : array of shape (..., M, N)
    full_matrices : bool
        Whether the vectors span the whole spaces, or only those of the ``K = min(M, N)`` singular
        values.
    compute_uv : bool
        Whether to compute the singular vectors.
    hermitian : bool
        Whether the matrices are Hermitian: their lower triangles are read.

    Returns
    -------
    U : array of shape (..., M, M) or (..., M, K)
    S : array of shape (..., K)
    Vh : array of shape (..., N, N) or (..., K, N)

    Notes
    -----
    The derivative is that of [1]_, for complex matrices with the phases of [2]_. Where singular
    values are equal (up to rounding) the vectors of their spaces are not determined, and how they
    turn among each other is taken to be 0. So the first derivative is right of sums of functions of
    the singular values, and of the polar factor ``U @ Vh`` of regular matrices. The vectors that
    only ``full_matrices`` adds are determined as a space: among themselves they do not turn.
    Pseudo-inverses (`pinv`, `lstsq`) and the polar decomposition have derivatives of their own,
    which are right everywhere.

    References
    ----------
    .. [1] J. Townsend, "Differentiating the singular value decomposition", 2016.
    .. [2] Z.-Q. Wan and S.-X. Zhang, "Automatic differentiation for complex valued SVD", 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> grad(lambda a: np.sum(np.linalg.svd(a, compute_uv=False)))(2 * np.eye(2))
    array([[1., 0.],
           [0., 1.]])
    """
    x = array(a)
    if hermitian:
        return _svd_of_hermitian(x, compute_uv)
    if not compute_uv:
        return svd_p(x, full=False)[1]
    return SVDResult(*svd_p(x, full=bool(full_matrices)))


def _svd_of_hermitian(x: Any, compute_uv: bool) -> Any:
    """The SVD of Hermitian matrices by `eigh`; signs of eigenvalues go to the right vectors."""
    signed, vectors = eigh_p(x, lower=True)
    sizes = absolute(signed)
    order = flip(argsort(sizes, axis=sizes.ndim - 1), axes=(sizes.ndim - 1,))
    values = gather_along(sizes, order, sizes.ndim - 1)
    if not compute_uv:
        return values
    every = broadcast_to(on_columns(order), shape=vectors.shape)
    u = gather_along(vectors, every, vectors.ndim - 1)
    signs = select(signbit(signed), -1.0, 1.0)
    ordered = gather_along(signs, order, signs.ndim - 1)
    return SVDResult(u, values, adjoint(u * on_columns(astype(ordered, values.dtype))))


@answers(np.linalg.svdvals)
def svdvals(x: Any, /) -> Any:
    """The singular values of matrices, in descending order; see `svd`."""
    return svd_p(array(x), full=False)[1]


@answers(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """The QR factorisation ``a = Q @ R``.

    Parameters
    ----------
    a : array of shape (..., M, N)
    mode : {'reduced', 'complete', 'r'}
        Whether there are ``K = min(M, N)`` columns, or ``M``; or R alone. ('raw' is refused.)

    Returns
    -------
    Q : array of shape (..., M, K) or (..., M, M)
    R : array of shape (..., K, N) or (..., M, N)

    Notes
    -----
    The derivative is that of [1]_, and there is one where the first K columns are independent; else
    it raises `numpy.linalg.LinAlgError`. The columns that only 'complete' adds are determined
    as a space: among themselves they do not turn.

    References
    ----------
    .. [1] S. F. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions
       with application in optimum experimental design", 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> abs(grad(lambda a: np.linalg.qr(a, mode="r")[0, 0])(np.array([[3.0], [4.0]])))
    array([[0.6],
           [0.8]])
    """
    if mode == "raw":
        refuse("np.linalg.qr with mode='raw'", "use mode='reduced'")
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"Unrecognized mode '{mode}'")
    result = QRResult(*qr_p(array(a), complete=mode == "complete"))
    return result.R if mode == "r" else result
