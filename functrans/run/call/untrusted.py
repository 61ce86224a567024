"""Verification of graphs from files: machine code must not access memory out of bounds.

The rules of primitives trust parameters that the library's own functions have made. So each
equation of a graph from an untrusted file is checked: its parameters are in range, its arrays have
static sizes, and the kernels to which it is compiled on its own are verified. Transforms and the
compiler preserve the validity of equations, as for a traced Python function.
"""

from __future__ import annotations

from typing import Any

from functrans.errors import ShapeError
from functrans.ir.graph import Atom, Eqn, Graph, Var, inner_graphs
from functrans.ir.types import is_supported
from functrans.loop.domain import LARGEST
from functrans.lower import pipeline
from functrans.lower.select.partition import compiled
from functrans.lower.verify import verify
from functrans.ops.ranges import RANGES, check_parameters
from functrans.run.code import host


def check_untrusted(graph: Graph) -> None:
    """Check the equations of a type-checked graph.

    Raises `ShapeError` if a parameter is out of range, or an equation of a user-defined operation
    is too large to be verified. Raises `PlanError` if a kernel of an equation may access memory out
    of bounds.
    """
    _check_sizes((*graph.inputs, *graph.outputs))
    _check(graph, set())


def _check(graph: Graph, seen: set[Any]) -> None:
    for eqn in graph.eqns:
        inner = tuple(inner_graphs(eqn))
        for each in inner:
            _check(each, seen)
        avals = tuple(x.aval for x in eqn.inputs)
        key = eqn.primitive, avals, eqn.primitive.keyed(eqn.params)
        if not inner and key in seen:
            continue
        seen.add(key)
        if not eqn.primitive.higher_order:
            # only loops have dynamic sizes
            _check_sizes((*eqn.inputs, *eqn.outputs))
        is_known = _is_known(eqn)
        if is_known:
            check_parameters(eqn)
        if not eqn.primitive.elementwise and not _is_verified(eqn) and not is_known:
            raise ShapeError(
                f"{eqn.primitive.name} is too large to be verified, and its definition is not the "
                "library's own"
            )


def _check_sizes(atoms: tuple[Atom, ...]) -> None:
    for atom in atoms:
        if any(extent < 0 for extent in atom.aval.shape) or not is_supported(atom.aval.dtype):
            raise ShapeError(f"there are no arrays of type {atom.aval}")


def _is_known(eqn: Eqn) -> bool:
    """Whether the ranges of all parameters are known: the primitive is the library's own."""
    module = eqn.primitive.infer.__module__
    return module.partition(".")[0] == __name__.partition(".")[0] and RANGES.keys() >= {
        name for name, value in eqn.params.items() if isinstance(value, (int, tuple))
    }


def _is_verified(eqn: Eqn) -> bool:
    """Whether the kernels of an equation, if any, were verified completely."""
    machine = host.target()
    if not compiled(eqn, machine):
        return True
    if any(x.aval.size > LARGEST for x in (*eqn.inputs, *eqn.outputs)):
        return False
    inputs = [x for x in dict.fromkeys(eqn.inputs) if isinstance(x, Var)]
    return verify(pipeline.plan(Graph(inputs, [eqn], eqn.outputs), machine)) == 0
