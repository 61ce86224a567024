"""Linear algebra on the matrices along the last two axes: products, transposes, diagonals.

`transposed` is the transpose, `adjoint` the conjugate transpose; they agree for real matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from functrans.errors import ShapeError
from functrans.ir.graph import Eqn
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval, Shape, broadcast_shape, is_bfloat16, is_complex
from functrans.lazily import Lazy, lazy
from functrans.ops.arrays.promotion import DtypeKey, floating, promote
from functrans.ops.arrays.shape import concatenate, read_along
from functrans.ops.arrays.structural import (
    broadcast_to,
    cast,
    expand_axes,
    in_lanes,
    iota,
    move_axis,
    reduce_sum,
    reshape,
    transpose,
)
from functrans.ops.compiled.emission import Emit
from functrans.ops.define import on_compiling, primitive
from functrans.ops.elementwise.arithmetic import multiply
from functrans.ops.elementwise.choice import absolute, masked, select
from functrans.ops.elementwise.compare import equal, greater, greater_equal, less_equal
from functrans.ops.elementwise.complex_numbers import conj, real
from functrans.ops.linalg.products import matmul
from functrans.ops.reductions.reduce import reduce_max
from functrans.ops.samples import Domain
from functrans.records import NamedTuple
from functrans.trace.source import here


class Matrices(NamedTuple):
    """Thresholds of linear algebra: which matrices are unrolled, and which go to LAPACK.

    Measured: `largest` (10,000 systems of 6 equations, a Kalman filter).
    """

    largest: int = 8
    """The most rows of matrices without LAPACK, which takes five times as long for such stacks."""
    largest_inverted: int = 6
    """The same for inverses."""
    largest_of_minors: int = 4
    """The same for cofactors, computed by minors: with 5 rows and a condition of 1e5, minors would
    lose four digits more than singular values do."""
    most_elements: int = 64
    """The most elements of a right-hand side whose columns are unrolled; others are in a loop."""
    most_multiplications: int = 64
    """The most multiplications of a stack whose leading axes are unrolled, too."""
    largest_alone: int = 65_536
    """The most elements of a single matrix that compiled code decomposes. NumPy decomposes larger
    ones, with LAPACK's own threads; our threads share the matrices of a stack. Measured on two
    cores: up to 300 x 100 and 200 x 200, ours takes 0.4 to 1.1 times as long, for 400 x 400 1 to
    1.3 times."""


INDEX = np.dtype(np.int64)

# -- matrices of matrices --------------------------------------------------------------------------


def transposed(x: Any) -> Any:
    """Transposed matrices."""
    n = x.ndim
    return transpose(x, permutation=(*range(n - 2), n - 1, n - 2))


def adjoint(x: Any) -> Any:
    """Conjugate transposes."""
    return conj(transposed(x))


def product(*factors: Any) -> Any:
    """The product of matrices, from the left."""
    result, *rest = factors
    for factor in rest:
        result = matmul(result, factor)
    return result


def triangle(x: Any, *, lower: bool, unit_diagonal: bool = False) -> Any:
    """The matrices with zeros outside of a triangle, or also on the diagonal."""
    rows = reshape(iota(size=x.shape[-2], dtype=INDEX), shape=(x.shape[-2], 1))
    columns = iota(size=x.shape[-1], dtype=INDEX)
    if unit_diagonal:
        inside = greater(rows, columns) if lower else greater(columns, rows)
    else:
        inside = greater_equal(rows, columns) if lower else greater_equal(columns, rows)
    return masked(broadcast_to(inside, shape=x.shape), x)


def hermitian(x: Any, *, lower: bool) -> Any:
    """The Hermitian matrices of which a triangle is given: their diagonals are real."""
    strict = triangle(x, lower=lower, unit_diagonal=True)
    if not is_complex(x.dtype):
        return triangle(x, lower=lower) + adjoint(strict)
    diagonal = triangle(x, lower=lower) - strict
    return strict + adjoint(strict) + cast(real(diagonal), dtype=x.dtype)


def identity(n: int, dtype: Any) -> Any:
    """The identity matrix."""
    counter = iota(size=n, dtype=INDEX)
    return cast(equal(expand_axes(counter, (1,)), counter), dtype=np.dtype(dtype))


def inner(x: Any, y: Any) -> Any:
    """The Frobenius inner products of matrices."""
    return reduce_sum(multiply(x, y), axes=(x.ndim - 2, x.ndim - 1))


def columns_of(x: Any, start: int, stop: int) -> Any:
    """The columns from ``start`` to ``stop``."""
    return read_along(x, x.ndim - 1, start, stop - start)


def rows_of(x: Any, start: int, stop: int) -> Any:
    """The rows from ``start`` to ``stop``."""
    return read_along(x, x.ndim - 2, start, stop - start)


def beside(*parts: Any) -> Any:
    """Matrices of equal height joined from left to right; those without columns are left out."""
    filled = [x for x in parts if x.shape[-1]] or parts[:1]
    return concatenate(filled, axis=filled[0].ndim - 1)


def above(*parts: Any) -> Any:
    """Matrices of equal width joined from top to bottom; those without rows are left out."""
    filled = [x for x in parts if x.shape[-2]] or parts[:1]
    return concatenate(filled, axis=filled[0].ndim - 2)


def on_columns(x: Any) -> Any:
    """Vectors reshaped to scale the columns of matrices."""
    return expand_axes(x, (x.ndim - 1,))


def on_rows(x: Any) -> Any:
    """Vectors reshaped to scale the rows of matrices."""
    return expand_axes(x, (x.ndim,))


def reciprocal_where_apart(x: Any, scale: Any) -> Any:
    """``1 / x``, but 0 where ``x`` is within rounding errors of numbers of size ``scale``.

    Derivatives of factors are divided by the gaps of a spectrum. The vectors of equal values are
    not determined individually, and have no derivatives within their common space.
    """
    apart = greater(absolute(x), scale)
    return masked(apart, 1 / select(apart, x, 1))


def rounding(values: Any) -> Any:
    """The size of rounding errors in a spectrum, for each matrix, with a unit axis."""
    count = values.shape[-1]
    if not count:
        return values
    largest = reduce_max(absolute(values), axes=(values.ndim - 1,))
    tolerance = count * float(np.finfo(values.dtype).eps)
    return on_rows(largest * tolerance)


def negligible(values: Any) -> Any:
    """A mask of the members of a spectrum that are within rounding errors of 0."""
    return less_equal(absolute(values), rounding(values))


def diagonal_of_product(x: Any, y: Any) -> Any:
    """The real part of the diagonal of ``X^H Y``."""
    return real(reduce_sum(conj(x) * y, axes=(x.ndim - 2,)))


# -- definitions -----------------------------------------------------------------------------------


def check_matrices(x: Aval, name: str) -> None:
    """Raise unless an array has at least two axes."""
    if x.ndim < 2:
        raise ShapeError(
            f"{name} takes matrices along the last two axes, not an array of shape {x.shape}"
        )


def check_square(x: Aval, name: str) -> None:
    """Raise unless the last two axes have equal extents."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"{name} takes square matrices along the last two axes, not an array of shape {x.shape}"
        )


