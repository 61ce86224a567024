"""Transpose absorption in solves: a flag tells the solver to read its matrix transposed.

If there are solves with a matrix and with its transpose, they share one factorisation.
"""

from __future__ import annotations

from collections.abc import Mapping

from functrans.ir.graph import Atom, Eqn, Graph
from functrans.loop.target import Target
from functrans.ops.arrays.structural import transpose_p
from functrans.ops.linalg.factorisations import solve_p, triangular_solve

SOLVERS = (solve_p, triangular_solve)


def solve_through_transposes(graph: Graph, target: Target) -> Graph:
    """Absorb transposes into solves: a flag tells the solver to read its matrix transposed.

    Expects any graph.
    Leaves no solve with the transpose of a matrix.
    """
    return Graph(graph.inputs, [_through(eqn, graph.makers) for eqn in graph.eqns], graph.outputs)


def _through(eqn: Eqn, producers: Mapping[Atom, Eqn]) -> Eqn:
    maker = producers.get(eqn.inputs[0]) if eqn.primitive in SOLVERS else None
    if maker is None or maker.primitive is not transpose_p:
        return eqn
    n = len(maker.params["permutation"])
    if tuple(maker.params["permutation"]) != (*range(n - 2), n - 1, n - 2):
        return eqn
    params = dict(eqn.params, transpose_a=not eqn.params["transpose_a"])
    if "lower" in params:
        params["lower"] = not params["lower"]
    operands = [maker.inputs[0], *eqn.inputs[1:]]
    return eqn.but(inputs=operands, params=params)
