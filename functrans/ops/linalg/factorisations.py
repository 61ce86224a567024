"""Linear algebra on the matrices along the last two axes: factors, solutions, determinants.

The derivatives are those of Giles, "An extended collection of matrix derivative results for forward
and reverse mode algorithmic differentiation" (2008), and for the Cholesky factor of Murray,
"Differentiation of the Cholesky decomposition" (2016). They are rules in the IR's operations, so
they have derivatives themselves.
"""

from __future__ import annotations

import operator
from math import prod
from typing import Any, NamedTuple

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.graph import Eqn
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval, Shape, is_complex, real_dtype
from functrans.ops.arrays.shape import asarray, flip, roll
from functrans.ops.arrays.structural import (
    astype,
    broadcast_to,
    cast,
    expand_axes,
    full_p,
    iota,
    move_axis,
    place,
    reduce_sum,
    reshape,
    transpose,
    zeros,
)
from functrans.ops.compiled.emission import Emit
from functrans.ops.define import Lazy, lazy, primitive
from functrans.ops.elementwise.arithmetic import multiply, negative
from functrans.ops.elementwise.choice import masked
from functrans.ops.elementwise.compare import equal, greater_equal
from functrans.ops.elementwise.complex_numbers import complex_p, conj, imag, real
from functrans.ops.linalg.domains import near_identity, positive_definite, regular
from functrans.ops.linalg.products import matmul
from functrans.ops.promotion import floating, promote
from functrans.ops.samples import cases
from functrans.trace.source import located, user_source

_scipy_solve_triangular = lazy("scipy.linalg:solve_triangular")

# -- what the rules are written with ---------------------------------------------------------------


def _t(x: Any) -> Any:
    """Transposed matrices."""
    n = x.ndim
    return transpose(x, permutation=(*range(n - 2), n - 1, n - 2))


def _h(x: Any) -> Any:
    """Transposed matrices of conjugates."""
    return conj(_t(x))


def triangle(x: Any, *, lower: bool, unit_diagonal: bool = False) -> Any:
    """The matrices with zeros outside of a triangle, or also on the diagonal."""
    rows = reshape(iota(size=x.shape[-2], dtype=_INDEX), shape=(x.shape[-2], 1))
    columns = iota(size=x.shape[-1], dtype=_INDEX)
    inside = greater_equal(rows, columns) if lower else greater_equal(columns, rows)
    if unit_diagonal:
        inside = rows > columns if lower else columns > rows
    return masked(broadcast_to(inside, shape=x.shape), x)


_INDEX = np.dtype(np.int64)


def _check_square(x: Aval, name: str) -> None:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{name} takes square matrices along the last two axes, not an array of shape {x.shape}"
        )


def _promoted(*operands: Any, **params: Any) -> Any:
    return promote(floating, operands), params


_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))

_ONE_MATRIX = 256
"""Operations besides those for each element: roots, logarithms, signs."""


def _operations(eqn: Eqn, of_graph: Any) -> int:
    *batch, _, rows = eqn.inputs[0].aval.shape
    sizes = sum(x.aval.size for x in (*eqn.inputs, *eqn.outputs))
    return 4 * rows * sizes + _ONE_MATRIX * prod(batch)


def _compiled(rule: Lazy) -> Emit:
    return Emit(
        rule,
        applies=lambda eqn, target: eqn.outputs[0].aval.dtype in _FLOATS,
        operations=_operations,
    )


def _of_matrices(name: str, emit: Lazy, **slots: Any) -> Primitive:
    """A primitive of one array of square matrices, which treats leading axes as NumPy does."""

    def batch(operands: Any, axes: Any) -> Any:
        result = op(move_axis(operands[0], axes[0], 0))
        return (result, (0,) * len(result)) if op.several else (result, 0)

    op = primitive(name, batch=batch, emit=_compiled(emit), prepare=_promoted, **slots)
    return op


def _same_square(name: str) -> Any:
    def infer(a: Aval) -> Aval:
        _check_square(a, name)
        return a.update()

    return infer


# -- solving ---------------------------------------------------------------------------------------