def check_right_sides(a: Aval, b: Aval, name: str) -> None:
    """Raise unless there are columns for each of some matrices."""
    if b.ndim != a.ndim or b.shape[:-1] != a.shape[:-1]:
        raise ShapeError(
            f"{name} takes right-hand sides of shape {(*a.shape[:-1], 'any')} for matrices of "
            f"shape {a.shape}, not {b.shape}"
        )


def same_square(name: str, results: int = 1) -> Any:
    """The type rule of operations from square matrices to one or several square matrices."""

    def infer(a: Aval, **params: Any) -> Aval | tuple[Aval, ...]:
        check_square(a, name)
        return a.update() if results == 1 else (a.update(),) * results

    return infer


def promoted(*operands: Any, **params: Any) -> Any:
    """Operands cast to a common float dtype."""
    return promote(_of_lapack, operands), params


def _of_lapack(keys: tuple[DtypeKey, ...]) -> tuple[np.dtype[Any], ...]:
    """NumPy's promotion: bfloat16, for which LAPACK has no routines, becomes float64."""
    dtypes = floating(keys)
    return (np.dtype(np.float64),) * len(keys) if is_bfloat16(dtypes[0]) else dtypes


FLOATS = (np.dtype(np.float32), np.dtype(np.float64))

ONE_MATRIX = 256
"""The estimated operations for a matrix, besides its elements': roots, logarithms, signs."""


