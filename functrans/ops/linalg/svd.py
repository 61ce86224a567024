"""Singular values and vectors, their derivatives by perturbation of both spaces.

The rule is that of Townsend, "Differentiating the singular value decomposition" (2016). With
``P = U^H dA V`` divided into its Hermitian part ``H`` and the rest ``K``, the left vectors rotate
by ``H[i, j] / (s[j] - s[i]) + K[i, j] / (s[j] + s[i])``, and the right ones by the same with the
opposite sign of ``K``. (Townsend has a single fraction, which cannot be separated for equal
singular values.) For complex matrices, the diagonal of ``K`` is the term that Wan and Zhang,
"Automatic differentiation for complex valued SVD" (2019), add; the common phase of two vectors is
not determined, and each vector gets half of it.

The vectors of equal singular values (up to rounding) are not determined within their space, where
the first fraction is taken to be 0, and the second if both values are 0. So the singular values,
sums of functions of them, and the polar factor ``U V^H`` have correct first derivatives there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval, real_dtype
from functrans.ops.linalg.matrices import (
    adjoint,
    beside,
    check_matrices,
    columns_of,
    decomposed_forms,
    diagonal_of_product,
    far_apart,
    of_matrices,
    on_columns,
    on_rows,
    only,
    product,
    reciprocal_where_apart,
    rounding,
    rows_of,
)
from functrans.ops.samples import cases, stacks


def _infer_svd(a: Aval, *, full: bool) -> tuple[Aval, Aval, Aval]:
    check_matrices(a, "svd")
    *leading, m, n = a.shape
    k = min(m, n)
    u_shape = (*leading, m, m if full else k)
    vh_shape = (*leading, n if full else k, n)
    return a.update(shape=u_shape), _infer_svdvals(a), a.update(shape=vh_shape)


def _infer_svdvals(a: Aval) -> Aval:
    check_matrices(a, "svdvals")
    return a.update(shape=(*a.shape[:-2], min(a.shape[-2:])), dtype=real_dtype(a.dtype))


def _jvp_svd(primals: Any, tangents: Any, outs: Any, *, full: bool) -> tuple[Any, Any, Any]:
    (da,), (u, s, vh) = tangents, outs
    k = s.shape[-1]
    left, right = columns_of(u, 0, k), rows_of(vh, 0, k)
    along = product(da, adjoint(right))
    across = product(adjoint(left), da)
    inner = product(across, adjoint(right))

    noise = on_rows(rounding(s))
    even, odd = (inner + adjoint(inner)) * 0.5, (inner - adjoint(inner)) * 0.5
    even = even * reciprocal_where_apart(on_columns(s) - on_rows(s), noise)
    odd = odd * reciprocal_where_apart(on_columns(s) + on_rows(s), noise)
    inverse = reciprocal_where_apart(s, rounding(s))

    du = _turned(u, even + odd, along * on_columns(inverse), k)
    dv = _turned(adjoint(vh), even - odd, adjoint(across) * on_columns(inverse), k)
    return du, diagonal_of_product(left, along), adjoint(dv)


def _turned(u: Any, turn: Any, moved: Any, k: int) -> Any:
    """The tangent of the columns of a unitary matrix: within their space, and out of it.

    The first ``k`` columns span the space. Other columns, if any, change only as far as they must:
    they are not rotated among themselves, which is one choice among many.
    """
    rows, columns = u.shape[-2:]
    left = columns_of(u, 0, k)
    if columns > k:
        rest = columns_of(u, k, columns)
        out = product(adjoint(rest), moved)
        return beside(product(left, turn) + product(rest, out), -product(left, adjoint(out)))
    if rows > k:
        moved = moved - product(left, product(adjoint(left), moved))
        return product(left, turn) + moved
    return product(left, turn)


def _jvp_svdvals(primals: Any, tangents: Any, outs: Any) -> Any:
    u, _, vh = svd_p(*primals, full=False)
    return diagonal_of_product(u, product(tangents[0], adjoint(vh)))


svd_p: Primitive = of_matrices(
    "svd",
    **decomposed_forms("svd"),
    infer=_infer_svd,
    numpy=lambda a, *, full: tuple(np.linalg.svd(a, full_matrices=full)),
    several=True,
    jvp=_jvp_svd,
    trim=lambda eqn, wanted: only(1, eqn, wanted, svdvals_p),
    samples=cases(
        ((far_apart, (3, 3)), {"full": False}), ((far_apart, (4, 2)), {"full": False}),
        ((far_apart, (2, 4)), {"full": False}), ((far_apart, (2, 3, 2)), {"full": True}),
        ((far_apart, (2, 3)), {"full": True}), ((far_apart, (1, 1)), {"full": True}),
        (np.zeros((0, 2)), {"full": False}), (np.zeros((2, 0)), {"full": False}),
        (np.zeros((0, 2, 2)), {"full": True}), ((far_apart, (2, 6, 5)), {"full": False}),
    ),
)  # fmt: skip

svdvals_p: Primitive = of_matrices(
    "svdvals",
    **decomposed_forms("svdvals"),
    infer=_infer_svdvals,
    numpy=lambda a: np.linalg.svd(a, compute_uv=False),
    jvp=_jvp_svdvals,
    samples=stacks(far_apart, (3, 3), (4, 2), (2, 2, 4), (1, 1), (0, 2), (2, 6, 5)),
)
