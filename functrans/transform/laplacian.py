"""Forward Laplacian: propagates values, first derivatives and Laplacians in one pass.

Li, Ye, Xu and others, "A computational framework for neural network-based variational Monte Carlo
with forward Laplacian" (2024). For an equation y = g(x), with tangents J_k of x in all directions
k, the Laplacian of y is g'(x) applied to the Laplacian of x, plus the sum over k of the second
derivative of g in the direction J_k. The second term is absent for linear g, where most work is.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from functrans.ir.check import typechecked
from functrans.ir.graph import Eqn, Graph, Literal, Var, prune, rewriting
from functrans.ops.arrays.structural import instantiated, place, reduce_sum
from functrans.ops.calls.custom import resolved
from functrans.records import NamedTuple
from functrans.trace.stage import apply, replay, rewrite
from functrans.transform.batch import batched_outputs
from functrans.transform.forward import jvp_graph
from functrans.transform.jacobian import basis


class Second(NamedTuple):
    """A value and its derivatives in all directions; None for zero derivatives."""

    value: Any
    tangents: Any = None  # the tangents in all directions, along a first axis
    laplacian: Any = None  # the sum of the second derivatives over all directions


@rewriting(512)
@typechecked
def laplacian_graph(graph: Graph, moving: tuple[bool, ...]) -> Graph:
    """The Laplacian of each output with respect to all elements of the ``moving`` inputs."""
    sizes = [prod(v.aval.shape) for v, flag in zip(graph.inputs, moving, strict=True) if flag]
    count = sum(sizes)

    def run(*inputs: Any) -> list[Any]:
        first = 0
        given = []
        for x, var, flag in zip(inputs, graph.inputs, moving, strict=True):
            if flag:
                aval = var.aval
                given.append(Second(x, basis(-first, count, aval.shape, aval.dtype)))
                first += prod(aval.shape)
            else:
                given.append(Second(x))
        outs = _outputs(graph, given, count)
        return instantiated([out.laplacian for out in outs], graph.out_avals)

    return rewrite(run, graph.in_avals)


def _outputs(graph: Graph, inputs: Sequence[Second], count: int) -> list[Second]:
    env: dict[Any, Second] = dict(zip(graph.inputs, inputs, strict=True))

    def read(atom: Any) -> Second:
        return Second(atom.value) if isinstance(atom, Literal) else env[atom]

    for eqn in graph.eqns:
        operands = [read(atom) for atom in eqn.inputs]
        if all(x.tangents is None for x in operands):
            values = apply(eqn, [x.value for x in operands])
            results = [Second(value) for value in values]
        else:
            results = _pushed(eqn, operands, count)
        env.update(zip(eqn.outputs, results, strict=True))
    return [read(atom) for atom in graph.outputs]


def _pushed(eqn: Eqn, operands: Sequence[Second], count: int) -> list[Second]:
    """The results of one equation, with their derivatives."""
    single, atoms = _alone(eqn)
    given = dict(zip(eqn.inputs, operands, strict=True))
    inputs = [given[atom] for atom in atoms]
    moving = tuple(x.tangents is not None for x in inputs)
    values = [x.value for x in inputs]
    moved = [x for x in inputs if x.tangents is not None]
    first = jvp_graph(single, moving)
    outs = len(single.outputs)
    laplacians = instantiated([x.laplacian for x in moved], [x.value for x in moved])
    found = replay(first.graph, [*values, *laplacians])
    of_laplacians = iter(found[outs:])

    # the derivative of the tangent in the direction of the tangent, if it is not zero
    second = jvp_graph(resolved(first.graph), (*moving, *(False for _ in moved)))
    wanted = second.graph.outputs[outs : len(first.graph.outputs)]
    curved = second.nonzero[outs:]
    derivatives = second.graph.outputs[len(first.graph.outputs) + sum(second.nonzero[:outs]) :]
    both = prune(Graph(second.graph.inputs, second.graph.eqns, [*wanted, *derivatives]))
    tangents = [x.tangents for x in moved]
    lanes, axes = batched_outputs(
        both,
        [*values, *tangents, *tangents],
        [*(None for _ in values), *(0 for _ in tangents), *(0 for _ in tangents)],
        count,
    )
    placed = [place(x, axis, 0, count) for x, axis in zip(lanes, axes, strict=True)]
    rows, curvatures = iter(placed[: len(wanted)]), iter(placed[len(wanted) :])
    bends = iter(curved)
    results = []
    for value, nonzero in zip(found[:outs], first.nonzero, strict=True):
        if not nonzero:
            results.append(Second(value))
            continue
        laplacian = next(of_laplacians)
        if next(bends):
            laplacian = laplacian + reduce_sum(next(curvatures), axes=(0,))
        results.append(Second(value, next(rows), laplacian))
    return results


def _alone(eqn: Eqn) -> tuple[Graph, list[Var]]:
    """An equation as a graph, and its input variables, each once."""
    variables = list(dict.fromkeys(x for x in eqn.inputs if isinstance(x, Var)))
    return Graph(variables, [eqn], eqn.outputs), variables
