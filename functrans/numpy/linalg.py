"""`numpy.linalg` for traced values. Functions without a traced form are refused by name."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.types import real_dtype
from functrans.numpy.arrays import array, axis_of, common_dtype, flat, inexact, known
from functrans.numpy.contraction import cross as np_cross
from functrans.numpy.contraction import dot as np_dot
from functrans.numpy.contraction import tensordot
from functrans.numpy.decompositions import cholesky, eig, eigh, eigvals, eigvalsh, qr, svd, svdvals
from functrans.numpy.define import answers
from functrans.numpy.norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from functrans.numpy.reductions import max, squared_size, sum
from functrans.numpy.shapes import matrix_transpose
from functrans.ops.arrays.structural import astype, broadcast_to, expand_axes, reshape, zeros
from functrans.ops.elementwise.compare import greater
from functrans.ops.indexing import views
from functrans.ops.linalg import factorisations as ops
from functrans.ops.linalg import products
from functrans.ops.linalg.least_squares import lstsq_p, pinv_p
from functrans.ops.linalg.matrices import hermitian as hermitian_of
from functrans.ops.linalg.svd import svd_p

LinAlgError = np.linalg.LinAlgError

__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals",
    "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd",
    "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip

# -- solutions, determinants --------------------------------------------------------------


@answers(np.linalg.inv)
def inv(a: Any) -> Any:
    """The inverse matrices."""
    return ops.inv(a)


@answers(np.linalg.det)
def det(a: Any) -> Any:
    """The determinants."""
    return ops.det(a)


@answers(np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    """The signs of the determinants, and the logarithms of their absolute values."""
    return ops.slogdet(a)


@answers(np.linalg.solve)
def solve(a: Any, b: Any) -> Any:
    """Solve ``a @ x = b`` for ``x``; ``b`` is a vector if it has one axis, otherwise matrices."""
    return ops.solve(inexact(a), inexact(b))  # integers are float64, beside float32 too


@answers(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Any:
    """The pseudo-inverses of matrices.

    Parameters
    ----------
    a : array of shape (..., M, N)
    rcond, rtol : array of shape (...), optional
        Singular values up to this fraction of the largest count as 0. The default is 1e-15; for
        ``rtol=None``, it is ``max(M, N)`` times the machine epsilon.
    hermitian : bool
        Whether the matrices are Hermitian: their lower triangles are read.

    Returns
    -------
    array of shape (..., N, M)

    Notes
    -----
    The derivative is that of [1]_ for changes that preserve the rank; the pseudo-inverse is not
    continuous where the rank changes.

    References
    ----------
    .. [1] G. H. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least
       squares problems whose variables separate", 1973.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> grad(lambda a: np.linalg.pinv(a)[0, 0])(np.diag([2.0, 0.0]))
    array([[-0.25,  0.  ],
           [ 0.  ,  0.  ]])
    """
    x = inexact(a)
    if rcond is not None and rtol is not np._NoValue:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    if rtol is None:
        rcond = builtins.max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    elif rtol is not np._NoValue:
        rcond = rtol
    elif rcond is None:
        rcond = 1e-15
    cutoff = broadcast_to(array(rcond), shape=x.shape[:-2])
    return pinv_p(hermitian_of(x, lower=True) if hermitian else x, cutoff)


@answers(np.linalg.lstsq)
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The least-squares solution of ``a @ x = b`` of minimal norm.

    Parameters
    ----------
    a : array of shape (M, N)
    b : array of shape (M,) or (M, K)
    rcond : float, optional
        Singular values up to this fraction of the largest count as 0; by default, ``max(M, N)``
        times the machine epsilon.

    Returns
    -------
    x : array of shape (N,) or (N, K)
    residuals : array of shape (1,) or (K,), or (0,)
        The squared lengths of ``b - a @ x``; empty if M <= N or if the rank is less than N. Under
        `jit` and `vmap`, where the rank is not known, they are returned whenever M > N.
    rank : integer
    s : array of shape (min(M, N),)
        The singular values of ``a``.

    Notes
    -----
    The derivative is that of [1]_, for matrices of any rank and changes that preserve it.

    References
    ----------
    .. [1] G. H. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least
       squares problems whose variables separate", 1973.

    Examples
    --------
    >>> import numpy as np
    >>> from functrans import grad
    >>> x, y = np.arange(4.0), np.array([1.0, 3.0, 5.0, 7.0])
    >>> grad(lambda y: np.linalg.lstsq(np.stack([x, np.ones(4)], 1), y)[0][0])(y).round(3)
    array([-0.3, -0.1,  0.1,  0.3])
    """
    matrix, right = inexact(a), inexact(b)
    is_vector = right.ndim == 1
    columns = expand_axes(right, (1,)) if is_vector else right
    for x in (matrix, columns):
        if x.ndim != 2:
            raise LinAlgError(f"{x.ndim}-dimensional array given. Array must be two-dimensional")
    m, n = matrix.shape
    if columns.shape[0] != m:
        raise LinAlgError("Incompatible dimensions")
    dtype = common_dtype(matrix, columns)
    # NumPy solves in double precision, which decides what is negligible
    wide = np.promote_types(dtype, np.float64)
    matrix, columns = astype(matrix, wide), astype(columns, wide)
    eps = float(np.finfo(wide).eps)
    if rcond is None:
        rcond = builtins.max(m, n) * eps
    elif known(rcond) is not None and not 0 < known(rcond) < 1:
        rcond = eps / 2  # as in LAPACK, whose precision is that of rounding
    x = lstsq_p(matrix, columns, array(rcond))
    values = svd_p(matrix, full=False)[1]
    rank = _rank(values, rcond)
    of_all = known(rank)
    if m <= n or (of_all is not None and of_all != n):
        residuals = zeros((0,), values.dtype)
    else:
        residuals = sum(squared_size(columns - products.matmul(matrix, x)), 0)
    solution = reshape(x, shape=(n,)) if is_vector else x
    solution, residuals = astype(solution, dtype), astype(residuals, real_dtype(dtype))
    return solution, residuals, rank, astype(values, real_dtype(dtype))


