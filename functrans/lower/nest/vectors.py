"""Vector lengths of loops: the number of vectors that one iteration of a vector loop computes."""

from __future__ import annotations

from collections.abc import Sequence

from functrans.loop.affine import Coefficients
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.target import Target
from functrans.lower.nest.chains import chained_loads
from functrans.lower.nest.fusion import Loop
from functrans.lower.select.root import Elements
from functrans.records import NamedTuple


class Vectors(NamedTuple):
    """Thresholds of vectorisation: the number of vectors at once, by the length of the body.

    Measured: `chained` and `chains` (binary searches), `together` (functions); the
    others not on their own.
    """

    wide_columns: int = 8
    """The vectors at once of sums along columns, so that whole cache lines are used."""
    cost_of_steps: float = 1.5
    """The loop overhead of a sum, in operations."""
    narrow_body: int = 48
    """The most operations for several vectors at once, since registers are limited."""
    largest_split: int = 200_000
    """The operations above which an outermost loop of sums is not split, to spare overlaps: threads
    share it (`functrans.config.parallel_threshold`)."""
    largest_copied: int = 1500
    """The most operations of a loop that is split into pieces."""
    chained: int = 4
    """The length of a chain of dependent loads for which latency matters."""
    chains: int = 4
    """The vectors at once for such chains, to hide the latency."""
    together: int = 2
    """The vectors at once of elementwise operations: most depend on the previous one, and a core's
    reorder window is too small to overlap iterations."""
    cost_of_waiting: float = 0.25
    """The latency of such operations on a single vector, as a fraction of their work."""
    least_together: int = 20
    """The operations below which a body is limited by memory, not by latency."""
    largest_together: int = 1500
    """The operations above which a body is compiled for a single vector."""
    packed: int = 4
    """The most vectors at once of fewer operations, whose results are joined in one register."""
    packed_bytes: int = 32
    """The bytes of the widest registers for which that was measured."""


def lanes_of(loop: Loop, extent: int, target: Target) -> int:
    """The number of iterations that are vector lanes at once."""
    roots = [child for child in loop.children if isinstance(child, Elements)]
    limits = target[Vectors]
    lanes = _register(roots, target)
    operations = sum(root.node_count for root in roots)
    if lanes == 1:
        return 1
    if any(root.folds for root in roots):
        if _sums_side_by_side(roots, limits):
            lanes = _side_by_side(lanes, extent, limits.wide_columns, limits.cost_of_steps)
    elif chained_loads(roots) >= limits.chained:
        lanes *= limits.chains
    elif operations <= limits.largest_together:
        assert loop.index is not None
        vectors = 1
        if operations >= limits.least_together:
            vectors = limits.together
        elif target.vector_bytes <= limits.packed_bytes:
            results = target.lanes(max(root.target.dtype.itemsize for root in roots))
            vectors = min(results // lanes, limits.packed)
        if vectors > 1 and _is_contiguous(roots, loop.index) and not _combines_conditions(roots):
            lanes = _side_by_side(lanes, extent, vectors, limits.cost_of_waiting)
    while lanes > extent:
        lanes //= 2
    return lanes


def parts_of(loop: Loop, extent: int, target: Target) -> list[int]:
    """The extents of the loops into which a loop of sums is split, each of fewer vectors at once.

    The last vectors of a single loop would overlap those before: by eight vectors of eight lanes,
    200 columns would cost as much as 256; they become 192 columns, and 8 by a single vector.
    """
    roots = [child for child in loop.children if isinstance(child, Elements)]
    limits = target[Vectors]
    if not roots or not _sums_side_by_side(roots, limits):
        return [extent]
    lanes = _register(roots, target)
    if lanes == 1:
        return [extent]
    return _parts(lanes, extent, limits.wide_columns, limits.cost_of_steps)[1]


def _register(roots: Sequence[Elements], target: Target) -> int:
    """The lanes of one vector register, for the widest numbers of a loop."""
    values = [value for root in roots for _, value in root.elements]
    return target.lanes(max(*(root.target.dtype.itemsize for root in roots), *widths(values)))


def _sums_side_by_side(roots: Sequence[Elements], limits: Vectors) -> bool:
    """Whether a loop of sums has few enough operations for several vectors at once."""
    operations = sum(root.node_count for root in roots)
    return any(root.folds for root in roots) and operations <= limits.narrow_body


def _parts(lanes: int, extent: int, widest: int, more: float) -> tuple[float, list[int]]:
    """The cost of a loop, and the extents of the loops that it is best split into."""
    while widest > 1 and widest * lanes > extent:
        widest //= 2
    cost, rest = _cheapest(lanes, extent, widest, more)[0], extent % (widest * lanes)
    if widest > 1 and rest:
        cost_of_rest, others = _parts(lanes, rest, widest // 2, more)
        costs = (extent - rest) // (widest * lanes) * (widest + more) + cost_of_rest
        if costs < cost:
            return costs, [extent - rest, *others]
    return cost, [extent]


def _side_by_side(lanes: int, extent: int, widest: int, more: float) -> int:
    """The lanes of a loop whose body computes several vectors at once."""
    return lanes * _cheapest(lanes, extent, widest, more)[1]


def _cheapest(lanes: int, extent: int, widest: int, more: float) -> tuple[float, int]:
    """The cost of a loop by the best number of vectors at once, a power of two, and that number.

    An iteration has an overhead of ``more``, and the last elements may be computed twice.
    """

    def cost(vectors: int) -> float:
        return -(-extent // (vectors * lanes)) * (vectors + more)

    best = min((widest >> i for i in range(widest.bit_length())), key=cost)
    return cost(best), best


def _is_contiguous(roots: Sequence[Elements], along: Scalar) -> bool:
    """Whether neighbouring iterations access contiguous elements, or the same element."""
    own = Coefficients(along)
    places = [(x.attribute, x.args) for root in roots for x in root.nodes if x.op == "load"]
    places += [(root.target, position) for root in roots for position, _ in root.elements]
    return all(own.of_element(*place) in (-1, 0, 1) for place in places)


def _combines_conditions(roots: Sequence[Elements]) -> bool:
    """Whether conditions are combined from other conditions.

    Without mask registers, the conditions of a vector are a vector of numbers of equal width, and
    those of two vectors would be packed into one, and unpacked for each select.
    """
    nodes = (node for root in roots for node in root.nodes if node.dtype == bool)
    return any(arg.dtype == bool for node in nodes for arg in node.args)


def widths(values: Sequence[Scalar]) -> list[int]:
    """The sizes in bytes of the numbers in expressions, except indices."""
    return [1] + [
        node.attribute.widest if node.op == "apply" else node.dtype.itemsize
        for node in postorder(values)
        if node.dtype != INDEX or node.op == "load"
    ]
