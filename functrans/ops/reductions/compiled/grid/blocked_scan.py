"""Parallel prefix sums on a grid: what blocks come to, a scan of that, and a scan in each block.

A line is cut into blocks. What each comes to is found first; a scan of that, done in the same way,
is what the blocks begin with. A block is one thread's where neighbouring threads go down
neighbouring columns. Else it is a team's: each of its threads scans a chunk, and what the chunks
come to is scanned in steps over 1, 2, 4, ... of them (Hillis and Steele, "Data parallel
algorithms", 1986). Where lines are so many that a team each keeps the machine busy, a line is one
block: the team goes over it tile by tile, and carries on what it has come to.

Which numbers are combined first follows from the shape alone. Blocks do not look back at what
others have come to meanwhile (docs/cuda.md says why).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from functrans.caches import cached_property
from functrans.loop.grid import Grid
from functrans.loop.nodes import INDEX, ZERO, as_index, block_range, guard, identity, index
from functrans.loop.scalar import Scalar, const
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


def emit(op: str, at: Emission) -> None:
    """Combine each element with all before it along an axis, by a scalar operation."""
    grid = at.target.grid
    assert grid is not None
    source, target = at.operand(0), at.result()
    if target.count:
        _Scan(at, grid, op, at.eqn.params["axis"], source, target, at.eqn.params["reverse"]).run()


@dataclass(frozen=True)
class _Scan:
    """A scan of a buffer along an axis, into another of the same shape.

    Parameters
    ----------
    at : Emission
    grid : Grid
    op : str
        The scalar operation.
    axis : int
    source, target : Buffer
    reverse : bool
        Whether it goes from the end to the beginning.
    """

    at: Emission
    grid: Grid
    op: str
    axis: int
    source: Buffer
    target: Buffer
    reverse: bool = False

    @cached_property
    def extent(self) -> int:
        return self.target.extents[self.axis]

    @cached_property
    def start(self) -> Scalar:
        """The neutral element."""
        return const(identity(self.op, self.target.dtype), self.target.dtype)

    @cached_property
    def is_of_columns(self) -> bool:
        """Whether neighbouring threads go down neighbouring columns, or a line is short."""
        after = prod(self.target.extents[self.axis + 1 :])
        return after >= self.grid.warp or self.extent <= self.grid.shortest

    def combined(self, x: Scalar, y: Scalar) -> Scalar:
        return Scalar(self.op, (x, y), self.target.dtype)

    def along(self, position: Position, number: Scalar) -> Position:
        """The element of a line that comes at a number; the line is that of a position."""
        if self.reverse:
            number = const(self.extent - 1, INDEX) - number
        return (*position[: self.axis], number, *position[self.axis + 1 :])

    def element(self, position: Position, number: Scalar) -> Scalar:
        return load(self.source, self.along(position, number))

    def loops(self, count: int) -> Position:
        """Indices of all lines, each with a number of something."""
        extents = self.target.extents
        return tuple(
            index("block", count) if axis == self.axis else index("line", extent)
            for axis, extent in enumerate(extents)
        )

    def call(self, loops: Position, body: tuple[Statement, ...], target: Buffer,
             *stack: Buffer) -> None:  # fmt: skip
        statements = nest(loops, body, parallel=True)
        self.at.call(statements, work=4 * self.source.count, stack=stack, writes=(target,))

    # -- the three steps ------------------------------------------------------------------------

    def run(self) -> None:
        grid = self.grid
        if self.is_of_columns:
            lines = self.target.count // self.extent
            wanted = -(-grid.busy // lines)
            blocks = max(min(wanted, self.extent // grid.shortest), 1)
            self.in_threads(-(-self.extent // blocks))
            return
        threads, chunk = grid.warp, max(grid.iterations - 1, 1)
        while threads < grid.block and threads * chunk < self.extent:
            threads *= 2
        in_turns = self.threads_of_a_line(chunk)
        if threads * chunk < self.extent and in_turns:
            self.in_teams(in_turns, chunk, -(-self.extent // (in_turns * chunk)))
        else:
            self.in_teams(threads, min(chunk, -(-self.extent // threads)), 1)

    def threads_of_a_line(self, chunk: int) -> int:
        """How many threads of each line keep the machine busy; 0 if a team has no room for them."""
        grid, lines = self.grid, self.target.count // self.extent
        threads = grid.warp
        while threads * lines < grid.threads:
            threads *= 2
        nbytes = threads * (chunk + 2) * self.target.dtype.itemsize
        return threads if threads <= grid.largest_team and nbytes <= grid.rows else 0

    def before_blocks(self, loops: Position, length: int) -> Scalar:
        """The result of all blocks before one."""
        count = -(-self.extent // length) - 1
        if not count:
            return self.start
        extents = list(self.target.extents)
        extents[self.axis] = count
        sums = self.at.scratch("sums", self.target.dtype, extents)
        self.sum_blocks(sums, length)
        if count > 1:
            scanned = self.at.scratch("scanned", self.target.dtype, extents)
            replace(self, source=sums, target=scanned, reverse=False).run()
            sums = scanned
        block = loops[self.axis]
        previous = (*loops[: self.axis], block - 1, *loops[self.axis + 1 :])
        return guard(block > 0, load(sums, previous), self.start)

    def sum_blocks(self, sums: Buffer, length: int) -> None:
        """The results of all blocks but the last one: they have equally many elements."""
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
        """Each block is one thread's, with a total in a local."""
        loops = self.loops(-(-self.extent // length))
        begin = self.before_blocks(loops, length)
        number, total = index("r", self.extent), local(self.target.dtype, "total")
        new = self.combined(total, self.element(loops, number))
        start, stop = block_range(loops[self.axis], length, as_index(self.extent))
        step = Assign((total,), (new,)), Store(self.target, self.along(loops, number), total)
        self.call(loops, (Let((total,), (begin,)), For(number, start, stop, step)), self.target)

    def in_teams(self, threads: int, chunk: int, tiles: int) -> None:
        """Each block is a team's, with its tiles of chunks."""
        length = tiles * threads * chunk
        loops = self.loops(-(-self.extent // length))
        begin = self.before_blocks(loops, length)
        dtype = self.target.dtype
        # rows of an odd length: so the threads of a warp use all banks of the memory
        row = self.at.scratch("row", dtype, (threads, chunk | 1))
        ends = [self.at.scratch("ends", dtype, (threads,)) for _ in range(2)]
        turn = index("tile", tiles) if tiles > 1 else ZERO
        i, k = index("thread", threads), index("k", chunk)
        here = ((loops[self.axis] * tiles + turn) * threads + i) * chunk + k
        inside = here < self.extent
        fetched = guard(inside, self.element(loops, here), self.start)
        body = [
            *self.dealt((i, k), Store(row, (i, k), fetched)),
            *self.scan_chunks(row, chunk, ends[0]),
        ]
        distance = 1
        while distance < threads:
            old, new = ends
            j = index("thread", threads)
            before, own = load(old, (j - distance,)), load(old, (j,))
            sums = guard(j >= distance, self.combined(before, own), own)
            body += self.dealt((j,), Store(new, (j,), sums))
            ends = [new, old]
            distance *= 2
        first = local(dtype, "first")
        before = guard(i > 0, self.combined(first, load(ends[0], (i - 1,))), first)
        result = self.combined(before, load(row, (i, k)))
        store = Store(self.target, self.along(loops, here), result)
        body += self.dealt((i, k), If(inside, (store,)))
        if tiles > 1:
            last = load(ends[0], (threads - 1,))
            body.append(Assign((first,), (self.combined(first, last),)))
            body = [*nest((turn,), body)]
        self.call(loops, (Let((first,), (begin,)), *body), self.target, row, *ends)

    def scan_chunks(self, row: Buffer, chunk: int, ends: Buffer) -> tuple[Statement, ...]:
        """Each thread scans a chunk in place."""
        i, k = index("thread", row.extents[0]), index("k", chunk)
        total = local(row.dtype, "total")
        new = self.combined(total, load(row, (i, k)))
        scan = nest((k,), (Assign((total,), (new,)), Store(row, (i, k), total)))
        begin, end = Let((total,), (self.start,)), Store(ends, (i,), total)
        return self.dealt((i,), begin, *scan, end)

    def dealt(self, loops: Position, *body: Statement) -> tuple[Statement, ...]:
        """Independent loops, which the threads of a team share."""
        return dealt(loops, body, self.at.target)