def operations(eqn: Eqn, of_graph: Any) -> int:
    *batch, _, rows = eqn.inputs[0].aval.shape
    sizes = sum(x.aval.size for x in (*eqn.inputs, *eqn.outputs))
    return 4 * rows * sizes + ONE_MATRIX * prod(batch)


_applied_in_parts = lazy("functrans.ops.linalg.in_parts:applied")


def by_lapack(name: str) -> Callable[..., Any]:
    """The `parts` rule of an operation that LAPACK computes."""
    return partial(_applied_in_parts, of=name)


def compiled(rule: Lazy, unrolled: Callable[[Any], int] = lambda limits: limits.largest) -> Emit:
    """The compiled form of an operation on float matrices.

    Matrices with at most ``unrolled`` rows are unrolled; others go to LAPACK.
    """

    def applies(eqn: Eqn, target: Any) -> bool:
        fits = target.routines or eqn.inputs[0].aval.shape[-1] <= unrolled(target[Matrices])
        return fits and eqn.outputs[0].aval.dtype in FLOATS

    return Emit(rule, applies=applies, operations=operations)


def is_small_or_one_of_many(eqn: Eqn, target: Any) -> bool:
    """Whether matrices are small or many, so that LAPACK's own threads would not be faster."""
    *leading, rows, columns = eqn.inputs[0].aval.shape
    most: int = target[Matrices].largest_alone
    return rows * columns <= most or prod(leading) > 1


def decomposed(rule: Lazy, of_any_size: bool = False) -> Emit:
    """The compiled form of a decomposition of small or of many matrices, or ``of_any_size``."""

    def applies(eqn: Eqn, target: Any) -> bool:
        is_ours = of_any_size or is_small_or_one_of_many(eqn, target)
        is_ours = is_ours and eqn.inputs[0].aval.dtype in FLOATS
        return target.routines and is_ours and 0 not in eqn.inputs[0].aval.shape

    return Emit(rule, applies=applies, operations=operations)


def on_grid(rule: Lazy, of_nothing: bool = False) -> Emit:
    """The compiled form of an operation on a grid.

    ``of_nothing``: whether the rule handles matrices without elements; otherwise NumPy computes
    them, unless the results have no elements either.
    """

    def applies(eqn: Eqn, target: Any) -> bool:
        is_known = of_nothing or 0 not in eqn.inputs[0].aval.shape
        is_known = is_known or all(0 in x.aval.shape for x in eqn.outputs)
        return is_known and eqn.inputs[0].aval.dtype in FLOATS

    return Emit(rule, applies=applies, operations=operations)


def compiled_forms(
    name: str, unrolled: Callable[[Any], int] = lambda limits: limits.largest, **slots: Any
) -> dict[str, Any]:
    """The slots of an operation that is `compiled`, by the name of its rules, or by other slots."""
    emit = compiled(on_compiling(f"linalg.compiled.matrices:{name}"), unrolled)
    return _forms(name, emit, of_nothing=True) | slots


def decomposed_forms(name: str, of_any_size: bool = False, **slots: Any) -> dict[str, Any]:
    """The same for an operation that is `decomposed`."""
    emit = decomposed(on_compiling(f"linalg.compiled.matrices:{name}"), of_any_size)
    return _forms(name, emit, of_nothing=False) | slots


def _forms(name: str, emit: Emit, of_nothing: bool) -> dict[str, Any]:
    emit_on_grid = on_grid(on_compiling(f"linalg.compiled.grid.matrices:{name}"), of_nothing)
    return {"emit": emit, "emit_on_grid": emit_on_grid, "parts": by_lapack(name)}


