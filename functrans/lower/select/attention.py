"""Attention: sums of rows, weighted by a softmax over what is made of pairs of rows.

    scores[q, k]  = any expression of (sum over t of left[q, t] * right[k, t]), q and k
    weights[q, k] = exp(scores[q, k] - max over k of scores[q, k])
    result[q, c]  = sum over k of weights[q, k] * values[k, c] / sum over k of weights[q, k]

On a grid this is one kernel (`functrans.lower.grid.attention`), which keeps no scores in memory.
`functrans.lower.select.attention_matching` finds it among roots.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from functrans.loop.functions import Function
from functrans.loop.grid import AttentionTile, Grid
from functrans.loop.scalar import Scalar
from functrans.lower.select.products import extents
from functrans.lower.select.root import Root, extent_of


class Attention(NamedTuple):
    """A softmax-weighted sum; its expressions are of the loops of the weighted sum, and of the key.

    Parameters
    ----------
    roots : tuple of Root
        All that the kernel computes; only the last one is kept.
    batch, queries, columns : tuple of Scalar
        Loops: those that keys and values know as well, the others of the scores, those of values.
    key : Scalar
        The index that is summed over.
    product : Scalar
        The fold that the scores are made of.
    left, right : tuple of Scalar
        The operands of its terms: of queries, and of keys.
    term : Scalar
        What it adds up, made of these.
    score : Scalar
        A score, made of the product.
    largest, shift : Scalar
        The fold that is the largest of a query's scores, and what is subtracted, made of it.
    exponential : Function
        What a weight is of that difference.
    weight, weighted : Scalar
        What stands for a weight, and what a value is multiplied by, made of it.
    value : Scalar
    sum, total : Scalar
        What stands for the sum of weighted values, and for that of weights.
    made : Scalar
        The result, made of both.
    position : tuple of Scalar
        Where it is stored.
    tile : AttentionTile
    """

    roots: tuple[Root, ...]
    batch: tuple[Scalar, ...]
    queries: tuple[Scalar, ...]
    columns: tuple[Scalar, ...]
    key: Scalar
    product: Scalar
    left: tuple[Scalar, ...]
    right: tuple[Scalar, ...]
    term: Scalar
    score: Scalar
    largest: Scalar
    shift: Scalar
    exponential: Function
    weight: Scalar
    weighted: Scalar
    value: Scalar
    sum: Scalar
    total: Scalar
    made: Scalar
    position: tuple[Scalar, ...]
    tile: AttentionTile

    @property
    def widest(self) -> np.dtype[np.generic]:
        """What holds any of the numbers in between."""
        dtypes = (x.dtype for x in (self.term, self.score, self.value, self.total))
        return max(dtypes, key=lambda dtype: dtype.itemsize)

    @property
    def counters(self) -> tuple[Scalar, ...]:
        """The indices that the product sums over."""
        found: tuple[Scalar, ...] = self.product.attribute[1]
        return found


def tile_for(found: Attention, grid: Grid) -> AttentionTile | None:
    """The largest tile of which there are enough to keep the machine busy, or the smallest."""
    size = found.widest.itemsize
    terms, columns, keys = extents(found.counters), extents(found.columns), extent_of(found.key)
    rows, batch = extents(found.queries), extents(found.batch)
    fitting = [
        tile
        for tile in grid.attention_tiles
        if tile.sums(columns) * size <= grid.registers
        and tile.bytes(terms, columns, size, len(found.left), len(found.right)) <= grid.shared
    ]

    def blocks(tile: AttentionTile) -> int:
        return batch * -(-rows // tile.queries)

    for tile in fitting:
        if blocks(tile) >= grid.blocks // 2:
            return tile
    if not fitting:
        return None
    tile = fitting[-1]
    # with few blocks, each goes over its keys while most of the machine has nothing to do
    work = keys * tile.queries * (terms + columns) // tile.threads
    few = blocks(tile) < grid.blocks // 4
    return None if few and work > grid.little * grid.launch else tile
