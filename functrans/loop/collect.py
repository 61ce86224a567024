"""Access analysis of a kernel: which elements it reads and writes, in which iterations, and when.

The analysis visits each statement once, for all iterations of its loops together
(`functrans.loop.domain`). The time of an access is its position in sequential execution.
`functrans.loop.verify` defines which accesses are valid.

Where control flow depends on data, a `Scenario` decides: it gives the values of unknown conditions,
and the trip counts of loops of unknown length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from functrans.loop import panels
from functrans.loop.access import Access, Array, IndependentLoop, Region, Scenario, along
from functrans.loop.dealing import check_counts, own_elements
from functrans.loop.decisions import Decisions
from functrans.loop.domain import (
    LARGEST,
    NONE_KNOWN,
    Fault,
    TooLarge,
    Unknown,
    Value,
    Values,
    aligned,
    bounds,
    broadcast,
    full_range,
    is_within,
    masked_by,
)
from functrans.loop.durations import LONGEST, duration, durations, extent_of
from functrans.loop.reshaping import as_in_kernel
from functrans.loop.scalar import Scalar
from functrans.loop.statements import (
    Assign,
    Buffer,
    Call,
    For,
    If,
    Kernel,
    Let,
    MatrixMultiply,
    Reduce,
    Statement,
    Store,
    While,
)
from functrans.loop.walk import bounds as bounds_of
from functrans.loop.walk import bounds_of_loops, carries_a_local, expressions, walk

Footprint = Callable[[Call, Sequence[Any]], Iterable[Region]]
"""Returns the regions of a call, given the values of its arguments (None for addresses)."""


class Accesses:
    """The accesses of a kernel's statements in one call."""

    def __init__(
        self,
        kernel: Kernel,
        buffers: Sequence[Buffer],  # the arguments for the kernel's buffers
        sizes: Sequence[int],
        footprint: Footprint,  # returns what library routines read and write
        scenario: Scenario,
        # known values in its buffers: the trip counts of earlier loops
        in_memory: Mapping[Buffer, int] = NONE_KNOWN,
        decisions: Decisions | None = None,  # those of the kernels before this one
    ) -> None:
        self.kernel = kernel
        self.footprint = footprint
        self.scenario = scenario
        self.values = Values(sizes, in_memory)
        self.found: list[Access] = []
        self.independent: list[IndependentLoop] = []
        self.uncertain = False
        """Whether control flow depends on the scenario."""
        self.extents: list[int] = []
        """The extents of the enclosing loops."""
        self.spans: list[int] = []
        self.clock = 0
        self.decisions = decisions or Decisions(scenario.branches)
        self.arguments = dict(zip(kernel.buffers, buffers, strict=False))
        self.owners = {row: np.full(row.count, -1) for row in kernel.dealt}
        self.mask: Array | None = None
        self.thread: Array | None = None
        """The thread of a team that executes each iteration of the enclosing dealt loop, if
        there is one."""
        self.bounds = bounds_of_loops(kernel.body)
        self.shapes = self._shapes(buffers)
        self._statements(kernel.body)

    def _shapes(self, buffers: Sequence[Buffer]) -> Mapping[Buffer, tuple[int, ...]]:
        shapes: dict[Buffer, tuple[int, ...]] = {}
        if len(buffers) != len(self.kernel.buffers):
            raise Fault(f"{len(buffers)} buffers for a kernel of {len(self.kernel.buffers)}")
        for own, given in zip(self.kernel.buffers, buffers, strict=True):
            inner = tuple(self.values.number(extent) for extent in own.shape[1:])
            shape = as_in_kernel(given.extents, inner, bool(own.shape))
            if shape is None or own.dtype != given.dtype:
                raise Fault(
                    f"{own} of {own.dtype}[?, {inner}] stands for {given.dtype}{given.extents}"
                )
            shapes[own] = shape
        for row in self.kernel.scratch:
            shapes[row] = tuple(map(self.values.number, row.shape))
        return shapes

    def band_extents(self) -> tuple[int, ...]:
        """The extents of the loops of the kernel's band."""
        band = self.kernel.band
        found = (each.extents for each in self.independent if each.loop in band[-1:])
        return next(found, ())

    # -- statements ---------------------------------------------------------------------------

    def _statements(self, body: Sequence[Statement]) -> None:
        start = self.clock
        for statement in body:
            self._statement(statement)
            start = self.clock = start + duration(statement, self.scenario.steps)

    def _durations(self, body: Sequence[Statement]) -> int:
        return durations(body, self.scenario.steps)

    def _steps(self, most: int) -> int:
        return most if self.scenario.steps is None else min(self.scenario.steps, most)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Store():
                self._read(expressions(statement))
                element = statement.target, statement.indices
                atomic = (statement.op or "set") if statement.atomic else None
                if statement.op is not None:
                    self._element(*element, self.mask, writes=False, atomic=atomic)
                self._element(*element, self.mask, writes=True, atomic=atomic)
            case Let() | Assign():
                self._read(statement.values)
                values = [self.values(value) for value in statement.values]
                parts = list(map(self.values.parts, statement.values))
                for number, target in enumerate(statement.targets):
                    value = self._chosen(target, values[number])
                    if isinstance(value, Unknown):
                        self.decisions.define(target, statement.values[number], self.arguments)
                    if isinstance(statement, Assign) and target not in self.values.bound:
                        raise Fault(f"the local {target.attribute[0]} was not declared")
                    self.values.bind(target, value, parts[number])
            case For():
                self._for(statement)
            case Reduce():
                self._reduce(statement)
            case If():
                self._if(statement)
            case While():
                self._while(statement)
            case Call():
                self._call(statement)
            case MatrixMultiply():
                self._multiply(statement)

    def _chosen(self, target: Scalar, value: Value) -> Value:
        """A value from data that is a loop's bound: one of a few, which the scenario chooses."""
        starts, stops = self.bounds
        if target not in stops or not isinstance(value, Unknown):
            return value
        if value.high - value.low > LARGEST:
            return value
        self.uncertain = True
        return np.asarray(self.scenario.one_of(*value, target in starts))

    def _for(self, loop: For) -> None:
        self._read((loop.start, loop.stop))
        self._forget_assigned(loop.body)
        first = len(self.found)
        with self._loop(loop.index, loop.start, loop.stop, self._durations(loop.body)) as counts:
            extents = tuple(self.extents)
            check_counts(loop, counts)
            if counts.any():
                self.clock += 2
                with self._dealt(loop, loop.index, loop.start):
                    self._statements(loop.body)
        if loop.parallel or loop.lanes > 1:
            if carries_a_local(loop):
                raise Fault("an iteration of an independent loop leaves a local for the next")
            fixed = frozenset(self.values.bound)
            self.independent.append(IndependentLoop(loop, extents, self.found[first:], fixed))

    @contextmanager
    def _loop(self, index: Scalar, start: Scalar, stop: Scalar, span: int) -> Iterator[Array]:
        """A loop as a new axis, whose iterations take ``span`` each; returns its trip counts."""
        low, high = self.values(start), self.values(stop)
        by_data = isinstance(high, Unknown) or stop.op == "local"
        if isinstance(low, Unknown):
            raise Fault(f"the loop over {index.attribute[0]} starts at a number from data")
        if isinstance(high, Unknown):
            self.uncertain = True
            bound = index.attribute[2]
            high = np.asarray(self._steps(LONGEST if bound is None else bound))
            if stop.op == "local":
                self.values.bind(stop, high)
        low, high = aligned(low, high)
        outer, clock = self.mask, self.clock
        steps = high - low if outer is None else np.where(*aligned(outer, high - low, 0 * high))
        counts = np.maximum(steps, 0)
        extent = int(counts.max(initial=0))
        if extent > LARGEST:
            raise TooLarge
        positions = along(len(self.extents), np.arange(extent), len(self.extents) + 1)
        iterations, last = aligned(low, positions)[0] + positions, aligned(high, positions)[0]
        with self.values.scope():
            if extent:
                # (if the loop is not reached, its start may be any number)
                used = iterations if outer is None else masked_by(iterations, outer)
                bound = extent if index.attribute[2] is None and by_data else extent_of(index)
                if int(used.min(initial=0)) < 0 or extent > bound:
                    raise Fault(f"the loop over {index.attribute[0]} leaves its extent")
                if not (iterations < last).all():
                    self._restrict(iterations < last)
                self.values.bind(index, iterations)
            self.extents.append(extent)
            self.spans.append(span)
            yield counts
            self.spans.pop()
            self.extents.pop()
        self.mask, self.clock = outer, clock

    @contextmanager
    def _dealt(self, statement: For | Reduce, index: Scalar, start: Scalar) -> Iterator[None]:
        """The scope of a loop that may be dealt to the threads of a team."""
        outer = self.thread
        if outer is None and statement.lanes == self.kernel.team > 1:
            low, iterations = self.values(start), self.values(index)
            assert not isinstance(low, Unknown) and not isinstance(iterations, Unknown)
            low, iterations = aligned(low, iterations)
            self.thread = (iterations - low) % statement.lanes
        yield
        self.thread = outer

    def _forget_assigned(self, body: Sequence[Statement]) -> None:
        """Forget values that may change from iteration to iteration."""
        for statement in walk(body):
            if isinstance(statement, Assign):
                for target in statement.targets:
                    if target in self.values.bound:
                        self.values.bind(target, full_range(target.dtype))

    def _reduce(self, statement: Reduce) -> None:
        self._read(bounds_of(statement))
        self._forget_assigned(statement.body)
        self._loops(statement, statement.loops)
        for target in statement.targets:
            self.values.bind(target, full_range(target.dtype))

    def _loops(self, statement: Reduce, loops: Sequence[tuple[Scalar, Scalar, Scalar]]) -> None:
        if not loops:
            self._statements(statement.body)
            self._read(statement.values)
            return
        (index, start, stop), *inner = loops
        span = (self._durations(statement.body) + 2) * prod(extent_of(i) for i, *_ in inner)
        with self._loop(index, start, stop, span) as counts:
            if not inner:
                check_counts(statement, counts)
            if counts.any() and inner:
                self._loops(statement, inner)
            elif counts.any():
                with self._dealt(statement, index, start):
                    self._loops(statement, inner)

    def _if(self, statement: If) -> None:
        self._read((statement.condition,))
        condition = self.values(statement.condition)
        outer, clock = self.mask, self.clock
        if isinstance(condition, Unknown):
            self.uncertain = True
            holds_here = self.decisions(statement.condition, self.arguments)
        for body, wanted in ((statement.body, True), (statement.otherwise, False)):
            self.clock += 1
            if isinstance(condition, Unknown):
                taken = holds_here == wanted
            else:
                holds = condition if wanted else ~condition
                taken = bool(holds.any())
                self._restrict(holds)
            if taken:
                with self.values.scope():
                    self._statements(body)
            self.mask, self.clock = outer, clock + 1 + self._durations(statement.body)
            self._forget_assigned(body)

    def _while(self, statement: While) -> None:
        self.uncertain = True
        clock = self.clock
        most = LONGEST if statement.most is None else min(statement.most, LONGEST)
        for step in range(self._steps(most) + 1):
            with self.values.scope():
                self._statements(statement.prepare)
                self._read((statement.condition,))
                if step < self._steps(most):
                    self._statements(statement.body)
        self.clock = clock

    def _call(self, call: Call) -> None:
        self._read(expressions(call))
        arguments: list[Any] = []
        for argument in call.arguments:
            value: Any = argument
            if isinstance(argument, Scalar):
                value = argument if argument.dtype.kind == "f" else self.values(argument)
            arguments.append(value)
        for region in self.footprint(call, arguments):
            address = call.arguments[region.argument]
            assert not isinstance(address, (Scalar, bytes))
            corner = self._elements(address.target, address.indices, None, inside=False)
            corner = np.add(*aligned(corner, region.offset))
            self._region(address.target, corner, region)

    def _multiply(self, statement: MatrixMultiply) -> None:
        """The accesses of one thread to a product that a warp executes together."""
        self._read(expressions(statement))
        lane = panels.lane(self.thread, self.kernel.team)
        corners = [each.corner for each in (statement.left, statement.right)]
        alike = [self.values(i) for each in corners for i in each.indices]
        panels.check_alike([*alike, *([] if self.mask is None else [self.mask])], lane)
        first = [self._elements(each.target, each.indices, self.mask) for each in corners]
        for panel, elements in panels.read(statement, lane, first, len(self.extents)):
            one = panel.corner.target
            if elements.max() >= prod(self.shapes[one]):
                raise Fault(f"an operand reaches outside of {one}")
            self._add(one, elements, self.mask, writes=False)
        *before, own = statement.sums.indices
        for number in range(statement.count):
            at = (*before, own + number)
            for writes in (False, True):
                self._element(statement.sums.target, at, self.mask, writes=writes)

    def _region(self, one: Buffer, corner: Array, region: Region) -> None:
        depth = len(self.extents)
        rows, columns = int(region.rows.max()), int(region.columns.max())
        if rows <= 0 or columns <= 0:
            return
        i = along(depth, np.arange(rows), depth + 2)
        j = along(depth + 1, np.arange(columns), depth + 2)
        corner, own_rows, own_columns, leading, i, j = aligned(
            corner, region.rows, region.columns, region.leading, i, j
        )
        inside = (i < own_rows) & (j < own_columns)
        if region.triangle != "A":
            inside = inside & ((i <= j) if region.triangle == "U" else (i >= j))
        if (leading < own_rows).any():
            raise Fault(f"the columns of {one} overlap in a call")
        elements = corner + i + j * leading
        mask = inside if self.mask is None else np.logical_and(*aligned(inside, self.mask))
        used = masked_by(elements, mask)
        if used.size and not 0 <= used.min() <= used.max() < prod(self.shapes[one]):
            raise Fault(f"a call reaches outside of {one}")
        for wanted, writes in ((region.reads, False), (region.writes, True)):
            if wanted:
                self._add(one, elements, mask, writes)

    # -- elements -----------------------------------------------------------------------------

    def _restrict(self, mask: Array) -> None:
        self.mask = mask if self.mask is None else np.logical_and(*aligned(self.mask, mask))

    def _read(self, roots: Iterable[Scalar]) -> None:
        """The loads in expressions; under a guard, only those whose condition holds."""
        masks: dict[tuple[int, Scalar, bool], Array | None] = {}
        keep: list[Any] = []
        seen: set[tuple[Scalar, int]] = set()
        stack: list[tuple[Scalar, Array | None]] = [(root, self.mask) for root in roots]
        while stack:
            node, mask = stack.pop()
            if (node, id(mask)) in seen:
                continue
            seen.add((node, id(mask)))
            keep.append(mask)
            if node.op in ("local", "index") and node not in self.values.bound:
                raise Fault(f"the {node.op} {node.attribute[0]} is used where there is none")
            if node.op == "load":
                self._element(node.attribute, node.args, mask, writes=False)
            if node.op != "guard":
                stack.extend([(arg, mask) for arg in node.args if arg.op != "const"])
                continue
            condition, value, otherwise = node.args
            stack.append((condition, mask))
            holds = self.values(condition)
            for arg, wanted in ((value, True), (otherwise, False)):
                if isinstance(holds, Unknown):
                    stack.append((arg, mask))
                    continue
                key = id(mask), condition, wanted
                if key not in masks:
                    own = holds if wanted else ~holds
                    masks[key] = own if mask is None else np.logical_and(*aligned(mask, own))
                narrowed = masks[key]
                assert narrowed is not None
                if narrowed.any():
                    stack.append((arg, narrowed))

    def _element(
        self,
        one: Buffer,
        indices: Sequence[Scalar],
        mask: Array | None,
        *,
        writes: bool,
        atomic: str | None = None,
    ) -> None:
        elements = self._elements(one, indices, mask)
        if one in self.kernel.private:
            self._check_own(one, indices[0], mask)
        certain = not any(isinstance(self.values(i), Unknown) for i in indices)
        self._add(one, elements, mask, writes, certain, atomic, tuple(indices))

    def _check_own(self, one: Buffer, number: Scalar, mask: Array | None) -> None:
        """Check that a thread of a team touches only its own part of private memory."""
        owner = self.values(number)
        if self.thread is not None and not isinstance(owner, Unknown):
            others = np.not_equal(*aligned(owner, self.thread))
            if not (others if mask is None else masked_by(others, mask)).any():
                return
        raise Fault(f"a thread touches {one} of another one")

    def _elements(
        self, one: Buffer, indices: Sequence[Scalar], mask: Array | None, inside: bool = True
    ) -> Array:
        """The offsets of elements at some indices, which must be inside the buffer."""
        shape = self.shapes.get(one)
        if shape is None:
            raise Fault(f"{one} is not one of the kernel's buffers")
        if len(indices) != len(shape):
            raise Fault(f"{len(indices)} indices for {one} of {len(shape)} axes")
        total = np.asarray(0)
        extra = len(self.extents)
        for axis, (position, extent) in enumerate(zip(indices, shape, strict=True)):
            value: Value = self.values(position)
            if isinstance(value, Unknown):
                exact, more = self.values.parts(position)
                known = bounds(exact if mask is None else masked_by(exact, mask))
                low, high = known.low + more.low, known.high + more.high
                if low < 0 or high >= extent:
                    raise Fault(f"index {axis} of {one} is from data, and not held in its extent")
                # it may be any element within the bounds
                if exact.size * (more.high - more.low + 1) > LARGEST:
                    exact, more = np.asarray(0), Unknown(low, high)
                # those of a larger buffer are not compared: that is refused later
                step = 1 if more.high - more.low < LARGEST else more.high - more.low
                anywhere = np.arange(more.low, more.high + 1, step, dtype=int)
                exact, anywhere = aligned(exact, along(extra, anywhere, extra + 1))
                value = np.asarray(exact + anywhere)
                extra += 1
            elif inside and not is_within(value, extent):
                used = value if mask is None else masked_by(value, mask)
                if not is_within(used, extent):
                    raise Fault(
                        f"index {axis} of {one} goes from {used.min()} to {used.max()}, "
                        f"and the extent is {extent}"
                    )
            value = value.astype(np.int64, copy=False)
            total = np.add(*aligned(total * extent, value)) if axis else value
        return total

    def _add(
        self,
        one: Buffer,
        elements: Array,
        mask: Array | None,
        writes: bool,
        certain: bool = True,
        atomic: str | None = None,
        indices: tuple[Scalar, ...] = (),
    ) -> None:
        if one in self.owners:
            self._own(one, elements, mask)
        start, spans = self.clock + writes, tuple(self.spans)
        access = Access(one, elements, mask, start, spans, writes, certain, atomic, indices)
        self.found.append(access)

    def _own(self, one: Buffer, elements: Array, mask: Array | None) -> None:
        """Record that threads touch elements of a row that is private to each."""
        if self.thread is None:
            raise Fault(f"{one} is private to threads, and all of a team touch it")
        arrays = broadcast(elements, self.thread, np.asarray(True) if mask is None else mask)
        where, thread = (each[arrays[2]] for each in arrays[:2])
        if not own_elements(self.owners[one], where, thread):
            raise Fault(f"{one} is private to threads, and one touches what is another's")
