"""Forward mode: propagates tangents together with primals.

A zero tangent is absent (None), never an array of zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from functrans.errors import NotDifferentiableError
from functrans.ir.check import typechecked
from functrans.ir.graph import Eqn, Graph, Var, rewriting, used_inputs
from functrans.ir.primitive import NotDifferentiable, Piecewise
from functrans.ir.types import is_inexact
from functrans.ops.arrays.structural import absent_like, cast
from functrans.ops.control.layout import spread
from functrans.ops.define import tangent_of_linear
from functrans.records import NamedTuple
from functrans.trace.source import located
from functrans.trace.stage import Environment, apply, at_source_of, rewrite
from functrans.transform.support import Support, Supports, tangent_by_parts

Tangents = Sequence[Any]


def push_forward(
    graph: Graph, primals: Sequence[Any], tangents: Tangents, known: Mapping[Var, Any]
) -> tuple[list[Any], list[Any]]:
    """The outputs of a graph and their tangents.

    ``known`` has the values of variables that are computed already.
    """
    values = Environment(zip(graph.inputs, primals, strict=True))
    values.update(known)
    dots = {v: t for v, t in zip(graph.inputs, tangents, strict=True) if t is not None}
    supports = Supports()
    for eqn in graph.eqns:
        operands = [values.read(atom) for atom in eqn.inputs]
        moving = [dots.get(atom) if isinstance(atom, Var) else None for atom in eqn.inputs]
        if all(t is None for t in moving):
            if any(var not in values for var in eqn.outputs):
                values.update(zip(eqn.outputs, apply(eqn, operands), strict=True))
            continue
        if eqn.primitive.higher_order:
            with at_source_of(eqn):
                outs, out_tangents = _jvp_of(eqn)(
                    operands, moving, transform=jvp_graph, **eqn.params
                )
            values.update(zip(eqn.outputs, outs, strict=True))
        else:
            if any(var not in values for var in eqn.outputs):
                values.update(zip(eqn.outputs, apply(eqn, operands), strict=True))
            outs = [values[var] for var in eqn.outputs]
            reach = supports.of_operands(eqn, moving)
            out_tangents = tangents_of_results(eqn, operands, moving, outs, reach)
            supports.push(eqn, operands, reach)
        for var, tangent in zip(eqn.outputs, out_tangents, strict=True):
            if tangent is not None and is_inexact(var.aval.dtype):
                dots[var] = tangent
    return (
        [values.read(atom) for atom in graph.outputs],
        [dots.get(atom) if isinstance(atom, Var) else None for atom in graph.outputs],
    )


def _jvp_of(eqn: Eqn) -> Any:
    jvp = eqn.primitive.jvp
    if isinstance(jvp, NotDifferentiable) or jvp is None:
        reason = jvp.reason if jvp else "it has no rule"
        raise NotDifferentiableError(
            f"{eqn.primitive.name} is not differentiable{located(eqn.source)}: {reason}"
        )
    return jvp


def tangents_of_results(
    eqn: Eqn,
    primals: Sequence[Any],
    tangents: Tangents,
    outs: Sequence[Any],
    reach: Sequence[Support] = (),
) -> Sequence[Any]:
    """The tangents of the results of an equation without inner graphs."""
    primitive = eqn.primitive
    if isinstance(primitive.jvp, Piecewise):
        return [None] * len(outs)
    if not any(is_inexact(var.aval.dtype) for var in eqn.outputs):
        return [None] * len(outs)
    for number, reason in primitive.fixed.items():
        if tangents[number] is not None:
            raise NotDifferentiableError(
                f"{primitive.name} is not differentiable in operand {number}{located(eqn.source)}: "
                f"{reason}"
            )
    with at_source_of(eqn, "tangent"):
        if primitive.jvp is None and primitive.linear:
            result = tangent_of_linear(primitive, primals, tangents, eqn.params, absent_like)
        elif primitive.steep and any(callable(support) for support in reach):
            jvp = partial(_jvp_of(eqn), **eqn.params)
            result = tangent_by_parts(jvp, primals, tangents, outs, reach)
        else:
            result = _jvp_of(eqn)(primals, tangents, outs, **eqn.params)
        results = result if primitive.several else (result,)
        return [_of_primal(var, t) for var, t in zip(eqn.outputs, results, strict=True)]


def _of_primal(primal: Var, tangent: Any) -> Any:
    """Cast a tangent to the dtype of its primal, if a rule has computed it in another one.

    SciPy's functions compute float16 in single or double precision, and so do rules that select
    between Python numbers.
    """
    dtype = primal.aval.dtype
    if tangent is None or tangent.dtype == dtype or not is_inexact(dtype):
        return tangent
    loses_a_part = tangent.dtype.kind == "c" and dtype.kind != "c"
    return tangent if loses_a_part else cast(tangent, dtype=dtype)


class Tangent(NamedTuple):
    """The tangents of a graph's outputs, as a linear graph."""

    # maps the needed values and the tangents of the inputs to the tangents of the outputs, followed
    # by the ``late`` outputs
    graph: Graph
    # the numbers of the original graph's variables (in `variables`) whose values it takes
    needed: tuple[int, ...]
    nonzero: tuple[bool, ...]  # for each output of the original graph, whether it has a tangent
    # for each output of the original graph, whether it is computed together with the tangents,
    # because it results from an equation with an inner graph
    late: tuple[bool, ...]


