"""Library calls of BLAS: which contractions become such, and with which flags.

Row-major matrices are what BLAS takes for their transposes, so ``C = X Y`` is asked for as
``C' = Y' X'``; a transposed operand is a flag. An operand fits if its rows and columns, each
perhaps several axes, are evenly spaced in memory and one of them is dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from functrans.ir.graph import Eqn
from functrans.ir.types import Shape, is_bfloat16
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, convert
from functrans.loop.statements import Address, Buffer, Call, For, Rows, Statement, Store, load
from functrans.loop.target import Target
from functrans.ops.compiled.emission import Emission


class Products(NamedTuple):
    """Contractions: which go to BLAS, and which of these are shared by threads. Not measured."""

    smallest_side: int = 8
    """A contraction with a side shorter than this is done by loops."""
    smallest_work: int = 8192
    """Multiplications, below which calling BLAS costs more than it saves."""
    worth_splitting: int = 1 << 20
    """Multiplications of one contraction that are worth the waking of threads."""


ONE = const(1, INDEX)

HALF, SINGLE, DOUBLE = (np.dtype(one) for one in (np.float16, np.float32, np.float64))

ROUTINES = {DOUBLE: "dgemm", SINGLE: "sgemm"}

BATCHED = {
    (DOUBLE, DOUBLE): "dgemm_batch_strided",
    (SINGLE, SINGLE): "sgemm_batch_strided",
    (HALF, HALF): "hgemm_batch_strided",
    (HALF, SINGLE): "shgemm_batch_strided",
}
"""The same for the matrices of a stack, which a library of a GPU does at once.

By the dtypes of operands and of the result; those that differ are named as in OpenBLAS.
"""


@dataclass(frozen=True)
class Matrix:
    """One operand as BLAS sees it.

    Parameters
    ----------
    flag : bytes
        ``N`` or ``T``.
    leading : int
        The distance in memory of the axis that is not dense.
    """

    flag: bytes
    leading: int


class Sides(NamedTuple):
    """The axes of an operand of a contraction, by what becomes of them."""

    batch: tuple[int, ...]
    free: tuple[int, ...]
    contract: tuple[int, ...]


def sides(eqn: Eqn) -> tuple[Sides, Sides]:
    """The axes of both operands."""
    found = []
    for number, operand in enumerate(eqn.inputs):
        batch, contract = eqn.params["batch"][number], eqn.params["contract"][number]
        free = [i for i in range(len(operand.aval.shape)) if i not in batch and i not in contract]
        found.append(Sides(tuple(batch), tuple(free), tuple(contract)))
    return found[0], found[1]


class Counts(NamedTuple):
    """How large a contraction is, for each index of the batch."""

    rows: int
    columns: int
    summed: int

    @property
    def multiplications(self) -> int:
        return self.rows * self.columns * self.summed


def counts(eqn: Eqn) -> Counts:
    """How large a contraction is."""
    x, y = (operand.aval.shape for operand in eqn.inputs)
    x_sides, y_sides = sides(eqn)
    return Counts(
        prod(x[i] for i in x_sides.free),
        prod(y[i] for i in y_sides.free),
        prod(x[i] for i in x_sides.contract),
    )


def fits_blas(eqn: Eqn, target: Target) -> bool:
    """Whether BLAS has a routine for the numbers of a contraction, and for a stack like its."""
    if target.libraries:
        return _batched(eqn) is not None and strides(eqn) is not None
    given, made = eqn.inputs[0].aval.dtype, eqn.outputs[0].aval.dtype
    return target.routines and given == made and made in ROUTINES


def _batched(eqn: Eqn) -> str | None:
    """The routine of a library of a GPU for the numbers of a contraction."""
    given, made = eqn.inputs[0].aval.dtype, eqn.outputs[0].aval.dtype
    if is_bfloat16(given):
        return "sbgemm_batch_strided" if made == SINGLE else None
    return BATCHED.get((given, made))


def is_large(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction is worth a call of BLAS."""
    size = counts(eqn)
    limits = target[Products]
    return (
        fits_blas(eqn, target)
        and min(size) >= limits.smallest_side
        and size.multiplications >= limits.smallest_work
    )


