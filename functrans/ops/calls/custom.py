"""Functions whose derivative the user defines.

A call of such a function is one equation. It holds the function's graph and its rule, a Python
function that is traced only when a derivative is taken: the rule may call the function itself.
`resolve` does that tracing; it is done anew for each derivative, since the rule may read globals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.errors import CustomRuleError, LeakedTracerError, NotDifferentiableError
from functrans.ir.evaluate import evaluate
from functrans.ir.graph import Eqn, Graph
from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive
from functrans.ir.types import Aval, is_inexact
from functrans.ops.arrays.structural import place, zeros_like
from functrans.ops.calls.call import results_of_graph
from functrans.ops.control.layout import check_operands, cut
from functrans.ops.define import primitive
from functrans.ops.samples import cases
from functrans.trace.stage import replay, rewrite, stage
from functrans.trace.tracer import Tracer

# -- constants -------------------------------------------------------------------------------------


class Constant:
    """An array in the place of a parameter: compares and hashes by its bytes."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array.copy()
        self.array.flags.writeable = False
        self._key = (array.shape, array.dtype, self.array.tobytes())

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key == other._key

    def __repr__(self) -> str:
        return repr(Aval(self.array.shape, self.array.dtype))


constant = primitive(
    "constant",
    infer=lambda *, value: Aval(value.array.shape, value.array.dtype),
    numpy=lambda *, value: value.array,
    jvp=ZERO_DERIVATIVE,
    samples=cases(({"value": Constant(np.arange(3.0))},)),
)


# -- rules -----------------------------------------------------------------------------------------


class Rule:
    """Python functions that give derivatives, to be traced when one is taken.

    Parameters
    ----------
    functions : sequence of callable
        Each takes and returns flat sequences of tracers; the later ones may depend on what the
        earlier ones found out.
    avals : callable
        ``avals(graphs)`` gives the types that the next function takes, from the graphs of the ones
        before.
    what : str
        What the rule belongs to, for messages.
    """

    def __init__(
        self,
        functions: Sequence[Callable[..., Sequence[Any]]],
        avals: Callable[[Sequence[Graph]], Sequence[Aval]],
        what: str,
    ) -> None:
        self.functions = functions
        self.avals = avals
        self.what = what

    def graphs(self) -> tuple[Graph, ...]:
        """The rule's functions, traced."""
        graphs: list[Graph] = []
        for function in self.functions:
            graphs.append(_closed(function, self.avals(graphs), self.what))
        return tuple(graphs)


def _closed(function: Callable[..., Sequence[Any]], avals: Sequence[Aval], what: str) -> Graph:
    try:
        staged = stage(function, avals, kind=what)
    except LeakedTracerError as error:
        raise CustomRuleError(
            f"the rule of {what} uses a traced value that is not among its arguments: it is called "
            "when the derivative is taken, after the function around it has returned.\nPass the "
            "value to the function as an argument (and to a backward rule through the residuals)."
        ) from error
    for outer in staged.captures:
        if isinstance(outer, Tracer):
            raise CustomRuleError(
                f"{what} uses a traced value of an enclosing function ({outer.aval}): pass it to "
                "the function as an argument, and through the residuals"
            )

    def with_constants(*inputs: Any) -> list[Any]:
        values = [constant(value=Constant(np.asarray(x))) for x in staged.captures]
        return replay(staged.graph, [*inputs, *values])

    return rewrite(with_constants, avals) if staged.captures else staged.graph


class BatchedRule(Rule):
    """A rule under vmap: its graphs are batched, in every input and output, when it is traced."""

    def __init__(self, rule: Rule, transform: Any, size: int) -> None:
        self.rule = rule
        self.transform = transform
        self.size = size
        self.what = rule.what

    def graphs(self) -> tuple[Graph, ...]:
        return _batched(self.rule.graphs(), self.transform, self.size)


def _batched(graphs: Sequence[Graph], transform: Any, size: int) -> tuple[Graph, ...]:
    return tuple(transform(g, (0,) * len(g.inputs), size, (0,) * len(g.outputs))[0] for g in graphs)


def resolve(graph: Graph) -> Graph:
    """The graph with the rules of its custom functions traced, also in inner graphs."""
    if not unresolved(graph):
        return graph
    return Graph(graph.inputs, [_resolve_eqn(eqn) for eqn in graph.eqns], graph.outputs)


def unresolved(graph: Graph) -> bool:
    """Whether there is a rule to trace in a graph."""
    return any(
        eqn.primitive.higher_order
        and any(_needs_resolving(value) for value in _flat(eqn.params.values()))
        for eqn in graph.eqns
    )


def _flat(values: Any) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        flat += value if isinstance(value, tuple) else [value]
    return flat


def _needs_resolving(value: Any) -> bool:
    return isinstance(value, Rule) or (isinstance(value, Graph) and unresolved(value))


def _resolve_eqn(eqn: Eqn) -> Eqn:
    if not eqn.primitive.higher_order:
        return eqn
    params = {name: _resolve_param(value) for name, value in eqn.params.items()}
    return Eqn(eqn.primitive, eqn.inputs, eqn.outputs, params, eqn.source)


def _resolve_param(value: Any) -> Any:
    if isinstance(value, Rule):
        return value.graphs()
    if isinstance(value, Graph):
        return resolve(value)
    if isinstance(value, tuple):
        return tuple(map(_resolve_param, value))
    return value


