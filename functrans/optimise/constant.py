"""Constant folding and propagation: what is computed from numbers is computed now.

An array that is one number throughout is such a number to elementwise equations.
"""

from __future__ import annotations

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph, Literal
from functrans.ir.types import Shape, broadcast_shape
from functrans.ops.arrays.structural import full_p
from functrans.optimise.rewrite import Rewriter, literal


def fold_constants(graph: Graph) -> Graph:
    """Evaluate equations of literals; let elementwise equations read numbers, not full arrays."""
    out = Rewriter(graph)
    for eqn in graph.eqns:
        inputs = _with_numbers(eqn, out.inputs(eqn), out)
        if _is_constant(eqn, inputs):
            values = [x.aval.dtype.type(x.value) for x in inputs if isinstance(x, Literal)]
            with np.errstate(all="ignore"):
                result = eqn.primitive.numpy(*values, **eqn.params)
            out.replace(eqn.outputs[0], literal(result, eqn.outputs[0]))
        else:
            out.keep(eqn, inputs)
    return out.graph_now()


def _is_constant(eqn: Eqn, inputs: list[Atom]) -> bool:
    """Whether an equation gives one number, which is known now."""
    if eqn.primitive.several or eqn.primitive.higher_order or eqn.outputs[0].aval.shape:
        return False
    if not all(isinstance(x, Literal) for x in inputs):
        return False
    return eqn.primitive.elementwise or eqn.primitive is full_p


def _with_numbers(eqn: Eqn, inputs: list[Atom], out: Rewriter) -> list[Atom]:
    """The operands of an elementwise equation, with numbers for arrays of one number."""
    if not eqn.primitive.elementwise:
        return inputs
    shape = eqn.outputs[0].aval.shape
    for i, atom in enumerate(inputs):
        maker = out.producers.get(atom)
        if maker is None or maker.primitive is not full_p:
            continue
        # the other operands must give the result its shape
        others = [x.aval.shape for j, x in enumerate(inputs) if j != i]
        if _broadcast(others) == shape:
            value = maker.params["value"]
            inputs[i] = Literal(np.asarray(value, atom.aval.dtype)[()], atom.aval.update(shape=()))
    return inputs


def _broadcast(shapes: list[Shape]) -> Shape | None:
    return broadcast_shape(*shapes) if shapes else None
