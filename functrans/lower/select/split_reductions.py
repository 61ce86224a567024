"""Long reductions to few results, in blocks: so that threads can share them.

The sum of a million numbers has no loop but its own. It becomes a loop over blocks, each summed
on its own, and a sum of these. The blocks depend on the extents and on nothing else, so the bits
of the result do not depend on the number of threads; and many short sums are more accurate than
one long one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import Scalar, const
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import buffer, load
from functrans.lower.select.root import Root, extent_of

BLOCKS = 64

FEW_ITERATIONS = 512
"""A root with more iterations than this gives threads enough to share as it is."""

LONG = 1 << 17
"""Steps of all folds of a root together that are worth it."""


def in_blocks(
    root: Root, loops: Callable[[Sequence[int]], tuple[Scalar, ...]], simplify: Simplifier
) -> list[Root]:
    """The root, or a root of partial results and one that combines them.

    Parameters
    ----------
    root : Root
    loops : callable
        The indices of loops of given extents.
    simplify : Simplifier
    """
    extents = [extent_of(loop) for loop in root.loops]
    folds = [fold for fold in root.folds if _can_be_cut(fold, root.folds)]
    steps = sum(_steps(fold) for fold in folds) * prod(extents)
    if prod(extents) > FEW_ITERATIONS or steps < LONG:
        return [root]
    inner = loops([BLOCKS, *extents])
    shifted = dict(zip(root.loops, inner[1:], strict=True))
    # one buffer for all folds over the same extents, which are then done in one loop
    dtypes = dict.fromkeys(fold.dtype for fold in folds)
    new: list[Root] = []
    known: dict[Scalar, Scalar] = {}
    for dtype in dtypes:
        group = [fold for fold in folds if fold.dtype == dtype]
        target = buffer(f"{root.target.name}_parts", dtype, (BLOCKS, *extents, len(group)))
        elements = []
        for number, fold in enumerate(group):
            # moved to the inner loops first: the blocks may have an index that it has used
            (moved,) = simplify.substitute([fold], shifted)
            at = const(number, INDEX)
            elements.append(((*inner, at), simplify(_partial(moved, inner[0]))))
            block = index("block", BLOCKS)
            part = load(target, (block, *root.loops, at))
            op = fold.attribute[0]
            count = const(BLOCKS, INDEX)
            known[fold] = Scalar("fold", (part, count), dtype, (op, (block,)))
        new.append(Root(target, inner, tuple(range(len(inner))), tuple(elements)))
    values = simplify.substitute([value for _, value in root.elements], known)
    positions = [position for position, _ in root.elements]
    return [*new, replace(root, elements=tuple(zip(positions, values, strict=True)))]


def _steps(fold: Scalar) -> int:
    return prod(int(extent.attribute) for extent in fold.args[1:] if extent.op == "const")


def _can_be_cut(fold: Scalar, folds: Sequence[Scalar]) -> bool:
    """Whether a fold is not inside of another, has none inside, and is long in one direction."""
    extents = [extent for extent in fold.args[1:] if extent.op == "const"]
    if not extents or max(int(extent.attribute) for extent in extents) < BLOCKS:
        return False
    others = [other for other in folds if other is not fold]
    bound = {i for other in others for i in other.attribute[1]}
    return not any(_contains(fold, other) for other in others) and not any(
        node in bound for node in _nodes(fold)
    )


def _contains(fold: Scalar, other: Scalar) -> bool:
    return other in _nodes(fold)


def _nodes(fold: Scalar) -> set[Scalar]:
    seen: set[Scalar] = set()
    stack = [fold]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(node.args)
    return seen


def _partial(fold: Scalar, block: Scalar) -> Scalar:
    """The fold over one block of one of its extents."""
    op, indices = fold.attribute
    value, *extents = fold.args
    # the outermost one that is long enough: what is next to each other in memory stays together
    cut = next(i for i, n in enumerate(extents) if n.op == "const" and n.attribute >= BLOCKS)
    extent = int(extents[cut].attribute)
    length = -(-extent // BLOCKS)
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
