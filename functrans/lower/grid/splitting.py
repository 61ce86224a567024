"""Reduction splitting on a grid: how many blocks keep all of its teams busy.

Tiled products are split along their terms, and sums over rows so that a team has enough of them for
the threads of a warp. These are the rules for `functrans.lower.select.split_reductions`.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrans.loop.reductions import Reductions
from functrans.loop.scalar import Scalar
from functrans.loop.target import Target
from functrans.lower.grid.contiguity import WIDEST
from functrans.lower.grid.products.recognition import product_of
from functrans.lower.select.root import Root
from functrans.lower.select.split_reductions import Splitting, iterations, trip_count

LEAST_ROWS = 128
"""The fewest rows of a part that are worth a team: four for each of its threads."""


def _blocks(root: Root, target: Target) -> int:
    product = product_of(root, target)
    if product is not None:
        return product.parts(target.gpu)
    if not root.folds:
        return target[Reductions].blocks
    wanted = _wanted(root, target)
    # one axis is divided; if all are short, into single steps, but not the axis that is contiguous
    longest = max(_longest(fold.args[1:]) for fold in root.folds)
    return wanted if longest >= wanted else max(_longest(fold.args[1:-1]) for fold in root.folds)


def _longest(extents: Sequence[Scalar]) -> int:
    """The largest known extent; 1 if none is known."""
    return max((int(n.attribute) for n in extents if n.op == "const"), default=1)


def _wanted(root: Root, target: Target) -> int:
    """The number of blocks that keeps all teams busy."""
    grid, blocks = target.gpu, target[Reductions].blocks
    if root.vectorises_folds(target):
        return max(min(grid.waves * blocks // iterations(root), blocks), 2)
    # a team processes as many columns as a warp loads at once, and shares their rows, unless these
    # are few: then the threads of columns must be enough
    dtype = max(root.folds, key=trip_count).dtype
    few = _for(blocks, grid.warp, root)
    many = _for(blocks, grid.warp * max(WIDEST // dtype.itemsize, 1), root)
    rows = max(map(trip_count, root.folds))
    return max(min(many, rows // LEAST_ROWS), few, 2)


def _for(blocks: int, columns: int, root: Root) -> int:
    """The number of parts of rows that gives enough teams, given the columns of each."""
    return -(-blocks * columns // max(iterations(root), columns))


def _is_busy(root: Root, steps: int, target: Target) -> bool:
    grid, limits = target.gpu, target[Reductions]
    if product_of(root, target) is not None:
        return False
    if root.vectorises_folds(target):
        most = limits.longest_alone * iterations(root)
        return iterations(root) > limits.few_iterations or steps <= most
    # sums over rows take a thread each
    return iterations(root) >= min((limits.few_iterations + 1) * grid.block, limits.most_columns)


ON_A_GRID = Splitting(_blocks, _is_busy, blocks_first=True, together=64)
"""Adjacent threads store adjacent elements, and load 16 bytes each."""
