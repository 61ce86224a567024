"""Cyclic distribution (dealing) of a loop's iterations over lanes, or over threads of a team."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.loop.domain import Fault
from functrans.loop.statements import For, Reduce


def check_rounds(statement: For | Reduce, extent: int) -> None:
    """Check that the trip count of a loop fits its lanes, and its rounds if these are given.

    Raises `Fault`.
    """
    rounds, lanes = statement.rounds, statement.lanes
    if rounds and not (rounds - 1) * lanes < extent <= rounds * lanes:
        raise Fault(f"{extent} iterations in {lanes} lanes are not {rounds} rounds")
    if statement.repeatable and 0 < extent < lanes:
        raise Fault(f"{extent} iterations of a loop of {lanes} lanes that may be repeated")


def own_elements(
    owners: np.ndarray[Any, Any], elements: np.ndarray[Any, Any], threads: np.ndarray[Any, Any]
) -> bool:
    """Record which thread touches each of some elements; returns whether it is always the same.

    ``owners`` has the thread of each element of a row, or -1; it is changed.
    """
    unowned = owners[elements] < 0
    owners[elements[unowned]] = threads[unowned]
    return bool((owners[elements] == threads).all())
