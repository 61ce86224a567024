"""Matrix products among roots: sums of terms of two operands, each with axes of its own.

A root is a product if, for each row and each column, it sums over terms whose loads each depend
either on the row or on the column: a contraction, but also the distances between two sets of
points. On a grid, such a root is computed in tiles
(`functrans.lower.grid.products.register_tiling`): an element that is loaded for a row is used for
all columns of the tile, and vice versa.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import prod
from typing import TypeVar

import numpy as np

from functrans.caches import cached
from functrans.ir.types import is_bfloat16
from functrans.loop import fragments
from functrans.loop.grid import Grid, ProductTile, WarpTile
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, const, convert, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.target import Target
from functrans.lower.grid.contiguity import WIDEST
from functrans.lower.grid.products.copying import is_copied
from functrans.lower.select.root import Elements, Root, extent_of
from functrans.records import NamedTuple

HALF, SINGLE, DOUBLE = (np.dtype(kind) for kind in (np.float16, np.float32, np.float64))

Tile = TypeVar("Tile", ProductTile, WarpTile)

_IMPURE = frozenset({"guard", "unlikely", "checked", "required", "fold", "load"})
"""Operations that cannot be computed from tiles, because which elements they read is unknown."""


class Product(NamedTuple):
    """A sum over terms of two operands."""

    fold: Scalar  # the sum, in the root's expression
    batch: tuple[Scalar, ...]  # the loops of the root on which both operands depend
    rows: tuple[Scalar, ...]  # the loops on which the left operand depends
    columns: tuple[Scalar, ...]  # the loops on which the right operand depends
    left: tuple[Scalar, ...]  # the values that are computed once for the rows of a tile
    right: tuple[Scalar, ...]  # and those that are computed once for its columns
    term: Scalar  # the term that is summed, in terms of these
    padded: bool  # whether the operands may be padded with zeros
    tile: ProductTile | WarpTile  # a `WarpTile` if tensor cores multiply

    @property
    def counters(self) -> tuple[Scalar, ...]:
        """The indices that are summed over."""
        return self.fold.attribute[1]

    @property
    def longest(self) -> int:
        """The number of terms, or an upper bound."""
        return extents(self.counters)

    @property
    def blocks(self) -> int:
        """The number of tiles of the result."""
        rows, columns = extents(self.rows), extents(self.columns)
        return extents(self.batch) * _tiles(rows, columns, self.tile)

    def parts(self, grid: Grid) -> int:
        """The number of parts of the sum that gives enough tiles for the whole machine."""
        wanted = grid.blocks // max(self.blocks, 1)
        parts = max(min(wanted, self.longest // grid.least_part), 1)
        if not isinstance(self.tile, WarpTile) or not self.tile.is_copied:
            return parts
        # parts that are multiples of 16 bytes can be copied asynchronously
        piece = WIDEST // self.left[0].dtype.itemsize
        fewer = max(n for n in range(1, parts + 1) if n == 1 or self.longest % (n * piece) == 0)
        return fewer if 2 * fewer >= parts else parts


class _Sides(NamedTuple):
    """The loops on which both operands depend, and those of one of them."""

    batch: tuple[Scalar, ...]
    rows: tuple[Scalar, ...]
    columns: tuple[Scalar, ...]


def extents(loops: Sequence[Scalar]) -> int:
    """The number of iterations of loops together."""
    return prod(map(extent_of, loops))


@cached(256)
def product_of(root: Root, target: Target) -> Product | None:
    """The product that a root computes, if tiles are profitable; else None."""
    grid = target.grid
    if not isinstance(root, Elements):
        return None
    if grid is None or not grid.tiles or len(root.loops) < 2 or len(root.elements) != 1:
        return None
    if root.part or len(root.folds) != 1:
        return None
    (fold,) = root.folds
    value, *counts = fold.args
    counters: tuple[Scalar, ...] = fold.attribute[1]
    if any(i.attribute[2] is None for i in counters) or any(n.op != "const" for n in counts[1:]):
        return None
    sides = _sides(value, root.loops)
    if sides is None or min(map(extents, sides[1:])) < grid.narrowest_product:
        return None
    if not {*postorder(counts[:1])}.isdisjoint(sides.rows + sides.columns):
        return None
    found = operands_of(value, set(sides.rows), set(sides.columns))
    if found is None:
        return None
    return _on_tensor_cores(fold, sides, *found, target) or _by_threads(fold, sides, *found, grid)


def _on_tensor_cores(
    fold: Scalar, sides: _Sides, left: Sequence[Scalar], right: Sequence[Scalar], target: Target
) -> Product | None:
    """The product as a sum of fragments, if tensor cores support its operands."""
    grid = target.gpu
    if not _is_padded(fold, (left, right)) or fold.attribute[0] != "add":
        return None
    factors = _for_fragments(fold, left[0], right[0], target)
    if factors is None or prod(map(extent_of, fold.attribute[1])) < fragments.terms(
        factors[0].dtype
    ):
        return None
    size = factors[0].dtype.itemsize
    counters = fold.attribute[1]
    # float32 elements are copied before they are rounded
    plain = (left[0], right[0]) if factors[0].dtype == SINGLE else factors
    copied = fold.args[1].op == "const" and all(
        is_copied(each, loops, counters)
        for each, loops in zip(plain, (sides.rows, sides.columns), strict=True)
    )
    tile = _largest(_warp_tiles(size, copied, grid), sides, grid)
    if tile is None:
        return None
    factors = plain if tile.is_copied else factors
    x, y = (convert(each, fold.dtype) for each in factors)
    term = Scalar("mul", (x, y), fold.dtype)
    return Product(fold, *sides, factors[:1], factors[1:], term, True, tile)


def _warp_tiles(itemsize: int, copied: bool, grid: Grid) -> Sequence[WarpTile]:
    """The tiles for operands of an item size: for asynchronous copies, if these are possible."""
    tiles: Sequence[WarpTile] = grid.double_tiles
    if itemsize < DOUBLE.itemsize:
        tiles = [tile.of(itemsize) for tile in (*grid.copied_tiles, *grid.warp_tiles)]
    fitting = [tile for tile in tiles if tile.bytes(itemsize) <= grid.largest_shared]
    for_copies = [tile for tile in fitting if tile.is_copied and copied]
    return for_copies or [tile for tile in fitting if not tile.is_copied]


def _for_fragments(
    fold: Scalar, left: Scalar, right: Scalar, target: Target
) -> tuple[Scalar, Scalar] | None:
    """Factors of one dtype, whose products tensor cores add in the sum's; None if they cannot.

    Half floats of either kind are used directly, even if they have been widened to float32, since
    their products are the same. Other float32 numbers would lose bits, and are used only if the
    target permits it.
    """
    if fold.dtype == DOUBLE:
        return left, right
    if fold.dtype != SINGLE:
        return None
    half, other = before_widening(left), before_widening(right)
    if half is not None and other is not None and half.dtype == other.dtype:
        return half, other
    if not target.tf32:
        return None
    return fragments.as_tf32(left), fragments.as_tf32(right)


def before_widening(x: Scalar) -> Scalar | None:
    """The half float (with 5 or 8 bits of exponent) from which a number was widened, if it was."""
    if x.dtype == HALF:
        return x
    for node in postorder([x]):
        is_half = node.dtype == HALF or is_bfloat16(node.dtype)
        if is_half and Simplifier()(convert(node, x.dtype)) is x:
            return node
    return None


def _by_threads(
    fold: Scalar, sides: _Sides, left: Sequence[Scalar], right: Sequence[Scalar], grid: Grid
) -> Product | None:
    """The product with accumulators in the registers of threads."""
    term: Scalar = fold.args[0]
    size, operands = term.dtype.itemsize, len(left) + len(right)
    fitting = [
        tile
        for tile in grid.tiles
        if tile.sums * size <= grid.registers and operands * tile.bytes(size) <= grid.shared
    ]
    tile = _largest(fitting, sides, grid)
    if tile is None:
        return None
    padded = _is_padded(fold, (left, right))
    return Product(fold, *sides, tuple(left), tuple(right), term, padded, tile)


def _sides(value: Scalar, loops: Sequence[Scalar]) -> _Sides | None:
    """The loops on which both operands depend, and those of each: columns are contiguous."""
    *_, last = loops
    with_last: set[Scalar] = set()
    others: set[Scalar] = set()
    for node in postorder([value]):
        if node.op == "load":
            known = set(postorder(node.args)) & set(loops)
            (with_last if last in known else others).update(known)
    rows, columns = others - with_last, with_last - others
    if last not in columns or not rows:
        return None
    batch = [loop for loop in loops if loop not in rows | columns]
    return _Sides(
        tuple(batch),
        tuple(loop for loop in loops if loop in rows),
        tuple(loop for loop in loops if loop in columns),
    )


def operands_of(
    value: Scalar, rows: Set[Scalar], columns: Set[Scalar]
) -> tuple[list[Scalar], list[Scalar]] | None:
    """The largest subterms without columns, and without rows; None if others remain."""
    nodes = postorder([value])
    known: dict[Scalar, Set[Scalar]] = {}
    varies: set[Scalar] = set()
    for node in nodes:
        known[node] = frozenset({node}).union(*(known[arg] for arg in node.args)) & (rows | columns)
        if node.op in ("load", "index") or not varies.isdisjoint(node.args):
            varies.add(node)
    left: dict[Scalar, None] = {}
    right: dict[Scalar, None] = {}
    stack, seen = [value], {value}
    while stack:
        node = stack.pop()
        if node not in varies:
            continue
        if not known[node] & columns:
            left[node] = None
        elif not known[node] & rows:
            right[node] = None
        elif node.op in _IMPURE:
            return None
        else:
            stack += [arg for arg in node.args if arg not in seen]
            seen.update(node.args)
    if not left or not right:
        return None
    return list(left), list(right)


def _is_padded(fold: Scalar, operands: tuple[Sequence[Scalar], Sequence[Scalar]]) -> bool:
    """Whether a sum is one of products of two numbers, so that padding with zeros is harmless."""
    left, right = operands
    if len(left) != 1 or len(right) != 1:
        return False
    value = fold.args[0]
    pairs = {("add", "mul"), ("or", "and")}
    return (fold.attribute[0], value.op) in pairs and {*value.args} == {left[0], right[0]}


def _largest(tiles: Sequence[Tile], sides: _Sides, grid: Grid) -> Tile | None:
    """The largest tile of which there are enough to keep the machine busy, or the smallest."""
    batch, rows, columns = map(extents, sides)
    for tile in tiles:
        if 2 * rows <= tile.rows or 2 * columns <= tile.columns:
            continue
        if batch * _tiles(rows, columns, tile) >= grid.blocks // 2:
            return tile
    return tiles[-1] if tiles else None


def _tiles(rows: int, columns: int, tile: ProductTile | WarpTile) -> int:
    return -(-rows // tile.rows) * -(-columns // tile.columns)


def count_of(product: Product) -> Scalar:
    """The number of terms, as an expression of the loops of the batch."""
    _, first, *inner = product.fold.args
    factor = prod(int(extent.attribute) for extent in inner)
    return first if factor == 1 else Scalar("mul", (first, const(factor, INDEX)), INDEX)
