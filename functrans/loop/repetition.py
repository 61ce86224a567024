"""Procedural abstraction: equal loops of a kernel become one procedure, which is called.

The body of a loop over time steps, with all Fourier transforms in it, is a single kernel, in which
the passes of one transform differ from those of another in nothing but the buffers and numbers that
they use. Each is compiled once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from functrans.loop.equivalence import Pattern, pattern
from functrans.loop.functions import node_count
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Buffer, For, If, Statement, While
from functrans.loop.walk import assigned, bodies, declared, expressions, loops_of, walk
from functrans.records import NamedTuple

FEWEST = 24
"""The fewest nodes of a loop that becomes a procedure."""

FEWEST_SAVED = 48
"""The fewest nodes of its other uses, which are not compiled again."""


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
    patterns: dict[For, Pattern] = {}
    waiting: dict[int, list[For]] = defaultdict(list)

    def form(loop: For) -> Hashable:
        patterns[loop] = made = pattern(loop)
        return made.form if _is_closed(loop, made) else loop

    def enter(statements: Iterable[Statement]) -> None:
        for loop in _outermost(statements):
            waiting[sum(1 for _ in walk([loop]))].append(loop)

    enter(body)
    while waiting:
        # equal loops have as many statements, and those inside of a loop have fewer
        for similar in _grouped(waiting.pop(max(waiting)), _size):
            size = _size(similar[0]) if len(similar) > 1 else FEWEST
            if size < FEWEST:
                continue
            for equal in _grouped(similar, form):
                if size * (len(equal) - 1) >= FEWEST_SAVED:
                    found |= {loop: _use(equal[0], loop, patterns[loop]) for loop in equal}
                if equal[0].lanes == 1:
                    enter(equal[0].body)
    return found


def _grouped(loops: list[For], key: Callable[[For], Hashable]) -> Iterable[list[For]]:
    """The loops by a key, which takes time, and is not computed for a single one."""
    if len(loops) == 1:
        return [loops]
    groups: dict[Hashable, list[For]] = defaultdict(list)
    for loop in loops:
        groups[key(loop)].append(loop)
    return groups.values()


def _use(procedure: For, loop: For, made: Pattern) -> Use:
    """A loop as the use of a procedure, with the numbers that are known before it."""
    inside = {index for each in walk([loop]) for index, *_ in loops_of(each)}
    inside.update(declared([loop]))
    known = tuple([number for number in made.numbers if number not in inside])
    return Use(procedure, made.buffers, known)


def _is_closed(loop: For, made: Pattern) -> bool:
    """Whether a loop changes no locals declared outside, and has a pointer for each buffer."""
    outside = assigned([loop]).difference(declared([loop]))
    return not outside and all(buffer.column is None for buffer in made.buffers)


def _outermost(statements: Iterable[Statement]) -> Iterator[For]:
    """The loops that are in no other of these statements."""
    for each in statements:
        if isinstance(each, For):
            yield each
        elif isinstance(each, (If, While)):
            for body in bodies(each):
                yield from _outermost(body)


def _size(loop: For) -> int:
    """The nodes of a loop's expressions."""
    return sum(node_count(postorder(expressions(each))) for each in walk([loop]))
