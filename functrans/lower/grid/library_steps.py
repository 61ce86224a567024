"""Distribution of library calls: each is a step of its own, between kernels of what is around it.

Expects a nest with calls of routines, perhaps in loops over a stack of matrices. Leaves nests of
which each is one call, or has none. The loops around calls are done by whoever goes through the
plan: all of their iterations are written out, one after the other. Working memory that a call
shares with what comes before or after it is a temporary then, and on no thread's stack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.operations import operations_of
from functrans.loop.scalar import const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Call, For, Statement, Store
from functrans.loop.substitution import substituted
from functrans.loop.walk import loaded, stored, walk
from functrans.lower.nest.bodies import Nest, carries_values

Body = tuple[Statement, ...]


def with_calls_apart(nest: Nest) -> list[Nest]:
    """The nest, or several: calls alone, and what is between."""
    if not _calls(nest.body) or (isinstance(nest.body[0], Call) and len(nest.body) == 1):
        return [nest]
    parts = list(_parts(_written_out(nest.body, Simplifier())))
    for number in range(1, len(parts)):
        before = [each for part in parts[:number] for each in part]
        after = [each for part in parts[number:] for each in part]
        assert not carries_values(before, after, set()), "a number is kept across a call"
    users = Counter(row for part in parts for row in _used(part))
    scratch = {row for row in nest.scratch if users[row] == 1 and not _calls_use(nest.body, row)}
    return [
        replace(
            nest,
            body=part,
            scratch=tuple(row for row in nest.scratch if row in scratch & _used(part)),
            work=operations_of(part),
        )
        for part in parts
    ]


def _calls(body: Sequence[Statement]) -> list[Call]:
    return [each for each in walk(body) if isinstance(each, Call)]


def _calls_use(body: Sequence[Statement], row: Buffer) -> bool:
    return any(row in (*call.reads, *call.writes) for call in _calls(body))


def _used(body: Sequence[Statement]) -> set[Buffer]:
    return loaded(body) | stored(body)


def _written_out(body: Sequence[Statement], simplify: Simplifier) -> Iterator[Statement]:
    """The statements, with all iterations of loops around calls."""
    for each in body:
        if not isinstance(each, For) or not _calls(each.body):
            yield _shared(each)
            continue
        assert each.start is ZERO and each.stop.op == "const", "a call in a loop without an end"
        for number in range(int(each.stop.attribute)):
            known = {each.index: const(number, INDEX)}
            yield from _written_out(substituted(each.body, known, simplify), simplify)


def _parts(body: Iterator[Statement]) -> Iterator[Body]:
    between: list[Statement] = []
    for each in body:
        if isinstance(each, Call):
            if between:
                yield tuple(between)
            yield (each,)
            between = []
        else:
            between.append(each)
    if between:
        yield tuple(between)


def _shared(statement: Statement) -> Statement:
    """A loop whose iterations threads may share: each stores elements of its own, and no more."""
    loops: list[For] = []
    inside: Statement = statement
    while isinstance(inside, For) and len(inside.body) == 1:
        loops.append(inside)
        inside = inside.body[0]
    if not loops or not isinstance(inside, Store) or inside.op is not None:
        return statement
    alone = inside.target not in loaded([inside])
    bounded = all(each.start is ZERO and each.stop.op == "const" for each in loops)
    if not alone or not bounded or not {each.index for each in loops} <= {*inside.indices}:
        return statement
    if any(node.op == "required" for node in postorder([inside.value])):
        return statement
    body: Body = (inside,)
    for each in reversed(loops):
        body = (replace(each, body=body, parallel=True),)
    return body[0]
