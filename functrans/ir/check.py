"""Type-checking a graph: what a pass of the compiler must leave true."""

from __future__ import annotations

from functrans.errors import GraphTypeError
from functrans.ir.graph import Atom, Graph, Literal, Var, inner_graphs


def check_graph(graph: Graph) -> None:
    """Raise unless every variable is assigned once, before its use, and every type is right.

    Raises
    ------
    GraphTypeError
        With the equation that is wrong.
    """
    defined: set[Atom] = set()

    def define(var: Var, where: str) -> None:
        if var in defined:
            raise GraphTypeError(f"{var} is assigned twice, in {where}")
        defined.add(var)

    def use(atom: Atom, where: str) -> None:
        if not isinstance(atom, Literal) and atom not in defined:
            raise GraphTypeError(f"{atom} is used before it is assigned, in {where}")

    for var in graph.inputs:
        define(var, "the inputs")
    for eqn in graph.eqns:
        where = repr(eqn)
        for atom in eqn.inputs:
            use(atom, where)
        avals = eqn.primitive.infer_all([atom.aval for atom in eqn.inputs], dict(eqn.params))
        if len(avals) != len(eqn.outputs):
            raise GraphTypeError(f"{len(avals)} results, but {len(eqn.outputs)} names, in {where}")
        for aval, var in zip(avals, eqn.outputs, strict=True):
            if not aval.same_array_type(var.aval):
                raise GraphTypeError(f"{var} stands for a value of type {aval}, in {where}")
            define(var, where)
        for inner in inner_graphs(eqn):
            check_graph(inner)
    for atom in graph.outputs:
        use(atom, "the outputs")
