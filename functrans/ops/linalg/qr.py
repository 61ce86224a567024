"""QR factors, their derivatives by splitting ``Q^H dA R^-1`` into a skew and a triangular part.

The rule is that of Walter and Lehmann, "Algorithmic differentiation of linear algebra functions
with application in optimum experimental design" (2010). It holds where the leading columns of a
matrix, at most as many as it has rows, are independent; otherwise the factors have no derivative,
and taking one is an error ("Singular matrix").
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.ir.types import Aval, is_complex
from functrans.lazily import lazy
from functrans.ops.arrays.structural import zeros
from functrans.ops.linalg.lu import solved_from_right
from functrans.ops.linalg.matrices import (
    above,
    adjoint,
    beside,
    by_lapack,
    check_matrices,
    columns_of,
    decomposed_forms,
    far_apart,
    filled_by_matrix,
    of_matrices,
    only,
    product,
    rows_of,
    triangle,
)
from functrans.ops.samples import cases, stacks

_scipy_qr = lazy("scipy.linalg:qr")


def _infer_qr(a: Aval, *, complete: bool) -> tuple[Aval, Aval]:
    check_matrices(a, "qr")
    *leading, m, n = a.shape
    k = m if complete else min(m, n)
    return a.update(shape=(*leading, m, k)), a.update(shape=(*leading, k, n))


def _jvp_qr(primals: Any, tangents: Any, outs: Any, *, complete: bool) -> tuple[Any, Any]:
    (da,), (q, r) = tangents, outs
    m, n = da.shape[-2:]
    k = min(m, n)
    left, square = columns_of(q, 0, k), columns_of(rows_of(r, 0, k), 0, k)

    moved = solved_from_right(columns_of(da, 0, k), square)
    inner = product(adjoint(left), moved)
    turn = _skew(inner)
    # the part of `moved` orthogonal to the columns is unchanged
    dq = moved - product(left, inner - turn)
    dr = product(inner - turn, square)
    if n > k:
        rest = product(adjoint(left), columns_of(da, k, n))
        dr = beside(dr, rest - product(turn, columns_of(r, k, n)))
    if complete and m > k:
        others = columns_of(q, k, m)
        dq = beside(dq, -product(left, product(adjoint(moved), others)))
        dr = above(dr, zeros((*dr.shape[:-2], m - k, n), dr.dtype))
    return dq, dr


def _skew(x: Any) -> Any:
    """The skew-Hermitian matrices with the lower triangles that are given.

    The diagonal of ``R`` is real and stays real, so imaginary parts on the diagonal belong here.
    """
    below = triangle(x, lower=True, unit_diagonal=True)
    skew = below - adjoint(below)
    if not is_complex(x.dtype):
        return skew
    diagonal = triangle(x, lower=True) - below
    return skew + (diagonal - adjoint(diagonal)) * 0.5


def _jvp_r(primals: Any, tangents: Any, outs: Any) -> Any:
    both = qr_p(*primals, complete=False)
    return _jvp_qr(primals, tangents, both, complete=False)[1]


qr_p: Primitive = of_matrices(
    "qr",
    **decomposed_forms("qr", of_any_size=True),
    infer=_infer_qr,
    numpy=lambda a, *, complete: tuple(np.linalg.qr(a, "complete" if complete else "reduced")),
    several=True,
    jvp=_jvp_qr,
    trim=lambda eqn, wanted: eqn if eqn.params["complete"] else only(1, eqn, wanted, r_p),
    samples=cases(
        ((far_apart, (3, 3)), {"complete": False}), ((far_apart, (4, 2)), {"complete": False}),
        ((far_apart, (2, 4)), {"complete": False}), ((far_apart, (2, 3, 2)), {"complete": True}),
        ((far_apart, (2, 3)), {"complete": True}), ((far_apart, (1, 1)), {"complete": False}),
        (np.zeros((0, 2)), {"complete": False}), (np.zeros((2, 0)), {"complete": False}),
        (np.zeros((2, 0)), {"complete": True}), (np.zeros((0, 2, 2)), {"complete": True}),
        ((far_apart, (2, 9, 7)), {"complete": False}),
    ),
)  # fmt: skip

r_p: Primitive = of_matrices(
    "r_of_qr",
    **decomposed_forms("r", of_any_size=True, parts=by_lapack("r_of_qr")),
    infer=lambda a: _infer_qr(a, complete=False)[1],
    numpy=lambda a: np.linalg.qr(a, "r"),
    jvp=_jvp_r,
    samples=stacks(far_apart, (3, 3), (4, 2), (2, 2, 4), (1, 1), (0, 2), (2, 9, 7)),
)

# -- an order of the columns -----------------------------------------------------------------------


def _pivots(a: Any) -> Any:
    order = np.zeros((*a.shape[:-2], a.shape[-1]), np.int32)
    order[...] = np.arange(a.shape[-1])
    return filled_by_matrix(lambda x: _scipy_qr(x, mode="r", pivoting=True)[1], [a], order)


pivots_p: Primitive = of_matrices(
    "pivots_of_qr",
    infer=lambda a: a.update(shape=(*a.shape[:-2], a.shape[-1]), dtype=np.dtype(np.int32)),
    numpy=_pivots,
    jvp=ZERO_DERIVATIVE,
    samples=stacks(far_apart, (3, 3), (2, 2, 4), (0, 2)),
)
"""The column permutation of pivoted QR, for which the diagonal of R does not grow."""
