"""What is done to a graph before loops are made of it: rewriting it for the machine, in order."""

from __future__ import annotations

from collections.abc import Callable

from functrans.ir.check import checked
from functrans.ir.graph import Graph
from functrans.loop.target import CPU
from functrans.optimise.machine.contraction_layout import prepare
from functrans.optimise.machine.joins import joined
from functrans.optimise.machine.product_layout import columns_first, swapped
from functrans.optimise.machine.scan_motion import lighten
from functrans.optimise.machine.transposed_solves import solve_through_transposes

REWRITES: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
    ("swapped", swapped),
    ("lighten", lighten),
    ("columns_first", columns_first),
    ("prepare", prepare),
    ("joined", joined),
    ("solve_through_transposes", lambda graph: solve_through_transposes(graph, CPU)),
)
"""Each takes a graph and gives one that computes the same, up to rounding: sums are in another
order."""


def rewritten(graph: Graph) -> Graph:
    """The graph after all `REWRITES`."""
    for name, rewrite in REWRITES:
        graph = checked(rewrite(graph), name)
    return graph
