"""Launch configuration: the threads of a kernel's blocks, and the blocks of its grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from functrans.loop.grid import Grid
from functrans.loop.scalar import Scalar
from functrans.loop.statements import Kernel, MatrixMultiply
from functrans.loop.walk import walk
from functrans.lower.plan import Step

NARROW = 2**31 - 2**11
"""With so many threads at most, the number of each fits into 31 bits, in the last block too."""


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
        """How many blocks do so many iterations of the band."""
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


def iterations(kernel: Kernel, sizes: Sequence[int]) -> int:
    """How many iterations the band of a kernel has; one without a band."""

    def number(bound: Scalar) -> int:
        value: int = bound.attribute
        return sizes[value] if bound.op == "size" else value

    return prod(number(loop.stop) - number(loop.start) for loop in kernel.band)


def threads(kernel: Kernel, sizes: Sequence[int]) -> int:
    """How many threads do the band of a kernel, those not counted that fill the last block."""
    return iterations(kernel, sizes) * kernel.team


def narrowed(step: Step) -> Step:
    """The step, whose kernel knows whether 32 bits are enough for the numbers of its threads."""
    if threads(step.kernel, step.sizes) > NARROW:
        return step
    return replace(step, kernel=replace(step.kernel, narrow=True))
