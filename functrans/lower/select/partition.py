"""Graph partitioning: segments to compile, and calls of NumPy where there is no compiled form.

Expects any graph. Leaves segments in an order in which each comes after those whose results it
uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from functrans.ir.check import checked
from functrans.ir.graph import Atom, Eqn, Graph, Var, inner_graphs
from functrans.ir.types import is_complex
from functrans.loop.target import Target
from functrans.ops.compiled.emission import emitted
from functrans.records import dataclass


@dataclass(frozen=True, eq=False)
class Segment:
    """A part of a program: a graph to compile, or an equation for which NumPy is called."""

    inputs: tuple[Var, ...]  # the values that it reads
    outputs: tuple[Var, ...]  # the values that it computes
    dead: tuple[Var, ...]  # the values that are not needed after it
    graph: Graph
    call: Eqn | None = None


def compiled(eqn: Eqn, target: Target) -> bool:
    """Whether an equation, including its inner graphs, has a compiled form."""
    if any(is_complex(atom.aval.dtype) for atom in (*eqn.inputs, *eqn.outputs)):
        return False
    if not (eqn.primitive.higher_order or all(map(_has_fixed_size, eqn.outputs))):
        return False  # the sum of two cotangents of a stack: only loops know how long it is
    if emitted(eqn, target) is None:
        return eqn.primitive.by_elements
    inside = _inside(target)
    return all(compiled(each, inside) for inner in inner_graphs(eqn) for each in inner.eqns)


def _inside(target: Target) -> Target:
    """The target for inner graphs, which do not leave their loops for calls of libraries."""
    if not target.libraries and not target.library_sorts:
        return target
    return replace(target, libraries=False, library_sorts=False)


def without_form(graph: Graph, target: Target) -> tuple[Eqn, ...]:
    """The first equation without a compiled form, after those around it; empty if none."""
    for eqn in graph.eqns:
        if not compiled(eqn, target):
            inside = _inside(target)
            found = (without_form(inner, inside) for inner in inner_graphs(eqn))
            return eqn, *next(filter(None, found), ())
    return ()


def _has_fixed_size(atom: Atom) -> bool:
    """Whether it is no stack whose extent depends on data."""
    return all(extent >= 0 for extent in atom.aval.shape)


def partition(graph: Graph, target: Target) -> list[Segment]:
    """The segments of a graph, in order; a single one if everything can be compiled."""
    ends = (*graph.inputs, *graph.outputs)
    if all(map(_has_fixed_size, ends)) and all(compiled(eqn, target) for eqn in graph.eqns):
        return [Segment(graph.inputs, (), (), graph)]
    groups = _groups(graph, target)
    last_use: dict[Var, int] = {}
    for number, group in enumerate(groups):
        for var in _free(group):
            last_use[var] = number
    final = {atom for atom in graph.outputs if isinstance(atom, Var)}
    made: set[Var] = set(graph.inputs)
    segments = []
    for number, group in enumerate(groups):
        inputs = _free(group)
        own = [var for eqn in group for var in eqn.outputs]
        later = {var for var in own if last_use.get(var, -1) > number or var in final}
        is_call = not compiled(group[0], target)
        # a call returns all of its results, whether they are needed or not
        outputs = tuple(var for var in own if is_call or var in later)
        made.update(outputs)
        dead = {var for var in made if last_use.get(var, -1) <= number and var not in final}
        made -= dead
        segments.append(
            Segment(
                tuple(inputs),
                outputs,
                tuple(dead),
                checked(Graph(inputs, group, outputs), "partition"),
                group[0] if is_call else None,
            )
        )
    return segments


def _groups(graph: Graph, target: Target) -> list[list[Eqn]]:
    """Groups of equations, in an order in which they can be executed.

    Compiled equations are placed as early as their operands permit, but together: after the same
    calls.
    """
    level: dict[Var, int] = dict.fromkeys(graph.inputs, 0)
    native: dict[int, list[Eqn]] = {}
    calls: dict[int, list[Eqn]] = {}
    for eqn in graph.eqns:
        at = max((level[x] for x in eqn.inputs if isinstance(x, Var)), default=0)
        if compiled(eqn, target):
            native.setdefault(at, []).append(eqn)
        else:
            calls.setdefault(at, []).append(eqn)
            at += 1
        level.update(dict.fromkeys(eqn.outputs, at))
    groups: list[list[Eqn]] = []
    for at in sorted({*native, *calls}):
        if at in native:
            groups.append(native[at])
        groups.extend([eqn] for eqn in calls.get(at, ()))
    return groups


def _free(group: Sequence[Eqn]) -> list[Var]:
    """The variables that equations read but do not compute, once each."""
    made = {var for eqn in group for var in eqn.outputs}
    found: dict[Var, None] = {}
    for eqn in group:
        for atom in eqn.inputs:
            if isinstance(atom, Var) and atom not in made:
                found[atom] = None
    return list(found)
