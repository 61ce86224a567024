"""Packed panels of columns for blocked factorisations, contiguous in the order of the tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, convert, eq, maximum, minimum
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, If, Let, Statement, Store, load, local, serial
from functrans.loop.walk import Body, with_bodies
from functrans.ops.compiled.emission import Emission, Position
from functrans.records import dataclass

Line = Callable[[Scalar], Scalar]
"""A function from a row or column to its number in memory."""


@dataclass(frozen=True)
class Panels:
    """Columns of a matrix in packed panels, whose rows are a few vectors each."""

    memory: Buffer
    batch: Position
    first: Scalar  # the number of the first panel
    count: Scalar  # the number of panels
    most: int  # the most panels
    lanes: int  # the elements of a vector
    simplify: Simplifier

    @property
    def width(self) -> int:
        """The columns of a panel."""
        return self.memory.extents[-1]

    @property
    def rows(self) -> int:
        """The number of rows for which there is room."""
        return self.memory.extents[-2]

    @property
    def indices(self) -> tuple[Scalar, Scalar]:
        """The indices of a panel, and of a column in it."""
        return index("panel", self.most), index("lane", self.width)

    def part(self, first: Scalar, most: int, stop: Scalar) -> Panels:
        """The panels from ``first`` to before ``stop``, at most ``most`` of them."""
        count = self.simplify(maximum(minimum(stop - first, most), 0))
        return replace(self, first=self.simplify(first), count=count, most=most)

    def column(self, panel: Scalar, lane: Scalar) -> Scalar:
        """The number of a column."""
        return self.simplify((self.first + panel) * self.width + lane)

    def place(self, panel: Scalar, row: Scalar, lane: Scalar) -> Position:
        return tuple(map(self.simplify, (*self.batch, self.first + panel, row, lane)))

    def element(self, panel: Scalar, row: Scalar, lane: Scalar) -> Scalar:
        return load(self.memory, self.place(panel, row, lane))

    def store(
        self, panel: Scalar, row: Scalar, lane: Scalar, value: Scalar, op: str | None = None
    ) -> Store:
        return Store(self.memory, self.place(panel, row, lane), value, op)

    def each(self, panel: Scalar, body: Sequence[Statement], *, parallel: bool = False) -> For:
        """A loop over the panels."""
        return For(panel, ZERO, self.count, tuple(body), parallel=parallel)

    def vectors(self, lane: Scalar, body: Sequence[Statement]) -> For:
        """A loop over the columns of a panel."""
        return For(lane, ZERO, const(self.width, INDEX), tuple(body), self.width, whole=True)

    def some_vectors(
        self, lane: Scalar, start: Scalar, stop: Scalar, body: Sequence[Statement],
        multiple: int = 1,
    ) -> For:  # fmt: skip
        """A loop over some columns of a panel: a multiple of some number of them."""
        lanes = min(self.lanes, multiple) if multiple > 1 else min(self.lanes, self.width)
        whole = multiple > 1
        return For(lane, self.simplify(start), self.simplify(stop), tuple(body), lanes, whole=whole)

    def inside(self, panel: Scalar, columns: int) -> Scalar:
        """The number of columns of a panel that are among the first ``columns`` of all."""
        return self.simplify(minimum(columns - self.column(panel, ZERO), self.width))


def square(at: Emission, name: str, batch: Position, like: Buffer) -> Panels:
    """Panels for the columns of square matrices, as scratch: there is room for whole panels."""
    *leading, n, _ = like.extents
    lanes = at.target.lanes(like.dtype.itemsize)
    width = 2 * lanes
    count = -(-n // width)
    memory = at.scratch(name, like.dtype, (*leading, count, count * width, width))
    return Panels(memory, batch, ZERO, const(count, INDEX), count, lanes, at.simplify)


def in_tiles(
    at: Emission, name: str, batch: Position, like: Buffer, height: int, rows: int | None = None
) -> Panels:
    """Panels for the columns of matrices, as scratch: narrow ones if these are few.

    There is room for whole tiles of a height: for all rows of the matrices, or for ``rows``.
    """
    *leading, n, columns = like.extents
    lanes = at.target.lanes(like.dtype.itemsize)
    width = 2 * lanes
    while width > 1 and width // 2 >= columns:
        width //= 2
    count, tiles = -(-columns // width), -(-(n if rows is None else rows) // height)
    memory = at.scratch(name, like.dtype, (*leading, count, tiles * height, width))
    return Panels(memory, batch, ZERO, const(count, INDEX), count, lanes, at.simplify)


def batch_of(leading: Sequence[int]) -> Position:
    """Indices of a stack of matrices; constants for a single one."""
    several = prod(leading) > 1
    return tuple(index("b", extent) if several else ZERO for extent in leading)


def for_each(batch: Position, body: Body) -> Body:
    """Loops over a stack, the outermost one parallel; for one matrix, its own loops are."""
    loops = [each for each in batch if each is not ZERO]
    for loop in reversed(loops):
        inner = tuple(map(_one_by_one, body))
        extent = const(loop.attribute[2], INDEX)
        body = (For(loop, ZERO, extent, inner, parallel=loop is loops[0]),)
    return body


def _one_by_one(statement: Statement) -> Statement:
    """A statement without parallel loops."""
    return serial(with_bodies(statement, lambda body: tuple(map(_one_by_one, body))))


def let(target: Scalar, value: Scalar) -> Let:
    return Let((target,), (value,))


def pack_columns(panels: Panels, source: Buffer, line: Line) -> Body:
    """A parallel loop that packs columns of a lower triangular matrix's transpose.

    That is, the rows ``k`` of the source for which ``line(k)`` is at most the column. After the
    last one, rows and columns are those of an identity matrix.
    """
    n = source.extents[-1]
    (panel, lane), row = panels.indices, index("row", n)
    column = panels.column(panel, lane)
    value = load(source, tuple(map(panels.simplify, (*panels.batch, line(row), line(column)))))
    store = panels.store(panel, row, lane, value)
    inner = panels.some_vectors(lane, ZERO, panels.inside(panel, n), (store,))
    stop = panels.simplify(minimum(panels.column(panel, ZERO) + panels.width, n))
    body = (For(row, ZERO, stop, (inner,)), *_identity_behind(panels, panel, lane, n))
    return (panels.each(panel, body, parallel=True),)


def pack_rows(
    panels: Panels,
    source: Buffer,
    line: Line,
    *,
    # whether elements up to the diagonal are packed, or those from the diagonal on: after the last
    # row and column, the latter are 0, and the former those of an identity matrix
    upper: bool,
    scale: float = 1.0,  # their factor
) -> Body:
    """A parallel loop that packs rows of a lower triangle as columns."""
    n, width = source.extents[-1], panels.width
    (panel, lane), k = panels.indices, index("k", n)
    lines = [local(INDEX, "at") for _ in range(width)]
    last = [minimum(panels.column(panel, const(i, INDEX)), n - 1) for i in range(width)]
    lets = [let(x, panels.simplify(line(i))) for x, i in zip(lines, last, strict=True)]
    stores = []
    for i, x in enumerate(lines):
        value = load(source, (*panels.batch, x, panels.simplify(line(k))))
        if scale != 1:
            value = value * const(scale, source.dtype)
        stores.append(panels.store(panel, k, const(i, INDEX), value))
    start = panels.column(panel, ZERO)
    if upper:
        bounds = ZERO, panels.simplify(minimum(start + width, n))
        behind = _identity_behind(panels, panel, lane, n)
    else:
        bounds = start, const(n, INDEX)
        behind = _zeros_behind(panels, panel, lane, n)
    body = (*lets, For(k, *bounds, tuple(stores), panels.lanes), *behind)
    return (panels.each(panel, body, parallel=True),)


def _identity_behind(panels: Panels, panel: Scalar, lane: Scalar, n: int) -> Body:
    """Fill the last panel, after the last row and column, with an identity matrix."""
    if n % panels.width == 0:
        return ()
    row = index("row", panels.rows)
    value = convert(eq(panels.column(panel, lane), row), panels.memory.dtype)
    one = panels.store(panel, row, lane, value)
    beside = For(lane, panels.inside(panel, n), const(panels.width, INDEX), (one,))
    right = For(row, ZERO, const(panels.rows, INDEX), (beside,))
    below = For(row, const(n, INDEX), const(panels.rows, INDEX), (panels.vectors(lane, (one,)),))
    return (If(eq(panel, panels.most - 1), (right, below)),)


def _zeros_behind(panels: Panels, panel: Scalar, lane: Scalar, n: int) -> Body:
    """Fill all panels after the last row, and the last one after the last column, with zeros."""
    if n % panels.width == 0:
        return ()
    row, rows = index("row", panels.rows), const(panels.rows, INDEX)
    zero = panels.store(panel, row, lane, const(0, panels.memory.dtype))
    beside = For(lane, panels.inside(panel, n), const(panels.width, INDEX), (zero,))
    right = For(row, panels.column(panel, ZERO), const(n, INDEX), (beside,))
    below = For(row, const(n, INDEX), rows, (panels.vectors(lane, (zero,)),))
    return (If(eq(panel, panels.most - 1), (right,)), below)
