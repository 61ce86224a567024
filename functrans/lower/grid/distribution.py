"""Loop distribution: a nest becomes several kernels that keep a grid busy, in loops of the host.

Expects nests, whose independent loops are marked. Leaves nests that are a kernel each, in order.

A loop of independent iterations may be executed statement by statement, each for all iterations:
the loops inside it then join the band of a kernel. The steps of a scan may be executed by the host,
which launches the kernels of a step repeatedly (`Nest.turns`). Each kernel of the statements of an
`If` may test the condition itself. All of this costs launches, and memory for the values that are
passed on (`functrans.lower.grid.expansion`); small adjacent kernels are better combined. The cost
model (`functrans.lower.grid.cost`) decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from math import prod

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Buffer, Call, For, If, Let, Reduce, Statement, Store, band
from functrans.loop.target import Target
from functrans.loop.walk import Body, bounds, buffers_of, scalars, stored, walk
from functrans.lower.grid.cost import Spans
from functrans.lower.grid.dealing import extent, is_from_zero, is_independent
from functrans.lower.grid.expansion import Arm, Around, Piece, expanded, nested
from functrans.lower.grid.library_steps import with_calls_apart
from functrans.lower.grid.thread_mapping import team_of
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.fission import groups
from functrans.lower.nest.fusion import Fusion
from functrans.records import NamedTuple


def distributed(nests: Sequence[Nest], target: Target) -> Iterator[Nest]:
    """The kernels of nests, whose threads are not assigned yet.

    Calls, and nests that determine their threads themselves, are kernels already.
    """
    apart = chain.from_iterable(map(with_calls_apart, nests))
    for (turns, is_done), group in groupby(
        apart, lambda nest: (nest.turns, nest.team > 0 or isinstance(nest.body[0], Call))
    ):
        run = list(group)
        yield from run if is_done else _kernels(run, turns, target)


def _kernels(nests: Sequence[Nest], around: tuple[Scalar, ...], target: Target) -> Iterator[Nest]:
    """The kernels of consecutive nests in the same loops of the host."""
    scratch = tuple(dict.fromkeys(row for nest in nests for row in nest.scratch))
    found = _Search(target, scratch).best(tuple(each for nest in nests for each in nest.body), ())
    made = expanded([Piece(each.around, each.body) for each in found], scratch, target.gpu)
    if made is None:
        parts = [part for nest in nests for part in groups(nest.body, set(scratch), _is_long)]
        made = expanded([Piece((), part) for part in parts], scratch, target.gpu)
        assert made is not None, "rows that are used by one kernel alone need no memory"
    for piece, rows in made:
        body = nested(piece)
        turns = (*around, *(each.index for each in piece.turns))
        yield Nest(body, rows, turns=turns)


def _is_long(body: Sequence[Statement]) -> bool:
    return len(body) == 1 and isinstance(body[0], For) and body[0].parallel


class _Leaf(NamedTuple):
    """A candidate for a kernel, and its time in all iterations of the host's loops."""

    around: tuple[Around, ...]
    body: Body
    time: int


