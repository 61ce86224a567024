"""Procedural abstraction: equal loops of a kernel become one procedure, which is called.

The body of a loop over time steps, with all Fourier transforms in it, is a single kernel, in which
the passes of one transform differ from those of another in nothing but the buffers and numbers that
they use. Each is compiled once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from functrans.loop.equivalence import Pattern, pattern
from functrans.loop.functions import node_count
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Buffer, For, If, Statement, While
from functrans.loop.walk import assigned, bodies, children, declared, expressions, loops_of, walk

FEWEST = 48
"""The fewest nodes of a loop that becomes a procedure."""


class Use(NamedTuple):
    """A loop that is a use of a procedure."""

    procedure: For  # the first of the equal loops
    buffers: tuple[Buffer, ...]
    numbers: tuple[Scalar, ...]  # those that are known before the loop: sizes, indices and locals


def repeated(body: Sequence[Statement]) -> dict[For, Use]:
    """The loops that are equal to others, the largest ones: not those inside of them.

    Loops in a vector loop are not compared, since values there have lanes.
    """
    found: dict[For, Use] = {}
    sizes: dict[Statement, int] = {}
    waiting: dict[int, list[For]] = defaultdict(list)

    def enter(statements: Iterable[Statement]) -> None:
        for loop in _outermost(statements):
            if _size(loop, sizes) >= FEWEST:
                waiting[sizes[loop]].append(loop)

    enter(body)
    while waiting:
        # equal loops have the same size, and those inside of a loop are smaller
        for equal in _alike(waiting.pop(max(waiting))):
            if len(equal) > 1:
                found |= {loop: Use(equal[0][0], *known) for loop, known in equal}
            if equal[0][0].lanes == 1:
                enter(equal[0][0].body)
    return found


Known = tuple[tuple[Buffer, ...], tuple[Scalar, ...]]


def _alike(loops: Sequence[For]) -> Iterable[list[tuple[For, Known]]]:
    """The loops in groups of equal ones; those that can't be procedures are alone."""
    if len(loops) == 1:
        return [[(loops[0], ((), ()))]]
    groups: dict[Hashable, list[tuple[For, Known]]] = defaultdict(list)
    for loop in loops:
        made = pattern(loop)
        key = made.form if _is_closed(loop, made) else loop
        groups[key].append((loop, (made.buffers, _known_before(loop, made))))
    return groups.values()


def _is_closed(loop: For, made: Pattern) -> bool:
    """Whether a loop changes no locals declared outside, and has a pointer for each buffer."""
    outside = assigned([loop]).difference(declared([loop]))
    return not outside and all(buffer.column is None for buffer in made.buffers)


def _known_before(loop: For, made: Pattern) -> tuple[Scalar, ...]:
    """The numbers of a loop that are known before it."""
    inside = {index for each in walk([loop]) for index, *_ in loops_of(each)}
    inside.update(declared([loop]))
    return tuple([number for number in made.numbers if number not in inside])


def _outermost(statements: Iterable[Statement]) -> Iterator[For]:
    """The loops that are in no other of these statements."""
    for each in statements:
        if isinstance(each, For):
            yield each
        elif isinstance(each, (If, While)):
            for body in bodies(each):
                yield from _outermost(body)


def _size(statement: Statement, known: dict[Statement, int]) -> int:
    """The nodes of a statement and of those inside."""
    if statement not in known:
        own = node_count(postorder(expressions(statement)))
        known[statement] = own + sum(_size(each, known) for each in children(statement))
    return known[statement]
