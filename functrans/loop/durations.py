"""Durations: upper bounds on the time of statements, on the clock that orders memory accesses."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from functrans.loop.domain import Fault
from functrans.loop.scalar import Scalar
from functrans.loop.statements import For, If, Reduce, Statement, While

LONGEST = 3
"""This many steps of a loop whose end is found on the way are looked at, one by one."""


def duration(statement: Statement, steps: int | None) -> int:
    """How long a statement takes at most: one for what it reads, one for what it writes.

    Loops whose end is found on the way take at most ``steps`` steps, if that is said.
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
    """How long statements take one after the other."""
    return sum(duration(each, steps) for each in body) or 1


def _is_bounded(loop: For) -> bool:
    """Whether something says how many iterations a loop has at most, besides data."""
    return loop.index.attribute[2] is not None or loop.stop.op != "local"


def extent_of(index: Scalar) -> int:
    """How many iterations a loop has at most.

    Raises
    ------
    Fault
        If nothing says that.
    """
    extent: int | None = index.attribute[2]
    if extent is None:
        raise Fault(f"the loop over {index.attribute[0]} has no bound")
    return extent
