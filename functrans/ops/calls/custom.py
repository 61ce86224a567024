"""Functions with user-defined derivatives, as primitives.

A call of such a function is one equation. It holds the function's graph and its rule, a Python
function that is traced only when a derivative is taken: the rule may call the function itself.
`resolve` does that tracing; it is done anew for each derivative, since the rule may read globals,
unless it is known to depend on its arguments alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.errors import CustomRuleError, LeakedTracerError, NotDifferentiableError
from functrans.ir.evaluate import evaluate
from functrans.ir.graph import Eqn, Graph, Var, any_eqn, with_graphs
from functrans.ir.primitive import Primitive
from functrans.ir.types import Aval, is_inexact
from functrans.ops.arrays.structural import instantiated, place
from functrans.ops.calls.call import results_of_graph, transpose_graph_of
from functrans.ops.calls.constant import Constant, constant
from functrans.ops.control.layout import check_operands, cut
from functrans.ops.define import primitive
from functrans.records import NamedTuple
from functrans.trace.absent import UNKNOWN
from functrans.trace.stage import Staged, replay, rewrite, stage
from functrans.trace.tracer import Tracer

# -- rules -----------------------------------------------------------------------------------------


class Traced(NamedTuple):
    """A rule's functions as graphs.

    Each takes the ``captures`` first, values of enclosing functions that are still being traced,
    and then its own arguments.
    """

    graphs: tuple[Graph, ...]
    captures: tuple[Tracer, ...] = ()


class Rule:
    """Python functions that define derivatives, traced when a derivative is taken."""

    def __init__(
        self,
        # each takes and returns flat sequences of tracers; later ones may depend on the results of
        # earlier ones
        functions: Sequence[Callable[..., Sequence[Any]]],
        # ``avals(before)`` gives the types that the next function takes, from what was staged of
        # the ones before
        avals: Callable[[Sequence[Staged]], Sequence[Aval]],
        # ``known(before)`` gives the values of its first arguments, on which Python may branch
        known: Callable[[Sequence[Staged]], Sequence[Any]],
        what: str,  # the name of the rule's function, for messages
        # Equal for rules that give equal graphs. It detects recursion: a rule may call its own
        # function.
        key: Any,
    ) -> None:
        self.key = key
        self.functions = functions
        self.avals = avals
        self.known = known
        self.what = what

    def traced(self) -> Traced:
        """The rule's functions, traced."""
        before: list[Staged] = []
        for function in self.functions:
            avals, known = self.avals(before), self.known(before)
            values = [*known, *[UNKNOWN] * (len(avals) - len(known))]
            before.append(_staged(function, avals, values, self.what))
        captures = {
            outer._variable: outer
            for staged in before
            for outer in staged.captures
            if isinstance(outer, Tracer)
        }
        return Traced(
            tuple(closed(staged, list(captures)) for staged in before), tuple(captures.values())
        )


def _staged(
    function: Callable[..., Sequence[Any]], avals: Sequence[Aval], values: Sequence[Any], what: str
) -> Staged:
    try:
        return stage(function, avals, kind=what, values=values)
    except LeakedTracerError as error:
        raise CustomRuleError(
            f"the rule of {what} uses a traced value that is not among its arguments: it is called "
            "when the derivative is taken, after the function around it has returned.\nPass the "
            "value to the function as an argument (and to a backward rule through the residuals)."
        ) from error


def closed(staged: Staged, captured: Sequence[Var]) -> Graph:
    """The graph with captured variables as its first inputs, and captured arrays as constants."""
    outside = [Var(var.aval) for var in captured]
    own = staged.graph.in_avals[: len(staged.graph.inputs) - len(staged.captures)]

    def function(*inputs: Any) -> list[Any]:
        captures = dict(zip(captured, inputs, strict=False))
        values = [
            captures[x._variable]
            if isinstance(x, Tracer)
            else constant(value=Constant(np.asarray(x)))
            for x in staged.captures
        ]
        return replay(staged.graph, [*inputs[len(captured) :], *values])

    return rewrite(function, [*(var.aval for var in outside), *own])


class KeptRule(Rule):
    """A rule that depends only on the types of its arguments, and is traced already."""

    def __init__(self, what: str, key: Any) -> None:
        self.what = what
        self.key = key
        self.kept: Traced | None = None
        self.is_done = False

    def traced(self) -> Traced:
        assert self.kept is not None, "a rule is being traced"
        return self.kept


