"""Linearisation: a function traced at a point, and its derivative there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import modules
from typing import TYPE_CHECKING, Any

from functrans.api.arguments import aval_of_leaf, known_values
from functrans.caches import cached_property
from functrans.ir.evaluate import evaluate
from functrans.ir.graph import Atom, Graph
from functrans.ir.primitive import current
from functrans.lazily import lazy
from functrans.ops.calls.custom import resolve, unresolved
from functrans.ops.control.layout import compact, spread
from functrans.records import NamedTuple
from functrans.run.call.ownership import own
from functrans.trace.axes import Names, scope
from functrans.trace.floating_point import UNWRITTEN, warning_users
from functrans.trace.stage import replay, replay_known, replay_values, stage
from functrans.trace.tracer import Tracer
from functrans.transform.forward import Tangent, tangent_graph, variables
from functrans.transform.split import Split, split_linear
from functrans.transform.transpose import transpose_graph

if TYPE_CHECKING:
    from functrans.api.named_axes import Lanes

_performed = lazy("functrans.ops.calls.effect:performed")
_along_axes = lazy("functrans.api.named_axes:along_axes")


def run(graph: Graph, inputs: Sequence[Any]) -> Sequence[Any]:
    """The outputs of a graph: computed for arrays, recorded for tracers."""
    if is_traced_here(inputs):
        return replay(graph, inputs)
    with warning_users():
        return evaluate(graph, inputs)


def is_traced_here(inputs: Sequence[Any]) -> bool:
    """Whether operations on the inputs are recorded, because a tracer is among them."""
    return current.get() is not None and any(map(is_tracer, inputs))


def is_tracer(x: Any) -> bool:
    """Whether a value is traced."""
    return isinstance(x, Tracer)


def run_derivative(graph: Graph, inputs: Sequence[Any]) -> Sequence[Any]:
    """`run` without NumPy's floating-point warnings.

    The derivative of an unselected branch may divide by zero before it is masked.
    """
    with warning_users(ignored=UNWRITTEN):
        if is_traced_here(inputs):
            return replay(graph, inputs)
        return evaluate(graph, inputs)


class Point:
    """A flat function traced at given leaves, and its derivative there.

    Attributes
    ----------
    count : int or None
        The number of differentiated results, which precede the auxiliary ones; None means all. It
        is known once the function has been traced.
    has_rules : bool
        Whether it contains a user's rule (`custom_jvp`, `custom_vjp`): its second derivative need
        not be symmetric.
    """

    count: int | None = None

    def __init__(
        self,
        # takes one tracer for each leaf and returns a flat list
        function: Callable[..., Sequence[Any]],
        leaves: Sequence[Any],  # arrays, numbers or outer tracers, all floats
        kind: str,  # the name of the transform
        name: Callable[[int], str],  # the name of a leaf in messages, by its number
    ) -> None:
        values = known_values(leaves)
        avals = [aval_of_leaf(x) for x in leaves]
        with warning_users():
            staged = stage(function, avals, kind=kind, values=values, operands=leaves, name=name)
        graph = staged.graph
        if values is not None and "functrans.ops.calls.effect" in modules:
            graph = _performed(graph, staged.value_of)
        self.has_rules = unresolved(graph)
        self.graph, captures = resolve(graph)
        self.inputs = [*leaves, *staged.captures, *captures]
        lanes: Lanes | None = None
        if scope() is not None:
            lanes = _along_axes(self.graph, self.inputs)
            self.graph, self.inputs = lanes.graph, [*self.inputs, *lanes.numbers]
        self.lanes = lanes
        self.moving = (True,) * len(leaves) + (False,) * (len(self.inputs) - len(leaves))
        if lanes is not None:
            lanes.check(kind, len(leaves), self.count, name)
            self.read: Callable[[Atom], Any] = replay_values(self.graph, self.inputs).read
        elif not any(map(is_tracer, self.inputs)):
            self.read = staged.value_of
        elif values is not None:
            self.read = replay_known(self.graph, self.inputs, staged.value_of).read
        else:
            self.read = replay_values(self.graph, self.inputs).read

    @cached_property
    def tangent(self) -> Tangent:
        """The linear graph of the tangents."""
        return tangent_graph(self.graph, self.moving, self.count)

    @property
    def needed(self) -> list[Any]:
        """The values that are inputs of the tangents' graph."""
        every = variables(self.graph)
        return [self.read(every[i]) for i in self.tangent.needed]

    def outputs(self, late: Sequence[Any] | None = None) -> list[Any]:
        """The function's results; ``late`` are those that were computed with the tangents."""
        if late is None:
            return [self.read(atom) for atom in self.graph.outputs]
        remaining = iter(late)
        return [
            next(remaining) if flag else self.read(atom)
            for atom, flag in zip(self.graph.outputs, self.tangent.late, strict=True)
        ]

    def pull(self, cotangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The results, and the cotangents of the leaves (None where zero).

        ``cotangents`` has one for each result, or None.
        """
        tangent, late = self.tangent, sum(self.tangent.late)
        wanted = [ct for ct, flag in zip(cotangents, tangent.nonzero, strict=True) if flag]
        known, found = _pulled(tangent.graph, self.needed, [*wanted, *[None] * late])
        return self.outputs(known[len(known) - late :]), found

    def push(self, tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The results, and their tangents (None where zero)."""
        results = run_derivative(self.tangent.graph, [*self.needed, *tangents])
        count = sum(self.tangent.nonzero)
        return self.outputs(results[count:]), spread(results[:count], self.tangent.nonzero)

    @cached_property
    def linear(self) -> Linear:
        """The derivative as a linear graph, with its residuals."""
        tangent = self.tangent
        unknown = (False,) * len(tangent.needed) + (True,) * sum(self.moving)
        parts: Split = split_linear(tangent.graph, unknown)
        results = run_derivative(parts.known, self.needed)
        known = len(parts.unknown_out) - sum(parts.unknown_out)
        late = sum(tangent.late)
        # a tangent that depends on no input tangent is a zero that the rules did not recognise
        depends = iter(parts.unknown_out)
        return Linear(
            parts.unknown,
            own(results[known:], self.inputs),
            tuple(flag and next(depends) for flag in tangent.nonzero),
            self.outputs(results[known - late : known]),
            () if self.lanes is None else tuple(self.lanes.outputs),
        )


class Linear(NamedTuple):
    """A derivative at a point."""

    graph: Graph  # maps residuals and tangents to the tangents of the results
    residuals: Sequence[Any]  # the values at the point that the graph reads
    nonzero: tuple[bool, ...]  # which results have nonzero tangents
    outputs: list[Any]  # the function's results
    # the named axes along which each result varies, within named axes
    varying: tuple[Names, ...] = ()

    def push(self, tangents: Sequence[Any]) -> list[Any]:
        """The tangents of the results."""
        return spread(run_derivative(self.graph, [*self.residuals, *tangents]), self.nonzero)

    def pull(self, cotangents: Sequence[Any]) -> list[Any]:
        """The cotangents of the leaves."""
        wanted = [ct for ct, flag in zip(cotangents, self.nonzero, strict=True) if flag]
        return _pulled(self.graph, self.residuals, wanted)[1]


def _pulled(
    graph: Graph, residuals: Sequence[Any], cotangents: Sequence[Any]
) -> tuple[Sequence[Any], list[Any]]:
    """The results of a graph that depend on residuals alone, and the cotangents of the others."""
    count, given = len(residuals), tuple(ct is not None for ct in cotangents)
    linear = (False,) * count + (True,) * (len(graph.inputs) - count)
    transposed, nonzero = transpose_graph(graph, linear, given)
    results = run_derivative(transposed, [*residuals, *compact(cotangents)])
    known = len(results) - sum(nonzero)
    return results[:known], spread(results[known:], nonzero)
