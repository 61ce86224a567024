"""GPU parameters and profitability thresholds of the forms of kernels.

A team is the threads that execute one iteration of a kernel's band: a thread, a warp, or a block.
Each number comes with the reason for it. Most of the results were measured on an H100
(docs/measurements.md), but only for the tiles of products were other values compared.
"""

from __future__ import annotations

from math import prod

from functrans.loop.fragments import ROWS, WARP
from functrans.records import NamedTuple


class ProductTile(NamedTuple):
    """A tile of a matrix product that a team computes, so that each loaded element is used often.

    Each thread accumulates a small tile in registers. Its rows and columns come in groups of
    `together`, which are read at once, and which alternate with those of the next threads.
    """

    rows: int
    columns: int
    depth: int
    """The number of terms that are in shared memory at a time."""
    thread_rows: int
    thread_columns: int

    @property
    def threads(self) -> int:
        return self.rows // self.thread_rows * (self.columns // self.thread_columns)

    @property
    def sums(self) -> int:
        """The accumulators of a thread."""
        return self.thread_rows * self.thread_columns

    def bytes(self, itemsize: int) -> int:
        """The shared memory for one operand, in bytes: two tiles, one of them being loaded."""
        return self.stages * self.depth * (max(self.rows, self.columns) + self.padding) * itemsize

    @property
    def stages(self) -> int:
        """The number of tiles of each operand in shared memory."""
        return 2

    @property
    def copies(self) -> int:
        """The least number of copies of the epilogue's code: those for one row of a thread."""
        return self.thread_columns

    @property
    def together(self) -> int:
        """The number of adjacent rows or columns of a thread."""
        return min(self.thread_rows, self.thread_columns, 4)

    @property
    def padding(self) -> int:
        """The padding of rows in shared memory, in elements: rows then begin in different banks."""
        return self.together


