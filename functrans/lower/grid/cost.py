"""Cost model of a grid: how long a kernel takes, roughly, in cycles.

A thread does an operation every few cycles, since most wait for the one before; the machine does so
many at once, and no more. A kernel takes as long as its longest thread, or as long as all of its
operations take, and each has to be launched. What memory delivers is not modelled: it is the same
for all ways to share a loop, but for what is put there between kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from functrans.loop.grid import Grid
from functrans.loop.operations import operations
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Buffer, For, If, Reduce, Statement, Store, While
from functrans.loop.walk import expressions, walk

STEPS = 64
"""So many steps a loop is taken to have whose number of steps is found on the way."""


class Spans:
    """How many operations a thread does, one after another, of what a team does together.

    Parameters
    ----------
    grid : Grid
    scratch : set of Buffer
        What a team has to itself.
    """

    def __init__(self, grid: Grid, scratch: set[Buffer]) -> None:
        self.grid = grid
        self.scratch = scratch
        self._known: dict[tuple[Statement, int], int] = {}
        self._longest: dict[Statement, int] = {}

    def time(self, iterations: int, team: int, inside: Sequence[Statement]) -> int:
        """How long a kernel takes whose band has so many iterations."""
        grid = self.grid
        waves = -(-iterations * team * self.body(inside, team) // grid.at_once)
        return grid.launch + max(grid.latency * self.body(inside, team), waves)

    def body(self, body: Iterable[Statement], team: int) -> int:
        return sum(self.statement(each, team) for each in body)

    def statement(self, one: Statement, team: int) -> int:
        """What each thread of a team does of a statement."""
        key = one, team
        if key not in self._known:
            self._known[key] = self._statement(one, team)
        return self._known[key]

    def _statement(self, one: Statement, team: int) -> int:
        match one:
            case For():
                shared = self._shared(one, team)
                alike = self._alike(one, team)
                return alike if shared is None else min(shared, alike)
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

    def is_dealt(self, loop: For, team: int) -> bool:
        """Whether a team shares the iterations of a loop, and not what is inside of them."""
        shared = self._shared(loop, team)
        return shared is not None and shared <= self._alike(loop, team)

    def _shared(self, loop: For, team: int) -> int | None:
        """What a thread does if a loop's iterations are dealt; None if they must not be."""
        if team == 1 or not is_independent(loop):
            return None
        loops = perfect(loop)
        inside = loops[-1].body
        # lanes of a vector never meet; iterations of other loops may each have used a row anew
        anew = [each for each in loops if each.lanes == 1]
        if not all(self._is_own(each, anew) for each in walk(inside)):
            return None
        turns = -(-prod(map(extent, loops)) // team)
        return turns * (1 + self.body(inside, 1)) + self.grid.barrier

    def _alike(self, loop: For, team: int) -> int:
        """What a thread does if all do a loop together."""
        waiting = self.grid.barrier if team > 1 else 0
        return extent(loop) * (1 + waiting + self.body(loop.body, team))

    def _is_own(self, statement: Statement, loops: Sequence[For]) -> bool:
        """Whether iterations write to different elements of the rows that a team shares."""
        if not isinstance(statement, Store) or statement.target not in self.scratch:
            return True
        return all(loop.index in statement.indices for loop in loops)

    def _operations(self, roots: Sequence[Scalar]) -> int:
        """The operations of expressions, with those on memory."""
        loads = sum(node.op == "load" for node in postorder(roots))
        return 1 + operations(roots) + self.grid.memory * loads

    def _combining(self, team: int) -> int:
        return 2 * team.bit_length() + (2 * self.grid.barrier if team > self.grid.warp else 0)

    def longest(self, body: Sequence[Statement]) -> int:
        """Among how many threads the statements could be shared at most."""
        return max(map(self._among, body), default=1)

    def _among(self, one: Statement) -> int:
        if one not in self._longest:
            self._longest[one] = max(map(threads, walk((one,))))
        return self._longest[one]


def extent(loop: For) -> int:
    """How many iterations a loop has, or has at most; 1 if nothing says."""
    found = loop.index.attribute[2]
    return 1 if found is None else int(found)


def terms(statement: Reduce) -> int:
    """How many terms a sum has, or has at most."""
    return prod(counter.attribute[2] or 1 for counter, *_ in statement.loops)


def threads(statement: Statement) -> int:
    """Among how many threads a statement could be shared."""
    match statement:
        case For() if is_independent(statement):
            return prod(map(extent, perfect(statement)))
        case Reduce():
            return terms(statement)
    return 1


def is_independent(statement: Statement) -> bool:
    """Whether a statement is a loop whose iterations may be different threads'."""
    return isinstance(statement, For) and (statement.parallel or statement.lanes > 1)


def perfect(loop: For) -> list[For]:
    """A loop and those of independent iterations that are all that is in the one before."""
    found = [loop]
    while len(found[-1].body) == 1 and is_independent(found[-1].body[0]):
        (inner,) = found[-1].body
        assert isinstance(inner, For)
        found.append(inner)
    return found
