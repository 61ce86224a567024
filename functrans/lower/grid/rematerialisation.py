"""Rematerialisation: a row that does not fit into a team's memory is computed where it is read.

After Briggs, Cooper and Torczon, "Rematerialization" (1992). Expects nests. Leaves them without
long rows that only they use, in scratch or in an array with one row for each iteration: each load
is replaced by the expression that was stored, which gives the same bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from math import prod

from functrans.loop.grid import Grid
from functrans.loop.operations import operations
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, Let, Reduce, Statement, Store, While
from functrans.loop.substitution import with_expressions
from functrans.loop.walk import Body, assigned, bodies, expressions, loaded, stored, walk
from functrans.lower.grid.dealing import extent, is_independent, perfect, room_of
from functrans.lower.nest.bodies import Nest


def rematerialised(nests: Sequence[Nest], lasting: Container[Buffer], grid: Grid) -> list[Nest]:
    """The nests without long rows that are cheap to compute.

    ``lasting`` are the buffers that are used outside the nests.
    """
    users = Counter(one for nest in nests for one in nest.loads | nest.stores)
    made = []
    for nest in nests:
        targets = [each.target for each in walk(nest.body) if isinstance(each, Store)]
        # (a row that is computed again reads earlier rows where it was read)
        for one in () if nest.team else reversed(dict.fromkeys(targets)):
            if users[one] == 1 and one not in lasting and not _is_held(nest, one, grid):
                body = _without(nest.body, one, grid)
                kept = tuple(row for row in nest.scratch if row is not one)
                nest = replace(nest, body=body, scratch=kept) if body is not None else nest
        made.append(nest)
    return made


def _is_held(nest: Nest, row: Buffer, grid: Grid) -> bool:
    """Whether a team can hold a row together with the other ones."""
    used = sum(each.nbytes for each in nest.scratch)
    return row in nest.scratch and used <= room_of(row, nest.body, grid)


def _without(body: Body, row: Buffer, grid: Grid) -> Body | None:
    """The statements without a row, in whatever loops of a band they are; None if it is needed."""
    if len(body) == 1 and isinstance(body[0], For) and is_independent(body[0]):
        inside = _without(body[0].body, row, grid)
        return None if inside is None else (replace(body[0], body=inside),)
    writers = [number for number, each in enumerate(body) if row in stored((each,))]
    element = _Element.of(body[writers[0]], row) if len(writers) == 1 else None
    if element is None or element.nbytes <= grid.rows:
        return None
    (number,) = writers
    after = body[number + 1 :]
    again = sum(_reads(after, row, 1)) - element.count
    if operations([element.value]) * again > grid.recomputed * element.nbytes:
        return None
    if row in loaded(body[: number + 1]) or element.may_change(body[number:]):
        return None
    if not element.is_of_all_loads(after):
        return None
    return (*body[:number], *_without_stores(body[number], row), *element.in_place(after))


class _Element:
    """The elements of a row: a value for indices that cover all of it."""

    def __init__(
        self,
        row: Buffer,
        position: tuple[Scalar, ...],
        # the indices of loops and their extents; other parts of the position are constant in an
        # iteration
        loops: dict[Scalar, int],
        value: Scalar,
    ) -> None:
        self.row = row
        self.position = position
        self.value = value
        self.count = prod(loops.values())
        self.nbytes = self.count * row.dtype.itemsize
        self.simplify = Simplifier()
        self._counting = [index in loops for index in position]

    @classmethod
    def of(cls, writer: Statement, row: Buffer) -> _Element | None:
        """The element that loops store, if they do nothing but store elements."""
        if not isinstance(writer, For) or not is_independent(writer):
            return None
        loops = {loop.index: extent(loop) for loop in perfect(writer)}
        simplify = Simplifier()
        known: dict[Scalar, Scalar] = {}
        stores: list[Store] = []
        for each in perfect(writer)[-1].body:
            if isinstance(each, Let):
                values = simplify.substitute(each.values, known)
                known |= dict(zip(each.targets, values, strict=True))
            elif isinstance(each, Store):
                stores += [each] if each.target is row else []
            else:
                return None
        if len(stores) != 1 or stores[0].op is not None:
            return None
        position = stores[0].indices
        counted = [index for index in position if index in loops]
        whole = all(loops.get(i, n) == n for i, n in zip(position, row.extents, strict=True))
        if not whole or len(counted) != len(loops) or len({*counted}) != len(loops):
            return None
        (value,) = simplify.substitute([stores[0].value], known)
        return cls(row, position, loops, value)

    def may_change(self, body: Body) -> bool:
        """Whether statements change the operands of the value."""
        written = stored(body)
        changed = assigned(body)
        return any(
            node in changed or (node.op == "load" and node.attribute in written)
            for node in postorder([self.value])
        )

    def is_of_all_loads(self, body: Body) -> bool:
        """Whether statements only read elements of the same iteration."""
        return all(
            counts or mine is own
            for node in _loads(body, self.row)
            for counts, own, mine in zip(self._counting, self.position, node.args, strict=True)
        )

    def in_place(self, statements: Sequence[Statement]) -> Body:
        """Statements with the value in place of the loads."""
        return with_expressions(statements, self._expressions)

    def _expressions(self, given: Sequence[Scalar]) -> list[Scalar]:
        replaced: dict[Scalar, Scalar] = {}
        for node in postorder(given):
            if node.op == "load" and node.attribute is self.row:
                position = self.simplify.substitute(node.args, replaced)
                where = dict(zip(self.position, position, strict=True))
                (replaced[node],) = self.simplify.substitute([self.value], where)
        return self.simplify.substitute(given, replaced)


def _without_stores(writer: Statement, row: Buffer) -> Body:
    """Loops without their stores to a row; nothing if they have no others."""
    if isinstance(writer, For):
        inside = tuple(x for each in writer.body for x in _without_stores(each, row))
        return (replace(writer, body=inside),) if stored(inside) else ()
    return () if isinstance(writer, Store) and writer.target is row else (writer,)


def _loads(body: Sequence[Statement], row: Buffer) -> Iterator[Scalar]:
    for each in walk(body):
        for node in postorder(expressions(each)):
            if node.op == "load" and node.attribute is row:
                yield node


def _reads(body: Sequence[Statement], row: Buffer, times: int) -> Iterator[int]:
    """The number of times that statements read elements of a row, with the loops around."""
    for each in body:
        inside = times
        match each:
            case For():
                inside *= extent(each)
            case Reduce():
                inside *= prod(counter.attribute[2] or 1 for counter, *_ in each.loops)
            case While():
                inside *= row.count  # an unknown number of iterations
        own = (node for node in postorder(expressions(each)) if node.op == "load")
        yield from (inside for node in own if node.attribute is row)
        for statements in bodies(each):
            yield from _reads(statements, row, inside)
