"""Norms and condition numbers of `numpy.linalg`, with derivatives that are never NaN.

The derivative of a norm at 0 is taken to be 0, the subgradient of least length. So is that of a
singular value that is 0 (up to rounding), in norms defined by singular values.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.types import real_dtype
from functrans.numpy import reductions
from functrans.numpy.arrays import INDEX, axes_of, axis_of, flat, inexact
from functrans.numpy.define import answers
from functrans.ops.arrays.shape import asarray
from functrans.ops.arrays.structural import astype, drop_axes, expand_axes, reshape, transpose
from functrans.ops.elementwise.choice import absolute, select
from functrans.ops.elementwise.compare import equal, greater, not_equal
from functrans.ops.elementwise.logic import isnan
from functrans.ops.elementwise.power import raise_to
from functrans.ops.elementwise.stop import stop_gradient
from functrans.ops.linalg import factorisations as ops
from functrans.ops.linalg.eigen import eigvalsh_p
from functrans.ops.linalg.matrices import check_square, identity, negligible, on_rows
from functrans.ops.linalg.svd import svd_p, svdvals_p

__all__ = ["cond", "matrix_norm", "matrix_rank", "norm", "vector_norm"]

# -- norms -----------------------------------------------------------------------------------------


@answers(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """A norm of vectors or matrices; where it is 0, its derivative is 0."""
    x = inexact(x)
    if axis is None:
        if ord is None or (ord in ("f", "fro") and x.ndim == 2) or (ord == 2 and x.ndim == 1):
            axes = tuple(range(x.ndim))
            return reductions.restored(
                reductions.root(reductions.sum(reductions.squared_size(flat(x)))), axes, keepdims
            )
        axis = tuple(range(x.ndim))
    axes = tuple(axis_of(i, x.ndim) for i in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(axes) == 1:
        return _vector_norm(x, 2 if ord is None else ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, "fro" if ord is None else ord, axes, keepdims)
    raise ValueError("Improper number of dimensions to norm.")


def _vector_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord == 0:
        return reductions.sum(astype(not_equal(x, 0), real_dtype(x.dtype)), axes, keepdims=keepdims)
    if ord == 2:
        return reductions.root(reductions.sum(reductions.squared_size(x), axes, keepdims=keepdims))
    size = absolute(x)
    if ord == np.inf:
        return reductions.max(size, axes, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return reductions.min(size, axes, keepdims=keepdims)
    if ord == 1:
        return reductions.sum(size, axes, keepdims=keepdims)
    # powers below 1 have infinite derivatives at 0, so zeros are excluded
    nothing = equal(size, 0)
    powers = raise_to(select(nothing, 1, size), ord)
    of_nothing = 0 if ord > 0 else np.inf
    total = reductions.sum(select(nothing, of_nothing, powers), axes, keepdims=keepdims)
    nothing = equal(total, 0)
    return select(nothing, of_nothing, raise_to(select(nothing, 1, total), 1 / ord))


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if axes[0] == axes[1]:
        raise ValueError("Duplicate axes given.")
    if ord in ("fro", "f"):
        return reductions.root(reductions.sum(reductions.squared_size(x), axes, keepdims=keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        added, left = axes if ord in (1, -1) else axes[::-1]
        totals = reductions.sum(absolute(x), added, keepdims=True)
        result = (
            reductions.max(totals, left, keepdims=True, initial=0)
            if ord > 0
            else reductions.min(totals, left, keepdims=True)
        )
        return result if keepdims else reshape(result, shape=drop_axes(x.shape, axes))
    if ord not in _OF_SINGULAR_VALUES:
        raise ValueError("Invalid norm order for matrices.")
    rest = tuple(i for i in range(x.ndim) if i not in axes)
    values = svd_p(transpose(x, permutation=(*rest, *axes)), full=False)[1]
    # singular vectors of zero singular values are arbitrary
    kept = select(negligible(values), stop_gradient(values), values)
    result = _OF_SINGULAR_VALUES[ord](kept)
    return expand_axes(result, tuple(sorted(axes))) if keepdims else result


_OF_SINGULAR_VALUES: dict[Any, Callable[[Any], Any]] = {
    2: lambda values: reductions.max(values, -1, initial=0),
    -2: lambda values: reductions.min(values, -1),
    "nuc": lambda values: reductions.sum(values, -1),
}
"""The implementations of norms, by their orders."""


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


# -- conditioning ----------------------------------------------------------------------------------


@answers(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """The condition numbers of the matrices along the last two axes, in the norm of order ``p``.

    By default, the ratio of the largest to the smallest singular value. It is infinite for singular
    matrices.
    """
    x = inexact(x)
    if not x.size and 0 in x.shape[-2:]:
        raise np.linalg.LinAlgError("cond is not defined on empty arrays")
    axes = (x.ndim - 2, x.ndim - 1)
    if p in (None, 2, -2):
        values = svd_p(x, full=False)[1]
        ends = values[..., 0], values[..., -1]
        ratio = ends[1] / ends[0] if p == -2 else ends[0] / ends[1]
        return select(isnan(ratio) & ~reductions.any(isnan(x), axes), np.inf, ratio)
    check_square(x, "cond")
    sign, _ = ops.slogdet_p(x)
    singular = equal(sign, 0)
    whole = select(on_rows(on_rows(singular)), identity(x.shape[-1], x.dtype), x)
    both = _matrix_norm(x, p, axes, False) * _matrix_norm(ops.inv(whole), p, axes, False)
    return select(singular | (isnan(both) & ~reductions.any(isnan(x), axes)), np.inf, both)


@answers(np.linalg.matrix_rank)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """The number of singular values above a tolerance.

    Parameters
    ----------
    A : array of shape (..., M, N), or with less than two axes
    tol : array of shape (...), optional
        The tolerance itself.
    hermitian : bool
        Whether the matrices are Hermitian: their lower triangles are read.
    rtol : array of shape (...), optional
        The tolerance in proportion to the largest singular value; ``max(M, N)`` times the machine
        epsilon if none is given.

    Returns
    -------
    array of integers, of shape (...)
    """
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set.")
    x = inexact(A)
    if x.ndim < 2:
        return astype(reductions.any(not_equal(x, 0)), INDEX)
    values = absolute(eigvalsh_p(x, lower=True)) if hermitian else svdvals_p(x)
    if tol is not None:
        return reductions.count_nonzero(greater(values, on_rows(asarray(tol))), axis=-1)
    if rtol is None:
        rtol = builtins.max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    largest = reductions.max(values, -1, keepdims=True, initial=0)
    return reductions.count_nonzero(greater(values, largest * on_rows(asarray(rtol))), axis=-1)
