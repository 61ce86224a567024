"""Merge sort on a grid: blocks in shared memory, then pairs of runs, as wide as they have become.

Each element of a merged run is found by itself: a binary search says how many of those before it
come from the first run (Odeh, Green, Mwassi, Shmueli and Birk, "Merge path: parallel merging made
simple", 2012). Equal elements keep their order, and NaN comes last, as NumPy has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from functrans.caches import cached_property
from functrans.ir.types import is_float
from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO, as_index, bounded, guard, index
from functrans.loop.scalar import (
    BOOL,
    Scalar,
    const,
    convert,
    eq,
    idiv,
    maximum,
    minimum,
    ne,
    where,
)
from functrans.loop.statements import (
    Assign,
    Buffer,
    If,
    Let,
    Statement,
    Store,
    While,
    load,
    local,
)
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.compiled.statements import dealt, nest


def sort(at: Emission) -> None:
    """The elements along an axis in their order."""
    _emit(at, numbered=False)


def argsort(at: Emission) -> None:
    """Where along an axis the elements come from, in their order."""
    _emit(at, numbered=True)


def _emit(at: Emission, numbered: bool) -> None:
    grid = at.target.grid
    assert grid is not None
    source, target = at.operand(0), at.result()
    if target.count:
        _Sort(at, grid, at.eqn.params["axis"], source, target, numbered).run()


Rows = tuple[Buffer, ...]
"""The keys, and the number of each, if they are asked for."""

Elements = Callable[[Scalar], list[Scalar]]
"""The elements at a place of a line: of each of the `Rows`."""


@dataclass(frozen=True)
class _Sort:
    """A sort of the lines of a buffer along an axis.

    Parameters
    ----------
    at : Emission
    grid : Grid
    axis : int
    source, target : Buffer
    numbered : bool
        Whether the target is for the numbers of the elements, and not for themselves.
    """

    at: Emission
    grid: Grid
    axis: int
    source: Buffer
    target: Buffer
    numbered: bool

    @cached_property
    def extent(self) -> int:
        return self.target.extents[self.axis]

    @cached_property
    def dtypes(self) -> tuple[np.dtype[np.generic], ...]:
        small = self.extent <= np.iinfo(np.int32).max
        numbers = (np.dtype(np.int32 if small else INDEX),) if self.numbered else ()
        return (self.source.dtype, *numbers)

    @cached_property
    def block(self) -> int:
        """How many elements are sorted in shared memory: a power of two."""
        room = self.grid.shared // 2
        each = 2 * sum(dtype.itemsize for dtype in self.dtypes)
        length = 2
        while length < self.extent and 2 * length * each <= room:
            length *= 2
        return length

    def lines(self) -> Position:
        extents = self.target.extents
        return tuple(index("line", n) for axis, n in enumerate(extents) if axis != self.axis)

    def place(self, line: Position, number: Scalar) -> Position:
        return (*line[: self.axis], number, *line[self.axis :])

    def memory(self, name: str) -> Rows:
        """Lines one after the other."""
        others = [n for axis, n in enumerate(self.target.extents) if axis != self.axis]
        return self.rows(name, (*others, self.extent))

    def rows(self, name: str, shape: Sequence[int]) -> Rows:
        labels = (f"{name}_keys", f"{name}_numbers")
        return tuple(
            self.at.scratch(label, dtype, shape)
            for label, dtype in zip(labels, self.dtypes, strict=False)
        )

    def call(self, statements: tuple[Statement, ...], writes: Rows, stack: Rows = ()) -> None:
        work = 16 * self.target.count
        self.at.call(statements, work=work, stack=stack, writes=writes)

    # -- passes ---------------------------------------------------------------------------------

    def run(self) -> None:
        width = self.block
        memory = (self.memory("even"), self.memory("odd"))
        self.sort_blocks(memory[0] if width < self.extent else None)
        while width < self.extent:
            last = 2 * width >= self.extent
            self.merge_runs(memory[0], None if last else memory[1], width)
            memory = memory[::-1]
            width *= 2

    def stores(self, target: Rows | None, line: Position, number: Scalar,
               values: Sequence[Scalar]) -> tuple[Statement, ...]:  # fmt: skip
        """Stores of a place's elements to memory, or, in the last pass, to the result."""
        if target is None:
            value = convert(values[-1], self.target.dtype)
            return (Store(self.target, self.place(line, number), value),)
        return tuple(
            Store(one, (*line, number), value) for one, value in zip(target, values, strict=True)
        )

    def sort_blocks(self, target: Rows | None) -> None:
        """Each block of a line is a team's, which merges runs of 1, 2, 4, ... elements."""
        line = self.lines()
        block = index("block", -(-self.extent // self.block))
        begin = block * self.block
        old, new = (self.rows(name, (self.block,)) for name in ("old", "new"))
        stack = (*old, *new)
        i = index("i", self.block)
        inside = begin + i < self.extent
        # what is added comes last, and behind what is equal to it
        key = guard(inside, load(self.source, self.place(line, begin + i)), self.largest())
        values = [key, *(convert(begin + i, dtype) for dtype in self.dtypes[1:])]
        body = [*self.dealt(i, *self.put(old, i, values))]
        width = 1
        while width < self.block:
            i = index("i", self.block)
            start = idiv(i, 2 * width) * (2 * width)
            merging = _Merging(self.reader(old, ()), start, i - start, width, self.block)
            body += self.dealt(i, *merging.search(), *self.put(new, i, merging.values()))
            old, new = new, old
            width *= 2
        i = index("i", self.block)
        found = [load(row, (i,)) for row in old]
        body += self.dealt(i, If(begin + i < self.extent,
                                 self.stores(target, line, begin + i, found)))  # fmt: skip
        writes = (self.target,) if target is None else target
        self.call(nest((*line, block), body, parallel=True), writes, stack)

    def merge_runs(self, source: Rows, target: Rows | None, width: int) -> None:
        """Each two runs of a line become one."""
        line = self.lines()
        pair, rank = index("pair", -(-self.extent // (2 * width))), index("rank", 2 * width)
        start = pair * (2 * width)
        here = start + rank
        merging = _Merging(self.reader(source, line), start, rank, width, self.extent)
        stores = self.stores(target, line, here, merging.values())
        body = If(here < self.extent, (*merging.search(), *stores))
        writes = (self.target,) if target is None else target
        self.call(nest((*line, pair, rank), (body,), parallel=True), writes)

    def largest(self) -> Scalar:
        """A key that none comes after."""
        dtype = self.source.dtype
        if is_float(dtype):
            return const(np.nan, dtype)
        return const(True if dtype == BOOL else int(np.iinfo(dtype).max), dtype)

    def put(self, rows: Rows, i: Scalar, values: Sequence[Scalar]) -> tuple[Statement, ...]:
        return tuple(Store(row, (i,), value) for row, value in zip(rows, values, strict=True))

    def reader(self, rows: Rows, line: Position) -> Elements:
        return lambda number: [load(row, (*line, number)) for row in rows]

    def dealt(self, i: Scalar, *body: Statement) -> tuple[Statement, ...]:
        """An independent loop, which the threads of a team share."""
        return dealt((i,), body, self.at.target)


class _Merging:
    """The element of a rank in what two runs become: one that starts, and one behind it.

    Parameters
    ----------
    elements : Elements
    start : Scalar
        Where the first run starts.
    rank : Scalar
    width : int
        How long the runs are.
    extent : int
        Where they stop in any case.
    """

    def __init__(
        self, elements: Elements, start: Scalar, rank: Scalar, width: int, extent: int
    ) -> None:
        self.elements = elements
        self.start = start
        self.rank = rank
        self.extent = extent
        self.middle = minimum(start + width, as_index(extent))
        self.stop = minimum(start + 2 * width, as_index(extent))
        self.taken = local(INDEX, "taken")

    def read(self, number: Scalar) -> list[Scalar]:
        return self.elements(bounded(number, self.extent, "clip"))

    def search(self) -> tuple[Statement, ...]:
        """How many of the elements before the one of this rank are taken from the first run."""
        most = local(INDEX, "most")
        first = self.middle - self.start
        fewest = maximum(self.rank - (self.stop - self.middle), ZERO)
        tried = idiv(self.taken + most, 2)
        one, *_ = self.read(self.start + tried)
        other, *_ = self.read(self.middle + (self.rank - 1 - tried))
        more = ~_comes_before(other, one)
        step = Assign(
            (self.taken, most), (where(more, tried + 1, self.taken), where(more, most, tried))
        )
        return (
            Let((self.taken, most), (fewest, minimum(self.rank, first))),
            While((), self.taken < most, (step,)),
        )

    def values(self) -> list[Scalar]:
        """The element, once it has been searched for."""
        one, other = self.start + self.taken, self.middle + (self.rank - self.taken)
        key, *_ = self.read(one)
        other_key, *_ = self.read(other)
        is_other = (other < self.stop) & ((one >= self.middle) | _comes_before(other_key, key))
        return self.read(where(is_other, other, one))


def _comes_before(x: Scalar, y: Scalar) -> Scalar:
    """Whether an element must stand before another one."""
    if x.dtype == BOOL:
        return ~x & y
    less = x < y
    return less | (ne(y, y) & eq(x, x)) if is_float(x.dtype) else less
