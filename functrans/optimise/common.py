"""Common subexpression elimination: what is computed twice is computed once."""

from __future__ import annotations

from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph, Literal
from functrans.optimise.rewrite import Rewriter


def merge_equal(graph: Graph) -> Graph:
    """Let one equation stand for all that apply the same primitive to the same operands."""
    out = Rewriter(graph)
    seen: dict[Any, Eqn] = {}
    for eqn in graph.eqns:
        inputs = out.inputs(eqn)
        key = (eqn.primitive, tuple(map(_identity, inputs)), tuple(eqn.params.items()))
        first = seen.get(key)
        if first is None:
            seen[key] = out.keep(eqn, inputs)
            continue
        for old, new in zip(eqn.outputs, first.outputs, strict=True):
            out.replace(old, new)
    return out.graph_now() if len(out.eqns) < len(graph.eqns) else graph


def _identity(atom: Atom) -> Any:
    return atom.key if isinstance(atom, Literal) else atom
