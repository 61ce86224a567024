"""Verification of plans: each kernel on its own, and the data flow through memory between them.

The kernels of a plan are checked in order, while recording which elements of which buffers have
been written. Temporaries that overlap in the arena destroy each other. At the end, every output
must have been written. If control flow depends on data, the program is checked several times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from functrans.errors import PlanError
from functrans.loop.access import Array, Scenario
from functrans.loop.collect import Accesses
from functrans.loop.decisions import Decisions
from functrans.loop.domain import Fault, TooLarge
from functrans.loop.durations import LONGEST
from functrans.loop.footprints import footprint
from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.relocation import Relocation
from functrans.loop.scalar import Scalar, const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Assign,
    Buffer,
    For,
    Kernel,
    Let,
    Statement,
    Store,
    While,
    load,
    local,
    size,
)
from functrans.loop.substitution import substituted
from functrans.loop.terms import from_terms
from functrans.loop.text import text
from functrans.loop.verify import verify as verify_kernel
from functrans.loop.walk import loaded, stored, walk
from functrans.lower.plan import MOST_NARROW, Exit, Plan, Repeat, Step, threads

SCENARIOS = (
    Scenario(None, (True,)),
    Scenario(0, (False,)),
    Scenario(1, (False, True)),
    Scenario(2, (True, False)),
)


def verify(
    plan: Plan,
    in_part: Sequence[int] = (),  # the numbers of the outputs that need not be written completely
) -> int:
    """Check the invariants of a plan; return the number of kernels that were too large to check.

    Raises `PlanError` if a promise is broken, with the kernel's text.
    """
    too_large = 0
    for number, scenario in enumerate(SCENARIOS):
        checker = _Plan(plan, scenario)
        checker.run(in_part)
        if number == 0:
            too_large = checker.too_large
        if not checker.uncertain:
            break
    return too_large


def _broken(promise: str) -> PlanError:
    return PlanError(
        "a compiled program breaks a promise of the compiler, which is a fault of functrans and "
        f"not of your program: {promise}"
    )


def _all(one: Buffer) -> Array:
    """All elements of a buffer, however many they are, in one byte."""
    return np.broadcast_to(np.True_, one.count)


class _Plan:
    def __init__(self, plan: Plan, scenario: Scenario) -> None:
        self.plan = plan
        self.scenario = scenario
        self.decisions = Decisions(scenario.branches)
        self.too_large = 0
        self.temporaries = list(plan.offsets)
        memory = [plan.memory_of(one) for one in self.temporaries]
        self.starts, self.stops = np.array(memory, np.int64).reshape(-1, 2).T
        self.written = {one: _all(one) for one in plan.inputs}
        for one in (*plan.outputs, *plan.offsets):
            self.written.setdefault(one, np.zeros(one.count, bool))
        exits = [step.exit for step in plan.steps if step.exit is not None]
        self.uncertain = bool(exits)
        self.counts = {exit.count: _turns(exit, scenario) for exit in exits}
        """The trip counts of the loops with an exit."""

    def run(self, in_part: Sequence[int]) -> None:
        self._check_columns()
        for one, (base, start) in self.plan.views.items():
            is_inside = 0 <= start <= base.count - one.count and one.dtype == base.dtype
            if not is_inside or base not in self.plan.inputs or base in self.plan.outputs:
                raise _broken(f"{one.name} is not a part of an input that stays as it is")
            self.written[one] = self.written[base][start : start + one.count]
        for step in self.plan.schedule:
            if isinstance(step, Repeat):
                self._repeat(step)
            else:
                self._checked(step)
        for number, one in enumerate(self.plan.outputs):
            if not self.written[one].all() and number not in in_part:
                index = np.unravel_index(int(self.written[one].argmin()), one.extents)
                where = tuple(map(int, index))
                raise _broken(f"output {number} is not written at {where}")

    def _checked(self, step: Step, turns: Sequence[int] = ()) -> None:
        """Check a step: one of the plan, or one that several of them were combined to."""
        try:
            self._step(step, turns)
        except Fault as fault:
            number = self.plan.steps.index(step) if step in self.plan.steps else "in turns"
            raise PlanError(
                f"kernel {number} of a compiled program breaks a promise of the compiler, "
                f"which is a fault of functrans and not of your program: {fault}\n"
                f"{text(step.kernel)}"
            ) from None

    def _repeat(self, repeat: Repeat) -> None:
        self._check_exits(repeat)
        self._checked(unrepeated(repeat))
        # a thread's private memory is private to each kernel
        for step, turns in some_turns(repeat, self.counts):
            self._checked(step, turns)

    def _check_exits(self, repeat: Repeat) -> None:
        """Check that the trip count of each loop with an exit is the one that it stores."""
        for step in repeat.steps:
            if isinstance(step, Repeat):
                self._check_exits(step)
        if repeat.exit is None and repeat.count is None:
            raise _broken("a loop has no end")
        if repeat.exit is not None and not _is_counted(repeat, repeat.exit):
            raise _broken(f"{repeat.exit.count} is not the number of turns of its loop")

    def _step(self, step: Step, turns: Sequence[int]) -> None:
        own = dict(zip(step.kernel.buffers, step.buffers, strict=True))
        if any(inner.column != self.plan.columns.get(outer) for inner, outer in own.items()):
            raise Fault("a buffer is a part of a record in the program or in the kernel only")
        self._check_offsets(step)
        loop = step.kernel.parallel
        if step.extent != (_stop(step, loop) if loop is not None else 0):
            raise Fault(f"its parallel loop is called for {step.extent} iterations")
        if step.kernel.narrow and threads(step.kernel, step.sizes) > MOST_NARROW:
            raise Fault(f"there are more threads than {MOST_NARROW}")
        if len(set(step.buffers)) < len(step.buffers):
            raise Fault("two of its buffers are one")
        changed = [own[inner] for inner in stored(step.kernel.body) if inner in own]
        if not self.plan.views.keys().isdisjoint(changed):
            raise Fault("it writes to a part of an input")
        try:
            sizes = (*step.sizes, *turns)
            counts = {inner: self.counts[x] for inner, x in own.items() if x in self.counts}
            accesses = Accesses(
                step.kernel, step.buffers, sizes, footprint, self.scenario, counts, self.decisions
            )
            before = {inner: self.written[outer] for inner, outer in own.items()}
            after = verify_kernel(accesses, before)
            self.uncertain |= accesses.uncertain
        except TooLarge:
            self.too_large += 1
            after = {inner: _all(one) for inner, one in own.items()}
        self._destroy(changed)
        for inner, outer in own.items():
            if outer in changed:
                self.written[outer] = after[inner]

    def _check_columns(self) -> None:
        """Check that the columns of a record have their own parts of its rows."""
        end: dict[int, tuple[int, ...]] = {}
        for one, column in sorted(self.plan.columns.items(), key=lambda each: each[1]):
            memory = *self.plan.memory_of(one), column.pitch, one.extents[0]
            stop = column.start + prod(one.extents[1:])
            before, *known = end.setdefault(column.record, (0, *memory))
            if column.start < before or stop > column.pitch or tuple(known) != memory:
                raise _broken(f"the part of {one.name} in a record is not its own")
            end[column.record] = (stop, *memory)

    def _check_offsets(self, step: Step) -> None:
        """Check that the temporaries of a kernel are in the arena, and do not overlap."""
        ranges: dict[object, tuple[int, int, str]] = {}  # one for each record
        for one in step.buffers:
            if one in self.plan.offsets:
                column = self.plan.columns.get(one)
                whole = one if column is None else column.record
                ranges[whole] = *self.plan.memory_of(one), one.name
        end = 0
        for start, stop, name in sorted(ranges.values()):
            if start < end or stop > self.plan.arena:
                raise Fault(f"the memory of {name} in the arena is not its own")
            end = max(end, stop)

    def _destroy(self, changed: Iterable[Buffer]) -> None:
        """Mark the buffers that overlap, in the arena, with a written one as undefined."""
        for one in changed:
            if one in self.plan.offsets:
                start, stop = self.plan.memory_of(one)
                for number in np.flatnonzero((self.starts < stop) & (start < self.stops)):
                    other = self.temporaries[number]
                    if other is not one and not self._share_record(one, other):
                        self.written[other] = np.zeros(other.count, bool)

    def _share_record(self, one: Buffer, other: Buffer) -> bool:
        own, others = self.plan.columns.get(one), self.plan.columns.get(other)
        return own is not None and others is not None and own.record == others.record


def unrepeated(repeat: Repeat) -> Step:
    """A loop of the program as one step, whose kernel contains the loop."""
    parts = list(map(_inlined, repeat.steps))
    body = tuple(each for statements, _ in parts for each in statements)
    scratch = tuple(row for _, rows in parts for row in rows)
    if repeat.exit is None:
        count = repeat.index.attribute[2]
        loops: tuple[Statement, ...] = (For(repeat.index, ZERO, const(count, INDEX), body),)
    else:
        loops = _left_by(repeat.exit, repeat.index, body)
    kernel = Kernel(repeat.buffers, 0, loops, scratch)
    return Step(kernel, repeat.buffers, (), 0, 0)


def _left_by(exit: Exit, index: Scalar, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The statements of a loop with an exit, given those of an iteration."""
    turn, simplify = local(INDEX, "turn"), Simplifier()
    turns = substituted(body, {index: turn}, simplify)
    (test,) = [number for number, each in enumerate(turns) if _stores(each, exit.going)]
    going = load(exit.going, ())
    step = (*turns[test + 1 :], Assign((turn,), (from_terms({turn: 1}, 1),)))
    loop = While(turns[: test + 1], going, step, exit.most)
    return Let((turn,), (ZERO,)), loop


