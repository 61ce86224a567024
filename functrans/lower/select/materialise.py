"""Materialisation: which values of a graph are worth computing once and keeping.

What is not kept is computed wherever it is used: that is right for what is cheap, or used once.
"""

from __future__ import annotations

from collections.abc import Set

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var
from functrans.loop.nodes import UNROLLED
from functrans.loop.target import Materialisation, Target
from functrans.ops.compiled.elements import Pattern, pattern
from functrans.ops.compiled.emission import assembles, in_memory

AS_A_WHOLE = Pattern(0, 2, (), (), 0)
"""The pattern of what a library or a loop computes: from memory to memory."""


def _pattern(eqn: Eqn, target: Target) -> Pattern:
    if assembles(eqn, target):
        return Pattern(0, 1, (1,) * len(eqn.inputs), (False,) * len(eqn.inputs), 0)
    return AS_A_WHOLE if in_memory(eqn, target) else pattern(eqn)


def choose(graph: Graph, target: Target) -> set[Var]:
    """The variables to compute once and keep, beside the outputs."""
    uses: dict[Var, list[tuple[Eqn, int]]] = {}
    for eqn in graph.eqns:
        for i, atom in enumerate(eqn.inputs):
            if isinstance(atom, Var):
                uses.setdefault(atom, []).append((eqn, i))
    outputs = set(graph.outputs)
    limits = target.materialisation
    patterns = {eqn: _pattern(eqn, target) for eqn in graph.eqns}
    joins = {eqn for eqn in graph.eqns if assembles(eqn, target)}
    chosen: set[Var] = set()
    costs: dict[Atom, int] = {}
    depths: dict[Atom, int] = {}
    constants: set[Atom] = set()
    dear: set[Atom] = set()
    for eqn in graph.eqns:
        own = patterns[eqn]
        if own.dear or not dear.isdisjoint(eqn.inputs):
            dear.update(eqn.outputs)
        cost = own.cost
        if own is not AS_A_WHOLE:
            cost += sum(
                costs.get(x, 0) * reads for x, reads in zip(eqn.inputs, own.reads, strict=True)
            )
        depth = max((depths.get(x, 0) for x in eqn.inputs), default=0)
        depth += eqn.primitive.scalar is None
        if eqn in joins:
            chosen.update(eqn.outputs)
            continue
        if own.folds == 1 and all(isinstance(x, Literal) or x in constants for x in eqn.inputs):
            # made of nothing: its zeros and ones are worth more than the work they save
            constants.update(eqn.outputs)
            continue
        for var in eqn.outputs:
            used = uses.get(var, [])
            if (
                depth > limits.deepest
                or (var in dear and _spreads(var, used, joins, limits))
                or _keep(var, own, cost, used, patterns, joins, var in outputs, limits)
            ):
                chosen.add(var)
                dear.discard(var)
                costs[var] = depths[var] = 0
            else:
                costs[var] = cost
                depths[var] = depth
    return chosen


def _spreads(
    var: Var, uses: list[tuple[Eqn, int]], joins: Set[Eqn], limits: Materialisation
) -> bool:
    """Whether each element is used again and again, and not just in turn by the innermost loop."""
    shape = var.aval.shape
    if not shape or shape[-1] <= UNROLLED:
        return False
    return any(
        out.aval.size > limits.repeated * var.aval.size
        for eqn, _ in uses
        for out in eqn.outputs
        if eqn not in joins
    )


def _keep(
    var: Var,
    own: Pattern,
    cost: int,
    uses: list[tuple[Eqn, int]],
    patterns: dict[Eqn, Pattern],
    joins: Set[Eqn],
    is_output: bool,
    limits: Materialisation,
) -> bool:
    if not uses and not is_output:
        return False
    if own.folds > 1 or cost > limits.largest_expression:
        return True
    if any(patterns[eqn] is AS_A_WHOLE for eqn, _ in uses):
        return True
    if is_output:
        # computed for the output in any case, and loaded or shared from there
        return bool(uses) and cost > 0
    if cost <= limits.cheap:
        return any(patterns[eqn].by_data[i] for eqn, i in uses) and cost > 0
    if len(uses) > 1 or any(patterns[eqn].by_data[i] for eqn, i in uses):
        return True
    ((eqn, _),) = uses
    if eqn in joins:
        return False
    size = max(out.aval.size for out in eqn.outputs) * patterns[eqn].folds
    return size > limits.repeated * var.aval.size
