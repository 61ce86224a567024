"""Register and cache blocking of matrix products: the sizes of tiles, panels and blocks.

After K. Goto and R. A. van de Geijn, "Anatomy of high-performance matrix multiplication" (2008),
and F. G. Van Zee and R. A. van de Geijn, "BLIS: a framework for rapidly instantiating BLAS
functionality" (2015). A tile of the result stays in registers while terms are added to it. A panel
of the right operand lies packed, in the order in which it is read, and stays in the nearest cache
for all rows of a block; these are read where they are, or packed as well.

The blocks follow from the sizes and the machine, and not from the number of threads, so neither do
the bits of a result.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from functrans.loop.affine import Coefficients
from functrans.loop.target import Target
from functrans.lower.product.packing import gaps, is_dense
from functrans.lower.select.root import Contraction, extent_of


class Blocking(NamedTuple):
    """The sizes of blocks of matrix products.

    Measured: the share of registers (13 rows of two vectors spill where 12 do not), `depth_bytes`
    (32 to 512 terms of a tile), `deepest_bytes` (192 to 2048), `few_panels` (attention's products
    of 64 columns), `largest_in_place`, on a core with AVX-512; `few_tiles`, `page` (2 to 1000
    rows), `narrow_bytes` and `shortest_thin` with vectors of both sizes; `panel_bytes`,
    `packed_bytes`, `few_bytes`, `shortest_line` and `most_rows` on one without.
    """

    depth_bytes: int = 1536
    """Bytes of terms of a row that are packed together at least: 384 in float32."""
    deepest_bytes: int = 6144
    """Those of a row that is read where it is, if the second cache holds a block's rows of them:
    sums are added to memory less often."""
    panel_bytes: int = 24 << 10
    """Bytes of a packed panel at least, where there are as many terms: most of a nearest cache."""
    rows: int = 48
    """Rows of a block: as many as make up for reading the panels again."""
    columns: int = 512
    """Columns of a block at most, where what follows does not need whole rows."""
    narrow_bytes: int = 2048
    """Bytes of a row of a block at most then."""
    fewest_blocks: int = 8
    """Blocks that keep threads busy, where there are rows and columns for them."""
    packed_bytes: int = 512
    """Bytes of a row of the right operand that are packed together, about: they are neighbours."""
    few_bytes: int = 1 << 18
    """Bytes of an operand at most that is packed panel by panel, or tile by tile."""
    shortest_line: int = 32
    """Bytes of a tile's term at least, where tiles are packed side by side."""
    few_panels: int = 2
    """Panels for which elements of the left operand are as well read with gaps: a copy pays if it
    is read more often."""
    few_tiles: int = 16
    """Tiles below each other for which the right operand is as well read where it is."""
    largest_in_place: int = 1 << 22
    """Bytes of one for which that holds for any number of tiles, with AVX-512: the pages of a
    larger one may be more than those whose addresses are known."""
    fewest_tiles: int = 4
    """Those for which it is, too, if its rows share sets of a cache."""
    page: int = 4096
    """Bytes: rows that are a multiple apart share sets of a cache."""
    few_terms: int = 64
    """Terms of sums that are worth a masked copy of their code, to spare the copy of a block."""
    most_thin: int = 8
    """Columns at most, where vectors may go along terms: of each column there is one of sums."""
    shortest_thin: int = 10
    """Terms for each column at least then: the lanes of each sum are added up in the end."""
    thin_rows: int = 240
    """Rows of a block then."""
    few_registers: int = 16
    """Registers at most of a machine without AVX-512. Its second cache is small (half a megabyte):
    left operands that are read along their rows are packed once for all blocks, and the next panel
    is fetched during one."""
    most_rows: int = 10
    """Rows of a tile at most then: each has an address, in a register that counters need, too."""
    few_rows: int = 7
    """Rows at most of which a tile has two vectors, so that enough sums are on their way."""
    fewest_rows: int = 3
    """Rows at most of which a tile has four vectors."""
    rows_of_packing_blocks: int = 512
    """Rows at most of a product whose blocks have all of them, and pack what they read of the right
    operand, where that is larger than the cache."""
    block_bytes: int = 190_000
    """Bytes of such a block, with what it has packed, about: they lie on a thread's stack."""
    few_tiles_of_wholes: int = 8
    """Tiles below each other at most for which a block of a whole matrix reads the right operand
    where it is, if it may (measured: 8 and 16)."""
    fewest_packed: int = 48
    """Terms at least of a stretch of a block that has packed both operands."""
    enough_sums: int = 12
    """Vectors of sums of a tile that keep a core busy while one addition follows another."""
    missing_sum: float = 0.025
    """What each that is missing costs, of the time of a tile."""
    single_vector: float = 1.15
    """What a column costs in tiles of one vector, where one of two costs 1."""


