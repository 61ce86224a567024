"""Thread mapping: the iterations of independent loops become threads, or teams of threads.

Expects nests, whose independent loops say so: they are parallel, or have lanes. Leaves nests that
are a kernel each. Its band is the grid. Where there is little inside of it, an iteration is one
thread's. Else it is a team's, a warp or a block, to whose threads the loops and sums inside are
dealt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.operations import operations_of
from functrans.loop.scalar import Scalar, const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Call, For, If, Reduce, Statement, Store, While, band
from functrans.loop.substitution import substituted
from functrans.loop.walk import loaded, stored, walk
from functrans.lower.grid.library_steps import with_calls_apart
from functrans.lower.nest.bodies import Nest, groups

Body = tuple[Statement, ...]


def map_threads(nest: Nest, grid: Grid) -> Iterator[Nest]:
    """The kernels of a nest: each long loop is one, and so is what is between."""
    if nest.team:
        yield nest
        return
    for each in with_calls_apart(nest):
        if isinstance(each.body[0], Call):
            yield each
            continue
        for body in groups(each.body, set(each.scratch), _is_parallel):
            used = loaded(body) | stored(body)
            scratch = tuple(row for row in each.scratch if row in used)
            part = replace(each, body=body, scratch=scratch, work=operations_of(body))
            yield _mapped(part, grid)


def _is_parallel(body: Sequence[Statement]) -> bool:
    return len(body) == 1 and isinstance(body[0], For) and body[0].parallel


def _mapped(nest: Nest, grid: Grid) -> Nest:
    """One kernel, with the loops inside of its band dealt to a team."""
    loops = band(nest.body)
    inside = loops[-1].body if loops else nest.body
    team = _team(loops, inside, sum(row.nbytes for row in nest.scratch), grid)
    if team == 1:
        return replace(nest, body=_in_band(loops, of_one_thread(inside)), team=1)
    dealt = _Deal(team, grid, set(nest.scratch)).statements(inside)
    return replace(nest, body=_in_band(loops, dealt), team=team)


def _in_band(loops: Sequence[For], inside: Body) -> Body:
    for loop in reversed(loops):
        inside = (replace(loop, body=inside, lanes=1, repeatable=False, whole=False),)
    return inside


def _team(loops: Sequence[For], inside: Body, private: int, grid: Grid) -> int:
    """How many threads do an iteration of a band, which keeps so many bytes to itself."""
    # a sum without lanes goes down columns, which neighbouring threads read side by side
    shared = [each for each in walk(inside) if not loops or not _is_of_columns(each)]
    longest = max(map(_extent, shared), default=1)
    if longest < grid.shortest and private <= grid.largest_local:
        return 1
    each = grid.iterations if loops else 1
    iterations = prod(map(extent, loops))
    team = grid.warp
    while team < grid.largest_team and (
        2 * team * each <= longest or (2 * team <= longest and team * iterations < grid.teams)
    ):
        team *= 2
    return team


def extent(loop: For) -> int:
    """How many iterations a loop has, or has at most."""
    return int(loop.index.attribute[2])


def is_independent(statement: Statement) -> bool:
    """Whether a statement is a loop whose iterations may be different threads'."""
    return isinstance(statement, For) and (statement.parallel or statement.lanes > 1)


def _extent(statement: Statement) -> int:
    """Among how many threads a statement could be shared."""
    match statement:
        case For() if is_independent(statement):
            return prod(map(extent, _perfect(statement)))
        case Reduce():
            return prod(counter.attribute[2] or 1 for counter, *_ in statement.loops)
    return 1


def _is_of_columns(statement: Statement) -> bool:
    return isinstance(statement, Reduce) and statement.lanes == 1


def _perfect(loop: For) -> list[For]:
    """A loop and those of independent iterations that are all that is in the one before."""
    found = [loop]
    while len(found[-1].body) == 1 and is_independent(found[-1].body[0]):
        (inner,) = found[-1].body
        assert isinstance(inner, For)
        found.append(inner)
    return found


def of_one_thread(body: Sequence[Statement]) -> Body:
    """Statements one after the other, with nothing left to share."""
    return tuple(map(_serial, body))


