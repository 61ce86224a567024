"""Instruction selection by `emit` rules: their statements become roots."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from functrans.ir.graph import Eqn, Graph
from functrans.lazily import lazy
from functrans.loop.scalar import Scalar
from functrans.loop.statements import Buffer, Call, Statement, buffer
from functrans.loop.walk import loaded
from functrans.lower.select.root import Contraction, Elements, Emitted, TeamKernel
from functrans.lower.select.root_builder import RootBuilder, Subprogram
from functrans.ops.compiled.emission import Element, Inner, Position
from functrans.ops.compiled.places import Index

T = TypeVar("T")

# for results that are made of parts, which few are
_assembled = lazy("functrans.lower.select.assembly:assembled")


class Emitter:
    """The emission of one equation (`functrans.ops.compiled.emission.Emission`)."""

    def __init__(self, roots: RootBuilder, eqn: Eqn) -> None:
        self.eqn = eqn
        self.target = roots.target
        self.simplify = roots.puller.simplify
        self._roots = roots
        self._results: dict[int, Buffer] = {}
        self._started: tuple[Buffer, ...] = ()

    def operand(self, number: int) -> Buffer:
        return self._roots.in_memory(self.eqn.inputs[number])

    def element(self, number: int, position: Position) -> Scalar:
        simple = tuple(map(self.simplify, position))
        return self._roots.puller.element(self.eqn.inputs[number], simple)

    def result(self, number: int = 0) -> Buffer:
        if number not in self._results:
            aval = self.eqn.outputs[number].aval
            name = f"{self._roots.name()}_{number}"
            self._results[number] = buffer(name, aval.dtype, aval.shape)
        return self._results[number]

    def copied(self, operand: int) -> Buffer:
        copy = self._roots.to_be_changed(self.eqn, operand)
        self._results[0] = copy
        self._started = (copy,)
        return copy

    def scratch(self, name: str, dtype: Any, shape: Sequence[int]) -> Buffer:
        return buffer(f"{self._roots.name()}_{name}", np.dtype(dtype), shape)

    def loops(self, extents: Sequence[int]) -> Position:
        return self._roots.loops(extents)

    def compute(
        self, target: Buffer, loops: Position, axes: Sequence[int], elements: Sequence[Element]
    ) -> None:
        self._roots.all.append(Elements(target, loops, tuple(axes), tuple(elements)))

    def call(
        self,
        statements: Sequence[Statement],
        *,
        uncounted: int = 0,
        stack: Sequence[Buffer] = (),
        writes: Sequence[Buffer] | None = None,
        pulled: bool = False,
        in_phases: bool = False,
        largest_constant: int = 0,
        team: int = 0,
    ) -> None:
        if not statements:
            return
        if pulled:
            self._roots.all.append(self._pulled(tuple(statements), uncounted))
            return
        first, *also = self._results.values() if writes is None else writes
        reads = sorted(loaded(statements), key=lambda each: each.name)
        made = Emitted(
            first,
            tuple(statements),
            operands=(*reads, *self._started),
            uncounted=uncounted,
            also_written=tuple(also),
            scratch=tuple(stack),
            in_phases=in_phases,
            largest_constant=largest_constant,
        )
        if team and self._roots.whole:
            made = TeamKernel(**vars(made), team=team)
        self._roots.all.append(made)

    def _pulled(self, statements: tuple[Statement, ...], uncounted: int) -> Elements:
        """The root of the only result, computed elementwise, with a call as an alternative."""
        (var,) = self.eqn.outputs
        axes = self._roots.loop_axes(var)
        loops, elements = self._roots.elements(var, axes)
        operands = tuple(sorted(loaded(statements), key=lambda each: each.name))
        call = Emitted(self.result(), statements, operands, uncounted)
        return Elements(call.target, loops, axes, elements, instead=call)

    def contract(
        self,
        loops: Mapping[int, Scalar],
        sides: tuple[Position, ...],
        counter: Scalar,
        factors: tuple[Scalar, ...],
        symmetric: bool = False,
        shared_rows: int = 0,
        terms_together: int = 0,
    ) -> None:
        self._roots.all.append(
            Contraction(
                self.result(),
                tuple(loops.values()),
                tuple(loops),
                (),
                sides=sides,
                counter=counter,
                factors=factors,
                symmetric=symmetric,
                shared_rows=shared_rows,
                terms_together=terms_together,
            )
        )

    def assemble(self, parts: Sequence[tuple[Index, int]], *, adds: bool) -> None:
        self._results[0] = _assembled(self._roots, self.eqn, parts, adds=adds)

    def lower(self, graph: Graph) -> Inner:
        inner = self._roots.lower(graph)
        self._roots.inner.append(inner)
        return inner

    def subprogram(self, graph: Graph) -> None:
        operands = [self.operand(number) for number in range(len(self.eqn.inputs))]
        results = [self.result(number) for number in range(len(self.eqn.outputs))]
        symbol = f"subprogram{len(self._roots.subprograms)}"
        self._roots.subprograms[symbol] = Subprogram(graph, tuple(operands), tuple(results))
        self.call((Call(symbol, (), tuple(operands), tuple(results)),))

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._roots.shared:
            self._roots.shared[key] = make()
        return self._roots.shared[key]

    def finish(self) -> None:
        """Mark the results as being in memory."""
        for number, var in enumerate(self.eqn.outputs):
            self._roots.puller.keep(var, self.result(number))
