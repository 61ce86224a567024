"""Rewriting a graph: by replacing atoms and equations, or by tracing it again with other rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var
from functrans.trace.stage import Environment, apply, at_source_of, rewrite

Rule = Callable[[Environment], Sequence[Any]]
"""Gives the results of an equation from what the variables of its graph stand for."""


def replaced(graph: Graph, rules: Mapping[Eqn, Rule]) -> Graph:
    """The graph traced again, with some equations computed by rules of their own.

    What is not needed any more is pruned.
    """
    if not rules:
        return graph

    def run(*inputs: Any) -> list[Any]:
        values = Environment(zip(graph.inputs, inputs, strict=True))
        for eqn in graph.eqns:
            if eqn in rules:
                with at_source_of(eqn):
                    results = rules[eqn](values)
            else:
                results = apply(eqn, [values.read(atom) for atom in eqn.inputs])
            values.update(zip(eqn.outputs, results, strict=True))
        return [values.read(atom) for atom in graph.outputs]

    return rewrite(run, graph.in_avals)


class Rewriter:
    """A new graph in the making: equations, and what has become of the old graph's atoms."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.eqns: list[Eqn] = []
        self.atoms: dict[Atom, Atom] = {}
        self.producers: dict[Atom, Eqn] = {}

    def atom(self, old: Atom) -> Atom:
        """The atom of the new graph that stands for one of the old graph."""
        return self.atoms.get(old, old)

    def inputs(self, eqn: Eqn) -> list[Atom]:
        return [self.atom(x) for x in eqn.inputs]

    def keep(self, eqn: Eqn, inputs: Sequence[Atom]) -> Eqn:
        """Take over an equation with new operands; it gives the same variables."""
        if tuple(inputs) != eqn.inputs:
            eqn = Eqn(eqn.primitive, inputs, eqn.outputs, eqn.params, eqn.source)
        self.eqns.append(eqn)
        for var in eqn.outputs:
            self.producers[var] = eqn
        return eqn

    def replace(self, old: Atom, new: Atom) -> None:
        """Let an atom stand for a variable of the old graph."""
        self.atoms[old] = new

    def graph_now(self) -> Graph:
        """The new graph."""
        return Graph(self.graph.inputs, self.eqns, [self.atom(x) for x in self.graph.outputs])


def literal(value: Any, like: Var) -> Literal:
    """A number in the place of a variable without axes."""
    return Literal(np.asarray(value, like.aval.dtype)[()], like.aval)


def bits(atom: Atom) -> bytes | None:
    """The bits of a literal; None for a variable."""
    return atom.key[0] if isinstance(atom, Literal) else None


def is_number(atom: Atom, value: float) -> bool:
    """Whether an atom is the literal number: 0.0 is not -0.0."""
    return bits(atom) == np.asarray(value, atom.aval.dtype).tobytes()
