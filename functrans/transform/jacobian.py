"""Jacobians of linear graphs: all vectors of a basis at once, by batching over the basis."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.ir.check import typechecked
from functrans.ir.graph import Graph, rewriting
from functrans.ir.types import Aval, Shape
from functrans.ops.arrays import structural
from functrans.ops.elementwise.choice import select
from functrans.ops.elementwise.compare import equal
from functrans.trace.stage import replay, rewrite
from functrans.transform.batch import batched_outputs
from functrans.transform.forward import tangent_graph, variables
from functrans.transform.transpose import transpose_graph

_INDEX = np.dtype(np.int64)
_START = Aval((), _INDEX)


def basis(start: Any, count: int, shape: Shape, dtype: np.dtype[Any]) -> Any:
    """``count`` basis vectors, from number ``start`` on, of the space of arrays of a shape."""
    rows = structural.expand_axes(structural.iota(size=count, dtype=_INDEX) + start, (1,))
    columns = structural.expand_axes(structural.iota(size=prod(shape), dtype=_INDEX), (0,))
    size = (count, prod(shape))
    ones = structural.full_p(shape=size, value=1, dtype=dtype)
    return structural.reshape(
        select(equal(rows, columns), ones, structural.absent(size, dtype)), shape=(count, *shape)
    )


@rewriting(512)
@typechecked
def forward_block(graph: Graph, residuals: int, i: int, count: int) -> Graph:
    """The derivatives of all outputs in ``count`` directions of input ``i``.

    The inputs of the result are the residuals and the number of the first direction (int64); each
    output has the direction as its last axis.
    """
    tangents = len(graph.inputs) - residuals
    only = (False,) * residuals + tuple(j == i for j in range(tangents))
    restricted = tangent_graph(graph, only)
    aval = graph.in_avals[residuals + i]
    every = variables(graph)

    def run(*inputs: Any) -> list[Any]:
        vectors = basis(inputs[-1], count, aval.shape, aval.dtype)
        # a linear graph is differentiated at 0, since the point does not matter
        needed = [
            inputs[j] if j < residuals else structural.absent_like(every[j].aval)
            for j in restricted.needed
        ]
        outs, axes = batched_outputs(
            restricted.graph, [*needed, vectors], [*(None for _ in needed), 0], count
        )
        ends = [aval.ndim for aval in graph.out_avals]
        return _placed(outs, axes, graph.out_avals, restricted.nonzero, ends, count)

    return rewrite(run, [*graph.in_avals[:residuals], _START])


@rewriting(512)
@typechecked
def reverse_block(graph: Graph, residuals: int, j: int, count: int) -> Graph:
    """The derivatives of ``count`` elements of output ``j`` with respect to all inputs.

    The inputs of the result are the residuals and the number of the first element (int64); each
    output has the element as its first axis.
    """
    linear = tuple(i >= residuals for i in range(len(graph.inputs)))
    given = tuple(i == j for i in range(len(graph.outputs)))
    transposed, nonzero = transpose_graph(graph, linear, given)
    out = graph.out_avals[j]

    def run(*inputs: Any) -> list[Any]:
        vectors = basis(inputs[-1], count, out.shape, out.dtype)
        known = inputs[:residuals]
        if out.size == 1:
            ones = structural.full_p(shape=out.shape, value=1, dtype=out.dtype)
            outs = [structural.expand_axes(x, (0,)) for x in replay(transposed, [*known, ones])]
            axes: list[int | None] = [0] * len(outs)
        else:
            outs, axes = batched_outputs(
                transposed, [*known, vectors], [*(None for _ in known), 0], count
            )
        avals = graph.in_avals[residuals:]
        return _placed(outs, axes, avals, nonzero, [0] * len(avals), count)

    return rewrite(run, [*graph.in_avals[:residuals], _START])


def _placed(
    outs: Sequence[Any],
    axes: Sequence[int | None],
    avals: Sequence[Aval],
    nonzero: Sequence[bool],  # which of the arrays are among ``outs``; the others are zero
    places: Sequence[int],  # the axis of each array that directions get
    count: int,
) -> list[Any]:
    """The derivatives of arrays in ``count`` directions."""
    found = iter(zip(outs, axes, strict=True))
    return [
        structural.place(*next(found), at, count)
        if flag
        else structural.zeros((*aval.shape[:at], count, *aval.shape[at:]), aval.dtype)
        for aval, flag, at in zip(avals, nonzero, places, strict=True)
    ]


@rewriting(512)
@typechecked
def forward_lanes(graph: Graph, residuals: int, count: int) -> Graph:
    """The products of a linear graph with ``count`` vectors at once.

    The inputs are the residuals and, for each tangent, the vectors, along a first axis; so are the
    outputs.
    """
    return _lanes(graph, residuals, graph.in_avals[residuals:], count)


@rewriting(512)
@typechecked
def reverse_lanes(graph: Graph, residuals: int, count: int) -> Graph:
    """The products of ``count`` vectors with a linear graph: as `forward_lanes`, transposed."""
    linear = tuple(i >= residuals for i in range(len(graph.inputs)))
    transposed, nonzero = transpose_graph(graph, linear, (True,) * len(graph.outputs))
    lanes = _lanes(transposed, residuals, graph.out_avals, count)

    def run(*inputs: Any) -> list[Any]:
        found = iter(replay(lanes, inputs))
        return [
            next(found) if flag else structural.zeros((count, *aval.shape), aval.dtype)
            for aval, flag in zip(graph.in_avals[residuals:], nonzero, strict=True)
        ]

    return rewrite(run, lanes.in_avals)


def _lanes(graph: Graph, residuals: int, vectors: Sequence[Aval], count: int) -> Graph:
    def run(*inputs: Any) -> list[Any]:
        axes = [None if i < residuals else 0 for i in range(len(inputs))]
        outs, places = batched_outputs(graph, inputs, axes, count)
        return [structural.place(x, axis, 0, count) for x, axis in zip(outs, places, strict=True)]

    stacked = [aval.update(shape=(count, *aval.shape)) for aval in vectors]
    return rewrite(run, [*graph.in_avals[:residuals], *stacked])
