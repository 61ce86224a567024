"""Sums over scatters: norms and sums of the gradients of a table, which are zero in most rows.

The gradient of one sample with respect to an embedding is a scatter of a few rows into a table of
zeros. The sum of such tables over the samples is a single scatter of all rows. The squared norm of
a table is that of its nonzero rows. For it, rows with the same index are added, by a product with
the matrix that compares all indices with each other, and each index is counted once.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.ir.primitive import Primitive
from functrans.loop.target import Target
from functrans.ops.arrays.structural import (
    broadcast_to,
    broadcast_to_p,
    cast,
    iota,
    is_zeros,
    reduce_sum,
    reshape,
    reshape_p,
    zeros,
)
from functrans.ops.elementwise.arithmetic import divide, multiply
from functrans.ops.elementwise.compare import equal
from functrans.ops.elementwise.power import square
from functrans.ops.indexing.gather import gather, scatter_add
from functrans.ops.indexing.positions import INDEX, index_shape
from functrans.ops.linalg.contraction import dot_general
from functrans.optimise.machine.sums.factors import DTYPES
from functrans.optimise.rewrite import Rule
from functrans.records import NamedTuple
from functrans.trace.stage import Environment


class _Tables(NamedTuple):
    """Tables of zeros, one for each sample, to which rows are added, and their scalings."""

    scatter: Eqn
    # pairs of ``multiply`` or ``divide`` and a number for each sample
    scalings: tuple[tuple[Primitive, Atom], ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one table."""
        return self.scatter.outputs[0].aval.shape[1:]

    @property
    def axes(self) -> tuple[int, ...]:
        """The indexed axes of a table."""
        return tuple(axis - 1 for axis in self.scatter.params["axes"][1:])

    @property
    def index_shape(self) -> tuple[int, ...]:
        """The shape of the indices; the samples come first."""
        return index_shape([x.aval for x in self.scatter.inputs[2:]])

    @property
    def rows(self) -> int:
        """The number of rows that are added to one table."""
        return prod(self.index_shape[1:])

    def updates(self, values: Environment) -> Any:
        """The rows of all samples, scaled."""
        updates = values.read(self.scatter.inputs[1])
        for combine, atom in self.scalings:
            shape = (atom.aval.size, *(1,) * (updates.ndim - 1))
            updates = combine(updates, reshape(values.read(atom), shape=shape))
        return updates

    def indices(self, values: Environment) -> list[Any]:
        """The indices of the rows in their tables."""
        given = (values.read(atom) for atom in self.scatter.inputs[3:])
        return [broadcast_to(index, shape=self.index_shape) for index in given]

    def total(self, values: Environment) -> list[Any]:
        """The sum of all tables."""
        updates = self.updates(values)
        empty = zeros(self.shape, updates.dtype)
        return [scatter_add(empty, updates, *self.indices(values), axes=self.axes, unique=False)]

    def squares(self, values: Environment) -> list[Any]:
        """The sum of the squares of each table."""
        samples, rows = self.index_shape[0], self.rows
        updates = self.updates(values)
        updates = reshape(updates, shape=(samples, rows, updates.size // (samples * rows)))
        if rows == 1:
            return [reduce_sum(square(updates), axes=(1, 2))]
        indexed = tuple(self.shape[axis] for axis in self.axes)
        numbers = reshape(iota(size=prod(indexed), dtype=INDEX), shape=indexed)
        places = gather(numbers, *self.indices(values), axes=tuple(range(len(indexed))))
        first, second = (reshape(places, shape=(samples, *s)) for s in ((rows, 1), (1, rows)))
        same = cast(equal(first, second), dtype=updates.dtype)
        added = dot_general(same, updates, contract=((2,), (1,)), batch=((0,), (0,)))
        # an index occurs as often as rows are added to it
        times = reduce_sum(same, axes=(2,))
        return [reduce_sum(reduce_sum(square(added), axes=(2,)) / times, axes=(1,))]


def of_scatters(graph: Graph, target: Target) -> Mapping[Eqn, Rule]:
    """The rules that compute sums of tables, and of their squares, without the tables."""
    rules: dict[Eqn, Rule] = {}
    for eqn in graph.eqns:
        if eqn.primitive is not reduce_sum or eqn.outputs[0].aval.dtype not in DTYPES:
            continue
        axes = eqn.params["axes"]
        if axes == (0,):
            found = _tables(eqn.inputs[0], graph.makers)
            if found is not None:
                rules[eqn] = found.total
        elif axes == tuple(range(1, eqn.inputs[0].aval.ndim)):
            found = _squared(eqn.inputs[0], graph.makers)
            if found is not None and _is_sparse(found, target):
                rules[eqn] = found.squares
    return rules


def _squared(atom: Atom, producers: Mapping[Atom, Eqn]) -> _Tables | None:
    """The tables whose elementwise square a value is; None if it is no square of tables."""
    maker = producers.get(atom)
    if maker is None or maker.primitive not in (square, multiply):
        return None
    if maker.inputs[0] is not maker.inputs[-1]:
        return None
    return _tables(maker.inputs[0], producers)


def _tables(atom: Atom, producers: Mapping[Atom, Eqn]) -> _Tables | None:
    """The tables that a value consists of, one for each sample; None if it does not."""
    scalings: list[tuple[Primitive, Atom]] = []
    while (maker := producers.get(atom)) is not None and maker.primitive in (multiply, divide):
        x, y = maker.inputs
        if maker.primitive is multiply and _is_by_sample(x, maker):
            x, y = y, x
        if not _is_by_sample(y, maker):
            return None
        scalings.insert(0, (maker.primitive, y))
        atom = x
    if maker is None or maker.primitive is not scatter_add or not _is_by_tables(maker, producers):
        return None
    return _Tables(maker, tuple(scalings))


def _is_by_sample(x: Atom, eqn: Eqn) -> bool:
    """Whether an operand has one number for each sample."""
    samples, *rest = eqn.outputs[0].aval.shape
    return isinstance(x, Var) and x.aval.shape == (samples, *(1 for _ in rest))


def _is_by_tables(scatter: Eqn, producers: Mapping[Atom, Eqn]) -> bool:
    """Whether a scatter adds to tables of zeros, each sample's rows to its own table."""
    table, _, *indices = scatter.inputs
    axes = scatter.params["axes"]
    if axes[0] != 0 or len(axes) == 1 or scatter.outputs[0].aval.size == 0:
        return False
    maker = _source(table, producers)
    if not is_zeros(maker):
        return False
    shape = index_shape([x.aval for x in indices])
    samples = scatter.outputs[0].aval.shape[0]
    if indices[0].aval.shape != (samples, *(1 for _ in shape[1:])) or not shape:
        return False
    counter = _source(indices[0], producers)
    return counter is not None and counter.primitive is iota


def _source(atom: Atom, producers: Mapping[Atom, Eqn]) -> Eqn | None:
    """The equation that computes a value, before reshapes and broadcasts."""
    maker = producers.get(atom)
    while maker is not None and maker.primitive in (reshape_p, broadcast_to_p):
        maker = producers.get(maker.inputs[0])
    return maker


def _is_sparse(tables: _Tables, target: Target) -> bool:
    """Whether comparing all rows with each other is less work than passing over the table."""
    places = prod(tables.shape[axis] for axis in tables.axes)
    return 0 < tables.rows**2 <= places * target.through_memory
