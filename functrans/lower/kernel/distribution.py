"""Loop distribution: the steps of a long loop become kernels, which the program calls repeatedly.

Expects a nest. Leaves it as it is, or as several, in loops of the program (`Nest.turns`).

The steps of a scan or of a while loop are sequential. If a step is long enough to be shared among
threads by itself (a layer of a network, a step of its training or of an iterative solver), each of
its loops of independent iterations becomes a kernel. Values that are passed on, to other kernels or
to the next step, are in memory; if data decide whether there is a next step, so is that decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.operations import operations_of
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import Buffer, For, Statement, While
from functrans.loop.target import Target
from functrans.loop.walk import Body, assigned, buffers_of, declared, locals_in
from functrans.lower.kernel.loop_exits import ProgramLoop, program_loops
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.fission import groups
from functrans.lower.plan import Exit
from functrans.lower.select.root import extent_of
from functrans.records import NamedTuple


class Distribution(NamedTuple):
    """Loops whose steps are kernels. Measured: steps of training, layers of a network."""

    least_work: int = 1 << 20
    """The fewest operations of a loop of independent iterations in such a step."""
    most_nested: int = 4
    """The deepest nesting of loops that a program executes itself."""


class _Part(NamedTuple):
    """The statements of a kernel, and the indices of the program's loops around them."""

    turns: tuple[Scalar, ...]
    body: Body
    exit: Exit | None = None


def distributed(nest: Nest, target: Target) -> list[Nest]:
    """The nest, or several: the parts of a long loop's step, and what is before and after the loop.

    A nest in phases always has long loops, however little work they do. What cannot be counted of
    its work is divided equally.
    """
    limits = target[Distribution]
    if nest.in_phases:
        limits = limits._replace(least_work=0)
    parts = list(_parts(nest.body, (), limits))
    if not any(part.turns for part in parts) or _share_locals(parts):
        return [nest]
    calls = sum(prod(map(_expected, part.turns)) for part in parts)
    used = [buffers_of(part.body) for part in parts]
    users = Counter(one for each in used for one in each)
    return [
        replace(
            nest,
            body=part.body,
            scratch=tuple(row for row in nest.scratch if row in own and users[row] == 1),
            operations=_operations(part),
            products=0,
            uncounted=nest.uncounted // calls,
            turns=part.turns,
            exit=part.exit,
        )
        for part, own in zip(parts, used, strict=True)
    ]


def _parts(body: Body, turns: tuple[Scalar, ...], limits: Distribution) -> Iterator[_Part]:
    nothing: set[Buffer] = set()
    loops: Mapping[Statement, ProgramLoop] = {}
    if len(turns) < limits.most_nested:
        body, loops = program_loops(body, partial(_has_long_steps, limits=limits))
    for group in groups(body, nothing, lambda part: _is_long(part[0], limits)):
        loop = loops.get(group[0]) if len(group) == 1 else None
        if loop is None:
            yield _Part(turns, group)
            continue
        around = (*turns, loop.index)
        if loop.exit is not None:
            *first, test = _parts(loop.test, around, limits)
            yield from first
            yield test._replace(exit=loop.exit)
        yield from _parts(loop.body, around, limits)


def _is_long(statement: Statement, limits: Distribution) -> bool:
    """Whether a statement has enough work to share, or is a loop with such a statement."""
    if isinstance(statement, For) and statement.parallel:
        return operations_of([statement]) >= limits.least_work
    return _has_long_steps(statement, limits)


def _has_long_steps(statement: Statement, limits: Distribution) -> bool:
    match statement:
        case For() if statement.start is ZERO and statement.lanes == 1 and not statement.parallel:
            stop = statement.stop
            # the program counts an iteration after it has executed it, so there must be at least
            # one
            some = stop.op == "local" or (stop.op == "const" and int(stop.attribute) > 0)
            return some and any(_is_long(each, limits) for each in statement.body)
        case While():
            step = (*statement.prepare, *statement.body)
            return any(_is_long(each, limits) for each in step)
    return False


def _expected(turn: Scalar) -> int:
    """The trip count of a loop; one if it is unknown."""
    return 1 if turn.attribute[2] is None else extent_of(turn)


def _operations(part: _Part) -> int:
    """The operations of an iteration, on average."""
    body = part.body
    for turn in reversed(part.turns):
        body = (For(turn, ZERO, const(_expected(turn), INDEX), body),)
    return operations_of(body) // prod(map(_expected, part.turns))


def _share_locals(parts: Sequence[_Part]) -> bool:
    """Whether a local carries a value from one part to another, or to its own next iteration."""
    return any(
        not (assigned(part.body) | locals_in(part.body)).issubset(declared(part.body))
        for part in parts
    )
