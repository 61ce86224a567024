"""Balanced matrices ``T^-1 A T``: T exchanges rows and scales them by powers of 2.

T is piecewise constant, so the matrices depend on A linearly wherever they are differentiable
(Parlett and Reinsch, "Balancing a matrix for calculation of eigenvalues and eigenvectors", 1969).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval, real_dtype
from functrans.lazily import lazy
from functrans.ops.arrays.structural import cast
from functrans.ops.linalg.lu import rows_in_order
from functrans.ops.linalg.matrices import (
    INDEX,
    check_square,
    far_apart,
    filled_by_matrix,
    of_matrices,
    on_columns,
    on_rows,
    transposed,
)
from functrans.ops.samples import cases

_scipy_balance = lazy("scipy.linalg:matrix_balance")

SCALE = np.dtype(np.float64)


def _infer_balance(a: Aval, **params: bool) -> tuple[Aval, Aval, Aval]:
    check_square(a, "matrix_balance")
    vector = a.update(shape=a.shape[:-1], dtype=SCALE)
    return a.update(), vector, vector.update(dtype=INDEX)


def _balance(a: Any, *, permuted: bool, scaled: bool) -> Any:
    def of_one(x: Any) -> Any:
        balanced, (scales, order) = _scipy_balance(x, permuted, scaled, 1)
        return balanced, scales, order

    scales, order = np.empty(a.shape[:-1], SCALE), np.empty(a.shape[:-1], INDEX)
    return filled_by_matrix(of_one, [a], np.empty_like(a), scales, order)


def _jvp_balance(primals: Any, tangents: Any, outs: Any, **params: bool) -> tuple[Any, None, None]:
    (da,), (_, scales, order) = tangents, outs
    factors = cast(scales, dtype=real_dtype(da.dtype))
    moved = rows_in_order(transposed(rows_in_order(da, order)), order)
    return transposed(moved) * on_columns(factors) / on_rows(factors), None, None


def _how(permuted: bool, scaled: bool) -> dict[str, bool]:
    return {"permuted": permuted, "scaled": scaled}


_UNEVEN = np.array([[1.0, 200.0, 0.1], [0.5, 3.0, 0.2], [900.0, 7.0, 2.0]])

balance_p: Primitive = of_matrices(
    "matrix_balance",
    infer=_infer_balance,
    numpy=_balance,
    several=True,
    jvp=_jvp_balance,
    samples=cases(
        (_UNEVEN, _how(True, True)), (_UNEVEN, _how(False, True)), (_UNEVEN, _how(True, False)),
        ((far_apart, (2, 3, 3)), _how(True, True)), (np.zeros((0, 0)), _how(True, True)),
    ),
)  # fmt: skip
