"""Type promotion of products: 16-bit floats accumulate in float32, and are rounded once.

Sums of half floats are accumulated in float32 in any case. A contraction of float32 numbers has a
kernel of its own, which widens the operands while it packs them, and rounds the result when it
stores it.
"""

from __future__ import annotations

import numpy as np

from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.ir.types import Aval, is_float
from functrans.loop.target import Target
from functrans.ops.arrays.structural import cast
from functrans.ops.linalg.compiled.forms import is_blocked
from functrans.ops.linalg.contraction import dot_general

SINGLE = np.dtype(np.float32)


def widen_half_products(graph: Graph, target: Target) -> Graph:
    """Compute products of 16-bit floats in float32, between casts, if there is a float32 kernel.

    Expects contractions in their final layouts.
    Leaves no large product of 16-bit floats.
    """
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        wide = _widened(eqn) if _is_of_halves(eqn) else None
        if wide is not None and is_blocked(wide[-2], target):
            eqns += wide
        else:
            eqns.append(eqn)
    return Graph(graph.inputs, eqns, graph.outputs)


def _is_of_halves(eqn: Eqn) -> bool:
    return eqn.primitive is dot_general and all(
        is_float(x.aval.dtype) and x.aval.dtype.itemsize == 2 for x in (*eqn.inputs, *eqn.outputs)
    )


def _widened(eqn: Eqn) -> list[Eqn]:
    """The operands' casts, the product, and the cast of its result."""
    casts = [_cast(x, Var(Aval(x.aval.shape, SINGLE)), eqn) for x in eqn.inputs]
    (out,) = eqn.outputs
    wide = Var(Aval(out.aval.shape, SINGLE))
    operands = [each.outputs[0] for each in casts]
    product = eqn.but(inputs=operands, outputs=(wide,))
    return [*casts, product, _cast(wide, out, eqn)]


def _cast(x: Atom, out: Var, eqn: Eqn) -> Eqn:
    return Eqn(cast, [x], (out,), {"dtype": out.aval.dtype}, eqn.source)
