"""Sums over products, tile by tile: elements are summed while they are in registers.

Expects roots. Leaves them, and roots of partial sums, with one element for each tile of a product,
in place of sums over its rows and columns. The kernel of the tiles computes these from the
accumulators of its threads (`functrans.lower.grid.products.register_tiling`), and the product is
never stored: for example, for the squared norms of the gradients of a layer that is applied at each
position of a sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, buffer, load
from functrans.loop.target import Target
from functrans.lower.grid.products.recognition import Product, product_of
from functrans.lower.select.root import Elements, Root, extent_of

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
"""Sums of other dtypes are not changed."""

Loops = Callable[[Sequence[int]], tuple[Scalar, ...]]


class _Summed(NamedTuple):
    """A fold over all rows and columns of a product, and its counters for these."""

    fold: Scalar
    root: Root
    product: Product
    row: Scalar
    column: Scalar


def tile_sums(
    roots: Sequence[Root], loops: Loops, target: Target, simplify: Simplifier
) -> list[Root]:
    """The roots, with sums over the elements of products replaced by sums over tiles."""
    grid = target.grid
    assert grid is not None
    if not grid.tiles:
        return list(roots)
    readers: dict[Buffer, list[Root]] = {}
    for root in roots:
        for source in root.loads:
            readers.setdefault(source, []).append(root)
    products: dict[Buffer, tuple[Root, Product]] = {}
    found: list[Root] = []
    for root in roots:
        known: dict[Scalar, Scalar] = {}
        for source in root.loads:
            summed = _summed(root, *products[source]) if source in products else None
            if summed is not None:
                partial, known[summed.fold] = _by_tiles(summed, loops, simplify)
                found.append(partial)
        if known and isinstance(root, Elements):
            positions, values = zip(*root.elements, strict=True)
            made = simplify.substitute(values, known)
            root = replace(root, elements=tuple(zip(positions, made, strict=True)))
        found.append(root)
        product = product_of(root, target)
        if product is not None and not root.output and len(readers.get(root.target, ())) == 1:
            if product.parts(grid) == 1:
                products[root.target] = root, product
    return found


def _summed(reader: Root, root: Root, product: Product) -> _Summed | None:
    """The fold over all of a product's elements, if its reader does nothing else with them."""
    *batch, first, second = root.loops
    if not isinstance(root, Elements):
        return None
    if (first,) != product.rows or (second,) != product.columns or not batch:
        return None
    if tuple(batch) != reader.loops or root.axes != tuple(range(len(root.target.shape))):
        return None
    loads = reader.loads[root.target]
    places = {each.args for each in loads}
    folds = [fold for fold in reader.folds if not {*postorder([fold])}.isdisjoint(loads)]
    if len(places) != 1 or len(folds) != 1:
        return None
    (place,), (fold,) = places, folds
    inside = {*postorder([fold])}
    if not inside.issuperset(loads) or any(each in inside for each in reader.folds if each != fold):
        return None
    *before, row, column = place
    counted = dict(zip(fold.attribute[1], fold.args[1:], strict=True))
    if tuple(before) != reader.loops or counted.keys() != {row, column}:
        return None
    if any(count.op != "const" for count in counted.values()):
        return None
    if [counted[each].attribute for each in (row, column)] != [extent_of(first), extent_of(second)]:
        return None
    if fold.attribute[0] != "add" or fold.dtype not in DTYPES:
        return None
    return _Summed(fold, root, product, row, column)


def _by_tiles(summed: _Summed, loops: Loops, simplify: Simplifier) -> tuple[Root, Scalar]:
    """The root of partial sums, and the sum of these."""
    fold, root, product, *counters = summed
    *batch, row, column = root.loops
    tile = product.tile
    extents = [extent_of(row), extent_of(column)]
    lengths = [tile.rows, tile.columns]
    blocks = [-(-n // length) for n, length in zip(extents, lengths, strict=True)]
    partial = buffer(f"{root.target.name}_tiles", fold.dtype, (*map(extent_of, batch), *blocks))
    own = loops([*map(extent_of, batch), *blocks])
    within = [index(name, length) for name, length in zip(("row", "column"), lengths, strict=True)]
    starts = [block * length for block, length in zip(own[-2:], lengths, strict=True)]
    moved = {
        counter: start + inner
        for counter, start, inner in zip(counters, starts, within, strict=True)
    }
    counts = [
        simplify(Scalar("min", (const(length, INDEX), const(n, INDEX) - start), INDEX))
        for length, n, start in zip(lengths, extents, starts, strict=True)
    ]
    value = fold.args[0]
    (term,) = simplify.substitute([value], moved)
    total = Scalar("fold", (term, *counts), fold.dtype, ("add", tuple(within)))
    (summand,) = simplify.substitute([value], dict(zip(counters, (row, column), strict=True)))
    axes = tuple(range(len(own)))
    by_tile = Elements(partial, own, axes, ((own, total),), summand=summand)
    numbers = tuple(index("block", n) for n in blocks)
    ends = tuple(const(n, INDEX) for n in blocks)
    whole = Scalar("fold", (load(partial, (*batch, *numbers)), *ends), fold.dtype, ("add", numbers))
    return by_tile, whole
