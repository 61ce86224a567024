"""Launch configuration: the threads of a kernel's blocks, and the blocks of its grid."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from functrans.loop.grid import Grid
from functrans.loop.statements import Kernel, MatrixMultiply
from functrans.loop.walk import walk
from functrans.lower.plan import MOST_NARROW, Step, threads


class Launch(NamedTuple):
    """The blocks of a kernel.

    Parameters
    ----------
    threads : int
        Of a block.
    teams : int
        How many teams the threads of a block are.
    """

    threads: int
    teams: int

    def blocks(self, iterations: int) -> int:
        """The number of blocks for the iterations of a band."""
        return -(-iterations // self.teams)


def launch(kernel: Kernel, grid: Grid) -> Launch:
    """The blocks of a kernel: warps share one, as far as there is room for what each keeps.

    A larger team has a block to itself, since it waits at the barriers of the block.
    """
    team = kernel.team
    if not kernel.band or team > grid.warp:
        return Launch(team, 1)
    teams = grid.block // team
    if team > 1:
        own = {*kernel.private, *kernel.dealt}
        shared = sum(row.nbytes for row in kernel.scratch if row not in own)
        teams = max(min(teams, grid.shared // max(shared, 1)), 1)
    return Launch(team * teams, teams)


def least_blocks(kernel: Kernel) -> int:
    """How many blocks a multiprocessor should have the registers for at once.

    On tensor cores two: one multiplies while the other waits for memory, or at its barrier.
    """
    return 2 if any(isinstance(each, MatrixMultiply) for each in walk(kernel.body)) else 1


def narrowed(step: Step) -> Step:
    """The step, whose kernel knows whether 32 bits are enough for the numbers of its threads."""
    if threads(step.kernel, step.sizes) > MOST_NARROW:
        return step
    return replace(step, kernel=replace(step.kernel, narrow=True))
