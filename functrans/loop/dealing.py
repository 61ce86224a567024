"""Cyclic distribution (dealing) of a loop's iterations over lanes, or over threads of a team."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.loop.domain import Fault
from functrans.loop.statements import For, Reduce


def check_counts(statement: For | Reduce, counts: np.ndarray[Any, Any] | int) -> None:
    """Check that trip counts of a loop fit its lanes, and the greatest its rounds if it has some.

    An inner loop has one for each iteration of the loops around it. Raises `Fault`.
    """
    rounds, lanes, counts = statement.rounds, statement.lanes, np.asarray(counts)
    most = int(counts.max(initial=0))
    if rounds and not (rounds - 1) * lanes < most <= rounds * lanes:
        raise Fault(f"{most} iterations in {lanes} lanes are not {rounds} rounds")
    some = counts[counts > 0]
    if statement.repeatable and (few := some[some < lanes]).size:
        raise Fault(f"{few[0]} iterations of a loop of {lanes} lanes that may be repeated")
    if statement.whole and (rest := some[some % lanes > 0]).size:
        raise Fault(f"{rest[0]} iterations are no multiple of {lanes} lanes")


def own_elements(
    owners: np.ndarray[Any, Any], elements: np.ndarray[Any, Any], threads: np.ndarray[Any, Any]
) -> bool:
    """Record which thread touches each of some elements; returns whether it is always the same.

    ``owners`` has the thread of each element of a row, or -1; it is changed.
    """
    unowned = owners[elements] < 0
    owners[elements[unowned]] = threads[unowned]
    return bool((owners[elements] == threads).all())
