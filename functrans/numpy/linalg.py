"""`numpy.linalg`: what there is of it for traced values. The rest is refused by name.

The derivative of a norm at 0 is taken to be 0, the subgradient of least length.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.numpy.arrays import array, axes_of, axis_of, flat, inexact
from functrans.numpy.contraction import cross, outer, tensordot
from functrans.numpy.contraction import dot as np_dot
from functrans.numpy.define import answers, refuse
from functrans.numpy.reductions import max, min, restored, root, squared_size, sum
from functrans.numpy.shapes import matrix_transpose
from functrans.ops.arrays import views
from functrans.ops.arrays.structural import astype, reshape
from functrans.ops.elementwise.choice import absolute, select
from functrans.ops.elementwise.compare import equal, not_equal
from functrans.ops.elementwise.power import raise_to
from functrans.ops.linalg import factorisations as ops
from functrans.ops.linalg import products

LinAlgError = np.linalg.LinAlgError

__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_transpose", "multi_dot", "norm", "outer", "slogdet", "solve",
    "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip

# -- factors, solutions, determinants --------------------------------------------------------------


@answers(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """The triangular factor of positive definite matrices, of which one triangle is read."""
    return ops.cholesky(a, upper=upper)


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
    """``x`` with ``a @ x = b``; ``b`` is a vector if it has one axis, else matrices."""
    return ops.solve(a, b)


@answers(np.linalg.matrix_power)
def matrix_power(a: Any, n: int) -> Any:
    """The product of ``n`` copies of each matrix, or of their inverses if it is negative."""
    return ops.matrix_power(a, n)


@answers(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """``x`` with ``tensordot(a, x, x.ndim) = b``."""
    matrix, right = array(a), array(b)
    if axes is not None:
        moved = [axis_of(i, matrix.ndim) for i in axes]
        rest = [i for i in range(matrix.ndim) if i not in moved]
        matrix = views.permuted(matrix, (*rest, *moved))
    shape = matrix.shape[right.ndim :]
    size = math.prod(shape)
    square = reshape(matrix, shape=(matrix.size // size if size else 0, size))
    return reshape(ops.solve(square, flat(right)), shape=shape)


@answers(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse with regard to `tensordot` over the first ``ind`` axes."""
    x = array(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    size = math.prod(x.shape[ind:])
    inverse = ops.inv(reshape(x, shape=(size, x.size // size)))
    return reshape(inverse, shape=(*x.shape[ind:], *x.shape[:ind]))


# -- products --------------------------------------------------------------------------------------


@answers(np.linalg.multi_dot)
def multi_dot(arrays: Any) -> Any:
    """The product of several matrices, in the order that takes the fewest multiplications."""
    parts = [array(x) for x in arrays]
    if len(parts) < 2:
        raise ValueError("Expecting at least two arrays.")
    shapes = [(1, x.size) if i == 0 and x.ndim == 1 else x.shape for i, x in enumerate(parts)]
    order = _cheapest((*(shape[0] for shape in shapes), parts[-1].shape[-1]))

    def product(first: int, last: int) -> Any:
        if first == last:
            return parts[first]
        cut = order[first, last]
        return np_dot(product(first, cut), product(cut + 1, last))

    return product(0, len(parts) - 1)


def _cheapest(sizes: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """Where to split each stretch of a product of matrices."""
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


if hasattr(np.linalg, "vecdot"):

    @answers(np.linalg.vecdot)
    def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
        """The inner products of the vectors along an axis."""
        return products.vecdot(x1, x2, axis)


@answers(np.linalg.diagonal, views=True)
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """A diagonal of the matrices along the last two axes."""
    return views.diagonal(array(x), offset, -2, -1)


@answers(np.linalg.trace)
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums along a diagonal of the matrices along the last two axes."""
    return sum(diagonal(x, offset=offset), -1, dtype)


# -- norms -----------------------------------------------------------------------------------------


@answers(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """A norm of vectors or matrices; where it is 0, so is its derivative."""
    x = inexact(x)
    if axis is None:
        if ord is None or (ord in ("f", "fro") and x.ndim == 2) or (ord == 2 and x.ndim == 1):
            axes = tuple(range(x.ndim))
            return restored(root(sum(squared_size(flat(x)))), axes, keepdims)
        axis = tuple(range(x.ndim))
    axes = tuple(axis_of(i, x.ndim) for i in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(axes) == 1:
        return _vector_norm(x, 2 if ord is None else ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, "fro" if ord is None else ord, axes, keepdims)
    raise ValueError("Improper number of dimensions to norm.")


def _vector_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    size = absolute(x)
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord == np.inf:
        return max(size, axes, keepdims=keepdims)
    if ord == -np.inf:
        return min(size, axes, keepdims=keepdims)
    if ord == 0:
        return sum(astype(not_equal(x, 0), size.dtype), axes, keepdims=keepdims)
    if ord == 1:
        return sum(size, axes, keepdims=keepdims)
    if ord == 2:
        return root(sum(squared_size(x), axes, keepdims=keepdims))
    # a power of 0 has no derivative below the first: what is 0 is left out
    nothing = equal(size, 0)
    powers = raise_to(select(nothing, 1, size), ord)
    of_nothing = 0 if ord > 0 else np.inf
    total = sum(select(nothing, of_nothing, powers), axes, keepdims=keepdims)
    empty = equal(total, 0)
    return select(empty, 0, raise_to(select(empty, 1, total), 1 / ord))


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if axes[0] == axes[1]:
        raise ValueError("Duplicate axes given.")
    if ord in ("fro", "f"):
        return root(sum(squared_size(x), axes, keepdims=keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        added, left = axes if ord in (1, -1) else axes[::-1]
        totals = sum(absolute(x), added, keepdims=True)
        extreme = max if ord > 0 else min
        result = extreme(totals, left, keepdims=True)
        return result if keepdims else reshape(result, shape=_without(x.shape, axes))
    if ord in (2, -2, "nuc"):
        refuse(f"np.linalg.norm of matrices with ord={ord!r}", "use the Frobenius norm, ord='fro'")
    raise ValueError("Invalid norm order for matrices.")


def _without(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for i, n in enumerate(shape) if i not in axes)


@answers(np.linalg.vector_norm)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """A norm of vectors, over any number of axes."""
    x = inexact(x)
    return _vector_norm(x, ord, axes_of(axis, x.ndim), keepdims)


@answers(np.linalg.matrix_norm)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """A norm of the matrices along the last two axes."""
    x = inexact(x)
    if x.ndim < 2:
        raise ShapeError("matrix_norm takes arrays of two axes at the least")
    return _matrix_norm(x, ord, (x.ndim - 2, x.ndim - 1), keepdims)


@answers(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """The condition number in a norm that needs no singular values."""
    if p in (None, 2, -2, "nuc"):
        refuse(f"np.linalg.cond with p={p!r}", "use p='fro', 1 or np.inf")
    x = inexact(x)
    axes = (x.ndim - 2, x.ndim - 1)
    return _matrix_norm(x, p, axes, False) * _matrix_norm(ops.inv(x), p, axes, False)
