"""Decompositions that are composed of other operations, as graphs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from functrans.ops.arrays.structural import broadcast_to, cast, expand_axes
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.inlining import inline
from functrans.ops.elementwise.choice import absolute, select
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.complex_numbers import conj
from functrans.ops.linalg.cholesky_derivative import cotangent_by_substitution
from functrans.ops.linalg.factorisations import det_p
from functrans.ops.linalg.least_squares import lstsq_by_svd, pinv_by_svd
from functrans.ops.linalg.matrices import identity, on_columns, product, transposed
from functrans.ops.linalg.qr import qr_p, r_p
from functrans.ops.linalg.svd import svd_p, svdvals_p
from functrans.ops.reductions.reduce import reduce_max, reduce_prod
from functrans.trace.stage import rewrite


def pinv(at: Emission) -> None:
    """Pseudo-inverses, by singular values."""
    inline(at, pinv_by_svd)


def lstsq(at: Emission) -> None:
    """Least squares, by singular values."""
    inline(at, lstsq_by_svd)


def svd_by_qr(at: Emission) -> None:
    """Singular values and vectors of matrices with many more rows than columns, or the reverse."""
    at.subprogram(rewrite(_svd_of_triangle, [at.eqn.inputs[0].aval]))


def svdvals_by_qr(at: Emission) -> None:
    """Singular values of such matrices."""
    at.subprogram(rewrite(_svdvals_of_triangle, [at.eqn.inputs[0].aval]))


def _svd_of_triangle(a: Any) -> list[Any]:
    """SVD by the triangular factor (Chan's algorithm), with the signs of LAPACK's `gesdd`."""
    is_wide, (a, known) = a.shape[-2] < a.shape[-1], _without_infinities(a)
    q, r = qr_p(transposed(a) if is_wide else a, complete=False)
    u, s, vh = svd_p(transposed(r) if is_wide else r, full=False)
    both = (u, product(vh, transposed(q))) if is_wide else (product(q, u), vh)
    return [known(both[0]), known(s), known(both[1])]


def _svdvals_of_triangle(a: Any) -> list[Any]:
    is_wide, (a, known) = a.shape[-2] < a.shape[-1], _without_infinities(a)
    r = r_p(transposed(a) if is_wide else a)
    return [known(svdvals_p(transposed(r) if is_wide else r))]


def _without_infinities(a: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Matrices with zeros in place of those with infinities, and a function of their results.

    Reflections would make them NaN, which is a failure. In LAPACK, singular values become NaN.
    """
    infinite = equal(reduce_max(absolute(a), axes=(a.ndim - 2, a.ndim - 1)), np.inf)

    def chosen(instead: float, x: Any) -> Any:
        mask = expand_axes(infinite, tuple(range(infinite.ndim, x.ndim)))
        return select(broadcast_to(mask, shape=x.shape), instead, x)

    return chosen(0.0, a), partial(chosen, np.nan)


def cholesky_cotangent(at: Emission) -> None:
    """Cotangents of positive definite matrices, by substitution."""
    inline(at, lambda *operands: [cotangent_by_substitution(*operands)])


def cofactor(at: Emission) -> None:
    """Cofactors, by singular values, so that singular matrices need no exception."""
    inline(at, cofactors_by_svd)


def cofactors_by_svd(a: Any) -> list[Any]:
    """Cofactors in the IR's operations."""
    u, s, vh = svd_p(a, full=True)
    sign = det_p(u) * det_p(vh)
    weights = expand_axes(sign, (sign.ndim,)) * _products_of_others(s)
    return [product(conj(u) * on_columns(weights), conj(vh))]


def _products_of_others(s: Any) -> Any:
    """For each element of a vector, the product of all others."""
    n = s.shape[-1]
    own, shape = cast(identity(n, s.dtype), dtype=np.dtype(bool)), (*s.shape, n)
    each = select(broadcast_to(own, shape=shape), 1, broadcast_to(on_columns(s), shape=shape))
    return reduce_prod(each, axes=(s.ndim,))
