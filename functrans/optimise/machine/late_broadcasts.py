"""Broadcast sinking: elementwise operations before broadcasts, which then compute fewer elements.

``np.meshgrid`` repeats vectors as matrices. Values that depend on one of them alone are the same in
all rows (or columns), and are computed once.
"""

from __future__ import annotations

from math import prod

from functrans.ir.graph import Atom, Eqn, Graph, Var, prune
from functrans.ir.types import broadcast_shape
from functrans.loop.target import Target
from functrans.ops.arrays.structural import broadcast_to_p
from functrans.optimise.rewrite import Rewriter
from functrans.optimise.simplification import constant, is_constant, simplify


def broadcast_last(graph: Graph, target: Target) -> Graph:
    """Sink broadcasts below elementwise operations, which then compute fewer elements.

    Expects any graph. Leaves elementwise operations whose operands do not all repeat along the same
    axes, and no selection by a repeated constant.
    """
    out, changed = Rewriter(graph), False
    for eqn in graph.eqns:
        inputs = out.inputs(eqn)
        sources = [_source(x, out) for x in inputs]
        if not eqn.primitive.elementwise or sources == inputs:
            out.keep(eqn, inputs)
            continue
        shape = broadcast_shape(*(x.aval.shape for x in sources))
        (result,) = eqn.outputs
        if prod(shape) >= result.aval.size:
            out.keep(eqn, inputs)
            continue
        changed = True
        fewer = Var(result.aval.update(shape=shape))
        small = eqn.but(inputs=sources, outputs=(fewer,))
        source: Atom = fewer
        if is_constant(small, sources):
            source = constant(small, sources)
        else:
            out.keep(small, sources)
        params = {"shape": result.aval.shape}
        out.keep(Eqn(broadcast_to_p, (source,), (result,), params, eqn.source), (source,))
    return prune(simplify(out.graph_now())) if changed else graph


def _source(atom: Atom, out: Rewriter) -> Atom:
    """The operand of a broadcast; any other array itself."""
    maker = out.producers.get(atom)
    return maker.inputs[0] if maker is not None and maker.primitive is broadcast_to_p else atom