def is_laid_out(eqn: Eqn) -> bool:
    """Whether both operands lie in memory as BLAS can be told of them."""
    axes = zip(eqn.inputs, sides(eqn), strict=True)
    return all(matrix(x.aval.shape, own.free, own.contract) is not None for x, own in axes)


def is_called(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction is a call of BLAS: large, and laid out for it.

    `functrans.optimise.machine.contraction_layout` lays out those that are large.
    """
    return is_large(eqn, target) and is_laid_out(eqn)


def matrix(shape: Shape, rows: Sequence[int], columns: Sequence[int]) -> Matrix | None:
    """How BLAS is told of the transpose of a (rows, columns) matrix in a C-contiguous array."""
    row, column = spacing(shape, rows), spacing(shape, columns)
    if row is None or column is None:
        return None
    row_count = prod(shape[i] for i in rows)
    column_count = prod(shape[i] for i in columns)
    if column == 1 or column_count == 1:
        return Matrix(b"N", max(row, column_count))
    if row == 1 or row_count == 1:
        return Matrix(b"T", max(column, row_count))
    return None


def spacing(shape: Shape, axes: Sequence[int]) -> int | None:
    """The distance in memory between neighbours along axes taken together, if it is constant."""
    strides = [prod(shape[axis + 1 :]) for axis in axes]
    for i in range(len(axes) - 1):
        if strides[i] != strides[i + 1] * shape[axes[i + 1]]:
            return None
    return strides[-1] if strides else 1


def emit(at: Emission) -> None:
    """A contraction as calls of BLAS.

    BLAS is called for blocks of rows or of columns, for parts of what is summed, or for the
    matrices of a batch, of which threads take their share. The blocks do not depend on the number
    of threads, so neither do the bits of the result.
    """
    if at.target.libraries:
        _emit_at_once(at)
        return
    eqn = at.eqn
    x, y = at.operand(0), at.operand(1)
    target = at.result()
    x_shape, y_shape = (operand.aval.shape for operand in eqn.inputs)
    x_sides, y_sides = sides(eqn)
    left = matrix(x_shape, x_sides.free, x_sides.contract)
    right = matrix(y_shape, y_sides.contract, y_sides.free)
    assert left is not None and right is not None
    rows, columns, summed = size = counts(eqn)
    extents = [x_shape[i] for i in x_sides.batch]
    loops = [index("b", n) for n in extents]
    x_at = _corner(x_shape, x_sides.batch, loops)
    y_at = _corner(y_shape, y_sides.batch, loops)
    out_at = _corner(eqn.outputs[0].aval.shape, range(len(loops)), loops)
    row_count, column_count = const(rows, INDEX), const(columns, INDEX)
    sum_count = const(summed, INDEX)
    parts: int | None = eqn.params.get("parts")
    symmetric: bool = eqn.params.get("symmetric", False)
    first = len(extents)
    if parts is not None:
        part = index("part", parts)
        start, sum_count = _share(part, summed)
        x_at[x_sides.contract[-1]] = start
        y_at[y_sides.contract[-1]] = start
        out_at[0] = part
        loops, first = [part], 1
    mirror: tuple[Statement, ...] = ()
    if symmetric:
        band = index("band", blocks(rows))
        start, row_count = _share(band, rows)
        column_count = Scalar("add", (start, row_count), INDEX)
        x_at[x_sides.free[-1]] = start
        out_at[first] = start
        mirror = _mirrored(target, out_at[:first], start, column_count)
        loops = [*loops, band]
    elif not loops and size.multiplications >= at.target[Products].worth_splitting:
        block = index("block", blocks(max(rows, columns)))
        if rows >= columns:
            start, row_count = _share(block, rows)
            x_at[x_sides.free[-1]] = start
            out_at[len(x_sides.free) - 1] = start
        else:
            start, column_count = _share(block, columns)
            y_at[y_sides.free[-1]] = start
            out_at[-1] = start
        loops = [block]
    dtype = target.dtype
    arguments = (
        right.flag,
        left.flag,
        convert(column_count, np.int32),
        convert(row_count, np.int32),
        convert(sum_count, np.int32),
        const(1, dtype),
        Address(y, tuple(y_at)),
        _int(right.leading),
        Address(x, tuple(x_at)),
        _int(left.leading),
        const(0, dtype),
        Address(target, tuple(out_at)),
        _int(columns),
    )
    by_rows = None
    if len(loops) == len(extents) and len(x_sides.free) == 1:
        by_rows = Rows(3, {8: x_sides.free[0], 11: len(x_sides.batch)})
    body = (Call(ROUTINES[dtype], arguments, (x, y), (target,), by_rows), *mirror)
    for loop in reversed(loops):
        stop = const(loop.attribute[2], INDEX)
        body = (For(loop, ZERO, stop, body, parallel=loop is loops[0]),)
    at.call(body, work=_work(eqn))


def strides(eqn: Eqn) -> tuple[int, int] | None:
    """How far apart the matrices of a stack are in both operands; None if that is not constant."""
    found = []
    for operand, axes in zip(eqn.inputs, sides(eqn), strict=True):
        apart = spacing(operand.aval.shape, axes.batch)
        if apart is None:
            return None
        found.append(apart)
    return found[0], found[1]


def _emit_at_once(at: Emission) -> None:
    """A contraction as one call, for all matrices of a stack."""
    eqn = at.eqn
    x, y, target = at.operand(0), at.operand(1), at.result()
    x_shape, y_shape = (operand.aval.shape for operand in eqn.inputs)
    x_sides, y_sides = sides(eqn)
    left = matrix(x_shape, x_sides.free, x_sides.contract)
    right = matrix(y_shape, y_sides.contract, y_sides.free)
    apart = strides(eqn)
    routine = _batched(eqn)
    assert left is not None and right is not None and apart is not None and routine is not None
    rows, columns, summed = counts(eqn)
    # half floats are scaled by float32
    scalar = DOUBLE if target.dtype == DOUBLE else SINGLE
    arguments = (
        right.flag,
        left.flag,
        _int(columns),
        _int(rows),
        _int(summed),
        const(1, scalar),
        _start(y),
        _int(right.leading),
        const(apart[1], INDEX),
        _start(x),
        _int(left.leading),
        const(apart[0], INDEX),
        const(0, scalar),
        _start(target),
        _int(columns),
        const(rows * columns, INDEX),
        _int(prod(x_shape[i] for i in x_sides.batch)),
    )
    call = Call(routine, arguments, (x, y), (target,))
    at.call((call,), work=_work(eqn), pulled=True)


def _start(one: Buffer) -> Address:
    return Address(one, (ZERO,) * len(one.shape))


def _mirrored(
    target: Buffer, before: Sequence[Scalar], start: Scalar, stop: Scalar
) -> tuple[Statement, ...]:
    """Loops that put a band of rows, up to the diagonal, above the diagonal as well."""
    size = int(target.shape[-1].attribute)
    row, column = index("row", size), index("column", size)
    below = load(target, (*before, row, column))
    copy = Store(target, (*before, column, row), below)
    first = Scalar("max", (start, Scalar("add", (column, ONE), INDEX)), INDEX)
    return (For(column, ZERO, stop, (For(row, first, stop, (copy,)),)),)


def _work(eqn: Eqn) -> int:
    """Roughly as many operations of a loop as take the time of a contraction."""
    x, y = (operand.aval.shape for operand in eqn.inputs)
    return prod(x) * prod(y[i] for i in sides(eqn)[1].free) // 8


def blocks(extent: int) -> int:
    """How many blocks to cut rows or columns into: a power of two."""
    count = 1
    while count < 16 and extent // (2 * count) >= (32 if count < 4 else 96):
        count *= 2
    return count


def _share(block: Scalar, extent: int) -> tuple[Scalar, Scalar]:
    """Where a block starts, and how long it is."""
    count = block.attribute[2]
    length = -(-extent // count)
    start = Scalar("mul", (block, const(length, INDEX)), INDEX)
    if (count - 1) * length > extent:  # the last blocks are empty
        start = Scalar("min", (start, const(extent, INDEX)), INDEX)
    left = Scalar("sub", (const(extent, INDEX), start), INDEX)
    return start, Scalar("min", (const(length, INDEX), left), INDEX)


def _int(value: int) -> Scalar:
    return convert(const(value, INDEX), np.int32)


def _corner(shape: Shape, batch: Sequence[int], loops: Sequence[Scalar]) -> list[Scalar]:
    """The first element of the matrix of a batch."""
    position = [ZERO] * len(shape)
    for axis, loop in zip(batch, loops, strict=True):
        position[axis] = loop
    return position
