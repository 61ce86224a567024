"""Linear algebra on the matrices along the last two axes: factors, solutions, determinants.

The derivatives follow Giles, "An extended collection of matrix derivative results for forward and
reverse mode algorithmic differentiation" (2008). The rules are written in primitives, so they are
differentiable themselves.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval, is_complex, real_dtype
from functrans.lazily import lazy
from functrans.ops.arrays import structural
from functrans.ops.arrays.shape import asarray, flip, roll
from functrans.ops.compiled.pairs import Composition
from functrans.ops.define import primitive
from functrans.ops.dependence import Dependent, Pattern, along
from functrans.ops.elementwise.arithmetic import multiply, negative
from functrans.ops.elementwise.complex_numbers import complex_p, conj, imag, real
from functrans.ops.linalg.matrices import (
    adjoint,
    batch_by_columns,
    broadcast_leading,
    check_right_sides,
    check_square,
    compiled_forms,
    identity,
    inner,
    near_identity,
    of_matrices,
    positive_definite,
    promoted,
    regular,
    same_square,
    transposed,
    triangle,
)
from functrans.ops.linalg.products import matmul
from functrans.ops.samples import SQUARES, cases, stacks
from functrans.trace.source import here

_scipy_solve_triangular = lazy("scipy.linalg:solve_triangular")

# -- solving ---------------------------------------------------------------------------------------


def _sparsity_of_solution(a: Dependent, b: Dependent, **params: Any) -> Pattern | None:
    """The sparsity pattern: each solution depends on all of its own right-hand side."""
    return along(b, b.aval, b.aval.ndim - 2)


def _solution(a: Aval, b: Aval) -> Aval:
    check_square(a, "solve")
    check_right_sides(a, b, "solve")
    return b.update()


def _tangent_of_solve(a: Any, b: Any, out: Any, da: Any, *, transpose_a: bool) -> Any:
    residual = matmul(transposed(da) if transpose_a else da, out)
    # negative before it is solved for: the transpose then solves for the cotangent itself, as that
    # of the tangent of `b` does, and one solution serves both
    return solve_p(a, negative(residual), transpose_a=transpose_a)


def _of(transpose_a: bool) -> dict[str, bool]:
    return {"transpose_a": transpose_a}


solve_p: Primitive = primitive(
    "solve",
    infer=lambda a, b, *, transpose_a: _solution(a, b),
    numpy=lambda a, b, *, transpose_a: np.linalg.solve(a.mT if transpose_a else a, b),
    jvp=[_tangent_of_solve, lambda a, b, out, db, **params: solve_p(a, db, **params)],
    linear=((1,),),
    quotient=0,
    # the same matrix, so that one elimination serves both
    sparsity=_sparsity_of_solution,
    transpose=[None, lambda ct, a, b, *, transpose_a: solve_p(a, ct, transpose_a=not transpose_a)],
    batch=lambda *args, **params: batch_by_columns(solve_p, *args, **params),
    **compiled_forms("solve"),
    prepare=promoted,
    samples=cases(
        ((regular, (3, 3)), (3, 2), _of(False)), ((regular, (2, 3, 3)), (2, 3, 1), _of(True)),
        ((regular, (1, 1)), (1, 1), _of(False)), (np.zeros((0, 0)), np.zeros((0, 2)), _of(True)),
        ((regular, (5, 5)), (5, 20), _of(False)), ((regular, (5, 5)), (5, 20), _of(True)),
        ((near_identity, (20, 20)), (20, 3), _of(False)),
        ((near_identity, (2, 9, 9)), (2, 9, 1), _of(False)),
        ((near_identity, (2, 9, 9)), (2, 9, 2), _of(True)),
    ),
)  # fmt: skip


def _solve_triangular(
    a: Any, b: Any, *, lower: bool, transpose_a: bool, unit_diagonal: bool
) -> Any:
    if b.size and not unit_diagonal and not np.diagonal(a, axis1=-2, axis2=-1).all():
        raise np.linalg.LinAlgError("Singular matrix")
    if a.ndim == 2 and b.size:
        return _scipy_solve_triangular(
            a, b, trans=int(transpose_a), lower=lower, unit_diagonal=unit_diagonal,
            check_finite=False,
        )  # fmt: skip
    a = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        i = np.arange(a.shape[-1])
        a[..., i, i] = 1
    return np.linalg.solve(transposed(a) if transpose_a else a, b)


def _tangent_of_triangular_solve(
    a: Any, b: Any, out: Any, da: Any, *, lower: bool, transpose_a: bool, unit_diagonal: bool
) -> Any:
    moved = triangle(da, lower=lower, unit_diagonal=unit_diagonal)
    residual = negative(matmul(transposed(moved) if transpose_a else moved, out))  # as for `solve`
    return triangular_solve(
        a, residual, lower=lower, transpose_a=transpose_a, unit_diagonal=unit_diagonal
    )


def _options(lower: bool, transpose_a: bool = False, unit_diagonal: bool = False) -> Any:
    return {"lower": lower, "transpose_a": transpose_a, "unit_diagonal": unit_diagonal}


triangular_solve: Primitive = primitive(
    "triangular_solve",
    infer=lambda a, b, *, lower, transpose_a, unit_diagonal: _solution(a, b),
    numpy=_solve_triangular,
    jvp=[
        _tangent_of_triangular_solve,
        lambda a, b, out, db, **params: triangular_solve(a, db, **params),
    ],
    quotient=0,
    sparsity=_sparsity_of_solution,
    linear=((1,),),
    transpose=[
        None,
        lambda ct, a, b, *, transpose_a, **params: triangular_solve(
            a, ct, transpose_a=not transpose_a, **params
        ),
    ],
    batch=lambda *args, **params: batch_by_columns(triangular_solve, *args, **params),
    **compiled_forms("triangular_solve"),
    prepare=promoted,
    samples=cases(
        ((regular, (3, 3)), (3, 2), _options(True)),
        ((regular, (3, 3)), (3, 2), _options(False, True)),
        ((regular, (2, 3, 3)), (2, 3, 1), _options(True, False, True)),
        ((regular, (2, 2)), (2, 1), _options(False, True, True)),
        ((regular, (5, 5)), (5, 20), _options(True, True)),
        ((near_identity, (20, 20)), (20, 3), _options(False)),
        ((near_identity, (20, 20)), (20, 1), _options(True, True)),
        ((near_identity, (2, 9, 9)), (2, 9, 2), _options(False, True, True)),
        (np.zeros((0, 0)), np.zeros((0, 2)), _options(True)),
    ),
)  # fmt: skip

# -- cholesky --------------------------------------------------------------------------------------


_tangent_of_cholesky = lazy("functrans.ops.linalg.cholesky_derivative:tangent")

cholesky_p = of_matrices(
    "cholesky",
    **compiled_forms("cholesky"),
    infer=same_square("cholesky"),
    numpy=np.linalg.cholesky,
    jvp=[lambda a, out, da: _tangent_of_cholesky(out, da)],
    samples=stacks(positive_definite, *SQUARES, (20, 20), (2, 9, 9)),
)

# -- inverse and determinants ----------------------------------------------------------------------

regular_samples = stacks(near_identity, *SQUARES, (4, 4), (20, 20), (2, 9, 9))

inv_p: Primitive = of_matrices(
    "inv",
    **compiled_forms("inv", lambda limits: limits.largest_inverted),
    infer=same_square("inv"),
    numpy=np.linalg.inv,
    jvp=[lambda a, out, da: negative(matmul(matmul(out, da), out))],
    samples=regular_samples,
)


def _infer_det(a: Aval) -> Aval:
    check_square(a, "det")
    return a.update(shape=a.shape[:-2])


det_p = of_matrices(
    "det",
    **compiled_forms("det"),
    infer=_infer_det,
    numpy=np.linalg.det,
    jvp=[lambda a, out, da: inner(cofactors(a), da)],
    samples=regular_samples,
)


def cofactors(a: Any) -> Any:
    """Cofactors, the derivatives of determinants: up to three rows by differentiable minors."""
    match a.shape[-1]:
        case 1:
            return structural.full_p(shape=a.shape, value=1, dtype=a.dtype)
        case 2:
            signs = 2 * identity(2, a.dtype) - 1
            return multiply(flip(a, axes=(a.ndim - 2, a.ndim - 1)), signs)
        case 3:
            others = _turned(a, 1, 1), _turned(a, 2, 2), _turned(a, 1, 2), _turned(a, 2, 1)
            return multiply(*others[:2]) - multiply(*others[2:])
    if a.dtype == np.float32:
        # from the inverse in double precision, which is accurate enough for most matrices; in
        # single precision, it is for few
        return structural.cast(
            cofactor(structural.cast(a, dtype=np.dtype(np.float64))), dtype=a.dtype
        )
    return cofactor(a)


def _turned(a: Any, rows: int, columns: int) -> Any:
    """The matrices rotated cyclically, to start at a row and a column."""
    turned = roll(a, shift=-rows, axis=a.ndim - 2)
    return roll(turned, shift=-columns, axis=a.ndim - 1)


def _cofactors(a: Any) -> Any:
    """Cofactors from the singular values, also for singular matrices."""
    u, s, vh = np.linalg.svd(a)
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1, dtype=s.dtype)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return (sign[..., None, None] * u.conj() * others[..., None, :]) @ vh.conj()


def _jvp_cofactor(primals: Any, tangents: Any, outs: Any) -> Any:
    """The tangent of ``det(a) inv(a).T``, which needs the inverse, unlike the cofactors."""
    (a,), (da,), (out,) = primals, tangents, outs
    inverse = transposed(inv_p(a))
    scale = inner(out, da)
    return structural.expand_axes(scale, (scale.ndim, scale.ndim + 1)) * inverse - matmul(
        matmul(out, transposed(da)), inverse
    )


cofactor: Primitive = of_matrices(
    "cofactor",
    **compiled_forms(
        "cofactor",
        lambda limits: limits.largest_of_minors,
        parts=Composition(lazy("functrans.ops.linalg.compiled.composed:cofactors_by_svd")),
    ),
    infer=same_square("cofactor"),
    numpy=_cofactors,
    jvp=_jvp_cofactor,
    samples=stacks(near_identity, *SQUARES, (2, 5, 5)),
)


def _infer_slogdet(a: Aval) -> tuple[Aval, Aval]:
    sign = _infer_det(a)
    return sign, sign.update(dtype=real_dtype(sign.dtype))


def _jvp_slogdet(primals: Any, tangents: Any, outs: Any) -> tuple[Any, Any]:
    """The tangent of the logarithm is the real part of the trace of inv(A) dA; the sign rotates."""
    moved = inner(transposed(inv_p(primals[0])), tangents[0])
    if not is_complex(moved.dtype):
        return None, moved
    turn = imag(moved)
    return complex_p(structural.zeros(turn.shape, turn.dtype), turn) * outs[0], real(moved)


slogdet_p = of_matrices(
    "slogdet",
    **compiled_forms("slogdet"),
    infer=_infer_slogdet,
    numpy=lambda a: tuple(np.linalg.slogdet(a)),
    jvp=_jvp_slogdet,
    several=True,
    samples=regular_samples,
)

MATRICES = (solve_p, triangular_solve, cholesky_p, inv_p, det_p, cofactor, slogdet_p)

# -- with NumPy's signatures -----------------------------------------------------------------------


SlogdetResult = type(np.linalg.slogdet(np.eye(1)))
"""NumPy's result class, so that branches may return either result."""


