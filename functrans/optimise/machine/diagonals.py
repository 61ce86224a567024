"""Strength reduction for embedded diagonals: row and column are compared, without a division."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph
from functrans.ir.types import Shape
from functrans.loop.target import Target
from functrans.ops.arrays.slicing import embed, embed_p, update_slice_p
from functrans.ops.arrays.structural import (
    broadcast_to,
    expand_axes,
    iota,
    is_zeros,
    reshape,
    reshape_p,
)
from functrans.ops.compiled.places import Index, whole
from functrans.ops.elementwise.choice import masked
from functrans.ops.elementwise.compare import equal
from functrans.optimise.rewrite import replaced
from functrans.records import NamedTuple
from functrans.trace.stage import Environment


class _Diagonal(NamedTuple):
    """The numbers on a diagonal of matrices, and the row and column of its first element."""

    numbers: Atom
    row: int
    column: int


def compare_for_diagonals(graph: Graph, target: Target) -> Graph:
    """Embed diagonals in matrices by comparing row and column indices.

    Expects any graph: a diagonal is a strided slice of the flattened matrix.
    Leaves no reshape of zeros in which every (columns + 1)-th element is another number.
    """
    found = {eqn: one for eqn in graph.eqns if (one := _found(eqn, graph.makers)) is not None}
    return replaced(graph, {eqn: partial(_by_comparison, eqn, one) for eqn, one in found.items()})


def _found(eqn: Eqn, makers: Mapping[Atom, Eqn]) -> _Diagonal | None:
    maker = makers.get(eqn.inputs[0]) if eqn.primitive is reshape_p else None
    if maker is None or not _is_alone(maker, makers):
        return None
    shape = eqn.outputs[0].aval.shape
    place = diagonal_at(maker.params["index"], maker.outputs[0].aval.shape, shape)
    return None if place is None else _Diagonal(maker.inputs[-1], *place)


def diagonal_at(
    index: Index,  # a slice of matrices whose last two axes are flattened into one
    flat: Shape,  # the shape of the flattened matrices
    shape: Shape,  # the shape of the matrices
) -> tuple[int, int] | None:
    """The row and column where a diagonal of matrices begins; None if the slice is no diagonal."""
    if len(shape) < 2:
        return None
    *leading, size = flat
    *before, along = index
    rows, columns = shape[-2:]
    if (*leading, size) != (*shape[:-2], rows * columns) or isinstance(along, int):
        return None
    if before != [whole(extent) for extent in leading]:
        return None
    start, count, step = along
    row, column = divmod(start, columns) if columns else (0, 0)
    return (row, column) if step == columns + 1 and column + count <= columns else None


def _is_alone(maker: Eqn, makers: Mapping[Atom, Eqn]) -> bool:
    """Whether all other elements of a result are zeros."""
    if maker.primitive is update_slice_p:
        return is_zeros(makers.get(maker.inputs[0]))
    return maker.primitive is embed_p


def _by_comparison(eqn: Eqn, found: _Diagonal, values: Environment) -> Sequence[Any]:
    numbers = values.read(found.numbers)
    *leading, rows, columns = eqn.outputs[0].aval.shape
    place = (found.row, numbers.shape[-1], 1)
    index = (*map(whole, leading), place)
    by_row = embed(numbers, index=index, shape=(*leading, rows))
    number, other = (iota(size=n, dtype=np.dtype(np.int64)) for n in (rows, columns))
    moved = number + (found.column - found.row)
    inside = equal(reshape(moved, shape=(rows, 1)), other)
    shape = (*leading, rows, columns)
    spread = broadcast_to(expand_axes(by_row, (by_row.ndim,)), shape=shape)
    return [masked(broadcast_to(inside, shape=shape), spread)]
