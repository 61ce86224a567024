"""GPU parameters and profitability thresholds of the forms of kernels.

A team is the threads that do one iteration of a kernel's band: one of them, a warp, or a block.
What each number follows from is said beside it. On an H100, what most of them lead to was measured
(docs/measurements.md), but of the tiles of products alone other values were tried beside them.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from functrans.loop.fragments import ROWS, WARP


class ProductTile(NamedTuple):
    """A tile of a product of matrices, which a team computes: what is loaded is used many times.

    Each thread has a small tile of sums in registers. Its rows and columns come in groups of
    `together`, which are read at once and are next to those of the next thread.
    """

    rows: int
    columns: int
    depth: int
    """Terms of the sums that are in shared memory at a time."""
    thread_rows: int
    thread_columns: int

    @property
    def threads(self) -> int:
        return self.rows // self.thread_rows * (self.columns // self.thread_columns)

    @property
    def sums(self) -> int:
        """The sums of a thread."""
        return self.thread_rows * self.thread_columns

    def bytes(self, itemsize: int) -> int:
        """Bytes of shared memory for one operand: two tiles, of which one is loaded meanwhile."""
        return self.stages * self.depth * (max(self.rows, self.columns) + self.padding) * itemsize

    @property
    def stages(self) -> int:
        """How many tiles of each operand are in shared memory."""
        return 2

    @property
    def copies(self) -> int:
        """How often what is computed of the sums is written out at least: for a thread's row."""
        return self.thread_columns

    @property
    def together(self) -> int:
        """The number of rows or columns of a thread that are neighbours."""
        return min(self.thread_rows, self.thread_columns, 4)

    @property
    def padding(self) -> int:
        """Numbers behind each row in shared memory: rows then begin in different banks of it."""
        return self.together


