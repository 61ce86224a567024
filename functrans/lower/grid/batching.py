"""Register blocking of a batch: a team does several iterations of its band at a time.

Expects a band whose iterations go through steps that a team shares, as a recurrent network does for
each sequence. What all iterations read alike, such as the weights of the network, is then loaded
once for several of them, and multiplied by numbers of each (outer-loop unroll-and-jam). Without
this, each step of each sequence reads all weights, by way of a cache that is too small for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO, as_index, index
from functrans.loop.relocation import Relocation
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, Reduce, Statement, buffer
from functrans.loop.walk import scalars, walk
from functrans.lower.grid.dealing import extent, terms
from functrans.lower.grid.unroll_and_jam import Jam, NotUniform
from functrans.lower.nest.bodies import Nest

Body = tuple[Statement, ...]

MOST = 4
"""Iterations that are done together at most: each has sums of its own in registers."""


def batched(nest: Nest, loops: Sequence[For], team: int, grid: Grid) -> Nest:
    """A nest with fewer, larger iterations of its band, if these still keep the machine busy.

    Parameters
    ----------
    nest : Nest
    loops : sequence of For
        Its band.
    team : int
        The threads that do an iteration.
    grid : Grid
    """
    if len(loops) != 1 or not _is_from_zero(loops[0]):
        return nest
    (loop,) = loops
    for count in _counts(extent(loop), team, nest.scratch, grid):
        if _shares_operands(loop, grid):
            try:
                return _jammed(nest, loop, count)
            except NotUniform:
                return nest
    return nest


def _counts(iterations: int, team: int, scratch: Sequence[Buffer], grid: Grid) -> Iterator[int]:
    """How many iterations may be one, the largest number first."""
    count = MOST
    while count > 1:
        has_room = count * sum(row.nbytes for row in scratch) <= grid.rows
        if iterations % count == 0 and iterations // count * team >= grid.busy and has_room:
            yield count
        count //= 2


def _is_from_zero(loop: For) -> bool:
    return loop.start is ZERO and loop.stop.op == "const"


def _shares_operands(loop: For, grid: Grid) -> bool:
    """Whether a long sum, in each of some steps, reads what is the same for all iterations."""
    for steps in walk(loop.body):
        if isinstance(steps, For) and not steps.parallel and steps.lanes == 1:
            for each in walk(steps.body):
                if isinstance(each, Reduce) and terms(each) >= grid.shortest:
                    if _reads_alike(each, loop.index):
                        return True
    return False


def _reads_alike(statement: Reduce, iteration: Scalar) -> bool:
    """Whether a sum reads an element that is not of the iteration, and one that is."""
    counters = {counter for counter, *_ in statement.loops}
    loads = [
        set(postorder(node.args))
        for node in scalars((statement,))
        if node.op == "load" and not counters.isdisjoint(postorder(node.args))
    ]
    return any(iteration not in each for each in loads)


def _jammed(nest: Nest, loop: For, count: int) -> Nest:
    """A nest with so many iterations of its band as one."""
    simplify = Simplifier()
    lane = index("lane", count)
    relocation = Relocation(simplify)
    relocation.moved = {
        row: (buffer(row.name, row.dtype, (count, *row.shape)), (lane,)) for row in nest.scratch
    }
    inside = relocation.statements(loop.body)
    outer = index(loop.index.attribute[0], extent(loop) // count)
    lanes = [
        {loop.index: simplify(outer * count + number), lane: const(number, INDEX)}
        for number in range(count)
    ]
    body = Jam(lanes, simplify).statements(inside)
    made = replace(loop, index=outer, stop=as_index(extent(loop) // count), body=body)
    scratch = tuple(new for new, _ in relocation.moved.values())
    return replace(nest, body=(made,), scratch=scratch)
