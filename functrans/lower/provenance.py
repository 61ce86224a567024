"""Provenance of kernels: the equations that each step of a plan computes.

A kernel does not refer to equations, because it may serve several groups of them. So the graph is
planned once more, while recording the buffers of its values: a step computes the equations between
the values that it reads and those that it writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from functrans.ir.graph import Eqn, Graph, Var
from functrans.loop.statements import Buffer
from functrans.loop.target import Target
from functrans.lower.draft import Draft
from functrans.lower.pipeline import Stage, plan
from functrans.lower.plan import Plan, Step


def equations_of_steps(
    graph: Graph, target: Target, donated: Sequence[int] = ()
) -> tuple[Plan, list[tuple[Eqn, ...]]]:
    """The plan of a graph, and for each of its steps the equations that it computes.

    The order is that of the rewritten graph. An equation of several steps is in each.
    """
    drafts: list[Draft] = []

    def watch(stage: Stage, draft: Draft, seconds: float) -> None:
        drafts[:] = [draft]

    made = plan(graph, target, donated, watch)
    return made, _of_steps(drafts[0], made.steps)


def _of_steps(draft: Draft, steps: Sequence[Step]) -> list[tuple[Eqn, ...]]:
    held = _values(draft)
    makers = {var: eqn for eqn in draft.graph.eqns for var in eqn.outputs}
    order = {eqn: number for number, eqn in enumerate(draft.graph.eqns)}
    readers: dict[Buffer, tuple[Eqn, ...]] = {}
    found: list[tuple[Eqn, ...]] = []
    # backwards: an equation whose result is in no buffer belongs to the step that reads it
    for step in reversed(steps):
        read, written = step.accessed()
        known = {var for one in written for var in held.get(one, ())}
        stop = {var for one in read for var in held.get(one, ())} - known
        equations = set(_between(known, stop, makers))
        for one in written:
            if one not in held:
                equations.update(readers.get(one, ()))
        sliced = tuple(sorted(equations, key=order.__getitem__))
        readers.update(dict.fromkeys(read, sliced))
        found.append(sliced)
    return found[::-1]


def _values(draft: Draft) -> Mapping[Buffer, Set[Var]]:
    """The values in each buffer: an input that is overwritten holds two."""
    chosen = draft.chosen
    outputs = zip(draft.graph.outputs, chosen.outputs, strict=True)
    held: dict[Buffer, set[Var]] = {}
    for var, one in [*chosen.buffers.items(), *outputs]:
        if isinstance(var, Var):
            held.setdefault(draft.homes.get(one, one), set()).add(var)
    return held


def _between(ends: Set[Var], stop: Set[Var], makers: Mapping[Var, Eqn]) -> Iterator[Eqn]:
    """The equations that compute values from those at which the search stops."""
    waiting, seen = [*ends], set(ends) | set(stop)
    while waiting:
        eqn = makers.get(waiting.pop())
        if eqn is None:
            continue
        yield eqn
        for atom in eqn.inputs:
            if isinstance(atom, Var) and atom not in seen:
                seen.add(atom)
                waiting.append(atom)
