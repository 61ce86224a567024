"""Loop fusion: which roots share loops.

Expects roots in topological order. Leaves nests that compute all of them, in order. A root joins a
nest at a depth if it reads the values of the nest only at the nest's own indices down to that
depth: then the loops carry no dependence, and interleaving their iterations is legal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from math import prod

from functrans.loop.scalar import Scalar
from functrans.loop.statements import Buffer
from functrans.loop.target import Target
from functrans.lower.select.materialise import Materialisation
from functrans.lower.select.root import Contraction, Elements, Emitted, Root, extent_of, fold_steps
from functrans.records import NamedTuple, dataclass


class Fusion(NamedTuple):
    """Thresholds of fusion: which roots share loops, and the largest kernel.

    Measured: `largest_nest` (joining unrelated nests), `largest_block` (smaller ones gain nothing),
    `most_buffers` (pairs of 2,000 arrays).
    """

    largest_nest: int = 6000
    """Roots that share no data are fused up to this many operations."""
    largest_block: int = 16_000
    """The most nodes of a kernel without loops: LLVM's register allocator takes superlinear time
    for one long block."""
    most_buffers: int = 256
    """The most arrays of a kernel to which roots are added: each is a parameter, and LLVM takes
    superlinear time for thousands of them."""
    few_stores: int = 1000
    """The same for elements of joins: many stores to one array take superlinear time."""
    long_row: int = 64
    """The length of rows for which scalar work once for each row does not matter, if loops along
    the row follow. Without these, a loop over all rows computes vectors of them."""
    unrelated_rows: bool = False
    """Whether loops over rows are fused that share no data, to save a launch. If that is slow, a
    grid distributes them again."""
    worth_a_kernel: int = 256
    """The fewest iterations of a piece of a loop that threads share."""
    small_part: int = 100_000
    """The most scalar operations of a part of a join that shares a kernel with others."""
    most_parts: int = 16
    """The most parts of joins that share a kernel."""


@dataclass(eq=False)
class Loop:
    """A loop, or a block if it has no index, with its children in order.

    Summary properties of all roots inside are updated as roots are added: computing them anew for
    every candidate would take quadratic time.
    """

    index: Scalar | None
    target: Target  # the machine
    children: list[Loop | Root] = field(default_factory=list)  # the loops and roots directly inside
    roots: dict[Root, None] = field(default_factory=dict)  # the roots inside, at any depth, as keys
    sources: set[Buffer] = field(default_factory=set)  # the buffers that they read
    made: set[Buffer] = field(default_factory=set)  # the buffers that they compute
    # the estimated number of buffers of a kernel for it: those that it reads and does not compute,
    # and those that must be in memory
    parameters: int = 0
    node_count: int = 0  # the nodes of their expressions
    unexpanded: int = 0  # the same, without nodes inside of functions
    # whether the iterations can be vector lanes, because there are only plain maps inside
    vectorisable: bool = True
    plain: bool = True  # whether there are no folds inside
    cheap: bool = True  # whether all roots directly inside have few operations
    row: int = 1  # the iterations of the longest inner loop, or of the longest fold of a root
    # whether folds directly inside would make strided loads if the loop were not vectorised
    strided_folds: bool = False

    def add(self, child: Loop | Root) -> None:
        """Append a loop or a root."""
        self.children.append(child)
        self.row = max(self.row, trip_count(child))
        if isinstance(child, Root):
            self.vectorisable &= not child.vectorises_folds(self.target)
            self.cheap &= child.node_count <= self.target[Materialisation].cheap
            self.strided_folds |= child.has_strided_folds(self.target)
            self.record(child)
        else:
            self.vectorisable = self.cheap = False
            for root in child.roots:
                self.record(root)

    def is_map(self, loops: Sequence[Scalar]) -> bool:
        """Whether it consists of these perfectly nested loops, with plain maps inside."""
        loop = self
        for index in loops[1:]:
            inner = loop.children[0]
            if len(loop.children) > 1 or not isinstance(inner, Loop) or inner.index is not index:
                return False
            loop = inner
        return loop.vectorisable

    def record(self, root: Root) -> None:
        """Update the properties for a root inside, at any depth."""
        self.roots[root] = None
        self.parameters += root.output
        for source in root.loads:
            self.parameters += source not in self.sources and source not in self.made
        self.made.add(root.target)
        self.sources.update(root.loads)
        self.node_count += root.node_count
        self.unexpanded += len(root.nodes)
        self.plain &= not root.folds

    @property
    def accumulates(self) -> bool:
        """Whether a root inside adds to what its target holds: no iteration may be done twice."""
        return any(root.target in root.loads for root in self.roots)


Rule = Callable[[Loop, Root], bool | None]
"""A rule that decides whether a root may join a nest; None leaves it to the other rules."""


def fuse(
    roots: Sequence[Root],
    target: Target,
    rule: Rule = lambda nest, root: None,  # the rule that is applied first
) -> list[Loop]:
    """Nests that compute all roots, in order."""
    return _Fusion(target, rule).run(roots)


class _Fusion:
    def __init__(self, target: Target, rule: Rule) -> None:
        self.target = target
        self.rule = rule
        self.limits = target[Fusion]
        self.nests: list[Loop] = []
        self.makers: dict[Buffer, Root] = {}
        self.numbers: dict[Root, int] = {}
        self.parts: dict[Buffer, set[int]] = {}
        """The positions of the nests that compute parts of joins."""
        self.reads: dict[Buffer, int] = {}  # the position of the last read of each buffer
        self.last: set[Root] = set()  # the roots whose values lead to none that has more loops

    def run(self, roots: Sequence[Root]) -> list[Loop]:
        if not self.target.lanes_are_threads:
            self.last = _without_inner_loops(roots)
        for root in roots:
            self._add(root)
            for source in root.loads:
                self.reads[source] = max(self.reads.get(source, 0), self.numbers[root])
            if root.part:
                # it joins none of the nests that write the other parts
                self.parts.setdefault(root.target, set()).add(self.numbers[root])
                continue
            for target in (root.target, *root.also_written):
                self.makers[target] = root
        return self.nests

    def _add(self, root: Root) -> None:
        read = [self.makers[source] for source in root.loads if source in self.makers]
        if isinstance(root, Emitted):
            self._append(root)
            return
        first = max((self.numbers[maker] for maker in read), default=0)
        for source in root.loads:
            first = max(first, 1 + max(self.parts.get(source, ()), default=-1))
        if root.part and root.target in self.makers:
            # after the overwritten buffer was computed, and read
            made = self.numbers[self.makers[root.target]]
            first = max(first, 1 + made, 1 + self.reads.get(root.target, -1))
        for number in self._candidates(root, read, first):
            nest = self.nests[number]
            if self._is_candidate(nest, root, read) and self._fuse_into(nest, root, read, depth=0):
                self.numbers[root] = number
                return
        self._append(root)

    def _candidates(self, root: Root, read: Sequence[Root], first: int) -> Sequence[int]:
        """The nests that a root may join."""
        if not root.part or not root.loops:
            return range(len(self.nests) - 1, first - 1, -1)
        near = {self.numbers[maker] for maker in read}
        is_long = prod(map(extent_of, root.loops)) >= self.limits.long_row
        if isinstance(root, Elements) and root.distant and is_long:
            # in one loop, the parts would write to as many streams at once
            near -= self.parts.get(root.target, set())
        return sorted((number for number in near if number >= first), reverse=True)

    def _append(self, root: Root) -> None:
        self.numbers[root] = len(self.nests)
        self.nests.append(_own_loops(root, 0, self.target))

    def _is_candidate(self, nest: Loop, root: Root, read: Sequence[Root]) -> bool:
        """Whether fusing a root with a nest is profitable: they share data, or have no loops."""
        index = root.loops[0] if root.loops else None
        # a call is never fused, so it is alone in its nest
        if nest.index is not index or isinstance(next(iter(nest.roots)), Emitted):
            return False
        if nest.parameters >= self.limits.most_buffers:
            return False
        decided = self.rule(nest, root)
        if decided is not None:
            return decided
        if index is None:
            most = self.limits.few_stores if root.part else self.limits.largest_block
            return nest.unexpanded <= most
        if any(maker in nest.roots for maker in read):
            return True
        is_first = len(root.loops) == 1 or not read
        if is_first and nest.plain and not root.folds and nest.is_map(root.loops):
            # fusion costs nothing, and readers of both find them in one nest
            return nest.node_count <= self.limits.largest_nest
        if self.limits.unrelated_rows and not nest.plain and root.folds:
            return nest.node_count <= self.limits.largest_nest
        return not nest.sources.isdisjoint(root.loads)

    def _fuse_into(self, loop: Loop, root: Root, read: Sequence[Root], depth: int) -> bool:
        """Fuse the root with a loop of the nest that has its index at this depth, if legal."""
        inside = [maker for maker in read if maker in loop.roots]
        if not all(_is_loop_independent(root, maker, depth) for maker in inside):
            return False
        deeper = len(root.loops) > depth + 1
        if not deeper:
            if not _keeps_vectors(loop, root, root in self.last):
                return False
            loop.add(root)
            return True
        for number in reversed(range(len(loop.children))):
            child = loop.children[number]
            if isinstance(child, Loop) and child.index is root.loops[depth + 1]:
                if self._fuse_into(child, root, read, depth + 1):
                    loop.record(root)
                    return True
            members = (child,) if isinstance(child, Root) else child.roots
            if any(maker in members for maker in inside):
                break
        if loop.vectorisable and not _may_go_serial(loop, extent_of(root.loops[-1])):
            return False
        loop.add(_own_loops(root, depth + 1, self.target))
        return True


def _own_loops(root: Root, depth: int, target: Target) -> Loop:
    """New loops for a root, from a depth on."""
    inner: Loop | Root = root
    for index in reversed(root.loops[depth:] or (None,)):
        outer = Loop(index, target)
        outer.add(inner)
        inner = outer
    assert isinstance(inner, Loop)
    return inner


def _is_loop_independent(root: Root, maker: Root, depth: int) -> bool:
    """Whether the loops down to a depth carry no dependence: all reads are at their indices."""
    if not root.loops:
        return True
    if not isinstance(maker, Elements):
        return False
    if len(maker.loops) <= depth or len(root.loops) <= depth:
        return False
    return all(
        load.args[maker.axes[level]] is root.loops[level] is maker.loops[level]
        for load in root.loads[maker.target]
        for level in range(depth + 1)
    )


def _without_inner_loops(roots: Sequence[Root]) -> set[Root]:
    """The roots whose values lead to none that has more loops, like logarithms of rows' sums."""
    depths: dict[Buffer, int] = {}
    found = set()
    for root in reversed(roots):
        own = len(root.loops)
        deepest = max(own, depths.get(root.target, 0))
        if deepest == own:
            found.add(root)
        for source in root.loads:
            depths[source] = max(deepest, depths.get(source, 0))
    return found


def _keeps_vectors(loop: Loop, root: Root, is_last: bool) -> bool:
    """Whether a root may join a loop without losing vectorisation."""
    target = loop.target
    by_rows = root.vectorises_folds(target)
    if loop.index is None or loop.vectorisable != by_rows:
        # plain maps together, or rows together
        return True
    if by_rows:
        return _may_go_serial(loop, trip_count(root))
    if root.has_strided_folds(target):
        return False  # each sum would make strided loads
    if root.node_count <= target[Materialisation].cheap:
        return True
    if is_last and not any(isinstance(each, Contraction) for each in loop.roots):
        return False  # a loop over all rows computes vectors of it
    return loop.row >= target[Fusion].long_row


def _may_go_serial(loop: Loop, length: int) -> bool:
    """Whether a vector loop may become scalar, around an inner loop of some length."""
    if loop.strided_folds:
        return False
    return loop.cheap or length >= loop.target[Fusion].long_row


def trip_count(child: Loop | Root) -> int:
    """The iterations of an inner loop, or of the longest fold of a root."""
    if isinstance(child, Loop):
        assert child.index is not None
        return extent_of(child.index)
    return max(map(fold_steps, child.folds), default=1)
