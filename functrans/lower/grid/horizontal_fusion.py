"""Horizontal fusion: small kernels that are independent of each other become one, side by side.

Expects nests that are a kernel each. Leaves fewer: the iterations of several nests are concatenated
in one band, and each thread determines to which nest its iteration belongs. So the update of thirty
arrays of different shapes takes one launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, If, band
from functrans.loop.substitution import substituted
from functrans.loop.target import Target
from functrans.loop.walk import Body, scalars
from functrans.lower.grid.cost import Spans
from functrans.lower.grid.dealing import extent, grid_axes
from functrans.lower.grid.thread_mapping import team_of
from functrans.lower.grid.transposition import reads_across
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.fusion import Fusion
from functrans.lower.nest.linearisation import linearised
from functrans.records import NamedTuple


def side_by_side(
    nests: Sequence[Nest], homes: Mapping[Buffer, Buffer], target: Target
) -> Iterator[Nest]:
    """The nests, with small ones combined; ``homes`` are the buffers in which others are stored."""
    group: list[_Kernel] = []
    waiting: list[_Kernel] = []
    """Kernels that come after the group, because they are large, or depend on it."""
    for nest in nests:
        kernel = _Kernel.of(nest, homes, target)
        if _fits(kernel, group, waiting, target):
            group.append(kernel)
        elif not kernel.is_small or kernel.conflicts(group):
            waiting.append(kernel)
        else:
            yield from _joined(group)
            yield from (each.nest for each in waiting)
            group, waiting = [kernel], []
    yield from _joined(group)
    yield from (each.nest for each in waiting)


class _Kernel(NamedTuple):
    """A nest, the buffers that it reads and writes, whether it is small, its number of nodes."""

    nest: Nest
    read: set[Buffer]
    written: set[Buffer]
    is_small: bool
    nodes: int

    @classmethod
    def of(cls, nest: Nest, homes: Mapping[Buffer, Buffer], target: Target) -> _Kernel:
        read, written = (
            {homes.get(one, one) for one in found} for found in (nest.loads, nest.stores)
        )
        return cls(nest, read, written, _is_small(nest, target), len(scalars(nest.body)))

    def conflicts(self, others: Sequence[_Kernel]) -> bool:
        """Whether a kernel depends on others: one writes what the other reads or writes."""
        return any(
            not self.written.isdisjoint(each.read | each.written)
            or not self.read.isdisjoint(each.written)
            for each in others
        )


def _fits(
    kernel: _Kernel, group: Sequence[_Kernel], waiting: Sequence[_Kernel], target: Target
) -> bool:
    """Whether a kernel may join a group, and come before the waiting kernels."""
    if not group or not kernel.is_small or kernel.nest.turns != group[0].nest.turns:
        return False
    if kernel.conflicts(group) or kernel.conflicts(waiting):
        return False
    together = [*group, kernel]
    buffers = set().union(*(each.read | each.written for each in together))
    nodes = sum(each.nodes for each in together)
    return nodes <= target[Fusion].largest_nest and len(buffers) <= target[Fusion].most_buffers


def _is_small(nest: Nest, target: Target) -> bool:
    """Whether a kernel of plain threads takes little more time than its launch."""
    grid, loops = target.gpu, band(nest.body)
    if nest.team or not loops or nest.scratch or loops != grid_axes(nest.body):
        return False
    inside = loops[-1].body
    spans = Spans(grid, set())
    if team_of(loops, inside, (), spans) != 1 or reads_across(nest.body, grid):
        return False
    time = spans.time(prod(map(extent, loops)), 1, inside)
    return time <= grid.little * grid.launch


def _joined(group: Sequence[_Kernel]) -> Iterator[Nest]:
    """Nests in one band, whose iterations are concatenated."""
    if len(group) <= 1:
        yield from (each.nest for each in group)
        return
    bands = [band(each.nest.body) for each in group]
    counts = [prod(map(extent, loops)) for loops in bands]
    element = index("element", sum(counts))
    simplify = Simplifier()
    sections: list[tuple[int, Body]] = []
    start = 0
    for loops, count in zip(bands, counts, strict=True):
        one, values = linearised([loop.index for loop in loops], simplify)
        own = {one: simplify(Scalar("sub", (element, const(start, INDEX)), INDEX))}
        places = {counter: simplify.substitute([x], own)[0] for counter, x in values.items()}
        start += count
        sections.append((start, substituted(loops[-1].body, places, simplify)))
    loop = For(element, ZERO, const(start, INDEX), _chosen(element, sections), parallel=True)
    body: Body = (loop,)
    yield replace(group[0].nest, body=body, operations=None)


def _chosen(element: Scalar, sections: Sequence[tuple[int, Body]]) -> Body:
    """A tree of branches: each section executes the elements up to its end."""
    if len(sections) == 1:
        return sections[0][1]
    half = len(sections) // 2
    first, rest = sections[:half], sections[half:]
    condition = element < const(first[-1][0], INDEX)
    return (If(condition, _chosen(element, first), _chosen(element, rest)),)
