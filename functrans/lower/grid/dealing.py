"""Loops and reductions that are dealt to the threads of a team."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from math import prod

from functrans.loop.grid import Grid
from functrans.loop.nodes import ZERO, as_index
from functrans.loop.operations import operations, operations_of
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import Buffer, For, If, Reduce, Statement, Store, While, band
from functrans.loop.walk import accesses, loops_of, walk


def extent(loop: For) -> int:
    """The trip count of a loop, or an upper bound; 1 if it is unknown."""
    found = loop.index.attribute[2]
    return 1 if found is None else int(found)


def terms(statement: Reduce) -> int:
    """The number of terms of a reduction, or an upper bound."""
    return prod(_steps(*loop) for loop in statement.loops)


def _steps(counter: Scalar, start: Scalar, stop: Scalar) -> int:
    """The trip count of a loop; for a block, its length, whatever its index is."""
    end = stop.args[0] if stop.op == "min" else stop
    if end.op == "add" and end.args[0] is start and end.args[1].op == "const":
        return int(end.args[1].attribute)
    return counter.attribute[2] or 1


def threads(statement: Statement) -> int:
    """The most threads that could share a statement."""
    match statement:
        case For() if is_independent(statement):
            return prod(map(extent, perfect(statement)))
        case Reduce():
            return terms(statement)
    return 1


def is_independent(statement: Statement) -> bool:
    """Whether a statement is a loop whose iterations may be executed by different threads."""
    return isinstance(statement, For) and (statement.parallel or statement.lanes > 1)


def is_from_zero(start: Scalar, stop: Scalar) -> bool:
    """Whether a loop is from 0 to a number, whatever the indices around it are."""
    return start is ZERO and stop.op == "const"


def perfect(loop: For) -> list[For]:
    """A perfect nest: a loop, and independent loops each of which is a whole body."""
    found = [loop]
    while len(found[-1].body) == 1 and is_independent(found[-1].body[0]):
        (inner,) = found[-1].body
        assert isinstance(inner, For)
        found.append(inner)
    return found


def grid_axes(body: Sequence[Statement]) -> tuple[For, ...]:
    """The loops of a band that are axes of a grid, unlike those over blocks of other loops."""
    return tuple(takewhile(lambda loop: is_from_zero(loop.start, loop.stop), band(body)))


def deal(counter: Scalar, body: Sequence[Statement], team: int) -> For:
    """A loop over the range of an index, whose iterations are dealt to a team's threads."""
    return For(counter, ZERO, as_index(counter.attribute[2]), tuple(body), lanes=team)


def filled(row: Buffer, thread: Scalar, number: float) -> list[Statement]:
    """Stores of a constant in all of a thread's elements of a row."""
    _, count = row.extents
    value = const(number, row.dtype)
    return [Store(row, (thread, as_index(each)), value) for each in range(count)]


def least_power_of_two(number: int) -> int:
    """The least power of two that is at least a number."""
    return 1 << max(number - 1, 0).bit_length()


def is_dealt(statement: Statement, team: int) -> bool:
    """Whether the iterations of a statement are dealt to the threads of a team."""
    return isinstance(statement, (For, Reduce)) and team > 1 and statement.lanes == team


def dealt(body: Sequence[Statement], team: int) -> Iterator[For | Reduce]:
    """The loops and reductions of a team's statements that are dealt to its threads."""
    for statement in body:
        match statement:
            case For() | Reduce() if is_dealt(statement, team):
                yield statement
            case For():
                yield from dealt(statement.body, team)
            case If():
                yield from dealt((*statement.body, *statement.otherwise), team)
            case While():
                yield from dealt((*statement.prepare, *statement.body), team)


def room_of(row: Buffer, body: Sequence[Statement], grid: Grid) -> int:
    """The bytes of rows that a team may hold if a row is among them.

    There is more room if the row can be dealt to threads: loops run through all of it, and each
    iteration accesses its own element.
    """
    whole = set(_whole(row, body))
    positions = [each.position for each in accesses(body) if each.buffer is row]
    is_dealt = all(len(each) == 1 and each[0] in whole for each in positions)
    return max(grid.rows, grid.room_of_long_rows) if is_dealt else grid.rows


def _whole(row: Buffer, body: Sequence[Statement]) -> Iterator[Scalar]:
    """The indices of independent loops and of reductions that are as long as a row."""
    for each in walk(body):
        if is_independent(each) or (isinstance(each, Reduce) and len(each.loops) == 1):
            assert isinstance(each, (For, Reduce))
            counter, start, stop = bounds(each)
            if is_from_zero(start, stop) and row.extents == (stop.attribute,):
                yield counter


def bounds(statement: For | Reduce) -> tuple[Scalar, Scalar, Scalar]:
    """The index that is dealt, with its start and stop."""
    return loops_of(statement)[-1]


def values_of(statement: For | Reduce) -> tuple[Scalar, ...]:
    """The values that a reduction combines; none for a loop."""
    return statement.values if isinstance(statement, Reduce) else ()


def work_of(statement: For | Reduce, sizes: Sequence[int]) -> int:
    """The operations of one iteration."""
    return operations_of(statement.body, sizes) + operations(values_of(statement))


def is_plain(statement: For | Reduce) -> bool:
    """Whether a dealt statement is a single loop, from 0 to a bound known at the call."""
    if isinstance(statement, Reduce) and len(statement.loops) > 1:
        return False
    _, start, stop = bounds(statement)
    return start is ZERO and stop.op in ("const", "size")
