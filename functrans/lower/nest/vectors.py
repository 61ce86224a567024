"""Vector lengths of loops: how many vectors of a loop's iterations go side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from functrans.loop.affine import Coefficients
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.target import Target
from functrans.lower.nest.chains import chained_loads
from functrans.lower.nest.fusion import Loop
from functrans.lower.select.root import Elements


class Vectors(NamedTuple):
    """Single loops as vectors: how many side by side, and of how long bodies.

    Measured: `chained` and `chains` (binary searches), `together` (functions); the
    others not on their own.
    """

    wide_columns: int = 8
    """Sums down columns go over this many vectors at once, so that whole cache lines are used."""
    cost_of_steps: float = 1.5
    """The cost of the steps of a sum besides the operations on each vector."""
    narrow_body: int = 48
    """With more operations than this, registers would not do for as many vectors."""
    largest_copied: int = 1500
    """A loop with more operations inside than this is not cut into pieces."""
    chained: int = 4
    """Loads of which each waits for the one before: a core would wait with them."""
    chains: int = 4
    """Vectors that then go side by side, so that it has something to do."""
    together: int = 2
    """Vectors of elementwise operations that go side by side: most of these wait for the one
    before, and the window of a core is too small to find the next iteration's by itself."""
    cost_of_waiting: float = 0.25
    """What such operations of a single vector wait for, as a share of their work."""
    least_together: int = 20
    """Fewer operations than this do not wait for each other, but for memory."""
    largest_together: int = 1500
    """A body of more operations than this is compiled for one vector."""


def lanes_of(loop: Loop, extent: int, target: Target) -> int:
    """How many of the iterations are lanes of vectors at once."""
    roots = [child for child in loop.children if isinstance(child, Elements)]
    limits = target[Vectors]
    values = [value for root in roots for _, value in root.elements]
    widest = max(*(root.target.dtype.itemsize for root in roots), *widths(values))
    lanes = target.lanes(widest)
    operations = sum(root.node_count for root in roots)
    if lanes == 1:
        return 1
    if any(root.folds for root in roots):
        if operations <= limits.narrow_body:
            lanes = _side_by_side(lanes, extent, limits.wide_columns, limits.cost_of_steps)
    elif chained_loads(roots) >= limits.chained:
        lanes *= limits.chains
    elif limits.least_together <= operations <= limits.largest_together:
        assert loop.index is not None
        if _is_contiguous(roots, loop.index) and not _combines_conditions(roots):
            lanes = _side_by_side(lanes, extent, limits.together, limits.cost_of_waiting)
    while lanes > extent:
        lanes //= 2
    return lanes


def _side_by_side(lanes: int, extent: int, widest: int, more: float) -> int:
    """The lanes of a loop whose body does several vectors at once.

    Each iteration costs ``more`` than its vectors, and the last elements may be computed twice.
    """

    def cost(vectors: int) -> float:
        return -(-extent // (vectors * lanes)) * (vectors + more)

    choices = [widest >> i for i in range(widest.bit_length())]
    return lanes * min(choices, key=cost)


def _is_contiguous(roots: Sequence[Elements], along: Scalar) -> bool:
    """Whether neighbouring iterations read and write neighbours, or the same element."""
    own = Coefficients(along)
    places = [(x.attribute, x.args) for root in roots for x in root.nodes if x.op == "load"]
    places += [(root.target, position) for root in roots for position, _ in root.elements]
    return all(own.of_element(*place) in (-1, 0, 1) for place in places)


def _combines_conditions(roots: Sequence[Elements]) -> bool:
    """Whether conditions are made of conditions.

    Without mask registers, those of one vector are a vector of as wide numbers, and those of two
    would be packed into one and unpacked for each choice.
    """
    nodes = (node for root in roots for node in root.nodes if node.dtype == bool)
    return any(arg.dtype == bool for node in nodes for arg in node.args)


def widths(values: Sequence[Scalar]) -> list[int]:
    """The sizes in bytes of the numbers that are computed with, indices left out."""
    return [1] + [
        node.attribute.widest if node.op == "apply" else node.dtype.itemsize
        for node in postorder(values)
        if node.dtype != INDEX or node.op == "load"
    ]
