"""Factors ``A = L D L^H`` of matrices that need not be definite, with blocks of one and two on D.

With ``L^-1 dL = W``, which is zero on and above the blocks of D, ``W D + dD + D W^H`` is equal to
``L^-1 dA L^-H``, whose parts below the blocks and on them give ``W`` and ``dD``. The order of the
rows and the sizes of the blocks are piecewise constant (Bunch and Kaufman, "Some stable methods for
calculating inertia and solving symmetric linear systems", 1977).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.ops.linalg.blocks import below, blocks, within
from functrans.ops.linalg.factorisations import solve_p
from functrans.ops.linalg.lu import rows_in_order, solved_from_left
from functrans.ops.linalg.matrices import (
    INDEX,
    adjoint,
    check_square,
    far_apart,
    filled_by_matrix,
    of_matrices,
    positive_definite,
    product,
    transposed,
    triangle,
)
from functrans.ops.linalg.matrices import hermitian as hermitian_of
from functrans.ops.samples import cases

_scipy_ldl = lazy("scipy.linalg:ldl")


def _infer_ldl(a: Aval, *, lower: bool, hermitian: bool) -> tuple[Aval, Aval, Aval]:
    check_square(a, "ldl")
    return a.update(), a.update(), a.update(shape=a.shape[:-1], dtype=INDEX)


def _ldl(a: Any, **params: bool) -> Any:
    of_one, order = partial(_scipy_ldl, **params), np.empty(a.shape[:-1], INDEX)
    return filled_by_matrix(of_one, [a], np.empty_like(a), np.empty_like(a), order)


def _jvp_ldl(
    primals: Any, tangents: Any, outs: Any, *, lower: bool, hermitian: bool
) -> tuple[Any, Any, None]:
    (da,), (factor, middle, order) = tangents, outs
    turned = adjoint if hermitian else transposed
    if hermitian:
        whole = hermitian_of(da, lower=lower)
    else:
        strict = triangle(da, lower=lower, unit_diagonal=True)
        whole = triangle(da, lower=lower) + transposed(strict)
    ordered = rows_in_order(factor, order)
    half = _solved(ordered, rows_in_order(whole, order), lower)
    inner = turned(_solved(ordered, rows_in_order(turned(half), order), lower))

    block = blocks(middle)
    # the part above the blocks of a matrix is below those of its transpose
    outside = below(inner, block) if lower else transposed(below(transposed(inner), block))
    change = transposed(solve_p(transposed(middle), transposed(outside), transpose_a=False))
    return product(factor, change), within(inner, block), None


def _solved(triangular: Any, x: Any, lower: bool) -> Any:
    return solved_from_left(triangular, x, lower=lower, unit_diagonal=True)


def _which(lower: bool, hermitian: bool = True) -> dict[str, bool]:
    return {"lower": lower, "hermitian": hermitian}


ldl_p: Primitive = of_matrices(
    "ldl",
    infer=_infer_ldl,
    numpy=_ldl,
    several=True,
    jvp=_jvp_ldl,
    samples=cases(
        ((positive_definite, (3, 3)), _which(True)), ((far_apart, (2, 3, 3)), _which(False)),
        (np.array([[0.0, 2.0, 1.0], [2.0, 0.0, 3.0], [1.0, 3.0, 0.5]]), _which(True, False)),
        (np.array([[0.1, 2.0, 1.0], [2.0, 0.2, 3.0], [1.0, 3.0, 0.5]]), _which(False)),
        ((far_apart, (1, 1)), _which(True)), (np.zeros((0, 0)), _which(True)),
        ((far_apart, (7, 7)), _which(True)),
    ),
)  # fmt: skip
