"""Loop unrolling: which axes of a value are unrolled, and which become loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import prod

from functrans.ir.graph import Graph
from functrans.ir.types import Shape
from functrans.loop.affine import Coefficients
from functrans.loop.functions import node_count
from functrans.loop.linear_places import divides
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import Scalar
from functrans.loop.target import Target
from functrans.ops.compiled.elements import branches_on, pattern
from functrans.ops.compiled.emission import emitted
from functrans.records import NamedTuple

NEAR = 2
"""The stride up to which elements are loaded as vectors and picked from these, as for pooling."""


class Unrolling(NamedTuple):
    """Which axes are unrolled, and are not loops.

    Measured: `sums` (sums of 64 columns), `largest_interleaved` (transformer block), others (LSTM).
    """

    longest: int = 16
    """An axis of more elements is always a loop, as is a `fold` over more."""
    one_vector: int = 8
    """The number of elements that fill a vector."""
    half_vector: int = 4
    """The same of half a vector, which is enough in a loop's step whose values of this extent have
    `much_work` together, if it is at least three quarters full."""
    much_work: int = 48
    """The fewest operations for an element for which vectors are profitable: an exponential."""
    work_of_step: int = 4
    """The same of all values of a loop's step whose last axis has the same extent: if some are
    vectors and others single elements, each reads what the other has just stored."""
    slow: int = 8
    """The operations as which a division or a root counts there."""
    largest_interleaved: int = 8
    """The length of the last axis up to which vectors are along the one before it."""
    largest_body: int = 16_000
    """The most operations, about, that are unrolled for the elements along small axes."""
    largest_program: int = 4000
    """The same for a program, after simplification: beyond it, all axes are loops."""
    sums: int = 7
    """The most long sums that are unrolled in a loop's body; more become vectors."""
    elements: int = 64
    """The most elements of small axes that are unrolled in a loop's body."""
    tabulated: int = 128
    """The same where tables define the operands of each element, which unrolling makes
    unnecessary."""
    alone: int = 7
    """The most elements of a program's value that are unrolled even if nothing else needs them:
    code without a loop. On a grid, each has a team of threads instead."""
    unrelated: float = 0.75
    """The fraction of the operations of elements on their own from which on they share too few to
    be unrolled for that."""
    body_bytes: int = 1 << 62
    """The most bytes of elements that are unrolled in a loop's body: a thread's registers."""


class Loops:
    """Loop indices: one for each depth and extent, so that nests can share them."""

    def __init__(self) -> None:
        self._indices: dict[tuple[int, int], Scalar] = {}

    def __call__(self, extents: Sequence[int]) -> tuple[Scalar, ...]:
        return tuple(self._index(depth, n) for depth, n in enumerate(extents))

    def _index(self, depth: int, extent: int) -> Scalar:
        key = depth, extent
        if key not in self._indices:
            self._indices[key] = index("ijlmnpqr"[depth % 8], extent)
        return self._indices[key]


class Trial(NamedTuple):
    """The expression of a value's element in loops over all axes, by which these are chosen."""

    shape: Shape
    loops: tuple[Scalar, ...]
    nodes: Sequence[Scalar]
    itemsize: int

    @property
    def reduces(self) -> bool:
        """Whether an element is a sum in a loop of its own."""
        return any(node.op == "fold" for node in self.nodes)

    def branches_along(self, *axes: int) -> bool:
        """Whether elements along one of these axes are computed differently."""
        return any(branches_on(self.nodes, self.loops[axis]) for axis in axes)

    def is_near_along(self, axis: int, other: int) -> bool:
        """Whether loads along an axis are nearly contiguous, or no farther apart than another's.

        An axis that is divided, as that of repeated elements, is unrolled in part later.
        """
        own, instead = (Coefficients(self.loops[each]) for each in (axis, other))
        near = NEAR * prod(self.shape[axis + 1 :])
        for load in self.nodes:
            if load.op == "load":
                step = own.of_element(load.attribute, load.args)
                farther = abs(instead.of_element(load.attribute, load.args) or 0)
                if step is None and not divides(load.args):
                    return False
                if step is not None and abs(step) > max(near, farther):
                    return False
        return True

    def most_unrolled(self, limits: Unrolling) -> int:
        """The most elements that are unrolled in the body of a loop."""
        tabulates = any(node.op == "lookup" for node in self.nodes)
        most = limits.tabulated if tabulates else limits.elements
        most = limits.sums if self.reduces else most
        by_operations = max(limits.largest_body // node_count(self.nodes), 1)
        return min(most, limits.body_bytes // self.itemsize, by_operations)


def operations(nodes: Iterable[Scalar]) -> int:
    """The number of operations on data."""
    return node_count(x for x in nodes if x.args and x.dtype != INDEX and x.op != "load")


def axes_to_unroll(
    shape: Sequence[int], longest: int, most: int, vector: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes to unroll, and those to unroll only if their elements are computed differently.

    The first are the trailing axes, along which vectors are impossible; the others are in front of
    a large axis. None is longer than ``longest``, and they have at most ``most`` elements together.
    An axis of ``vector`` elements fills a vector.
    """
    all_axes = tuple(range(len(shape)))
    if prod(shape) <= most:
        # a longer axis may be suitable for vectors
        return (all_axes, ()) if max(shape) <= longest else ((), all_axes)
    if all(extent <= longest for extent in shape):
        # all axes are short: vectors are along the last axis that fills one, or else along the last
        # of all
        filling = [axis for axis, extent in enumerate(shape) if extent >= vector]
        behind = all_axes[filling[-1] + 1 :] if filling else ()
        return behind if prod(shape[axis] for axis in behind) <= most else (), ()
    last: list[int] = []
    front: list[int] = []
    elements = 1
    for axis in reversed(range(len(shape))):
        is_small = shape[axis] <= longest and elements * shape[axis] <= most
        if is_small:
            elements *= shape[axis]
            at_end = len(last) == len(shape) - 1 - axis
            (last if at_end else front).append(axis)
    return tuple(sorted(last)), tuple(sorted(front))


def work_along_axes(graph: Graph, target: Target) -> dict[int, int]:
    """The operations of a graph for an element of its values, by the extent of their last axis.

    Without extents of which some elements are computed differently: vectors would have to be put
    together from single elements.
    """
    limits = target[Unrolling]
    work: Counter[int] = Counter()
    joined: set[int] = set()
    for eqn in graph.eqns:
        shape = eqn.outputs[0].aval.shape
        if shape and emitted(eqn, target) is None:
            own = pattern(eqn)
            work[shape[-1]] += limits.slow if own.slow else own.work
            if own.branches:
                joined.add(shape[-1])
    return {extent: total for extent, total in work.items() if extent not in joined}


def folded_along_rows(graph: Graph, target: Target) -> set[Shape]:
    """The shapes of operands that are reduced along the last axis, and not to a single number.

    Vectors of the sum of all elements can be along any axis.
    """
    return {
        eqn.inputs[0].aval.shape
        for eqn in graph.eqns
        if eqn.outputs[0].aval.size > 1 and emitted(eqn, target) is None and pattern(eqn).folds_rows
    }
