"""Instruction selection for contractions: kernels of our own, calls of BLAS, or sums of terms.

- *Blocked* (`functrans.lower.product`): computed by tiles in registers, and fused with operations
  on the result.
- *Library calls* (`functrans.ops.linalg.compiled.blas`): other contractions from a certain size on,
  such as those whose columns lie along several axes.

All other contractions are pulled, element by element, like any sum of products.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

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
from functrans.records import NamedTuple

NUMBERS = frozenset(map(np.dtype, ("f4", "f8", "i4", "i8", "u4", "u8")))
"""The dtypes whose products are added up in the same dtype, unlike half floats."""


class Forms(NamedTuple):
    """Thresholds for blocked kernels of contractions.

    Measured: `fewest_rows`, `shortest` and `least_work` (a grid of shapes from 2 to 700),
    `fewest_narrow_terms` (2 to 16 terms, 2 to 20 columns, 3 to 1000 rows, and stacks of them),
    `least_work_of_long` (small products, and programs that contain them).
    """

    fewest_rows: int = 2
    """The fewest rows of a blocked product."""
    shortest: int = 4
    """The fewest columns, and terms, of a blocked product: shorter sums are unrolled and fused,
    unless their results are stored in memory anyway."""
    fewest_thin_terms: int = 17
    """The fewest terms of a product of fewer columns: so many terms are no longer unrolled."""
    fewest_kept_columns: int = 6
    """The fewest columns of a product of fewer terms, or of small matrices in a stack."""
    few_registers: int = 16
    """The most registers of a machine without AVX-512: there, such columns must fill a vector, or,
    if sums are longer, half a vector."""
    fewest_narrow_terms: int = 8
    """The fewest terms of such a product whose columns fill only a part of a vector. `shortest`, if
    they fill half a vector, which needs no mask."""
    fewest_columns_of_several: int = 128
    """The fewest columns of a product over several axes whose operands are packed without a
    transposed copy (measured: 18 orders of axes)."""
    least_work: int = 1 << 14
    """The fewest multiplications of a product that are worth packing, and a second kernel."""
    least_work_of_long: int = 1 << 11
    """The same for products whose sums have at least `fewest_thin_terms` terms, which would not be
    unrolled either, with a whole vector of columns at least, and for those whose results are stored
    in memory anyway."""
    least_work_in_loops: int = 1 << 22
    """The same for a product in a loop: of smaller ones, an outer loop shares rows among threads,
    with all operations on them."""
    rows_in_loops: tuple[int, ...] = (8, 12, 10, 6, 9, 11, 7, 5, 4)
    """Rows of a block of such a smaller product, the best first; they must divide all its rows."""
    widest_in_parts: int = 48
    """The most columns of a product whose sum is in parts, if the whole right operand is packed: a
    larger copy leaves the cache, whereas BLAS packs as much as the cache holds."""
    largest_in_parts: int = 1 << 22
    """The most bytes of a right operand of more columns, in whole vectors, that is packed then."""
    widest_term: int = 8 << 10
    """The most bytes of one term of both operands for which a part packs some terms at a time."""
    largest_sums: int = 1 << 17
    """The most bytes of the sums of such a part, unless they are whole tiles."""
    heights: tuple[int, ...] = (6, 8, 9, 10, 12)
    """Rows of which tiles are whole, on machines with 16 registers of vectors, too."""
    largest_packed: int = 1 << 28
    """The most bytes of the right operand: its packed copy lives as long as it is read."""
    largest_factor: int = 24
    """The most operations of an operand's element that are computed while it is packed: they are
    unrolled for each row of a tile."""


def is_emitted(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction is a blocked product or a library call."""
    return is_blocked(eqn, target) or is_called(eqn, target)


