"""Rewriting a graph: by replacing atoms and equations, or by tracing it again with other rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var
from functrans.ir.types import Aval
from functrans.ops.arrays.structural import broadcast_to_p, full_p, reshape_p
from functrans.trace.stage import Environment, apply, at_source_of, rewrite

Rule = Callable[[Environment], Sequence[Any]]
"""Computes the results of an equation, given the values of the graph's variables."""


def replaced(graph: Graph, rules: Mapping[Eqn, Rule]) -> Graph:
    """The graph traced again, with some equations replaced by rules.

    Equations that are no longer needed are pruned.
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
    """Builds a new graph: its equations, and the new atom for each atom of the old graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.eqns: list[Eqn] = []
        self.atoms: dict[Atom, Atom] = {}
        self.producers: dict[Atom, Eqn] = {}

    def atom(self, old: Atom) -> Atom:
        """The new graph's atom for an atom of the old graph."""
        return self.atoms.get(old, old)

    def inputs(self, eqn: Eqn) -> list[Atom]:
        return [self.atom(x) for x in eqn.inputs]

    def keep(self, eqn: Eqn, inputs: Sequence[Atom]) -> Eqn:
        """Add an equation with new operands; its outputs stay the same variables."""
        if tuple(inputs) != eqn.inputs:
            eqn = eqn.but(inputs=inputs)
        self.eqns.append(eqn)
        for var in eqn.outputs:
            self.producers[var] = eqn
        return eqn

    def keep_others(self, is_rewritten: Callable[[Eqn], bool]) -> Iterator[Eqn]:
        """Keep equations one by one; those that are rewritten are returned, with new operands."""
        for eqn in self.graph.eqns:
            if is_rewritten(eqn):
                yield eqn.but(inputs=self.inputs(eqn))
            else:
                self.keep(eqn, self.inputs(eqn))

    def replace(self, old: Atom, new: Atom) -> None:
        """Substitute an atom for a variable of the old graph."""
        self.atoms[old] = new

    def graph_now(self) -> Graph:
        """The graph built so far."""
        return Graph(self.graph.inputs, self.eqns, [self.atom(x) for x in self.graph.outputs])


def literal(value: Any, like: Var) -> Literal:
    """A literal of the type of a variable without axes."""
    return Literal(np.asarray(value, like.aval.dtype)[()], like.aval)


def bits(atom: Atom) -> bytes | None:
    """The bits of a literal; None for a variable."""
    return atom.key[0] if isinstance(atom, Literal) else None


def is_number(atom: Atom, value: float) -> bool:
    """Whether an atom is the literal ``value``; 0.0 and -0.0 are different."""
    return bits(atom) == np.asarray(value, atom.aval.dtype).tobytes()


def everywhere(atom: Atom, producers: Mapping[Atom, Eqn]) -> Any:
    """The number that an array is filled with; None if there is none, or it is not known."""
    maker = producers.get(atom)
    while maker is not None and maker.primitive in (broadcast_to_p, reshape_p):
        (source,) = maker.inputs
        if isinstance(source, Literal):
            return source.value
        maker = producers.get(source)
    return maker.params["value"] if maker is not None and maker.primitive is full_p else None


def scalar_literal(value: Any, aval: Aval) -> Literal:
    """A number as an operand that broadcasts, in the place of an array filled with it."""
    return Literal(np.asarray(value, aval.dtype)[()], aval.update(shape=()))
