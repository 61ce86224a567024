"""Durations: upper bounds on the time of statements, on the clock that orders memory accesses."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from functrans.loop.domain import Fault
from functrans.loop.scalar import Scalar
from functrans.loop.statements import For, If, Reduce, Statement, While

LONGEST = 3
"""The number of steps of a loop of unknown length that are analysed one by one."""


def duration(statement: Statement, steps: int | None) -> int:
    """An upper bound on a statement's duration: one unit for its reads, one for its writes.

    Loops of unknown length take at most ``steps`` steps, if that is given.
    """
    match statement:
        case For():
            longest = extent_of(statement.index) if _is_bounded(statement) else LONGEST
            return 2 + longest * durations(statement.body, steps)
        case Reduce():
            count = prod(extent_of(i) for i, *_ in statement.loops)
            return 2 + count * (durations(statement.body, steps) + 2)
        case If():
            return 2 + durations(statement.body, steps) + durations(statement.otherwise, steps)
        case While():
            once = 2 + durations(statement.prepare, steps) + durations(statement.body, steps)
            longest = LONGEST if steps is None else min(steps, LONGEST)
            return 2 + once * (longest + 1)
    return 2


def durations(body: Sequence[Statement], steps: int | None) -> int:
    """An upper bound on the duration of statements in sequence."""
    return sum(duration(each, steps) for each in body) or 1


def _is_bounded(loop: For) -> bool:
    """Whether the trip count of a loop has an upper bound besides data."""
    return loop.index.attribute[2] is not None or loop.stop.op != "local"


def extent_of(index: Scalar) -> int:
    """An upper bound on the trip count of a loop.

    Raises `Fault` if there is none.
    """
    extent: int | None = index.attribute[2]
    if extent is None:
        raise Fault(f"the loop over {index.attribute[0]} has no bound")
    return extent