class WarpTile(NamedTuple):
    """A tile of a product on tensor cores, of which each warp of the team computes a part."""

    rows: int
    columns: int
    depth: int
    """The number of terms that are in shared memory at a time."""
    warp_rows: int
    warp_columns: int
    stages: int = 2
    """The number of tiles of each operand in shared memory. Of two, one is loaded into registers
    while the other is multiplied; more are copied asynchronously, all but one of them in
    advance."""

    @property
    def is_copied(self) -> bool:
        """Whether operands are copied asynchronously."""
        return self.stages > 2

    def of(self, itemsize: int) -> WarpTile:
        """The tile for operands of up to 4 bytes: its depth is given for an item size of two."""
        return self._replace(depth=2 * self.depth // itemsize)

    @property
    def warps(self) -> tuple[int, int]:
        """The number of warps along rows and columns."""
        return self.rows // self.warp_rows, self.columns // self.warp_columns

    @property
    def threads(self) -> int:
        down, across = self.warps
        return down * across * WARP

    @property
    def sums(self) -> int:
        """The accumulators of a thread."""
        return self.warp_rows * self.warp_columns // WARP

    @property
    def copies(self) -> int:
        """The number of copies of the epilogue's code."""
        return self.warp_rows // ROWS

    @property
    def strip(self) -> tuple[int, int]:
        """Rows and columns of sums that are in shared memory at a time, to be stored in order.

        Rows are padded, so that the elements that threads write at once, 8 or 16 bytes each, are in
        different banks: two adjacent float32 numbers in each of four rows, by half a warp, or two
        float64 numbers in each of two rows, by a quarter. Their length is a multiple of the 32
        banks (16, for float64), and 8 more.
        """
        return self.warps[0] * ROWS, self.columns + 8

    def bytes(self, itemsize: int) -> int:
        """The bytes of shared memory, for the larger of the operands' layouts."""
        sides = (self.rows, self.columns)
        return prod(self.strip) * max(itemsize, 4) + sum(
            self.stages
            * max(prod(lines(self.depth, n, itemsize, near)) for near in (True, False))
            * itemsize
            for n in sides
        )


def lines(depth: int, length: int, itemsize: int, terms_are_near: bool) -> tuple[int, int]:
    """The layout of the terms of rows in shared memory: the number of lines, and their length.

    Lines are padded, so that a warp finds the elements of a fragment in different banks. Eight rows
    of 16 bytes, as `ldmatrix` reads them, and eight rows of four 4-byte elements do not conflict if
    the lines' length is an odd multiple of 16 bytes. For eight adjacent 4-byte elements of each of
    four lines, it must be 32 bytes modulo 128; and also for float64, of which half a warp reads
    four adjacent elements of each of four lines at once.
    """
    wide = itemsize == 8 or (itemsize == 4 and not terms_are_near)
    padding = (32 if wide else 16) // itemsize
    return (length, depth + padding) if terms_are_near else (depth, length + padding)


class AttentionTile(NamedTuple):
    """A tile of attention: the queries of a team, and the keys that it processes at a time.

    Each thread has a small tile of scores in registers, and one of the result for as many queries:
    columns in groups of `thread_keys`, which alternate with those of the next threads.
    """

    queries: int
    keys: int
    depth: int
    """The number of terms of scores, and of keys of the result, that are in shared memory at a
    time."""
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
        """The padding of rows in shared memory, in elements: rows then begin in different banks."""
        return self.thread_keys

    def groups(self, columns: int) -> int:
        """The number of groups that a thread has of all columns."""
        return -(-columns // self.keys)

    def sums(self, columns: int) -> int:
        """The elements of the result that a thread has."""
        return self.groups(columns) * self.scores

    def bytes(self, terms: int, columns: int, itemsize: int, left: int = 1, right: int = 1) -> int:
        """The bytes of shared memory: tiles of operands, weights, and the queries' statistics."""
        stretches = -(-terms // self.depth) * self.depth
        of_terms = left * stretches * (self.queries + self.padding)
        width = self.groups(columns) * self.keys + self.padding
        of_queries = self.keys + self.padding + self.across + 3
        return (of_terms + right * self.depth * width + self.queries * of_queries) * itemsize


class Grid(NamedTuple):
    """A grid of threads in blocks, whose warps execute in lockstep.

    A team is the threads that execute one iteration of a kernel's band: a thread, a warp, or a
    block.
    """

    warp: int = 32
    """The threads that execute in lockstep."""
    block: int = 256
    """The threads of a block, if teams are smaller."""
    largest_team: int = 1024
    """The most threads of a block."""
    shortest: int = 16
    """Loops of fewer iterations are executed by one thread."""
    iterations: int = 8
    """The iterations of a long loop for each thread of a team, roughly."""
    gain: float = 1.25
    """The factor by which a team must reduce the operations of each thread, in loops that it
    executes together, to be doubled in size. Reductions are not sliced for a smaller factor
    either, since slices take registers."""
    busy: int = 1 << 15
    """The number of threads that keep a machine busy; if there are fewer, teams are larger."""
    latency: int = 8
    """The cycles of a thread for an operation, on average, including those that wait for memory."""
    at_once: int = 1 << 13
    """The operations that a machine executes in a cycle, if it is fully occupied."""
    launch: int = 4000
    """The cycles of an empty kernel: about two microseconds."""
    memory: int = 8
    """The operations that take as long as an element's load or store."""
    little: int = 4
    """A kernel that takes at most this many launches shares one with others."""
    most_loops: int = 48
    """The most loops that share a kernel: compile time is more than linear."""
    barrier: int = 8
    """The operations that take as long as a barrier."""
    apart: int = 2
    """A kernel is split in several, with memory between them, if they are faster by this factor."""
    largest_expanded: int = 1 << 30
    """The largest row, in bytes for all iterations, that becomes global memory if a kernel
    cannot hold it."""
    longest_in_turns: int = 64 << 10
    """The bytes of the longest such row for which iterations are executed one after the other if
    this is too much global memory."""
    largest_local: int = 1024
    """The most bytes of rows that are private to a thread."""
    shared: int = 48 << 10
    """The bytes of shared memory of a block."""
    largest_shared: int = 227 << 10
    """The same for a block that requests more at its launch."""
    crowded: int = 8 << 10
    """Scatters into at most this many elements update shared memory first, if it holds them:
    otherwise, threads would wait for each other at every update."""
    updates: int = 4096
    """The fewest updates of a team in its shared memory."""
    threads: int = 132 * 2048
    """The threads that a machine holds at once: those of 132 multiprocessors."""
    shortest_in_strips: int = 4096
    """Shorter loops are not divided into strips of 16 bytes: all of their loads are in flight
    anyway."""
    largest_strip: int = 400
    """The most operations of a strip: with more for each element, threads do not wait for
    memory, and the longer code is no gain."""
    largest_single_strip: int = 1000
    """The same for the only strip of a thread, which then executes its index arithmetic once: some
    25 instructions, an eighth of those of an iteration of 200 operations."""
    sector: int = 32
    """The smallest memory transaction in bytes, all of which adjacent threads should use."""
    tile_side: int = 32
    """The rows and columns of a tile of an array that is read across its order: those of a warp,
    which then accesses whole lines; twice as many for elements of one or two bytes."""
    smallest_tiled: int = 1 << 14
    """Kernels of fewer iterations have no such tiles: the first-level cache holds what they
    read."""
    row_registers: int = 64
    """The registers of a thread for the elements of private rows."""
    all_registers: int = 1 << 16
    """The registers of a multiprocessor: of its largest block, a thread has no more than 64."""
    largest_unrolled: int = 1000
    """The most operations in the unrolled rounds of loops over such rows."""
    sort_registers: int = 32
    """The registers of a thread for the keys that it sorts. With 32 keys, it makes five
    comparisons for each key that it takes from shared memory and puts back, which takes as long
    as four comparisons; the other code needs as many registers again."""
    in_flight: int = 32
    """The bytes of loads that a thread has in flight. By Little's law, 4.8 TB/s with 800 ns of
    latency are 29 KB for each of 132 multiprocessors, or 14 bytes for each of its 2048 threads;
    twice as many, since not all of these are loading."""
    rows: int = 32 << 10
    """The most bytes of rows that a team may hold in shared memory; its partial sums need some,
    too."""
    long_rows: int = 215 << 10
    """The most bytes of longer rows that a block holds in shared memory if each thread only needs
    its own elements: a row of 50,257 float32 takes 201 KB. Up to half of this, two blocks of 1024
    threads are resident."""
    rows_of_a_team: int = 8
    """The most long rows that a team processes one after the other if only one block fits: all
    but the first are copied while the results of another one are stored."""
    recomputed: int = 12
    """The operations for each byte of a longer row up to which it is recomputed and not written
    to memory: this saves the writing, and one more reading of its operands. At 4.8 TB/s a byte
    takes as long as 6 operations of the 128 units of 132 multiprocessors at 1.7 GHz."""
    slices: int = 12 << 10
    """Additional bytes of shared memory for slices of reductions: for 1024 threads with one
    float64 each, 8 KB, and padded lines."""
    registers: int = 256
    """The bytes of registers for the accumulators of a thread, or for its results along small
    axes: a quarter of what it can have."""
    tiles: tuple[ProductTile, ...] = (
        ProductTile(128, 128, 16, 8, 8),
        ProductTile(64, 64, 16, 4, 4),
        ProductTile(32, 32, 16, 4, 4),
    )
    """Tiles of products, the largest first. With 8 x 8 accumulators a thread reads 16 elements
    for 64 multiplications, so that the multiplications take longer than the reading; smaller
    tiles are for results that would not give all multiprocessors a tile."""
    warp_tiles: tuple[WarpTile, ...] = (
        WarpTile(128, 128, 16, 64, 32),
        WarpTile(64, 64, 32, 32, 32),
        WarpTile(32, 32, 32, 16, 16),
    )
    """Tiles of products on tensor cores, the largest first. A warp with 64 x 32 accumulators
    reads 6 times 512 bytes of shared memory for 16 instructions of `mma`, which take longer than
    the reading. In the largest, a thread has 64 accumulators, and the registers of a
    multiprocessor suffice for two blocks."""
    copied_tiles: tuple[WarpTile, ...] = (
        WarpTile(128, 256, 64, 64, 64, 3),
        WarpTile(128, 256, 32, 64, 64, 4),
        WarpTile(128, 128, 32, 64, 32, 4),
        WarpTile(64, 64, 32, 32, 32, 4),
        WarpTile(32, 32, 32, 16, 16, 4),
    )
    """The same if operands are copied unchanged. (On an H100, with the next 16 terms on their
    way to registers, the largest of the tiles above takes 570 cycles, of which `mma` takes 210,
    and shared memory 260.) Two stages of 64 terms in advance exceed the latency of memory, as do
    three of 32 where there is less space; with longer stages, warps wait for each other less
    often. A warp with 64 x 64 accumulators reads 8 times 512 bytes for 32 `mma`, so that shared
    memory is used for 350 of 420 cycles, including the copies; and tiles of 128 x 256 request a
    byte from the L2 cache for each 85 operations, which is 4.7 TB/s at 400 TFLOP/s. A thread
    then has 128 accumulators, and a multiprocessor has space for one block."""
    double_tiles: tuple[WarpTile, ...] = (
        WarpTile(128, 128, 16, 64, 32, 3),
        WarpTile(64, 64, 16, 32, 32, 3),
        WarpTile(32, 32, 16, 16, 16, 4),
        WarpTile(128, 128, 8, 64, 32),
        WarpTile(64, 64, 8, 32, 32),
        WarpTile(32, 32, 16, 16, 16),
    )
    """Tiles of both kinds for products of float64 on tensor cores, with their own depths. A
    multiprocessor of an H100 makes 128 multiply-adds in a cycle, and reads 128 bytes of shared
    memory. For each term, the 8 warps of the largest tile multiply for 128 cycles, read 96 numbers
    each in 48, and copies are stored in 16. It requests 16 bytes from the L2 cache in a cycle, or
    3.7 TB/s (tiles of 128 x 64 would request 24). Its 64 accumulators take half of a thread's
    registers."""
    double_rows: int = 16
    """The rows of a fragment of float64 that an instruction multiplies."""
    tiles_together: int = 16
    """The number of tiles of such products, along rows, that are computed at a time (tile
    swizzling). 132 tiles of 128 x 256 read the fewest rows and columns if they are arranged 16
    by 8: half of those that they read in row order, where a product of 8192 x 8192 has 32 tiles
    in a row."""
    narrowest_product: int = 8
    """Products with fewer rows or columns are not tiled: a thread has this many accumulators in
    a row."""
    blocks: int = 264
    """The number of tiles that keeps a machine busy: two for each of 132 multiprocessors."""
    least_part: int = 256
    """The fewest terms of a part, if different blocks sum parts."""
    largest_epilogue: int = 3072
    """The most nodes of expressions in the epilogue of a product's kernel, counting repetitions:
    for all accumulators of a thread, such as a hyperbolic tangent for 16 of them, or a bias and
    a maximum for 64; otherwise for one row of them, in a loop over rows."""
    waves: int = 16
    """If a few long rows are summed in parts, a multiprocessor executes so many times the blocks
    that it holds, so that all multiprocessors finish at about the same time. With more, parts are
    shorter, and a block spends more of its time on its last loads and on combining its threads'
    sums."""
    attention_tiles: tuple[AttentionTile, ...] = (
        AttentionTile(64, 64, 32, 4, 4),
        AttentionTile(32, 64, 32, 4, 4),
        AttentionTile(32, 32, 16, 4, 4),
        AttentionTile(16, 32, 16, 4, 4),
    )
    """Tiles of attention, the largest first. With 4 x 4 scores a thread reads 8 elements for 16
    multiplications; twice as many queries would take all of its registers. They take 47 KB of
    shared memory for float32 with 64 terms and columns; smaller tiles are for more of these, for
    float64, and for results that would not give all multiprocessors a tile."""
    warp_attention_tiles: tuple[AttentionTile, ...] = (
        AttentionTile(128, 64, 64, 2, 16),
        AttentionTile(64, 64, 64, 2, 16),
        AttentionTile(32, 64, 64, 2, 16),
        AttentionTile(16, 64, 64, 2, 16),
    )
    """Tiles of attention of half floats, the largest first: a warp has 16 queries, of which each
    thread has two, with 16 of the 64 keys. The more queries, the fewer copies of keys and values
    from the L2 cache; smaller tiles are for results that would not give all multiprocessors a
    tile."""
    fewest_tiles: int = 4
    """The fewest tiles of keys for which a mask is examined, in order to skip masked tiles."""

    @property
    def room_of_long_rows(self) -> int:
        """The bytes of long rows that a block can hold, besides slices and partial sums."""
        return min(self.long_rows, self.largest_shared - self.slices)
