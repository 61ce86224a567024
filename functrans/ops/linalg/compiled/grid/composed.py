"""Pseudo-inverses, least squares and cofactors by singular values, on a grid: inlined."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ops.arrays.structural import broadcast_to, cast, expand_axes
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.inlining import inline
from functrans.ops.elementwise.choice import select
from functrans.ops.linalg.cholesky_derivative import cotangent_by_substitution
from functrans.ops.linalg.factorisations import det_p
from functrans.ops.linalg.least_squares import lstsq_by_svd, pinv_by_svd
from functrans.ops.linalg.matrices import identity, on_columns, product
from functrans.ops.linalg.svd import svd_p
from functrans.ops.reductions.reduce import reduce_prod


def pinv(at: Emission) -> None:
    """Pseudo-inverses, by singular values."""
    inline(at, pinv_by_svd)


def lstsq(at: Emission) -> None:
    """Least squares, by singular values."""
    inline(at, lstsq_by_svd)


def cholesky_cotangent(at: Emission) -> None:
    """Cotangents of positive definite matrices, by substitution."""
    inline(at, lambda *operands: [cotangent_by_substitution(*operands)])


def cofactor(at: Emission) -> None:
    """Cofactors, by singular values, so that singular matrices need no exception."""
    inline(at, _cofactors)


def _cofactors(a: Any) -> list[Any]:
    u, s, vh = svd_p(a, full=True)
    own = cast(identity(a.shape[-1], a.dtype), dtype=np.dtype(bool))
    each = select(broadcast_to(own, shape=a.shape), 1, broadcast_to(on_columns(s), shape=a.shape))
    others = reduce_prod(each, axes=(a.ndim - 1,))
    sign = det_p(u) * det_p(vh)
    weights = expand_axes(sign, (sign.ndim,)) * others
    return [product(u * on_columns(weights), vh)]
