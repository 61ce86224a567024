"""Side effects as data flow: an effect returns a token, on which the function's results depend.

Passes need no special rules for effects: dead code elimination keeps what a result depends on, and
the order follows from the tokens, each of which is an operand of the next effect. Tangents and
cotangents of tied values are tied as well. The first token of a graph depends on the graph's
inputs, so that an effect in a loop happens in every step, whatever its values are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.ir.graph import Eqn, Graph, Var, inner_graphs, with_graphs
from functrans.ir.primitive import ZERO_DERIVATIVE, Primitive, current
from functrans.ir.types import Aval
from functrans.ops.arrays.structural import in_lanes
from functrans.ops.define import primitive
from functrans.ops.samples import cases
from functrans.trace.trace import Trace

# -- the primitives --------------------------------------------------------------------------------


def _happen(
    token: Any, *values: Any, function: Callable[..., object], lanes: tuple[int, ...]
) -> Any:
    """Call the function for each lane; the lanes are the leading axes of every value."""
    before = current.get()
    try:
        current.set(None)  # the function is not traced
        for lane in np.ndindex(*lanes):
            function(*(x[lane] if lanes else x for x in values))
    finally:
        current.set(before)
    return _no_effect(lanes)


def _no_effect(lanes: tuple[int, ...]) -> Any:
    return np.zeros(lanes, np.int8)[()]


def _token(*avals: Aval, lanes: tuple[int, ...], **params: Any) -> Aval:
    return Aval(lanes, np.int8)


def _batch(
    apply: Primitive, operands: Sequence[Any], axes: Sequence[int | None], **params: Any
) -> tuple[Any, int]:
    mapped = in_lanes(operands, axes)
    return apply(*mapped, **{**params, "lanes": (mapped[0].shape[0], *params["lanes"])}), 0


def _do_nothing(*values: Any) -> None:
    """An effect that does nothing."""


effect: Primitive = primitive(
    "effect",
    infer=_token,
    numpy=_happen,
    jvp=ZERO_DERIVATIVE,
    batch=lambda operands, axes, **params: _batch(effect, operands, axes, **params),
    stores=True,
    samples=cases((np.int8(0), (3,), {"function": _do_nothing, "lanes": ()})),
)
"""Calls ``function`` with the values, after the effects that the token depends on."""


first_token: Primitive = primitive(
    "first_token",
    infer=_token,
    numpy=lambda *values, lanes: _no_effect(lanes),
    jvp=ZERO_DERIVATIVE,
    batch=lambda operands, axes, **params: _batch(first_token, operands, axes, **params),
    stores=True,
    samples=cases(((3,), (2, 2), {"lanes": ()})),
)
"""The first token of a graph with these inputs: each application of the graph has its own."""


def _each_tied(values: Sequence[Any | None], token: Any) -> list[Any | None]:
    present = iter(tied(*(x for x in values if x is not None), token))
    return [None if x is None else next(present) for x in values]


tied: Primitive = primitive(
    "tied",
    infer=lambda *avals: avals[:-1],
    numpy=lambda *values: tuple(np.array(x)[()] for x in values[:-1]),
    jvp=lambda primals, tangents, outs: _each_tied(tangents[:-1], primals[-1]),
    transpose=lambda cotangents, *operands: [*_each_tied(cotangents, operands[-1]), None],
    batch=lambda operands, axes: (tied(*operands), tuple(axes[:-1])),
    sparsity=lambda *operands: [x.pattern for x in operands[:-1]],
    several=True,
    stores=True,
    samples=cases(((3,), (2, 2), np.int8(0), {})),
)
"""All operands but the last, a token: whatever reads them comes after that token's effects."""


# -- performing effects ----------------------------------------------------------------------------


def perform(
    # Takes arrays; its result is ignored. Equal functions make equal programs.
    function: Callable[..., object],
    *values: Any,  # arrays, numbers or tracers
) -> None:
    """Call a function with arrays: now, or each time the program being traced is run."""
    trace = current.get()
    if not isinstance(trace, Trace):
        function(*values)
        return
    if not isinstance(trace.effects, _Effects):
        trace.effects = _Effects(trace)
    trace.effects.add(function, values)


class _Effects:
    """The effects of a trace, as a chain of tokens."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._token: Any = None
        self._looked_at = 0

    def add(self, function: Callable[..., object], values: Sequence[Any]) -> None:
        self._token = effect(self._now(), *values, function=function, lanes=())
        if self._trace.concrete:
            self._trace.value_of(self._token._variable)

    def before(self, values: Sequence[Any]) -> Sequence[Any]:
        return tied(*values, self._now()) if values else values

    def _now(self) -> Any:
        """A token that depends on all effects so far, also those inside loops and branches."""
        trace, token = self._trace, self._token
        eqns = trace.eqns[self._looked_at :]
        self._looked_at = len(trace.eqns)
        inner = [
            trace.tracer_of(eqn.outputs[0]) for eqn in eqns if eqn.outputs and has_effects(eqn)
        ]
        if token is None:
            inner += map(trace.tracer_of, trace.inputs)
            if not inner:
                return trace.create(first_token, {"lanes": ()})
            return first_token(*inner, lanes=())
        return first_token(token, *inner, lanes=()) if inner else token


def has_effects(eqn: Eqn) -> bool:
    """Whether an equation has inner graphs with effects."""
    return eqn.primitive.higher_order and any(map(_has_effects, inner_graphs(eqn)))


@cached(4096)
def _has_effects(graph: Graph) -> bool:
    return any(eqn.primitive is effect or has_effects(eqn) for eqn in graph.eqns)


def without_effects(graph: Graph) -> Graph:
    """The graph with each effect replaced by the token that it received."""
    return Graph(graph.inputs, [_without(eqn) for eqn in graph.eqns], graph.outputs)


def _without(eqn: Eqn) -> Eqn:
    if eqn.primitive is effect:
        params = {"lanes": eqn.params["lanes"]}
        return Eqn(first_token, eqn.inputs[:1], eqn.outputs, params, eqn.source)
    return _without_inner(eqn) if has_effects(eqn) else eqn


def _without_inner(eqn: Eqn) -> Eqn:
    params = {name: with_graphs(without_effects, value) for name, value in eqn.params.items()}
    return Eqn(eqn.primitive, eqn.inputs, eqn.outputs, params, eqn.source)


def performed(graph: Graph, value_of: Callable[[Var], Any]) -> Graph:
    """Perform the effects of loops and branches; return the graph without effects.

    Effects outside of loops and branches have happened already. Derivatives of the returned graph,
    which may run a loop again, do not repeat the effects.
    """
    if not any(map(has_effects, graph.eqns)):
        return graph
    for eqn in graph.eqns:
        if has_effects(eqn) and eqn.outputs:
            value_of(eqn.outputs[0])
    inner = [_without_inner(eqn) if has_effects(eqn) else eqn for eqn in graph.eqns]
    return Graph(graph.inputs, inner, graph.outputs)
