"""Reduction splitting: long reductions to few results go in blocks, which threads can share.

Expects a root. Leaves it, or a root of partial results and one that combines them.

The sum of a million numbers has no loop but its own. It becomes a loop over blocks, each summed
on its own, and a sum of these. The blocks depend on the extents and on nothing else, so the bits
of the result do not depend on the number of threads; and many short sums are more accurate than
one long one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import TypeVar

from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import buffer, load
from functrans.loop.target import Target
from functrans.lower.select.products import Product, product_of
from functrans.lower.select.root import Root, extent_of

T = TypeVar("T")


def split_reductions(
    root: Root,
    loops: Callable[[Sequence[int]], tuple[Scalar, ...]],
    target: Target,
    simplify: Simplifier,
) -> list[Root]:
    """The root, or a root of partial results and one that combines them.

    Parameters
    ----------
    root : Root
    loops : callable
        The indices of loops of given extents.
    target : Target
    simplify : Simplifier
    """
    limits = target.reductions
    product = product_of(root, target)
    extents = [extent_of(loop) for loop in root.loops]
    blocks = _blocks(root, prod(extents), target) if product is None else _parts(product, target)
    if blocks == 1:
        return [root]
    folds = [fold for fold in root.folds if _is_splittable(fold, root.folds, blocks)]
    steps = sum(_trip_count(fold) for fold in folds) * prod(extents)
    if steps < limits.long:
        return [root]
    if product is None and _is_shared(root, prod(extents), target):
        return [root]
    alone = product is None and root.vectorises_folds(target)
    if alone and steps <= limits.longest_alone * prod(extents):
        return [root]
    inner = loops([blocks, *extents])
    shifted = dict(zip(root.loops, inner[1:], strict=True))
    by_fold = target.grid is not None  # (where neighbouring threads store to neighbouring places)

    def element(position: Sequence[T], number: T) -> tuple[T, ...]:
        return (number, *position) if by_fold else (*position, number)

    # one buffer for all folds over the same extents, which are then done in one loop
    dtypes = dict.fromkeys(fold.dtype for fold in folds)
    new: list[Root] = []
    known: dict[Scalar, Scalar] = {}
    for dtype in dtypes:
        group = [fold for fold in folds if fold.dtype == dtype]
        shape = element((blocks, *extents), len(group))
        partial = buffer(f"{root.target.name}_parts", dtype, shape)
        elements = []
        for number, fold in enumerate(group):
            # moved to the inner loops first: the blocks may have an index that it has used
            (moved,) = simplify.substitute([fold], shifted)
            at = const(number, INDEX)
            elements.append((element(inner, at), simplify(_partial(moved, inner[0], blocks))))
            block = index("block", blocks)
            term = load(partial, element((block, *root.loops), at))
            op = fold.attribute[0]
            count = const(blocks, INDEX)
            known[fold] = Scalar("fold", (term, count), dtype, (op, (block,)))
        axes = tuple(range(by_fold, by_fold + len(inner)))
        new.append(Root(partial, inner, axes, tuple(elements)))
    values = simplify.substitute([value for _, value in root.elements], known)
    positions = [position for position, _ in root.elements]
    return [*new, replace(root, elements=tuple(zip(positions, values, strict=True)))]


def _parts(product: Product, target: Target) -> int:
    assert target.grid is not None
    return product.parts(target.grid)


def _blocks(root: Root, iterations: int, target: Target) -> int:
    """Into how many blocks a reduction is cut."""
    blocks = target.reductions.blocks
    if target.grid is None or root.vectorises_folds(target):
        return blocks
    # of columns, a team does as many as a warp has threads, and shares their rows
    return max(-(-blocks * target.grid.warp // max(iterations, target.grid.warp)), 2)


def _is_shared(root: Root, iterations: int, target: Target) -> bool:
    """Whether the iterations of a root are enough for threads, or blocks of a grid, as it is."""
    limits = target.reductions
    if target.grid is None or root.vectorises_folds(target):
        return iterations > limits.few_iterations
    # sums of columns are a thread's each
    return iterations >= min((limits.few_iterations + 1) * target.grid.block, limits.most_columns)


def _trip_count(fold: Scalar) -> int:
    return prod(int(extent.attribute) for extent in fold.args[1:] if extent.op == "const")


def _is_splittable(fold: Scalar, folds: Sequence[Scalar], blocks: int) -> bool:
    """Whether a fold is not inside of another, has none inside, and is long in one direction."""
    extents = [extent for extent in fold.args[1:] if extent.op == "const"]
    if not extents or max(int(extent.attribute) for extent in extents) < blocks:
        return False
    others = [other for other in folds if other is not fold]
    bound = {i for other in others for i in other.attribute[1]}
    nodes = set(postorder([fold]))
    return nodes.isdisjoint(others) and nodes.isdisjoint(bound)


def _partial(fold: Scalar, block: Scalar, blocks: int) -> Scalar:
    """The fold over one block of one of its extents."""
    op, indices = fold.attribute
    value, *extents = fold.args
    # the outermost one that is long enough: what is next to each other in memory stays together
    cut = next(i for i, n in enumerate(extents) if n.op == "const" and n.attribute >= blocks)
    extent = int(extents[cut].attribute)
    length = -(-extent // blocks)
    within = index("k", length)
    start = Scalar("mul", (block, const(length, INDEX)), INDEX)
    (moved,) = Simplifier().substitute(
        [value], {indices[cut]: Scalar("add", (start, within), INDEX)}
    )
    left = Scalar("sub", (const(extent, INDEX), start), INDEX)
    whole = const(length, INDEX)
    count = Scalar("min", (whole, Scalar("max", (left, const(0, INDEX)), INDEX)), INDEX)
    new_indices = (*indices[:cut], within, *indices[cut + 1 :])
    new_extents = (*extents[:cut], count, *extents[cut + 1 :])
    return Scalar("fold", (moved, *new_extents), fold.dtype, (op, new_indices))