class WarpTile(NamedTuple):
    """A tile of a product that goes on tensor cores: each warp of the team has a part of it."""

    rows: int
    columns: int
    depth: int
    """Terms of the sums that are in shared memory at a time."""
    warp_rows: int
    warp_columns: int
    stages: int = 2
    """How many tiles of each operand are in shared memory. Of two, one is loaded into registers
    while the other is multiplied; more are copied asynchronously, all but one of them ahead."""

    @property
    def is_copied(self) -> bool:
        """Whether operands are copied asynchronously."""
        return self.stages > 2

    def of(self, itemsize: int) -> WarpTile:
        """The tile for operands of an item size: its depth is for those of two bytes."""
        return self._replace(depth=2 * self.depth // itemsize)

    @property
    def warps(self) -> tuple[int, int]:
        """How many there are below each other, and side by side."""
        return self.rows // self.warp_rows, self.columns // self.warp_columns

    @property
    def threads(self) -> int:
        down, across = self.warps
        return down * across * WARP

    @property
    def sums(self) -> int:
        """The sums of a thread."""
        return self.warp_rows * self.warp_columns // WARP

    @property
    def copies(self) -> int:
        """How many times what is computed of the sums is written out."""
        return self.warp_rows // ROWS

    @property
    def strip(self) -> tuple[int, int]:
        """Rows and columns of sums that are in shared memory at a time, to be stored in order.

        A row is longer than that, so that two neighbours of each of four rows, which half a warp
        writes at once, are in different banks: lengths are multiples of the 32 banks, and 8 more.
        """
        return self.warps[0] * ROWS, self.columns + 8

    def bytes(self, itemsize: int) -> int:
        """Bytes of shared memory, whichever way the operands lie in it."""
        sides = (self.rows, self.columns)
        return prod(self.strip) * 4 + sum(
            self.stages
            * max(prod(lines(self.depth, n, itemsize, near)) for near in (True, False))
            * itemsize
            for n in sides
        )


def lines(depth: int, length: int, itemsize: int, terms_are_near: bool) -> tuple[int, int]:
    """The layout of the terms of rows in shared memory: lines, and numbers in each.

    Lines are longer than what is in them, so that a warp finds the numbers of a fragment in
    different banks. Eight rows of 16 bytes, as `ldmatrix` reads them, and eight rows of four
    numbers of 4 bytes do not meet if lines are an odd multiple of 16 bytes. Of eight neighbouring
    numbers of 4 bytes in each of four lines these must be 32 bytes apart, modulo 128.
    """
    if terms_are_near:
        return length, depth + 16 // itemsize
    return depth, length + (16 // itemsize if itemsize == 2 else 8)


class AttentionTile(NamedTuple):
    """A tile of attention: the queries that a team has, and the keys that it goes over at a time.

    Each thread has a small tile of scores in registers, and one of as many queries of the result:
    columns in groups of `thread_keys`, which are next to those of the next thread.
    """

    queries: int
    keys: int
    depth: int
    """Terms of scores, and keys of the result, that are in shared memory at a time."""
    thread_queries: int
    thread_keys: int

    @property
    def threads(self) -> int:
        return self.queries // self.thread_queries * self.across

    @property
    def across(self) -> int:
        """The threads that share a query."""
        return self.keys // self.thread_keys

    @property
    def scores(self) -> int:
        """The scores of a thread."""
        return self.thread_queries * self.thread_keys

    @property
    def padding(self) -> int:
        """Numbers behind each row in shared memory: rows then begin in different banks of it."""
        return self.thread_keys

    def groups(self, columns: int) -> int:
        """The groups of columns that a thread has, of all columns."""
        return -(-columns // self.keys)

    def sums(self, columns: int) -> int:
        """The elements of the result that a thread has."""
        return self.groups(columns) * self.scores

    def bytes(self, terms: int, columns: int, itemsize: int, left: int = 1, right: int = 1) -> int:
        """Bytes of shared memory: tiles of operands, weights, and what is known of queries."""
        stretches = -(-terms // self.depth) * self.depth
        of_terms = left * stretches * (self.queries + self.padding)
        width = self.groups(columns) * self.keys + self.padding
        of_queries = self.keys + self.padding + self.across + 3
        return (of_terms + right * self.depth * width + self.queries * of_queries) * itemsize


class Grid(NamedTuple):
    """A grid of threads, in blocks, of which warps go in step.

    A team is the threads that do one iteration of a kernel's band: one of them, a warp, or a block.
    """

    warp: int = 32
    """Threads that go in step."""
    block: int = 256
    """Threads of a block, where teams are smaller than that."""
    largest_team: int = 1024
    """Threads of a block at most."""
    shortest: int = 16
    """Loops of fewer iterations are one thread's."""
    iterations: int = 8
    """Iterations of a long loop for each thread of a team, roughly."""
    gain: float = 1.25
    """In loops that a team goes through together, a factor of this in the operations of each thread
    is worth twice as many threads. Nor are sums cut into slices for less: that takes registers."""
    busy: int = 1 << 15
    """This many threads keep a machine busy; where there are fewer, teams are larger."""
    latency: int = 8
    """Cycles in which a thread does an operation, those that wait for memory among them."""
    at_once: int = 1 << 13
    """Operations that a machine does in a cycle, of as many threads as it has room for."""
    launch: int = 4000
    """Cycles that a kernel takes that does nothing: about two microseconds."""
    memory: int = 8
    """Operations that a thread could do instead of reading or writing an element."""
    little: int = 4
    """A kernel that takes no longer than this many launches shares one with others."""
    most_loops: int = 48
    """Loops that share a kernel at most: compiling takes more than linear time."""
    barrier: int = 8
    """Operations that a thread could do instead of waiting for those of its block."""
    apart: int = 2
    """A kernel becomes several, with memory between them, if they are faster by this factor."""
    largest_expanded: int = 1 << 30
    """Bytes of memory that a row has which a kernel cannot keep to itself, for all iterations."""
    largest_local: int = 1024
    """Bytes of rows that a thread may have to itself."""
    shared: int = 48 << 10
    """Bytes of shared memory of a block."""
    largest_shared: int = 227 << 10
    """The same of a block that asks for it when it is launched."""
    crowded: int = 8 << 10
    """So few elements that all update are updated in shared memory first, if that holds them:
    threads would wait for each other at every update."""
    updates: int = 4096
    """The least number of updates of a team in its shared memory."""
    threads: int = 132 * 2048
    """Threads that a machine holds at once: those of 132 multiprocessors."""
    shortest_in_strips: int = 4096
    """Shorter loops have no strips of 16 bytes: all of them is under way at once as it is."""
    largest_strip: int = 400
    """A strip has so few operations together: with more for each element, it is not memory that a
    thread waits for, and code is longer for nothing."""
    sector: int = 32
    """Bytes that memory gives at least, of which neighbouring threads should use all."""
    tile_side: int = 32
    """Rows and columns of a tile of what is read across its order: those of a warp, which then
    reads and writes whole lines; twice as many where elements have one or two bytes."""
    smallest_tiled: int = 1 << 14
    """Kernels of fewer iterations have no such tiles: the nearest cache keeps what they read."""
    row_registers: int = 64
    """Registers of a thread for the elements of rows that it has to itself."""
    all_registers: int = 1 << 16
    """The registers of a multiprocessor: of its largest block, a thread has no more than 64."""
    largest_unrolled: int = 1000
    """Operations in the rounds of loops over such rows, which are written out one by one."""
    sort_registers: int = 32
    """Registers of a thread for the keys that it sorts. With 32 keys it compares five times for
    each time that it takes one from shared memory and puts it back, which takes as long as four
    comparisons; there are as many registers again for the rest."""
    in_flight: int = 32
    """Bytes of loads that a thread has under way. By Little's law 4.8 TB/s in 800 ns of latency are
    29 KB for each of 132 multiprocessors, of 2048 threads 14 bytes each; twice as many, since not
    all of these are at their loads."""
    rows: int = 32 << 10
    """Bytes of rows that a team may keep there; the partial sums of its threads need some, too."""
    recomputed: int = 12
    """Operations for each byte of a longer row that are rather done again than the row is written
    to memory: this takes the writing, and one more reading of what it is made of. At 4.8 TB/s a
    byte takes as long as 6 operations of the 128 units of 132 multiprocessors at 1.7 GHz."""
    slices: int = 12 << 10
    """Bytes of shared memory for slices of sums, besides: of a thread's number in float64, for 1024
    of them, 8 KB, and lines of odd length."""
    registers: int = 256
    """Bytes of registers for the sums of a thread, or what it writes out along small axes: a
    quarter of what it can have."""
    tiles: tuple[ProductTile, ...] = (
        ProductTile(128, 128, 16, 8, 8),
        ProductTile(64, 64, 16, 4, 4),
        ProductTile(32, 32, 16, 4, 4),
    )
    """Tiles of products, the largest first. With 8 x 8 sums a thread reads 16 numbers for 64
    multiplications, so that the multiplications take longer than the reading; smaller ones are for
    results that would not give all multiprocessors a tile."""
    warp_tiles: tuple[WarpTile, ...] = (
        WarpTile(128, 128, 16, 64, 32),
        WarpTile(64, 64, 32, 32, 32),
        WarpTile(32, 32, 32, 16, 16),
    )
    """Tiles of products on tensor cores, the largest first. A warp with 64 x 32 sums reads 6 times
    512 bytes of shared memory for 16 instructions of `mma`, which take longer than the reading. In
    the largest a thread has 64 sums, and two blocks have room in a multiprocessor's registers."""
    copied_tiles: tuple[WarpTile, ...] = (
        WarpTile(128, 256, 64, 64, 64, 3),
        WarpTile(128, 256, 32, 64, 64, 4),
        WarpTile(128, 128, 32, 64, 32, 4),
        WarpTile(64, 64, 32, 32, 32, 4),
        WarpTile(32, 32, 32, 16, 16, 4),
    )
    """The same where operands are copied as they are. (On an H100, with the next 16 terms under way
    in registers, the largest of the others takes 570 cycles for what is 210 of `mma`, and 260 of
    shared memory.) Two stretches of 64 terms ahead are more than the latency of memory, as three of
    32 are where there is less room; with longer stretches, warps wait for each other less often.
    A warp with 64 x 64 sums reads 8 times 512 bytes for 32 `mma`, so that shared memory is used for
    350 of 420 cycles, with the copies; and tiles of 128 x 256 ask the L2 cache for a byte in 85
    operations, which is 4.7 TB/s at 400 TFLOP/s. A thread has 128 sums then, and a multiprocessor
    room for one block."""
    tiles_together: int = 16
    """Tiles below each other, of such products, that are computed at a time. 132 tiles of 128 x 256
    read the fewest rows and columns as 16 below and 8 beside each other: half of what they do in
    the order of rows, where a product of 8192 x 8192 has 32 tiles beside each other."""
    narrowest_product: int = 8
    """A product with fewer rows or columns is not tiled: a thread has this many sums in a row."""
    blocks: int = 264
    """Tiles that keep a machine busy: two for each of 132 multiprocessors."""
    least_part: int = 256
    """The least number of terms in a part of a sum, where parts are summed by different blocks."""
    largest_epilogue: int = 3072
    """Nodes of expressions that are written out besides in the kernel of a product: for all sums
    of a thread, as a hyperbolic tangent for 16 of them, or a bias and a maximum for 64; else for a
    row of them, and rows go in turn."""
    attention_tiles: tuple[AttentionTile, ...] = (
        AttentionTile(64, 64, 32, 4, 4),
        AttentionTile(32, 64, 32, 4, 4),
        AttentionTile(32, 32, 16, 4, 4),
        AttentionTile(16, 32, 16, 4, 4),
    )
    """Tiles of attention, the largest first. With 4 x 4 scores a thread reads 8 numbers for 16
    multiplications; twice as many queries would take all of its registers. What is in shared memory
    then is 47 KB of float32 for 64 terms and columns; smaller tiles are for more of these, for
    float64, and for results that would not give all multiprocessors a tile."""
    fewest_tiles: int = 4
    """Tiles of keys for which it is worth looking at a mask, whether it leaves some of them out."""
