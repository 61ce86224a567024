"""Loops whose number of iterations depends on data, executed by the program.

Expects a list of statements. Leaves them with the number of iterations in memory, and tells for
each long loop how to continue.

The number of iterations is a local: the counter of a while loop, or the bound of a counted loop.
The program knows the current iteration, and passes it to kernels. So the counter of a while loop is
replaced by the iteration inside the loop, and after it by the value that the last iteration stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import BOOL, Scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Assign, For, Let, Statement, Store, While, buffer, load
from functrans.loop.substitution import substituted
from functrans.loop.terms import from_terms
from functrans.loop.walk import Body, assigned, scalars
from functrans.lower.plan import Exit
from functrans.records import dataclass


@dataclass(frozen=True, eq=False)
class ProgramLoop:
    """A loop that the program executes."""

    index: Scalar  # the number of the iteration
    # the beginning of an iteration of a loop with an exit: it stores whether the loop continues
    test: Body
    body: Body  # the rest of an iteration
    exit: Exit | None


def program_loops(
    body: Body, is_long: Callable[[Statement], bool]
) -> tuple[Body, Mapping[Statement, ProgramLoop]]:
    """The statements, and those of them that are long loops which the program can execute."""
    if not any(map(is_long, body)):
        return body, {}
    done: list[Statement] = []
    found: dict[Statement, ProgramLoop] = {}
    rest = body
    while rest:
        (first, *_), rest = rest, rest[1:]
        if isinstance(first, (For, While)) and is_long(first):
            if isinstance(first, For) and first.stop.op == "const":
                found[first] = ProgramLoop(first.index, (), first.body, None)
            elif (left := _left_by_an_exit(first, done, rest)) is not None:
                found[first], done, rest = left
        done.append(first)
    return tuple(done), found


def _left_by_an_exit(
    loop: For | While, before: list[Statement], after: Body
) -> tuple[ProgramLoop, list[Statement], Body] | None:
    """A loop of unknown length, with the statements around it, if iterations are counted."""
    name = loop.stop if isinstance(loop, For) else _induction_variable(loop)
    places = [i for i, each in enumerate(before) if isinstance(each, Let) and name in each.targets]
    if name is None or not places:
        return None
    (place,) = places
    declaration, between = before[place], before[place + 1 :]
    assert isinstance(declaration, Let)
    if len(declaration.targets) > 1 or name in {*assigned(between), *scalars(between)}:
        return None
    (value,) = declaration.values
    turn, count = index("turn"), buffer("count", INDEX, ())
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
    rest = _replaced(after, name, load(count, ()))
    return ProgramLoop(turn, test, body, exit), [*before[:place], *first, *between], rest


def _induction_variable(loop: While) -> Scalar | None:
    """The local that the last statement of each step increments, and nothing else changes."""
    last = loop.body[-1] if loop.body else None
    if not isinstance(last, Assign) or len(last.targets) > 1:
        return None
    (name,), (value,) = last.targets, last.values
    is_own = name not in assigned((*loop.prepare, *loop.body[:-1]))
    return name if is_own and value is from_terms({name: 1}, 1) else None


def _replaced(body: Body, name: Scalar, value: Scalar) -> Body:
    return substituted(body, {name: value}, Simplifier())
