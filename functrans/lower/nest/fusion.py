"""Fusing roots: which of them share loops.

A root joins a nest at a depth if everything that it reads of what the nest makes is read at the
nest's own indices down to that depth: then iteration by iteration is as good as one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from functrans.loop.scalar import Scalar
from functrans.loop.statements import Buffer
from functrans.loop.target import Target
from functrans.lower.select.root import Root, extent_of, fold_steps


@dataclass(eq=False)
class Loop:
    """A loop, or (without an index) just a block, and in order what is inside.

    What is known of all roots inside is kept up to date as they come: asking each of them anew for
    every root that may join would take quadratic time.

    Parameters
    ----------
    index : Scalar or None
    target : Target
        The machine.
    children : list of Loop or Root
        What is directly inside.
    roots : dict
        The roots inside, at any depth, as its keys.
    sources, made : set of Buffer
        What they read, and what they compute.
    handed : int
        About how many buffers a kernel for this is called with: what it reads and does not compute,
        and what has to be in memory.
    size, nodes : int
        The nodes of their expressions, with and without those inside of functions.
    vector : bool
        Whether the iterations can be done as vectors: there is nothing but plain maps inside.
    plain : bool
        Whether there are no folds inside.
    cheap : bool
        Whether there are only roots of a few operations directly inside.
    row : int
        How many steps the longest inner loop, or the longest fold of a root, takes.
    columns : bool
        Whether there are sums down columns directly inside, which read with gaps without vectors.
    """

    index: Scalar | None
    target: Target
    children: list[Loop | Root] = field(default_factory=list)
    roots: dict[Root, None] = field(default_factory=dict)
    sources: set[Buffer] = field(default_factory=set)
    made: set[Buffer] = field(default_factory=set)
    handed: int = 0
    size: int = 0
    nodes: int = 0
    vector: bool = True
    plain: bool = True
    cheap: bool = True
    row: int = 1
    columns: bool = False

    def add(self, child: Loop | Root) -> None:
        """Put a loop or a root behind what is inside."""
        self.children.append(child)
        self.row = max(self.row, row_length(child))
        if isinstance(child, Root):
            self.vector &= not child.by_rows(self.target)
            self.cheap &= child.size <= self.target.materialisation.cheap
            self.columns |= child.down_columns(self.target)
            self.know(child)
        else:
            self.vector = self.cheap = False
            for root in child.roots:
                self.know(root)

    def know(self, root: Root) -> None:
        """Take note of a root that is inside, at any depth."""
        self.roots[root] = None
        self.handed += root.output
        for source in root.loads:
            self.handed += source not in self.sources and source not in self.made
        self.made.add(root.target)
        self.sources.update(root.loads)
        self.size += root.size
        self.nodes += len(root.nodes)
        self.plain &= not root.folds


def fuse(roots: Sequence[Root], target: Target) -> list[Loop]:
    """Nests that compute all roots, in order."""
    return _Fuser(target).run(roots)


class _Fuser:
    def __init__(self, target: Target) -> None:
        self.target = target
        self.limits = target.fusion
        self.nests: list[Loop] = []
        self.makers: dict[Buffer, Root] = {}
        self.places: dict[Root, int] = {}
        self.parts: dict[Buffer, set[int]] = {}
        """Where the parts of joins are."""

    def run(self, roots: Sequence[Root]) -> list[Loop]:
        for root in roots:
            self._place(root)
            if root.part:
                # it joins none of the nests that write the others
                self.parts.setdefault(root.target, set()).add(self.places[root])
                continue
            for target in (root.target, *root.also):
                self.makers[target] = root
        return self.nests

    def _place(self, root: Root) -> None:
        read = [self.makers[source] for source in root.loads if source in self.makers]
        if root.call:
            self._append(root)
            return
        first = max((self.places[maker] for maker in read), default=0)
        for source in root.loads:
            first = max(first, 1 + max(self.parts.get(source, ()), default=-1))
        if root.part and root.target in self.makers:
            first = max(first, 1 + self.places[self.makers[root.target]])
        for place in self._candidates(root, read, first):
            nest = self.nests[place]
            if self._related(nest, root, read) and self._join(nest, root, read, depth=0):
                self.places[root] = place
                return
        self._append(root)

    def _candidates(self, root: Root, read: Sequence[Root], first: int) -> Sequence[int]:
        """The nests that a root may join."""
        if not root.part or not root.loops:
            return range(len(self.nests) - 1, first - 1, -1)
        # in one loop with others it would write to as many places at once
        near = {self.places[maker] for maker in read}
        if root.apart:
            near -= self.parts.get(root.target, set())
        return sorted((place for place in near if place >= first), reverse=True)

    def _append(self, root: Root) -> None:
        self.places[root] = len(self.nests)
        self.nests.append(_chain(root, 0, self.target))

    def _related(self, nest: Loop, root: Root, read: Sequence[Root]) -> bool:
        """Whether the nest and the root have data, or the lack of loops, in common."""
        index = root.loops[0] if root.loops else None
        # a call is never joined, so it is alone in its nest
        if nest.index is not index or next(iter(nest.roots)).call:
            return False
        if nest.handed >= self.limits.most_buffers:
            return False
        if index is None:
            most = self.limits.few_stores if root.part else self.limits.largest_block
            return nest.nodes <= most
        if any(maker in nest.roots for maker in read):
            return True
        if len(root.loops) == 1 and nest.vector and nest.plain and not root.folds:
            # nothing is lost, and what reads both will find them in one place
            return nest.size <= self.limits.largest_nest
        return not nest.sources.isdisjoint(root.loads)

    def _join(self, loop: Loop, root: Root, read: Sequence[Root], depth: int) -> bool:
        """Put the root into a loop of the nest that has its index at this depth, if it may be."""
        inside = [maker for maker in read if maker in loop.roots]
        if not all(_same_iteration(root, maker, depth) for maker in inside):
            return False
        deeper = len(root.loops) > depth + 1
        if not deeper:
            if not _fits(loop, root):
                return False
            loop.add(root)
            return True
        for place in reversed(range(len(loop.children))):
            child = loop.children[place]
            if isinstance(child, Loop) and child.index is root.loops[depth + 1]:
                if self._join(child, root, read, depth + 1):
                    loop.know(root)
                    return True
            members = (child,) if isinstance(child, Root) else child.roots
            if any(maker in members for maker in inside):
                break
        if loop.vector and not _worth_a_row(loop, extent_of(root.loops[-1])):
            return False
        loop.add(_chain(root, depth + 1, self.target))
        return True


def _chain(root: Root, depth: int, target: Target) -> Loop:
    """The root in loops of its own, from a depth on."""
    inner: Loop | Root = root
    for index in reversed(root.loops[depth:] or (None,)):
        outer = Loop(index, target)
        outer.add(inner)
        inner = outer
    assert isinstance(inner, Loop)
    return inner


def _same_iteration(root: Root, maker: Root, depth: int) -> bool:
    """Whether the root reads what the maker makes at the loop indices down to a depth."""
    if not root.loops:
        return True
    if len(maker.loops) <= depth or len(root.loops) <= depth:
        return False
    return all(
        load.args[maker.axes[level]] is root.loops[level] is maker.loops[level]
        for load in root.loads[maker.target]
        for level in range(depth + 1)
    )


def _fits(loop: Loop, root: Root) -> bool:
    """Whether a root may become part of each iteration, without spoiling the use of vectors."""
    target = loop.target
    by_rows = root.by_rows(target)
    if loop.index is None or loop.vector != by_rows:
        # plain maps together, or rows together
        return True
    if by_rows:
        return _worth_a_row(loop, row_length(root))
    if root.down_columns(target):
        return False  # each sum would read with gaps
    return loop.row >= target.fusion.long_row or root.size <= target.materialisation.cheap


def _worth_a_row(loop: Loop, length: int) -> bool:
    """Whether what a vector loop does may be done one by one, each with a row of some length."""
    if loop.columns:
        return False
    return loop.cheap or length >= loop.target.fusion.long_row


def row_length(child: Loop | Root) -> int:
    """How many steps an inner loop, or the folds of a root, take."""
    if isinstance(child, Loop):
        assert child.index is not None
        return extent_of(child.index)
    return max(map(fold_steps, child.folds), default=1)
