"""Kernel construction: nests become kernels with symbolic sizes, and steps that call them.

The kernels of a subprogram are constructed once; each of its calls runs them on its own buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from functrans.ir.graph import Graph
from functrans.loop.statements import Buffer, Call, Column, For
from functrans.loop.target import Target
from functrans.lower.kernel.symbolic_sizes import parametrise
from functrans.lower.nest.bodies import Nest
from functrans.lower.plan import Step
from functrans.lower.select.root_builder import Subprogram

Formal = tuple[Sequence[Step], Sequence[Buffer]]
"""The steps of a subprogram, and the buffers in them that represent its operands and results."""


class Steps:
    """Constructs the steps of nests."""

    def __init__(
        self,
        target: Target,
        # the graphs and buffers of the calls among the nests
        subprograms: Mapping[str, Subprogram],
        homes: Mapping[Buffer, Buffer],  # buffers that are stored in others
        columns: Mapping[Buffer, Column],  # buffers that are parts of records
        lower: Callable[[Graph], Formal],  # gives the steps of a subprogram
    ) -> None:
        self.target = target
        self.subprograms = subprograms
        self.homes = homes
        self.columns = columns
        self.lower = lower
        self._known: dict[Graph, Formal] = {}

    def of(self, nests: Sequence[Nest]) -> Iterator[Step]:
        """The steps of nests, in order."""
        for nest in nests:
            first = nest.body[0]
            call = self.subprograms.get(first.symbol) if isinstance(first, Call) else None
            if call is not None:
                yield from self._called(call)
                continue
            kernel, arguments, sizes = parametrise(nest, self.homes, self.columns, self.target)
            extent = int(first.stop.attribute) if kernel.parallel and isinstance(first, For) else 0
            given = tuple(arguments), tuple(sizes), extent, _work(nest), nest.turns, nest.form
            yield Step(kernel, *given, nest.exit)

    def _called(self, call: Subprogram) -> Iterator[Step]:
        """The steps of a subprogram, on the buffers of a call."""
        if call.graph not in self._known:
            self._known[call.graph] = self.lower(call.graph)
        steps, formal = self._known[call.graph]
        actual = dict(zip(formal, (*call.operands, *call.results), strict=True))
        for step in steps:
            given = [actual.get(one, one) for one in step.buffers]
            yield replace(step, buffers=tuple(self.homes.get(one, one) for one in given))


def _work(nest: Nest) -> int:
    """The time of a nest, in operations: those that it executes, and the bytes that it moves.

    After S. Williams, A. Waterman and D. Patterson, "Roofline: an insightful visual performance
    model for multicore architectures" (2009), with the sum of both times instead of the longer.
    """
    turns: int = prod(turn.attribute[2] or 1 for turn in nest.turns)
    return nest.work + sum(one.nbytes for one in (*nest.loads, *nest.stores)) // turns
