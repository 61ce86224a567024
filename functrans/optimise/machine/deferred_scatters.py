"""In-place scatters: instead of into zeros that are then added to an array.

The gradient of an index operation is a scatter into zeros, which is usually one term of a sum: in
the gradient of a cross-entropy it is added to that of a softmax. An array of zeros is then written
and read for a few elements. If the scatter is applied last, to the other terms, only these elements
are written. Sums of such an array over some of its axes become scatters into smaller arrays. These
come first, because a scatter is not part of a nest, and separates the nests before and after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph
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
from functrans.ops.indexing.gather import scatter_add
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
    if target.lanes_are_threads or not any(eqn.primitive is scatter_add for eqn in graph.eqns):
        return graph
    rules = _rules(graph)
    return _with_early_scatters(replaced(graph, rules)) if rules else graph


def _rules(graph: Graph) -> Mapping[Eqn, Rule]:
    producers = _producers(graph)
    readers: defaultdict[Atom, list[Eqn]] = defaultdict(list)
    for eqn in graph.eqns:
        for atom in eqn.inputs:
            readers[atom].append(eqn)
    rules: dict[Eqn, Rule] = {}
    for eqn in graph.eqns:
        if not _is_into_zeros(eqn, producers) or eqn.outputs[0] in graph.outputs:
            continue
        sums = [one for one in readers[eqn.outputs[0]] if one.primitive is reduce_sum]
        others = [one for one in readers[eqn.outputs[0]] if one.primitive is not reduce_sum]
        # all indices are checked in the scatter that replaces the addition
        if len(others) == 1 and others[0] not in rules and _adds(others[0], eqn):
            rules[others[0]] = partial(_added, others[0], eqn)
            rules |= {one: partial(_summed, one, eqn) for one in sums}
    return rules


def _adds(eqn: Eqn, scatter: Eqn) -> bool:
    """Whether an equation adds something to the whole result of a scatter."""
    return eqn.primitive is add and eqn.outputs[0].aval == scatter.outputs[0].aval


def _producers(graph: Graph) -> Producers:
    return {var: eqn for eqn in graph.eqns for var in eqn.outputs}


def _is_into_zeros(eqn: Eqn, producers: Producers) -> bool:
    """Whether an equation is a scatter of floats into zeros."""
    if eqn.primitive is not scatter_add or eqn.outputs[0].aval.dtype not in DTYPES:
        return False
    return is_zeros(producers.get(eqn.inputs[0]))


def _added(eqn: Eqn, scatter: Eqn, values: Environment) -> list[Any]:
    """The other operand, with the updates scattered into it."""
    (other,) = (x for x in eqn.inputs if x is not scatter.outputs[0])
    into = broadcast_to(values.read(other), shape=eqn.outputs[0].aval.shape)
    updates = [values.read(x) for x in scatter.inputs[1:]]
    return [scatter_add(into, *updates, **scatter.params)]


def _summed(eqn: Eqn, scatter: Eqn, values: Environment) -> list[Any]:
    """The sum of a scatter's result over some axes, as a scatter along the remaining axes."""
    summed, indexed = eqn.params["axes"], scatter.params["axes"]
    updates, *indices = (values.read(x) for x in scatter.inputs[1:])
    places = index_shape([x.aval for x in scatter.inputs[2:]])
    behind = [axis for axis in range(eqn.inputs[0].aval.ndim) if axis not in indexed]
    kept = [n for n, axis in enumerate(indexed) if axis not in summed]
    over = [len(places) + n for n, axis in enumerate(behind) if axis in summed]
    if not kept:
        return [reduce_sum(updates, axes=(*range(len(places)), *over))]
    if over:
        updates = reduce_sum(updates, axes=tuple(over))
    axes = tuple(indexed[n] - sum(axis < indexed[n] for axis in summed) for n in kept)
    given = [broadcast_to(indices[n], shape=places) for n in kept]
    table = zeros(eqn.outputs[0].aval.shape, updates.dtype)
    return [scatter_add(table, updates, *given, axes=axes, unique=False)]


def _with_early_scatters(graph: Graph) -> Graph:
    """The graph, in which scatters of inputs into small arrays of zeros come first."""
    producers = _producers(graph)
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
        if len(found) > MOST_NEEDED or not _is_cheap(eqn):
            return None
        found.add(eqn)
        waiting += eqn.inputs
    return found


def _is_cheap(eqn: Eqn) -> bool:
    return eqn.primitive.scalar is not None or eqn.primitive in MOVES
