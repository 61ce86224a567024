"""Instruction selection for contractions: kernels of our own, calls of BLAS, or sums of terms.

- *Blocked* (`functrans.lower.product`): large products, by tiles in registers, fused with what is
  computed of their results.
- *Thin*: of a few columns, each a long sum. Vectors go along the terms, of which the small operand
  is copied so that they are neighbours.
- *Library calls* (`functrans.ops.linalg.compiled.blas`): what is left of a certain size, such as a
  few rows, and the parts of a long sum.

What has none of these forms is pulled, element by element, like any sum of products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from functrans.ir.graph import Eqn
from functrans.loop.functions import node_count
from functrans.loop.nodes import INDEX, ZERO, fold, index
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.statements import Store, load
from functrans.loop.target import Target
from functrans.ops.compiled.emission import Element, Emission, Position
from functrans.ops.compiled.statements import nest, vectorised
from functrans.ops.linalg.compiled.blas import (
    Sides,
    calls,
    counts,
    is_called,
    sides,
    work_of,
)

NUMBERS = frozenset(map(np.dtype, ("f4", "f8", "i4", "i8", "u4", "u8")))
"""Whose products are added up in their own dtype: half floats are not."""


class Forms(NamedTuple):
    """Which contractions have a kernel of our own.

    Measured: `fewest_rows` and `least_work` (60 shapes from 1 to 2048), `most_thin` (products with
    2 and 7 columns).
    """

    fewest_rows: int = 16
    """Rows of a blocked product at least."""
    shortest: int = 4
    """Columns, and terms, of a blocked product at least."""
    least_work: int = 1 << 14
    """Multiplications of one that are worth packing, and the waking of a second kernel."""
    largest_packed: int = 1 << 28
    """Bytes of the right operand at most, of which there is a copy as long as it is read."""
    largest_factor: int = 24
    """Operations of an element that are done where it is packed: they are written out for each row
    of a tile."""
    most_thin: int = 7
    """Columns of a thin product at most: their sums are in registers side by side."""
    shortest_thin: int = 64
    """Terms of one at least: as many as are worth adding up the lanes of a vector."""


def is_emitted(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction has a form of its own."""
    return is_blocked(eqn, target) or is_thin(eqn, target) or is_called(eqn, target)


def asks_for_elements(eqn: Eqn, target: Target) -> bool:
    """Whether operands need not be in memory."""
    return is_blocked(eqn, target) or is_thin(eqn, target)


def is_blocked(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction is a blocked product: it is large, with one axis of columns."""
    if not _is_ours(eqn, target):
        return False
    size, limits = counts(eqn), target[Forms]
    packed = eqn.inputs[1].aval
    if packed.size * packed.dtype.itemsize > limits.largest_packed:
        return False
    return (
        size.rows >= max(limits.fewest_rows, 2)
        and min(size.columns, size.summed) >= limits.shortest
        and size.multiplications >= limits.least_work
        and not is_thin(eqn, target)
    )


def is_thin(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction is of a few columns, whose terms are not neighbours as they are."""
    if not _is_ours(eqn, target) or eqn.params.get("symmetric", False):
        return False
    left, right = sides(eqn)
    size, limits = counts(eqn), target[Forms]
    x, y = (operand.aval.shape for operand in eqn.inputs)
    return (
        not left.batch
        and 1 < size.columns <= limits.most_thin
        and size.rows >= limits.fewest_rows
        and size.summed >= limits.shortest_thin
        and _is_last(left.contract, x)
        and not _is_last(right.contract, y)
    )


def _is_ours(eqn: Eqn, target: Target) -> bool:
    """Whether a contraction is one of numbers that have kernels, along one axis of each kind."""
    if "block_products" not in target.stages or eqn.params.get("parts") is not None:
        return False
    given, made = eqn.inputs[0].aval.dtype, eqn.outputs[0].aval.dtype
    if given != made or made not in NUMBERS:
        return False
    x, y = (operand.aval.shape for operand in eqn.inputs)
    left, right = sides(eqn)
    columns, terms = (y[axis] for axis in right.free), (x[axis] for axis in left.contract)
    return sum(n > 1 for n in columns) == sum(n > 1 for n in terms) == 1


def _is_last(axes: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether the one of the axes that is not of extent 1 has neighbours in memory."""
    return all(n == 1 for axis, n in enumerate(shape) if axis > max(axes) and axis not in axes)


def emit(at: Emission) -> None:
    """A contraction in one of its forms."""
    if is_thin(at.eqn, at.target):
        _thin(at)
    elif is_blocked(at.eqn, at.target):
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
    both, rows = len(left.batch), len(left.free)
    parts = position[:both], position[both : both + rows], position[both + rows :]
    return _Indices(loops, parts)


def _blocked(at: Emission) -> None:
    loops, (batch, rows, columns) = _indices(at)
    left, right = sides(at.eqn)
    counter = index("k", counts(at.eqn).summed)
    factors = (
        _factor(at, 0, left, (*batch, *rows), counter),
        _factor(at, 1, right, (*batch, *columns), counter),
    )
    by_side = tuple(tuple(i for i in part if i is not ZERO) for part in (batch, rows, columns))
    at.contract(loops, by_side, counter, factors, at.eqn.params.get("symmetric", False))


def _factor(at: Emission, number: int, axes: Sides, outer: Position, counter: Scalar) -> Scalar:
    """An element of an operand, which is computed where it is packed, or before that."""
    position = _position(at.eqn, number, axes, outer, counter)
    element = at.element(number, position)
    nodes = postorder([element])
    largest = at.target[Forms].largest_factor
    if node_count(nodes) > largest or any(node.op == "fold" for node in nodes):
        return load(at.operand(number), position)
    return element


def _position(eqn: Eqn, number: int, axes: Sides, outer: Position, counter: Scalar) -> Position:
    """Where an element of an operand is."""
    shape = eqn.inputs[number].aval.shape
    found = dict(zip((*axes.batch, *axes.free), outer, strict=True))
    found |= {axis: counter if shape[axis] > 1 else ZERO for axis in axes.contract}
    return tuple(found[axis] for axis in range(len(shape)))


def _thin(at: Emission) -> None:
    """Sums along vectors, of a copy of the small operand whose terms are neighbours."""
    eqn, size = at.eqn, counts(at.eqn)
    left, right = sides(eqn)
    dtype = eqn.outputs[0].aval.dtype
    turned = at.scratch("turned", dtype, (size.columns, size.summed))
    column, term = index("j", size.columns), index("k", size.summed)
    y = eqn.inputs[1].aval.shape
    place = tuple(column if y[axis] > 1 else ZERO for axis in right.free)
    value = at.element(1, _position(eqn, 1, right, place, term))
    copy = nest([column], vectorised(term, Store(turned, (column, term), value), at.target))
    at.call(copy, work=turned.count, writes=(turned,))
    shape = eqn.outputs[0].aval.shape
    rows = [axis for axis in range(len(left.free)) if shape[axis] > 1]
    loops = dict(zip(rows, at.loops([shape[axis] for axis in rows]), strict=True))
    own = tuple(loops.get(axis, ZERO) for axis in range(len(left.free)))
    elements = []
    for number in range(size.columns):
        chosen = const(number, INDEX)

        def product(k: Scalar, chosen: Scalar = chosen) -> Scalar:
            other = load(turned, (chosen, k))
            return at.element(0, _position(eqn, 0, left, own, k)) * other

        here = tuple(chosen if y[axis] > 1 else ZERO for axis in right.free)
        elements.append(Element((*own, *here), fold("add", [size.summed], product)))
    at.compute(at.result(), tuple(loops.values()), rows, elements)
