"""Loops and sums that are dealt to the threads of a team."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from functrans.loop.nodes import ZERO, as_index
from functrans.loop.scalar import Scalar
from functrans.loop.statements import For, If, Reduce, Statement, While


def deal(counter: Scalar, body: Sequence[Statement], team: int) -> For:
    """A loop whose iterations, as many as the index has, are dealt to the threads of a team."""
    return For(counter, ZERO, as_index(counter.attribute[2]), tuple(body), lanes=team)


def least_power_of_two(number: int) -> int:
    """The least power of two that is not less than a number."""
    return 1 << max(number - 1, 0).bit_length()


def is_dealt(statement: Statement, team: int) -> bool:
    """Whether the iterations of a statement go to the threads of a team."""
    return isinstance(statement, (For, Reduce)) and team > 1 and statement.lanes == team


def dealt(body: Sequence[Statement], team: int) -> Iterator[For | Reduce]:
    """The loops and sums of a team's statements that are dealt to its threads."""
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


def bounds(statement: For | Reduce) -> tuple[Scalar, Scalar, Scalar]:
    """The index that is dealt, and where it starts and stops."""
    if isinstance(statement, For):
        return statement.index, statement.start, statement.stop
    return statement.loops[-1]


def is_plain(statement: For | Reduce) -> bool:
    """Whether what is dealt is one loop, from 0 to what is known at the call."""
    if isinstance(statement, Reduce) and len(statement.loops) > 1:
        return False
    _, start, stop = bounds(statement)
    return start is ZERO and stop.op in ("const", "size")
