"""Least squares and pseudo-inverses, by singular values.

The derivatives are those of Golub and Pereyra, "The differentiation of pseudo-inverses and
nonlinear least squares problems whose variables separate" (1973), theorem 4.3. They hold for
matrices of any rank, and for changes that preserve the rank; along others, the pseudo-inverse is
not continuous. If nonzero singular values are dropped, the derivative has a further term, made of
the singular vectors, since the spaces of dropped and kept values rotate into each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval, real_dtype
from functrans.ops.arrays.structural import astype, zeros
from functrans.ops.compiled.pairs import Composition
from functrans.ops.define import primitive
from functrans.ops.elementwise.choice import masked, select
from functrans.ops.elementwise.compare import greater, not_equal
from functrans.ops.linalg.matrices import (
    adjoint,
    batch_by_columns,
    batch_together,
    check_matrices,
    check_right_sides,
    decomposed_forms,
    far_apart,
    on_columns,
    on_rows,
    product,
    promoted,
    transposed,
)
from functrans.ops.linalg.svd import svd_p
from functrans.ops.reductions.reduce import reduce_max
from functrans.ops.samples import cases


def _inverted(s: Any, rcond: Any) -> Any:
    """The inverses of singular values, and 0 for negligible ones."""
    if not s.shape[-1]:
        return s
    counts = s > rcond[..., None] * s.max(-1, keepdims=True)
    return np.divide(1, s, where=counts, out=np.zeros_like(s))


def _check_rcond(a: Aval, rcond: Aval, name: str) -> None:
    check_matrices(a, name)
    if rcond.shape != a.shape[:-2]:
        raise ShapeError(
            f"{name} takes a cutoff for each matrix: of shape {a.shape[:-2]}, not {rcond.shape}"
        )


def _prepared(*operands: Any) -> Any:
    """Matrices of one dtype, and the cutoffs in that of their singular values."""
    *matrices, rcond = operands
    matrices, _ = promoted(*matrices)
    return (*matrices, astype(rcond, real_dtype(matrices[0].dtype))), {}


# -- pseudo-inverse --------------------------------------------------------------------------------


def _infer_pinv(a: Aval, rcond: Aval) -> Aval:
    _check_rcond(a, rcond, "pinv")
    return a.update(shape=(*a.shape[:-2], a.shape[-1], a.shape[-2]))


def _pinv(a: Any, rcond: Any) -> Any:
    if not a.size:
        return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    u, s, vh = np.linalg.svd(a.conj(), full_matrices=False)
    scaled = _inverted(s, np.asarray(rcond))[..., :, None] * np.swapaxes(u, -1, -2)
    return np.matmul(np.swapaxes(vh, -1, -2), scaled)


def _counts(s: Any, rcond: Any) -> Any:
    """A mask of the singular values that are not negligible."""
    largest = on_rows(reduce_max(s, axes=(s.ndim - 1,)))
    return greater(s, largest * on_rows(rcond))


def _reciprocals(s: Any, rcond: Any) -> Any:
    """`_inverted`, in the IR's operations."""
    counts = _counts(s, rcond)
    return masked(counts, 1 / select(counts, s, 1))


def pinv_by_svd(a: Any, rcond: Any) -> list[Any]:
    """Pseudo-inverses in the IR's operations."""
    u, s, vh = svd_p(a, full=False)
    return [product(adjoint(vh), on_rows(_reciprocals(s, rcond)) * adjoint(u))]


def _tangent_of_pinv(a: Any, rcond: Any, out: Any, da: Any) -> Any:
    """-P dA P, and the terms outside of the row space and of the column space."""
    dah, outh = adjoint(da), adjoint(out)
    rows, columns = product(out, outh, dah), product(dah, outh, out)
    outside = rows - product(rows, a, out) + columns - product(out, a, columns)
    return outside - product(out, da, out) + _of_dropped(a, rcond, da)


def _of_dropped(a: Any, rcond: Any, da: Any) -> Any:
    """The contribution of dropped singular values that are not 0.

    The element of ``U^H dA V`` between a kept value ``s`` and a dropped value ``d`` is divided by
    ``s`` and by ``s**2 - d**2``; the quotient for ``d = 0`` is in the other terms.
    """
    u, s, vh = svd_p(a, full=False)
    if not s.shape[-1]:
        return zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    counts = _counts(s, rcond)
    mixed = not_equal(on_rows(counts), on_columns(counts))
    kept, dropped = masked(counts, s), masked(~counts, s)
    kept, dropped = (on_rows(x * x) + on_columns(x * x) for x in (kept, dropped))
    inner = product(adjoint(u), da, adjoint(vh))
    turn = on_rows(s) * on_columns(s) * adjoint(inner) + dropped * inner
    turn = masked(mixed, turn / select(mixed, kept * (kept - dropped), 1))
    return product(adjoint(vh), adjoint(turn), adjoint(u))


