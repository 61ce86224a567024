"""Cost model of a grid: how long a kernel takes, roughly, in cycles.

A thread executes an operation every few cycles, since most operations wait for the previous one;
the machine executes a bounded number of operations at once. A kernel takes as long as its longest
thread, or as long as all of its operations take together, and each kernel has to be launched.
Memory bandwidth is not modelled, because it is the same for all ways to share a loop, except for
values that are stored between kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from functrans.loop.grid import Grid
from functrans.loop.operations import operations
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Buffer, For, If, Reduce, Statement, Store, While
from functrans.loop.walk import expressions, walk
from functrans.lower.grid.dealing import extent, is_independent, perfect, terms, threads
from functrans.lower.grid.slicing import Sums, long_sums
from functrans.records import NamedTuple

STEPS = 64
"""The assumed trip count of a loop whose number of steps is found on the way."""


class Way(NamedTuple):
    """The way in which a team executes a loop."""

    time: int  # the sequential operations of a thread
    # the number of threads that share each dealt iteration: more than one if the terms of its
    # reductions are dealt, too. 0 if all threads execute all iterations together
    slices: int


class Spans:
    """Estimates the sequential operations of a thread in the statements of a team."""

    def __init__(
        self,
        grid: Grid,
        scratch: set[Buffer],  # the scratch of a team
    ) -> None:
        self.grid = grid
        self.scratch = scratch
        self._known: dict[tuple[Statement, int], int] = {}
        self._ways: dict[tuple[For, int], Way] = {}
        self._sums: dict[For, Sums | None] = {}

    def time(self, iterations: int, team: int, inside: Sequence[Statement]) -> int:
        """The time of a kernel, given the number of iterations of its band."""
        grid = self.grid
        waves = -(-iterations * team * self.body(inside, team) // grid.at_once)
        return grid.launch + max(grid.latency * self.body(inside, team), waves)

    def body(self, body: Iterable[Statement], team: int) -> int:
        return sum(self.statement(each, team) for each in body)

    def statement(self, one: Statement, team: int) -> int:
        """The sequential operations of a thread in a statement."""
        key = one, team
        if key not in self._known:
            self._known[key] = self._statement(one, team)
        return self._known[key]

    def _statement(self, one: Statement, team: int) -> int:
        match one:
            case For():
                return self.way(one, team).time
            case Reduce():
                count = terms(one)
                each = 1 + self._operations(one.values) + self.body(one.body, 1)
                if team == 1 or count < self.grid.shortest:
                    return count * each
                return -(-count // team) * each + self._combining(team) * len(one.targets)
            case If():
                arms = (one.body, one.otherwise)
                return self._operations((one.condition,)) + max(
                    self.body(arm, team) for arm in arms
                )
            case While():
                once = self.body((*one.prepare, *one.body), team)
                return STEPS * (once + self._operations((one.condition,)))
        writes = self.grid.memory if isinstance(one, Store) else 0
        return writes + self._operations(expressions(one))

    def way(self, loop: For, team: int) -> Way:
        """The fastest way in which a team can execute a loop."""
        if (loop, team) not in self._ways:
            ways = [self._alike(loop, team)]
            if self._may_be_dealt(loop, team):
                # (of two equally fast ways, the first is better)
                ways.insert(0, self._dealt(loop, team))
                least = min(way.time for way in ways)
                sliced = self._sliced(loop, team)
                ways += [way for way in sliced if self.grid.gain * way.time < least]
            self._ways[loop, team] = min(ways, key=lambda way: way.time)
        return self._ways[loop, team]

    def sums(self, loop: For) -> Sums | None:
        """The reductions of a loop whose terms may be dealt; None if there are none."""
        if loop not in self._sums:
            self._sums[loop] = long_sums(loop, self.grid)
        return self._sums[loop]

    def _may_be_dealt(self, loop: For, team: int) -> bool:
        """Whether the iterations of a loop may be executed by different threads."""
        if team == 1 or not is_independent(loop):
            return False
        loops = perfect(loop)
        # vector lanes are independent; iterations of other loops may each reuse the same row
        anew = [each for each in loops if each.lanes == 1]
        return all(self._is_own(each, anew) for each in walk(loops[-1].body))

    def _dealt(self, loop: For, team: int) -> Way:
        """The iterations are dealt, each to one thread."""
        loops = perfect(loop)
        turns = -(-prod(map(extent, loops)) // team)
        return Way(turns * (1 + self.body(loops[-1].body, 1)) + self.grid.barrier, 1)

    def _sliced(self, loop: For, team: int) -> Iterator[Way]:
        """The terms of reductions are dealt, too, in one of several numbers of slices."""
        sums = self.sums(loop)
        if sums is None or 2 * sums.iterations > team:
            return
        memory = self.grid.memory
        once = 2 + self.body(sums.needed, 1) + self.body(sums.rest, 1) + 2 * self.grid.barrier
        for count in sums.slices(team, self.grid):
            slices = sum(-(-self.statement(each, 1) // count) for each in sums.sums)
            combined = len(sums.targets) * (memory + count * (2 + memory))
            yield Way(once + slices + combined, count)

    def _alike(self, loop: For, team: int) -> Way:
        """All threads execute each iteration together, one iteration after the other."""
        waiting = self.grid.barrier if team > 1 else 0
        return Way(extent(loop) * (1 + waiting + self.body(loop.body, team)), 0)

    def _is_own(self, statement: Statement, loops: Sequence[For]) -> bool:
        """Whether iterations write to different elements of the rows that a team shares."""
        if not isinstance(statement, Store) or statement.target not in self.scratch:
            return True
        return all(loop.index in statement.indices for loop in loops)

    def _operations(self, roots: Sequence[Scalar]) -> int:
        """The operations of expressions, including memory accesses."""
        loads = sum(node.op == "load" for node in postorder(roots))
        return 1 + operations(roots) + self.grid.memory * loads

    def _combining(self, team: int) -> int:
        return 2 * team.bit_length() + (2 * self.grid.barrier if team > self.grid.warp else 0)

    def threads(self, statement: Statement) -> int:
        """The most threads that could share a statement, including the terms of its reductions."""
        found = threads(statement)
        if isinstance(statement, For) and is_independent(statement):
            sums = self.sums(statement)
            if sums is not None:
                found *= max(1, min(sums.most, self.grid.warp))
        return found
