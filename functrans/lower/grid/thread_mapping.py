"""Thread mapping: the iterations of independent loops become threads, or teams of threads.

Expects nests, whose independent loops are marked: they are parallel, or have lanes. Leaves nests
that are a kernel each (`functrans.lower.grid.distribution`). Its band is the grid. An iteration
with little work is executed by one thread, otherwise by a team, a warp or a block, to whose threads
the loops and reductions inside are dealt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.reductions import Reductions
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Call, For, Reduce, Statement, While, in_loops
from functrans.loop.substitution import substituted
from functrans.loop.walk import Body, accesses, children, walk, with_bodies
from functrans.lower.grid.coalescing import joined_sums
from functrans.lower.grid.contiguity import neighbours
from functrans.lower.grid.cost import Spans
from functrans.lower.grid.dealing import (
    extent,
    grid_axes,
    is_from_zero,
    is_independent,
    perfect,
    terms,
    threads,
)
from functrans.lower.grid.slicing import Slicer
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.linearisation import linearised


def mapped(nest: Nest, grid: Grid, lengths: Reductions) -> Nest:
    """One kernel, with the loops inside its band dealt to a team.

    ``lengths`` gives the number of terms that are added sequentially.
    """
    if nest.team or isinstance(nest.body[0], Call):
        return nest
    loops = grid_axes(nest.body)
    inside = loops[-1].body if loops else nest.body
    spans = Spans(grid, set(nest.scratch))
    team = team_of(loops, inside, nest.scratch, spans)
    if team == 1:
        return replace(nest, body=_in_band(loops, of_one_thread(inside)), team=1)
    # kernels that the host repeats keep the axes of their arrays
    joined = {} if nest.turns else joined_sums(inside, nest.scratch).loops
    deal = _Deal(spans, Slicer(team, lengths, _room(inside, nest.scratch, team, grid)), joined)
    body = _in_band(loops, deal.statements(inside))
    return replace(nest, body=body, scratch=(*nest.scratch, *deal.slicer.rows.values()), team=team)


def _room(inside: Body, scratch: Sequence[Buffer], team: int, grid: Grid) -> int:
    """Bytes of shared memory for slices; a whole team's reduction needs an element per warp."""
    numbers = [x.dtype for each in walk(inside) if isinstance(each, Reduce) for x in each.targets]
    parts = team // grid.warp * sum(dtype.itemsize for dtype in numbers)
    return min(grid.slices, grid.shared - parts - sum(row.nbytes for row in scratch))


def _in_band(loops: Sequence[For], inside: Body) -> Body:
    return in_loops([replace(_together(loop), parallel=True) for loop in loops], inside)


def team_of(loops: Sequence[For], inside: Body, scratch: Sequence[Buffer], spans: Spans) -> int:
    """The number of threads that execute an iteration of a band, given its private rows.

    If a team shares each of many steps, it is so large that a smaller one would have more work per
    thread: the longest loop may be the one that loads a matrix into shared memory.
    """
    grid = spans.grid
    # a sum without lanes is over rows, whose elements adjacent threads read
    shared = [
        each
        for each in walk(inside)
        if not loops or not (isinstance(each, Reduce) and each.lanes == 1)
    ]
    longest = max(map(threads, shared), default=1)
    if longest < grid.shortest and sum(row.nbytes for row in scratch) <= grid.largest_local:
        return 1
    in_steps = any(map(_has_shared_steps, inside))
    if in_steps:
        longest = max(longest, *map(spans.threads, shared))
    each = grid.iterations if loops else 1
    iterations = prod(map(extent, loops))
    most = min([grid.largest_team, *_side_by_side(inside, scratch, grid)])
    team = grid.warp
    while team < most and (
        2 * team * each <= longest or (2 * team <= longest and team * iterations < grid.busy)
    ):
        if in_steps and not _gains(iterations, team, inside, spans):
            break
        team *= 2
    return team


def _side_by_side(inside: Body, scratch: Sequence[Buffer], grid: Grid) -> Iterator[int]:
    """For reductions of several long rows, the number of threads that read 16 bytes each of one.

    More threads would read less at once; and for shorter rows, several teams run at once.
    """
    for each, count in joined_sums(inside, scratch).loops.items():
        if count == len(each.loops):
            continue
        counters = [counter for counter, *_ in each.loops[-count:]]
        found = set(accesses(each.body, each.values))
        read = [one for one in found if counters[-1] in postorder(one.position)]
        width = min((neighbours(one, counters[-1], ()) for one in read), default=0)
        strips = prod(counter.attribute[2] or 1 for counter in counters) // max(width, 1)
        if width > 1 and 2 * strips >= grid.block:
            yield 1 << strips.bit_length() - 1


