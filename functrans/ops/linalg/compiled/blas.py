"""BLAS calls for contractions: which contractions are BLAS products, and the arguments of the call.

To BLAS, a row-major matrix is its transpose, so ``C = X Y`` is computed as ``C' = Y' X'``; a
transposed operand is a flag. An operand fits if its rows and columns, each possibly several axes,
are evenly spaced in memory, and one of them is contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from functrans.ir.graph import Eqn
from functrans.ir.types import Shape
from functrans.lazily import lazy
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, convert
from functrans.loop.statements import Address, Buffer, Call, For, Rows, Statement, Store, load
from functrans.loop.target import Target
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import nest
from functrans.records import NamedTuple, dataclass


class Products(NamedTuple):
    """Thresholds for BLAS calls, and for sharing them among threads.

    Measured: `least_half_bytes` (products of 4 to 200 terms with their own transposes).
    """

    smallest_side: int = 8
    """The shortest side of a contraction for BLAS; shorter ones use loops."""
    smallest_work: int = 8192
    """The fewest multiplications for which calling BLAS is profitable."""
    worth_splitting: int = 1 << 20
    """The fewest multiplications of a contraction that threads share."""
    least_half_bytes: int = 192
    """A symmetric product is computed by halves if the terms of an element have at least this many
    bytes; with fewer, mirroring an element takes longer than computing it."""


ONE = const(1, INDEX)

_fits_library = lazy("functrans.ops.linalg.compiled.grid.library_products:fits")

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)

ROUTINES = {DOUBLE: "dgemm", SINGLE: "sgemm"}


@dataclass(frozen=True)
class Matrix:
    """An operand as a BLAS argument."""

    flag: bytes  # ``N`` or ``T``
    leading: int  # the distance in memory of the axis that is not dense


class Sides(NamedTuple):
    """The axes of an operand of a contraction, by their role."""

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
    """The extents of a contraction, for each index of the batch."""

    rows: int
    columns: int
    summed: int

    @property
    def multiplications(self) -> int:
        return self.rows * self.columns * self.summed


def counts(eqn: Eqn) -> Counts:
    """The extents of a contraction."""
    x, y = (operand.aval.shape for operand in eqn.inputs)
    x_sides, y_sides = sides(eqn)
    return Counts(
        prod(x[i] for i in x_sides.free),
        prod(y[i] for i in y_sides.free),
        prod(x[i] for i in x_sides.contract),
    )


def fits_blas(eqn: Eqn, target: Target) -> bool:
    """Whether BLAS has a routine for the dtype and the batch of a contraction."""
    if target.libraries:
        return _fits_library(eqn)
    given, made = eqn.inputs[0].aval.dtype, eqn.outputs[0].aval.dtype
    return target.routines and given == made and made in ROUTINES


def is_large(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction is large enough for a BLAS call."""
    size = counts(eqn)
    limits = target[Products]
    return (
        fits_blas(eqn, target)
        and min(size) >= limits.smallest_side
        and size.multiplications >= limits.smallest_work
    )


def is_laid_out(eqn: Eqn) -> bool:
    """Whether BLAS can describe the memory layout of both operands."""
    axes = zip(eqn.inputs, sides(eqn), strict=True)
    return all(matrix(x.aval.shape, own.free, own.contract) is not None for x, own in axes)


