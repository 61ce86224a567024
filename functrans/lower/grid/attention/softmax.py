"""Attention: sums of rows, weighted by a softmax over values of pairs of rows.

    scores[q, k]  = any expression of (sum over t of left[q, t] * right[k, t]), q and k
    weights[q, k] = exp(scores[q, k] - max over k of scores[q, k])
    result[q, c]  = sum over k of weights[q, k] * values[k, c] / sum over k of weights[q, k]

On a grid this is a single kernel (`functrans.lower.grid.attention.softmax_kernel`), which does not
store scores in memory. `functrans.lower.grid.attention.softmax_matching` finds it among roots.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functrans.loop.functions import Function
from functrans.loop.grid import AttentionTile, Grid
from functrans.loop.scalar import Scalar
from functrans.lower.grid.attention.pairs import PairProduct, Pairs, Values
from functrans.lower.grid.products.recognition import extents
from functrans.lower.select.root import Root
from functrans.records import NamedTuple


class Statistic(NamedTuple):
    """A statistic of a query that other roots read: its root, its position, its value.

    It depends on the largest of the query's scores, or on the sum of its weights.
    """

    root: Root
    position: tuple[Scalar, ...]
    value: Scalar


class Attention(NamedTuple):
    """A softmax-weighted sum, in terms of its loops and of the loop over keys."""

    # all roots that the kernel computes; only the last one and the statistics are stored
    roots: tuple[Root, ...]
    statistics: tuple[Statistic, ...]
    pairs: Pairs  # rows are queries, partners are keys
    product: PairProduct  # the product from which scores are computed
    values: Values
    score: Scalar  # a score, in terms of the product
    largest: Scalar  # the fold that is the largest of a query's scores
    shift: Scalar  # the subtrahend, in terms of `largest`
    exponential: Function  # the function that maps the difference to a weight
    weight: Scalar  # the symbol for a weight
    weighted: Scalar  # the factor of a value, in terms of that symbol
    sum: Scalar  # the symbol for the sum of weighted values
    total: Scalar  # the symbol for the sum of weights
    made: Scalar  # the result, in terms of both
    position: tuple[Scalar, ...]  # the position at which it is stored
    tile: AttentionTile
    # whether tensor cores may multiply half floats: not if scores are recomputed elsewhere and
    # compared with the largest
    on_tensor_cores: bool = False
    # whether there are enough tiles of keys to examine which of them a mask leaves out
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
    fitting: Sequence[AttentionTile],  # the largest first
    pairs: Pairs,
    work: int,  # the number of multiplications for each pair
    grid: Grid,
) -> AttentionTile | None:
    """The first tile of which there are enough, or the last; None if most of a machine is idle."""
    rows, batch = extents(pairs.rows), extents(pairs.batch)

    def blocks(tile: AttentionTile) -> int:
        return batch * -(-rows // tile.queries)

    for tile in fitting:
        if blocks(tile) >= grid.blocks // 2:
            return tile
    if not fitting:
        return None
    tile = fitting[-1]
    # with few blocks, each processes all of its keys while most multiprocessors are idle
    few = blocks(tile) < grid.blocks // 4
    cycles = extents(pairs.partners) * tile.queries * work // tile.threads
    return None if few and cycles > grid.little * grid.launch else tile
