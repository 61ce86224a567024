"""Attention: sums of rows, weighted by a softmax over what is made of pairs of rows.

    scores[q, k]  = any expression of (sum over t of left[q, t] * right[k, t]), q and k
    weights[q, k] = exp(scores[q, k] - max over k of scores[q, k])
    result[q, c]  = sum over k of weights[q, k] * values[k, c] / sum over k of weights[q, k]

On a grid this is one kernel (`functrans.lower.grid.attention.softmax_kernel`), which keeps no
scores in memory. `functrans.lower.grid.attention.softmax_matching` finds it among roots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from functrans.loop.functions import Function
from functrans.loop.grid import AttentionTile, Grid
from functrans.loop.scalar import Scalar
from functrans.lower.grid.attention.pairs import PairProduct, Pairs, Values
from functrans.lower.grid.products.recognition import extents
from functrans.lower.select.root import Root


class Statistic(NamedTuple):
    """A statistic of a query that others read: its root, where it is stored, its value.

    It is made of the largest of its scores, or of the sum of its weights.
    """

    root: Root
    position: tuple[Scalar, ...]
    value: Scalar


class Attention(NamedTuple):
    """A softmax-weighted sum; its expressions are of the loops of the weighted sum, and of the key.

    Parameters
    ----------
    roots : tuple of Root
        All that the kernel computes; only the last one is kept, and statistics.
    statistics : tuple of Statistic
    pairs : Pairs
        Rows are queries, partners are keys.
    product : PairProduct
        What the scores are made of.
    values : Values
    score : Scalar
        A score, made of the product.
    largest, shift : Scalar
        The fold that is the largest of a query's scores, and what is subtracted, made of it.
    exponential : Function
        What a weight is of that difference.
    weight, weighted : Scalar
        What stands for a weight, and what a value is multiplied by, made of it.
    sum, total : Scalar
        What stands for the sum of weighted values, and for that of weights.
    made : Scalar
        The result, made of both.
    position : tuple of Scalar
        Where it is stored.
    tile : AttentionTile
    on_tensor_cores : bool
        Whether tensor cores may multiply half floats: nobody makes the scores again, and asks which
        of them is the largest.
    leaves_out : bool
        Whether there are so many tiles of keys that it is worth looking which a mask leaves out.
    """

    roots: tuple[Root, ...]
    statistics: tuple[Statistic, ...]
    pairs: Pairs
    product: PairProduct
    values: Values
    score: Scalar
    largest: Scalar
    shift: Scalar
    exponential: Function
    weight: Scalar
    weighted: Scalar
    sum: Scalar
    total: Scalar
    made: Scalar
    position: tuple[Scalar, ...]
    tile: AttentionTile
    on_tensor_cores: bool = False
    leaves_out: bool = False

    @property
    def widest(self) -> np.dtype[np.generic]:
        """The widest dtype of intermediate values."""
        numbers = (self.product.term, self.score, self.values.value, self.total)
        return max((x.dtype for x in numbers), key=lambda dtype: dtype.itemsize)


def tile_for(found: Attention, grid: Grid) -> AttentionTile | None:
    """The largest tile of which there are enough to keep the machine busy, or the smallest."""
    size, product = found.widest.itemsize, found.product
    columns = extents(found.values.columns)
    fitting = [
        tile
        for tile in grid.attention_tiles
        if tile.sums(columns) * size <= grid.registers
        and tile.bytes(product.terms, columns, size, len(product.left), len(product.right))
        <= grid.shared
    ]
    return chosen_tile(fitting, found.pairs, product.terms + columns, grid)


def chosen_tile(
    fitting: Sequence[AttentionTile], pairs: Pairs, work: int, grid: Grid
) -> AttentionTile | None:
    """The first tile of which there are enough, or the last; None if it leaves most idle.

    Parameters
    ----------
    fitting : sequence of AttentionTile
        The largest first.
    pairs : Pairs
    work : int
        Multiplications for each pair.
    grid : Grid
    """
    rows, batch = extents(pairs.rows), extents(pairs.batch)

    def blocks(tile: AttentionTile) -> int:
        return batch * -(-rows // tile.queries)

    for tile in fitting:
        if blocks(tile) >= grid.blocks // 2:
            return tile
    if not fitting:
        return None
    tile = fitting[-1]
    # with few blocks, each goes over its keys while most of the machine has nothing to do
    few = blocks(tile) < grid.blocks // 4
    cycles = extents(pairs.partners) * tile.queries * work // tile.threads
    return None if few and cycles > grid.little * grid.launch else tile
