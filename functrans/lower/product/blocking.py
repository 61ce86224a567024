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

from math import gcd

from functrans.loop.affine import Coefficients
from functrans.loop.linear_places import stride_of
from functrans.loop.target import Target
from functrans.lower.product.limits import Blocking, Extents, extents_of
from functrans.lower.product.packing import gaps, is_dense
from functrans.lower.product.tiles import height_of, tile_of, tile_of_vectors
from functrans.lower.select.root import Contraction
from functrans.records import NamedTuple


class Blocks(NamedTuple):
    """Register and cache blocking: the sizes of tiles, panels, blocks and stretches of terms."""

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
    # whether a block, which is a whole matrix, packs operands in the arena: a thread's stack has
    # room for few terms only
    in_arena: bool = False


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
    """The sizes of tiles, panels and blocks of a product."""
    limits, size = target[Blocking], extents_of(root)
    itemsize = root.target.dtype.itemsize
    assert root.counter is not None
    if _is_thin(root, target):
        tiles = -(-size.rows // _thin_height(size.columns, target))
        height = -(-size.rows // tiles)  # rows beyond the last one would be computed in vain
        down = max(min(limits.thin_rows // height, tiles // limits.fewest_blocks), 1)
        return Blocks(height, size.columns, size.terms, 1, _even(tiles, down), 1, by_terms=True)
    width, vectors, most = tile_of(root, target, in_vectors, is_alone)
    height = height_of(size.rows, most, vectors, limits, in_vectors)
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
    one = height_of(size.rows, most, vectors, limits, in_vectors, divides=True)
    below = -(-size.rows // one)
    few, in_arena = 0, False
    if is_alone:
        few, in_arena = _terms_of_wholes(root, target, below, one, panels * width)
    if few:
        few = few if in_arena else min(few, depth)
        depth = _length(size.terms, -(-size.terms // few))
        stretches = -(-size.terms // depth)
        return Blocks(one, width, depth, stretches, below, panels, packs=True, in_arena=in_arena)
    along_rows = size.batch * tiles >= limits.fewest_blocks and _writes_whole_rows(root, target)
    # with AVX-512, blocks of few columns would write a large result in short pieces
    is_better = along_rows and target.registers > limits.few_registers
    if not whole_rows and not is_better and _packs_in_blocks(root, target, tiles):
        return _packing_blocks(size, target, (height, width, depth), line)
    columns = min(limits.columns, limits.narrow_bytes // itemsize)
    across = panels if whole_rows else min(panels, max(columns // width, 1))
    down = min(tiles, max(limits.rows // height, 1))
    if along_rows:
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
    limits, size, itemsize = target[Blocking], extents_of(root), root.target.dtype.itemsize
    is_large = size.batch * size.rows * size.terms * itemsize > limits.few_bytes
    return _is_strided(root) and is_large and size.columns * itemsize > limits.narrow_bytes


def _is_strided(root: Contraction) -> bool:
    """Whether adjacent rows of the left operand are closer together than adjacent terms."""
    left, counter = root.factors[0], root.counter
    assert counter is not None
    return bool(root.sides[1]) and gaps(left, counter) > gaps(left, root.sides[1][-1])


def _packing_blocks(size: Extents, target: Target, tile: tuple[int, int, int], line: int) -> Blocks:
    """Blocks of all rows, which pack their part of the right operand, a stretch at a time.

    A stretch has about twice as many terms as there are rows. With fewer, sums are added to memory
    more often; with more, a block has fewer columns, and memory is read in shorter pieces.
    """
    limits, (height, width, deepest) = target[Blocking], tile
    few = target.registers <= limits.few_registers
    nbytes = limits.larger_block_bytes if few else limits.block_bytes
    panels, tiles = -(-size.columns // width), -(-size.rows // height)
    rows, lines = tiles * height, nbytes // line
    most = min(size.batch * panels // limits.fewest_blocks, panels)
    across = min(lines // (3 * max(rows, limits.fewest_packed)), most)
    across = _even(panels, max(across, 1))
    depth = min(max(lines // across - rows, limits.fewest_packed), deepest)
    depth = _length(size.terms, -(-size.terms // depth))
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
    """Whether blocks pack the right operand, so that a thread reads only what it has packed itself.

    Other threads' packed panels would have to come from their caches; and of an operand that is
    larger than the cache, a copy would be written to memory and read again. This requires that
    there are few rows, which each block reads, in place or from a copy of all. With AVX-512, the
    copy takes too long for few terms.
    """
    limits, size, counter = target[Blocking], extents_of(root), root.counter
    assert counter is not None
    most = size.columns if _is_larger(root, limits.largest_in_place) else 0
    has_few_registers = target.registers <= limits.few_registers
    rows = limits.rows_of_packing_blocks
    if has_few_registers and size.terms >= limits.fewest_packing_terms:
        rows = limits.most_packing_rows
    if _is_larger(root, target.cache):
        most = rows
    elif has_few_registers:
        most = min(most, rows)
    in_place = reads_columns_in_place(root, target, tiles)
    is_copied = _is_strided(root) and (has_few_registers or size.rows <= min(rows, size.terms))
    reads_left = is_dense(root.factors[0], counter) or is_copied
    return size.rows <= most and not in_place and reads_left


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
    near = 2 * limits.largest_near if tiles == 1 else limits.largest_near
    if not has_many_registers and _is_larger(root, near):
        return False
    if tiles == 1:
        return rows <= limits.fewest_rows or not _is_larger(root, limits.largest_for_a_tile)
    distance = abs(stride_of(right, Coefficients(counter)) or 0) * root.target.dtype.itemsize
    if distance % limits.page == 0:
        return tiles <= limits.fewest_tiles and not _is_larger(root, target.cache)
    if not has_many_registers:
        few = rows
        if _exceeds(root, distance, limits.page, limits) or _is_larger(root, limits.small_cache):
            few = limits.fewest_tiles
        if _exceeds(root, distance, limits.small_cache // limits.ways, limits):
            few = limits.tiles_from_afar
        return rows <= limits.rows_in_place and tiles <= few
    if rows <= limits.rows_beyond_cache and 2 * distance <= limits.page:
        return not _is_larger(root, 5 * target.cache // 4)
    few_or_near = rows <= limits.rows_in_place or distance <= limits.contiguous_bytes
    return not _is_larger(root, target.cache if few_or_near else limits.largest_in_place)


def _exceeds(root: Contraction, distance: int, way: int, limits: Blocking) -> bool:
    """Whether lines at a distance are in so few sets of a cache that it cannot hold a panel's."""
    return extents_of(root).terms * gcd(distance, way) > limits.ways * way


def _terms_of_wholes(
    root: Contraction, target: Target, tiles: int, height: int, columns: int
) -> tuple[int, bool]:
    """The most terms of a stretch if each matrix of a stack is one block; 0 if it is not.

    And whether they are packed in the arena.

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
        return 0, False
    has_few_registers = target.registers <= limits.few_registers
    few = limits.few_tiles_of_wholes * (4 if has_few_registers else 1)
    largest = limits.largest_of_wholes // (2 if has_few_registers else 1)
    is_near = nbytes <= largest and tiles <= few
    if is_near and reads_columns_in_place(root, target, tiles):
        return 0, False
    room, rows = target.largest_stack // itemsize, tiles * height
    if rows != size.rows:
        room -= rows * columns  # the sums are not where the result is
    terms = room // (columns if is_dense(left, counter) else rows + columns)
    fits = terms >= limits.fewest_of_wholes
    enough = min(limits.terms_in_arena, size.terms)
    near = limits.most_near_sums if fits and not has_few_registers else limits.few_sums
    are_few = terms < enough and rows * columns * itemsize > near
    # both operands would otherwise be packed as a whole, copies that are written to memory
    is_profitable = are_few and (fits or _is_strided(root))
    if is_profitable and size.batch <= limits.fewest_blocks:
        return enough, True
    return (terms if fits else 0), False


def _is_thin(root: Contraction, target: Target) -> bool:
    """Whether columns are so few, and sums so long, that vectors go along the terms instead.

    Their lanes are all used, but added up after the last term.
    """
    limits, size = target[Blocking], extents_of(root)
    lanes = target.lanes(root.target.dtype.itemsize)
    is_narrow = target.registers > limits.few_registers and 2 * size.columns <= lanes
    along_columns = (limits.half_vector if is_narrow else 1) * size.terms
    along_terms = size.columns * (-(-size.terms // lanes) + limits.steps_of_lanes)
    assert root.counter is not None
    return (
        size.columns <= min(limits.most_thin, lanes)
        and along_terms < along_columns
        and _thin_height(size.columns, target) > 1
        and not root.shared_rows
        and gaps(root.factors[0], root.counter) == 0
        and root.target.dtype.kind == "f"
    )


def _thin_height(columns: int, target: Target) -> int:
    """The most rows of a tile with vectors along terms: its sums and a column are in registers."""
    return 3 * target.registers // (4 * (columns + 1))


def blocks_by_rows(
    root: Contraction, target: Target, rows: int, is_sum: bool, narrowed: bool
) -> Blocks:
    """The blocking of a product by a number of rows, or of terms if it is a sum over rows.

    Where loops are ``narrowed``, the height of the tiles of a sum is a power of two.
    """
    limits, size, itemsize = target[Blocking], extents_of(root), root.target.dtype.itemsize
    width, vectors, most = tile_of_vectors(size.rows, size.columns, target, itemsize)
    panels = -(-size.columns // width)
    if is_sum:
        power = 1 << most.bit_length() - 1
        height = power if narrowed else height_of(size.rows, most, vectors, limits)
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


def _depth(terms: int, line: int, itemsize: int, limits: Blocking, depth_bytes: int) -> int:
    """The terms of a stretch, such that the last stretch is not much shorter than the others.

    A term of a panel has ``line`` bytes.
    """
    longest = max(depth_bytes // itemsize, limits.panel_bytes // line)
    return _length(terms, max(round(terms / longest), 1))


def _length(terms: int, stretches: int) -> int:
    """The terms of each of about so many stretches; the last one is not much shorter."""
    lengths = range(-(-terms // stretches), 0, -1)
    return next(n for n in lengths if terms % n == 0 or 2 * (terms % n) >= n)