def _solution(a: Aval, b: Aval) -> Aval:
    _check_square(a, "solve")
    if b.ndim != a.ndim or b.shape[:-1] != a.shape[:-1]:
        raise ShapeError(
            f"solve takes right-hand sides of shape {(*a.shape[:-1], 'any')} for matrices of shape "
            f"{a.shape}, not {b.shape}"
        )
    return b.update()


def _batch_solve(op: Primitive, operands: Any, axes: Any, params: Any) -> tuple[Any, int]:
    (a, b), (a_axis, b_axis) = operands, axes
    if a_axis is not None:
        size = a.shape[a_axis]
        return op(place(a, a_axis, 0, size), place(b, b_axis, 0, size), **params), 0
    # one matrix for the whole batch: all right-hand sides are columns of one system
    b = move_axis(b, b_axis, b.ndim - 1)
    columns = reshape(b, shape=(*b.shape[:-2], b.shape[-2] * b.shape[-1]))
    return reshape(op(a, columns, **params), shape=b.shape), b.ndim - 1


def _solve(a: Any, b: Any, *, transpose_a: bool) -> Any:
    return np.linalg.solve(np.swapaxes(a, -1, -2) if transpose_a else a, b)


def _tangent_of_solve(a: Any, b: Any, out: Any, da: Any, *, transpose_a: bool) -> Any:
    residual = matmul(_t(da) if transpose_a else da, out)
    return negative(solve_p(a, residual, transpose_a=transpose_a))


def _of(transpose_a: bool) -> dict[str, bool]:
    return {"transpose_a": transpose_a}


