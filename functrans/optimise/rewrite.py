"""What the passes share: going through a graph, replacing atoms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph, Literal, Var


class Rewriter:
    """A new graph in the making: equations, and what has become of the old graph's atoms."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.eqns: list[Eqn] = []
        self.atoms: dict[Atom, Atom] = {}
        self.producers: dict[Atom, Eqn] = {}

    def atom(self, old: Atom) -> Atom:
        """What stands for an atom of the old graph."""
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