class BatchedRule(Rule):
    """A rule under vmap: once traced, its graphs are batched in every input and output."""

    def __init__(self, rule: Rule, transform: Any, size: int) -> None:
        self.rule = rule
        self.transform = transform
        self.size = size
        self.what = rule.what
        self.key = rule.key, size, transform

    def traced(self) -> Traced:
        graphs, captures = self.rule.traced()
        return Traced(_batched(graphs, self.transform, self.size, len(captures)), captures)


def _batched(
    graphs: Sequence[Graph], transform: Any, size: int, captures: int = 0
) -> tuple[Graph, ...]:
    return tuple(
        transform(
            g,
            (*(None,) * captures, *(0,) * (len(g.inputs) - captures)),
            size,
            (0,) * len(g.outputs),
        )[0]
        for g in graphs
    )


def resolve(graph: Graph) -> tuple[Graph, list[Tracer]]:
    """The graph with the rules of its custom functions traced, also in inner graphs.

    Values of enclosing functions that are still being traced become further inputs.
    """
    outside: dict[Var, tuple[Var, Tracer]] = {}

    def inside(captures: Sequence[Tracer]) -> list[Var]:
        return [outside.setdefault(x._variable, (Var(x._variable.aval), x))[0] for x in captures]

    if not unresolved(graph):
        return graph, []
    eqns = [_resolve_eqn(eqn, inside) for eqn in graph.eqns]
    inputs = [*graph.inputs, *(var for var, _ in outside.values())]
    return Graph(inputs, eqns, graph.outputs), [outer for _, outer in outside.values()]


def resolved(graph: Graph) -> Graph:
    """The graph of a rule's result, with the rules within it traced.

    Raises `NotDifferentiableError` if these use values of enclosing functions.
    """
    found, captures = resolve(graph)
    if captures:
        raise NotDifferentiableError(
            "a rule of a custom derivative closes over a value that is differentiated: pass it to "
            "the function as an argument"
        )
    return found


def unresolved(graph: Graph) -> bool:
    """Whether a graph has rules that are not traced yet."""
    for eqn in graph.eqns:
        if eqn.primitive.higher_order:
            if any(_needs_resolving(value) for value in _flat(eqn.params.values())):
                return True
    return False


def _flat(values: Any) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        flat += value if isinstance(value, tuple) else [value]
    return flat


def _needs_resolving(value: Any) -> bool:
    return isinstance(value, Rule) or (isinstance(value, Graph) and unresolved(value))


Inside = Callable[[Sequence[Tracer]], Sequence[Var]]
"""Variables of a graph for values of enclosing functions."""


def _resolve_eqn(eqn: Eqn, inside: Inside) -> Eqn:
    if not eqn.primitive.higher_order:
        return eqn
    inputs, params = list(eqn.inputs), {}
    for name, value in eqn.params.items():
        if isinstance(value, Rule):
            params[name], captures = value.traced()
            inputs += inside(captures)
        else:
            params[name] = with_graphs(_resolve_inner, value)
    return Eqn(eqn.primitive, inputs, eqn.outputs, params, eqn.source)


def _resolve_inner(graph: Graph) -> Graph:
    found, captures = resolve(graph)
    if captures:
        raise CustomRuleError(
            "a custom rule of a function that is called inside of a loop, of a branch or of a "
            f"compiled function uses a traced value of an enclosing function "
            f"({captures[0]._aval}): pass it to the function as an argument, and through the "
            "residuals"
        )
    return found


def _check_constants(tangents: Sequence[Any], what: str, operands: Sequence[Any]) -> None:
    for tangent, x in zip(tangents, operands, strict=True):
        if tangent is not None:
            raise CustomRuleError(
                f"{what} uses a value of an enclosing function ({x._aval}) that is being "
                "differentiated: its rule cannot know of it. Pass it to the function as an argument"
            )


# -- custom_jvp ------------------------------------------------------------------------------------


def _jvp_of_custom_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, transform: Any, graph: Graph,
    rule: tuple[Graph, ...], arguments: int, what: str,
) -> tuple[Sequence[Any], Sequence[Any]]:  # fmt: skip
    _check_constants(tangents[arguments:], what, primals[arguments:])
    own, moving = primals[:arguments], tangents[:arguments]
    floating = [t for t, x in zip(instantiated(moving, own), own, strict=True) if _has_tangent(x)]
    results = replay(rule[0], [*primals[len(graph.inputs) :], *own, *floating])
    count = len(graph.outputs)
    dots = iter(results[count:])
    return results[:count], [
        next(dots) if _has_tangent(atom.aval) else None for atom in graph.outputs
    ]


