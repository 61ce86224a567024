"""Loop distribution around parallel loops: what threads share is a kernel, phase by phase.

Expects a root whose statements come one after the other, with parallel loops among them, which may
be inside of other loops. Leaves nests: the host goes through the loops around (`Nest.turns`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import prod
from typing import NamedTuple

from functrans.loop.nodes import ZERO
from functrans.loop.scalar import Scalar
from functrans.loop.statements import For, Statement
from functrans.loop.walk import walk
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.fusion import Loop
from functrans.lower.select.root import Emitted, extent_of


class _Phase(NamedTuple):
    """Statements, and the loops around them that the host goes through."""

    body: tuple[Statement, ...]
    turns: tuple[Scalar, ...]


def phase_nests(loop: Loop) -> list[Nest] | None:
    """The nests of a root in phases: parallel loops, and what is between; None of any other."""
    root = next(iter(loop.roots))
    if not isinstance(root, Emitted) or not root.in_phases:
        return None
    found = list(_phases(root.statements, ()))
    calls = sum(prod(map(extent_of, each.turns)) for each in found)
    return [
        Nest(
            each.body,
            (),
            root.work // calls,
            turns=each.turns,
            largest_constant=root.largest_constant,
        )
        for each in found
    ]


def _phases(body: Sequence[Statement], turns: tuple[Scalar, ...]) -> Iterator[_Phase]:
    for kind, run in groupby(body, _kind):
        if kind == "alone":
            yield _Phase(tuple(run), turns)
            continue
        for loop in run:
            assert isinstance(loop, For)
            if kind == "shared":
                yield _Phase((loop,), turns)
            else:
                assert loop.start is ZERO and loop.stop.op == "const", "phases without an end"
                yield from _phases(loop.body, (*turns, loop.index))


def _kind(statement: Statement) -> str:
    if not isinstance(statement, For):
        return "alone"
    if statement.parallel:
        return "shared"
    inside = any(isinstance(each, For) and each.parallel for each in walk(statement.body))
    return "around" if inside else "alone"
