"""The distributive law for sums: over joined arrays, scatters, products, windows; of slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from functrans.ir.graph import Eqn, Graph
from functrans.lazily import lazy
from functrans.loop.target import Target
from functrans.optimise.conditions import REDUCTIONS, having
from functrans.optimise.rewrite import Rule, replaced
from functrans.records import NamedTuple


class Law(NamedTuple):
    """A law: it returns rules for sums; none, and is not applied, if ``when`` does not hold."""

    rules: Callable[[Graph, Target], Mapping[Eqn, Rule]]
    when: Callable[[Graph], bool]


LAWS = (
    Law(lazy("functrans.optimise.machine.sums.sliced:of_slices"), having("arrays.slicing:slice_p")),
    Law(
        lazy("functrans.optimise.machine.sums.sliced:of_diagonals"),
        having("arrays.slicing:slice_p"),
    ),
    Law(
        lazy("functrans.optimise.machine.sums.broadcasts:of_broadcasts"),
        having("arrays.structural:broadcast_to_p", "arrays.structural:full_p"),
    ),
    Law(
        lazy("functrans.optimise.machine.sums.reshaped:of_reshaped_arrays"),
        having("arrays.structural:reshape_p"),
    ),
    Law(
        lazy("functrans.optimise.machine.sums.joined:of_joined_arrays"),
        having("arrays.shape:concatenate_p"),
    ),
    Law(
        lazy("functrans.optimise.machine.sums.scattered:of_scatters"),
        having("indexing.gather:scatter_add"),
    ),
    Law(
        lazy("functrans.optimise.machine.sums.factored:of_products"),
        having("linalg.contraction:dot_general", "arrays.structural:reduce_sum"),
    ),
    Law(
        lazy("functrans.optimise.machine.sums.reshaped:of_reshaped_arrays"),
        having("arrays.structural:reshape_p"),
    ),
    Law(
        lazy("functrans.optimise.machine.sums.windows:of_windows"),
        having("convolution.windows:overlap_add_p", "convolution.windows:windows_p"),
    ),
    Law(
        lazy("functrans.optimise.machine.sums.reshaped:of_dense_arrays"),
        having("linalg.contraction:dot_general", *REDUCTIONS),
    ),
)
"""Later laws apply to what earlier ones leave: a part of a joined array may be a scatter, whose
rows may be outer products."""


def distribute_sums(graph: Graph, target: Target) -> Graph:
    """Apply the distributive law to sums, where that saves much work.

    Expects contractions and sums as they were written, in any layout.
    Leaves sums over joined arrays, scatters and products, as sums of their slices and factors.
    """
    for law in LAWS:
        if law.when(graph):
            graph = replaced(graph, law.rules(graph, target))
    return graph
