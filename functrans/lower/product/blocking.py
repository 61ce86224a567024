"""Register and cache blocking of matrix products: the sizes of tiles, panels and blocks.

After K. Goto and R. A. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008),
and F. G. Van Zee and R. A. van de Geijn, "BLIS: a framework for rapidly instantiating BLAS
functionality" (2015). A tile of the result stays in registers while terms are added to it. A panel
of the right operand is packed, in the order in which it is read, and stays in the first-level cache
for all rows of a block. The rows of the left operand are read in place, or packed as well.

The sizes of blocks depend on the sizes of the operands and on the machine, but not on the number of
threads; neither do the bits of a result.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from functrans.loop.affine import Coefficients
from functrans.loop.linear_places import stride_of
from functrans.loop.target import Target
from functrans.lower.product.packing import gaps, is_dense
from functrans.lower.select.root import Contraction, extent_of


class Blocking(NamedTuple):
    """The sizes of blocks of matrix products.

    Measured: the share of registers (13 rows of two vectors spill where 12 do not), `depth_bytes`
    (32 to 512 terms of a tile), `deepest_bytes` (192 to 2048), `few_panels` (attention's products
    of 64 columns), `largest_in_place`, `largest_for_a_tile` and `rows_of_packing_blocks` (2 to 700
    rows, 30 KB to 60 MB), on a core with AVX-512; `rows_in_place`, `page` (2 to 1000 rows),
    `narrow_bytes` and `shortest_thin` with vectors of both sizes; `panel_bytes`, `packed_bytes`,
    `few_bytes`, `shortest_line`, `most_rows`, `few_masked_tiles` and `lone_vector` (5 to 300 terms,
    3 to 120 columns) on one without.
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
    few_bytes: int = 1 << 18
    """The most bytes of an operand that is packed panel by panel, or tile by tile."""
    shortest_line: int = 32
    """The fewest bytes of one term of a tile for which several tiles are packed side by side."""
    few_panels: int = 2
    """The most panels of a block for which a strided left operand is read in place: a packed copy
    is profitable if it is read more often."""
    rows_in_place: int = 96
    """The most rows for which the right operand is read in place; with AVX-512, only if it fits
    into the cache."""
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
    """The same for a single tile, unless it has few rows: a packed copy is read once."""
    fewest_tiles: int = 4
    """The most tiles below each other for a right operand whose rows share sets of a cache, if it
    fits into the cache."""
    page: int = 4096
    """Bytes: rows whose distance is a multiple of this share sets of a cache."""
    few_terms: int = 64
    """The most terms of sums whose code is duplicated, with masks, to save the copy of a block."""
    most_thin: int = 8
    """The most columns of a product whose vectors go along terms: each column has a vector of
    partial sums."""
    shortest_thin: int = 10
    """The fewest terms for each column of such a product: at the end, the lanes of each vector are
    added up."""
    thin_rows: int = 240
    """Rows of a block of such a product."""
    few_registers: int = 16
    """The most registers of a machine without AVX-512. Its second-level cache is small (half a
    megabyte): each panel is prefetched while the one before it is read."""
    most_rows: int = 10
    """The most rows of a tile on such a machine: each row's address takes a general register, which
    counters need, too."""
    few_rows: int = 7
    """The most rows for which tiles always have two vectors, so that enough independent sums are in
    flight."""
    fewest_rows: int = 3
    """The most rows for which tiles have four vectors."""
    rows_of_packing_blocks: int = 250
    """The most rows of a product whose blocks have all rows, and pack their part of the right
    operand, if the right operand is larger than the cache. With more rows, a stretch of terms is
    either too short, or has too few columns: memory is read faster in long pieces."""
    block_bytes: int = 190_000
    """About the bytes of such a block and of its packed panels, which are on a thread's stack."""
    few_tiles_of_wholes: int = 2
    """The most tiles below each other for which a block that is a whole matrix reads the right
    operand in place, if it may (measured: 1 to 16); four times as many without AVX-512, where only
    half of the loads cross cache lines."""
    largest_of_wholes: int = 1 << 23
    """The most bytes of all right operands of the stack for which it does: larger ones are not in a
    cache, and come from memory faster if whole rows of them are packed."""
    fewest_packed: int = 32
    """The fewest terms of a stretch in a block that packs both operands."""
    enough_sums: int = 12
    """Vectors of sums in a tile that hide the latency of an addition."""
    missing_sum: float = 0.025
    """The cost of each vector that is missing from these, as a part of the time of a tile."""
    single_vector: float = 1.15
    """The cost of a column in tiles of one vector, relative to tiles of two."""
    lone_vector: float = 1.8
    """The same without AVX-512, where each row's address takes a general register."""


