"""Induction variables: loops whose end is found on the way, as a program goes through them.

Expects statements, one after the other. Leaves them with the number of turns in memory, and says of
each long loop how it goes on.

The number of its turns is a local: that a while loop counts, or where a counted loop stops. The
program knows the turn that it is in, and gives it to kernels. So inside of a while loop, what counts
is an induction variable, and is replaced by the turn; behind it, it is what its last turn has stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import BOOL, Scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Assign,
    For,
    Let,
    Statement,
    Store,
    While,
    buffer,
    load,
)
from functrans.loop.substitution import substituted
from functrans.loop.terms import from_terms
from functrans.loop.walk import scalars, walk
from functrans.lower.plan import Exit

Body = tuple[Statement, ...]


class ProgramLoop(NamedTuple):
    """A loop that a program goes through.

    Parameters
    ----------
    index : Scalar
        The number of the turn.
    test : tuple of statements
        What a turn of a loop with an exit begins with: it stores whether the loop goes on.
    body : tuple of statements
        The rest of a turn.
    exit : Exit or None
    """

    index: Scalar
    test: Body
    body: Body
    exit: Exit | None


def program_loops(
    body: Body, is_long: Callable[[Statement], bool]
) -> tuple[Body, Mapping[Statement, ProgramLoop]]:
    """The statements, and those of them that are long loops which a program can go through."""
    done: list[Statement] = []
    found: dict[Statement, ProgramLoop] = {}
    rest = body
    while rest:
        (first, *_), rest = rest, rest[1:]
        if isinstance(first, (For, While)) and is_long(first):
            if isinstance(first, For) and first.stop.op == "const":
                found[first] = ProgramLoop(first.index, (), first.body, None)
            else:
                counted = _counted(first, done)
                if counted is not None:
                    found[first], done, name = counted
                    rest = _replaced(rest, name, load(_exit(found[first]).count, ()))
        done.append(first)
    return tuple(done), found


def _exit(loop: ProgramLoop) -> Exit:
    assert loop.exit is not None
    return loop.exit


def _counted(
    loop: For | While, before: Sequence[Statement]
) -> tuple[ProgramLoop, list[Statement], Scalar] | None:
    """A loop that is left by an exit, with what is before it, and the local that was its count."""
    name = loop.stop if isinstance(loop, For) else _induction_variable(loop)
    places = [number for number, each in enumerate(before) if _declares(each, name)]
    if name is None or not places:
        return None
    (place,) = places
    declaration, between = before[place], before[place + 1 :]
    assert isinstance(declaration, Let)
    changed = {x for each in walk(between) if isinstance(each, Assign) for x in each.targets}
    if len(declaration.targets) > 1 or name in changed or name in scalars(between):
        return None
    (value,) = declaration.values
    turn, count = index("turn"), buffer("turns", INDEX, ())
    going = buffer("going", BOOL, ())
    if isinstance(loop, For):
        stop = load(count, ())
        body = _replaced(_replaced(loop.body, name, stop), loop.index, turn)
        test: Body = (Store(going, (), turn < stop),)
        first = [Store(count, (), value)]
        exit = Exit(going, count, loop.index.attribute[2])
    elif value is ZERO:
        asked = (*loop.prepare, Store(count, (), name), Store(going, (), loop.condition))
        test = _replaced(asked, name, turn)
        body = _replaced(loop.body[:-1], name, turn)
        first = []
        exit = Exit(going, count, loop.most)
    else:
        return None
    return ProgramLoop(turn, test, body, exit), [*before[:place], *first, *between], name


def _declares(statement: Statement, name: Scalar | None) -> bool:
    return isinstance(statement, Let) and name in statement.targets


def _induction_variable(loop: While) -> Scalar | None:
    """What the last statement of each step adds one to, and nothing else changes."""
    last = loop.body[-1] if loop.body else None
    if not isinstance(last, Assign) or len(last.targets) > 1:
        return None
    (name,), (value,) = last.targets, last.values
    others = walk((*loop.prepare, *loop.body[:-1]))
    if any(isinstance(each, Assign) and name in each.targets for each in others):
        return None
    return name if value is from_terms({name: 1}, 1) else None


def _replaced(body: Body, name: Scalar, value: Scalar) -> Body:
    return substituted(body, {name: value}, Simplifier())
