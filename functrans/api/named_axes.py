"""Derivatives under named axes: which values vary from lane to lane, and which are shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.errors import AxesError
from functrans.ir.graph import Graph, Var
from functrans.ir.types import interned
from functrans.records import NamedTuple
from functrans.trace.axes import Names, scope
from functrans.transform.variance import explicit, variance

LANE_BY_LANE = frozenset(
    {"derivatives", "divergence", "jacfwd", "jet", "jvp", "laplacian", "linearize", "vjp"}
)
"""Transforms that push tangents forward, or pull back given cotangents."""


class Lanes(NamedTuple):
    """A function's graph within named axes."""

    graph: Graph  # its last inputs are the lanes' numbers
    numbers: Sequence[Any]  # the number of the lane along each axis
    inputs: Sequence[Names]  # the axes along which each input varies
    outputs: Sequence[Names]  # the axes along which each output varies

    def check(
        self, kind: str, leaves: int, results: int | None, name: Callable[[int], str]
    ) -> None:
        """Raise if a result varies along a named axis, and a differentiated leaf does not.

        The derivative would differ between lanes, but transposition sums it over the lanes.
        """
        if kind in LANE_BY_LANE:
            return
        varying = frozenset().union(*self.outputs[:results])
        for i, names in enumerate(self.inputs[:leaves]):
            for axis in sorted(varying - names):
                raise AxesError(
                    f"{kind} differentiates a result that varies along the axis {axis!r} with "
                    f"respect to {name(i)}, which is the same in all lanes. Add the results up "
                    f"first (lax.psum(loss, {axis!r}), or lax.pmean) for the derivative of their "
                    f"sum; for each lane's own, give it lax.pvary(x, {axis!r})"
                )


def check_cotangents(cotangents: Sequence[Any], varying: Sequence[Names], of: str) -> None:
    """Raise if a cotangent varies along a named axis, and its primal does not."""
    for ct, names in zip(cotangents, varying, strict=False):
        for axis in sorted(variance(ct) - names):
            raise AxesError(
                f"the cotangent varies along the axis {axis!r}, and {of} does not: it has one "
                f"cotangent for all lanes. Add theirs up (lax.psum(ct, {axis!r}))"
            )


def along_axes(graph: Graph, inputs: Sequence[Any]) -> Lanes:
    """The graph of a function within named axes, prepared for differentiation."""
    known = scope()
    assert known is not None
    varying = [variance(x) for x in inputs]
    found: list[Names] = [frozenset()] * len(graph.outputs)
    numbers = [axis.lane for axis in known.axes.values()]
    for axis in known.axes.values():
        lane = Var(interned((), np.dtype(np.int64)))
        graph = Graph([*graph.inputs, lane], graph.eqns, graph.outputs)
        varying.append(frozenset({axis.name}))
        flags = [axis.name in names for names in varying]
        typed = explicit(graph, flags, axis.params, lane=lane)
        graph = typed.graph
        found = [
            names | {axis.name} if flag else names
            for names, flag in zip(found, typed.varying, strict=True)
        ]
    return Lanes(graph, numbers, varying, found)
