"""Strength reduction of sorts: order statistics, if few elements of each line are read.

Medians and quantiles are written as sorts, whose derivatives are known. Finding an element of a
rank, and the next one, takes a fraction of the time of a sort.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph
from functrans.lazily import lazy
from functrans.loop.target import Target
from functrans.ops.arrays.slicing import read_slice, slice_p
from functrans.ops.compiled.places import Range
from functrans.ops.reductions.ranks import DTYPES, order_statistics
from functrans.ops.reductions.sorting import sort
from functrans.optimise.rewrite import Rule, replaced
from functrans.records import NamedTuple
from functrans.trace.stage import Environment

_sorts_in_lanes = lazy("functrans.ops.reductions.compiled.sorts:sorts_in_lanes")
_sorts_along = lazy("functrans.ops.reductions.compiled.sorts:sorts_along")


class Ranks(NamedTuple):
    """Thresholds from which order statistics are faster than sorts. Measured."""

    most: int = 2
    """The most ranks, apart from each other, that are searched for, since each takes its time: only
    one in lines that a network would sort one by one."""
    elements: int = 3
    """The fewest elements of a line for each bit of the keys of all ranks, which takes a pass."""


class _Rank(NamedTuple):
    """A rank along the last axis of an operand, and the number of ranks from there on."""

    of: Atom
    first: int
    length: int


def select_ranks(graph: Graph, target: Target) -> Graph:
    """Replace sorts by order statistics, if a few elements of each line are read.

    Expects reads at known positions, as slices.
    Leaves order statistics, and slices of them.
    """
    sorts = [eqn for eqn in graph.eqns if eqn.primitive is sort and _is_fit(eqn, target)]
    if not sorts:
        return graph
    limits = target[Ranks]
    rules: dict[Eqn, Rule] = {}
    found: dict[_Rank, Any] = {}
    for eqn in sorts:
        (x,), (ordered,) = eqn.inputs, eqn.outputs
        reads = graph.readers.get(ordered, ())
        if ordered in graph.outputs or any(read.primitive is not slice_p for read in reads):
            continue
        own: dict[Eqn, Rule] = {}
        places = {read: _places(read.params["index"][-1]) for read in reads}
        ranks = [_Rank(x, *run) for run in _runs(set().union(*places.values()))]
        bits = len(ranks) * 8 * x.aval.dtype.itemsize
        most = 1 if _sorts_along(x.aval, target) else limits.most
        if len(ranks) > most or x.aval.shape[-1] < limits.elements * bits:
            continue
        for read in reads:
            rank = _holder(ranks, places[read])
            if rank is None:
                break
            own[read] = partial(_read, read, rank, found)
        else:
            rules |= own
    return replaced(graph, rules)


def _is_fit(eqn: Eqn, target: Target) -> bool:
    """Whether bisection has a form for the lines of a sort, and a network does not sort them."""
    (x,) = eqn.inputs
    if x.aval.dtype not in DTYPES or eqn.params["axis"] != x.aval.ndim - 1:
        return False
    return x.aval.shape[-1] > 0 and not _sorts_in_lanes(x.aval, target)


def _places(entry: int | Range) -> set[int]:
    """The first and the last position that an entry of an index refers to."""
    start, size, step = (entry, 1, 1) if isinstance(entry, int) else entry
    return {start, start + (size - 1) * step} if size else set()


def _runs(places: set[int]) -> list[tuple[int, int]]:
    """Positions, or two neighbouring ones: the first, and how many there are."""
    runs: list[tuple[int, int]] = []
    for place in sorted(places):
        if runs and runs[-1] == (place - 1, 1):
            runs[-1] = (place - 1, 2)
        else:
            runs.append((place, 1))
    return runs


def _holder(ranks: list[_Rank], places: set[int]) -> _Rank | None:
    """The ranks that contain some positions; None if they are apart."""
    for rank in ranks:
        if places and places <= {rank.first, rank.first + rank.length - 1}:
            return rank
    return None


def _read(eqn: Eqn, rank: _Rank, found: dict[_Rank, Any], values: Environment) -> list[Any]:
    if rank not in found:
        found[rank] = order_statistics(values.read(rank.of), rank=rank.first, count=rank.length)
    *before, entry = eqn.params["index"]
    if isinstance(entry, int):
        within: int | Range = entry - rank.first
    else:
        within = (entry[0] - rank.first, *entry[1:])
    return [read_slice(found[rank], index=(*before, within))]
