"""Strength reduction of sorts: selection, if few elements of each line are read.

Medians, quantiles, nearest neighbours and the largest of many scores are written as sorts, whose
derivatives are known. Finding an element of a rank, or the first elements in order, takes a
fraction of the time of a sort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from functrans.ir.graph import Atom, Eqn, Graph, Var
from functrans.lazily import lazy
from functrans.loop.target import Target
from functrans.ops.arrays.slicing import embed_p, read_slice, slice_p
from functrans.ops.compiled.places import Index, Range, slice_of_slice, whole
from functrans.ops.indexing.gather import scatter_add
from functrans.ops.indexing.positions import index_shape
from functrans.ops.reductions.ranks import (
    DTYPES,
    order_statistics,
    partial_argsort,
    partial_sort,
    room,
)
from functrans.ops.reductions.sorting import argsort, sort
from functrans.optimise.rewrite import Rule, replaced
from functrans.records import NamedTuple
from functrans.trace.stage import Environment

_sorts_in_lanes = lazy("functrans.ops.reductions.compiled.sorts:sorts_in_lanes")
_sorts_along = lazy("functrans.ops.reductions.compiled.sorts:sorts_along")


class Ranks(NamedTuple):
    """Thresholds from which selections are faster than sorts. Measured."""

    most: int = 2
    """The most ranks, apart from each other, that are searched for, since each takes its time: only
    one in lines that a network would sort one by one."""
    elements: int = 3
    """The fewest elements of a line for each bit of the keys of all ranks, which takes a pass."""
    ends: int = 512
    """The most elements at one end of a line that a partial sort finds."""
    rooms: int = 4
    """The fewest elements of a line for each place of a partial sort's buffer of candidates: at
    least one."""
    for_each: int = 24
    """The fewest elements of a line for each one that a partial sort finds."""


class _Run(NamedTuple):
    """Neighbouring ranks along the last axis of an operand, and the selection of their elements."""

    of: Atom
    first: int
    length: int
    select: Callable[[Any], Any]


class _Read(NamedTuple):
    """The places of sorted lines that an equation reads, and its results from a selection.

    The rule takes the selected elements, the places among them, and the values of variables.
    """

    entry: int | Range
    rule: Callable[[Any, int | Range, Environment], Any]


def select_ranks(graph: Graph, target: Target) -> Graph:
    """Replace sorts by selections, if a few elements of each line are read.

    Expects reads at known positions, as slices.
    Leaves order statistics and partial sorts, and slices of them.
    """
    rules: dict[Eqn, Rule] = {}
    for eqn in graph.eqns:
        if eqn.primitive in (sort, argsort):
            rules |= _selection(eqn, graph, target)
    return replaced(graph, rules)


def _selection(eqn: Eqn, graph: Graph, target: Target) -> dict[Eqn, Rule]:
    """Rules for the readers of a sort, with selections instead; none if it stays."""
    (x,), (ordered,) = eqn.inputs, eqn.outputs
    if x.aval.dtype not in DTYPES or eqn.params["axis"] != x.aval.ndim - 1 or not x.aval.size:
        return {}
    reads = _reads(ordered, graph)
    places = {reader: _places(read.entry) for reader, read in reads.items()}
    runs = _runs(eqn, set().union(*places.values()), target)
    found: dict[_Run, Any] = {}
    rules: dict[Eqn, Rule] = {}
    for reader, read in reads.items():
        run = _holder(runs, places[reader])
        if run is None:
            return {}
        rules[reader] = partial(_from_selection, read, run, found)
    return rules


# -- what is read ----------------------------------------------------------------------------------


def _reads(ordered: Var, graph: Graph) -> dict[Eqn, _Read]:
    """The equations that read places of sorted lines; none if one may need all elements."""
    found: dict[Eqn, _Read] = {}
    for eqn in graph.readers.get(ordered, ()):
        if eqn.primitive is slice_p:
            for last, index in _last_slices(eqn, eqn.params["index"], graph):
                found[last] = _Read(index[-1], partial(_sliced, index))
        elif (part := _embedded(eqn, ordered, graph)) is not None:
            entry = part.params["index"][ordered.aval.ndim - 1]
            found[eqn] = _Read(entry, partial(_scattered, eqn, ordered, part))
        else:
            return {}
    return {} if ordered in graph.outputs else found


def _last_slices(eqn: Eqn, index: Index, graph: Graph) -> Iterator[tuple[Eqn, Index]]:
    """The ends of chains of slices, and what they are of the first operand."""
    (out,) = eqn.outputs
    readers = graph.readers.get(out, ())
    if out in graph.outputs or any(each.primitive is not slice_p for each in readers):
        yield eqn, index
    else:
        for each in readers:
            yield from _last_slices(each, slice_of_slice(index, each.params["index"]), graph)


def _sliced(index: Index, selected: Any, within: int | Range, values: Environment) -> Any:
    return read_slice(selected, index=(*index[:-1], within))


def _embedded(eqn: Eqn, ordered: Var, graph: Graph) -> Eqn | None:
    """The maker of zeros around a part, which are scattered in the order of a sort; or None.

    The derivative of a part of a sort is such a scatter, to which zeros contribute nothing.
    """
    if eqn.primitive is not scatter_add or ordered in eqn.inputs[:2]:
        return None
    part, shape = graph.makers.get(eqn.inputs[1]), ordered.aval.shape
    if part is None or part.primitive is not embed_p:
        return None
    if index_shape([x.aval for x in eqn.inputs[2:]]) != shape:
        return None
    index, last = part.params["index"], len(shape) - 1
    pairs = zip(index, part.params["shape"], strict=True)
    others = (entry == whole(n) for i, (entry, n) in enumerate(pairs) if i != last)
    return part if isinstance(index[last], tuple) and all(others) else None


def _scattered(
    eqn: Eqn, ordered: Var, part: Eqn, selected: Any, within: Range, values: Environment
) -> Any:
    """The scatter of a part, at the selected indices."""
    entry, extent = part.params["index"][ordered.aval.ndim - 1], ordered.aval.shape[-1]

    def place(x: Atom) -> Any:
        if x is ordered:
            return _along_last(selected, within)
        is_along = x.aval.ndim and x.aval.shape[-1] == extent
        return _along_last(values.read(x), entry) if is_along else values.read(x)

    into, added = values.read(eqn.inputs[0]), values.read(part.inputs[0])
    return scatter_add(into, added, *map(place, eqn.inputs[2:]), **eqn.params)


def _along_last(x: Any, entry: Range) -> Any:
    return read_slice(x, index=(*map(whole, x.shape[:-1]), entry))


def _from_selection(
    read: _Read, run: _Run, found: dict[_Run, Any], values: Environment
) -> list[Any]:
    if run not in found:
        found[run] = run.select(values.read(run.of))
    entry = read.entry
    within = entry - run.first if isinstance(entry, int) else (entry[0] - run.first, *entry[1:])
    return [read.rule(found[run], within, values)]


# -- what is selected ------------------------------------------------------------------------------


def _places(entry: int | Range) -> set[int]:
    """The first and the last position that an entry of an index refers to."""
    start, size, step = (entry, 1, 1) if isinstance(entry, int) else entry
    return {start, start + (size - 1) * step} if size else set()


def _runs(eqn: Eqn, places: set[int], target: Target) -> list[_Run]:
    """The selections that give the elements at some places; none if a sort is faster."""
    (x,), limits = eqn.inputs, target[Ranks]
    if not places:
        return []
    end = _end(eqn, places)
    fewest = max(limits.rooms * room(end.length), limits.for_each * end.length)
    is_long = end.length <= limits.ends and x.aval.shape[-1] >= fewest
    if is_long and not target.lanes_are_threads:  # a line would be one thread's
        return [end]
    if eqn.primitive is argsort or _sorts_in_lanes(x.aval, target):
        return []
    pairs = _pairs(places)
    bits = len(pairs) * 8 * x.aval.dtype.itemsize
    most = 1 if _sorts_along(x.aval, target) else limits.most
    if len(pairs) > most or x.aval.shape[-1] < limits.elements * bits:
        return []
    return [
        _Run(x, rank, count, partial(order_statistics, rank=rank, count=count))
        for rank, count in pairs
    ]


def _end(eqn: Eqn, places: set[int]) -> _Run:
    """The partial sort that gives the elements at some places: the least or the greatest."""
    (x,) = eqn.inputs
    extent: int = x.aval.shape[-1]
    least, greatest = max(places) + 1, extent - min(places)
    count, is_greatest = min((least, False), (greatest, True))
    partly = partial_argsort if eqn.primitive is argsort else partial_sort
    first = extent - count if is_greatest else 0
    return _Run(x, first, count, partial(partly, count=count, greatest=is_greatest))


def _pairs(places: set[int]) -> list[tuple[int, int]]:
    """Positions, or two neighbouring ones: the first, and how many there are."""
    pairs: list[tuple[int, int]] = []
    for place in sorted(places):
        if pairs and pairs[-1] == (place - 1, 1):
            pairs[-1] = (place - 1, 2)
        else:
            pairs.append((place, 1))
    return pairs


def _holder(runs: list[_Run], places: set[int]) -> _Run | None:
    """The ranks that contain some positions; None if they are apart."""
    for run in runs:
        if places and all(run.first <= place < run.first + run.length for place in places):
            return run
    return None
