"""The distributive law for sums: over joined arrays, scatters, products, windows; of slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from functrans.ir.graph import Eqn, Graph
from functrans.loop.target import Target
from functrans.optimise.machine.sums.broadcasts import of_broadcasts
from functrans.optimise.machine.sums.factored import of_products
from functrans.optimise.machine.sums.joined import of_joined_arrays
from functrans.optimise.machine.sums.reshaped import of_dense_arrays, of_reshaped_arrays
from functrans.optimise.machine.sums.scattered import of_scatters
from functrans.optimise.machine.sums.sliced import of_diagonals, of_slices
from functrans.optimise.machine.sums.windows import of_windows
from functrans.optimise.rewrite import Rule, replaced

LAWS: tuple[Callable[[Graph, Target], Mapping[Eqn, Rule]], ...] = (
    of_slices,
    of_diagonals,
    of_broadcasts,
    of_reshaped_arrays,
    of_joined_arrays,
    of_scatters,
    of_products,
    of_reshaped_arrays,
    of_windows,
    of_dense_arrays,
)
"""Each law returns rules for sums. Later laws apply to what earlier ones leave: a part of a
joined array may be a scatter, whose rows may be outer products."""


def distribute_sums(graph: Graph, target: Target) -> Graph:
    """Apply the distributive law to sums, where that saves much work.

    Expects contractions and sums as they were written, in any layout.
    Leaves sums over joined arrays, scatters and products, as sums of their slices and factors.
    """
    for law in LAWS:
        graph = replaced(graph, law(graph, target))
    return graph
