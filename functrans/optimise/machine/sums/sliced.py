"""Slicing before contraction: elements of a product that no operation reads are not computed.

A matrix product would be computed as a whole, even if only a slice of it is read, such as three of
four homogeneous coordinates. Each axis of the result is an axis of an operand, so a slice of the
result is a contraction of slices of the operands. Each element of the diagonal of a product, as in
its trace, needs one row and one column.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph
from functrans.loop.target import Target
from functrans.ops.arrays.slicing import read_slice, slice_p
from functrans.ops.arrays.structural import move_axis, reshape, reshape_p, transpose, transpose_p
from functrans.ops.compiled.places import Index, Range, whole
from functrans.ops.linalg.compiled.blas import Sides, sides
from functrans.ops.linalg.contraction import dot_general
from functrans.optimise.machine.diagonals import diagonal_at
from functrans.optimise.rewrite import Rule
from functrans.trace.stage import Environment, apply


def of_slices(graph: Graph, target: Target) -> Mapping[Eqn, Rule]:
    """Rules for slices of contractions, or of their transposes, if only the slice is read."""
    found: dict[Eqn, Rule] = {}
    for eqn in graph.eqns:
        if eqn.primitive is not slice_p:
            continue
        (x,) = eqn.inputs
        maker, order = graph.makers.get(x), tuple(range(x.aval.ndim))
        if maker is not None and maker.primitive is transpose_p:
            order = maker.params["permutation"]
            unused = graph.uses[x] == 1
            (x,) = maker.inputs
            maker = graph.makers.get(x) if unused else None
        if maker is not None and maker.primitive is dot_general and graph.uses[x] == 1:
            found[eqn] = partial(_of_operands, eqn, order, maker)
    return found


def of_diagonals(graph: Graph, target: Target) -> Mapping[Eqn, Rule]:
    """Rules for diagonals of products of which only the diagonal is read."""
    found: dict[Eqn, Rule] = {}
    for eqn in graph.eqns:
        flat = graph.makers.get(eqn.inputs[0]) if eqn.primitive is slice_p else None
        if flat is None or flat.primitive is not reshape_p or graph.uses[eqn.inputs[0]] > 1:
            continue
        (x,) = flat.inputs
        product = graph.makers.get(x)
        if product is None or product.primitive is not dot_general or graph.uses[x] > 1:
            continue
        left, right = sides(product)
        place = diagonal_at(eqn.params["index"], eqn.inputs[0].aval.shape, x.aval.shape)
        if place is not None and left.free and len(right.free) == 1:
            found[eqn] = partial(_of_rows_and_columns, eqn, place, product)
    return found


def _of_rows_and_columns(
    eqn: Eqn, place: tuple[int, int], product: Eqn, values: Environment
) -> list[Any]:
    """The diagonal of a product, as a stack of products of one row and one column each."""
    count = eqn.outputs[0].aval.shape[-1]
    operands, batch = [], []
    for atom, axes, start in zip(product.inputs, sides(product), place, strict=True):
        kept = [whole(atom.aval.shape[axis]) for axis in (*axes.batch, *axes.free)]
        index = _index(atom, axes, [*kept[:-1], (start, count, 1)])
        operands.append(read_slice(values.read(atom), index=index))
        batch.append((*axes.batch, axes.free[-1]))
    made = dot_general(*operands, contract=product.params["contract"], batch=tuple(batch))
    along = len(batch[0]) - 1
    return [move_axis(made, along, made.ndim - 1)]


def _of_operands(eqn: Eqn, order: tuple[int, ...], product: Eqn, values: Environment) -> list[Any]:
    """The slice of a product with its axes in some order, as a product of slices."""
    ranges = [(x, 1, 1) if isinstance(x, int) else x for x in eqn.params["index"]]
    by_axis: dict[int, Range] = dict(zip(order, ranges, strict=True))
    left, right = sides(product)
    batch, rows = len(left.batch), len(left.free)
    numbers = range(len(order))
    own = numbers[: batch + rows], (*numbers[:batch], *numbers[batch + rows :])
    operands = []
    for atom, axes, kept in zip(product.inputs, (left, right), own, strict=True):
        index = _index(atom, axes, [by_axis[number] for number in kept])
        operands.append(read_slice(values.read(atom), index=index))
    (made,) = apply(product, operands)
    return [reshape(transpose(made, permutation=order), shape=eqn.outputs[0].aval.shape)]


def _index(operand: Atom, axes: Sides, ranges: list[Range]) -> Index:
    """The slice of an operand, given the ranges of the axes that it shares with the result."""
    found = dict(zip((*axes.batch, *axes.free), ranges, strict=True))
    return tuple(found.get(axis, whole(n)) for axis, n in enumerate(operand.aval.shape))
