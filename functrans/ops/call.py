"""Primitives that apply an inner graph once: the rules that they share.

Each rule applies the transform that it is handed to the inner graph, and calls the result in the
same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrans.ir.evaluate import evaluate
from functrans.ir.graph import Eqn, Graph, Var, prune
from functrans.ir.primitive import EqnSplit, Primitive
from functrans.ir.types import Aval
from functrans.ops.define import primitive


def call_primitive(name: str, numpy: Callable[..., Any], **slots: Any) -> Primitive:
    """Define a primitive whose parameter ``graph`` is applied to its operands.

    ``slots`` replace rules of the definition, or add some.
    """
    rules: dict[str, Any] = {
        "jvp": lambda *args, **params: _jvp(call, *args, **params),
        "transpose": lambda *args, **params: _transpose(call, *args, **params),
        "batch": lambda *args, **params: _batch(call, *args, **params),
        "split": lambda *args, **params: _split(call, *args, **params),
    }
    call: Primitive = primitive(
        name,
        infer=lambda *avals, graph, **params: graph.out_avals,
        numpy=numpy,
        several=True,
        higher_order=True,
        **(rules | slots),
    )
    return call


def compact(values: Sequence[Any]) -> list[Any]:
    """The values that are not absent."""
    return [x for x in values if x is not None]


def spread(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """Values in the places of the flags that hold, None in the others."""
    remaining = iter(values)
    return [next(remaining) if flag else None for flag in flags]


def _jvp(
    call: Primitive,
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    transform: Any,
    graph: Graph,
    **params: Any,
) -> tuple[Sequence[Any], Sequence[Any]]:
    moving = tuple(t is not None for t in tangents)
    pushed, nonzero = transform(graph, moving)
    results = call(*primals, *compact(tangents), graph=pushed, **params)
    count = len(graph.outputs)
    return results[:count], spread(results[count:], nonzero)


def _transpose(
    call: Primitive,
    cotangents: Sequence[Any],
    *operands: Any,
    transform: Any,
    graph: Graph,
    **params: Any,
) -> list[Any]:
    linear = tuple(isinstance(x, Aval) for x in operands)
    given = tuple(ct is not None for ct in cotangents)
    transposed, nonzero = transform(graph, linear, given)
    known = [x for x in operands if not isinstance(x, Aval)]
    results = call(*known, *compact(cotangents), graph=transposed, **params)
    # before the cotangents come results that do not depend on the linear operands
    return spread(spread(results[len(results) - sum(nonzero) :], nonzero), linear)


def _batch(
    call: Primitive,
    operands: Sequence[Any],
    axes: Sequence[int | None],
    *,
    size: int,
    transform: Any,
    graph: Graph,
    **params: Any,
) -> tuple[Sequence[Any], Sequence[int | None]]:
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


def applied_once(primitive: Primitive, avals: Sequence[Aval], params: dict[str, Any]) -> Graph:
    """The graph of one equation."""
    inputs = [Var(aval) for aval in avals]
    outputs = [Var(aval) for aval in primitive.infer_all(avals, params)]
    return Graph(inputs, [Eqn(primitive, inputs, outputs, params)], outputs)


# -- checkpoint ------------------------------------------------------------------------------------


def _split_checkpoint(
    unknown: tuple[bool, ...],
    *,
    transform: Any,
    graph: Graph,
    keep: Callable[[Any], bool],
) -> EqnSplit:
    """Nothing is kept but the known operands, and what the policy names: the rest is done again."""
    _, _, unknown_out = transform(graph, unknown)
    known_in = [v for v, flag in zip(graph.inputs, unknown, strict=True) if not flag]
    unknown_in = [v for v, flag in zip(graph.inputs, unknown, strict=True) if flag]
    dependent = set(unknown_in)
    kept: list[Var] = []
    for eqn in graph.eqns:
        if not dependent.isdisjoint(eqn.inputs):
            dependent.update(eqn.outputs)
        elif keep(eqn):
            kept += eqn.outputs
    known_out = [a for a, flag in zip(graph.outputs, unknown_out, strict=True) if not flag]
    again = [eqn for eqn in graph.eqns if set(kept).isdisjoint(eqn.outputs)]
    rest_out = [a for a, flag in zip(graph.outputs, unknown_out, strict=True) if flag]
    first = prune(Graph(known_in, graph.eqns, [*known_out, *kept]))
    rest = prune(Graph([*known_in, *kept, *unknown_in], again, rest_out))
    once = applied_once(checkpoint_p, first.in_avals, {"graph": first, "keep": keep})
    results = once.outputs[: len(known_out)]
    residuals = [*once.inputs, *once.outputs[len(known_out) :]]
    return EqnSplit(
        Graph(once.inputs, once.eqns, [*results, *residuals]),
        applied_once(checkpoint_p, rest.in_avals, {"graph": rest, "keep": keep}),
        unknown_out,
    )


checkpoint_p = call_primitive(
    "checkpoint",
    numpy=lambda *values, graph, keep: tuple(evaluate(graph, values)),
    split=_split_checkpoint,
)
