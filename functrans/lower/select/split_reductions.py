"""Reduction splitting: long reductions with few results in blocks, which threads can share.

Expects a root. Leaves it, or a root of partial results and one that combines them.

The sum of a million numbers has no loop except its own. It becomes a loop over blocks, each of
which is summed separately, and a sum of these. The blocks depend on the extents alone, so the bits
of the result do not depend on the number of threads; and many short sums are more accurate than a
long one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from functools import partial
from math import prod
from typing import TypeVar

from functrans.loop.functions import node_count
from functrans.loop.nodes import INDEX, combine_pairwise, index
from functrans.loop.reductions import Reductions
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, buffer, load
from functrans.loop.target import Target
from functrans.lower.select.root import Elements, Root, extent_of
from functrans.records import NamedTuple

T = TypeVar("T")


class Splitting(NamedTuple):
    """Rules by which reductions are split on one kind of machine."""

    # the number of blocks for the reductions of a root; 1: they are not split
    blocks: Callable[[Root, Target], int]
    # whether a root, given the number of steps of its folds, has enough iterations for all threads
    is_busy: Callable[[Root, int, Target], bool]
    blocks_first: bool  # whether the partial results of a block are adjacent in memory
    # Long blocks of contiguous terms begin at multiples of this number, so that threads load
    # several terms at once. A few remaining terms are in no block.
    together: int = 1
    # the rows that are added to sums at once, of which blocks have a multiple; or 0
    rows_at_once: Callable[[Root, Target], int] = lambda root, target: 0


def iterations(root: Root) -> int:
    """The number of iterations of a root's loops."""
    return prod(map(extent_of, root.loops))


def on_cores(again: Set[Buffer] = frozenset()) -> Splitting:
    """A few threads share the blocks, and each reads contiguous memory.

    Given are the arrays that are summed again, by means of their sums.
    """
    return Splitting(
        blocks=partial(_blocks, again=again),
        is_busy=partial(_is_busy, again=again),
        blocks_first=False,
        rows_at_once=partial(_rows_at_once, again=again),
    )


def summed_again(roots: Iterable[Root]) -> set[Buffer]:
    """The arrays that are reduced by means of their reductions, as for a variance."""
    reduced: dict[Buffer, set[Buffer]] = {}  # by the value that they were reduced for
    found: set[Buffer] = set()
    for root in roots:
        if isinstance(root, Elements):
            before = set().union(*(reduced.get(each, ()) for each in root.loads))
            again = set(root.loads) if root.folds else set()
            found |= before & again
            reduced[root.target] = before | again
    return found


def _is_busy(root: Root, _: int, target: Target, again: Set[Buffer]) -> bool:
    """Whether there are enough iterations for threads; fewer suffice if the folds are vectors."""
    limits = target[Reductions]
    fewest = limits.blocks if root.vectorises_folds(target) else limits.few_iterations + 1
    return iterations(root) >= fewest and not _rows_at_once(root, target, again)


def _rows_at_once(root: Root, target: Target, again: Set[Buffer]) -> int:
    """How many whole rows of an array that is in no cache are added to sums at once; or 0."""
    limits, line, rows = target[Reductions], target.cache_line, _most_rows(root)
    if rows < limits.fewest_rows or not root.has_strided_folds(target):
        return 0
    operations = node_count(x for x in postorder(root.folds) if x.args)
    terms = iterations(root) * max(map(trip_count, root.folds))

    def of_array(one: Buffer) -> int:
        row, whole = iterations(root) * one.dtype.itemsize, terms * one.dtype.itemsize
        whole = min(whole, one.nbytes)
        stays = one in again and whole < limits.from_memory and rows < limits.fewest_rows_again
        if stays or row < limits.fewest_lines * line:
            return 0
        return limits.rows_at_once(rows, row, whole, operations, line)

    return max(map(of_array, root.loads), default=0)