def _check_constants(tangents: Sequence[Any], what: str, operands: Sequence[Any]) -> None:
    for tangent, x in zip(tangents, operands, strict=True):
        if tangent is not None:
            raise CustomRuleError(
                f"{what} uses a value of an enclosing function ({x.aval}) that is being "
                "differentiated: its rule cannot know of it. Pass it to the function as an argument"
            )


def _instantiated(tangents: Sequence[Any], primals: Sequence[Any]) -> list[Any]:
    return [zeros_like(x) if t is None else t for t, x in zip(tangents, primals, strict=True)]


# -- custom_jvp ------------------------------------------------------------------------------------


def _jvp_of_custom_jvp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    transform: Any,
    graph: Graph,
    rule: tuple[Graph, ...],
    arguments: int,
    what: str,
) -> tuple[Sequence[Any], Sequence[Any]]:
    _check_constants(tangents[arguments:], what, primals[arguments:])
    own, moving = primals[:arguments], tangents[:arguments]
    floating = [t for t, x in zip(_instantiated(moving, own), own, strict=True) if _has_tangent(x)]
    results = replay(rule[0], [*own, *floating])
    count = len(graph.outputs)
    dots = iter(results[count:])
    return results[:count], [
        next(dots) if _has_tangent(atom.aval) else None for atom in graph.outputs
    ]


def _has_tangent(x: Any) -> bool:
    return is_inexact(x.dtype)


def _batch_custom(
    primitive: Primitive,
    operands: Sequence[Any],
    axes: Sequence[int | None],
    *,
    size: int,
    transform: Any,
    graph: Graph,
    rule: Any,
    arguments: int,
    what: str,
) -> tuple[Sequence[Any], Sequence[int | None]]:
    # every argument is mapped, because the tangent or cotangent of one that is not may be
    own = [
        place(x, axis, 0, size)
        for x, axis in zip(operands[:arguments], axes[:arguments], strict=True)
    ]
    everywhere = (0,) * len(graph.outputs)
    batched, _ = transform(graph, ((0,) * arguments + tuple(axes[arguments:])), size, everywhere)
    if isinstance(rule, Rule):
        rule = BatchedRule(rule, transform, size)
    else:
        rule = _batched(rule, transform, size)
    outs = primitive(
        *own, *operands[arguments:], graph=batched, rule=rule, arguments=arguments, what=what
    )
    return outs, everywhere


def _define(name: str, jvp: Callable[..., Any]) -> Primitive:
    defined: Primitive = primitive(
        name,
        infer=results_of_graph,
        numpy=lambda *values, graph, **params: tuple(evaluate(graph, values)),
        jvp=jvp,
        batch=lambda *args, **params: _batch_custom(defined, *args, **params),
        several=True,
        higher_order=True,
    )
    return defined


custom_jvp_p = _define("custom_jvp", _jvp_of_custom_jvp)


# -- custom_vjp ------------------------------------------------------------------------------------


def _jvp_of_custom_vjp(
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    transform: Any,
    graph: Graph,
    rule: tuple[Graph, ...],
    arguments: int,
    what: str,
) -> tuple[Sequence[Any], Sequence[Any]]:
    _check_constants(tangents[arguments:], what, primals[arguments:])
    forward, backward = rule
    own = primals[:arguments]
    results = replay(forward, own)
    count = len(graph.outputs)
    outs, residuals = results[:count], results[count:]
    moving = _instantiated(tangents[:arguments], own)
    dots = iter(
        custom_pullback(
            *residuals,
            *(t for t, x in zip(moving, own, strict=True) if _has_tangent(x)),
            backward=backward,
            residuals=len(residuals),
            what=what,
        )
    )
    return outs, [next(dots) if _has_tangent(out) else None for out in outs]


def _no_forward_mode(*values: Any, what: str, **params: Any) -> Any:
    raise NotDifferentiableError(
        f"{what} defines a reverse-mode rule only: forward mode (jvp, linearize, jacfwd) needs "
        "custom_jvp; grad, jacrev, hessian and hvp do not"
    )


def _transpose_pullback(
    cotangents: Sequence[Any],
    *operands: Any,
    transform: Any,
    backward: Graph,
    residuals: int,
    what: str,
) -> list[Any]:
    avals = backward.in_avals[residuals:]
    given = [
        zeros_like(aval) if ct is None else ct for ct, aval in zip(cotangents, avals, strict=True)
    ]
    return [None] * residuals + replay(backward, [*operands[:residuals], *given])


def _batch_pullback(
    operands: Sequence[Any],
    axes: Sequence[int | None],
    *,
    size: int,
    transform: Any,
    backward: Graph,
    residuals: int,
    what: str,
) -> tuple[Sequence[Any], Sequence[int | None]]:
    mapped = [place(x, axis, 0, size) for x, axis in zip(operands, axes, strict=True)]
    (batched,) = _batched([backward], transform, size)
    outs = custom_pullback(*mapped, backward=batched, residuals=residuals, what=what)
    return outs, (0,) * len(outs)


def _infer_pullback(*avals: Aval, backward: Graph, residuals: int, what: str) -> Sequence[Aval]:
    known, cotangents = cut(backward.in_avals, residuals)
    check_operands(what, [*known, *backward.out_avals], avals)
    return cotangents


custom_vjp_p = _define("custom_vjp", _jvp_of_custom_vjp)

custom_pullback = primitive(
    "custom_pullback",
    infer=_infer_pullback,
    numpy=_no_forward_mode,
    jvp=lambda primals, tangents, **params: _no_forward_mode(**params),
    transpose=_transpose_pullback,
    batch=_batch_pullback,
    several=True,
    higher_order=True,
)
