"""The passes, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans.caches import cached
from functrans.ir.check import checked
from functrans.ir.graph import Eqn, Graph, prune
from functrans.optimise.algebra import simplify
from functrans.optimise.common import merge_equal
from functrans.optimise.constant import fold_constants
from functrans.optimise.inline import inline
from functrans.optimise.loops import merge_in_loops, prune_in_loops
from functrans.optimise.twins import merge_twins

Pass = Callable[[Graph], Graph]


def optimise_inner(graph: Graph) -> Graph:
    """Optimise the graphs inside: bodies of loops, branches."""
    if not any(eqn.primitive.higher_order for eqn in graph.eqns):
        return graph
    eqns = []
    for eqn in graph.eqns:
        params = eqn.params
        if eqn.primitive.higher_order:
            params = {name: _optimised(value) for name, value in params.items()}
        eqns.append(Eqn(eqn.primitive, eqn.inputs, eqn.outputs, params, eqn.source))
    return Graph(graph.inputs, eqns, graph.outputs)


def _optimised(value: Any) -> Any:
    if isinstance(value, Graph):
        return optimise(value)
    return tuple(map(_optimised, value)) if isinstance(value, tuple) else value


PASSES: tuple[tuple[str, Pass], ...] = (
    ("inline", inline),
    ("merge_in_loops", merge_in_loops),
    ("prune_in_loops", prune_in_loops),
    ("optimise_inner", optimise_inner),
    ("prune", prune),
    ("fold_constants", fold_constants),
    ("simplify", simplify),
    ("merge_equal", merge_equal),
    # what one pass uncovers, another can use
    ("fold_constants again", fold_constants),
    ("simplify again", simplify),
    ("merge_twins", merge_twins),
    ("prune again", prune),
)
"""Each takes a graph and gives one that computes the same, bit by bit."""


@cached(512)
def optimise(graph: Graph) -> Graph:
    """The graph after all `PASSES`."""
    for name, rewrite in PASSES:
        graph = checked(rewrite(graph), name)
    return graph
