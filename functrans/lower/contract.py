"""Contractions as calls of BLAS: which of them, and with which flags.

Row-major matrices are what BLAS takes for their transposes, so ``C = X Y`` is asked for as
``C' = Y' X'``; a transposed operand is a flag. An operand fits if its rows and columns, each
perhaps several axes, are evenly spaced in memory and one of them is dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.ir.nodes import INDEX, index
from functrans.ir.primitive import registry
from functrans.ir.scalar import Scalar, const, convert
from functrans.ir.types import Aval, Shape
from functrans.lower.loops import Address, Buffer, Call, For, Rows, Statement
from functrans.lower.pull import Puller

CONTRACTION = "dot_general"

SMALLEST_SIDE = 8
"""A contraction with a side shorter than this is done by loops."""

SMALLEST_WORK = 8192
"""Multiplications, below which calling BLAS costs more than it saves."""

WORTH_SPLITTING = 1 << 20
"""Multiplications of one contraction that are worth the waking of threads."""

LARGEST_PATTERN = 16
"""An identity matrix is made by so few equations at most."""

_ROUTINES = {np.dtype(np.float64): "dgemm", np.dtype(np.float32): "sgemm"}


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


@dataclass(frozen=True)
class Sides:
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


def by_library(eqn: Eqn) -> bool:
    """Whether an equation is to be a call of BLAS."""
    if eqn.primitive.name != CONTRACTION or eqn.outputs[0].aval.dtype not in _ROUTINES:
        return False
    x, y = (operand.aval.shape for operand in eqn.inputs)
    x_sides, y_sides = sides(eqn)
    rows = prod(x[i] for i in x_sides.free)
    columns = prod(y[i] for i in y_sides.free)
    summed = prod(x[i] for i in x_sides.contract)
    return min(rows, columns, summed) >= SMALLEST_SIDE and rows * columns * summed >= SMALLEST_WORK


def matrix(shape: Shape, rows: Sequence[int], columns: Sequence[int]) -> Matrix | None:
    """How BLAS is told of the transpose of a (rows, columns) matrix in a C-contiguous array."""
    row, column = _spacing(shape, rows), _spacing(shape, columns)
    if row is None or column is None:
        return None
    row_count = prod(shape[i] for i in rows)
    column_count = prod(shape[i] for i in columns)
    if column == 1 or column_count == 1:
        return Matrix(b"N", max(row, column_count))
    if row == 1 or row_count == 1:
        return Matrix(b"T", max(column, row_count))
    return None


def _spacing(shape: Shape, axes: Sequence[int]) -> int | None:
    """The distance in memory between neighbours along axes taken together, if it is constant."""
    strides = [prod(shape[axis + 1 :]) for axis in axes]
    for i in range(len(axes) - 1):
        if strides[i] != strides[i + 1] * shape[axes[i + 1]]:
            return None
    return strides[-1] if strides else 1


def call(eqn: Eqn, target: Buffer, x: Buffer, y: Buffer) -> tuple[Statement, ...]:
    """The statements that compute a contraction, prepared by `prepare`, into a buffer.

    BLAS is called for blocks of rows or of columns (or for the matrices of a batch) of which
    threads take their share. The blocks do not depend on the number of threads, so neither do the
    bits of the result.
    """
    x_shape, y_shape = (operand.aval.shape for operand in eqn.inputs)
    x_sides, y_sides = sides(eqn)
    left = matrix(x_shape, x_sides.free, x_sides.contract)
    right = matrix(y_shape, y_sides.contract, y_sides.free)
    assert left is not None and right is not None
    rows = prod(x_shape[i] for i in x_sides.free)
    columns = prod(y_shape[i] for i in y_sides.free)
    summed = prod(x_shape[i] for i in x_sides.contract)
    extents = [x_shape[i] for i in x_sides.batch]
    loops = [index("b", n) for n in extents]
    x_at = _corner(x_shape, x_sides.batch, loops)
    y_at = _corner(y_shape, y_sides.batch, loops)
    out_at = _corner(eqn.outputs[0].aval.shape, range(len(loops)), loops)
    row_count, column_count = const(rows, INDEX), const(columns, INDEX)
    if not extents and rows * columns * summed >= WORTH_SPLITTING:
        block = index("block", _blocks(max(rows, columns)))
        if rows >= columns:
            start, row_count = _share(block, rows)
            x_at[x_sides.free[-1]] = start
            out_at[len(x_sides.free) - 1] = start
        else:
            start, column_count = _share(block, columns)
            y_at[y_sides.free[-1]] = start
            out_at[-1] = start
        loops, extents = [block], [block.attribute[2]]
    dtype = target.dtype
    arguments = (
        right.flag,
        left.flag,
        convert(column_count, np.int32),
        convert(row_count, np.int32),
        _int(summed),
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
    if len(x_sides.free) == 1:
        by_rows = Rows(3, {8: x_sides.free[0], 11: len(x_sides.batch)})
    body: Statement = Call(_ROUTINES[dtype], arguments, (x, y), (target,), by_rows)
    for depth in reversed(range(len(loops))):
        stop = const(extents[depth], INDEX)
        body = For(loops[depth], const(0, INDEX), stop, (body,), parallel=depth == 0)
    return (body,)


def work(eqn: Eqn) -> int:
    """Roughly as many operations of a loop as take the time of a contraction."""
    x, y = (operand.aval.shape for operand in eqn.inputs)
    return prod(x) * prod(y[i] for i in sides(eqn)[1].free) // 8


def _blocks(extent: int) -> int:
    """How many blocks to cut rows or columns into: a power of two."""
    blocks = 1
    while blocks < 16 and extent // (2 * blocks) >= (32 if blocks < 4 else 96):
        blocks *= 2
    return blocks


def _share(block: Scalar, extent: int) -> tuple[Scalar, Scalar]:
    """Where a block starts, and how long it is."""
    length = -(-extent // block.attribute[2])
    start = Scalar("mul", (block, const(length, INDEX)), INDEX)
    left = Scalar("sub", (const(extent, INDEX), start), INDEX)
    return start, Scalar("min", (const(length, INDEX), left), INDEX)


def _int(value: int) -> Scalar:
    return convert(const(value, INDEX), np.int32)


def _corner(shape: Shape, batch: Sequence[int], loops: Sequence[Scalar]) -> list[Scalar]:
    """The first element of the matrix of a batch."""
    position = [const(0, INDEX)] * len(shape)
    for axis, loop in zip(batch, loops, strict=True):
        position[axis] = loop
    return position


# -- fitting graphs --------------------------------------------------------------------------------


def prepare(graph: Graph) -> Graph:
    """Let contractions read through transposes, and reorder in memory what BLAS cannot take."""
    if not any(map(by_library, graph.eqns)):
        return graph
    producers = {var: eqn for eqn in graph.eqns for var in eqn.outputs}
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        if not by_library(eqn):
            eqns.append(eqn)
            continue
        known = _by_identity(eqn, producers)
        eqns += _prepared(eqn, producers) if known is None else [known]
    return Graph(graph.inputs, eqns, graph.outputs)


def _by_identity(eqn: Eqn, producers: dict[Var, Eqn]) -> Eqn | None:
    """What a contraction with an identity matrix is: the other operand, its axes reordered."""
    for number, axes in enumerate(sides(eqn)):
        if axes.batch or len(axes.free) != 1 or len(axes.contract) != 1:
            continue
        if not _is_identity(eqn.inputs[number], producers):
            continue
        other = sides(eqn)[1 - number]
        groups = (other.contract, other.free) if number == 0 else (other.free, other.contract)
        order = (*groups[0], *groups[1])
        made: list[Eqn] = []
        _transposed(eqn.inputs[1 - number], order, eqn, made)
        (turn,) = made
        return Eqn(turn.primitive, turn.inputs, eqn.outputs, turn.params, eqn.source)
    return None


def _is_identity(atom: Atom, producers: dict[Var, Eqn]) -> bool:
    """Whether a value is an identity matrix: its elements are those of ``i == j``, as numbers."""
    if atom.aval.shape[0] != atom.aval.shape[1] or not isinstance(atom, Var):
        return False
    # only what is made of nothing: counters, constants
    needed: set[Eqn] = set()
    stack: list[Var] = [atom]
    while stack:
        maker = producers.get(stack.pop())
        if maker is None or len(needed) > LARGEST_PATTERN:
            return False
        if maker.primitive.scalar is None and maker.primitive.pull is None:
            return False
        needed.add(maker)
        stack += [x for x in maker.inputs if isinstance(x, Var) and producers.get(x) not in needed]
    row, column = (index("i", n) for n in atom.aval.shape)
    element = Puller(producers, {}).element(atom, (row, column))
    if element.op != "convert" or element.args[0].op != "eq":
        return False
    return set(element.args[0].args) == {row, column}


def _prepared(eqn: Eqn, producers: dict[Var, Eqn]) -> list[Eqn]:
    made: list[Eqn] = []
    operands: list[Atom] = []
    contract: list[tuple[int, ...]] = []
    batch: list[tuple[int, ...]] = []
    for number, (operand, axes) in enumerate(zip(eqn.inputs, sides(eqn), strict=True)):
        source, order = _untransposed(operand, producers)
        through = Sides(
            tuple(order[i] for i in axes.batch),
            tuple(order[i] for i in axes.free),
            tuple(order[i] for i in axes.contract),
        )
        # the result's axes are in the order of the operand's free ones
        if list(through.free) == sorted(through.free) and _fits(source.aval, through):
            operand, axes = source, through
        elif not _fits(operand.aval, axes):
            groups = (axes.free, axes.contract) if number == 0 else (axes.contract, axes.free)
            order = (*axes.batch, *groups[0], *groups[1])
            operand = _transposed(operand, order, eqn, made)
            axes = Sides(
                tuple(order.index(i) for i in axes.batch),
                tuple(order.index(i) for i in axes.free),
                tuple(order.index(i) for i in axes.contract),
            )
        operands.append(operand)
        contract.append(axes.contract)
        batch.append(axes.batch)
    params = {"contract": tuple(contract), "batch": tuple(batch)}
    made.append(Eqn(eqn.primitive, operands, eqn.outputs, params, eqn.source))
    return made


def _fits(aval: Aval, axes: Sides) -> bool:
    return matrix(aval.shape, axes.free, axes.contract) is not None


def _untransposed(atom: Atom, producers: dict[Var, Eqn]) -> tuple[Atom, tuple[int, ...]]:
    """What a transpose is of, and which of its axes each axis is."""
    maker = producers.get(atom) if isinstance(atom, Var) else None
    if maker is None or maker.primitive.name != "transpose":
        return atom, tuple(range(len(atom.aval.shape)))
    return maker.inputs[0], tuple(maker.params["permutation"])


def _transposed(operand: Atom, order: tuple[int, ...], eqn: Eqn, made: list[Eqn]) -> Var:
    out = Var(operand.aval.update(shape=tuple(operand.aval.shape[i] for i in order)))
    primitive = registry["transpose"]
    made.append(Eqn(primitive, (operand,), (out,), {"permutation": order}, eqn.source))
    return out
