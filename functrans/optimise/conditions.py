"""Applicability of passes: conditions on graphs, which are tested before a pass is imported."""

from __future__ import annotations

from sys import modules

from functrans.ir.graph import Graph, any_eqn, inner_graphs
from functrans.ir.types import is_complex

REDUCTIONS = (
    "arrays.structural:reduce_sum",
    *(f"reductions.reduce:reduce_{name}" for name in ("max", "min", "prod", "or", "and")),
)
"""The places of the primitives that combine all elements along axes."""


class having:
    """The condition that a graph has an equation of one of some primitives.

    These are given by their places in `functrans.ops`: a primitive whose module has not been
    imported is in no graph. So what has nothing to do in a program is not imported for it.
    """

    def __init__(self, *places: str, or_inside: bool = False) -> None:
        self.places = [f"functrans.ops.{place}".split(":") for place in places]
        self.or_inside = or_inside  # whether equations of inner graphs count, too

    def __call__(self, graph: Graph) -> bool:
        wanted = {getattr(modules.get(module), name, None) for module, name in self.places}
        if self.or_inside:
            return any_eqn(graph, lambda eqn: eqn.primitive in wanted)
        return any(eqn.primitive in wanted for eqn in graph.eqns)


def has_complex(graph: Graph) -> bool:
    """Whether there are complex numbers in a graph, or in a graph inside of it."""
    own = (
        *graph.inputs,
        *graph.outputs,
        *(var for eqn in graph.eqns for var in (*eqn.inputs, *eqn.outputs)),
    )
    return any(is_complex(atom.aval.dtype) for atom in own) or any(
        has_complex(inner) for eqn in graph.eqns for inner in inner_graphs(eqn)
    )


def has_collectives(graph: Graph) -> bool:
    """Whether a graph has operations along a named axis."""
    return any(eqn.primitive.collective is not None for eqn in graph.eqns)


def is_any(graph: Graph) -> bool:
    """The condition of a pass for all graphs."""
    return True
