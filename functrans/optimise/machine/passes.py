"""The rewrites of a graph for a machine, in order, before loops are made of it."""

from __future__ import annotations

from collections.abc import Callable

from functrans.ir.check import checked
from functrans.ir.graph import Graph
from functrans.loop.target import Target
from functrans.optimise.machine.contraction_layout import lay_out_contractions
from functrans.optimise.machine.factored_sums import factor_sums
from functrans.optimise.machine.joined_sums import sum_parts
from functrans.optimise.machine.ordered_sums import order_sums
from functrans.optimise.machine.outlining import outline
from functrans.optimise.machine.product_layout import columns_first, swap_products
from functrans.optimise.machine.real_transforms import halve_transforms
from functrans.optimise.machine.scan_fission import split_scans
from functrans.optimise.machine.scan_motion import move_out_of_scans
from functrans.optimise.machine.scattered_sums import sum_scatters
from functrans.optimise.machine.transposed_solves import solve_through_transposes
from functrans.optimise.machine.write_coalescing import coalesce_writes

Rewrite = Callable[[Graph, Target], Graph]

REWRITES: tuple[tuple[str, Rewrite], ...] = (
    ("sum_parts", sum_parts),
    ("sum_scatters", sum_scatters),
    ("factor_sums", factor_sums),
    ("halve_transforms", halve_transforms),
    ("swap_products", swap_products),
    ("split_scans", split_scans),
    ("move_out_of_scans", move_out_of_scans),
    ("columns_first", columns_first),
    ("lay_out_contractions", lay_out_contractions),
    ("coalesce_writes", coalesce_writes),
    ("solve_through_transposes", solve_through_transposes),
    ("order_sums", order_sums),
    ("outline", outline),
)
"""Each takes a graph and gives one that computes the same, up to rounding: sums are in another
order."""


def rewritten(graph: Graph, target: Target, outlined: bool = False) -> Graph:
    """The graph after all `REWRITES`; without outlining unless it is asked for.

    Outlining is for whole programs: the body of a loop is one segment as it is. Nor is it for a
    program whose inputs are overwritten, since a segment that is called only reads its operands.
    """
    for name, rewrite in REWRITES:
        if outlined or rewrite is not outline:
            graph = checked(rewrite(graph, target), name)
    return graph
