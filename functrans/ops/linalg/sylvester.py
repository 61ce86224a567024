"""Sylvester's equation ``A X + X B = Q``, by Schur factors; and functions differentiated by it.

The equation is linear in X, so a derivative of its solution is the solution of another one. So are
those of square roots, ``X dX + dX X = dA`` (Higham, "Functions of Matrices", 2008, section 6.1),
and of the polar factors of a matrix, ``A = U P`` with ``P`` positive definite.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.ops.define import primitive
from functrans.ops.dependence import along
from functrans.ops.linalg.factorisations import solve_p
from functrans.ops.linalg.matrices import (
    adjoint,
    batch_together,
    check_square,
    far_apart,
    filled_by_matrix,
    of_matrices,
    positive_definite,
    product,
    promoted,
    real_of_real,
    same_square,
    transposed,
)
from functrans.ops.samples import cases

_solve_sylvester = lazy("scipy.linalg:solve_sylvester")
_sqrtm = lazy("scipy.linalg:sqrtm")

# -- the equation ----------------------------------------------------------------------------------


def _infer_sylvester(a: Aval, b: Aval, q: Aval) -> Aval:
    check_square(a, "solve_sylvester")
    check_square(b, "solve_sylvester")
    wanted = (*a.shape[:-2], a.shape[-1], b.shape[-1])
    if q.shape != wanted or a.shape[:-2] != b.shape[:-2]:
        raise ShapeError(
            f"solve_sylvester takes a right-hand side of shape {wanted} for matrices of shapes "
            f"{a.shape} and {b.shape}, not {q.shape}"
        )
    return q.update()


def _jvp_sylvester(primals: Any, tangents: Any, outs: Any) -> Any:
    (a, b, _), (da, db, dq), (x,) = primals, tangents, outs
    right = dq
    for moved in (da if da is None else product(da, x), db if db is None else product(x, db)):
        if moved is not None:
            right = -moved if right is None else right - moved
    return sylvester_p(a, b, right)


sylvester_p: Primitive = primitive(
    "solve_sylvester",
    infer=_infer_sylvester,
    numpy=lambda a, b, q: filled_by_matrix(_solve_sylvester, [a, b, q], np.zeros_like(q)),
    jvp=_jvp_sylvester,
    linear=((2,),),
    sparsity=lambda a, b, q: along(q, q.aval, q.aval.ndim - 2, q.aval.ndim - 1),
    transpose=[None, None, lambda ct, a, b, q: sylvester_p(transposed(a), transposed(b), ct)],
    batch=lambda *args: batch_together(sylvester_p, *args),
    prepare=promoted,
    samples=cases(
        ((far_apart, (3, 3)), (far_apart, (2, 2)), (3, 2), {}),
        ((far_apart, (2, 2, 2)), (far_apart, (2, 2, 2)), (2, 2, 2), {}),
        (np.zeros((0, 0)), (far_apart, (2, 2)), (0, 2), {}),
    ),
)  # fmt: skip

# -- square roots ----------------------------------------------------------------------------------


def _square_root(a: Any) -> Any:
    return filled_by_matrix(
        lambda x: real_of_real(_sqrtm(x), x, "square root"), [a], np.zeros_like(a)
    )


sqrtm_p: Primitive = of_matrices(
    "sqrtm",
    infer=same_square("sqrtm"),
    numpy=_square_root,
    jvp=[lambda a, out, da: sylvester_p(out, out, da)],
    samples=cases(
        ((far_apart, (3, 3)), {}), ((positive_definite, (2, 2, 2)), {}), ((far_apart, (1, 1)), {}),
        (np.zeros((0, 0)), {}),
    ),
)  # fmt: skip

# -- polar factors ---------------------------------------------------------------------------------


def _infer_polar(a: Aval) -> tuple[Aval, Aval]:
    if a.ndim < 2 or a.shape[-2] < a.shape[-1]:
        raise ShapeError(
            f"polar takes matrices with no more columns than rows, not of shape {a.shape}"
        )
    return a.update(), a.update(shape=(*a.shape[:-2], a.shape[-1], a.shape[-1]))


def _polar(a: Any) -> tuple[Any, Any]:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return u @ vh, (np.swapaxes(vh.conj(), -1, -2) * s[..., None, :]) @ vh


def _jvp_polar(primals: Any, tangents: Any, outs: Any) -> tuple[Any, Any]:
    """The skew part of ``U^H dA`` rotates ``U``, by the solution ``W`` of ``P W + W P``."""
    (da,), (u, p) = tangents, outs
    inner = product(adjoint(u), da)
    turn = sylvester_p(p, p, inner - adjoint(inner))
    du = product(u, turn)
    if da.shape[-2] > da.shape[-1]:
        out = da - product(u, inner)
        du = du + adjoint(solve_p(p, adjoint(out), transpose_a=False))
    return du, inner - product(turn, p)


polar_p: Primitive = of_matrices(
    "polar",
    infer=_infer_polar,
    numpy=_polar,
    several=True,
    jvp=_jvp_polar,
    samples=cases(
        ((far_apart, (3, 3)), {}), ((far_apart, (2, 3, 2)), {}), ((far_apart, (1, 1)), {}),
        (np.zeros((0, 0)), {}), (np.diag([2.0, 2.0, -2.0]), {}),
    ),
)  # fmt: skip
