"""Loop collapsing: nested loops that go through memory like a single loop become one.

If an iteration of the outer loop moves every access as far as all iterations of the inner one do,
both are one loop over the product of their extents: its vectors go on from row to row, only the
last of all is incomplete, and kernels for arrays of different shapes are often equal. Expects the
statements of a nest. Leaves accesses at quotients and remainders of the loop's index, which are
linearised (`array_linearisation.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from functrans.loop.affine import Coefficients
from functrans.loop.linear_places import linear_place
from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.scalar import Scalar, const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Address,
    Buffer,
    Call,
    For,
    Let,
    Reduce,
    Statement,
    Store,
    in_loops,
)
from functrans.loop.substitution import Position, Rewriting
from functrans.loop.target import Target
from functrans.loop.walk import Access, accesses, expressions, walk, with_bodies
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.linearisation import linearised
from functrans.lower.nest.vectors import widths


def collapsed(
    nest: Nest,
    homes: Mapping[Buffer, Buffer],  # the buffers that are stored in others
    columns: Collection[Buffer],  # those that are parts of records
    target: Target,
) -> Nest:
    """The nest with collapsed loops; those that the program executes keep the shapes of arrays."""
    is_plain = not any(isinstance(each, Reduce) for each in walk(nest.body))
    if nest.turns or "loop_collapsing" not in target.stages or not is_plain:
        return nest
    made = _Collapsing(homes, {*nest.scratch, *columns, *_addressed(nest.body)}, target)
    return replace(nest, body=tuple(map(made.statement, nest.body)))


def _addressed(body: Sequence[Statement]) -> Iterator[Buffer]:
    """The buffers that routines access, whose shapes stay."""
    for each in walk(body):
        if isinstance(each, Call):
            yield from (*each.reads, *each.writes)
            yield from (x.target for x in each.arguments if isinstance(x, Address))


class _Collapsing:
    def __init__(
        self, homes: Mapping[Buffer, Buffer], apart: Collection[Buffer], target: Target
    ) -> None:
        self.homes = homes
        self.apart = {homes.get(one, one) for one in apart}
        self.target = target
        self.simplify = Simplifier()

    def statement(self, statement: Statement) -> Statement:
        nest = [statement] if isinstance(statement, For) else []
        while nest and len(nest[-1].body) == 1 and isinstance(inner := nest[-1].body[0], For):
            nest.append(inner)
        count = self._count(nest) if len(nest) > 1 else 0
        if count < 2:
            return with_bodies(statement, lambda body: tuple(map(self.statement, body)))
        (made,) = in_loops(nest[:-count], (self._joined(nest[-count:]),))
        return made

    def _count(self, nest: Sequence[For]) -> int:
        """The number of loops, from the innermost one outwards, that can be one."""
        vector = nest[-1]
        if vector.lanes == 1 or not all(map(_is_plain, vector.body)):
            return 0
        found = list(accesses(vector.body))
        used = _used(vector.body)
        wanted = _strides(found, vector.index)
        if not {0, 1}.issuperset(wanted) or not self._are_independent(found, wanted):
            return 0
        length = 1
        for count, loop in enumerate(reversed(nest)):
            strides = [length * (step or 0) for step in wanted]
            if not _is_whole(loop) or loop.index in used or _strides(found, loop.index) != strides:
                return count
            if loop.lanes > 1 and loop is not vector:
                return count
            length *= int(loop.stop.attribute)
        return len(nest)

    def _are_independent(self, found: Sequence[Access], strides: Sequence[int | None]) -> bool:
        """Whether an iteration accesses nothing that another one stores; no shape has to stay."""
        home = [self.homes.get(one, one) for one, *_ in found]
        written = {one for one, access in zip(home, found, strict=True) if access.is_store}
        places: dict[Buffer, set[Scalar]] = {one: set() for one in written}
        for one, access, stride in zip(home, found, strides, strict=True):
            if stride and one in self.apart:
                return False
            if one in written:
                places[one].add(linear_place(access.buffer, access.position, self.simplify))
        return all(len(each) == 1 for each in places.values())

    def _joined(self, nest: Sequence[For]) -> For:
        """One loop in place of several."""
        vector = nest[-1]
        index, values = linearised([loop.index for loop in nest], self.simplify)
        extent = int(index.attribute[2])

        def element(one: Buffer, position: Position) -> tuple[Buffer, Position]:
            moved = tuple(self.simplify.substitute(position, values))
            # what is linear already, as in a vector of all rows, is not linearised later
            linear = len(moved) == 1
            return one, (linear_place(one, moved, self.simplify),) if linear else moved

        body = Rewriting(values, element, self.simplify).statements(vector.body)
        sizes = [each.target.dtype.itemsize for each in body if isinstance(each, Store)]
        numbers = [x for each in body for x in expressions(each)]
        lanes = max(vector.lanes, self.target.lanes(max(*sizes, *widths(numbers))))
        while lanes > extent:
            lanes //= 2
        return replace(
            vector,
            index=index,
            stop=const(extent, INDEX),
            body=body,
            lanes=lanes,
            parallel=nest[0].parallel,
            whole=extent % lanes == 0 and not nest[0].parallel,
        )


def _is_whole(loop: For) -> bool:
    """Whether a loop takes all values of its index; the number of steps may be data."""
    is_known = loop.stop.op == "const" and loop.stop.attribute == loop.index.attribute[2]
    return is_known and loop.start == ZERO


def _is_plain(statement: Statement) -> bool:
    return isinstance(statement, Let) or (isinstance(statement, Store) and statement.op is None)


def _strides(found: Sequence[Access], index: Scalar) -> list[int | None]:
    own = Coefficients(index)
    return [own.of_element(one, position) for one, position, _ in found]


def _used(body: Sequence[Statement]) -> set[Scalar]:
    """The nodes of expressions that are not parts of addresses."""
    found: set[Scalar] = set()
    stack = [x for each in body for x in _values(each)]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += () if node.op == "load" else node.args
    return found


def _values(statement: Statement) -> tuple[Scalar, ...]:
    return (statement.value,) if isinstance(statement, Store) else expressions(statement)