def _cutoff(*shape: int) -> Any:
    return np.full(shape, 1e-10)


pinv_p: Primitive = primitive(
    "pinv",
    **decomposed_forms("pinv", parts=Composition(pinv_by_svd)),
    infer=_infer_pinv,
    numpy=_pinv,
    jvp=[_tangent_of_pinv, None],
    batch=lambda *args: batch_together(pinv_p, *args),
    prepare=_prepared,
    samples=cases(
        ((far_apart, (3, 3)), _cutoff(), {}), ((far_apart, (4, 2)), _cutoff(), {}),
        ((far_apart, (2, 2, 3)), _cutoff(2), {}), ((far_apart, (1, 1)), _cutoff(), {}),
        ((far_apart, (4, 5)), np.array(0.6), {}),
        (np.zeros((0, 2)), _cutoff(), {}), (np.zeros((2, 2, 0)), _cutoff(2), {}),
        ((far_apart, (2, 4, 5)), _cutoff(2), {}),
    ),
)  # fmt: skip

# -- least squares ---------------------------------------------------------------------------------


def _infer_lstsq(a: Aval, b: Aval, rcond: Aval) -> Aval:
    _check_rcond(a, rcond, "lstsq")
    check_right_sides(a, b, "lstsq")
    return b.update(shape=(*a.shape[:-2], a.shape[-1], b.shape[-1]))


def _lstsq(a: Any, b: Any, rcond: Any) -> Any:
    if not a.size:
        return np.zeros((*a.shape[:-2], a.shape[-1], b.shape[-1]), b.dtype)
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    along = np.matmul(np.swapaxes(u.conj(), -1, -2), b)
    scaled = _inverted(s, np.asarray(rcond))[..., :, None] * along
    return np.matmul(np.swapaxes(vh.conj(), -1, -2), scaled)


def lstsq_by_svd(a: Any, b: Any, rcond: Any) -> list[Any]:
    """Least squares in the IR's operations."""
    u, s, vh = svd_p(a, full=False)
    along = product(adjoint(u), b)
    return [product(adjoint(vh), on_rows(_reciprocals(s, rcond)) * along)]


def _tangent_of_lstsq(a: Any, b: Any, rcond: Any, out: Any, da: Any) -> Any:
    inverse = pinv_p(a, rcond)
    dah, inverseh = adjoint(da), adjoint(inverse)
    residual = b - product(a, out)
    along = product(inverse, product(inverseh, product(dah, residual)) - product(da, out))
    across = product(dah, product(inverseh, out))
    within = along + across - product(inverse, product(a, across))
    return within + product(_of_dropped(a, rcond, da), b)


lstsq_p: Primitive = primitive(
    "lstsq",
    **decomposed_forms("lstsq", parts=Composition(lstsq_by_svd)),
    infer=_infer_lstsq,
    numpy=_lstsq,
    jvp=[_tangent_of_lstsq, lambda a, b, rcond, out, db: lstsq_p(a, db, rcond), None],
    linear=((1,),),
    transpose=[None, lambda ct, a, b, rcond: lstsq_p(transposed(a), ct, rcond), None],
    batch=lambda *args: batch_by_columns(lstsq_p, *args),
    prepare=_prepared,
    samples=cases(
        ((far_apart, (3, 3)), (3, 2), _cutoff(), {}), ((far_apart, (4, 2)), (4, 1), _cutoff(), {}),
        ((far_apart, (2, 2, 3)), (2, 2, 2), _cutoff(2), {}),
        ((far_apart, (1, 1)), (1, 1), _cutoff(), {}), (np.zeros((0, 2)), (0, 1), _cutoff(), {}),
        (np.zeros((2, 0)), (2, 1), _cutoff(), {}), ((far_apart, (5, 4)), (5, 2), np.array(0.6), {}),
        ((far_apart, (2, 5, 4)), (2, 5, 3), _cutoff(2), {}),
    ),
)  # fmt: skip
