"""Instruction selection for contractions: kernels of our own, calls of BLAS, or sums of terms.

- *Blocked* (`functrans.lower.product`): by tiles in registers, fused with what is computed of
  their results.
- *Library calls* (`functrans.ops.linalg.compiled.blas`): what is left of a certain size, such as
  the parts of a long sum for a wide result.

What has none of these forms is pulled, element by element, like any sum of products.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from functrans.ir.graph import Eqn
from functrans.loop.functions import node_count
from functrans.loop.nodes import ZERO, index, separated
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import load
from functrans.loop.target import Target
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.linalg.compiled.blas import (
    Sides,
    calls,
    counts,
    is_called,
    sides,
    spacing,
    work_of,
)

NUMBERS = frozenset(map(np.dtype, ("f4", "f8", "i4", "i8", "u4", "u8")))
"""Whose products are added up in their own dtype: half floats are not."""


class Forms(NamedTuple):
    """Thresholds for blocked kernels of contractions.

    Measured: `fewest_rows`, `shortest` and `least_work` (a grid of shapes from 2 to 700),
    `least_work_of_long` (small products, and what contains them).
    """

    fewest_rows: int = 2
    """Rows of a blocked product at least."""
    shortest: int = 4
    """Columns, and terms, of a blocked product at least: shorter sums are written out and fused,
    unless they are in memory in any case."""
    fewest_thin_terms: int = 17
    """Terms at least of a product of fewer columns: so many are no longer written out."""
    fewest_kept_columns: int = 6
    """Columns at least of a product of fewer terms, or of small matrices in a stack."""
    few_registers: int = 16
    """Registers at most of a machine without AVX-512: there, a vector of these is full, and sums
    are not short."""
    fewest_columns_of_several: int = 128
    """Columns at least of one that sums over several axes, which are packed from where they are
    (measured: 18 orders of axes)."""
    least_work: int = 1 << 14
    """Multiplications of one that are worth packing, and the waking of a second kernel."""
    least_work_of_long: int = 1 << 11
    """The same where sums have `fewest_thin_terms`, and would not be written out either."""
    least_work_in_loops: int = 1 << 22
    """Those of one in a loop, that is worth a kernel of its own: rows of smaller ones are shared
    with all that is done of them."""
    rows_in_loops: tuple[int, ...] = (8, 12, 10, 6, 9, 11, 7, 5, 4)
    """Rows of a block of a smaller one, the best ones first: as many as divide all of them."""
    widest_in_parts: int = 48
    """Columns of a product at most whose sum is in parts: all of the right operand is packed, which
    leaves the cache, and BLAS packs as much as the cache holds."""
    largest_in_parts: int = 1 << 22
    """Bytes of the right operand at most of which more columns, whole vectors, are packed."""
    widest_term: int = 5 << 10
    """Bytes of a term of both operands at most of which a part packs some terms at a time."""
    largest_sums: int = 1 << 17
    """Bytes of a part's sums at most then, unless they are whole tiles."""
    largest_packed: int = 1 << 28
    """Bytes of the right operand at most, of which there is a copy as long as it is read."""
    largest_factor: int = 24
    """Operations of an element that are done where it is packed: they are written out for each row
    of a tile."""


