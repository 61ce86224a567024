"""Primitives that apply an inner graph once, and the rules that they share.

Each rule applies the given transform to the inner graph, and applies the transformed graph by the
same primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

from functrans.ir.evaluate import evaluate
from functrans.ir.graph import Atom, Eqn, Graph, Var, inlined, prune, used_inputs
from functrans.ir.primitive import EqnSplit, Primitive
from functrans.ir.types import Aval
from functrans.lazily import lazy
from functrans.ops.calls.budget import Budget
from functrans.ops.compiled.emission import Emit
from functrans.ops.compiled.pairs import flattened
from functrans.ops.control.layout import applied_once, check_operands, compact, spread
from functrans.ops.define import primitive
from functrans.ops.elementwise.stop import barrier
from functrans.trace.source import recomputed

_sparsity = lazy("functrans.ops.control.dependence:of_call")


def call_primitive(name: str, numpy: Callable[..., Any], **slots: Any) -> Primitive:
    """Define a primitive whose parameter ``graph`` is applied to its operands.

    ``slots`` override rules of the definition, or add further ones.
    """
    rules: dict[str, Any] = {
        "jvp": lambda *args, **params: _jvp(call, *args, **params),
        "transpose": lambda *args, **params: transpose_graph_of(call, *args, **params),
        "batch": lambda *args, **params: _batch(call, *args, **params),
        "split": lambda *args, **params: _split(call, *args, **params),
        "parts": lambda *args, **params: _in_parts(call, *args, **params),
        "sparsity": _sparsity,
        "trim": _trim,
    }
    call: Primitive = primitive(
        name,
        infer=results_of_graph,
        numpy=numpy,
        several=True,
        higher_order=True,
        **(rules | slots),
    )
    return call


def results_of_graph(*avals: Aval, graph: Graph, **params: Any) -> tuple[Aval, ...]:
    """The type rule of primitives that apply ``graph`` to their operands."""
    check_operands("a call", graph.in_avals, avals)
    return graph.out_avals


def _jvp(
    call: Primitive, primals: Sequence[Any], tangents: Sequence[Any], *, transform: Any,
    graph: Graph, **params: Any,
) -> tuple[Sequence[Any], Sequence[Any]]:  # fmt: skip
    moving = tuple(t is not None for t in tangents)
    pushed, nonzero = transform(graph, moving)
    results = call(*primals, *compact(tangents), graph=pushed, **params)
    count = len(graph.outputs)
    return results[:count], spread(results[count:], nonzero)


def transpose_graph_of(
    call: Callable[..., Any], cotangents: Sequence[Any], *operands: Any, transform: Any,
    graph: Graph, **params: Any,
) -> list[Any]:  # fmt: skip
    """The cotangents of operands of an inner graph, whose transpose ``call`` applies."""
    linear = tuple(isinstance(x, Aval) for x in operands)
    given = tuple(ct is not None for ct in cotangents)
    transposed, nonzero = transform(graph, linear, given)
    known = [x for x in operands if not isinstance(x, Aval)]
    results = call(*known, *compact(cotangents), graph=transposed, **params)
    # the cotangents follow the results that do not depend on the linear operands
    return spread(spread(results[len(results) - sum(nonzero) :], nonzero), linear)


def _batch(
    call: Primitive, operands: Sequence[Any], axes: Sequence[int | None], *, size: int,
    transform: Any, graph: Graph, **params: Any,
) -> tuple[Sequence[Any], Sequence[int | None]]:  # fmt: skip
    batched, out_axes = transform(graph, tuple(axes), size)
    return call(*operands, graph=batched, **params), out_axes


def _split(
    call: Primitive, unknown: tuple[bool, ...], *, transform: Any, graph: Graph, **params: Any
) -> EqnSplit:
    known, rest, unknown_out = transform(graph, unknown)
    return EqnSplit(
        applied_once(call, known.in_avals, {"graph": known, **params}),
        applied_once(call, rest.in_avals, {"graph": rest, **params}),
        unknown_out,
    )


def _in_parts(
    call: Primitive, operands: Sequence[Any], *, transform: Any, graph: Graph, **params: Any
) -> Sequence[Any]:
    return call(*flattened(operands), graph=transform(graph), **params)


def _trim(eqn: Eqn, wanted: Sequence[bool]) -> Eqn:
    graph: Graph = eqn.params["graph"]
    smaller = prune(Graph(graph.inputs, graph.eqns, list(compress(graph.outputs, wanted))))
    used = used_inputs(smaller)
    closed = Graph(list(compress(graph.inputs, used)), smaller.eqns, smaller.outputs)
    return Eqn(
        eqn.primitive,
        list(compress(eqn.inputs, used)),
        list(compress(eqn.outputs, wanted)),
        {**eqn.params, "graph": closed},
        eqn.source,
    )


# -- checkpoint ------------------------------------------------------------------------------------


def _split_checkpoint(
    unknown: tuple[bool, ...], *, transform: Any, graph: Graph, keep: Callable[[Any], bool] | Budget
) -> EqnSplit:
    """Store known operands and the values of the policy as residuals; recompute everything else."""
    known, unknown_part, unknown_out = transform(graph, unknown)
    count = len(unknown_out) - sum(unknown_out)
    if isinstance(keep, Budget):
        kept = keep.chosen(known.eqns, [x for x in known.outputs[count:] if isinstance(x, Var)])
    else:
        kept = [var for eqn in known.eqns if keep(eqn) for var in eqn.outputs]
    again = [
        _without_results(recomputed(eqn), kept)
        for eqn in known.eqns
        if not set(kept).issuperset(eqn.outputs)
    ]
    unknown_in = [Var(aval) for aval in unknown_part.in_avals[-sum(unknown) :]]
    then, results = inlined(unknown_part, [*known.outputs[count:], *unknown_in])
    first = prune(Graph(known.inputs, known.eqns, [*known.outputs[:count], *kept]))
    rest = _behind_barriers([*known.inputs, *kept], unknown_in, [*again, *then], results)
    once = applied_once(checkpoint_p, first.in_avals, {"graph": first, "keep": keep})
    residuals = [*once.inputs, *once.outputs[count:]]
    return EqnSplit(
        Graph(once.inputs, once.eqns, [*once.outputs[:count], *residuals]),
        applied_once(checkpoint_p, rest.in_avals, {"graph": rest, "keep": keep}),
        unknown_out,
    )


def _without_results(eqn: Eqn, kept: Sequence[Var]) -> Eqn:
    """The equation, with new variables in place of the results that are kept."""
    outputs = [Var(var.aval) if var in kept else var for var in eqn.outputs]
    return Eqn(eqn.primitive, eqn.inputs, outputs, eqn.params, eqn.source)


def _behind_barriers(
    known: Sequence[Var], unknown: Sequence[Var], eqns: Sequence[Eqn], results: Sequence[Atom]
) -> Graph:
    """A recomputing graph behind barriers, so that no pass merges it with the original."""
    arriving = [Var(var.aval) for var in known]
    barriers = [
        Eqn(barrier, (outer,), (inner,), {}) for outer, inner in zip(arriving, known, strict=True)
    ]
    return prune(Graph([*arriving, *unknown], [*barriers, *eqns], results))


checkpoint_p = call_primitive(
    "checkpoint",
    numpy=lambda *values, graph, keep: tuple(evaluate(graph, values)),
    split=_split_checkpoint,
)


# -- repeated parts --------------------------------------------------------------------------------

step_p = call_primitive(
    "step",
    numpy=lambda *values, graph: tuple(evaluate(graph, values)),
    emit=Emit(lambda at: at.subprogram(at.eqn.params["graph"])),
)
"""A part of a program that is compiled once, and called in several places."""
