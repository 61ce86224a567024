"""LU factors with row exchanges, their derivatives by splitting ``L^-1 P dA U^-1`` into triangles.

The rule is that of Walter and Lehmann, "Algorithmic differentiation of linear algebra functions
with application in optimum experimental design" (2010), extended to matrices that are not square.
The order of the rows is piecewise constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.ops.arrays.structural import broadcast_to, expand_axes, iota, reduce_sum
from functrans.ops.elementwise.choice import masked
from functrans.ops.elementwise.compare import equal
from functrans.ops.indexing.gather import gather_along
from functrans.ops.linalg.factorisations import triangular_solve
from functrans.ops.linalg.matrices import (
    above,
    beside,
    by_lapack,
    check_matrices,
    columns_of,
    decomposed,
    far_apart,
    filled_by_matrix,
    of_matrices,
    on_columns,
    on_grid,
    on_rows,
    product,
    rows_of,
    transposed,
    triangle,
)
from functrans.ops.samples import cases

_lu_factor = lazy("scipy.linalg:lu_factor")

PIVOT = np.dtype(np.int32)


def _infer_lu(a: Aval) -> tuple[Aval, Aval, Aval]:
    check_matrices(a, "lu")
    *leading, m, n = a.shape
    pivots = a.update(shape=(*leading, min(m, n)), dtype=PIVOT)
    return a.update(), pivots, a.update(shape=(*leading, m), dtype=PIVOT)


def _lu(a: Any) -> Any:
    """Both factors in one matrix, the row exchanges, and the resulting permutation."""
    *leading, m, n = a.shape

    def of_one(x: Any) -> Any:
        factors, pivots = _lu_factor(x, check_finite=False)
        order = np.arange(m)
        for i, other in enumerate(pivots):
            order[[i, other]] = order[[other, i]]
        return factors, pivots, order

    pivots = np.empty((*leading, min(m, n)), PIVOT)
    order = np.empty((*leading, m), PIVOT)
    order[...] = np.arange(m)
    return filled_by_matrix(of_one, [a], np.array(a), pivots, order)


def rows_in_order(x: Any, order: Any) -> Any:
    """The rows of matrices in a given order."""
    every = broadcast_to(on_rows(order), shape=x.shape)
    return gather_along(x, every, x.ndim - 2)


def places_in(order: Any) -> Any:
    """The inverse of a permutation: the new position of each row."""
    size, last = order.shape[-1], order.ndim - 1
    rows = iota(size=size, dtype=order.dtype)
    found = equal(on_columns(order), expand_axes(rows, (1,)))
    every = broadcast_to(rows, shape=found.shape)
    return reduce_sum(masked(found, every), axes=(last + 1,))


def solved_from_left(a: Any, x: Any, *, lower: bool, unit_diagonal: bool) -> Any:
    """``a^-1 x`` for triangles."""
    return triangular_solve(a, x, lower=lower, transpose_a=False, unit_diagonal=unit_diagonal)


def solved_from_right(x: Any, a: Any) -> Any:
    """``x a^-1`` for upper triangles."""
    options = {"lower": False, "transpose_a": True, "unit_diagonal": False}
    return transposed(triangular_solve(a, transposed(x), **options))


def _jvp_lu(primals: Any, tangents: Any, outs: Any) -> tuple[Any, None, None]:
    (da,), (factors, _, order) = tangents, outs
    m, n = da.shape[-2:]
    k = min(m, n)
    moved = rows_in_order(da, order)
    square = columns_of(rows_of(factors, 0, k), 0, k)
    corner = columns_of(rows_of(moved, 0, k), 0, k)

    inner = solved_from_left(square, corner, lower=True, unit_diagonal=True)
    inner = solved_from_right(inner, square)
    below = triangle(inner, lower=True, unit_diagonal=True)
    strict = triangle(square, lower=True, unit_diagonal=True)
    d_lower = product(strict, below) + below
    d_upper = product(triangle(inner, lower=False), triangle(square, lower=False))
    change = d_lower + d_upper
    if m > k:
        rest = rows_of(moved, k, m) - product(rows_of(factors, k, m), d_upper)
        change = above(change, solved_from_right(rest, square))
    if n > k:
        rest = columns_of(moved, k, n) - product(d_lower, columns_of(factors, k, n))
        change = beside(change, solved_from_left(square, rest, lower=True, unit_diagonal=True))
    return change, None, None


lu_p: Primitive = of_matrices(
    "lu",
    emit=decomposed(lazy("functrans.ops.linalg.compiled.in_parts:lu"), of_any_size=True),
    parts=by_lapack("lu"),
    emit_on_grid=on_grid(lazy("functrans.ops.linalg.compiled.grid.matrices:lu")),
    infer=_infer_lu,
    numpy=_lu,
    several=True,
    jvp=_jvp_lu,
    samples=cases(
        ((far_apart, (3, 3)), {}), ((far_apart, (4, 2)), {}), ((far_apart, (2, 2, 4)), {}),
        ((far_apart, (1, 1)), {}), (np.zeros((0, 2)), {}), (np.zeros((2, 0)), {}),
        (np.array([[0.1, 2.0, 1.0], [3.0, 0.5, 1.0], [1.0, 1.0, 4.0]]), {}),
        ((far_apart, (2, 9, 9)), {}),
    ),
)  # fmt: skip
