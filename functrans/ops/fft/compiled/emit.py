"""The plan of a transform: along which axis vectors go, and in how many passes over memory."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, log2, prod
from typing import NamedTuple

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, convert, idiv, irem
from functrans.loop.statements import Buffer, For, Statement, Store, load
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.pairs import Pair
from functrans.ops.fft.compiled.butterflies import butterfly, by, factors
from functrans.ops.fft.compiled.lines import (
    Body,
    Lines,
    Parts,
    Stored,
    loop,
    radices,
    stored,
    vector_loop,
)
from functrans.vecmath.turns import turn

LONG = 4096
SHORT = 64


def emit(at: Emission) -> None:
    """The transform, in the way that is best for its axis and its length."""
    transform = _Transform(at)
    if at.eqn.inputs[0].aval.size == 0:
        return
    if transform.axis < len(transform.shape) - 1:
        transform.columns()
    elif transform.points >= LONG:
        transform.long_rows()
    elif transform.points < SHORT and transform.others >= transform.lanes:
        transform.short_rows()
    else:
        transform.rows()


MOST_BYTES = 1 << 18

Position = tuple[Scalar, ...]


class Tile(NamedTuple):
    """Lines that are transformed together.

    Parameters
    ----------
    lines : Lines
    memory : tuple of Parts
        That they may use.
    block : Scalar
        Of which block they are.
    first : Scalar
        The number of the first one.
    """

    lines: Lines
    memory: tuple[Parts, ...]
    block: Scalar
    first: Scalar


class _Transform:
    def __init__(self, at: Emission) -> None:
        self.at = at
        self.shape = at.eqn.inputs[0].aval.shape
        self.axis: int = at.eqn.params["axis"]
        self.scale: float = at.eqn.params["scale"]
        self.points = self.shape[self.axis]
        self.dtype = at.eqn.inputs[0].aval.dtype
        self.lanes = at.target.lanes(self.dtype.itemsize)
        self.others = prod(self.shape) // max(self.points, 1)
        self.x = Parts(at.operand(0), at.operand(1))
        self.out = Parts(at.result(0), at.result(1))

    # -- ways ---------------------------------------------------------------------------------

    def columns(self) -> None:
        """Along any axis but the last one, which vectors go along."""
        leading = tuple(n for i, n in enumerate(self.shape[:-1]) if i != self.axis)

        def body(tile: Tile) -> Body:
            outer = self._numbers(tile.block, leading)

            def position(j: Scalar, line: Scalar) -> Position:
                column = self.at.simplify(tile.first + line)
                return (*outer[: self.axis], j, *outer[self.axis :], column)

            return tile.lines.transform(
                tile.memory[0],
                self._turns(self.points),
                lambda k, line, y: Stored(self.out, position(k, line), self._scaled(y)),
                lambda j, line: self.x.load(*position(j, line)),
            )

        self._tiled(self.points, prod(leading), self.shape[-1], body)

    def rows(self) -> None:
        """Along the last axis, one row at a time: vectors go along its places at first."""
        radix = _first_radix(self.points)
        left = self.points // radix
        lines = self._lines(left, radix)
        memory = lines.memory()
        turns, across = self._turns(left), self._turns_across(radix, left)

        def body(number: Scalar) -> Body:
            row = self._numbers(number, self.shape[:-1])

            def first(place: Scalar) -> Body:
                x = [self.x.load(*row, self.at.simplify(place + left * j)) for j in range(radix)]
                return stored(
                    Stored(
                        memory,
                        (lines.place(place, const(k, INDEX)),),
                        by(y, *across.load(const(k, INDEX), place)) if k else y,
                    )
                    for k, y in enumerate(butterfly(x))
                )

            def write(k: Scalar, line: Scalar, y: Pair) -> Stored:
                return Stored(self.out, (*row, lines.place(k, line)), self._scaled(y))

            return (
                *vector_loop("place", left, self.lanes, first),
                *lines.transform(memory, turns, write),
            )

        self._call(self.others, body, (memory,))

    def short_rows(self) -> None:
        """Along the last axis, so many rows at a time as a vector is long."""

        def body(tile: Tile) -> Body:
            lines = tile.lines
            rows = [
                self._numbers(self.at.simplify(tile.first + line), self.shape[:-1])
                for line in range(lines.width)
            ]

            def gather(place: Scalar) -> Body:
                return stored(
                    Stored(tile.memory[0], (lines.place(place, const(i, INDEX)),), self.x.load(*row, place))
                    for i, row in enumerate(rows)
                )

            def spread(place: Scalar) -> Body:
                return stored(
                    Stored(self.out, (*row, place), self._scaled(tile.memory[1].load(lines.place(place, const(i, INDEX)))))
                    for i, row in enumerate(rows)
                )

            return (
                *vector_loop("place", self.points, self.lanes, gather),
                *lines.transform(
                    tile.memory[0],
                    self._turns(self.points),
                    lambda k, line, y: Stored(tile.memory[1], (lines.place(k, line),), y),
                ),
                *vector_loop("place", self.points, self.lanes, spread),
            )

        self._tiled(self.points, 1, self.others, body, tile=1, memories=2)

    def long_rows(self) -> None:
        """Along the last axis, in two passes: of the columns and the rows that a row is cut into."""
        leading = self.shape[:-1]
        long, short = _cut(self.points, self.lanes)
        across = self._turns_across(long, short)
        shape = (self.others, long, short)
        between = Parts(*(self.at.scratch(f"between_{part}", self.dtype, shape) for part in Parts._fields))

        def down(tile: Tile) -> Body:
            row = self._numbers(tile.block, leading)

            def read(j: Scalar, line: Scalar) -> Pair:
                return self.x.load(*row, self.at.simplify(j * short + tile.first + line))

            def write(k: Scalar, line: Scalar, y: Pair) -> Stored:
                column = self.at.simplify(tile.first + line)
                return Stored(between, (tile.block, k, column), by(y, *across.load(k, column)))

            return tile.lines.transform(tile.memory[0], self._turns(long), write, read)

        def along(tile: Tile) -> Body:
            row, lines = self._numbers(tile.block, leading), tile.lines

            def gather(place: Scalar) -> Body:
                return stored(
                    Stored(
                        tile.memory[0],
                        (lines.place(place, const(i, INDEX)),),
                        between.load(tile.block, self.at.simplify(tile.first + i), place),
                    )
                    for i in range(lines.width)
                )

            def write(k: Scalar, line: Scalar, y: Pair) -> Stored:
                place = self.at.simplify(k * long + tile.first + line)
                return Stored(self.out, (*row, place), self._scaled(y))

            return (
                *vector_loop("place", short, self.lanes, gather),
                *lines.transform(tile.memory[0], self._turns(short), write),
            )

        self._tiled(long, self.others, short, down, writes=between)
        self._tiled(short, self.others, long, along, tile=1)

    # -- what they share ----------------------------------------------------------------------

    def _tiled(
        self,
        points: int,
        blocks: int,
        width: int,
        body: Callable[[Tile], Body],
        *,
        tile: int = 4,
        memories: int = 1,
        writes: Parts | None = None,
    ) -> None:
        """Cut so many lines, in each of some blocks, into tiles, of which threads take their shares.

        A tile is at most so many vectors wide.
        """
        most = self.lanes
        room = MOST_BYTES // (2 * memories * points * self.dtype.itemsize)
        while most < tile * self.lanes and 2 * most <= room:
            most *= 2
        while most > max(room, 1):
            most //= 2
        whole = width // most * most
        for start, extent, count in ((0, most, whole // most), (whole, width - whole, 1)):
            if extent and count:
                lines = self._lines(points, extent)
                memory = tuple(lines.memory() for _ in range(memories))

                def one(
                    number: Scalar,
                    lines: Lines = lines,
                    memory: tuple[Parts, ...] = memory,
                    start: int = start,
                    count: int = count,
                ) -> Body:
                    block = self.at.simplify(idiv(number, count))
                    first = self.at.simplify(irem(number, count) * lines.width + start)
                    return body(Tile(lines, memory, block, first))

                share = extent * count / width
                self._call(blocks * count, one, memory, writes, share)

    def _lines(self, points: int, width: int) -> Lines:
        return Lines(points, width, self.dtype, self.lanes, self.at.simplify)

    def _scaled(self, y: Pair) -> Pair:
        return y if self.scale == 1 else Pair(y.re * self.scale, y.im * self.scale)

    def _numbers(self, number: Scalar, extents: tuple[int, ...]) -> Position:
        """The indices along axes of the element of a number, row by row."""
        found: list[Scalar] = []
        for extent in reversed(extents):
            found.append(self.at.simplify(irem(number, extent)) if extent > 1 else ZERO)
            number = idiv(number, extent)
        return tuple(reversed(found))

    def _call(
        self,
        count: int,
        body: Callable[[Scalar], Body],
        stack: tuple[Parts, ...],
        writes: Parts | None = None,
        share: float = 1.0,
    ) -> None:
        """Do what is done for each of so many numbers, of which threads take their shares."""
        number = index("number", count)
        statements = body(ZERO) if count == 1 else body(number)
        if count > 1:
            stop = const(count, INDEX)
            statements = (For(number, ZERO, stop, statements, parallel=True),)
        self.at.call(
            statements,
            work=int(share * prod(self.shape) * log2(self.points + 1)),
            stack=[part for parts in stack for part in parts],
            writes=writes,
        )

    def _turns(self, points: int) -> Parts | None:
        """Multiples of a turn by a number of points, once for all that ask."""
        if len(radices(points)) == 1:
            return None

        def make() -> Parts:
            k = index("k", points)
            table = self._table("turns", (points,))
            loops = vector_loop("k", points, self.lanes, lambda k: self._turn(table, (k,), k, points))
            self.at.call(loops, work=16 * points, writes=table)
            return table

        return self.at.shared((_Transform, self.dtype, points), make)

    def _turns_across(self, rows: int, columns: int) -> Parts:
        """The products of two numbers, as parts of a turn by the product of how many there are."""

        def make() -> Parts:
            table = self._table("across", (rows, columns))
            row = index("row", rows)
            body = vector_loop(
                "column",
                columns,
                self.lanes,
                lambda column: self._turn(table, (row, column), row * column, rows * columns),
            )
            self.at.call(
                (For(row, ZERO, const(rows, INDEX), body, parallel=True),),
                work=16 * rows * columns,
                writes=table,
            )
            return table

        return self.at.shared((_Transform, self.dtype, rows, columns), make)

    def _table(self, name: str, shape: tuple[int, ...]) -> Parts:
        return Parts(*(self.at.scratch(f"{name}_{part}", self.dtype, shape) for part in ("cos", "sin")))

    def _turn(self, table: Parts, position: tuple[Scalar, ...], numerator: Scalar, steps: int) -> Body:
        values = turn(numerator, steps)
        return stored(iter([Stored(table, position, Pair(*(convert(x, self.dtype) for x in values)))]))


def _stretches(extent: int, width: int) -> list[tuple[int, int]]:
    whole = extent // width * width
    return [(start, stop) for start, stop in ((0, whole), (whole, extent)) if start < stop]


def _first_radix(points: int) -> int:
    for radix in (8, 16, 12, 10, 9, 15, 14, 6, 5, 7, 4, 3, 2, 11, 13):
        if points % radix == 0:
            return radix
    return points


def _cut(points: int, lanes: int) -> tuple[int, int]:
    """Two factors near to the square root, if possible such that vectors are full."""
    pairs = [(d, points // d) for d in range(2, points) if points % d == 0]
    return min(pairs, key=lambda p: (sum(x % lanes != 0 for x in p) * 2 + abs(log2(p[0] / p[1])), p))
