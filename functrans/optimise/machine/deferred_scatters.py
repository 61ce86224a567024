"""Scatter sinking: a scatter into zeros that are added to an array updates this array in place.

The gradient of an index operation is a scatter into zeros, which is usually one term of a sum: in
the gradient of a cross-entropy it is added to that of a softmax. An array of zeros is then written
and read for a few elements. If the scatter is applied last, to the other terms, only these elements
are written. It is moved to the end of a chain of additions, because nests before and after a
scatter each traverse the array. Sums over some axes, of such an array or of what it was added to,
become scatters into smaller arrays. These come first, because a scatter is not part of a nest, and
separates the nests before and after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce
from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.loop.target import Target
from functrans.ops.arrays.structural import (
    absent_p,
    broadcast_to,
    broadcast_to_p,
    full_p,
    iota,
    is_zeros,
    reduce_sum,
    reshape_p,
    zeros,
)
from functrans.ops.elementwise.arithmetic import add
from functrans.ops.indexing.gather import scatter_add, writes_several
from functrans.ops.indexing.positions import index_shape
from functrans.optimise.machine.sums.factors import DTYPES
from functrans.optimise.rewrite import Rule, replaced
from functrans.trace.stage import Environment

Producers = Mapping[Atom, Eqn]

MOVES = (absent_p, full_p, iota, broadcast_to_p, reshape_p)

MOST_NEEDED = 16
"""The largest number of equations that are moved together with a scatter."""


def add_scatters_last(graph: Graph, target: Target) -> Graph:
    """Scatter into an accumulator instead of into zeros that are then added to it.

    Expects scatters as derivatives create them.
    Leaves no scatter into zeros that is only added to something.
    """
    if target.lanes_are_threads:
        return graph
    rules = _Deferral(graph).rules
    return _with_early_scatters(replaced(graph, rules)) if rules else graph


class _Deferral:
    """Rules that carry scatters along sums of arrays, to the last of these sums.

    Up to there, the variables of the graph stand for the other terms; None if there are none.
    """

    def __init__(self, graph: Graph) -> None:
        self.outputs = frozenset(graph.outputs)
        self.rules: dict[Eqn, Rule] = {}
        self.readers = graph.readers
        self.carried: dict[Atom, list[Eqn]] = {}
        """The scatters that are terms of a variable, and are applied later."""
        for eqn in graph.eqns:
            if _is_into_zeros(eqn, graph.makers):
                self._scatter(eqn)
            elif any(x in self.carried for x in eqn.inputs):
                self._read(eqn)

    def _scatter(self, eqn: Eqn) -> None:
        if self._is_only_added(eqn.outputs[0]):
            self.carried[eqn.outputs[0]] = [eqn]
            self.rules[eqn] = lambda values: [None]

    def _read(self, eqn: Eqn) -> None:
        """An addition to a variable, or a sum of it, applied to the variable without scatters."""
        scatters = [one for x in eqn.inputs for one in self.carried.get(x, ())]
        if eqn.primitive is reduce_sum:
            self.rules[eqn] = partial(_summed, eqn, scatters)
        elif self._is_only_added(eqn.outputs[0]):
            self.carried[eqn.outputs[0]] = scatters
            self.rules[eqn] = lambda values: [_added(eqn, values)]
        else:
            # all indices are checked here
            self.rules[eqn] = partial(_with_scatters, eqn, scatters)

    def _is_only_added(self, made: Var) -> bool:
        """Whether a whole array is added to one other, and read by nothing else but sums of it."""
        others = [one for one in self.readers.get(made, ()) if one.primitive is not reduce_sum]
        if made in self.outputs or len(others) != 1:
            return False
        return others[0].primitive is add and others[0].outputs[0].aval == made.aval


def _summed(eqn: Eqn, scatters: list[Eqn], values: Environment) -> list[Any]:
    """The sum over some axes, with scatters along the remaining axes."""
    axes, rest = eqn.params["axes"], values.read(eqn.inputs[0])
    terms = [] if rest is None else [reduce_sum(rest, axes=axes)]
    return [reduce(add, (*terms, *(_sum_of(one, axes, values) for one in scatters)))]


def _added(eqn: Eqn, values: Environment) -> Any:
    """The sum of the terms that are not scatters; None if there are none."""
    terms = [x for x in map(values.read, eqn.inputs) if x is not None]
    return broadcast_to(reduce(add, terms), shape=eqn.outputs[0].aval.shape) if terms else None


def _with_scatters(eqn: Eqn, scatters: list[Eqn], values: Environment) -> list[Any]:
    """The sum of all terms: the updates are scattered into the sum of the others."""
    aval, into = eqn.outputs[0].aval, _added(eqn, values)
    made = zeros(aval.shape, aval.dtype) if into is None else into
    for one in scatters:
        made = scatter_add(made, *(values.read(x) for x in one.inputs[1:]), **one.params)
    return [made]


def _is_into_zeros(eqn: Eqn, producers: Producers) -> bool:
    """Whether an equation is a scatter of floats to several positions of zeros."""
    if eqn.primitive is not scatter_add or eqn.outputs[0].aval.dtype not in DTYPES:
        return False
    return writes_several(eqn) and is_zeros(producers.get(eqn.inputs[0]))


def _sum_of(scatter: Eqn, summed: tuple[int, ...], values: Environment) -> Any:
    """The sum of a scatter's result over some axes, as a scatter along the remaining axes."""
    indexed, shape = scatter.params["axes"], scatter.outputs[0].aval.shape
    updates, *indices = (values.read(x) for x in scatter.inputs[1:])
    places = index_shape([x.aval for x in scatter.inputs[2:]])
    behind = [axis for axis in range(len(shape)) if axis not in indexed]
    kept = [n for n, axis in enumerate(indexed) if axis not in summed]
    over = [len(places) + n for n, axis in enumerate(behind) if axis in summed]
    if not kept:
        return reduce_sum(updates, axes=(*range(len(places)), *over))
    if over:
        updates = reduce_sum(updates, axes=tuple(over))
    axes = tuple(indexed[n] - sum(axis < indexed[n] for axis in summed) for n in kept)
    given = [broadcast_to(indices[n], shape=places) for n in kept]
    table = zeros(tuple(n for axis, n in enumerate(shape) if axis not in summed), updates.dtype)
    return scatter_add(table, updates, *given, axes=axes, unique=False)


def _with_early_scatters(graph: Graph) -> Graph:
    """The graph, in which scatters of inputs into small arrays of zeros come first."""
    producers = graph.makers
    early: set[Eqn] = set()
    for eqn in graph.eqns:
        if _is_into_zeros(eqn, producers) and eqn.outputs[0].aval.size <= eqn.inputs[1].aval.size:
            early |= _needed(eqn, producers) or set()
    rest = [eqn for eqn in graph.eqns if eqn not in early]
    return Graph(graph.inputs, [*filter(early.__contains__, graph.eqns), *rest], graph.outputs)


def _needed(scatter: Eqn, producers: Producers) -> set[Eqn] | None:
    """The equations that a scatter needs; None if these are more than gathers from inputs."""
    found, waiting = {scatter}, [*scatter.inputs]
    while waiting:
        eqn = producers.get(waiting.pop())
        if eqn is None or eqn in found:
            continue
        is_cheap = eqn.primitive.scalar is not None or eqn.primitive in MOVES
        if len(found) > MOST_NEEDED or not is_cheap:
            return None
        found.add(eqn)
        waiting += eqn.inputs
    return found