class Blocks(NamedTuple):
    """How a product is cut.

    Parameters
    ----------
    height, width : int
        The rows and the columns of a tile: sums in registers.
    depth, stretches : int
        How many terms are packed together, and how often that is done. The last time may be fewer.
    tiles, panels : int
        How many tiles a block has below each other, and side by side.
    by_terms : bool
        Whether vectors go along terms, and not along columns, which are few.
    packs : bool
        Whether a block, of all rows, packs its part of the right operand, some terms at a time.
        Otherwise all of it is packed before.
    """

    height: int
    width: int
    depth: int
    stretches: int
    tiles: int
    panels: int
    by_terms: bool = False
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
    """The extents of a product, and those of its tiles, in words."""
    stack = f"{size.batch} of " if size.batch > 1 else ""
    along = "terms" if blocks.by_terms else "columns"
    return (
        f"{stack}{size.rows} x {size.terms} times {size.terms} x {size.columns}, "
        f"tiles of {blocks.height} x {blocks.width}, vectors along {along}"
    )


def blocks_of(
    root: Contraction,
    target: Target,
    whole_rows: bool,
    in_vectors: bool = False,
    is_alone: bool = False,
) -> Blocks:
    """How a product is cut.

    Parameters
    ----------
    root : Contraction
    target : Target
    whole_rows : bool
        Whether a block has all columns, for what follows needs whole rows.
    in_vectors : bool
        Whether the rows of a tile are to be as many as vectors copy.
    is_alone : bool
        Whether nothing is done of a block.
    """
    limits, size = target[Blocking], extents_of(root)
    itemsize = root.target.dtype.itemsize
    assert root.counter is not None
    if _is_thin(root, target):
        # each sum is a vector; beyond five eighths of the registers, some are spilled
        height = max(5 * target.registers // (8 * size.columns), 1)
        tiles = -(-size.rows // height)
        down = max(min(limits.thin_rows // height, tiles // limits.fewest_blocks), 1)
        return Blocks(height, size.columns, size.terms, 1, _even(tiles, down), 1, by_terms=True)
    width, vectors = _width(size.rows, size.columns, target.lanes(itemsize), limits)
    if _are_three_better(root, target, vectors):
        width, vectors = 3 * target.lanes(itemsize), 3
    height = _height(size.rows, _most_rows(target, vectors), vectors, limits, in_vectors)
    panels = -(-size.columns // width)
    if root.shared_rows:
        return Blocks(root.shared_rows, width, size.terms, 1, 1, panels)
    is_read_in_place = is_dense(root.factors[0], root.counter)
    is_deep = is_read_in_place and target.registers > limits.few_registers
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
        room = limits.block_bytes // ((depth + tiles * height) * itemsize * width)
        across = max(min(room, size.batch * panels // limits.fewest_blocks, panels), 1)
        return Blocks(height, width, depth, stretches, tiles, _even(panels, across), packs=True)
    columns = min(limits.columns, limits.narrow_bytes // itemsize)
    across = panels if whole_rows else min(panels, max(columns // width, 1))
    down = min(tiles, max(limits.rows // height, 1))
    # fewer rows, and then fewer columns, where there would be too few blocks to share
    while down > 1 and _count(size.batch, tiles, down, panels, across) < limits.fewest_blocks:
        down = -(-down // 2)
    while (
        not whole_rows
        and across > 1
        and _count(size.batch, tiles, down, panels, across) < limits.fewest_blocks
    ):
        across = -(-across // 2)
    return Blocks(height, width, depth, stretches, _even(tiles, down), _even(panels, across))


def _packs_in_blocks(root: Contraction, target: Target, tiles: int) -> bool:
    """Whether the right operand is larger than the cache, and few rows read it.

    A packed copy would go to memory and come back. Tiles read the left operand where it is then.
    """
    few = extents_of(root).rows <= target[Blocking].rows_of_packing_blocks
    counter = root.counter
    assert counter is not None
    is_packed = _is_larger(root, target.cache) and not reads_columns_in_place(root, target, tiles)
    return few and is_packed and is_dense(root.factors[0], counter)


def _is_larger(root: Contraction, nbytes: int) -> bool:
    """Whether the right operand has more bytes."""
    size = extents_of(root)
    return size.terms * size.columns * root.target.dtype.itemsize > nbytes


def reads_columns_in_place(root: Contraction, target: Target, tiles: int) -> bool:
    """Whether tiles read the right operand where it is, whose columns are neighbours there.

    A packed copy is worth it where the rows of a panel share few sets of a cache, which loses them
    before the next of the ``tiles`` below each other. If there are many tiles, it is where these
    rows are in many pages, and without AVX-512, since it spares reading lines that vectors cross.
    """
    limits, right, counter = target[Blocking], root.factors[1], root.counter
    assert counter is not None
    if not is_dense(right, root.sides[2][-1]):
        return False
    stride = Coefficients(counter).of_element(right.attribute, right.args)
    if stride is None or stride * root.target.dtype.itemsize % limits.page == 0:
        return tiles == 1 or (tiles <= limits.fewest_tiles and not _is_larger(root, target.cache))
    is_small = not _is_larger(root, limits.largest_in_place)
    return tiles <= limits.few_tiles or (is_small and target.registers > limits.few_registers)


def _terms_of_wholes(
    root: Contraction, target: Target, tiles: int, height: int, columns: int
) -> int:
    """The most terms of a stretch if each matrix of a stack is one block; 0 if it is not.

    These are the parts of a long sum, of a gradient by weights. A block packs a stretch of both
    operands; a copy of all terms would go to memory and come back. It has all columns, because
    lines of memory that are read in pieces are not fetched ahead.
    """
    size, limits, itemsize = extents_of(root), target[Blocking], root.target.dtype.itemsize
    left, right = root.factors
    counter = root.counter
    assert counter is not None
    many = 2 * size.batch >= limits.fewest_blocks and not root.symmetric
    large = size.batch * size.terms * size.columns * itemsize > target.cache
    by_terms = gaps(right, counter) <= gaps(right, root.sides[2][-1])
    if by_terms or not (many and large):
        return 0
    if tiles <= limits.few_tiles_of_wholes and reads_columns_in_place(root, target, tiles):
        return 0
    room, rows = target.largest_stack // itemsize, tiles * height
    if (rows, columns) != (size.rows, size.columns):
        room -= rows * columns  # the sums are not where the result is
    terms = room // (columns if is_dense(left, counter) else rows + columns)
    return terms if terms >= limits.fewest_packed else 0


def _is_thin(root: Contraction, target: Target) -> bool:
    """Whether columns are so few, and sums so long, that vectors rather go along the terms."""
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
    """How a product is cut whose blocks are of so many rows, or terms if it is a sum over rows.

    Where loops are ``narrowed``, tiles of a sum are as high as a power of two.
    """
    limits, size = target[Blocking], extents_of(root)
    itemsize = root.target.dtype.itemsize
    width, vectors = _width(size.rows, size.columns, target.lanes(itemsize), limits)
    most, panels = _most_rows(target, vectors), -(-size.columns // width)
    if is_sum:
        height = _height(size.rows, most, vectors, limits)
        if narrowed:
            height = 1 << most.bit_length() - 1
        return Blocks(height, width, rows, 1, -(-size.rows // height), panels)
    height = max(n for n in range(1, most + 1) if rows % n == 0)
    depth = _depth(size.terms, width * itemsize, itemsize, limits, limits.depth_bytes)
    return Blocks(height, width, depth, -(-size.terms // depth), rows // height, panels)


def _count(batch: int, tiles: int, down: int, panels: int, across: int) -> int:
    return batch * -(-tiles // down) * -(-panels // across)


def _even(extent: int, length: int) -> int:
    """About the length of parts, so that the last one is not much shorter than the others."""
    lengths = range(-(-2 * length // 3), min(4 * length // 3, extent) + 1)
    return min(lengths, key=lambda n: (-(-extent // n) * n, -n))


def _width(rows: int, columns: int, lanes: int, limits: Blocking) -> tuple[int, int]:
    """The columns of a tile, and how many vectors these are."""
    while lanes > 1 and lanes // 2 >= columns:
        lanes //= 2
    one = -(-columns // lanes) * limits.single_vector
    two = -(-columns // (2 * lanes)) * 2
    if columns <= lanes or (one < two and rows > limits.few_rows):
        return lanes, 1
    few = rows <= limits.fewest_rows and columns >= 4 * lanes
    return (4 * lanes, 4) if few else (2 * lanes, 2)


def _are_three_better(root: Contraction, target: Target, vectors: int) -> bool:
    """Whether tiles of three vectors have fewer lanes beyond the last column.

    Not where columns are packed, vectors of which are transposed by halves.
    """
    size, limits = extents_of(root), target[Blocking]
    lanes = target.lanes(root.target.dtype.itemsize)
    tiles = -(-size.rows // _most_rows(target, 3))
    in_place = reads_columns_in_place(root, target, tiles)
    has_registers = target.registers > limits.few_registers and lanes > 1
    if vectors > 2 or root.shared_rows or not (has_registers and in_place):
        return False
    three, one = -(-size.columns // (3 * lanes)) * 3, -(-size.columns // lanes)
    return three < (one * limits.single_vector if vectors == 1 else one + one % 2)


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
    """The rows of a tile: so many that few are left over, and that enough sums are on their way.

    Or that none are left over, if some number ``divides`` the rows.
    """

    def cost(height: int) -> float:
        missing = max(limits.enough_sums - height * vectors, 0)
        return -(-rows // height) * height * (1 + limits.missing_sum * missing)

    power = 1 << most.bit_length() - 1
    if in_vectors and power * vectors >= limits.enough_sums:
        return power
    heights = range(max(most // 2, 1), most + 1)
    if in_vectors and most > 1:
        heights = range(most // 2 + most // 2 % 2 or 2, most + 1, 2)
    whole = [height for height in heights if divides and rows % height == 0]
    return min(whole or heights, key=lambda height: (cost(height), -height))


def _depth(terms: int, line: int, itemsize: int, limits: Blocking, depth_bytes: int) -> int:
    """The terms of a stretch: some of about equal length, of which the last is not much shorter.

    A term of a panel has ``line`` bytes.
    """
    longest = max(depth_bytes // itemsize, limits.panel_bytes // line)
    return _length(terms, max(round(terms / longest), 1))


def _length(terms: int, stretches: int) -> int:
    """The terms of each of about so many stretches; the last one is not much shorter."""
    lengths = range(-(-terms // stretches), 0, -1)
    return next(n for n in lengths if terms % n == 0 or 2 * (terms % n) >= n)