def _rank(values: Any, rcond: Any) -> Any:
    largest = max(values, -1, initial=0)
    return astype(sum(greater(values, largest * rcond)), np.int32)


@answers(np.linalg.matrix_power, views=True)
def matrix_power(a: Any, n: int) -> Any:
    """The n-th powers of matrices; of their inverses if ``n`` is negative."""
    return ops.matrix_power(a, n)


@answers(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """Solve ``tensordot(a, x, x.ndim) = b`` for ``x``."""
    matrix, right = array(a), array(b)
    if axes is not None:
        moved = [axis_of(i, matrix.ndim) for i in axes]
        rest = [i for i in range(matrix.ndim) if i not in moved]
        matrix = views.permuted(matrix, (*rest, *moved))
    shape = matrix.shape[right.ndim :]
    size = math.prod(shape)
    square = reshape(matrix, shape=(matrix.size // size if size else 0, size))
    return reshape(solve(square, flat(right)), shape=shape)


@answers(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse with respect to `tensordot` over the first ``ind`` axes."""
    x = array(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    size = math.prod(x.shape[ind:])
    inverse = ops.inv(reshape(x, shape=(size, x.size // size)))
    return reshape(inverse, shape=(*x.shape[ind:], *x.shape[:ind]))


# -- products --------------------------------------------------------------------------------------


@answers(np.linalg.multi_dot)
def multi_dot(arrays: Any) -> Any:
    """The product of several matrices in the order of fewest multiplications."""
    parts = [array(x) for x in arrays]
    if len(parts) < 2:
        raise ValueError("Expecting at least two arrays.")
    for i, x in enumerate(parts):
        if x.ndim != 2 and (x.ndim != 1 or 0 < i < len(parts) - 1):
            raise ShapeError(
                f"multi_dot takes matrices, and vectors first or last; [{i}] has shape {x.shape}"
            )
    shapes = [(1, x.size) if i == 0 and x.ndim == 1 else x.shape for i, x in enumerate(parts)]
    order = _cheapest((*(shape[0] for shape in shapes), parts[-1].shape[-1]))

    def product(first: int, last: int) -> Any:
        if first == last:
            return parts[first]
        cut = order[first, last]
        return np_dot(product(first, cut), product(cut + 1, last))

    return product(0, len(parts) - 1)


def _cheapest(sizes: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """The optimal split points of a matrix chain product (dynamic programming)."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            cost[first, last], split[first, last] = builtins.min(
                (
                    cost[first, k]
                    + cost[k + 1, last]
                    + sizes[first] * sizes[k + 1] * sizes[last + 1],
                    k,
                )
                for k in range(first, last)
            )
    return split


@answers(np.linalg.matmul)
def matmul(x1: Any, x2: Any, /) -> Any:
    """``x1 @ x2``."""
    return products.matmul(x1, x2)


@answers(np.linalg.vecdot)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The inner products of the vectors along an axis."""
    return products.vecdot(x1, x2, axis)


@answers(np.linalg.outer)
def outer(x1: Any, x2: Any, /) -> Any:
    """The outer product of two vectors."""
    x, y = array(x1), array(x2)
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(
            f"np.linalg.outer is of two vectors, found {x.ndim} and {y.ndim} dimensions: "
            "np.outer takes all elements of any arrays"
        )
    return products.outer(x, y)


@answers(np.linalg.cross)
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross products of vectors of three elements along an axis."""
    return np_cross(x1, x2, axis=axis)


@answers(np.linalg.diagonal, views=True)
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """A diagonal of the matrices along the last two axes."""
    return views.diagonal(array(x), offset, -2, -1)


@answers(np.linalg.trace)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums along a diagonal of the matrices along the last two axes."""
    return sum(diagonal(x, offset=offset), -1, dtype)


def __dir__() -> list[str]:
    return sorted(__all__)
