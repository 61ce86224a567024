"""Instruction selection: which equations are emitted as statements, and which are pulled.

Expects a graph of equations that all have a compiled form, and the values to materialise. Leaves
its roots in an order in which each comes after those that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

from functrans.ir.graph import Graph, Var
from functrans.loop.functions import FEWEST
from functrans.loop.statements import Buffer
from functrans.loop.target import Target
from functrans.lower.select.emitter import Emitter
from functrans.lower.select.root_builder import RootBuilder
from functrans.ops.compiled.elements import pattern
from functrans.ops.compiled.emission import Inner, emitted


def select(
    graph: Graph,
    inputs: Sequence[Buffer],  # the buffers of the graph's inputs
    lower: Callable[[Graph], Inner],  # lowers an inner graph
    kept: Set[Var],  # the values to materialise
    target: Target,
    whole: bool = False,  # whether the graph is a program, and not inside another graph
    fixed: Sequence[Buffer] = (),  # the inputs of which parts are read in place
) -> RootBuilder:
    """The roots of a graph."""
    roots = RootBuilder(graph, inputs, lower, target, whole, fixed)
    in_any_case = {*kept, *graph.outputs}
    # functions of a step are computed in order, beside others of the same operands
    early = {
        eqn.outputs[0]
        for eqn in graph.eqns
        if not whole
        and eqn.outputs[0] in in_any_case
        and eqn.primitive.elementwise
        and pattern(eqn).work >= FEWEST
    }
    for eqn in graph.eqns:
        emit = emitted(eqn, target, not in_any_case.isdisjoint(eqn.outputs))
        if emit is not None:
            at = Emitter(roots, eqn)
            emit.rule(at)
            at.finish()
            continue
        for var in eqn.outputs:
            if var in kept or var in early:
                roots.in_memory(var)
    roots.finish(graph.outputs)
    return roots
