"""The passes, in order."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from functrans.ir.graph import Graph, prune
from functrans.optimise.algebra import simplify
from functrans.optimise.common import merge_equal
from functrans.optimise.constant import fold_constants
from functrans.optimise.inline import inline

Pass = Callable[[Graph], Graph]

PASSES: tuple[tuple[str, Pass], ...] = (
    ("inline", inline),
    ("prune", prune),
    ("fold_constants", fold_constants),
    ("simplify", simplify),
    ("merge_equal", merge_equal),
    # what one pass uncovers, another can use
    ("fold_constants again", fold_constants),
    ("simplify again", simplify),
    ("prune again", prune),
)
"""Each takes a graph and gives one that computes the same, bit by bit."""


@lru_cache(maxsize=512)
def optimise(graph: Graph) -> Graph:
    """The graph after all `PASSES`."""
    for _, rewrite in PASSES:
        graph = rewrite(graph)
    return graph
