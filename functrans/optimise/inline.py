"""Inlining: calls of inner graphs become the equations of those graphs."""

from __future__ import annotations

from functrans.ir.graph import Eqn, Graph, inlined
from functrans.optimise.rewrite import Rewriter


def inline(graph: Graph) -> Graph:
    """Put the equations of called graphs in the places of the calls."""
    if not any(map(is_call, graph.eqns)):
        return graph
    out = Rewriter(graph)
    for eqn in graph.eqns:
        inputs = out.inputs(eqn)
        if not is_call(eqn):
            out.keep(eqn, inputs)
            continue
        inner: Graph = inline(eqn.params["graph"])
        eqns, results = inlined(inner, inputs, eqn.source)
        out.eqns += eqns
        for var, result in zip(eqn.outputs, results, strict=True):
            out.replace(var, result)
    return out.graph_now()


def is_call(eqn: Eqn) -> bool:
    """Whether an equation does nothing but apply its graph to its operands."""
    inner = eqn.params.get("graph") if eqn.primitive.higher_order else None
    return (
        isinstance(inner, Graph)
        and inner.in_avals == tuple(x.aval for x in eqn.inputs)
        and inner.out_avals == tuple(x.aval for x in eqn.outputs)
    )