def is_emitted_if_kept(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction is one if its result is stored in memory anyway, and not fused.

    Then, matrices of a stack may be small, and sums short.
    """
    limits, lanes = target[Forms], target.lanes(eqn.outputs[0].aval.dtype.itemsize)
    has_masks, columns = target.registers > limits.few_registers, counts(eqn).columns
    fewest = limits.fewest_kept_columns if has_masks else lanes // 2
    shortest = min(limits.shortest, 2)
    if not has_masks and columns < lanes:
        shortest = limits.shortest if columns == fewest else limits.fewest_narrow_terms
    is_wide = columns >= fewest
    return is_wide and _is_blocked(eqn, target, shortest, limits.least_work_of_long, _matrices(eqn))


def asks_for_elements(eqn: Eqn, target: Target) -> bool:
    """Whether operands need not be in memory."""
    return is_blocked(eqn, target)


def is_blocked(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction is a blocked product: it is large, with one axis of columns."""
    limits = target[Forms]
    is_wide = counts(eqn).columns >= limits.shortest
    shortest = limits.shortest if is_wide else limits.fewest_thin_terms
    return _is_blocked(eqn, target, shortest, limits.least_work)


def _matrices(eqn: Eqn) -> int:
    """The number of matrices in a stack."""
    (left, _), shape = sides(eqn), eqn.inputs[0].aval.shape
    return prod(shape[axis] for axis in left.batch)


def _is_blocked(
    eqn: Eqn, target: Target, shortest: int, least_work: int, matrices: int = 1
) -> bool:
    """Whether a contraction is blocked if it needs so many terms and multiplications at least."""
    if not _is_ours(eqn, target) or not eqn.outputs[0].aval.size:
        return False
    size, limits, parts = counts(eqn), target[Forms], eqn.params.get("parts")
    work = size.multiplications * matrices
    packed = eqn.inputs[1].aval.size * eqn.inputs[1].aval.dtype.itemsize
    if parts is None or not packs_in_parts(eqn, target):
        few = size.columns <= limits.widest_in_parts
        whole = size.columns % target.lanes(eqn.inputs[1].aval.dtype.itemsize) == 0
        if parts is not None and not (few or (whole and packed <= limits.largest_in_parts)):
            return False
        if packed > limits.largest_packed:
            return False
    if target.in_loop:
        least_work = limits.least_work_in_loops
    elif size.summed >= limits.fewest_thin_terms:
        least_work = min(least_work, limits.least_work_of_long)
        # vectors of ordinary sums are along columns, and take as long with fewer of them
        lanes = target.lanes(eqn.inputs[1].aval.dtype.itemsize)
        work = work * max(size.columns, lanes) // size.columns
    return shared_rows(eqn, target) > 0 or (
        size.rows >= max(limits.fewest_rows, 2)
        and size.summed >= shortest
        and size.columns > 1
        and work >= least_work
    )


def packs_in_parts(eqn: Eqn, target: Target) -> bool:
    """Whether each part of a long sum packs both operands, some terms at a time, in its cache."""
    size, limits, itemsize = counts(eqn), target[Forms], eqn.inputs[1].aval.dtype.itemsize
    if size.columns < target.lanes(itemsize) or not _is_ours(eqn, target):
        return False
    if (size.rows + size.columns) * itemsize > limits.widest_term:
        return False
    if size.rows * size.columns * itemsize <= limits.largest_sums:
        return True
    return any(size.rows % height == 0 for height in limits.heights)


def shared_rows(eqn: Eqn, target: Target) -> int:
    """The rows of a block of a product whose rows an enclosing loop may share; 0 for any other.

    Such a product is in a loop, too small for threads to share it alone, and would be a call. In
    each step, vectors of its right operand are read in place. If that operand is stored in panels,
    the product may have any size.
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
    if is_last(right.contract, y.shape) or size.columns < target.lanes(y.dtype.itemsize):
        return 0
    heights = [n for n in limits.rows_in_loops if size.rows % n == 0]
    # two vectors of sums for each row, and registers for operands
    in_registers = [n for n in heights if 8 * n <= 3 * target.registers]
    return (in_registers or heights or [0])[0]


def _is_ours(eqn: Eqn, target: Target) -> bool:
    """Whether the kernels support a contraction: its dtype, and a single axis of columns.

    Terms may lie along several axes if these can be merged into one in memory, or if shifts
    compute the positions of their elements.
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


def is_last(axes: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether elements are contiguous along the one of the axes whose extent is not 1."""
    return all(n == 1 for axis, n in enumerate(shape) if axis > max(axes) and axis not in axes)


def emit(at: Emission) -> None:
    """A contraction as a blocked product or as calls of BLAS."""
    if is_blocked(at.eqn, at.target) or is_emitted_if_kept(at.eqn, at.target):
        _blocked(at)
    else:
        at.call(calls(at), uncounted=work_of(at.eqn))


class _Indices(NamedTuple):
    """Loops over a result, by its axes, and the indices of an element: stack, rows, columns."""

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
    length = -(-summed // (parts or 1))
    term = counter = index("k", length)
    matrix = batch
    if parts is not None:
        # the sums of the parts are a stack of matrices
        (part,), matrix = batch, ()
        term = at.simplify(part * length + counter)
    factors = (
        _factor(at, 0, left, (*matrix, *rows), term),
        _factor(at, 1, right, (*matrix, *columns), term, in_memory=shared > 0),
    )
    by_side = tuple(tuple(i for i in part if i is not ZERO) for part in (batch, rows, columns))
    symmetric = at.eqn.params.get("symmetric", False)
    together = summed if summed % length else 0
    at.contract(loops, by_side, counter, factors, symmetric, shared, together)


def _factor(
    at: Emission, number: int, axes: Sides, outer: Position, term: Scalar, in_memory: bool = False
) -> Scalar:
    """An element of an operand, computed while it is packed, or loaded if it is computed before."""
    position = _position(at.eqn, number, axes, outer, term)
    element = at.element(number, position)
    nodes = postorder([element])
    largest = at.target[Forms].largest_factor
    is_long = node_count(nodes) > largest or any(node.op == "fold" for node in nodes)
    if is_long or (in_memory and element.op != "load"):
        return load(at.operand(number), position)
    return element


def _position(eqn: Eqn, number: int, axes: Sides, outer: Position, counter: Scalar) -> Position:
    """The position of an element in an operand."""
    shape = eqn.inputs[number].aval.shape
    found = dict(zip((*axes.batch, *axes.free), outer, strict=True))
    long = [axis for axis in axes.contract if shape[axis] > 1]
    places = separated(counter, [shape[axis] for axis in long]) if len(long) > 1 else (counter,)
    found |= dict.fromkeys(axes.contract, ZERO) | dict(zip(long, places, strict=True))
    return tuple(found[axis] for axis in range(len(shape)))