def _stores(statement: Statement, one: Buffer) -> bool:
    return isinstance(statement, Store) and statement.target is one


def _is_counted(repeat: Repeat, exit: Exit) -> bool:
    """Whether the stored trip count of a loop is its iteration when it is left.

    Either the statement that stores whether the loop continues also stores it; or the loop
    continues while its iteration is less than the count, which it does not change.
    """
    first, loop = unrepeated(repeat).kernel.body
    assert isinstance(first, Let)
    assert isinstance(loop, While)
    (turn,) = first.targets
    stores = [each for each in walk((loop,)) if _stores(each, exit.count)]
    if not stores:
        return _stored(loop.prepare[-1]) is Simplifier()(turn < load(exit.count, ()))
    here = len(stores) == 1 and stores[0] in loop.prepare and _stored(stores[0]) is turn
    return here and exit.count not in loaded((loop,))


def _stored(statement: Statement) -> Scalar | None:
    return statement.value if isinstance(statement, Store) else None


def _turns(exit: Exit, scenario: Scenario) -> int:
    """The trip count that is assumed for a loop with an exit."""
    return min(each for each in (LONGEST, scenario.steps, exit.most) if each is not None)


def _inlined(step: Step | Repeat) -> tuple[tuple[Statement, ...], tuple[Buffer, ...]]:
    """The statements of a step on its buffers, and its scratch."""
    if isinstance(step, Repeat):
        kernel = unrepeated(step).kernel
        return kernel.body, kernel.scratch
    sizes = (*(const(n, INDEX) for n in step.sizes), *step.turns)
    simplify = Simplifier()
    given = {size(slot): value for slot, value in enumerate(sizes)}
    relocation = Relocation(simplify)
    for own, outer in zip(step.kernel.buffers, step.buffers, strict=True):
        relocation.moved[own] = outer, ()
    rows = {
        row: replace(row, shape=tuple(simplify.substitute(row.shape, given)))
        for row in step.kernel.scratch
    }
    for row, sized in rows.items():
        relocation.moved[row] = sized, ()
    body = substituted(relocation.statements(step.kernel.body), given, simplify)
    return body, tuple(rows.values())


def some_turns(
    repeat: Repeat, counts: Mapping[Buffer, int], turns: tuple[int, ...] = ()
) -> Iterator[tuple[Step, Sequence[int]]]:
    """The steps of the first two iterations and of the last one.

    ``counts`` are the trip counts of loops with an exit.
    """
    count = repeat.count if repeat.exit is None else counts[repeat.exit.count]
    assert count is not None
    for turn in sorted({0, min(1, count - 1), count - 1} if count else ()):
        for step in repeat.steps:
            if isinstance(step, Repeat):
                yield from some_turns(step, counts, (*turns, turn))
            else:
                yield step, (*turns, turn)


def _stop(step: Step, loop: For) -> int:
    given: int = loop.stop.attribute
    return step.sizes[given] if loop.stop.op == "size" else given
