"""Contractions as calls of BLAS: which of them, and with which flags.

Row-major matrices are what BLAS takes for their transposes, so ``C = X Y`` is asked for as
``C' = Y' X'``; a transposed operand is a flag. An operand fits if its rows and columns, each
perhaps several axes, are evenly spaced in memory and one of them is dense.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.ir.nodes import INDEX, index
from functrans.ir.primitive import registry
from functrans.ir.scalar import Scalar, const, convert
from functrans.ir.types import Shape
from functrans.lower.loops import Address, Buffer, Call, For, Rows, Statement
from functrans.lower.pull import Puller

CONTRACTION = "dot_general"

SMALLEST_SIDE = 8
"""A contraction with a side shorter than this is done by loops."""

SMALLEST_WORK = 8192
"""Multiplications, below which calling BLAS costs more than it saves."""

WORTH_SPLITTING = 1 << 20
"""Multiplications of one contraction that are worth the waking of threads."""

LONG_SUM = 4
"""A sum so many times as long as the sides of its matrix is cut into parts."""

LEAST_PART = 128

MOST_PARTS = 8

PARTS = "parts"
"""The parameter of a contraction whose result is given in parts, to be added up: their number."""

Order = tuple[int, ...]
"""Axes of an array, by their numbers."""

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

    BLAS is called for blocks of rows or of columns, for parts of what is summed, or for the
    matrices of a batch, of which threads take their share. The blocks do not depend on the number
    of threads, so neither do the bits of the result.
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
    sum_count = const(summed, INDEX)
    parts = eqn.params.get(PARTS, 1)
    if parts > 1 or (not extents and rows * columns * summed >= WORTH_SPLITTING):
        block = index("block", parts if parts > 1 else _blocks(max(rows, columns)))
        if parts > 1:
            start, sum_count = _share(block, summed)
            x_at[x_sides.contract[-1]] = start
            y_at[y_sides.contract[-1]] = start
            out_at[0] = block
        elif rows >= columns:
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
    if parts == 1 and len(x_sides.free) == 1:
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


def _parts(eqn: Eqn) -> int:
    """Into how many parts to cut what is summed: where a long sum makes a small matrix."""
    x, y = (operand.aval.shape for operand in eqn.inputs)
    x_sides, y_sides = sides(eqn)
    rows = prod(x[i] for i in x_sides.free)
    columns = prod(y[i] for i in y_sides.free)
    summed = prod(x[i] for i in x_sides.contract)
    if x_sides.batch or rows * columns * summed < WORTH_SPLITTING:
        return 1
    if summed < LONG_SUM * max(rows, columns):
        return 1
    return min(MOST_PARTS, 1 << (summed // LEAST_PART).bit_length() - 1)


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
    uses = Counter(x for eqn in graph.eqns for x in eqn.inputs) + Counter(graph.outputs)
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        if not by_library(eqn):
            eqns.append(eqn)
            continue
        known = _by_identity(eqn, producers)
        if known is not None:
            producers[known.outputs[0]] = known
        eqns += _prepared(eqn, producers, uses) if known is None else [known]
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


def _prepared(eqn: Eqn, producers: dict[Var, Eqn], uses: Mapping[Atom, int]) -> list[Eqn]:
    made: list[Eqn] = []
    operands: list[Atom] = []
    contract: list[tuple[int, ...]] = []
    batch: list[tuple[int, ...]] = []
    for number, (operand, axes) in enumerate(zip(eqn.inputs, sides(eqn), strict=True)):
        source, through = _untransposed(operand, producers)
        seen = Sides(*(tuple(through[i] for i in group) for group in axes))
        # the result's axes are in the order of the operand's free ones
        if list(seen.free) == sorted(seen.free) and _fits(source.aval.shape, seen):
            operand, axes = source, seen
        # what is computed for this alone can be put into memory in any order
        order = _order_in_memory(operand, producers) if uses[operand] == 1 else None
        if order is not None and not _fits(*_reordered(operand.aval.shape, axes, order)):
            order = None
        if order is None and not _fits(operand.aval.shape, axes):
            groups = (axes.free, axes.contract) if number == 0 else (axes.contract, axes.free)
            order = (*axes.batch, *groups[0], *groups[1])
        if order is not None:
            _, axes = _reordered(operand.aval.shape, axes, order)
            operand = _transposed(operand, order, eqn, made)
        operands.append(operand)
        contract.append(axes.contract)
        batch.append(axes.batch)
    params = {"contract": tuple(contract), "batch": tuple(batch)}
    parts = _parts(eqn)
    if parts == 1:
        return [*made, Eqn(eqn.primitive, operands, eqn.outputs, params, eqn.source)]
    (out,) = eqn.outputs
    each = Var(out.aval.update(shape=(parts, *out.aval.shape)))
    made.append(Eqn(eqn.primitive, operands, (each,), {**params, PARTS: parts}, eqn.source))
    made.append(Eqn(registry["reduce_sum"], (each,), (out,), {"axes": (0,)}, eqn.source))
    return made


def _fits(shape: Shape, axes: Sides) -> bool:
    return matrix(shape, axes.free, axes.contract) is not None


def _reordered(shape: Shape, axes: Sides, order: Order) -> tuple[Shape, Sides]:
    """The shape and the sides of an operand whose axes are put in another order."""
    sides = Sides(*(tuple(order.index(i) for i in group) for group in axes))
    return tuple(shape[i] for i in order), sides


def _order_in_memory(atom: Atom, producers: dict[Var, Eqn]) -> Order | None:
    """In which order the axes lie in most of the arrays that a value is computed from.

    None if that is their own order, or if it is not computed number by number.
    """
    votes: Counter[Order] = Counter()
    stack: list[tuple[Atom, Order]] = [(atom, tuple(range(len(atom.aval.shape))))]
    seen = set(stack)
    while stack:
        each, axes = stack.pop()
        maker = producers.get(each) if isinstance(each, Var) else None
        reached: list[tuple[Atom, Order]] = []
        if maker is not None and maker.primitive.name == "transpose":
            inverse = np.argsort(maker.params["permutation"])
            reached = [(maker.inputs[0], tuple(axes[i] for i in inverse))]
        elif maker is not None and maker.primitive.scalar is not None:
            reached = [(x, axes) for x in maker.inputs if x.aval.shape == each.aval.shape]
        elif maker is None or maker.primitive.name != "broadcast_to":
            votes[axes] += 1
        stack += [item for item in reached if item not in seen]
        seen.update(reached)
    ((order, most),) = votes.most_common(1) or ((None, 0),)
    own = tuple(range(len(atom.aval.shape)))
    return order if order != own and most > votes[own] else None


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