def _has_tangent(x: Any) -> bool:
    return is_inexact(x.dtype)


def _batch_custom(
    primitive: Primitive, operands: Sequence[Any], axes: Sequence[int | None], *, size: int,
    transform: Any, graph: Graph, rule: Any, arguments: int, what: str,
) -> tuple[Sequence[Any], Sequence[int | None]]:  # fmt: skip
    # every argument is mapped, since even an unmapped one may have a mapped tangent or cotangent
    own = [
        place(x, axis, 0, size)
        for x, axis in zip(operands[:arguments], axes[:arguments], strict=True)
    ]
    everywhere = (0,) * len(graph.outputs)
    taken = len(graph.inputs)
    batched, _ = transform(
        graph, ((0,) * arguments + tuple(axes[arguments:taken])), size, everywhere
    )
    if isinstance(rule, Rule):
        rule = BatchedRule(rule, transform, size)
    else:
        rule = _batched(rule, transform, size)
    captures = [
        place(x, axis, 0, size) for x, axis in zip(operands[taken:], axes[taken:], strict=True)
    ]
    outs = primitive(
        *own, *operands[arguments:taken], *captures,
        graph=batched, rule=rule, arguments=arguments, what=what,
    )  # fmt: skip
    return outs, everywhere


def _transpose_custom(
    cotangents: Sequence[Any], *operands: Any, transform: Any, graph: Graph, rule: Any,
    arguments: int, what: str,
) -> list[Any]:  # fmt: skip
    """Transpose the graph that a rule applies to a tangent, which is linear."""
    taken = operands[: len(graph.inputs)]
    found = transpose_graph_of(_replayed, cotangents, *taken, transform=transform, graph=graph)
    return [*found, *[None] * (len(operands) - len(taken))]


def _replayed(*operands: Any, graph: Graph) -> list[Any]:
    return replay(graph, operands)


def _define(name: str, jvp: Callable[..., Any]) -> Primitive:
    defined: Primitive = primitive(
        name,
        infer=lambda *avals, graph, **params: results_of_graph(
            *avals[: len(graph.inputs)], graph=graph
        ),
        numpy=lambda *values, graph, **params: tuple(evaluate(graph, values[: len(graph.inputs)])),
        jvp=jvp,
        transpose=_transpose_custom,
        batch=lambda *args, **params: _batch_custom(defined, *args, **params),
        several=True,
        higher_order=True,
    )
    return defined


custom_jvp_p = _define("custom_jvp", _jvp_of_custom_jvp)


# -- custom_vjp ------------------------------------------------------------------------------------


def _jvp_of_custom_vjp(
    primals: Sequence[Any], tangents: Sequence[Any], *, transform: Any, graph: Graph,
    rule: tuple[Graph, ...], arguments: int, what: str,
) -> tuple[Sequence[Any], Sequence[Any]]:  # fmt: skip
    _check_constants(tangents[arguments:], what, primals[arguments:])
    forward, backward = rule
    own, captures = primals[:arguments], primals[len(graph.inputs) :]
    results = replay(forward, [*captures, *own])
    count = len(graph.outputs)
    outs, residuals = results[:count], [*captures, *results[count:]]
    moving = instantiated(tangents[:arguments], own)
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
    cotangents: Sequence[Any], *operands: Any, transform: Any, backward: Graph, residuals: int,
    what: str,
) -> list[Any]:  # fmt: skip
    avals = backward.in_avals[residuals:]
    given = instantiated(cotangents, avals)
    return [None] * residuals + replay(backward, [*operands[:residuals], *given])


def _batch_pullback(
    operands: Sequence[Any], axes: Sequence[int | None], *, size: int, transform: Any,
    backward: Graph, residuals: int, what: str,
) -> tuple[Sequence[Any], Sequence[int | None]]:  # fmt: skip
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


def is_reverse_only(graph: Graph) -> bool:
    """Whether a linear graph can only be transposed, since a rule in it has no forward mode."""
    return any_eqn(graph, lambda eqn: eqn.primitive is custom_pullback)