class _Search:
    """Searches for the fastest division into kernels."""

    def __init__(
        self,
        target: Target,
        scratch: Sequence[Buffer],  # rows that a kernel can hold, if no other kernel uses them
    ) -> None:
        self.grid = target.gpu
        self.limits = target[Fusion]
        self.spans = Spans(target.gpu, set(scratch))
        self.scratch = scratch
        self._used: dict[Statement, tuple[set[Buffer], int, int]] = {}

    def best(self, body: Body, around: tuple[Around, ...]) -> list[_Leaf]:
        """Statements as one kernel or as several."""
        whole = self._leaf(around, body)
        fits = self._fits(body)
        if fits and whole.time <= 2 * self.grid.launch * _turns(around):
            return [whole]
        parts: list[_Leaf] = []
        for unit in _units(body):
            alone = len(unit) > 1
            for leaf in [self._leaf(around, unit)] if alone else self._statement(unit[0], around):
                joined = self._joined(parts[-1], leaf) if parts else None
                if joined is None:
                    parts.append(leaf)
                else:
                    parts[-1] = joined
        return [whole] if fits and self._is_better(whole, parts) else parts

    def _is_better(self, whole: _Leaf, parts: Sequence[_Leaf]) -> bool:
        """Whether one kernel is about as fast as several with memory between them.

        Values that are passed on inside a band remain in a thread's registers, or in its cache.
        """
        in_band = any(is_independent(each) for each in whole.around if isinstance(each, For))
        return whole.time <= (self.grid.apart if in_band else 1) * sum(leaf.time for leaf in parts)

    def _statement(self, statement: Statement, around: tuple[Around, ...]) -> list[_Leaf]:
        """One statement as a kernel, or as the kernels of the statements inside it."""
        leaf = self._leaf(around, (statement,))
        inside: list[_Leaf] = []
        match statement:
            case For() if is_from_zero(statement.start, statement.stop):
                if not any(isinstance(each, Call) for each in walk((statement,))):
                    inside = self.best(statement.body, (*around, statement))
            case If() if _is_constant(statement):
                for holds, arm in ((True, statement.body), (False, statement.otherwise)):
                    if arm:
                        inside += self.best(arm, (*around, Arm(statement.condition, holds)))
        if inside and not self._is_better(leaf, inside):
            return inside
        return [leaf]

    def _leaf(self, around: tuple[Around, ...], body: Body) -> _Leaf:
        loops = [each for each in around if isinstance(each, For) and is_independent(each)]
        inside = body
        if not any(isinstance(each, Arm) for each in around):
            inner = band(body)
            loops += inner
            inside = inner[-1].body if inner else body
        team = team_of(loops, inside, self._rows(inside), self.spans)
        iterations = prod(map(extent, loops))
        return _Leaf(around, body, self.spans.time(iterations, team, inside) * _turns(around))

    def _rows(self, body: Body) -> list[Buffer]:
        """The rows that statements use."""
        used = set().union(*(self._about(each)[0] for each in body))
        return [row for row in self.scratch if row in used]

    def _joined(self, one: _Leaf, other: _Leaf) -> _Leaf | None:
        """Two kernels combined, if that is faster."""
        if one.around != other.around or not self._fits((*one.body, *other.body)):
            return None
        joined = self._leaf(one.around, (*one.body, *other.body))
        return joined if joined.time <= one.time + other.time else None

    def _fits(self, body: Body) -> bool:
        """Whether a single kernel may contain all of the statements."""
        if any(isinstance(each, Call) for each in body):
            return len(body) == 1
        if len(body) == 1:
            return True
        used, nodes, loops = zip(*map(self._about, body), strict=True)
        return (
            sum(nodes) <= self.limits.largest_nest
            and sum(loops) <= self.grid.most_loops
            and len(set().union(*used)) <= self.limits.most_buffers
        )

    def _about(self, statement: Statement) -> tuple[set[Buffer], int, int]:
        """The buffers of a statement, the nodes of its expressions, and its loops."""
        if statement not in self._used:
            used = buffers_of((statement,))
            loops = sum(isinstance(each, (For, Reduce)) for each in walk((statement,)))
            self._used[statement] = used, len(scalars((statement,))), loops
        return self._used[statement]


def _units(body: Body) -> Iterator[Body]:
    """Groups of statements that must share a kernel, because one local determines their indices.

    If the local were loaded from memory, the verifier of the plan would not know its range.
    """
    used = [_in_indices(each) for each in body]
    last = {name: number for number, names in enumerate(used) for name in names}
    declared = {
        name: number
        for number, each in enumerate(body)
        if isinstance(each, (Let, Reduce))
        for name in each.targets
    }
    end, unit = 0, 0
    for number in range(len(body)):
        needed = [last[name] for name in last if declared.get(name) == number]
        end = max(end, number, *needed)
        if number == end:
            yield body[unit : number + 1]
            unit = number + 1


def _in_indices(statement: Statement) -> set[Scalar]:
    """The locals on which an index or the bound of a loop depends, unless the index is checked."""
    roots: list[Scalar] = []
    for each in walk((statement,)):
        roots += each.indices if isinstance(each, Store) else bounds(each)
    loads = (node for node in scalars((statement,)) if node.op == "load")
    stack = [*roots, *(index for node in loads for index in node.args)]
    seen: set[Scalar] = set()
    while stack:
        node = stack.pop()
        if node not in seen and node.op not in ("checked", "load"):
            seen.add(node)
            stack += node.args
    return {node for node in seen if node.op == "local"}


def _turns(around: Sequence[Around]) -> int:
    return prod(
        extent(each) for each in around if isinstance(each, For) and not is_independent(each)
    )


def _is_constant(statement: If) -> bool:
    """Whether a condition does not change while the statements under it are executed."""
    nodes = postorder([statement.condition])
    read = {node.attribute for node in nodes if node.op == "load"}
    return read.isdisjoint(stored((statement,)))