class Blocks(NamedTuple):
    """How a product is cut."""

    height: int  # the rows of a tile, which is sums in registers
    width: int  # the columns of a tile
    depth: int  # the number of terms that are packed together
    stretches: int  # the number of stretches of terms; the last one may be shorter
    tiles: int  # the number of tiles of a block, one below the other
    panels: int  # the number of tiles of a block, side by side
    by_terms: bool = False  # whether vectors go along terms, because there are few columns
    # Whether a block, which has all rows, packs its part of the right operand, a stretch at a time.
    # Otherwise the whole operand is packed beforehand, unless it is read in place.
    packs: bool = False


class Extents(NamedTuple):
    """How many matrices there are, and their rows, columns and terms."""

    batch: int
    rows: int
    columns: int
    terms: int


def extents_of(root: Contraction) -> Extents:
    """The extents of a product."""
    assert root.counter is not None
    batch, rows, columns = (prod(map(extent_of, loops)) for loops in root.sides)
    return Extents(batch, rows, columns, extent_of(root.counter))


def form_of(size: Extents, blocks: Blocks) -> str:
    """A description of the extents of a product and of its tiles."""
    stack = f"{size.batch} of " if size.batch > 1 else ""
    along = "terms" if blocks.by_terms else "columns"
    return (
        f"{stack}{size.rows} x {size.terms} times {size.terms} x {size.columns}, "
        f"tiles of {blocks.height} x {blocks.width}, vectors along {along}"
    )


