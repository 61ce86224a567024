"""Launch configuration: the threads of a kernel's blocks, and the blocks of its grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from functrans.loop.grid import Grid
from functrans.loop.statements import Buffer, Kernel, MatrixMultiply
from functrans.loop.walk import walk
from functrans.lower.grid.contiguity import WIDEST
from functrans.lower.plan import MOST_NARROW, Step, threads


class Launch(NamedTuple):
    """The blocks of a kernel.

    Parameters
    ----------
    threads : int
        Of a block.
    teams : int
        How many teams the threads of a block are.
    shared : int
        Bytes of shared memory that the launch asks for; else the kernel declares what it takes.
    """

    threads: int
    teams: int
    shared: int = 0

    def blocks(self, iterations: int) -> int:
        """The number of blocks for the iterations of a band."""
        return -(-iterations // self.teams)


def launch(kernel: Kernel, grid: Grid) -> Launch:
    """The blocks of a kernel: warps share one, as far as there is room for what each keeps.

    A larger team has a block to itself, since it waits at the barriers of the block.
    """
    team, teams = kernel.team, 1
    rows = shared_rows(kernel)
    if kernel.band and team <= grid.warp:
        teams = grid.block // team
        if team > 1:
            shared = sum(row.nbytes for row in rows)
            teams = max(min(teams, grid.shared // max(shared, 1)), 1)
    *_, end = 0, *ends(rows)
    return Launch(team * teams, teams, end if teams == 1 and end > grid.shared else 0)


def shared_rows(kernel: Kernel) -> list[Buffer]:
    """The rows of a team's scratch that are its threads' together."""
    own = {*kernel.private, *kernel.dealt}
    return [row for row in kernel.scratch if row not in own] if kernel.team > 1 else []


def ends(rows: Sequence[Buffer]) -> Iterator[int]:
    """Where rows end that lie one behind the other, each from a multiple of 16 bytes on."""
    return accumulate(-(-row.nbytes // WIDEST) * WIDEST for row in rows)


_MANY_SUMS = 64
"""Of a thread: with more of them, a multiprocessor has registers for one block of 256 threads."""


def least_blocks(kernel: Kernel) -> int:
    """How many blocks a multiprocessor should have the registers for at once.

    On tensor cores two: one multiplies while the other waits for memory, or at its barrier. With
    many sums one, which has copies on their way and other warps meanwhile.
    """
    products = [each for each in walk(kernel.body) if isinstance(each, MatrixMultiply)]
    return 2 if products and max(each.count for each in products) <= _MANY_SUMS else 1


def narrowed(step: Step) -> Step:
    """The step, whose kernel knows whether 32 bits are enough for the numbers of its threads."""
    if threads(step.kernel, step.sizes) > MOST_NARROW:
        return step
    return replace(step, kernel=replace(step.kernel, narrow=True))
