"""Matrix functions: exponential, logarithm, powers and sines, with derivatives of every order.

The derivatives do not use eigenvectors, so repeated eigenvalues need no special treatment.
"""

from __future__ import annotations

from typing import Any

import scipy.linalg

from functrans import numpy as fnp
from functrans.numpy.arrays import inexact
from functrans.ops.linalg import factorisations as ops
from functrans.ops.linalg.matrices import above, beside, columns_of, product, rows_of
from functrans.ops.linalg.matrix_functions import expm_frechet_p, expm_p, logm_p
from functrans.ops.linalg.sylvester import sqrtm_p
from functrans.scipy.define import answers, double, single
from functrans.trace.tracer import Tracer

__all__ = [
    "coshm", "cosm", "expm", "expm_cond", "expm_frechet", "fractional_matrix_power", "logm",
    "signm", "sinhm", "sinm", "sqrtm", "tanhm", "tanm",
]  # fmt: skip

# -- exponential, logarithm, powers ----------------------------------------------------------------


@answers(scipy.linalg.expm)
def expm(A: Any) -> Any:
    """The exponentials of matrices.

    Parameters
    ----------
    A : array of shape (..., N, N)

    Notes
    -----
    The derivative is the Fréchet derivative, by the block method (N. Higham, "Functions of
    Matrices", 2008, theorem 3.6).

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> from functrans.scipy import linalg
    >>> grad(lambda a: np.trace(linalg.expm(a)))(np.zeros((2, 2)))
    array([[1., 0.],
           [0., 1.]])
    """
    return expm_p(inexact(A))


@answers(scipy.linalg.expm_frechet)
def expm_frechet(A: Any, E: Any, method: Any = None, compute_expm: bool = True) -> Any:
    """The exponentials of matrices, and their Fréchet derivatives along others.

    Parameters
    ----------
    A, E : array of shape (..., N, N)
    method : optional
        Accepted and ignored: the block method is always used.
    compute_expm : bool
        Whether the exponentials are returned as a first result.
    """
    along = expm_frechet_p(double(A), double(E))
    return (expm_p(double(A)), along) if compute_expm else along


@answers(scipy.linalg.expm_cond)
def expm_cond(A: Any) -> Any:
    """The relative condition number of the matrix exponential.

    Parameters
    ----------
    A : array of shape (M, M)

    Notes
    -----
    The 2-norm of the Fréchet derivative as a matrix of M² rows, times the Frobenius norm of A by
    that of the exponential (N. Higham, "Functions of Matrices", 2008, section 3.1).
    """
    x = double(A)
    n = x.shape[-1]
    every = fnp.reshape(fnp.eye(n * n, dtype=x.dtype), (n * n, n, n))
    along = expm_frechet_p(fnp.broadcast_to(x, every.shape), every)
    spread = fnp.linalg.norm(fnp.reshape(along, (n * n, n * n)), 2)
    return spread * fnp.linalg.norm(x) / fnp.linalg.norm(expm_p(x))


@answers(scipy.linalg.logm)
def logm(A: Any) -> Any:
    """The principal logarithms of matrices; those of real matrices must be real."""
    return logm_p(double(A))


@answers(scipy.linalg.sqrtm)
def sqrtm(A: Any) -> Any:
    """The principal square roots of matrices; those of real matrices must be real.

    Notes
    -----
    The derivative X solves ``R @ X + X @ R = dA``, where R is the root (N. Higham, "Functions of
    Matrices", 2008, section 6.1). It does not exist at singular matrices.
    """
    return sqrtm_p(single(inexact(A)))


@answers(scipy.linalg.signm)
def signm(A: Any) -> Any:
    """The matrix sign function, ``A (A A)^(-1/2)``."""
    x = single(inexact(A))
    return product(x, ops.inv(sqrtm_p(product(x, x))))


@answers(scipy.linalg.fractional_matrix_power)
def fractional_matrix_power(A: Any, t: Any) -> Any:
    """Powers of matrices: products for integer ``t``, otherwise ``expm(t * logm(A))``."""
    x = inexact(A)
    if not isinstance(t, Tracer) and float(t).is_integer():
        return ops.matrix_power(x, int(t))
    return expm_p(t * logm_p(double(x)))


# -- sines and cosines -----------------------------------------------------------------------------


def _cosine_and_sine(A: Any) -> tuple[Any, Any]:
    """The cosine and sine from the exponential of ``[[0, -A], [A, 0]]``, in real arithmetic."""
    x = inexact(A)
    n = x.shape[-1]
    whole = expm_p(above(beside(0 * x, -x), beside(x, 0 * x)))
    left = columns_of(whole, 0, n)
    return rows_of(left, 0, n), rows_of(left, n, 2 * n)


@answers(scipy.linalg.cosm)
def cosm(A: Any) -> Any:
    """The cosines of matrices."""
    return _cosine_and_sine(A)[0]


@answers(scipy.linalg.sinm)
def sinm(A: Any) -> Any:
    """The sines of matrices."""
    return _cosine_and_sine(A)[1]


@answers(scipy.linalg.tanm)
def tanm(A: Any) -> Any:
    """The tangents of matrices."""
    return ops.solve(*_cosine_and_sine(A))


@answers(scipy.linalg.coshm)
def coshm(A: Any) -> Any:
    """The hyperbolic cosines of matrices."""
    x = inexact(A)
    return 0.5 * (expm_p(x) + expm_p(-x))


@answers(scipy.linalg.sinhm)
def sinhm(A: Any) -> Any:
    """The hyperbolic sines of matrices."""
    x = inexact(A)
    return 0.5 * (expm_p(x) - expm_p(-x))


@answers(scipy.linalg.tanhm)
def tanhm(A: Any) -> Any:
    """The hyperbolic tangents of matrices."""
    x = inexact(A)
    up, down = expm_p(x), expm_p(-x)
    return ops.solve(up + down, up - down)
