"""Products of matrices among roots: sums of terms of two operands, which have axes of their own.

A root is one if it sums, for each row and each column, over terms of which each load knows either
the row or the column: a contraction, but as well the distances between two sets of points. On a
grid such a root is computed in tiles (`functrans.lower.grid.product_tiling`): what is loaded for a
row is used for all columns of the tile, and the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from math import prod
from typing import NamedTuple

import numpy as np

from functrans.loop.grid import Grid, ProductTile
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, const, convert, postorder
from functrans.loop.target import Target
from functrans.lower.select.root import Root, extent_of

HALF = np.dtype(np.float16)

_IMPURE = frozenset({"guard", "unlikely", "checked", "required", "fold", "load"})
"""What cannot be computed from numbers in tiles: where it is read, or whether, is not known."""


class Product(NamedTuple):
    """A sum over terms of two operands.

    Parameters
    ----------
    fold : Scalar
        The sum, in the root's expression.
    batch, rows, columns : tuple of Scalar
        The root's loops: those that both operands know, and those of one of them.
    left, right : tuple of Scalar
        What is computed for rows, and for columns, once for a tile.
    term : Scalar
        What is summed, made of these.
    padded : bool
        Whether terms of zeros change nothing.
    tile : ProductTile
    """

    fold: Scalar
    batch: tuple[Scalar, ...]
    rows: tuple[Scalar, ...]
    columns: tuple[Scalar, ...]
    left: tuple[Scalar, ...]
    right: tuple[Scalar, ...]
    term: Scalar
    padded: bool
    tile: ProductTile

    @property
    def counters(self) -> tuple[Scalar, ...]:
        """The indices that are summed over."""
        found: tuple[Scalar, ...] = self.fold.attribute[1]
        return found

    @property
    def longest(self) -> int:
        """How many terms there are at most."""
        return extents(self.counters)

    @property
    def blocks(self) -> int:
        """How many tiles the result has."""
        rows, columns = extents(self.rows), extents(self.columns)
        return extents(self.batch) * _tiles(rows, columns, self.tile)

    def parts(self, grid: Grid) -> int:
        """Into how many parts the sum is cut, so that there are tiles for the whole machine."""
        if self.fold.dtype == HALF:
            # what is kept in between would be rounded
            return 1
        wanted = grid.blocks // max(self.blocks, 1)
        return max(min(wanted, self.longest // grid.least_part), 1)


def extents(loops: Sequence[Scalar]) -> int:
    """How many iterations loops have together."""
    return prod(map(extent_of, loops))


def product_of(root: Root, target: Target) -> Product | None:
    """The product that a root is, if it is one and worth tiles."""
    grid = target.grid
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
    batch, rows, columns = sides
    if not {*postorder(counts[:1])}.isdisjoint(rows + columns):
        return None
    found = operands_of(value, set(rows), set(columns))
    if found is None:
        return None
    left, right = found
    term = value
    widened = fold.dtype == HALF and _is_padded(fold, (left, right))
    if widened:
        # as NumPy does it: half floats are multiplied and added up as float32
        left, right = ([convert(x, np.float32) for x in side] for side in (left, right))
        term = Scalar("mul", (left[0], right[0]), np.dtype(np.float32))
    tile = _tile(
        extents(batch), extents(rows), extents(columns), len(left) + len(right), term, grid
    )
    if tile is None:
        return None
    padded = widened or _is_padded(fold, (left, right))
    return Product(fold, batch, rows, columns, tuple(left), tuple(right), term, padded, tile)


def _sides(
    value: Scalar, loops: Sequence[Scalar]
) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...], tuple[Scalar, ...]] | None:
    """The loops that both operands know, and those of each: columns are next to each other."""
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
    return (
        tuple(batch),
        tuple(loop for loop in loops if loop in rows),
        tuple(loop for loop in loops if loop in columns),
    )


def operands_of(
    value: Scalar, rows: Set[Scalar], columns: Set[Scalar]
) -> tuple[list[Scalar], list[Scalar]] | None:
    """The largest parts of a term that know no column, and no row; None if that is not all."""
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
    """Whether a sum is one of products of two numbers, so that zeros change nothing."""
    left, right = operands
    if len(left) != 1 or len(right) != 1:
        return False
    value = fold.args[0]
    pairs = {("add", "mul"), ("or", "and")}
    return (fold.attribute[0], value.op) in pairs and {*value.args} == {left[0], right[0]}


def _tile(
    batch: int, rows: int, columns: int, operands: int, term: Scalar, grid: Grid
) -> ProductTile | None:
    """The largest tile of which there are enough to keep the machine busy, or the smallest."""
    size = term.dtype.itemsize
    fitting = [
        tile
        for tile in grid.tiles
        if tile.sums * size <= grid.registers and operands * tile.bytes(size) <= grid.shared
    ]
    for tile in fitting:
        if 2 * rows <= tile.rows or 2 * columns <= tile.columns:
            continue
        if batch * _tiles(rows, columns, tile) >= grid.blocks // 2:
            return tile
    return fitting[-1] if fitting else None


def _tiles(rows: int, columns: int, tile: ProductTile) -> int:
    return -(-rows // tile.rows) * -(-columns // tile.columns)


def count_of(product: Product) -> Scalar:
    """How many terms there are, as an expression of the loops of the batch."""
    _, first, *inner = product.fold.args
    factor = prod(int(extent.attribute) for extent in inner)
    return first if factor == 1 else Scalar("mul", (first, const(factor, INDEX)), INDEX)
