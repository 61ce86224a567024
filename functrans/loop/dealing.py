"""Dealing: the assignment of a loop's iterations to lanes, or to threads of a team."""

from __future__ import annotations

from functrans.loop.domain import Fault
from functrans.loop.statements import For, Reduce


def check_rounds(statement: For | Reduce, extent: int) -> None:
    """Check that the trip count of a loop fits the number of its rounds, if that is given.

    Raises
    ------
    Fault
    """
    rounds, lanes = statement.rounds, statement.lanes
    if rounds and not (rounds - 1) * lanes < extent <= rounds * lanes:
        raise Fault(f"{extent} iterations in {lanes} lanes are not {rounds} rounds")
