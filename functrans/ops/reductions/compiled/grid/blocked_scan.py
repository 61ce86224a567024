"""Parallel prefix sums on a grid: block totals, a scan of these, and a scan in each block.

A line is cut into blocks. The total of each block is computed first; a scan of the totals, done in
the same way, gives the initial value of each block. A block belongs to one thread if neighbouring
threads scan neighbouring columns. Otherwise it belongs to a team: each thread scans a chunk, and
the totals of the chunks are scanned in steps over 1, 2, 4, ... of them (Hillis and Steele, "Data
parallel algorithms", 1986). If one team for each line is enough to keep the machine busy, a line is
one block: the team scans it tile by tile, and carries its total on.

The order of the operations depends on the shape alone. Blocks do not look back at the running
totals of earlier blocks (docs/cuda.md says why).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from functrans.caches import cached_property
from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO, as_index, block_range, guard, identity, index
from functrans.loop.scalar import Scalar, const, idiv, irem
from functrans.loop.statements import (
    Assign,
    Buffer,
    For,
    If,
    Let,
    Reduce,
    Statement,
    Store,
    load,
    local,
)
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.compiled.statements import dealt, nest
from functrans.records import NamedTuple, dataclass


def emit(op: str, at: Emission) -> None:
    """Combine each element with all preceding ones along an axis, by a scalar operation."""
    grid = at.target.grid
    assert grid is not None
    source, target = at.operand(0), at.result()
    if target.count:
        _Scan(at, grid, op, at.eqn.params["axis"], source, target, at.eqn.params["reverse"]).run()


@dataclass(frozen=True)
class _Scan:
    """A scan of a buffer along an axis, into another buffer of the same shape."""

    at: Emission
    grid: Grid
    op: str  # the scalar operation
    axis: int
    source: Buffer
    target: Buffer
    reverse: bool = False  # whether it runs from the end to the beginning

    @cached_property
    def extent(self) -> int:
        return self.target.extents[self.axis]

    @cached_property
    def start(self) -> Scalar:
        """The neutral element."""
        return const(identity(self.op, self.target.dtype), self.target.dtype)

    @cached_property
    def is_of_columns(self) -> bool:
        """Whether neighbouring threads scan neighbouring columns, or lines are short."""
        after = prod(self.target.extents[self.axis + 1 :])
        return after >= self.grid.warp or self.extent <= self.grid.shortest

    def combined(self, x: Scalar, y: Scalar) -> Scalar:
        return Scalar(self.op, (x, y), self.target.dtype)

    def along(self, position: Position, number: Scalar) -> Position:
        """The position of the element that is scanned as ``number``, on the line of a position."""
        if self.reverse:
            number = const(self.extent - 1, INDEX) - number
        return (*position[: self.axis], number, *position[self.axis + 1 :])

    def element(self, position: Position, number: Scalar) -> Scalar:
        return load(self.source, self.along(position, number))

    def loops(self, count: int) -> Position:
        """Indices of all lines, and of ``count`` blocks along the axis."""
        extents = self.target.extents
        return tuple(
            index("block", count) if axis == self.axis else index("line", extent)
            for axis, extent in enumerate(extents)
        )

    def call(self, loops: Position, body: tuple[Statement, ...], target: Buffer,
             *stack: Buffer) -> None:  # fmt: skip
        statements = nest(loops, body, parallel=True)
        self.at.call(statements, stack=stack, writes=(target,))

    # -- the three steps ------------------------------------------------------------------------

    def run(self) -> None:
        grid = self.grid
        lines = self.target.count // self.extent
        if self.is_of_columns:
            wanted = -(-grid.busy // lines)
            blocks = max(min(wanted, self.extent // grid.shortest), 1)
            self.in_threads(-(-self.extent // blocks))
            return
        chunk = grid.iterations
        threads, most = grid.warp, self.most_threads(chunk)
        limit = most if self.extent <= most * chunk else min(grid.block, most)
        while threads < limit and threads * chunk < self.extent:
            threads *= 2
        in_turns = self.threads_of_a_line(chunk)
        if threads * chunk < self.extent and in_turns:
            self.in_teams(in_turns, chunk, -(-self.extent // (in_turns * chunk)))
        else:
            self.in_teams(threads, min(chunk, -(-self.extent // threads)), 1)

    def most_threads(self, chunk: int) -> int:
        """The threads of the largest team whose rows fit into shared memory."""
        threads = self.grid.largest_team
        while threads > self.grid.warp and not self.has_room(threads, chunk):
            threads //= 2
        return threads

    def has_room(self, threads: int, chunk: int) -> bool:
        nbytes = threads * ((chunk | 1) + 2) * self.target.dtype.itemsize
        return nbytes <= self.grid.rows

    def threads_of_a_line(self, chunk: int) -> int:
        """The threads for each line that keep the machine busy; 0 if their rows do not fit."""
        grid, lines = self.grid, self.target.count // self.extent
        threads = grid.warp
        while threads * lines < grid.threads:
            threads *= 2
        return threads if threads <= grid.largest_team and self.has_room(threads, chunk) else 0

    def before_blocks(self, length: int) -> Callable[[Position, Scalar], Scalar]:
        """A function that gives the combined total of all blocks before one, on a line."""
        count = -(-self.extent // length) - 1
        if not count:
            return lambda position, block: self.start
        extents = list(self.target.extents)
        extents[self.axis] = count
        sums = self.at.scratch("sums", self.target.dtype, extents)
        self.sum_blocks(sums, length)
        if count > 1:
            scanned = self.at.scratch("scanned", self.target.dtype, extents)
            replace(self, source=sums, target=scanned, reverse=False).run()
            sums = scanned

        def before(position: Position, block: Scalar) -> Scalar:
            previous = (*position[: self.axis], block - 1, *position[self.axis + 1 :])
            return guard(block > 0, load(sums, previous), self.start)

        return before

    def sum_blocks(self, sums: Buffer, length: int) -> None:
        """Compute the totals of all blocks but the last; these have equally many elements."""
        loops = self.loops(sums.extents[self.axis])
        term, total = index("k", length), local(self.target.dtype, "total")
        value = self.element(loops, loops[self.axis] * length + term)
        lanes = 1 if self.is_of_columns else self.grid.warp
        fold = Reduce(
            (total,), (self.op,), (value,), ((term, ZERO, as_index(length)),), lanes=lanes
        )
        self.call(loops, (fold, Store(sums, loops, total)), sums)

    # -- a block --------------------------------------------------------------------------------

    def in_threads(self, length: int) -> None:
        """One thread scans each block, with the total in a local."""
        loops = self.loops(-(-self.extent // length))
        begin = self.before_blocks(length)(loops, loops[self.axis])
        number, total = index("r", self.extent), local(self.target.dtype, "total")
        new = self.combined(total, self.element(loops, number))
        start, stop = block_range(loops[self.axis], length, as_index(self.extent))
        step = Assign((total,), (new,)), Store(self.target, self.along(loops, number), total)
        self.call(loops, (Let((total,), (begin,)), For(number, start, stop, step)), self.target)

    def in_teams(self, threads: int, chunk: int, tiles: int) -> None:
        """One team scans each block, in tiles of chunks."""
        dtype, tile = self.target.dtype, threads * chunk
        before = self.before_blocks(tiles * tile)
        for part in self.parts(tile, tiles):
            # an odd row length, so that the threads of a warp access different banks
            row = self.at.scratch("row", dtype, (threads, chunk | 1))
            ends = [self.at.scratch("ends", dtype, (threads,)) for _ in range(2)]
            loops, first = self.loops(part.blocks), local(dtype, "first")
            block = loops[self.axis] + part.first
            turn = index("tile", part.whole) if part.whole > 1 else ZERO
            team = _Tile(self, loops, first, row, chunk, ends, part.whole + part.rest > 1)
            body: tuple[Statement, ...] = (Let((first,), (before(loops, block),)),)
            if part.whole:
                one = team.statements((block * tiles + turn) * tile, True)
                body += nest((turn,), one) if part.whole > 1 else one
            if part.rest:
                body += team.statements((block * tiles + part.whole) * tile, False)
            self.call(loops, body, self.target, row, *ends)

    def parts(self, tile: int, tiles: int) -> list[_Part]:
        """The blocks of a line; those of whole tiles need no bounds checks."""
        whole, left = divmod(self.extent, tile)
        rest = min(left, 1)
        if tiles > 1 or not whole:
            return [_Part(0, 1, whole, rest)]
        if rest and self.target.count // self.extent * whole * tile < self.grid.threads:
            return [_Part(0, whole + 1, 0, 1)]  # too few for a kernel of their own
        return [_Part(0, whole, 1, 0), *([_Part(whole, 1, 0, 1)] if rest else [])]

    def dealt(self, loops: Position, *body: Statement) -> tuple[Statement, ...]:
        """Loops of independent iterations, divided among the threads of a team."""
        return dealt(loops, body, self.at.target)


class _Part(NamedTuple):
    """Equal blocks of a line."""

    first: int
    blocks: int
    whole: int  # the number of whole tiles of each block
    rest: int  # 1 if a partial tile follows, else 0


@dataclass(frozen=True)
class _Tile:
    """A team's scan of a tile: each thread scans a chunk, then the chunks' totals are scanned."""

    scan: _Scan
    loops: Position  # the line
    first: Scalar  # a local with the total before the tile
    row: Buffer  # shared memory for the chunks, padded to an odd length
    chunk: int
    ends: Sequence[Buffer]  # two rows for the totals of chunks
    keeps_on: bool  # whether another tile follows

    def statements(self, begin: Scalar, whole: bool) -> tuple[Statement, ...]:
        """The scan of the tile that starts at ``begin``; a ``whole`` one needs no bounds checks."""
        scan, row, first = self.scan, self.row, self.first
        threads = row.extents[0]
        one, i, k = self.places()
        fetched = scan.element(self.loops, begin + one)
        if not whole:
            fetched = guard(begin + one < scan.extent, fetched, scan.start)
        body = [*scan.dealt((one,), Store(row, (i, k), fetched)), *self.scan_chunks()]
        ends, distance = list(self.ends), 1
        while distance < threads:
            old, new = ends
            j = index("thread", threads)
            before, own = load(old, (j - distance,)), load(old, (j,))
            sums = guard(j >= distance, scan.combined(before, own), own)
            body += scan.dealt((j,), Store(new, (j,), sums))
            ends = [new, old]
            distance *= 2
        one, i, k = self.places()
        before = guard(i > 0, scan.combined(first, load(ends[0], (i - 1,))), first)
        result = scan.combined(before, load(row, (i, k)))
        store = Store(scan.target, scan.along(self.loops, begin + one), result)
        body += scan.dealt((one,), store if whole else If(begin + one < scan.extent, (store,)))
        if self.keeps_on:
            last = load(ends[0], (threads - 1,))
            body.append(Assign((first,), (scan.combined(first, last),)))
        return tuple(body)

    def places(self) -> tuple[Scalar, Scalar, Scalar]:
        """The index of a loop over a tile, the element's chunk, and its position in the chunk."""
        one = index("one", self.row.extents[0] * self.chunk)
        return one, idiv(one, self.chunk), irem(one, self.chunk)

    def scan_chunks(self) -> tuple[Statement, ...]:
        """Each thread scans a chunk in place."""
        scan, row = self.scan, self.row
        i, k = index("thread", row.extents[0]), index("k", self.chunk)
        total = local(row.dtype, "total")
        new = scan.combined(total, load(row, (i, k)))
        steps = nest((k,), (Assign((total,), (new,)), Store(row, (i, k), total)))
        begin, end = Let((total,), (scan.start,)), Store(self.ends[0], (i,), total)
        return scan.dealt((i,), begin, *steps, end)
