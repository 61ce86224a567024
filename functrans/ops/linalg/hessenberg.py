"""Hessenberg form ``A = Q H Q^H``, its derivatives by the recurrence of its columns.

The first column of Q is fixed, and H stays zero below the first subdiagonal. So, with ``dQ = Q X``,
each column of X follows from the previous ones, as the columns of Q do (the implicit Q theorem;
Golub and Van Loan, "Matrix Computations", 2013, section 7.4.5).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from functrans.ir.primitive import Primitive
from functrans.ir.types import is_complex
from functrans.lazily import lazy
from functrans.ops.arrays.structural import broadcast_to, cast, iota, reshape, zeros
from functrans.ops.elementwise.choice import absolute, masked
from functrans.ops.elementwise.compare import equal, greater, greater_equal
from functrans.ops.linalg.matrices import (
    INDEX,
    adjoint,
    columns_of,
    filled_by_matrix,
    of_matrices,
    product,
    reciprocal_where_apart,
    regular,
    rows_of,
    same_square,
)
from functrans.ops.reductions.reduce import reduce_max
from functrans.ops.samples import stacks

_scipy_hessenberg = lazy("scipy.linalg:hessenberg")


def _hessenberg(a: Any) -> Any:
    of_one = partial(_scipy_hessenberg, calc_q=True)
    return filled_by_matrix(of_one, [a], np.empty_like(a), np.empty_like(a))


def _jvp_hessenberg(primals: Any, tangents: Any, outs: Any) -> tuple[Any, Any]:
    (da,), (h, q) = tangents, outs
    n = h.shape[-1]
    rows = reshape(iota(size=n, dtype=INDEX), shape=(n, 1))
    moved = product(adjoint(q), da, q)
    turn = zeros(h.shape, h.dtype)
    # 2x2 matrices are unchanged; larger complex ones have a real subdiagonal
    last = 0 if n <= 2 else n - 1 if is_complex(h.dtype) else n - 2
    for j in range(last):
        before, column = columns_of(turn, j, j + 1), columns_of(h, j, j + 1)
        gap = columns_of(moved, j, j + 1) + product(h, before) - product(turn, column)
        gap = gap * reciprocal_where_apart(rows_of(column, j + 1, j + 2), _rounding(h))
        below = masked(broadcast_to(greater(rows, j + 1), shape=gap.shape), gap)
        beside = below * _unit(j + 1, h)
        turn = turn + beside - adjoint(beside)
        if is_complex(h.dtype):
            phase = masked(broadcast_to(equal(rows, j + 1), shape=gap.shape), gap) * _unit(j + 1, h)
            turn = turn + (phase - adjoint(phase)) * 0.5
    dh = moved + product(h, turn) - product(turn, h)
    inside = greater_equal(iota(size=n, dtype=INDEX) + 1, rows)
    return masked(broadcast_to(inside, shape=dh.shape), dh), product(q, turn)


def _unit(j: int, like: Any) -> Any:
    """The j-th unit row vector."""
    return cast(equal(iota(size=like.shape[-1], dtype=INDEX), j), dtype=like.dtype)


def _rounding(x: Any) -> Any:
    """The size of rounding errors in matrices, with unit axes."""
    largest = reduce_max(absolute(x), axes=(x.ndim - 2, x.ndim - 1))
    noise = largest * (x.shape[-1] * float(np.finfo(x.dtype).eps))
    return reshape(noise, shape=(*x.shape[:-2], 1, 1))


hessenberg_p: Primitive = of_matrices(
    "hessenberg",
    infer=same_square("hessenberg", 2),
    numpy=_hessenberg,
    several=True,
    jvp=_jvp_hessenberg,
    samples=stacks(regular, (4, 4), (2, 3, 3), (2, 2), (1, 1), (0, 0), (7, 7)),
)