def batch_together(op: Primitive, operands: Any, axes: Any, **params: Any) -> tuple[Any, int]:
    """The batching rule of an operation on several stacks, all of which get the mapped axis."""
    return op(*in_lanes(operands, axes), **params), 0


def batch_by_columns(op: Primitive, operands: Any, axes: Any, **params: Any) -> tuple[Any, int]:
    """The same for solutions with matrices, and right-hand sides as the second operand.

    With one matrix for the whole batch, all right-hand sides are columns of one problem.
    """
    a, b, *others = operands
    if any(axis is not None for axis in (axes[0], *axes[2:])):
        return batch_together(op, operands, axes, **params)
    b = move_axis(b, axes[1], b.ndim - 1)
    columns = reshape(b, shape=(*b.shape[:-2], b.shape[-2] * b.shape[-1]))
    x = op(a, columns, *others, **params)
    return reshape(x, shape=(*x.shape[:-1], *b.shape[-2:])), b.ndim - 1


def only(place: int, eqn: Eqn, wanted: Sequence[bool], of: Primitive, **params: Any) -> Eqn:
    """The rule `trim` of a decomposition of which one result is wanted, which ``of`` gives."""
    if not wanted[place] or any(wanted[:place]) or any(wanted[place + 1 :]):
        return eqn
    return Eqn(of, eqn.inputs, eqn.outputs[place : place + 1], params, eqn.source)


def of_matrices(name: str, **slots: Any) -> Primitive:
    """A primitive of one stack of matrices, with NumPy's rules for leading axes."""

    def batch(operands: Any, axes: Any, **params: Any) -> Any:
        result = op(move_axis(operands[0], axes[0], 0), **params)
        return (result, (0,) * len(result)) if op.several else (result, 0)

    op = primitive(name, batch=batch, prepare=promoted, **slots)
    return op


def broadcast_leading(first: Shape, second: Shape) -> Shape:
    """The leading axes of two stacks of matrices, broadcast."""
    try:
        return broadcast_shape(first, second)
    except ValueError:
        raise ShapeError(
            f"the leading axes of stacks of matrices, {first} and {second}, do not broadcast"
            f"{here()}"
        ) from None


def filled_by_matrix(function: Callable[..., Any], operands: Sequence[Any], *outs: Any) -> Any:
    """Plain arrays, filled with the results of a function for each matrix of stacks.

    They are unchanged for empty matrices, which LAPACK does not accept.
    """
    first = operands[0]
    for at in np.ndindex(*first.shape[:-2]) if first.size and outs[0].size else ():
        found = function(*(x[at] for x in operands))
        for out, x in zip(outs, found if len(outs) > 1 else (found,), strict=True):
            out[at] = x
    return outs if len(outs) > 1 else outs[0]


def real_of_real(result: Any, x: Any, what: str) -> Any:
    """A function of a matrix, which must be real if the matrix is."""
    if np.iscomplexobj(result) and not np.iscomplexobj(x):
        raise np.linalg.LinAlgError(
            f"the {what} of this real matrix is complex: convert it by .astype(complex)"
        )
    return result


# -- samples ---------------------------------------------------------------------------------------


def _positive_definite(rng: np.random.Generator, shape: Shape) -> Any:
    x = rng.normal(size=shape)
    return x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])


def _near_identity(rng: np.random.Generator, shape: Shape) -> Any:
    return np.eye(shape[-1]) + rng.normal(size=shape) / (4 * shape[-1])


def _far_apart(rng: np.random.Generator, shape: Shape) -> Any:
    rows, columns = shape[-2:]
    values = np.eye(rows, columns) * (1 + np.arange(columns))
    return values + rng.normal(size=shape) / (4 * max(rows, columns, 1))


positive_definite = Domain(_positive_definite)
regular = Domain(lambda rng, shape: rng.normal(size=shape) + 2 * shape[-1] * np.eye(shape[-1]))
near_identity = Domain(_near_identity)
"""Matrices of any size whose determinants are neither huge nor tiny."""
far_apart = Domain(_far_apart)
"""Matrices, of any two sizes, whose eigenvalues or singular values are about 1, 2, 3, ..."""
