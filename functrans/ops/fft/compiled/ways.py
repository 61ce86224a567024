"""Plans of fast Fourier transforms: the axis that vectors go along, and the number of passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isqrt, log2, prod

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, idiv, irem
from functrans.loop.statements import For
from functrans.loop.walk import Body
from functrans.loop.walk import stored as written
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.compiled.pairs import Pair
from functrans.ops.fft.compiled.butterflies import butterfly, by
from functrans.ops.fft.compiled.lines import (
    Lines,
    Parts,
    Stored,
    radices,
    stored,
    vector_loop,
)
from functrans.ops.fft.compiled.tables import Tables
from functrans.ops.fft.split import factors
from functrans.records import NamedTuple


class Transforms(NamedTuple):
    """Thresholds between plans of Fourier transforms. Measured: all (512x512 points)."""

    long: int = 1 << 20
    """The fewest points of a row or column that is transformed in two passes, as a matrix."""
    shared: int = 1 << 15
    """The fewest points of each of a few rows for which threads share the butterflies of a row.
    Measured: one row on two threads (a pass over 16,384 points is too short to be shared)."""
    few: int = 8
    """With fewer rows than this, some threads may have no row."""
    short: int = 64
    """A row of fewer points has few vectors: several rows are transformed together."""
    uneven: int = 4096
    """So are rows of fewer points, if the first butterfly fills less than half of each vector."""
    wide: int = 512
    """The most bytes of neighbouring columns that are transformed together: cache lines that are a
    power of two apart share few sets of the cache, and are not prefetched."""
    largest_tile: int = 1 << 19
    """The most bytes of the lines that are transformed together."""
    far: int = 1 << 12
    """The distance in bytes at which numbers share a set of the first-level cache: of eight complex
    numbers in separate parts, some are evicted before the rest of their cache lines is read."""


FIRST_RADICES = (8, 16, 12, 10, 9, 15, 14, 6, 5, 7, 4, 3, 2, 11, 13)
"""Lengths of the first butterfly: of the divisors of a row's points, the first one that fills
vectors, which go across as many lines afterwards; else the first one, or the least prime factor."""


MANY_REGISTERS = 32
"""The fewest registers that hold eight complex numbers and the intermediate results."""


class Tile(NamedTuple):
    """Lines that are transformed together."""

    lines: Lines
    memory: tuple[Parts, ...]  # buffers that the transform may use
    block: Scalar  # the index of the block that the lines belong to
    first: Scalar  # the index of the first line in the block


def emit(at: Emission) -> None:
    """The transform, by the plan for its axis and its length."""
    shape, axis = at.eqn.inputs[0].aval.shape, at.eqn.params["axis"]
    transform, limits = _Transform(at), at.target[Transforms]
    if 0 in shape:
        return
    if axis < len(shape) - 1:
        tile = 2 * shape[axis] * transform.lanes * transform.dtype.itemsize
        if tile <= limits.largest_tile or not _is_cut(shape[axis]):
            transform.columns()
        elif shape[axis] >= limits.long or at.target.lanes_are_threads:
            transform.long_columns()
        else:
            transform.shared_columns()
    elif shape[axis] >= limits.long and _is_cut(shape[axis]):
        transform.long_rows()
    elif transform.others >= transform.lanes and transform.is_short():
        transform.short_rows()
    else:
        transform.rows()


class _Transform:
    def __init__(self, at: Emission) -> None:
        self.at = at
        self.shape = at.eqn.inputs[0].aval.shape
        self.axis: int = at.eqn.params["axis"]
        self.points = self.shape[self.axis]
        self.others = prod(n for i, n in enumerate(self.shape) if i != self.axis)
        self.dtype = at.eqn.inputs[0].aval.dtype
        self.limits = at.target[Transforms]
        self.lanes = at.target.lanes(self.dtype.itemsize)
        self.tables = Tables(at, self.dtype)
        scale: float = at.eqn.params["scale"]
        self.scale = None if scale == 1 else self.tables.number(scale)
        self.x = Parts(at.operand(0), at.operand(1))
        self.out = Parts(at.result(0), at.result(1))

    def columns(self) -> None:
        """Transforms along any axis but the last one; vectors go along the last axis."""
        leading = self._leading()
        turns = self._turns(self.points)

        def body(tile: Tile) -> Body:
            outer = self._numbers(tile.block, leading)
            return tile.lines.transform(
                tile.memory[0],
                turns,
                lambda k, line, y: self._result(self._in_column(outer, k, tile, line), y),
                lambda j, line: self.x.load(*self._in_column(outer, j, tile, line)),
            )

        self._tiled(self.points, prod(leading), self.shape[-1], body, vectors=self._wide())

    def long_columns(self) -> None:
        """`columns` in two passes: each column is a matrix, as in `long_rows`."""
        leading = self._leading()
        height, width = _cut(self.points, 1)
        products = self.tables.products(height, width)
        down_turns, along_turns = self._turns(height), self._turns(width)
        matrices = self._matrices((prod(leading), height, width, self.shape[-1]))

        def down(tile: Tile) -> Body:
            number, row = self._numbers(tile.block, (prod(leading), width))
            outer = self._numbers(number, leading)

            def read(j: Scalar, line: Scalar) -> Pair:
                place = self.at.simplify(j * width + row)
                return self.x.load(*self._in_column(outer, place, tile, line))

            def write(k: Scalar, line: Scalar, y: Pair) -> Stored:
                position = (number, k, row, self.at.simplify(tile.first + line))
                return Stored(matrices, position, by(y, *products.load(k, row)))

            return tile.lines.transform(tile.memory[0], down_turns, write, read)

        def along(tile: Tile) -> Body:
            number, row = self._numbers(tile.block, (prod(leading), height))
            outer = self._numbers(number, leading)

            def read(j: Scalar, line: Scalar) -> Pair:
                return matrices.load(number, row, j, self.at.simplify(tile.first + line))

            def write(k: Scalar, line: Scalar, y: Pair) -> Stored:
                place = self.at.simplify(k * height + row)
                return self._result(self._in_column(outer, place, tile, line), y)

            return tile.lines.transform(tile.memory[0], along_turns, write, read)

        count, columns, wide = prod(leading), self.shape[-1], self._wide()
        self._tiled(height, count * width, columns, down, vectors=wide, writes=matrices)
        self._tiled(width, count * height, columns, along, vectors=wide)

    def shared_columns(self) -> None:
        """`columns` for long columns, a few at a time: threads share their butterflies."""
        leading = self._leading()
        turns = self._turns(self.points)
        columns = self.shape[-1]
        width = next(n for n in range(min(columns, self.lanes), 0, -1) if columns % n == 0)
        lines = self._lines(self.points, width)
        memory = self._scratch(lines)

        def body(number: Scalar) -> Body:
            block, first = self._numbers(number, (prod(leading), columns // width))
            tile = Tile(lines, (memory,), block, self.at.simplify(first * width))
            outer = self._numbers(block, leading)
            return lines.transform(
                memory,
                turns,
                lambda k, line, y: self._result(self._in_column(outer, k, tile, line), y),
                lambda j, line: self.x.load(*self._in_column(outer, j, tile, line)),
            )

        self._call_in_phases(prod(leading) * (columns // width), body)

    def rows(self) -> None:
        """Transforms along the last axis, one row at a time.

        Vectors of the first butterflies go along the row. Their results form as many adjacent lines
        as a butterfly has points; in the other stages, vectors go across these lines.
        """
        radix = self._first_radix()
        left = self.points // radix
        lines = self._lines(left, radix)
        shared = self._are_shared()
        memory = self._scratch(lines) if shared else lines.memory()
        turns, products = self._turns(left), self.tables.products(radix, left)

        def body(number: Scalar) -> Body:
            row = self._numbers(number, self.shape[:-1])

            def first(place: Scalar) -> Body:
                x = [self.x.load(*row, self.at.simplify(place + left * j)) for j in range(radix)]
                return stored(
                    Stored(
                        memory,
                        (lines.place(place, const(k, INDEX)),),
                        by(y, *products.load(const(k, INDEX), place)) if k else y,
                    )
                    for k, y in enumerate(butterfly(x))
                )

            return (
                *vector_loop("place", left, self.lanes, first),
                *lines.transform(
                    memory, turns, lambda k, line, y: self._result((*row, lines.place(k, line)), y)
                ),
            )

        if shared:
            self._call_in_phases(self.others, body)
        else:
            self._call(self.others, body, (memory,))

    def is_short(self) -> bool:
        """Whether vectors go across rows rather than along them."""
        if self.points < self.limits.short:
            return True
        if self.at.target.lanes_are_threads or self.points >= self.limits.uneven:
            return False
        # half-filled vectors are still faster than rows side by side, which take more cache
        return 2 * self._first_radix() % self.lanes != 0

    def _is_full(self, radix: int) -> bool:
        return radix % self.lanes == 0 and radix * self.lanes <= self.points

    def _first_radix(self) -> int:
        divisors = [r for r in (*FIRST_RADICES, *factors(self.points)) if self.points % r == 0]
        return next(filter(self._is_full, divisors), divisors[0])

    def _are_shared(self) -> bool:
        """Whether threads share the butterflies of each row."""
        if self.at.target.lanes_are_threads:
            return False
        is_large = self._lines(self.points, 1).nbytes > self.at.target.largest_stack
        return is_large or (self.others < self.limits.few and self.points >= self.limits.shared)

    def short_rows(self) -> None:
        """Transforms along the last axis, as many rows at once as a vector has lanes."""
        turns = self._turns(self.points)

        def body(tile: Tile) -> Body:
            lines, (memory, done) = tile.lines, tile.memory
            rows = [
                self._numbers(self.at.simplify(tile.first + line), self.shape[:-1])
                for line in range(lines.width)
            ]

            def spread(place: Scalar) -> Body:
                return stored(
                    self._result((*row, place), done.load(lines.place(place, const(i, INDEX))))
                    for i, row in enumerate(rows)
                )

            return (
                *self._gathered(lines, memory, lambda i, place: self.x.load(*rows[i], place)),
                *lines.transform(
                    memory, turns, lambda k, line, y: Stored(done, (lines.place(k, line),), y)
                ),
                *vector_loop("place", self.points, self.lanes, spread),
            )

        self._tiled(self.points, 1, self.others, body, memories=2)

    def long_rows(self) -> None:
        """The four-step method (Bailey, "FFTs in external or hierarchical memory"), in two passes.

        Each row is a matrix, whose columns are transformed first, and then its rows.
        """
        leading = self.shape[:-1]
        height, width = _cut(self.points, self.lanes)
        products = self.tables.products(height, width)
        down_turns, along_turns = self._turns(height), self._turns(width)
        matrices = self._matrices((self.others, height, width))

        def down(tile: Tile) -> Body:
            row = self._numbers(tile.block, leading)

            def read(j: Scalar, line: Scalar) -> Pair:
                return self.x.load(*row, self.at.simplify(j * width + tile.first + line))

            def write(k: Scalar, line: Scalar, y: Pair) -> Stored:
                column = self.at.simplify(tile.first + line)
                turned = by(y, *products.load(k, column))
                return Stored(matrices, (tile.block, k, column), turned)

            return tile.lines.transform(tile.memory[0], down_turns, write, read)

        def along(tile: Tile) -> Body:
            row, memory = self._numbers(tile.block, leading), tile.memory[0]

            def read(i: int, place: Scalar) -> Pair:
                return matrices.load(tile.block, self.at.simplify(tile.first + i), place)

            def write(k: Scalar, line: Scalar, y: Pair) -> Stored:
                place = self.at.simplify(k * height + tile.first + line)
                return self._result((*row, place), y)

            return (
                *self._gathered(tile.lines, memory, read),
                *tile.lines.transform(memory, along_turns, write),
            )

        self._tiled(height, self.others, width, down, vectors=self._wide(), writes=matrices)
        self._tiled(width, self.others, height, along)

    # -- common parts -------------------------------------------------------------------------

    def _tiled(
        self, points: int, blocks: int, width: int, body: Callable[[Tile], Body], *,
        vectors: int = 1, memories: int = 1, writes: Parts | None = None,
    ) -> None:  # fmt: skip
        """Cut the lines of each block, whose number is its width, into tiles of some vectors.

        The last tile of a block may have another width.
        """
        room = self.limits.largest_tile // (2 * memories * points * self.dtype.itemsize)
        most = vectors * self.lanes
        while most > 1 and most > room:
            most //= 2
        tiles, rest = divmod(width, most)
        if tiles and 0 < rest < self.lanes:
            # the rest is shorter than a vector: the last tile includes it
            tiles, rest = tiles - 1, most + rest
        for start, extent, count in ((0, most, tiles), (width - rest, rest, 1)):
            if extent and count:
                lines = self._lines(points, extent)
                # threads share tiles, whose lines are on their stacks, or the butterflies of each
                shared = lines.nbytes > self.at.target.largest_stack
                memory = tuple(
                    self._scratch(lines) if shared else lines.memory() for _ in range(memories)
                )

                def one(
                    number: Scalar, lines: Lines = lines, memory: tuple[Parts, ...] = memory,
                    start: int = start, count: int = count,
                ) -> Body:  # fmt: skip
                    block = self.at.simplify(idiv(number, count))
                    first = self.at.simplify(irem(number, count) * lines.width + start)
                    return body(Tile(lines, memory, block, first))

                if shared:
                    self._call_in_phases(blocks * count, one)
                else:
                    self._call(blocks * count, one, memory, writes)

    def _call_in_phases(self, count: int, body: Callable[[Scalar], Body]) -> None:
        """Execute a body for each index in sequence: threads share its loops over butterflies.

        Those for a single index are calls of their own.
        """
        number = index("number", count) if count > 1 else ZERO
        loops = tuple(
            replace(each, parallel=True) if isinstance(each, For) else each for each in body(number)
        )
        if count > 1:
            loops = (For(number, ZERO, const(count, INDEX), loops),)
        # names of values do not live from one call to the next
        is_cut = all(isinstance(each, For) for each in loops)
        for part in [(each,) for each in loops] if is_cut else [loops]:
            writes = sorted(written(part), key=lambda one: one.name)
            self.at.call(part, writes=writes, in_phases=True)

    def _call(
        self, count: int, body: Callable[[Scalar], Body], memory: tuple[Parts, ...],
        writes: Parts | None = None,
    ) -> None:  # fmt: skip
        """Execute a body for each index: threads share the indices."""
        if count == 1:
            statements = body(ZERO)
        else:
            number = index("number", count)
            stop = const(count, INDEX)
            statements = (For(number, ZERO, stop, body(number), parallel=True),)
        self.at.call(
            statements,
            stack=[part for parts in memory for part in parts],
            writes=writes,
        )

    def _gathered(self, lines: Lines, memory: Parts, read: Callable[[int, Scalar], Pair]) -> Body:
        """Copy rows so that they lie side by side."""

        def one(place: Scalar) -> Body:
            return stored(
                Stored(memory, (lines.place(place, const(i, INDEX)),), read(i, place))
                for i in range(lines.width)
            )

        return vector_loop("place", lines.points, self.lanes, one)

    def _scratch(self, lines: Lines) -> Parts:
        """Buffers for lines that threads share.

        The real and the imaginary part of a number do not share a set of the cache.
        """
        half = max(1, self.limits.far // (2 * self.dtype.itemsize))
        extent = lines.points * lines.width
        extent += (half - extent) % (2 * half)
        return Parts(
            *(self.at.scratch(part.name, part.dtype, (extent,)) for part in lines.memory())
        )

    def _matrices(self, shape: tuple[int, ...]) -> Parts:
        """Buffers for the results of the first of two passes."""
        return Parts(
            *(self.at.scratch(f"matrix_{part}", self.dtype, shape) for part in Parts._fields)
        )

    def _wide(self) -> int:
        """The number of vectors of neighbouring columns that are transformed together."""
        return max(1, self.limits.wide // (self.lanes * self.dtype.itemsize))

    def _leading(self) -> tuple[int, ...]:
        """The extents of all axes but the last one and the axis of the transform."""
        return tuple(n for i, n in enumerate(self.shape[:-1]) if i != self.axis)

    def _in_column(self, outer: Position, place: Scalar, tile: Tile, line: Scalar) -> Position:
        """The position of an element of a column, for given indices along the leading axes."""
        column = self.at.simplify(tile.first + line)
        return (*outer[: self.axis], place, *outer[self.axis :], column)

    def _lines(self, points: int, width: int) -> Lines:
        shared = self.at.target.lanes_are_threads
        large = self._large(width)
        return Lines(points, width, self.dtype, self.lanes, self.at.simplify, large, shared)

    def _large(self, width: int) -> int:
        """The distance in elements from which butterflies have four points instead of eight."""
        if self.at.target.registers < MANY_REGISTERS:
            return 1
        return max(2, self.limits.far // (width * self.dtype.itemsize))

    def _turns(self, points: int) -> Parts | None:
        several = len(radices(points, self._large(1))) > 1
        return self.tables.multiples(points) if several else None

    def _result(self, position: Position, y: Pair) -> Stored:
        scale = self.scale
        return Stored(self.out, position, y if scale is None else Pair(y.re * scale, y.im * scale))

    def _numbers(self, number: Scalar, extents: tuple[int, ...]) -> Position:
        """The indices along axes of an element, by its number in row-major order."""
        found: list[Scalar] = []
        for extent in reversed(extents):
            found.append(self.at.simplify(irem(number, extent)) if extent > 1 else ZERO)
            number = idiv(number, extent)
        return tuple(reversed(found))


def _is_cut(points: int) -> bool:
    """Whether a number is composite."""
    return len(factors(points)) > 1


def _cut(points: int, lanes: int) -> tuple[int, int]:
    """Two factors near the square root, multiples of the lanes if possible."""
    divisors = [d for d in range(2, isqrt(points) + 1) if points % d == 0]
    pairs = [pair for d in divisors for pair in ((d, points // d), (points // d, d))]

    def badness(pair: tuple[int, int]) -> float:
        return 2 * sum(n % lanes != 0 for n in pair) + abs(log2(pair[0] / pair[1]))

    return min(pairs, key=badness)
