"""Plans: the kernels that a program calls, one after another, and its memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod

from functrans.loop.scalar import Scalar
from functrans.loop.statements import Buffer, Kernel

MOST_NARROW = 2**31 - 2**11
"""Threads of a launch at most: the number of each fits into 31 bits, in the last block too."""


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
    """

    kernel: Kernel
    buffers: tuple[Buffer, ...]
    sizes: tuple[int, ...]
    extent: int
    work: int
    turns: tuple[Scalar, ...] = ()
    form: str = ""


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
    def count(self) -> int:
        """How many turns there are."""
        return int(self.index.attribute[2])

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
    steps: Sequence[Step | Repeat], turns: tuple[int, ...] = ()
) -> Iterator[tuple[Step, tuple[int, ...]]]:
    """Each step as often as it is called, in order, and the turns of the loops around it."""
    for step in steps:
        if isinstance(step, Repeat):
            for turn in range(step.count):
                yield from called(step.steps, (*turns, turn))
        else:
            yield step, turns


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
        """The loops that steps are in, each with a number, and how many turns it has."""
        found = dict.fromkeys(turn for step in self.steps for turn in step.turns)
        return {loop: (number, int(loop.attribute[2])) for number, loop in enumerate(found)}

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
