"""Plans: the kernels that a program calls in order, and its memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import groupby
from math import prod

from functrans.loop.scalar import Scalar
from functrans.loop.statements import Buffer, Column, Kernel
from functrans.loop.walk import loaded, stored
from functrans.records import NamedTuple, dataclass

ENDLESS = 2**63 - 1
"""The number of iterations of a loop without a known bound."""

MOST_NARROW = 2**31 - 2**11
"""The most threads of a launch for which all indices fit into 31 bits, including the last
block's."""


@dataclass(frozen=True, eq=False)
class Exit:
    """The exit of a program's loop whose trip count depends on data."""

    going: Buffer  # whether the loop continues: a bool that each iteration stores
    count: Buffer  # an int64: after the loop, its trip count
    most: int | None  # an upper bound on the trip count, if it is known


@dataclass(frozen=True, eq=False)
class Step:
    """A call of a kernel."""

    kernel: Kernel
    buffers: tuple[Buffer, ...]  # the program's buffers with which it is called
    sizes: tuple[int, ...]
    extent: int  # the range of the kernel's parallel loop; 0 if it has none
    work: int  # roughly its operations and the bytes that it moves
    # The indices of the program's loops around it, outermost first. Their values are the last sizes
    # with which the kernel is called.
    turns: tuple[Scalar, ...] = ()
    form: str = ""  # the form in which it is computed, if there are several
    # the exit of the innermost loop around it, if the loop is left after this step
    exit: Exit | None = None

    def accessed(self) -> tuple[set[Buffer], set[Buffer]]:
        """The program's buffers that it reads, and those that it writes."""
        actual = dict(zip(self.kernel.buffers, self.buffers, strict=True))
        read, written = loaded(self.kernel.body), stored(self.kernel.body)
        outside = [[actual[one] for one in own if one in actual] for own in (read, written)]
        return {*outside[0]}, {*outside[1]}


@dataclass(frozen=True, eq=False)
class Repeat:
    """A loop of the program: steps that are executed repeatedly, in order."""

    index: Scalar  # the iteration, counted from 0
    steps: tuple[Step | Repeat, ...]  # the body

    @property
    def count(self) -> int | None:
        """The trip count; None if the loop has an exit."""
        return self.index.attribute[2]

    @property
    def exit(self) -> Exit | None:
        """The exit of the loop, if one of its steps has one."""
        own = (step for step in self.steps if isinstance(step, Step))
        return next((step.exit for step in own if step.exit is not None), None)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The arguments of its steps."""
        return tuple(dict.fromkeys(one for step in self.steps for one in step.buffers))


def schedule(
    steps: Sequence[Step],
    depth: int = 0,  # the number of loops around all of them
) -> Iterator[Step | Repeat]:
    """The steps, with those that share a loop combined to its body."""

    def loop(step: Step) -> Scalar | None:
        return step.turns[depth] if len(step.turns) > depth else None

    for index, run in groupby(steps, loop):
        if index is None:
            yield from run
        else:
            yield Repeat(index, tuple(schedule(list(run), depth + 1)))


def called(
    steps: Sequence[Step | Repeat],
    # returns the bool in a buffer, after the step that stores it; needed for loops with an exit
    holds: Callable[[Buffer], bool] | None = None,
    turns: tuple[int, ...] = (),  # the iterations of the loops around them
) -> Iterator[tuple[Step, tuple[int, ...]]]:
    """Each step, as often as it is called, in order, with the iterations of the loops around it."""
    for step in steps:
        if isinstance(step, Repeat):
            for turn in itertools.count() if step.count is None else range(step.count):
                left = yield from _turn(step.steps, holds, (*turns, turn))
                if left:
                    break
        else:
            yield step, turns


def _turn(
    steps: Sequence[Step | Repeat], holds: Callable[[Buffer], bool] | None, turns: tuple[int, ...]
) -> Generator[tuple[Step, tuple[int, ...]], None, bool]:
    """The steps of one iteration as they are called; returns whether the loop is left in it."""
    for step in steps:
        yield from called((step,), holds, turns)
        if isinstance(step, Step) and step.exit is not None:
            assert holds is not None, "someone has to say whether a loop goes on"
            if not holds(step.exit.going):
                return True
    return False


class View(NamedTuple):
    """A contiguous part of an input, which steps read where it is."""

    base: Buffer  # the input
    start: int  # the linear index of its first element in the input


@dataclass(frozen=True, eq=False)
class Plan:
    """A program: its steps, and its memory."""

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]  # an output that overwrites a donated input is the same buffer
    steps: tuple[Step, ...]  # in order; those that share a loop of the program are adjacent
    offsets: dict[Buffer, int]  # the offset of each temporary in the arena, in bytes
    arena: int  # the size of the arena in bytes
    views: Mapping[Buffer, View] = field(default_factory=dict)
    columns: Mapping[Buffer, Column] = field(default_factory=dict)  # the parts of records

    def memory_of(self, one: Buffer) -> tuple[int, int]:
        """Where a temporary, or the record of which it is a part, begins and ends in the arena."""
        start, column, itemsize = self.offsets[one], self.columns.get(one), one.dtype.itemsize
        if column is None:
            return start, start + one.nbytes
        start -= column.start * itemsize
        return start, start + one.extents[0] * column.pitch * itemsize

    @property
    def schedule(self) -> tuple[Step | Repeat, ...]:
        """The steps, with the program's loops made explicit."""
        return tuple(schedule(self.steps))

    @property
    def loops(self) -> dict[Scalar, tuple[int, int]]:
        """The program's loops with their numbers, and upper bounds on their trip counts."""
        found = dict.fromkeys(turn for step in self.steps for turn in step.turns)
        return {
            loop: (number, ENDLESS if loop.attribute[2] is None else int(loop.attribute[2]))
            for number, loop in enumerate(found)
        }

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels, in the order of their first calls."""
        return list(dict.fromkeys(step.kernel for step in self.steps))

    @property
    def overwritten(self) -> dict[int, int]:
        """The inputs that outputs overwrite, by number, and these outputs."""
        numbers = {x: number for number, x in enumerate(self.inputs)}
        return {numbers[x]: i for i, x in enumerate(self.outputs) if x in numbers}


def iterations(kernel: Kernel, sizes: Sequence[int]) -> int:
    """The number of iterations of a kernel's band; 1 if it has none."""

    def number(bound: Scalar) -> int:
        value: int = bound.attribute
        return sizes[value] if bound.op == "size" else value

    return prod(number(loop.stop) - number(loop.start) for loop in kernel.band)


def threads(kernel: Kernel, sizes: Sequence[int]) -> int:
    """The number of threads of a kernel's band, without those that only fill the last block."""
    return iterations(kernel, sizes) * kernel.team