def is_emitted(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction has a form of its own."""
    return is_blocked(eqn, target) or is_called(eqn, target)


def is_emitted_if_kept(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction has one if its result is in memory in any case, not fused.

    Matrices of a stack, and sums, may be short then.
    """
    limits, lanes = target[Forms], target.lanes(eqn.outputs[0].aval.dtype.itemsize)
    has_masks = target.registers > limits.few_registers
    fewest = limits.fewest_kept_columns
    is_wide = counts(eqn).columns >= (fewest if has_masks else max(fewest, lanes))
    shortest = min(limits.shortest, 2) if has_masks else limits.shortest
    return is_wide and _is_blocked(eqn, target, shortest, _matrices(eqn))


def asks_for_elements(eqn: Eqn, target: Target) -> bool:
    """Whether operands need not be in memory."""
    return is_blocked(eqn, target)


def is_blocked(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction is a blocked product: it is large, with one axis of columns."""
    limits = target[Forms]
    is_wide = counts(eqn).columns >= limits.shortest
    return _is_blocked(eqn, target, limits.shortest if is_wide else limits.fewest_thin_terms)


def _matrices(eqn: Eqn) -> int:
    """How many matrices there are in a stack."""
    (left, _), shape = sides(eqn), eqn.inputs[0].aval.shape
    return prod(shape[axis] for axis in left.batch)


def _is_blocked(eqn: Eqn, target: Target, shortest: int, matrices: int = 1) -> bool:
    """Whether it is one, if that is worth it from so many terms on, and of so many matrices."""
    if not _is_ours(eqn, target) or not eqn.outputs[0].aval.size:
        return False
    size, limits, parts = counts(eqn), target[Forms], eqn.params.get("parts")
    packed = eqn.inputs[1].aval.size * eqn.inputs[1].aval.dtype.itemsize
    if parts is not None and size.summed % parts:
        return False
    if parts is None or not packs_in_parts(eqn, target):
        few = size.columns <= limits.widest_in_parts
        whole = size.columns % target.lanes(eqn.inputs[1].aval.dtype.itemsize) == 0
        if parts is not None and not (few or (whole and packed <= limits.largest_in_parts)):
            return False
        if packed > limits.largest_packed:
            return False
    least_work = limits.least_work_in_loops if target.in_loop else limits.least_work
    if not target.in_loop and size.summed >= limits.fewest_thin_terms:
        least_work = min(least_work, limits.least_work_of_long)
    return shared_rows(eqn, target) > 0 or (
        size.rows >= max(limits.fewest_rows, 2)
        and size.summed >= shortest
        and size.columns > 1
        and size.multiplications * matrices >= least_work
    )


def packs_in_parts(eqn: Eqn, target: Target) -> bool:
    """Whether each part of a long sum packs some terms at a time of both operands, in its cache."""
    size, limits, itemsize = counts(eqn), target[Forms], eqn.inputs[1].aval.dtype.itemsize
    if size.columns % (2 * target.lanes(itemsize)) or not _is_ours(eqn, target):
        return False
    if (
        eqn.params.get("symmetric", False)
        or (size.rows + size.columns) * itemsize > limits.widest_term
    ):
        return False
    return size.rows % 8 == 0 or size.rows * size.columns * itemsize <= limits.largest_sums


def shared_rows(eqn: Eqn, target: Target) -> int:
    """The rows of a block of a product whose rows a loop around may share; 0 for any other.

    It is in a loop, too small to be shared on its own, and would be a call. Its right operand is
    read in vectors where it is, in each step. One that is in panels is worth that at any size.
    """
    limits, size = target[Forms], counts(eqn)
    is_long = size.multiplications >= limits.least_work_in_loops
    if not target.in_loop or (is_long and not eqn.params.get("panels", False)):
        return 0
    if eqn.params.get("symmetric", False) or eqn.params.get("parts") is not None:
        return 0
    if not _is_ours(eqn, target) or not is_called(eqn, target):
        return 0
    left, right = sides(eqn)
    x, y = (operand.aval for operand in eqn.inputs)
    if left.batch or any(
        sum(x.shape[axis] > 1 for axis in axes) != 1 for axes in (left.free, left.contract)
    ):
        return 0
    if _is_last(right.contract, y.shape) or size.columns < target.lanes(y.dtype.itemsize):
        return 0
    heights = [n for n in limits.rows_in_loops if size.rows % n == 0]
    # two vectors of sums for each row, and something else beside them
    in_registers = [n for n in heights if 8 * n <= 3 * target.registers]
    return (in_registers or heights or [0])[0]


def _is_ours(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction is one of numbers that have kernels, with one axis of columns.

    Terms may lie along several axes that are one in memory, or whose places are found by shifts.
    """
    if "block_products" not in target.stages:
        return False
    given, made = eqn.inputs[0].aval.dtype, eqn.outputs[0].aval.dtype
    if given != made or made not in NUMBERS:
        return False
    x, y = (operand.aval.shape for operand in eqn.inputs)
    left, right = sides(eqn)
    columns = [y[axis] for axis in right.free if y[axis] > 1]
    terms = [x[axis] for axis in left.contract if x[axis] > 1]
    if len(columns) != 1 or len(terms) <= 1:
        return len(columns) == len(terms) == 1
    if None not in (spacing(x, left.contract), spacing(y, right.contract)):
        return True
    are_powers = all(n & (n - 1) == 0 for n in terms[1:])
    return are_powers and columns[0] >= target[Forms].fewest_columns_of_several


def _is_last(axes: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether the one of the axes that is not of extent 1 has neighbours in memory."""
    return all(n == 1 for axis, n in enumerate(shape) if axis > max(axes) and axis not in axes)


def emit(at: Emission) -> None:
    """A contraction in one of its forms."""
    if is_blocked(at.eqn, at.target) or is_emitted_if_kept(at.eqn, at.target):
        _blocked(at)
    else:
        at.call(calls(at), work=work_of(at.eqn))


class _Indices(NamedTuple):
    """The loops over a result, by its axes, and where an element is: stack, rows, columns."""

    loops: dict[int, Scalar]
    parts: tuple[Position, Position, Position]


def _indices(at: Emission) -> _Indices:
    shape, (left, _) = at.eqn.outputs[0].aval.shape, sides(at.eqn)
    long = [axis for axis, extent in enumerate(shape) if extent > 1]
    loops = dict(zip(long, at.loops([shape[axis] for axis in long]), strict=True))
    position = tuple(loops.get(axis, ZERO) for axis in range(len(shape)))
    both = len(left.batch) + (at.eqn.params.get("parts") is not None)
    rows = len(left.free)
    parts = position[:both], position[both : both + rows], position[both + rows :]
    return _Indices(loops, parts)


def _blocked(at: Emission) -> None:
    loops, (batch, rows, columns) = _indices(at)
    left, right = sides(at.eqn)
    shared = shared_rows(at.eqn, at.target)
    summed, parts = counts(at.eqn).summed, at.eqn.params.get("parts")
    term = counter = index("k", summed // (parts or 1))
    matrix = batch
    if parts is not None:
        # the sums of the parts are a stack of matrices
        (part,), matrix = batch, ()
        term = at.simplify(part * (summed // parts) + counter)
    factors = (
        _factor(at, 0, left, (*matrix, *rows), term),
        _factor(at, 1, right, (*matrix, *columns), term, in_memory=shared > 0),
    )
    by_side = tuple(tuple(i for i in part if i is not ZERO) for part in (batch, rows, columns))
    symmetric = at.eqn.params.get("symmetric", False)
    at.contract(loops, by_side, counter, factors, symmetric, shared)


def _factor(
    at: Emission,
    number: int,
    axes: Sides,
    outer: Position,
    term: Scalar,
    in_memory: bool = False,
) -> Scalar:
    """An element of an operand, which is computed where it is packed, or before that."""
    position = _position(at.eqn, number, axes, outer, term)
    element = at.element(number, position)
    nodes = postorder([element])
    largest = at.target[Forms].largest_factor
    is_long = node_count(nodes) > largest or any(node.op == "fold" for node in nodes)
    if is_long or (in_memory and element.op != "load"):
        return load(at.operand(number), position)
    return element


def _position(eqn: Eqn, number: int, axes: Sides, outer: Position, counter: Scalar) -> Position:
    """Where an element of an operand is."""
    shape = eqn.inputs[number].aval.shape
    found = dict(zip((*axes.batch, *axes.free), outer, strict=True))
    long = [axis for axis in axes.contract if shape[axis] > 1]
    places = separated(counter, [shape[axis] for axis in long]) if len(long) > 1 else (counter,)
    found |= dict.fromkeys(axes.contract, ZERO) | dict(zip(long, places, strict=True))
    return tuple(found[axis] for axis in range(len(shape)))
