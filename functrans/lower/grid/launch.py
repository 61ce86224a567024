"""Launch configuration: the threads of a kernel's blocks, and the blocks of its grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from functrans.loop.grid import Grid
from functrans.loop.statements import Buffer, Kernel, MatrixMultiply, Reduce
from functrans.loop.walk import walk
from functrans.lower.grid.contiguity import WIDEST
from functrans.lower.plan import MOST_NARROW, Step, threads
from functrans.records import NamedTuple


class Launch(NamedTuple):
    """The blocks of a kernel."""

    threads: int  # the threads of a block
    teams: int  # the number of teams in a block
    # the bytes of shared memory that the launch requests; if 0, the kernel declares its own
    shared: int = 0

    def blocks(self, iterations: int) -> int:
        """The number of blocks for the iterations of a band."""
        return -(-iterations // self.teams)


def launch(kernel: Kernel, grid: Grid) -> Launch:
    """The blocks of a kernel: warps share one, as far as there is space for the rows of each.

    A larger team is a block of its own, since its barriers are those of the block.
    """
    team, teams = kernel.team, 1
    rows = shared_rows(kernel)
    if kernel.band and team <= grid.warp:
        teams = grid.block // team
        if team > 1:
            shared = sum(row.nbytes for row in rows)
            teams = max(min(teams, grid.shared // max(shared, 1)), 1)
    *_, end = 0, *ends(rows)
    requests = teams == 1 and end + _partial_sums(kernel, grid) > grid.shared
    return Launch(team * teams, teams, end if requests else 0)


def _partial_sums(kernel: Kernel, grid: Grid) -> int:
    """The most bytes of shared memory for the partial results of warps."""
    if kernel.team <= grid.warp:
        return 0
    sums = (x for x in walk(kernel.body) if isinstance(x, Reduce) and x.lanes == kernel.team)
    results = sum(target.dtype.itemsize for each in sums for target in each.targets)
    return results * (kernel.team // grid.warp)


def shared_rows(kernel: Kernel) -> list[Buffer]:
    """The rows of a team's scratch that its threads share."""
    own = {*kernel.private, *kernel.dealt}.difference(kernel.long)
    return [row for row in kernel.scratch if row not in own] if kernel.team > 1 else []


def ends(rows: Sequence[Buffer]) -> Iterator[int]:
    """The ends of consecutive rows that are each aligned to 16 bytes."""
    return accumulate(-(-row.nbytes // WIDEST) * WIDEST for row in rows)


_MANY_SUMS = 256
"""The bytes of a thread's accumulators beyond which a multiprocessor has registers for only one
block of 256 threads."""


def least_blocks(kernel: Kernel) -> int:
    """The number of blocks for which a multiprocessor should have registers.

    Two on tensor cores: one multiplies while the other waits for memory, or at its barrier. One if
    there are many accumulators: it has asynchronous copies in flight, and other warps to execute
    meanwhile.
    """
    sums = [
        each.count * each.sums.target.dtype.itemsize
        for each in walk(kernel.body)
        if isinstance(each, MatrixMultiply)
    ]
    return 2 if sums and max(sums) <= _MANY_SUMS else 1


def narrowed(step: Step) -> Step:
    """The step, whose kernel is marked if the indices of its threads fit into 32 bits."""
    if threads(step.kernel, step.sizes) > MOST_NARROW:
        return step
    return replace(step, kernel=replace(step.kernel, narrow=True))