def _rows_of_block(rows: int, at_once: int, limits: Reductions) -> int:
    """The number of rows that are added to the same sums, if possible with blocks for threads."""
    if at_once == 1:
        return limits.most_steps
    fewest, most = limits.most_steps, at_once * limits.steps
    length = min(max(-(-rows // limits.fewest_blocks), fewest), most)
    return -(-length // at_once) * at_once


def _blocks(root: Root, target: Target, again: Set[Buffer]) -> int:
    """The number of blocks, of all iterations together if vectors are along their terms.

    1 if a long reduction depends on another, and would not be split.
    """
    limits = target[Reductions]
    blocks = limits.blocks
    if root.vectorises_folds(target):
        blocks = max(blocks // max(iterations(root), 1), 1)
    elif at_once := _rows_at_once(root, target, again):
        rows = _most_rows(root)
        blocks = -(-rows // _rows_of_block(rows, at_once, limits))
    for fold in root.folds:  # contiguous terms stay together
        *outer, last = (int(n.attribute) if n.op == "const" else 1 for n in fold.args[1:])
        if max(outer, default=0) >= limits.steps > last // blocks:
            blocks = min(blocks, max(outer))
    rest = [fold for fold in root.folds if not _is_splittable(fold, root.folds, blocks)]
    return 1 if any(trip_count(fold) >= blocks for fold in rest) else blocks


def split_reductions(
    root: Root,
    loops: Callable[[Sequence[int]], tuple[Scalar, ...]],  # the indices of loops of given extents
    target: Target,
    simplify: Simplifier,
    splitting: Splitting | None = None,
) -> list[Root]:
    """The root, or a root of partial results and one that combines them."""
    if not isinstance(root, Elements):
        return [root]
    extents = [extent_of(loop) for loop in root.loops]
    splitting = splitting or on_cores()
    blocks = splitting.blocks(root, target)
    if blocks == 1:
        return [root]
    folds = [fold for fold in root.folds if _is_splittable(fold, root.folds, blocks)]
    steps = sum(trip_count(fold) for fold in folds) * prod(extents)
    if steps < target[Reductions].long or splitting.is_busy(root, steps, target):
        return [root]
    inner = loops([blocks, *extents])
    shifted = dict(zip(root.loops, inner[1:], strict=True))
    first = splitting.blocks_first
    together = splitting.together if root.vectorises_folds(target) else 1
    multiple = max(splitting.rows_at_once(root, target), 1)

    def element(position: Sequence[T], number: T) -> tuple[T, ...]:
        return (number, *position) if first else (*position, number)

    # one buffer for all folds over the same extents, which then share a loop
    dtypes = dict.fromkeys(fold.dtype for fold in folds)
    new: list[Root] = []
    known: dict[Scalar, Scalar] = {}
    for dtype in dtypes:
        group = [fold for fold in folds if fold.dtype == dtype]
        shape = element((blocks, *extents), len(group))
        parts = buffer(f"{root.target.name}_parts", dtype, shape)
        elements = []
        for number, fold in enumerate(group):
            # inner loops are renamed first: a block's index may be one that is in use
            (moved,) = simplify.substitute([fold], shifted)
            at = const(number, INDEX)
            cut = _cut(moved, blocks, together, multiple)
            blocked = _partial(moved, inner[0], cut)
            elements.append((element(inner, at), simplify(blocked)))
            block = index("block", blocks)
            term = load(parts, element((block, *root.loops), at))
            op = fold.attribute[0]
            total = Scalar("fold", (term, const(blocks, INDEX)), dtype, (op, (block,)))
            rest = _rest(fold, cut)
            known[fold] = total if rest is None else combine_pairwise(op, [total, rest])
        axes = tuple(range(first, first + len(inner)))
        new.append(Elements(parts, inner, axes, tuple(elements)))
    values = simplify.substitute([value for _, value in root.elements], known)
    positions = [position for position, _ in root.elements]
    return [*new, replace(root, elements=tuple(zip(positions, values, strict=True)))]


def trip_count(fold: Scalar) -> int:
    """The number of terms of a fold, as far as it is known."""
    return prod(int(extent.attribute) for extent in fold.args[1:] if extent.op == "const")


def _most_rows(root: Root) -> int:
    """The largest known extent of a fold."""
    extents = (extent for fold in root.folds for extent in fold.args[1:] if extent.op == "const")
    return max((int(extent.attribute) for extent in extents), default=0)


def _is_splittable(fold: Scalar, folds: Sequence[Scalar], blocks: int) -> bool:
    """Whether a fold is not nested with another, and is long in one direction."""
    extents = [extent for extent in fold.args[1:] if extent.op == "const"]
    if not extents or max(int(extent.attribute) for extent in extents) < blocks:
        return False
    others = [other for other in folds if other is not fold]
    bound = {i for other in others for i in other.attribute[1]}
    nodes = set(postorder([fold]))
    return nodes.isdisjoint(others) and nodes.isdisjoint(bound)


class Cut(NamedTuple):
    """The division of one extent of a fold into blocks."""

    axis: int
    length: int  # the terms of a block; the last blocks may have fewer, or none
    whole: int  # the number of terms that are in blocks; the rest are not


_LARGEST_REST = 1 << 12
"""The most terms that a team sums in addition to the partial results."""


def _cut(fold: Scalar, blocks: int, together: int, multiple: int) -> Cut:
    extents = fold.args[1:]
    # the outermost one that is long enough, so that contiguous terms stay together
    axis = next(i for i, n in enumerate(extents) if n.op == "const" and n.attribute >= blocks)
    extent = int(extents[axis].attribute)
    length = -(-extent // blocks)
    while together > 1 and 16 * together > length:
        together //= 2
    multiple = max(together, multiple)
    length = -(-length // multiple) * multiple
    inside = prod(
        int(n.attribute) if n.op == "const" else _LARGEST_REST + 1
        for i, n in enumerate(extents)
        if i != axis
    )
    rest = extent % together
    return Cut(axis, length, extent - rest if rest * inside <= _LARGEST_REST else extent)


def _partial(fold: Scalar, block: Scalar, cut: Cut) -> Scalar:
    """The fold over one block of one of its extents."""
    within = index("k", cut.length)
    start = Scalar("mul", (block, const(cut.length, INDEX)), INDEX)
    left = Scalar("sub", (const(cut.whole, INDEX), start), INDEX)
    whole = const(cut.length, INDEX)
    count = Scalar("min", (whole, Scalar("max", (left, const(0, INDEX)), INDEX)), INDEX)
    return _along(fold, cut.axis, within, Scalar("add", (start, within), INDEX), count)


def _rest(fold: Scalar, cut: Cut) -> Scalar | None:
    """The fold over the terms that are in no block."""
    count = int(fold.args[1 + cut.axis].attribute) - cut.whole
    if not count:
        return None
    one = index("k", count)
    place = Scalar("add", (const(cut.whole, INDEX), one), INDEX)
    return _along(fold, cut.axis, one, place, const(count, INDEX))


def _along(fold: Scalar, axis: int, one: Scalar, place: Scalar, count: Scalar) -> Scalar:
    """The fold with another index along one of its extents."""
    op, indices = fold.attribute
    value, *extents = fold.args
    (moved,) = Simplifier().substitute([value], {indices[axis]: place})
    new_indices = (*indices[:axis], one, *indices[axis + 1 :])
    new_extents = (*extents[:axis], count, *extents[axis + 1 :])
    return Scalar("fold", (moved, *new_extents), fold.dtype, (op, new_indices))