def is_called(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction is a BLAS call: it is large, and laid out for BLAS.

    `functrans.optimise.machine.contraction_layout` transposes the operands of large contractions.
    """
    return is_large(eqn, target) and is_laid_out(eqn)


def matrix(shape: Shape, rows: Sequence[int], columns: Sequence[int]) -> Matrix | None:
    """BLAS's description of the transpose of a (rows, columns) matrix in a C-contiguous array."""
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
    """The constant memory stride along several axes taken as one; None if it varies."""
    strides = [prod(shape[axis + 1 :]) for axis in axes]
    for i in range(len(axes) - 1):
        if strides[i] != strides[i + 1] * shape[axes[i + 1]]:
            return None
    return strides[-1] if strides else 1


class _Call:
    """A BLAS call, and the loops around it: over a stack, over parts of the sum, over blocks.

    Corners are the positions of the first elements of the call's matrices.
    """

    def __init__(self, at: Emission) -> None:
        self.eqn = eqn = at.eqn
        self.x, self.y = at.operand(0), at.operand(1)
        self.target = at.result()
        self.x_sides, self.y_sides = sides(eqn)
        x_shape, y_shape = (operand.aval.shape for operand in eqn.inputs)
        self.size = counts(eqn)
        self.rows, self.columns, self.summed = (const(n, INDEX) for n in self.size)
        self.batch = [index("b", x_shape[i]) for i in self.x_sides.batch]
        self.loops = list(self.batch)
        self.x_at = _corner(x_shape, self.x_sides.batch, self.batch)
        self.y_at = _corner(y_shape, self.y_sides.batch, self.batch)
        self.out_at = _corner(eqn.outputs[0].aval.shape, range(len(self.batch)), self.batch)
        self.mirror: tuple[Statement, ...] = ()

    def split_sum(self, parts: int) -> None:
        """Sum the terms in parts, which form a new first axis of the result."""
        part = index("part", parts)
        start, self.summed = _share(part, self.size.summed)
        self.x_at[self.x_sides.contract[-1]] = start
        self.y_at[self.y_sides.contract[-1]] = start
        self.out_at[0] = part
        self.loops = [part]

    def halve(self) -> None:
        """Compute a band of rows up to the diagonal, and mirror it to above the diagonal."""
        first = len(self.loops)
        band = index("band", blocks(self.size.rows))
        start, self.rows = _share(band, self.size.rows)
        self.columns = Scalar("add", (start, self.rows), INDEX)
        self.x_at[self.x_sides.free[-1]] = start
        self.out_at[first] = start
        self.mirror = _mirrored(self.target, self.out_at[:first], start, self.columns)
        self.loops.append(band)

    def split_longest_side(self) -> None:
        """Compute a block of rows or of columns."""
        block = index("block", blocks(max(self.size.rows, self.size.columns)))
        if self.size.rows >= self.size.columns:
            start, self.rows = _share(block, self.size.rows)
            self.x_at[self.x_sides.free[-1]] = start
            self.out_at[len(self.x_sides.free) - 1] = start
        else:
            start, self.columns = _share(block, self.size.columns)
            self.y_at[self.y_sides.free[-1]] = start
            self.out_at[-1] = start
        self.loops = [block]

    def statements(self) -> tuple[Statement, ...]:
        """The call in its loops, of which the outermost is divided among threads."""
        left, right = matrices(self.eqn)
        dtype = self.target.dtype
        arguments = (
            right.flag,
            left.flag,
            convert(self.columns, np.int32),
            convert(self.rows, np.int32),
            convert(self.summed, np.int32),
            const(1, dtype),
            Address(self.y, tuple(self.y_at)),
            int32(right.leading),
            Address(self.x, tuple(self.x_at)),
            int32(left.leading),
            const(0, dtype),
            Address(self.target, tuple(self.out_at)),
            int32(self.size.columns),
        )
        by_rows = None
        if len(self.loops) == len(self.batch) and len(self.x_sides.free) == 1:
            by_rows = Rows(3, {8: self.x_sides.free[0], 11: len(self.batch)})
        call = Call(ROUTINES[dtype], arguments, (self.x, self.y), (self.target,), by_rows)
        body: tuple[Statement, ...] = (call, *self.mirror)
        for loop in reversed(self.loops):
            body = nest([loop], body, parallel=loop is self.loops[0])
        return body


def calls(at: Emission) -> tuple[Statement, ...]:
    """A contraction as BLAS calls.

    BLAS is called for blocks of rows or of columns, for parts of the sum, or for the matrices of a
    batch, which are divided among threads. The blocks do not depend on the number of threads, so
    neither do the bits of the result.
    """
    call, params = _Call(at), at.eqn.params
    if params.get("parts") is not None:
        call.split_sum(params["parts"])
    if params.get("symmetric", False):
        call.halve()
    elif not call.loops and call.size.multiplications >= at.target[Products].worth_splitting:
        call.split_longest_side()
    return call.statements()


def matrices(eqn: Eqn) -> tuple[Matrix, Matrix]:
    """Both operands of a contraction as BLAS arguments."""
    x, y = (operand.aval.shape for operand in eqn.inputs)
    x_sides, y_sides = sides(eqn)
    left, right = (
        matrix(x, x_sides.free, x_sides.contract),
        matrix(y, y_sides.contract, y_sides.free),
    )
    assert left is not None and right is not None
    return left, right


def _mirrored(
    target: Buffer, before: Sequence[Scalar], start: Scalar, stop: Scalar
) -> tuple[Statement, ...]:
    """Loops that mirror a band of rows, up to the diagonal, to above the diagonal."""
    size = int(target.shape[-1].attribute)
    row, column = index("row", size), index("column", size)
    below = load(target, (*before, row, column))
    copy = Store(target, (*before, column, row), below)
    first = Scalar("max", (start, Scalar("add", (column, ONE), INDEX)), INDEX)
    return (For(column, ZERO, stop, (For(row, first, stop, (copy,)),)),)


def work_of(eqn: Eqn) -> int:
    """The operations of a contraction."""
    x, y = (operand.aval.shape for operand in eqn.inputs)
    return 2 * prod(x) * prod(y[i] for i in sides(eqn)[1].free)


def blocks(extent: int) -> int:
    """The number of blocks of rows or columns, a power of two."""
    count = 1
    while count < 16 and extent // (2 * count) >= (32 if count < 4 else 96):
        count *= 2
    return count


def _share(block: Scalar, extent: int) -> tuple[Scalar, Scalar]:
    """The start and the length of a block."""
    count = block.attribute[2]
    length = -(-extent // count)
    start = Scalar("mul", (block, const(length, INDEX)), INDEX)
    if (count - 1) * length > extent:  # the last blocks may be empty
        start = Scalar("min", (start, const(extent, INDEX)), INDEX)
    left = Scalar("sub", (const(extent, INDEX), start), INDEX)
    return start, Scalar("min", (const(length, INDEX), left), INDEX)


def int32(value: int) -> Scalar:
    return convert(const(value, INDEX), np.int32)


def _corner(shape: Shape, batch: Sequence[int], loops: Sequence[Scalar]) -> list[Scalar]:
    """The position of the first element of a matrix of the batch."""
    position = [ZERO] * len(shape)
    for axis, loop in zip(batch, loops, strict=True):
        position[axis] = loop
    return position