def _serial(statement: Statement) -> Statement:
    match statement:
        case For():
            body = of_one_thread(statement.body)
            return replace(
                statement, body=body, lanes=1, parallel=False, repeatable=False, whole=False
            )
        case Reduce():
            return replace(statement, body=of_one_thread(statement.body), lanes=1, whole=False)
        case If():
            body, otherwise = map(of_one_thread, (statement.body, statement.otherwise))
            return replace(statement, body=body, otherwise=otherwise)
        case While():
            prepare, body = map(of_one_thread, (statement.prepare, statement.body))
            return replace(statement, prepare=prepare, body=body)
    return statement


class _Deal:
    """Deals loops to the threads of a team.

    Parameters
    ----------
    team : int
    grid : Grid
    scratch : set of Buffer
        What the team has to itself.
    """

    def __init__(self, team: int, grid: Grid, scratch: set[Buffer]) -> None:
        self.team = team
        self.grid = grid
        self.scratch = scratch
        self.simplify = Simplifier()

    def statements(self, body: Sequence[Statement]) -> Body:
        return tuple(map(self.statement, body))

    def statement(self, statement: Statement) -> Statement:
        match statement:
            case For() if is_independent(statement) and self._is_worth_dealing(statement):
                return self._loop(statement)
            case For():
                body = self.statements(statement.body)
                return replace(
                    statement, body=body, lanes=1, parallel=False, repeatable=False, whole=False
                )
            case Reduce():
                return self._reduce(statement)
            case If():
                body, otherwise = map(self.statements, (statement.body, statement.otherwise))
                return replace(statement, body=body, otherwise=otherwise)
            case While():
                prepare, body = map(self.statements, (statement.prepare, statement.body))
                return replace(statement, prepare=prepare, body=body)
        return statement

    def _is_worth_dealing(self, loop: For) -> bool:
        """Whether the team shares this loop, and not those inside of it."""
        loops = _perfect(loop)
        # lanes of a vector never meet; iterations of other loops may each have used a row anew
        anew = [each for each in loops if each.lanes == 1]
        if not all(self._is_own(each, anew) for each in walk(loops[-1].body)):
            return False
        within = max(map(_extent, walk(loops[-1].body)), default=1)
        own = prod(map(extent, loops))
        return own >= min(within, self.team)

    def _is_own(self, statement: Statement, loops: Sequence[For]) -> bool:
        """Whether iterations write to different elements of the rows that a team shares."""
        if not isinstance(statement, Store) or statement.target not in self.scratch:
            return True
        return all(loop.index in statement.indices for loop in loops)

    def _loop(self, loop: For) -> For:
        """A loop whose iterations are dealt, with all of its perfect nest as one loop if it can."""
        loops = _perfect(loop)
        inside = of_one_thread(loops[-1].body)
        if len(loops) > 1 and not all(map(_is_from_zero, loops)):
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
        one, values = coalesced([counter for counter, *_ in loops])
        flat = one, ZERO, const(one.attribute[2], INDEX)
        return flat, substituted(inside, values, self.simplify)

    def _reduce(self, statement: Reduce) -> Reduce:
        """A sum whose terms are dealt; a short one is done by all threads alike."""
        body = of_one_thread(statement.body)
        alone = replace(statement, body=body, lanes=1, whole=False)
        if _extent(statement) < self.grid.shortest:
            return alone
        innermost = statement.loops[-1][0].attribute[2] or 1
        constant = all(start is ZERO and stop.op == "const" for _, start, stop in statement.loops)
        if len(statement.loops) == 1 or innermost >= self.team or not constant:
            return replace(alone, lanes=self.team)
        one, values = coalesced([counter for counter, *_ in statement.loops])
        return replace(
            alone,
            loops=((one, ZERO, const(one.attribute[2], INDEX)),),
            body=substituted(body, values, self.simplify),
            values=tuple(self.simplify.substitute(statement.values, values)),
            lanes=self.team,
        )


def _is_from_zero(loop: For) -> bool:
    return loop.start is ZERO and loop.stop.op == "const"


def coalesced(counters: Sequence[Scalar]) -> tuple[Scalar, dict[Scalar, Scalar]]:
    """Loop coalescing: one index for several, and what these are then."""
    extents = [counter.attribute[2] for counter in counters]
    one = index(counters[-1].attribute[0], prod(extents))
    values: dict[Scalar, Scalar] = {}
    rest = one
    for counter, count in zip(reversed(counters[1:]), reversed(extents[1:]), strict=True):
        values[counter] = Scalar("irem", (rest, const(count, INDEX)), INDEX)
        rest = Scalar("idiv", (rest, const(count, INDEX)), INDEX)
    values[counters[0]] = rest
    return one, values