def variables(graph: Graph) -> list[Var]:
    """All variables of a graph, in the order of their definition."""
    found = [*graph.inputs]
    for eqn in graph.eqns:
        found += eqn.outputs
    return found


@rewriting(2048)
@typechecked
def tangent_graph(graph: Graph, moving: tuple[bool, ...], count: int | None = None) -> Tangent:
    """The tangents of the outputs, from known values and the tangents of the ``moving`` inputs.

    With ``count``, only this many first outputs have tangents: the others are auxiliary.
    """
    computed = [var for eqn in graph.eqns for var in eqn.outputs if not eqn.primitive.higher_order]
    known = [*graph.inputs, *computed]
    at_hand = set(known)
    late = tuple(isinstance(a, Var) and a not in at_hand for a in graph.outputs)
    nonzero: list[bool] = []

    def run(*inputs: Any) -> list[Any]:
        values, tangents = inputs[: len(known)], spread(inputs[len(known) :], moving)
        env = dict(zip(known, values, strict=True))
        outs, dots = push_forward(graph, values[: len(moving)], tangents, env)
        if count is not None:
            dots[count:] = [None] * (len(dots) - count)
        nonzero.extend(t is not None for t in dots)
        return [
            *(t for t in dots if t is not None),
            *(x for x, flag in zip(outs, late, strict=True) if flag),
        ]

    tangent_avals = [v.aval for v, flag in zip(graph.inputs, moving, strict=True) if flag]
    full = rewrite(run, [*(var.aval for var in known), *tangent_avals])
    used = used_inputs(full)[: len(known)]
    position = {var: i for i, var in enumerate(variables(graph))}
    needed = tuple(position[v] for v, flag in zip(known, used, strict=True) if flag)
    inputs = [v for v, flag in zip(full.inputs, used, strict=False) if flag]
    inputs += full.inputs[len(known) :]
    return Tangent(Graph(inputs, full.eqns, full.outputs), needed, tuple(nonzero), late)


class Jvp(NamedTuple):
    """A graph from primals and tangents to outputs and tangents; absent tangents are left out."""

    graph: Graph
    nonzero: tuple[bool, ...]


@rewriting(2048)
@typechecked
def jvp_graph(
    graph: Graph, moving: tuple[bool, ...], instantiate: tuple[bool, ...] | None = None
) -> Jvp:
    """The graph of outputs and tangents, from inputs and the tangents of the ``moving`` ones.

    ``instantiate``: which outputs get a tangent of zeros if theirs is absent.
    """
    nonzero: list[bool] = []

    def run(*inputs: Any) -> list[Any]:
        primals, tangents = inputs[: len(moving)], spread(inputs[len(moving) :], moving)
        outs, dots = push_forward(graph, primals, tangents, {})
        for i, atom in enumerate(graph.outputs):
            if instantiate is not None and instantiate[i] and dots[i] is None:
                dots[i] = absent_like(atom.aval)
        nonzero.extend(t is not None for t in dots)
        return [*outs, *(t for t in dots if t is not None)]

    tangent_avals = [v.aval for v, flag in zip(graph.inputs, moving, strict=True) if flag]
    return Jvp(rewrite(run, [*graph.in_avals, *tangent_avals]), tuple(nonzero))
