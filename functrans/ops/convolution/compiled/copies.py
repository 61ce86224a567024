"""Operand packing for convolutions: zero-padded copies of a block's input in scratch memory.

Loop ranges are split at the edges of the images (index-set splitting), so that copies need no
bounds checks; the zeros along all axes but that of the blocks are written once for many blocks.
If neighbours in the source are not neighbours in the copy, a few vectors are stored together, which
transposes them in registers (`functrans.emit.llvm.interleave`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, idiv, maximum, minimum
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, Store, load
from functrans.loop.target import Target
from functrans.loop.walk import Body
from functrans.ops.compiled.statements import nest, vectorised
from functrans.ops.convolution.windows import Labels
from functrans.records import dataclass

SIDE_BY_SIDE = 16
"""The number of neighbours in the copy, not contiguous in the source, that are copied together."""

Position = tuple[Scalar, ...]


@dataclass(frozen=True)
class Range:
    """A range of positions in a copy, which in the source are shifted, and ``step`` apart.

    If its end is not constant, it is before the position ``most``.
    """

    start: Scalar
    stop: Scalar
    shift: Scalar
    step: int = 1
    most: int = 0

    @property
    def extent(self) -> int | None:
        """The number of positions, if it is constant."""
        if self.start.op == self.stop.op == "const":
            return max(int(self.stop.attribute - self.start.attribute), 0)
        return None


def all_of(extent: int, shift: Scalar = ZERO) -> Range:
    """All positions of an axis, with a shift in the source."""
    return Range(ZERO, const(extent, INDEX), shift)


def inside(
    positions: int, shift: Scalar, extent: int, simplify: Simplifier, step: int = 1
) -> Range:
    """The positions that, shifted, are within the bounds of the source's axis."""
    start = idiv(maximum((step - 1) - shift, ZERO), step)
    stop = idiv(maximum((extent + step - 1) - shift, ZERO), step)
    end = const(positions, INDEX)
    return Range(
        simplify(minimum(start, end)), simplify(minimum(stop, end)), shift, step, positions
    )


@dataclass(frozen=True)
class Copy:
    """A copy of a part of an array."""

    source: Buffer
    labels: Labels  # the labels of its axes
    fixed: Mapping[int, Scalar]  # the positions along axes that the copy lacks
    ranges: Mapping[int, Range]  # the ranges along the other axes
    target: Buffer
    # the position in the copy, from the positions along those axes
    place: Callable[[Mapping[int, Scalar]], Position]
    last: int  # the label of the contiguous axis of the copy
    is_zero: bool = False  # whether zeros are written, since the range is outside of the source

    def padded(self, label: int, positions: int, machine: Target, simplify: Simplifier) -> Body:
        """The same loops, and those that write the zero padding around a range along an axis."""
        part, end = self.ranges[label], const(positions, INDEX)
        around = [
            replace(self, ranges={**self.ranges, label: Range(*each, ZERO, most=positions)},
                    is_zero=True)
            for each in ((ZERO, part.start), (part.stop, end))
        ]  # fmt: skip
        return tuple(x for each in (self, *around) for x in each.statements(machine, simplify))

    def statements(self, machine: Target, simplify: Simplifier) -> Body:
        """Loops in the order of the source, with vectors along its last axis."""
        if any(part.extent == 0 for part in self.ranges.values()):
            return ()
        order = sorted(self.ranges, key=self.labels.index)
        if self.is_zero:
            order = [*(label for label in order if label != self.last), self.last]
        dense = order[-1]
        if dense == self.last or self.ranges[self.last].extent is None:
            loops = {label: _loop(self.ranges[label]) for label in order}
            body: Body = (self._store(loops, simplify),)
            return self._around(order, loops, body, machine)
        return self._side_by_side(order, machine, simplify)

    def _side_by_side(self, order: Sequence[int], machine: Target, simplify: Simplifier) -> Body:
        """Vectors of several neighbours in the copy at a time."""
        extent, start = self.ranges[self.last].extent, self.ranges[self.last].start
        assert extent is not None
        loops = {label: _loop(self.ranges[label]) for label in order}
        others = [label for label in order if label != self.last]
        whole, rest = divmod(extent, SIDE_BY_SIDE)

        def together(first: Scalar, count: int) -> Body:
            stores = tuple(
                self._store(loops | {self.last: simplify(first + n)}, simplify)
                for n in range(count)
            )
            return self._around(others, loops, stores, machine)

        body: Body = ()
        if whole:
            group = index("group", whole)
            stores = together(group * SIDE_BY_SIDE + start, SIDE_BY_SIDE)
            body = (For(group, ZERO, const(whole, INDEX), stores),)
        if rest:
            body = (*body, *together(start + whole * SIDE_BY_SIDE, rest))
        return body

    def _store(self, at: Mapping[int, Scalar], simplify: Simplifier) -> Store:
        value = const(0, self.target.dtype)
        if not self.is_zero:
            own = dict(self.fixed)
            own |= {i: at[i] * part.step + part.shift for i, part in self.ranges.items()}
            value = load(self.source, [simplify(own[label]) for label in self.labels])
        return Store(self.target, tuple(map(simplify, self.place(at))), value)

    def _around(
        self, order: Sequence[int], loops: Mapping[int, Scalar], body: Body, machine: Target
    ) -> Body:
        """Loops around stores, the innermost one with vectors."""
        *outer, last = order
        body = (_vectors(loops[last], self.ranges[last], body, machine, self.source),)
        for label in reversed(outer):
            part = self.ranges[label]
            body = (For(loops[label], part.start, part.stop, body),)
        return body


def _loop(part: Range) -> Scalar:
    return index("i", part.most if part.extent is None else part.extent)


def _vectors(loop: Scalar, part: Range, body: Body, machine: Target, source: Buffer) -> For:
    """A loop with vectors, of which the last one may overlap the one before."""
    lanes, extent = machine.lanes(source.dtype.itemsize), part.extent
    if extent is None:
        return For(loop, part.start, part.stop, body, lanes)
    while lanes > max(extent, 1):
        lanes //= 2
    lanes = max(lanes, 1)
    whole = extent % lanes == 0
    return For(loop, part.start, part.stop, body, lanes, repeatable=not whole, whole=whole)


def cleared(target: Buffer, before: Position, machine: Target) -> Body:
    """Loops that fill a part of an array with zeros."""
    loops = [index("i", extent) for extent in target.extents[len(before) :]]
    store = Store(target, (*before, *loops), const(0, target.dtype))
    return nest(loops[:-1], vectorised(loops[-1], store, machine))
