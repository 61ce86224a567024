"""Plans: the kernels that a program calls, one after another, and its memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod

from functrans.loop.scalar import Scalar
from functrans.loop.statements import Buffer, Kernel

ENDLESS = 2**63 - 1
"""Turns of a loop that nobody counts."""

MOST_NARROW = 2**31 - 2**11
"""Threads of a launch at most: the number of each fits into 31 bits, in the last block too."""


@dataclass(frozen=True, eq=False)
class Exit:
    """How a loop of the program's ends that is left when something does not hold any more.

    Parameters
    ----------
    going : Buffer
        Whether it goes on: a bool, which each of its turns stores.
    count : Buffer
        An int64. When the loop has been left, it is how many turns it had.
    most : int or None
        How many turns there are at most, if that is known.
    """

    going: Buffer
    count: Buffer
    most: int | None


@dataclass(frozen=True, eq=False)
class Step:
    """A call of a kernel.

    Parameters
    ----------
    kernel : Kernel
    buffers : tuple of Buffer
        The program's buffers that it is called with.
    sizes : tuple of int
    extent : int
        The range of the kernel's parallel loop; 0 if it has none.
    work : int
        Roughly the number of scalar operations.
    turns : tuple of Scalar
        The indices of loops around it that the program goes through, outermost first. The kernel's
        last sizes are where these are.
    form : str
        In which form it computes, where there are several.
    exit : Exit or None
        If the innermost loop around is left behind this step when it does not go on.
    """

    kernel: Kernel
    buffers: tuple[Buffer, ...]
    sizes: tuple[int, ...]
    extent: int
    work: int
    turns: tuple[Scalar, ...] = ()
    form: str = ""
    exit: Exit | None = None


@dataclass(frozen=True, eq=False)
class Repeat:
    """Steps that are called again and again, one turn after the other.

    Parameters
    ----------
    index : Scalar
        Where the turns are counted, from 0.
    steps : tuple of Step and Repeat
        What a turn is.
    """

    index: Scalar
    steps: tuple[Step | Repeat, ...]

    @property
    def count(self) -> int | None:
        """How many turns there are; None if it is left by an exit."""
        count: int | None = self.index.attribute[2]
        return count

    @property
    def exit(self) -> Exit | None:
        """How it ends, if it does so at one of its steps."""
        own = (step for step in self.steps if isinstance(step, Step))
        return next((step.exit for step in own if step.exit is not None), None)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Arguments of its steps."""
        return tuple(dict.fromkeys(one for step in self.steps for one in step.buffers))


def schedule(steps: Sequence[Step], depth: int = 0) -> Iterator[Step | Repeat]:
    """The steps, of which those that share a loop are what is repeated.

    Parameters
    ----------
    steps : sequence of Step
    depth : int
        The number of loops around all of them.
    """

    def loop(step: Step) -> Scalar | None:
        return step.turns[depth] if len(step.turns) > depth else None

    for index, run in groupby(steps, loop):
        if index is None:
            yield from run
        else:
            yield Repeat(index, tuple(schedule(list(run), depth + 1)))


def called(
    steps: Sequence[Step | Repeat],
    holds: Callable[[Buffer], bool] | None = None,
    turns: tuple[int, ...] = (),
) -> Iterator[tuple[Step, tuple[int, ...]]]:
    """Each step as often as it is called, in order, and the turns of the loops around it.

    Parameters
    ----------
    steps : sequence of Step and Repeat
    holds : callable, optional
        Gives the bool that is in a buffer, when the step that stores it has been done; where there
        are loops with an exit.
    turns : tuple of int
        Of the loops around.
    """
    for step in steps:
        if isinstance(step, Repeat):
            for turn in itertools.count() if step.count is None else range(step.count):
                left = yield from _turn(step.steps, holds, (*turns, turn))
                if left:
                    break
        else:
            yield step, turns


def _turn(
    steps: Sequence[Step | Repeat],
    holds: Callable[[Buffer], bool] | None,
    turns: tuple[int, ...],
) -> Generator[tuple[Step, tuple[int, ...]], None, bool]:
    """The steps of a turn as they are called; gives whether the loop is left in it."""
    for step in steps:
        yield from called((step,), holds, turns)
        if isinstance(step, Step) and step.exit is not None:
            assert holds is not None, "someone has to say whether a loop goes on"
            if not holds(step.exit.going):
                return True
    return False


@dataclass(frozen=True, eq=False)
class Plan:
    """A program: its steps, and its memory.

    Parameters
    ----------
    inputs, outputs : tuple of Buffer
        An output that overwrites a donated input is the same buffer.
    steps : tuple of Step
        In order; those that share a loop of the host's are next to each other.
    offsets : dict
        Where in the arena each temporary is, in bytes.
    arena : int
        The size of the arena in bytes.
    """

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    offsets: dict[Buffer, int]
    arena: int

    @property
    def schedule(self) -> tuple[Step | Repeat, ...]:
        """The steps, with those that are repeated put together."""
        return tuple(schedule(self.steps))

    @property
    def loops(self) -> dict[Scalar, tuple[int, int]]:
        """The loops that steps are in, each with a number, and how many turns it has at most."""
        found = dict.fromkeys(turn for step in self.steps for turn in step.turns)
        return {
            loop: (number, ENDLESS if loop.attribute[2] is None else int(loop.attribute[2]))
            for number, loop in enumerate(found)
        }

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels in the order in which they are first called."""
        return list(dict.fromkeys(step.kernel for step in self.steps))

    @property
    def overwritten(self) -> dict[int, int]:
        """The inputs that results are written into, by number, and those outputs."""
        numbers = {x: number for number, x in enumerate(self.inputs)}
        return {numbers[x]: i for i, x in enumerate(self.outputs) if x in numbers}


def iterations(kernel: Kernel, sizes: Sequence[int]) -> int:
    """How many iterations the band of a kernel has; one without a band."""

    def number(bound: Scalar) -> int:
        value: int = bound.attribute
        return sizes[value] if bound.op == "size" else value

    return prod(number(loop.stop) - number(loop.start) for loop in kernel.band)


def threads(kernel: Kernel, sizes: Sequence[int]) -> int:
    """How many threads do the band of a kernel, those not counted that fill the last block."""
    return iterations(kernel, sizes) * kernel.team
