"""The derivative of the Cholesky factor, and its transpose, as solutions of linear equations.

From ``A = L L^T`` follows ``dA = dL L^T + L dL^T``, which determines the lower triangular ``dL``.
The transposed equation determines the cotangent of ``A``. Both are solved as in Murray,
"Differentiation of the Cholesky decomposition" (2016); a derivative of a solution is the solution
of such an equation again, with another right-hand side.

Only the lower triangle of ``A`` is read, each of whose elements represents two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrans.caches import cached
from functrans.errors import DtypeError
from functrans.ir.evaluate import evaluate
from functrans.ir.graph import Graph
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval, is_complex
from functrans.lazily import lazy
from functrans.ops.control.linear_solve import Solver
from functrans.ops.define import primitive
from functrans.ops.dependence import along
from functrans.ops.elementwise.arithmetic import negative
from functrans.ops.linalg.factorisations import triangular_solve
from functrans.ops.linalg.matrices import (
    adjoint,
    batch_together,
    compiled,
    hermitian,
    on_grid,
    promoted,
    regular,
    transposed,
    triangle,
)
from functrans.ops.linalg.products import matmul
from functrans.ops.samples import cases
from functrans.trace.stage import rewrite

_LOWER = {"lower": True, "transpose_a": False, "unit_diagonal": False}
_TRANSPOSED = {**_LOWER, "transpose_a": True}


SMALL = 32
"""The most rows for which the transposed substitutions are as fast as a separate primitive, and
fuse with other operations."""


def tangent(factor: Any, da: Any) -> Any:
    """The tangent of a factor: the solution of the equation."""
    if is_complex(factor.dtype) or factor.shape[-1] <= SMALL:
        return tangent_by_substitution(factor, da)
    (solution,) = _equation(factor.shape, factor.dtype).bind([factor], [da])
    return solution


def tangent_by_substitution(factor: Any, da: Any) -> Any:
    """Murray's equation 8: L times the lower half of inv(L) dA inv(L)^H."""
    half = triangular_solve(factor, hermitian(da, lower=True), **_LOWER)
    whole = triangular_solve(factor, adjoint(half), **_LOWER)
    diagonal_counts_half = triangle(whole, lower=True) + triangle(
        whole, lower=True, unit_diagonal=True
    )
    return matmul(factor, diagonal_counts_half * 0.5)


def cotangent_by_substitution(factor: Any, ct: Any) -> Any:
    """The transpose of Murray's equation 8."""
    lower = triangle(factor, lower=True)
    inner = hermitian(matmul(transposed(lower), triangle(ct, lower=True)), lower=True)
    half = triangular_solve(lower, inner, **_TRANSPOSED)
    whole = triangular_solve(lower, transposed(half), **_TRANSPOSED)
    return (triangle(whole, lower=True) + triangle(whole, lower=True, unit_diagonal=True)) * 0.5


def _sum_of_both(factor: Any, x: Any) -> Any:
    """The lower triangle of dA, from dL."""
    x = matmul(x, transposed(factor))
    return triangle(x + transposed(x), lower=True)


def _both_times(factor: Any, ct: Any) -> Any:
    """The transpose of `_sum_of_both`."""
    ct = triangle(ct, lower=True)
    return triangle(matmul(ct + transposed(ct), factor), lower=True)


@cached(64)
def _equation(shape: tuple[int, ...], dtype: Any) -> Solver:
    """The equation of the tangent, and its transpose."""
    transpose = _graph(_both_times, shape, dtype), _graph(cotangent_p, shape, dtype)
    matvec, solve = (_graph(f, shape, dtype) for f in (_sum_of_both, tangent_by_substitution))
    return Solver(matvec, solve, transpose, 1)


@cached(256)
def _graph(function: Callable[..., Any], shape: tuple[int, ...], dtype: Any) -> Graph:
    """The graph of a function of two matrices."""
    avals: Sequence[Aval] = (Aval(shape, dtype), Aval(shape, dtype))
    return rewrite(lambda *operands: [function(*operands)], avals)


def _infer(factor: Aval, ct: Aval) -> Aval:
    if is_complex(ct.dtype):
        raise DtypeError(
            f"cholesky_cotangent takes real matrices, not {ct.dtype}: use cotangent_by_substitution"
        )
    return ct.update()


def _cotangent(factor: Any, ct: Any) -> Any:
    (found,) = evaluate(_graph(cotangent_by_substitution, ct.shape, ct.dtype), [factor, ct])
    return found


def _cotangent_moved(factor: Any, ct: Any, out: Any, moved: Any) -> Any:
    both = out + transposed(out)
    return negative(cotangent_p(factor, matmul(both, triangle(moved, lower=True))))


cotangent_p: Primitive = primitive(
    "cholesky_cotangent",
    infer=_infer,
    numpy=_cotangent,
    jvp=[_cotangent_moved, lambda factor, ct, out, moved: cotangent_p(factor, moved)],
    linear=((1,),),
    sparsity=lambda factor, ct: along(ct, ct.aval, ct.aval.ndim - 2, ct.aval.ndim - 1),
    transpose=[None, lambda ct, factor, _: tangent(triangle(factor, lower=True), ct)],
    batch=lambda *args: batch_together(cotangent_p, *args),
    emit=compiled(
        lazy("functrans.ops.linalg.compiled.matrices:cholesky_cotangent"), lambda limits: 0
    ),
    emit_on_grid=on_grid(
        lazy("functrans.ops.linalg.compiled.composed:cholesky_cotangent"), of_nothing=True
    ),
    prepare=promoted,
    samples=cases(
        ((regular, (3, 3)), (3, 3), {}), ((regular, (2, 2, 2)), (2, 2, 2), {}),
        ((regular, (1, 1)), (1, 1), {}), ((regular, (20, 20)), (20, 20), {}),
        ((regular, (2, 9, 9)), (2, 9, 9), {}),
    ),
)  # fmt: skip
"""The lower triangle of the cotangent of ``A``, from that of the factor."""
