"""Loop unrolling: which axes of a value are written out element by element, and which are loops."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from functrans.ir.graph import Graph
from functrans.ir.types import Shape
from functrans.loop.nodes import INDEX, index
from functrans.loop.scalar import Scalar
from functrans.loop.target import Target
from functrans.ops.compiled.elements import pattern
from functrans.ops.compiled.emission import emitted


class Unrolling(NamedTuple):
    """Axes that are written out element by element, and not loops.

    Measured: `sums` (sums of 64 columns), `largest_interleaved` (transformer block), others (LSTM).
    """

    longest: int = 16
    """An axis of more elements is a loop in any case, as a `fold` over more is."""
    one_vector: int = 8
    """Elements that fill a vector."""
    much_work: int = 48
    """Operations for one element that are rather done as vectors: about an exponential."""
    largest_interleaved: int = 8
    """Length of the last axis up to which vectors go along the one before it."""
    largest_body: int = 16_000
    """Operations at most, about, that are written out for the elements along small axes."""
    largest_program: int = 4000
    """The same for a program, zeros and ones folded: past that, all axes are loops."""
    sums: int = 7
    """Long sums at most that are written out in a loop's body; vectors go along more of them."""
    elements: int = 64
    """Elements of small axes at most that are written out in a loop's body."""
    tabulated: int = 128
    """The same where tables say what each of them is made of, which are then not read."""
    alone: int = 7
    """Elements of a program's value at most that are written out even if nothing else needs them:
    code without a loop. On a grid each has a team of threads instead."""
    body_bytes: int = 1 << 62
    """Bytes of elements at most that are written out in a loop's body: a thread's registers."""


class Loops:
    """The indices of loops: one for each depth and extent, so that nests agree on them."""

    def __init__(self) -> None:
        self._indices: dict[tuple[int, int], Scalar] = {}

    def __call__(self, extents: Sequence[int]) -> tuple[Scalar, ...]:
        return tuple(self._index(depth, n) for depth, n in enumerate(extents))

    def _index(self, depth: int, extent: int) -> Scalar:
        key = depth, extent
        if key not in self._indices:
            self._indices[key] = index("ijlmnpqr"[depth % 8], extent)
        return self._indices[key]


def axes_to_unroll(
    shape: Sequence[int], longest: int, most: int, vector: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes to unroll, and those to unroll if their elements are made differently.

    The first are the last ones, which vectors could not go along; the others are in front of a
    large axis. None is longer than ``longest``, they are ``most`` elements together at most.
    An axis of ``vector`` elements fills a vector.
    """
    all_axes = tuple(range(len(shape)))
    if prod(shape) <= most:
        # vectors may go along one that is not so small
        return (all_axes, ()) if max(shape) <= longest else ((), all_axes)
    if all(extent <= longest for extent in shape):
        # nothing is large: vectors go along the last axis that fills one, or else the last of all
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


def branches_on(nodes: Sequence[Scalar], index: Scalar) -> bool:
    """Whether an expression has conditions, divisions or tables that depend on an index."""
    depends: set[Scalar] = set()
    for node in nodes:
        if node is index or not depends.isdisjoint(node.args):
            if node.op in ("guard", "eq", "ne", "lt", "le", "idiv", "irem", "lookup"):
                return True
            if node.dtype == INDEX and node.op != "load":
                depends.add(node)
    return False


def folded_along_rows(graph: Graph, target: Target) -> set[Shape]:
    """The shapes of what is summed, or the like, along the last axis."""
    return {
        eqn.inputs[0].aval.shape
        for eqn in graph.eqns
        if emitted(eqn, target) is None and pattern(eqn).folds_rows
    }