solve_p: Primitive = primitive(
    "solve",
    infer=lambda a, b, *, transpose_a: _solution(a, b),
    numpy=_solve,
    jvp=[_tangent_of_solve, lambda a, b, out, db, **params: solve_p(a, db, **params)],
    linear=((1,),),
    # the same matrix again: one elimination serves both
    transpose=[None, lambda ct, a, b, *, transpose_a: solve_p(a, ct, transpose_a=not transpose_a)],
    batch=lambda operands, axes, **params: _batch_solve(solve_p, operands, axes, params),
    emit=_compiled(lazy("functrans.ops.linalg.compiled.matrices:solve")),
    prepare=_promoted,
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
    return np.linalg.solve(_t(a) if transpose_a else a, b)


def _tangent_of_triangular_solve(
    a: Any, b: Any, out: Any, da: Any, *, lower: bool, transpose_a: bool, unit_diagonal: bool
) -> Any:
    moved = triangle(da, lower=lower, unit_diagonal=unit_diagonal)
    residual = matmul(_t(moved) if transpose_a else moved, out)
    return negative(
        triangular_solve(
            a, residual, lower=lower, transpose_a=transpose_a, unit_diagonal=unit_diagonal
        )
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
    linear=((1,),),
    transpose=[
        None,
        lambda ct, a, b, *, transpose_a, **params: triangular_solve(
            a, ct, transpose_a=not transpose_a, **params
        ),
    ],
    batch=lambda operands, axes, **params: _batch_solve(triangular_solve, operands, axes, params),
    emit=_compiled(lazy("functrans.ops.linalg.compiled.matrices:triangular_solve")),
    prepare=_promoted,
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


def _jvp_cholesky(primals: Any, tangents: Any, outs: Any) -> Any:
    """Murray (2016), equation 8: L times the lower half of inv(L) dA inv(L)^H."""
    (da,), (factor,) = tangents, outs
    # only the lower triangle is read, and stands for the upper one too; the diagonal is real
    below = triangle(da, lower=True, unit_diagonal=True)
    diagonal = triangle(da, lower=True) - below
    symmetric = below + _h(below) + astype(real(diagonal), da.dtype)
    half = triangular_solve(factor, symmetric, **_options(True))
    whole = triangular_solve(factor, _h(half), **_options(True))
    diagonal_counts_half = triangle(whole, lower=True) + triangle(
        whole, lower=True, unit_diagonal=True
    )
    return matmul(factor, diagonal_counts_half * 0.5)


cholesky_p = _of_matrices(
    "cholesky",
    emit=lazy("functrans.ops.linalg.compiled.matrices:cholesky"),
    infer=_same_square("cholesky"),
    numpy=np.linalg.cholesky,
    jvp=_jvp_cholesky,
    samples=cases(
        ((positive_definite, (3, 3)), {}), ((positive_definite, (2, 2, 2)), {}),
        ((positive_definite, (1, 1)), {}), (np.zeros((0, 0)), {}),
        ((positive_definite, (20, 20)), {}), ((positive_definite, (2, 9, 9)), {}),
    ),
)  # fmt: skip

# -- inverse and determinants ----------------------------------------------------------------------

regular_samples = cases(
    ((near_identity, (3, 3)), {}), ((near_identity, (2, 2, 2)), {}), ((near_identity, (1, 1)), {}),
    (np.zeros((0, 0)), {}), ((near_identity, (4, 4)), {}), ((near_identity, (20, 20)), {}),
    ((near_identity, (2, 9, 9)), {}),
)  # fmt: skip

inv_p: Primitive = _of_matrices(
    "inv",
    emit=lazy("functrans.ops.linalg.compiled.matrices:inv"),
    infer=_same_square("inv"),
    numpy=np.linalg.inv,
    jvp=[lambda a, out, da: negative(matmul(matmul(out, da), out))],
    samples=regular_samples,
)


def _inner(x: Any, y: Any) -> Any:
    """The inner products of matrices."""
    return reduce_sum(multiply(x, y), axes=(x.ndim - 2, x.ndim - 1))


def _infer_det(a: Aval) -> Aval:
    _check_square(a, "det")
    return a.update(shape=a.shape[:-2])


det_p = _of_matrices(
    "det",
    emit=lazy("functrans.ops.linalg.compiled.matrices:det"),
    infer=_infer_det,
    numpy=np.linalg.det,
    jvp=[lambda a, out, da: _inner(cofactors(a), da)],
    samples=regular_samples,
)


def cofactors(a: Any) -> Any:
    """The derivatives of determinants: by minors up to three rows, which have derivatives too."""
    match a.shape[-1]:
        case 1:
            return full_p(shape=a.shape, value=1, dtype=a.dtype)
        case 2:
            signs = 2 * identity(2, a.dtype) - 1
            return multiply(flip(a, axes=(a.ndim - 2, a.ndim - 1)), signs)
        case 3:
            others = _turned(a, 1, 1), _turned(a, 2, 2), _turned(a, 1, 2), _turned(a, 2, 1)
            return multiply(*others[:2]) - multiply(*others[2:])
    return cofactor(a)


def _turned(a: Any, rows: int, columns: int) -> Any:
    """The matrices from some row and column on, with those before at the end."""
    turned = roll(a, shift=-rows, axis=a.ndim - 2)
    return roll(turned, shift=-columns, axis=a.ndim - 1)


def _cofactors(a: Any) -> Any:
    """From the singular values, so that singular matrices need no exception."""
    u, s, vh = np.linalg.svd(a)
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1, dtype=s.dtype)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return (sign[..., None, None] * u.conj() * others[..., None, :]) @ vh.conj()


def _jvp_cofactor(primals: Any, tangents: Any, outs: Any) -> Any:
    """That of det(a) inv(a).T; unlike the cofactors themselves, it needs the inverse."""
    (a,), (da,), (out,) = primals, tangents, outs
    inverse = _t(inv_p(a))
    scale = _inner(out, da)
    return expand_axes(scale, (scale.ndim, scale.ndim + 1)) * inverse - matmul(
        matmul(out, _t(da)), inverse
    )


cofactor: Primitive = _of_matrices(
    "cofactor",
    emit=lazy("functrans.ops.linalg.compiled.matrices:cofactor"),
    infer=_same_square("cofactor"),
    numpy=_cofactors,
    jvp=_jvp_cofactor,
    samples=regular_samples,
)


def _infer_slogdet(a: Aval) -> tuple[Aval, Aval]:
    sign = _infer_det(a)
    return sign, sign.update(dtype=real_dtype(sign.dtype))


def _jvp_slogdet(primals: Any, tangents: Any, outs: Any) -> tuple[Any, Any]:
    """The logarithm of a determinant moves by the trace of inv(A) dA: sideways, the sign turns."""
    moved = _inner(_t(inv_p(primals[0])), tangents[0])
    if not is_complex(moved.dtype):
        return None, moved
    turn = imag(moved)
    return complex_p(zeros(turn.shape, turn.dtype), turn) * outs[0], real(moved)


slogdet_p = _of_matrices(
    "slogdet",
    emit=lazy("functrans.ops.linalg.compiled.matrices:slogdet"),
    infer=_infer_slogdet,
    numpy=lambda a: tuple(np.linalg.slogdet(a)),
    jvp=_jvp_slogdet,
    several=True,
    samples=regular_samples,
)

MATRICES = (solve_p, triangular_solve, cholesky_p, inv_p, det_p, cofactor, slogdet_p)

# -- with NumPy's signatures -----------------------------------------------------------------------


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Any
    logabsdet: Any


def cholesky(a: Any, *, upper: bool = False) -> Any:
    """The triangular factor of (Hermitian) positive definite matrices: one triangle is read.

    The derivative is that of the function as it is computed: with respect to the elements of the
    triangle that is read, each of which stands for two.
    """
    a = asarray(a)
    return _h(cholesky_p(_h(a))) if upper else cholesky_p(a)


def inv(a: Any) -> Any:
    """The inverse matrices."""
    return inv_p(asarray(a))


def det(a: Any) -> Any:
    """The determinants. The first derivative is right for singular matrices too."""
    return det_p(asarray(a))


def slogdet(a: Any) -> SlogdetResult:
    """The signs of the determinants, and the logarithms of their absolute values."""
    return SlogdetResult(*slogdet_p(asarray(a)))


def solve(a: Any, b: Any) -> Any:
    """``x`` with ``a @ x = b``; ``b`` is a vector if it has one axis, else matrices."""
    return _solved(solve_p, asarray(a), asarray(b), _of(False))


def solve_triangular(
    a: Any, b: Any, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """``x`` with ``a @ x = b`` for triangular ``a``.

    If ``trans`` is 1 or "T", the transposed matrices stand in the place of ``a``; if it is 2 or
    "C", their conjugates.
    """
    a = asarray(a)
    a = conj(a) if trans in (2, "C") else a
    options = _options(bool(lower), trans not in (0, "N"), bool(unit_diagonal))
    return _solved(triangular_solve, a, asarray(b), options)


def _solved(op: Primitive, a: Any, b: Any, params: dict[str, bool]) -> Any:
    """Vectors made matrices of one column, and leading axes broadcast."""
    is_vector = b.ndim == 1
    columns = expand_axes(b, (1,)) if is_vector else b
    if a.ndim < 2 or columns.ndim < 2 or columns.shape[-2] != a.shape[-1]:
        raise ShapeError(
            f"{op.name} takes matrices of shape (..., n, n) and right-hand sides of shape (n,) or "
            f"(..., n, k), not {a.shape} and {b.shape}{located(user_source())}"
        )
    leading = broadcast_leading(a.shape[:-2], columns.shape[:-2])
    x = op(
        broadcast_to(a, shape=(*leading, *a.shape[-2:])),
        broadcast_to(columns, shape=(*leading, *columns.shape[-2:])),
        **params,
    )
    return reshape(x, shape=x.shape[:-1]) if is_vector else x


def broadcast_leading(first: Shape, second: Shape) -> Shape:
    """The leading axes of two stacks of matrices, broadcast."""
    try:
        return np.broadcast_shapes(first, second)
    except ValueError:
        raise ShapeError(
            f"the leading axes of stacks of matrices, {first} and {second}, do not broadcast"
            f"{located(user_source())}"
        ) from None


def matrix_power(a: Any, n: int) -> Any:
    """The product of ``n`` copies of each matrix, or of their inverses if it is negative."""
    a = asarray(a)
    exponent = operator.index(n)
    if exponent < 0:
        a, exponent = inv(a), -exponent
    if exponent == 0:
        return broadcast_to(identity(a.shape[-1], a.dtype), shape=a.shape)
    result = None
    while exponent:
        if exponent & 1:
            result = a if result is None else matmul(result, a)
        exponent >>= 1
        if exponent:
            a = matmul(a, a)
    return result


def identity(n: int, dtype: Any) -> Any:
    """The matrix of ones on the diagonal and zeros elsewhere."""
    counter = iota(size=n, dtype=_INDEX)
    return cast(equal(expand_axes(counter, (1,)), counter), dtype=np.dtype(dtype))