def blocks_of(
    root: Contraction,
    target: Target,
    # whether a block has all columns, because the operations that follow need whole rows
    whole_rows: bool,
    # whether the rows of a tile must suit copies by vectors: even, or a power of two
    in_vectors: bool = False,
    is_alone: bool = False,  # whether no other operations are fused with the product
) -> Blocks:
    """How a product is cut."""
    limits, size = target[Blocking], extents_of(root)
    itemsize = root.target.dtype.itemsize
    assert root.counter is not None
    if _is_thin(root, target):
        # each sum is a vector; beyond five eighths of the registers, some are spilled
        height = max(5 * target.registers // (8 * size.columns), 1)
        tiles = -(-size.rows // height)
        height = -(-size.rows // tiles)  # rows beyond the last one would be computed in vain
        down = max(min(limits.thin_rows // height, tiles // limits.fewest_blocks), 1)
        return Blocks(height, size.columns, size.terms, 1, _even(tiles, down), 1, by_terms=True)
    width, vectors = _width(size.rows, size.columns, target, itemsize)
    if _are_three_better(root, target, vectors):
        width, vectors = 3 * target.lanes(itemsize), 3
    width = _in_fewer_lanes(root, target, width)
    height = _height(size.rows, _most_rows(target, vectors), vectors, limits, in_vectors)
    panels = -(-size.columns // width)
    if root.shared_rows:
        return Blocks(root.shared_rows, width, size.terms, 1, 1, panels)
    is_deep = target.registers > limits.few_registers and (
        is_dense(root.factors[0], root.counter) or (not whole_rows and _packs_left(root, target))
    )
    line, depth_bytes = width * itemsize, limits.deepest_bytes if is_deep else limits.depth_bytes
    depth = _depth(size.terms, line, itemsize, limits, depth_bytes)
    tiles = -(-size.rows // height)
    stretches = -(-size.terms // depth)
    one = _height(size.rows, _most_rows(target, vectors), vectors, limits, in_vectors, divides=True)
    below = -(-size.rows // one)
    few = _terms_of_wholes(root, target, below, one, panels * width) if is_alone else 0
    if few:
        depth = _length(size.terms, -(-size.terms // min(few, depth)))
        stretches = -(-size.terms // depth)
        return Blocks(one, width, depth, stretches, below, panels, packs=True)
    if not whole_rows and _packs_in_blocks(root, target, tiles):
        return _packing_blocks(size, limits, (height, width, depth), line)
    columns = min(limits.columns, limits.narrow_bytes // itemsize)
    across = panels if whole_rows else min(panels, max(columns // width, 1))
    down = min(tiles, max(limits.rows // height, 1))
    if _writes_whole_rows(root, target) and size.batch * tiles >= limits.fewest_blocks:
        return Blocks(height, width, depth, stretches, 1, panels)
    # smaller blocks, if threads would have too few to share
    while _count(size.batch, tiles, down, panels, across) < limits.fewest_blocks:
        can_be_narrower = across > 1 and not whole_rows
        # without AVX-512, whose caches are small, fewer blocks should read the larger operand
        is_wide = target.registers <= limits.few_registers and size.columns > size.rows
        if can_be_narrower and (down == 1 or is_wide):
            across = -(-across // 2)
        elif down > 1:
            down = -(-down // 2)
        else:
            break
    across = _even(panels, across)
    if size.columns % width and target.registers <= limits.few_registers:
        # the last panel may overlap another one of its block, and then needs no masks
        while across < panels and (panels - 1) % across == 0:
            across += 1
    return Blocks(height, width, depth, stretches, _even(tiles, down), across)


def _packs_left(root: Contraction, target: Target) -> bool:
    """Whether the left operand is packed as a whole, because it is strided and read repeatedly."""
    limits, size, left = target[Blocking], extents_of(root), root.factors[0]
    itemsize, counter = root.target.dtype.itemsize, root.counter
    assert counter is not None
    is_strided = root.sides[1] and gaps(left, counter) > gaps(left, root.sides[1][-1])
    is_large = size.batch * size.rows * size.terms * itemsize > limits.few_bytes
    return bool(is_strided) and is_large and size.columns * itemsize > limits.narrow_bytes


def _packing_blocks(
    size: Extents, limits: Blocking, tile: tuple[int, int, int], line: int
) -> Blocks:
    """Blocks of all rows, which pack their part of the right operand, a stretch at a time.

    A stretch has about twice as many terms as there are rows. With fewer, sums are added to memory
    more often; with more, a block has fewer columns, and memory is read in shorter pieces.
    """
    height, width, deepest = tile
    panels, tiles = -(-size.columns // width), -(-size.rows // height)
    rows, lines = tiles * height, limits.block_bytes // line
    most = min(2 * size.batch * panels // limits.fewest_blocks, panels)
    across = min(lines // (3 * max(rows, limits.fewest_packed)), most)
    across = _even(panels, max(across, 1))
    depth = min(max(lines // across - rows, limits.fewest_packed), deepest)
    depth = _depth_within(size.terms, depth)
    stretches = -(-size.terms // depth)
    return Blocks(height, width, depth, stretches, tiles, across, packs=True)


def _writes_whole_rows(root: Contraction, target: Target) -> bool:
    """Whether a tile's rows are written from one end to the other, because memory is the limit.

    The result is larger than the cache, and each tile reads the whole right operand from it; or
    sums have few terms, and all panels are in the nearest cache.
    """
    size, itemsize = extents_of(root), root.target.dtype.itemsize
    is_large = size.rows * size.columns * itemsize > target.cache
    nearest = target.cache if is_large else target[Blocking].panel_bytes
    return not (root.symmetric or _is_larger(root, nearest))


def _packs_in_blocks(root: Contraction, target: Target, tiles: int) -> bool:
    """Whether blocks pack the right operand: it is larger than the cache, and few rows read it.

    A copy of the whole operand would be written to memory and read again. This requires that tiles
    read the left operand in place.
    """
    few = extents_of(root).rows <= target[Blocking].rows_of_packing_blocks
    counter = root.counter
    assert counter is not None
    is_packed = _is_larger(root, target.cache) and not reads_columns_in_place(root, target, tiles)
    return few and is_packed and is_dense(root.factors[0], counter)


def _is_larger(root: Contraction, nbytes: int) -> bool:
    """Whether the right operand has more than a number of bytes."""
    size = extents_of(root)
    return size.terms * size.columns * root.target.dtype.itemsize > nbytes


def reads_columns_in_place(root: Contraction, target: Target, tiles: int) -> bool:
    """Whether tiles read the right operand in place, which needs its columns contiguous in memory.

    A packed copy is profitable if the rows of a panel share few sets of a cache, which would evict
    them before the next of the ``tiles`` below each other reads them. With many tiles, also if they
    are in many pages, and without AVX-512, where it avoids loads across cache lines.
    """
    limits, right, counter = target[Blocking], root.factors[1], root.counter
    assert counter is not None
    if not is_dense(right, root.sides[2][-1]):
        return False
    rows, has_many_registers = extents_of(root).rows, target.registers > limits.few_registers
    if tiles == 1:
        is_small = not (has_many_registers and _is_larger(root, limits.largest_for_a_tile))
        return is_small or rows <= limits.fewest_rows
    distance = abs(stride_of(right, Coefficients(counter)) or 0) * root.target.dtype.itemsize
    if distance % limits.page == 0:
        return tiles <= limits.fewest_tiles and not _is_larger(root, target.cache)
    if not has_many_registers:
        return rows <= limits.rows_in_place
    few_or_near = rows <= limits.rows_in_place or distance <= limits.contiguous_bytes
    return not _is_larger(root, target.cache if few_or_near else limits.largest_in_place)


def _terms_of_wholes(
    root: Contraction, target: Target, tiles: int, height: int, columns: int
) -> int:
    """The most terms of a stretch if each matrix of a stack is one block; 0 if it is not.

    Such matrices are the parts of a long sum, as in the gradient with respect to weights. A block
    packs a stretch of both operands; a copy of all terms would be written to memory and read again.
    A block has all columns, because rows that are read in pieces are not prefetched by hardware.
    """
    size, limits, itemsize = extents_of(root), target[Blocking], root.target.dtype.itemsize
    left, right = root.factors
    counter = root.counter
    assert counter is not None
    many = 2 * size.batch >= limits.fewest_blocks
    nbytes = size.batch * size.terms * size.columns * itemsize
    packs = root.symmetric or nbytes > target.cache
    by_terms = gaps(right, counter) <= gaps(right, root.sides[2][-1])
    if by_terms or not (many and packs):
        return 0
    few = limits.few_tiles_of_wholes * (4 if target.registers <= limits.few_registers else 1)
    is_near = nbytes <= limits.largest_of_wholes and tiles <= few
    if is_near and reads_columns_in_place(root, target, tiles):
        return 0
    room, rows = target.largest_stack // itemsize, tiles * height
    if rows != size.rows:
        room -= rows * columns  # the sums are not where the result is
    terms = room // (columns if is_dense(left, counter) else rows + columns)
    return terms if terms >= limits.fewest_packed else 0


def _is_thin(root: Contraction, target: Target) -> bool:
    """Whether columns are so few, and sums so long, that vectors go along the terms instead."""
    limits, size = target[Blocking], extents_of(root)
    assert root.counter is not None
    return (
        size.columns <= min(limits.most_thin, target.lanes(root.target.dtype.itemsize) - 1)
        and not root.shared_rows
        and size.terms >= limits.shortest_thin * size.columns
        and gaps(root.factors[0], root.counter) == 0
        and root.target.dtype.kind == "f"
    )


def blocks_by_rows(
    root: Contraction, target: Target, rows: int, is_sum: bool, narrowed: bool
) -> Blocks:
    """How a product is cut into blocks of a number of rows, or of terms if it is a sum over rows.

    Where loops are ``narrowed``, the height of the tiles of a sum is a power of two.
    """
    limits, size, itemsize = target[Blocking], extents_of(root), root.target.dtype.itemsize
    width, vectors = _width(size.rows, size.columns, target, itemsize)
    most, panels = _most_rows(target, vectors), -(-size.columns // width)
    if is_sum:
        power = 1 << most.bit_length() - 1
        height = power if narrowed else _height(size.rows, most, vectors, limits)
        return Blocks(height, width, rows, 1, -(-size.rows // height), panels)
    heights = [n for n in range(1, most + 1) if rows % n == 0]
    enough = [n for n in heights if n * vectors >= limits.enough_sums and size.rows % n == 0]
    height = max(enough or heights)
    depth = _depth(size.terms, width * itemsize, itemsize, limits, limits.depth_bytes)
    return Blocks(height, width, depth, -(-size.terms // depth), rows // height, panels)


def _count(batch: int, tiles: int, down: int, panels: int, across: int) -> int:
    return batch * -(-tiles // down) * -(-panels // across)


def _even(extent: int, length: int) -> int:
    """A length near the given one, with which the last part is not much shorter than the others."""
    lengths = range(-(-2 * length // 3), min(4 * length // 3, extent) + 1)
    return min(lengths, key=lambda n: (-(-extent // n) * n, -n))


def _width(rows: int, columns: int, target: Target, itemsize: int) -> tuple[int, int]:
    """The number of columns of a tile, and the number of its vectors."""
    limits, lanes = target[Blocking], target.lanes(itemsize)
    single_vector = _single_vector(target)
    while lanes > 1 and lanes // 2 >= columns:
        lanes //= 2
    one = -(-columns // lanes) * single_vector
    two = -(-columns // (2 * lanes)) * 2
    if columns <= lanes or (one < two and rows > limits.few_rows):
        return lanes, 1
    few = rows <= limits.fewest_rows and columns >= 4 * lanes
    return (4 * lanes, 4) if few else (2 * lanes, 2)


def _single_vector(target: Target) -> float:
    """The cost of a column in tiles of one vector, relative to other tiles."""
    limits = target[Blocking]
    return limits.single_vector if target.registers > limits.few_registers else limits.lone_vector


def _are_three_better(root: Contraction, target: Target, vectors: int) -> bool:
    """Whether tiles of three vectors have fewer unused lanes beyond the last column.

    Not if columns are transposed while they are packed, because that works by halves of vectors.
    With AVX-512, not if they are packed at all.
    """
    size, limits = extents_of(root), target[Blocking]
    lanes = target.lanes(root.target.dtype.itemsize)
    tiles = -(-size.rows // _most_rows(target, 3))
    right, counter = root.factors[1], root.counter
    assert counter is not None
    as_it_lies = gaps(right, counter) > gaps(right, root.sides[2][-1])
    if target.registers > limits.few_registers:
        as_it_lies = reads_columns_in_place(root, target, tiles)
    if vectors > 2 or root.shared_rows or lanes == 1 or not as_it_lies:
        return False
    three, one = -(-size.columns // (3 * lanes)) * 3, -(-size.columns // lanes)
    return three < (one * _single_vector(target) if vectors == 1 else one + one % 2)


def _in_fewer_lanes(root: Contraction, target: Target, width: int) -> int:
    """The width of tiles with a narrower last vector, if there is a single tile in a row.

    With AVX-512, where many cores execute instructions on half a vector in half the time. The last
    vector has half the lanes, or a quarter if columns fill it: then, it needs no mask.
    """
    columns, lanes = extents_of(root).columns, target.lanes(root.target.dtype.itemsize)
    is_avx512 = target.registers > target[Blocking].few_registers and lanes >= 8
    left = columns % lanes
    is_narrow = 0 < left <= lanes // 2 and lanes < columns < width
    if not (is_avx512 and is_narrow) or root.shared_rows:
        return width
    return columns if left == lanes // 4 else columns - left + lanes // 2


def _most_rows(target: Target, vectors: int) -> int:
    """The most rows of a tile of so many vectors: sums take three quarters of the registers."""
    limits, most = target[Blocking], max(3 * target.registers // (4 * vectors), 1)
    return min(most, limits.most_rows) if target.registers <= limits.few_registers else most


def _height(
    rows: int,
    most: int,
    vectors: int,
    limits: Blocking,
    in_vectors: bool = False,
    divides: bool = False,
) -> int:
    """The rows of a tile: few rows are left over, and enough independent sums are in flight.

    With ``divides``, no rows are left over, if that is possible.
    """

    def cost(height: int) -> float:
        missing = max(limits.enough_sums - height * vectors, 0)
        return -(-rows // height) * height * (1 + limits.missing_sum * missing)

    power = 1 << most.bit_length() - 1
    if in_vectors and rows > power and power * vectors >= limits.enough_sums:
        return power
    fewest = min(max(most // 2, 1), rows)
    heights = range(fewest, most + 1)
    if in_vectors and most > 1:
        heights = range(fewest + fewest % 2, most + 1, 2)
    whole = [height for height in heights if divides and rows % height == 0]
    return min(whole or heights, key=lambda height: (cost(height), -height))


def _depth(terms: int, line: int, itemsize: int, limits: Blocking, depth_bytes: int) -> int:
    """The terms of a stretch, such that the last stretch is not much shorter than the others.

    A term of a panel has ``line`` bytes.
    """
    longest = max(depth_bytes // itemsize, limits.panel_bytes // line)
    return _length(terms, max(round(terms / longest), 1))


def _depth_within(terms: int, most: int) -> int:
    """The terms of a stretch, at most a number."""
    return _length(terms, -(-terms // most))


def _length(terms: int, stretches: int) -> int:
    """The terms of each of about so many stretches; the last one is not much shorter."""
    lengths = range(-(-terms // stretches), 0, -1)
    return next(n for n in lengths if terms % n == 0 or 2 * (terms % n) >= n)
