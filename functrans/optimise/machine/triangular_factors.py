"""Structure propagation: mark the zeros of triangular factors where products read them.

A Cholesky factor is zero above its diagonal. Where a product reads one, this pass applies the
equivalent of `np.tril`, which shows the zeros to the product's kernel, so that it can skip them
(`functrans.lower.product.bands`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph
from functrans.ir.primitive import Primitive
from functrans.loop.target import Target
from functrans.ops.arrays.structural import transpose, transpose_p
from functrans.ops.linalg.compiled.blas import counts
from functrans.ops.linalg.compiled.forms import is_blocked, shared_rows
from functrans.ops.linalg.contraction import dot_general, gemm
from functrans.ops.linalg.factorisations import cholesky_p
from functrans.ops.linalg.matrices import triangle
from functrans.ops.linalg.qr import r_p
from functrans.optimise.rewrite import replaced
from functrans.trace.stage import Environment, apply

TRIANGULAR: dict[Primitive | None, bool] = {cholesky_p: True, r_p: False}
"""The primitives whose results are triangular matrices, and whether these are lower ones."""


def write_out_triangles(graph: Graph, target: Target) -> Graph:
    """Write out the zeros of triangular factors where a product reads them.

    Expects contractions in their final layouts.
    Leaves no triangular factor as the operand of a product that could leave zeros out.
    """
    rules = {
        eqn: partial(_of_triangles, eqn, graph.makers)
        for eqn in graph.eqns
        if _leaves_zeros_out(eqn, target)
        and any(_source(x, graph.makers)[0] in TRIANGULAR for x in eqn.inputs)
    }
    return replaced(graph, rules)


def _leaves_zeros_out(eqn: Eqn, target: Target) -> bool:
    """Whether a product has a kernel whose tiles skip the zeros of a triangular operand."""
    if eqn.primitive not in (dot_general, gemm) or not is_blocked(eqn, target):
        return False
    lanes = target.lanes(eqn.inputs[1].aval.dtype.itemsize)
    return counts(eqn).columns >= lanes and not shared_rows(eqn, target)


def _source(atom: Atom, producers: Mapping[Atom, Eqn]) -> tuple[Primitive | None, Eqn | None]:
    """The equation that computes an operand, and the transpose between them, if there is one."""
    maker, turn = producers.get(atom), None
    if maker is not None and maker.primitive is transpose_p:
        maker, turn = producers.get(maker.inputs[0]), maker
    return (None if maker is None else maker.primitive), turn


def _of_triangles(eqn: Eqn, producers: Mapping[Atom, Eqn], values: Environment) -> tuple[Any, ...]:
    """A product of operands whose zeros are marked."""
    operands = []
    for atom in eqn.inputs:
        primitive, turn = _source(atom, producers)
        operand = values.read(atom)
        if primitive in TRIANGULAR:
            lower = TRIANGULAR[primitive]
            if turn is None:
                operand = triangle(operand, lower=lower)
            else:
                operand = triangle(values.read(turn.inputs[0]), lower=lower)
                operand = transpose(operand, **turn.params)
        operands.append(operand)
    return apply(eqn, operands)
