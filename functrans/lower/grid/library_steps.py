"""Distribution of library calls: each is a step of its own, between kernels of other statements.

Expects a nest with calls of routines, possibly in loops over a stack of matrices. Leaves nests,
each of which is a single call, or contains none. The host executes the loops around calls
sequentially (`Nest.turns`). Working memory that a call shares with statements before or after it
becomes a temporary, instead of being on a thread's stack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Call, For, Statement, Store, in_loops
from functrans.loop.walk import Body, buffers_of, loaded, walk
from functrans.lower.grid.dealing import is_from_zero
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.fission import carries_values
from functrans.records import NamedTuple


def with_calls_apart(nest: Nest) -> list[Nest]:
    """The nest, or several: calls alone, and the statements between them."""
    if not _calls(nest.body) or (isinstance(nest.body[0], Call) and len(nest.body) == 1):
        return [nest]
    parts = list(_parts(nest.body))
    bodies = [part.body for part in parts]
    for number in range(1, len(parts)):
        before = [each for body in bodies[:number] for each in body]
        after = [each for body in bodies[number:] for each in body]
        assert not carries_values(before, after, set()), "a number is kept across a call"
    users = Counter(row for body in bodies for row in buffers_of(body))
    of_calls = {row for call in _calls(nest.body) for row in (*call.reads, *call.writes)}
    scratch = {row for row in nest.scratch if users[row] == 1 and row not in of_calls}
    return [
        replace(
            nest,
            body=body,
            scratch=tuple(row for row in nest.scratch if row in scratch & buffers_of(body)),
            operations=None,
            turns=turns,
        )
        for turns, body in parts
    ]


def _calls(body: Sequence[Statement]) -> list[Call]:
    return [each for each in walk(body) if isinstance(each, Call)]


class _Part(NamedTuple):
    """A call, or the statements between calls, and the indices of the loops around it."""

    turns: tuple[Scalar, ...]
    body: Body


def _parts(body: Sequence[Statement], turns: tuple[Scalar, ...] = ()) -> Iterator[_Part]:
    between: list[Statement] = []
    for each in body:
        if not _calls((each,)):
            between.append(_shared(each))
            continue
        if between:
            yield _Part(turns, tuple(between))
            between = []
        if isinstance(each, Call):
            yield _Part(turns, (each,))
            continue
        assert isinstance(each, For), "a call in a branch"
        assert is_from_zero(each.start, each.stop), "a call in a loop without an end"
        yield from _parts(each.body, (*turns, each.index))
    if between:
        yield _Part(turns, tuple(between))


def _shared(statement: Statement) -> Statement:
    """A loop whose iterations threads may share: each stores only elements of its own."""
    loops: list[For] = []
    inside: Statement = statement
    while isinstance(inside, For) and len(inside.body) == 1:
        loops.append(inside)
        inside = inside.body[0]
    if not loops or not isinstance(inside, Store) or inside.op is not None:
        return statement
    alone = inside.target not in loaded([inside])
    bounded = all(is_from_zero(each.start, each.stop) for each in loops)
    if not alone or not bounded or not {each.index for each in loops} <= {*inside.indices}:
        return statement
    if any(node.op == "required" for node in postorder([inside.value])):
        return statement
    (shared,) = in_loops([replace(each, parallel=True) for each in loops], (inside,))
    return shared
