"""Thresholds of matrix products, and their extents."""

from __future__ import annotations

from math import prod

from functrans.lower.select.root import Contraction, extent_of
from functrans.records import NamedTuple


class Blocking(NamedTuple):
    """The sizes of blocks of matrix products.

    Measured: the share of registers (13 rows of two vectors spill where 12 do not), `depth_bytes`
    (32 to 512 terms of a tile), `deepest_bytes` (192 to 2048), `few_panels` (10 to 784 rows, 10 to
    300 columns), `other_vectors`, `quarter_vector`, `sums_together`, `widest` and
    `shortest_unaligned` (2 to 1000 of each, in two halves of a vector), `largest_in_place`,
    `largest_for_a_tile` and `rows_of_packing_blocks` (2 to 700 rows, 30 KB to 60 MB), and
    `largest_strided` (16 to 2900 rows, terms and columns), on a core with AVX-512;
    `rows_in_place`, `page` (2 to 1000 rows), `narrow_bytes` and `steps_of_lanes` with vectors of
    both sizes; `panel_bytes`, `packed_bytes`, `few_bytes`, `shortest_line`, `most_rows`,
    `few_masked_tiles`, `lone_vector` (5 to 300 terms, 3 to 120 columns), `vectors_of_one_tile`
    (2 to 700 terms, 3 to 40 columns) and `tiles_from_afar` (12 to 90 rows, 20 to 512 terms and
    columns) on one without.
    """

    depth_bytes: int = 1536
    """Bytes of a row's terms that are packed together, at least: 384 terms in float32."""
    deepest_bytes: int = 6144
    """The same for a left operand that is read in place, with AVX-512, where the second-level cache
    holds the rows of a block: sums are added to memory less often."""
    panel_bytes: int = 24 << 10
    """Bytes of a packed panel, at least, if there are enough terms: most of a first-level cache."""
    rows: int = 48
    """Rows of a block: enough to make up for reading the panels again for each block."""
    columns: int = 512
    """The most columns of a block, where the operations that follow do not need whole rows."""
    narrow_bytes: int = 1024
    """The most bytes of a row of such a block."""
    fewest_blocks: int = 8
    """Blocks that keep all threads busy, where there are enough rows and columns."""
    packed_bytes: int = 512
    """About the bytes of a row of the right operand, contiguous in memory, packed at a time."""
    ahead: int = 24
    """The terms by which rows are prefetched while their columns are packed, without AVX-512."""
    far_rows: int = 1024
    """The fewest bytes between such rows: nearer ones are prefetched by hardware."""
    few_bytes: int = 1 << 18
    """The most bytes of an operand that is packed panel by panel, or tile by tile."""
    shortest_line: int = 32
    """The fewest bytes of one term of a tile for which several tiles are packed side by side."""
    few_panels: int = 3
    """The most panels of a block for which a strided left operand is read in place: a packed copy
    is profitable if it is read more often."""
    largest_strided: int = 1 << 21
    """The most bytes of such an operand, with AVX-512, if there are more than `most_thin` columns:
    the second-level cache does not hold a larger one, whose rows are read a piece of a line at a
    time."""
    rows_in_place: int = 96
    """The most rows for which the right operand is read in place; with AVX-512, only if it fits
    into the cache."""
    rows_beyond_cache: int = 20
    """The most rows for which it may be a quarter larger than the cache, with AVX-512, if a page
    has two of its rows."""
    few_masked_tiles: int = 8
    """The most tiles below each other for which it is, without AVX-512, where tiles have columns
    beyond the last one: loops over terms then need masks, which take several instructions."""
    largest_in_place: int = 96 << 10
    """The most bytes of a right operand that is read in place for any number of rows, with AVX-512:
    a panel's rows are in many pages, and hardware does not prefetch across these."""
    contiguous_bytes: int = 512
    """The most bytes between rows of a right operand that is read in place for any number of rows,
    with AVX-512, if it fits into the cache: a page has many of its rows."""
    largest_for_a_tile: int = 1 << 24
    """The same for a single tile, unless it has few rows, with AVX-512: a packed copy is read
    once."""
    fewest_tiles: int = 4
    """The most tiles below each other for a right operand whose rows share sets of a cache, if it
    fits into the cache."""
    page: int = 4096
    """Bytes: rows whose distance is a multiple of this share sets of a cache."""
    ways: int = 8
    """The lines in each set of a first-level cache, whose sets are those of a page, and of a
    second-level cache. Without AVX-512, a panel is packed if its lines are in so few sets that the
    caches cannot hold it."""
    small_cache: int = 1 << 19
    """Bytes of a second-level cache of a machine without AVX-512."""
    tiles_from_afar: int = 2
    """The most tiles below each other that read such a panel in place if not even the second-level
    cache holds it; `fewest_tiles` if only the first-level one does not."""
    largest_near: int = 6 << 20
    """The most bytes of a right operand that several tiles read in place, without AVX-512; a single
    tile reads twice as many. A larger one comes from memory, and faster line by line."""
    few_terms: int = 64
    """The most terms of sums whose code is duplicated, with masks, to save the copy of a block."""
    most_thin: int = 10
    """The most columns of a product whose vectors go along terms: each column has a vector of
    partial sums. With more, some are spilled."""
    steps_of_lanes: float = 2.2
    """The time of adding up the lanes of such a vector, in terms of a vector."""
    half_vector: float = 0.55
    """The time of a vector of half the lanes, or fewer, with AVX-512, in vectors."""
    thin_rows: int = 240
    """Rows of a block of such a product."""
    few_registers: int = 16
    """The most registers of a machine without AVX-512. Its second-level cache is small: half a
    megabyte."""
    most_rows: int = 10
    """The most rows of a tile on such a machine: each row's address takes a general register, which
    counters need, too."""
    few_rows: int = 7
    """The most rows for which tiles always have two vectors, so that enough independent sums are in
    flight."""
    fewest_rows: int = 3
    """The most rows for which tiles have four vectors; with AVX-512, the fewest rows of a tile, if
    there are as many."""
    rows_of_packing_blocks: int = 250
    """The most rows of a product whose blocks have all rows, and pack their part of the right
    operand, if the right operand is larger than the cache. With more rows, a stretch of terms is
    either too short, or has too few columns: memory is read faster in long pieces. Without AVX-512,
    also if it is smaller: the second-level cache does not hold the left operand's rows."""
    most_packing_rows: int = 600
    """The same without AVX-512, for sums of `fewest_packing_terms`."""
    fewest_packing_terms: int = 256
    """With fewer, all of a right operand's panels are soon packed, and read by many rows."""
    block_bytes: int = 190_000
    """About the bytes of such a block and of its packed panels, which are on a thread's stack."""
    larger_block_bytes: int = 300_000
    """The same without AVX-512."""
    few_tiles_of_wholes: int = 2
    """The most tiles below each other for which a block that is a whole matrix reads the right
    operand in place, if it may (measured: 1 to 16); four times as many without AVX-512, where only
    half of the loads cross cache lines."""
    largest_of_wholes: int = 1 << 23
    """The most bytes of all right operands of the stack for which it does: larger ones are not in a
    cache, and come from memory faster if whole rows of them are packed. Without AVX-512, half."""
    terms_in_arena: int = 128
    """The terms that such a block packs at a time without AVX-512, outside of the stack if that
    has no room for them: large sums are added to less often."""
    few_sums: int = 3 << 16
    """The most bytes of sums that are added to more often: a second-level cache holds them."""
    most_near_sums: int = 1 << 62
    """The same with AVX-512, if the stack has room for some terms: by default, packing in the arena
    is then never worth its memory."""
    fewest_packed: int = 32
    """The fewest terms of a stretch in a block of all rows that packs both operands."""
    fewest_of_wholes: int = 16
    """The same where the block is a whole matrix, which comes from memory faster line by line."""
    time_of_whole_tiles: float = 1.06
    """The most time of tiles that divide the rows, as a part of that of the best ones."""
    enough_sums: int = 12
    """Vectors of sums in a tile that hide the latency of an addition."""
    missing_sum: float = 0.025
    """The cost of each vector that is missing from these, as a part of the time of a tile."""
    single_vector: float = 1.15
    """The cost of a column in tiles of one vector, relative to tiles of two."""
    lone_vector: float = 1.8
    """The same without AVX-512, where each row's address takes a general register."""
    other_vectors: float = 0.01
    """The cost of each vector above or below two in a row of a tile, with AVX-512, as a part of its
    time."""
    rows_of_copies: int = 8
    """The same for tiles that are copied by vectors along their rows."""
    shortest_unaligned: int = 16
    """The fewest terms for which tiles side by side need not begin at cache lines of a result whose
    rows do, or every other row: with fewer, storing vectors takes much of the time."""
    widest: int = 6
    """The most whole vectors in a row of a tile, with AVX-512."""
    vectors_of_one_tile: tuple[int, ...] = (2, 3, 5)
    """The vectors that all columns fill, the last one perhaps only in part, if they are one tile
    without AVX-512: of other numbers, two or three vectors side by side leave few lanes unused."""
    quarter_vector: float = 0.375
    """The time of a quarter of a vector for which four terms are added at once, in vectors."""
    sums_together: int = 18
    """The most vectors of sums of such a tile; with more, some are spilled."""
    half_part: float = 0.5
    """The time of half a vector at the end of a tile's row, with AVX-512, in vectors."""
    terms_ahead: int = 0
    """The terms by which a panel that exceeds the nearest cache, and packed rows, are prefetched; 0
    if they are not."""


WHOLE_VECTORS = Blocking(
    half_vector=1.0,
    half_part=1.0,
    quarter_vector=0.6,
    terms_ahead=32,
    terms_in_arena=256,
    most_near_sums=3 << 18,
)
"""Thresholds of cores that multiply two whole vectors of 64 bytes in each cycle, such as Intel's.

Half a vector takes as long as a whole one. The latency of the second-level cache, from which long
panels come, is not hidden without prefetching. Sums that exceed it, two megabytes, are added to
less often.
"""


class Extents(NamedTuple):
    """The extents of a product: matrices in a stack, rows, columns and terms."""

    batch: int
    rows: int
    columns: int
    terms: int


def extents_of(root: Contraction) -> Extents:
    """The extents of a product."""
    assert root.counter is not None
    batch, rows, columns = (prod(map(extent_of, loops)) for loops in root.sides)
    return Extents(batch, rows, columns, extent_of(root.counter))