def _gains(iterations: int, team: int, inside: Body, spans: Spans) -> bool:
    """Whether twice as many threads have less work each, without more work in total."""
    less = spans.grid.gain * spans.body(inside, 2 * team) <= spans.body(inside, team)
    sooner = spans.time(iterations, 2 * team, inside) <= spans.time(iterations, team, inside)
    return less and sooner


def _has_shared_steps(statement: Statement) -> bool:
    """Whether a loop is sequential, and each iteration is executed by all threads."""
    return (
        isinstance(statement, (For, While))
        and not is_independent(statement)
        and any(map(is_independent, walk(children(statement))))
    )


def of_one_thread(body: Sequence[Statement]) -> Body:
    """Statements that one thread executes sequentially, with nothing to share."""
    return tuple(map(_serial, body))


def _serial(statement: Statement) -> Statement:
    statement = with_bodies(statement, of_one_thread)
    if isinstance(statement, Reduce):
        return replace(statement, lanes=1, whole=False)
    return _together(statement) if isinstance(statement, For) else statement


def _together(loop: For) -> For:
    """A loop whose iterations are not divided, and all executed by the same threads."""
    return replace(loop, lanes=1, parallel=False, repeatable=False, whole=False)


class _Deal:
    """Deals loops to the threads of a team."""

    def __init__(
        self,
        spans: Spans,
        slicer: Slicer,  # the slicer of the team
        joined: Mapping[Reduce, int],  # the number of last loops of reductions that will be joined
    ) -> None:
        self.joined = joined
        self.team = slicer.team
        self.slicer = slicer
        self.grid = spans.grid
        self.spans = spans
        self.simplify = Simplifier()

    def statements(self, body: Sequence[Statement]) -> Body:
        return tuple(made for each in body for made in self._shared(each))

    def _shared(self, statement: Statement) -> Body:
        """The share of a team's thread in a statement: two loops, if its sums are sliced."""
        if isinstance(statement, For):
            count, sums = self.spans.way(statement, self.team).slices, self.spans.sums(statement)
            if count > 1 and sums is not None and self.slicer.has_room(sums, count):
                loops = self.slicer.loops(sums, count)
                return tuple(replace(each, body=of_one_thread(each.body)) for each in loops)
        return (self._statement(statement),)

    def _statement(self, statement: Statement) -> Statement:
        match statement:
            case For() if self.spans.way(statement, self.team).slices:
                return self._dealt(statement)
            case Reduce():
                return self._reduce(statement)
        inside = with_bodies(statement, self.statements)
        return _together(inside) if isinstance(inside, For) else inside

    def _dealt(self, loop: For) -> For:
        """A loop whose iterations are dealt; its perfect nest is coalesced if possible."""
        loops = perfect(loop)
        inside = of_one_thread(loops[-1].body)
        if len(loops) > 1 and not all(is_from_zero(each.start, each.stop) for each in loops):
            loops, inside = loops[:1], of_one_thread(loop.body)
        (dealt, start, stop), inside = self._flattened(
            [(each.index, each.start, each.stop) for each in loops], inside
        )
        return For(dealt, start, stop, inside, lanes=self.team)

    def _flattened(
        self, loops: Sequence[tuple[Scalar, Scalar, Scalar]], inside: Body
    ) -> tuple[tuple[Scalar, Scalar, Scalar], Body]:
        """Loop coalescing: one loop for a perfect nest of those with constant bounds."""
        if len(loops) == 1:
            return loops[0], inside
        one, values = linearised([counter for counter, *_ in loops], self.simplify)
        flat = one, ZERO, const(one.attribute[2], INDEX)
        return flat, substituted(inside, values, self.simplify)

    def _reduce(self, statement: Reduce) -> Reduce:
        """A reduction whose terms are dealt; all threads execute a short one entirely."""
        body = of_one_thread(statement.body)
        alone = replace(statement, body=body, lanes=1, whole=False)
        if terms(statement) < self.grid.shortest:
            return alone
        last = statement.loops[-self.joined.get(statement, 1) :]
        innermost = prod(counter.attribute[2] or 1 for counter, *_ in last)
        constant = all(is_from_zero(start, stop) for _, start, stop in statement.loops)
        if len(statement.loops) == 1 or innermost >= self.team or not constant:
            return replace(alone, lanes=self.team)
        one, values = linearised([counter for counter, *_ in statement.loops], self.simplify)
        return replace(
            alone,
            loops=((one, ZERO, const(one.attribute[2], INDEX)),),
            body=substituted(body, values, self.simplify),
            values=tuple(self.simplify.substitute(statement.values, values)),
            lanes=self.team,
        )
