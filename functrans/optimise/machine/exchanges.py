"""Rewriting of messages between processes: axes, order and bucketing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, groupby
from math import prod
from operator import itemgetter
from typing import Any

from functrans.caches import cached
from functrans.ir.graph import Atom, Eqn, Graph, inner_graphs
from functrans.ops.arrays.shape import concatenate
from functrans.ops.arrays.slicing import read_slice
from functrans.ops.arrays.structural import move_axis, reshape
from functrans.ops.collectives.collectives import (
    all_gather,
    all_to_all,
    own_part,
    psum,
    psum_scatter,
    pvary,
)
from functrans.optimise.machine.messages import Buckets
from functrans.optimise.rewrite import replaced
from functrans.trace.stage import Environment, apply, at_source_of, rewrite

# -- the first axis --------------------------------------------------------------------------------


def along_first_axis(graph: Graph) -> Graph:
    """The graph with collectives that exchange slices of the first axis, and transposes."""
    exchanged = (
        eqn
        for eqn in graph.eqns
        if eqn.primitive in (all_gather, all_to_all, psum_scatter)
        and eqn.params["engine"] is not None
        and eqn.params["axis"]
    )
    return replaced(graph, {eqn: partial(_moved, eqn) for eqn in exchanged})


def _moved(eqn: Eqn, values: Environment) -> Sequence[Any]:
    x, lane = map(values.read, eqn.inputs)
    axis: int = eqn.params["axis"]
    moved = x if eqn.primitive is all_gather else move_axis(x, axis, 0)
    result = eqn.primitive(moved, lane, **{**eqn.params, "axis": 0})
    return [result if eqn.primitive is psum_scatter else move_axis(result, 0, axis)]


# -- buckets ---------------------------------------------------------------------------------------


def bucketed(graph: Graph, limits: Buckets) -> Graph:
    """The graph with sums over processes delayed, and small ones combined into one message."""
    of = {eqn: bucket for bucket in _buckets(graph, limits) for eqn in bucket}
    order = list(_ordered(graph, of))
    if order == [(eqn,) for eqn in graph.eqns]:
        return graph

    def run(*inputs: Any) -> list[Any]:
        values = Environment(zip(graph.inputs, inputs, strict=True))
        for group in order:
            if len(group) == 1:
                (eqn,) = group
                operands = [values.read(atom) for atom in eqn.inputs]
                values.update(zip(eqn.outputs, apply(eqn, operands), strict=True))
            else:
                _add_up(group, values)
        return [values.read(atom) for atom in graph.outputs]

    return rewrite(run, graph.in_avals)


Bucket = tuple[Eqn, ...]


def _buckets(graph: Graph, limits: Buckets) -> Iterator[Bucket]:
    """The sums that can share a message.

    Sums that depend on an equal number of earlier messages do not depend on each other.
    """
    if sum(map(_is_sum, graph.eqns)) < 2:
        return
    alike: dict[Any, list[Eqn]] = defaultdict(list)
    passed: dict[Atom, int] = {}
    for eqn in graph.eqns:
        before = max((passed.get(x, 0) for x in eqn.inputs), default=0)
        if _is_sum(eqn) and 0 < _bytes(eqn) <= limits.small:
            dtype = eqn.outputs[0].aval.dtype
            alike[before, dtype, eqn.params["name"], eqn.params["engine"]].append(eqn)
        passed.update(dict.fromkeys(eqn.outputs, before + _passes_messages(eqn)))
    for eqns in alike.values():
        ends = accumulate(map(_bytes, eqns))
        numbers = [(end - 1) // limits.largest for end in ends]
        for _, full in groupby(zip(numbers, eqns, strict=True), itemgetter(0)):
            bucket = tuple(eqn for _, eqn in full)
            if len(bucket) > 1:
                yield bucket


def _is_sum(eqn: Eqn) -> bool:
    return eqn.primitive is psum and eqn.params["engine"] is not None


def _bytes(eqn: Eqn) -> int:
    aval = eqn.outputs[0].aval
    return aval.size * aval.dtype.itemsize


def _passes_messages(eqn: Eqn) -> bool:
    if eqn.primitive.collective is not None:
        return eqn.primitive not in (pvary, own_part) and eqn.params["engine"] is not None
    return any(map(_has_messages, inner_graphs(eqn)))


@cached(1024)
def _has_messages(graph: Graph) -> bool:
    return any(map(_passes_messages, graph.eqns))


def _ordered(graph: Graph, of: dict[Eqn, Bucket]) -> Iterator[Bucket]:
    """The equations in order; sums over processes come just before their first readers.

    Until then, a process need not wait for slower ones.
    """
    done: set[Eqn] = set()
    for wanted in sorted(graph.eqns, key=_is_sum):
        stack = [wanted]
        while stack:
            group = of.get(stack[-1], (stack[-1],))
            if group[0] in done:
                stack.pop()
                continue
            needed = [graph.makers[x] for eqn in group for x in eqn.inputs if x in graph.makers]
            missing = [eqn for eqn in needed if eqn not in done]
            if missing:
                stack += reversed(missing)
                continue
            done.update(group)
            yield group


def _add_up(bucket: Bucket, values: Environment) -> None:
    """The sums of a bucket, computed from a single array that holds all operands."""
    first = bucket[0]
    with at_source_of(first):
        lane = values.read(first.inputs[1])
        terms = [values.read(eqn.inputs[0]) for eqn in bucket]
        parts = [reshape(x, shape=(prod(x.shape),)) for x in terms]
        total = psum(concatenate(parts, axis=0), lane, **first.params)
        start = 0
        for eqn in bucket:
            (var,) = eqn.outputs
            count = prod(var.aval.shape)
            part = read_slice(total, index=((start, count, 1),))
            values[var] = reshape(part, shape=var.aval.shape)
            start += count
