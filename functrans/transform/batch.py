"""vmap on graphs: batching rules are applied to all equations with a mapped operand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from functrans.caches import cached
from functrans.ir.check import typechecked
from functrans.ir.graph import Graph, Literal, rewriting
from functrans.ir.types import Aval
from functrans.ops.arrays.structural import place
from functrans.trace.source import located
from functrans.trace.stage import Environment, apply, at_source_of, rewrite

Axes = Sequence[int | None]


def batched_outputs(
    graph: Graph, inputs: Sequence[Any], axes: Axes, size: int, name: str | None = None
) -> tuple[list[Any], list[int | None]]:
    """The outputs of a graph for inputs with mapped axes, and the outputs' mapped axes."""
    transform = batch_graph if name is None else _along(name)
    values = Environment(zip(graph.inputs, inputs, strict=True))
    mapped = {v: axis for v, axis in zip(graph.inputs, axes, strict=True) if axis is not None}
    for eqn in graph.eqns:
        operands = [values.read(atom) for atom in eqn.inputs]
        where = [None if isinstance(a, Literal) else mapped.get(a) for a in eqn.inputs]
        if all(axis is None for axis in where):
            values.update(zip(eqn.outputs, apply(eqn, operands), strict=True))
            continue
        primitive = eqn.primitive
        if primitive.batch is None:
            raise NotImplementedError(
                f"{primitive.name} has no batching rule{located(eqn.source)}: it cannot be vmapped"
            )
        with at_source_of(eqn):
            if primitive.higher_order:
                outs, out_axes = primitive.batch(
                    operands, where, size=size, transform=transform, **eqn.params
                )
            elif primitive.collective is not None:
                outs, out_axes = primitive.batch(operands, where, along=name, **eqn.params)
            else:
                outs, out_axes = primitive.batch(operands, where, **eqn.params)
        if not primitive.several:
            outs, out_axes = (outs,), (out_axes,)
        for var, out, axis in zip(eqn.outputs, outs, out_axes, strict=True):
            values[var] = out
            if axis is not None:
                mapped[var] = axis
    return (
        [values.read(atom) for atom in graph.outputs],
        [None if isinstance(a, Literal) else mapped.get(a) for a in graph.outputs],
    )


def batched_aval(aval: Aval, axis: int | None, size: int) -> Aval:
    """The type of a value with a mapped axis."""
    if axis is None:
        return aval
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


@rewriting(2048)
@typechecked
def batch_graph(
    graph: Graph,
    axes: tuple[int | None, ...],  # the mapped axis of each input
    size: int,  # the extent of the mapped axes
    # the required mapped axis of each output; None leaves it as it results
    out_axes: tuple[int | None, ...] | None = None,
    name: str | None = None,  # of the axis, whose collectives end here
) -> tuple[Graph, tuple[int | None, ...]]:
    """The batched graph, and the mapped axes of its outputs."""
    found: list[int | None] = []

    def run(*inputs: Any) -> list[Any]:
        outs, places = batched_outputs(graph, inputs, axes, size, name)
        if out_axes is not None:
            outs = [
                place(x, axis, wanted, size)
                for x, axis, wanted in zip(outs, places, out_axes, strict=True)
            ]
            places = [
                axis if wanted is None else wanted
                for axis, wanted in zip(places, out_axes, strict=True)
            ]
        found.extend(places)
        return outs

    avals = [batched_aval(a, axis, size) for a, axis in zip(graph.in_avals, axes, strict=True)]
    return rewrite(run, avals), tuple(found)


@cached(256)
def _along(name: str) -> Callable[..., tuple[Graph, tuple[int | None, ...]]]:
    return partial(batch_graph, name=name)
