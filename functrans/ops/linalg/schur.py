"""Schur form ``A = Q T Q^H``, its derivatives by the part of ``Q^H dA Q`` where T is zero.

With ``dQ = Q X`` and skew X, ``Q^H dA Q = dT + X T - T X``. Below the blocks on the diagonal of T,
``dT`` is zero, and only the part of X below the blocks contributes: a Sylvester equation, which is
solved column by column, since T is triangular. For this, the blocks of two of a real T (for complex
eigenvalues) are made triangular by complex rotations. LAPACK keeps the two diagonal elements of
such a block equal, which determines the rotation of its two vectors.

For triangular T see Higham, "Functions of Matrices", 2008, section 9.2, whose recurrence solves
equations of the same form. The vectors of equal eigenvalues (up to rounding) are not determined
within their space, and are not rotated there; nor are the phases of complex vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.primitive import Primitive
from functrans.ir.types import is_complex
from functrans.lazily import lazy
from functrans.ops.arrays.structural import reduce_sum, zeros
from functrans.ops.elementwise.choice import absolute, masked, select
from functrans.ops.elementwise.compare import equal, greater
from functrans.ops.elementwise.complex_numbers import complex_p, real
from functrans.ops.elementwise.logic import logical_and, logical_not
from functrans.ops.elementwise.power import sqrt
from functrans.ops.linalg.blocks import below, blocks, diagonal, on_diagonal
from functrans.ops.linalg.lu import solved_from_left
from functrans.ops.linalg.matrices import (
    above,
    adjoint,
    beside,
    by_lapack,
    columns_of,
    decomposed,
    far_apart,
    filled_by_matrix,
    identity,
    of_matrices,
    on_columns,
    on_rows,
    product,
    reciprocal_where_apart,
    rounding,
    rows_of,
    same_square,
    transposed,
    triangle,
)
from functrans.ops.samples import cases

_scipy_schur = lazy("scipy.linalg:schur")


def _jvp_schur(primals: Any, tangents: Any, outs: Any) -> tuple[Any, Any]:
    (da,), (t, q) = tangents, outs
    moved, block = product(adjoint(q), da, q), blocks(t)
    if is_complex(t.dtype):
        outside = _below_of_turn(t, moved)
    else:
        rotation = _to_triangle(t)
        upper = triangle(product(adjoint(rotation), t, rotation), lower=False)
        turned = _below_of_turn(upper, product(adjoint(rotation), moved, rotation))
        outside = below(real(product(rotation, turned, adjoint(rotation))), block)
    turn = outside - adjoint(outside)
    change = _change(t, moved, turn)
    if not is_complex(t.dtype):
        turn = turn + _within_pairs(t, change)
        change = _change(t, moved, turn)
    return change - below(change, block), product(q, turn)


def _change(t: Any, moved: Any, turn: Any) -> Any:
    return moved - product(turn, t) + product(t, turn)


def _below_of_turn(t: Any, moved: Any) -> Any:
    """The strictly lower L with ``L T - T L`` equal to ``moved`` below the diagonal."""
    n = t.shape[-1]
    values = diagonal(t)
    noise, far = rounding(values), float(np.sqrt(np.finfo(t.dtype).max))
    columns: list[Any] = []
    for j in range(n - 1):
        right = columns_of(moved, j, j + 1)
        if columns:
            right = right - product(beside(*columns), rows_of(columns_of(t, j, j + 1), 0, j))
        gaps = values[..., j : j + 1] - values[..., j + 1 :]
        gaps = select(greater(absolute(gaps), noise), gaps, far)
        corner = rows_of(columns_of(t, j + 1, n), j + 1, n)
        others = triangle(corner, lower=False, unit_diagonal=True)
        system = on_diagonal(gaps, others) - others
        column = solved_from_left(
            system, rows_of(right, j + 1, n), lower=False, unit_diagonal=False
        )
        columns.append(above(zeros((*t.shape[:-2], j + 1, 1), t.dtype), column))
    return beside(*columns, zeros((*t.shape[:-1], 1), t.dtype)) if n else moved


def _to_triangle(t: Any) -> Any:
    """The unitary matrix that makes blocks of two ``[[a, b], [c, a]]`` triangular.

    On a block it is ``[[b, i w], [i w, b]]`` divided by its length, with ``w^2 = - b c``.
    """
    pair = _pairs(t)
    upper = masked(pair, triangle(t, lower=False))
    b = select(pair, upper + transposed(upper), 1)
    w = sqrt(select(pair, -t * transposed(t), 1))
    length = sqrt(b * b + w * w)
    straight = 1 + reduce_sum(masked(pair, b / length - 1), axes=(t.ndim - 1,))
    return complex_p(on_diagonal(straight, t), masked(pair, w / length))


def _pairs(t: Any) -> Any:
    """The off-diagonal positions of blocks of two."""
    block = blocks(t)
    of_one_block = equal(on_rows(block), on_columns(block))
    return logical_and(of_one_block, logical_not(identity(t.shape[-1], np.bool_)))


def _within_pairs(t: Any, change: Any) -> Any:
    """The rotation of the vectors of blocks of two that keeps their diagonal elements equal."""
    values = diagonal(change)
    gap, both = on_rows(values) - on_columns(values), 2 * (t + transposed(t))
    noise = on_rows(rounding(diagonal(t)))
    return masked(_pairs(t), gap * reciprocal_where_apart(both, noise))


schur_p: Primitive = of_matrices(
    "schur",
    emit=decomposed(lazy("functrans.ops.linalg.compiled.in_parts:schur"), of_any_size=True),
    emit_on_grid=None,
    parts=by_lapack("schur"),
    infer=same_square("schur", 2),
    numpy=lambda a: filled_by_matrix(_scipy_schur, [a], np.empty_like(a), np.empty_like(a)),
    several=True,
    jvp=_jvp_schur,
    samples=cases(
        ((far_apart, (3, 3)), {}), ((far_apart, (2, 2, 2)), {}), ((far_apart, (1, 1)), {}),
        (np.zeros((0, 0)), {}),
        (np.array([[1.0, -2.0, 0.0], [1.5, 1.0, 0.3], [0.2, 0.0, 4.0]]), {}),
        (np.array([[1.0, -2.0, 0.3, 0.1], [1.5, 1.0, 0.3, -0.4], [0.2, 0.1, 3.0, 2.0],
                   [0.1, -0.2, -3.0, 2.5]]), {}),
    ),
)  # fmt: skip
