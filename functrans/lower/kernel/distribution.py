"""Loop distribution: the steps of a long loop are kernels, which the program calls turn after turn.

Expects a nest. Leaves it as it is, or as several, in loops of the program's (`Nest.turns`).

The steps of a scan come one after the other. Where a step is long enough to be shared among threads
on its own (a layer of a network, a step of its training), each of its loops of independent
iterations becomes a kernel. What is handed on, to other kernels or to the next step, is in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.operations import operations_of
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import Assign, Buffer, Call, For, Let, Reduce, Statement
from functrans.loop.target import Target
from functrans.loop.walk import loaded, scalars, stored, walk
from functrans.lower.nest.bodies import Nest, groups
from functrans.lower.select.root import extent_of

Body = tuple[Statement, ...]


class Distribution(NamedTuple):
    """Loops whose steps are kernels. Measured: steps of training, layers of a network."""

    least_work: int = 1 << 20
    """Operations of a loop of independent iterations in such a step at least."""
    most_nested: int = 4
    """Loops around each other at most that a program goes through itself."""


class _Part(NamedTuple):
    """Statements of a kernel, and the indices of the program's loops around them."""

    turns: tuple[Scalar, ...]
    body: Body


def distributed(nest: Nest, target: Target) -> list[Nest]:
    """The nest, or several: what a long loop does in a step, and what is before and after it.

    A nest in phases has long loops, however little they do.
    """
    limits = target[Distribution]
    if nest.in_phases:
        limits = limits._replace(least_work=0)
    parts = list(_parts(nest.body, (), limits))
    if not any(part.turns for part in parts) or _share_locals(parts):
        return [nest]
    calls = sum(prod(map(extent_of, part.turns)) for part in parts)
    used = [loaded(part.body) | stored(part.body) for part in parts]
    users = Counter(one for each in used for one in each)
    return [
        replace(
            nest,
            body=part.body,
            scratch=tuple(row for row in nest.scratch if row in own and users[row] == 1),
            work=nest.work // calls if nest.in_phases else _work(part),
            turns=part.turns,
        )
        for part, own in zip(parts, used, strict=True)
    ]


def _parts(body: Body, turns: tuple[Scalar, ...], limits: Distribution) -> Iterator[_Part]:
    nothing: set[Buffer] = set()
    for group in groups(body, nothing, lambda part: _is_long(part[0], limits)):
        first = group[0]
        if len(group) == 1 and isinstance(first, For) and not first.parallel:
            if len(turns) < limits.most_nested and _is_long(first, limits):
                yield from _parts(first.body, (*turns, first.index), limits)
                continue
        yield _Part(turns, group)


def _is_long(statement: Statement, limits: Distribution) -> bool:
    """Whether a statement is worth sharing, or a loop of which each step has one that is."""
    if not isinstance(statement, For):
        return False
    if statement.parallel:
        return operations_of([statement]) >= limits.least_work
    stop = statement.stop
    counted = statement.start is ZERO and stop.op == "const" and statement.lanes == 1
    # the program counts a turn when it has gone through it, so that there must be one
    some = counted and int(stop.attribute) > 0
    return some and any(_is_long(each, limits) for each in statement.body)


def _work(part: _Part) -> int:
    """Roughly the number of scalar operations in a turn, on the average; of a call no one knows."""
    body = part.body
    for turn in reversed(part.turns):
        body = (For(turn, ZERO, const(extent_of(turn), INDEX), body),)
    calls = sum(isinstance(each, Call) for each in walk(part.body))
    return operations_of(body) // prod(map(extent_of, part.turns)) + calls


def _share_locals(parts: Sequence[_Part]) -> bool:
    """Whether a number is handed on from one part to another, or to its own next turn."""
    return any(not _locals(part.body) <= _declared(part.body) for part in parts)


def _locals(body: Body) -> set[Scalar]:
    used = {node for node in scalars(body) if node.op == "local"}
    return used.union(*(each.targets for each in walk(body) if isinstance(each, Assign)))


def _declared(body: Body) -> set[Scalar]:
    own = (each.targets for each in walk(body) if isinstance(each, (Let, Reduce)))
    return {name for targets in own for name in targets}