def cholesky(a: Any, *, upper: bool = False) -> Any:
    """The triangular factor of (Hermitian) positive definite matrices, given by one triangle.

    The derivative is with respect to the elements of that triangle, each of which represents two.
    """
    a = asarray(a)
    return adjoint(cholesky_p(adjoint(a))) if upper else cholesky_p(a)


def inv(a: Any) -> Any:
    """The inverse matrices."""
    return inv_p(asarray(a))


def det(a: Any) -> Any:
    """The determinants. The first derivative is correct for singular matrices, too."""
    return det_p(asarray(a))


def slogdet(a: Any) -> Any:
    """The signs of the determinants, and the logarithms of their absolute values."""
    return SlogdetResult(*slogdet_p(asarray(a)))


def solve(a: Any, b: Any, *, transpose_a: bool = False) -> Any:
    """``x`` with ``a @ x = b``; ``b`` is a vector if it has one axis, else matrices."""
    return _solved(solve_p, asarray(a), asarray(b), _of(transpose_a))


def solve_triangular(
    a: Any, b: Any, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """``x`` with ``a @ x = b`` for triangular ``a``.

    If ``trans`` is 1 or "T", the transposes are used in place of ``a``; if it is 2 or "C", the
    conjugate transposes.
    """
    a = asarray(a)
    a = conj(a) if trans in (2, "C") else a
    options = _options(bool(lower), trans not in (0, "N"), bool(unit_diagonal))
    return _solved(triangular_solve, a, asarray(b), options)


def _solved(op: Primitive, a: Any, b: Any, params: dict[str, bool]) -> Any:
    """Solve with vectors as matrices of one column, and leading axes broadcast."""
    is_vector = b.ndim == 1
    columns = structural.expand_axes(b, (1,)) if is_vector else b
    if a.ndim < 2 or columns.ndim < 2 or columns.shape[-2] != a.shape[-1]:
        raise ShapeError(
            f"{op.name} takes matrices of shape (..., n, n) and right-hand sides of shape (n,) or "
            f"(..., n, k), not {a.shape} and {b.shape}{here()}"
        )
    leading = broadcast_leading(a.shape[:-2], columns.shape[:-2])
    x = op(
        structural.broadcast_to(a, shape=(*leading, *a.shape[-2:])),
        structural.broadcast_to(columns, shape=(*leading, *columns.shape[-2:])),
        **params,
    )
    return structural.reshape(x, shape=x.shape[:-1]) if is_vector else x


def matrix_power(a: Any, n: int) -> Any:
    """The product of ``n`` copies of each matrix, or of their inverses if it is negative."""
    a = asarray(a)
    check_square(a, "matrix_power")
    exponent = operator.index(n)
    if exponent < 0:
        a, exponent = inv(a), -exponent
    if exponent == 0:
        return structural.broadcast_to(identity(a.shape[-1], a.dtype), shape=a.shape)
    result = None
    while exponent:
        if exponent & 1:
            result = a if result is None else matmul(result, a)
        exponent >>= 1
        if exponent:
            a = matmul(a, a)
    return result
