"""Index-set splitting: a loop's range is split where conditions on its index change.

Reads of an array that is padded, concatenated or updated in a slice depend on conditions on the
index. Within each piece of the range, every such condition is constant, and simplified away.
Expects the nodes of a loop's expressions; leaves the pieces of its range, in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.target import Target
from functrans.records import NamedTuple


class Pieces(NamedTuple):
    """Limits on the pieces of a loop's range. Not measured."""

    shortest_row: int = 16
    """The shortest row with its own loop: shorter ones would not fill a vector."""
    most_pieces: int = 5
    """The most pieces of a loop in which every condition is constant."""
    long_piece: float = 0.5
    """If there are more, the fraction of a loop that justifies a piece without conditions."""
    most_phases: int = 8
    """The most iterations of a loop that become one, if conditions repeat after as many."""


def pieces(
    index: Scalar,
    extent: int,
    nodes: Iterable[Scalar],  # all nodes of the expressions in the loop
    target: Target,
    simplify: Simplifier,
) -> list[tuple[int, int]]:
    """The pieces ``(start, stop)`` of a loop's range; one if splitting is unprofitable."""
    cuts = {0, extent}
    for node in nodes:
        if node.op in ("lt", "le", "eq", "ne") and node.args[0].dtype == INDEX:
            cuts.update(cut for cut in _cuts(node, index, simplify) if 0 < cut < extent)
    ordered = sorted(cuts)
    if len(ordered) > target[Pieces].most_pieces + 1:
        # one long piece without conditions, between short ones that keep their conditions
        start, stop = max(pairwise(ordered), key=lambda piece: piece[1] - piece[0])
        if stop - start < target[Pieces].long_piece * extent:
            return [(0, extent)]
        ordered = sorted({0, start, stop, extent})
    return list(pairwise(ordered))


def _cuts(condition: Scalar, index: Scalar, simplify: Simplifier) -> list[int]:
    """The indices at which a comparison of an index, or its quotient, with a number changes."""
    difference = Scalar("sub", condition.args, INDEX)
    terms, constant = simplify.terms(difference)
    if len(terms) != 1:
        return []
    ((term, factor),) = terms.items()
    divisor = divisor_of(term, index) if term.op == "idiv" else 1 if term is index else None
    if divisor is None or factor not in (1, -1):
        return []
    upward = factor == 1
    edge = -constant if upward else constant
    match condition.op:
        case "lt":
            edges = [edge if upward else edge + 1]
        case "le":
            edges = [edge + 1 if upward else edge]
        case _:
            edges = [edge, edge + 1]
    return [each * divisor for each in edges]


def phases(
    index: Scalar, nodes: Iterable[Scalar], target: Target, simplify: Simplifier
) -> int | None:
    """Strip-mining: the number of iterations after which conditions on a loop index repeat.

    Such conditions come from slices with a step that are written to. If one iteration executes as
    many of the old ones, every condition is constant. None if there are no such conditions.
    """
    if target.lanes_are_threads:
        return None
    found = set()
    for node in nodes:
        if node.op == "irem" and node.dtype == INDEX and node.args[1].op == "const":
            terms, _ = simplify.terms(node.args[0])
            if set(terms) == {index} and terms[index] in (1, -1):
                found.add(int(node.args[1].attribute))
    longest = max(found, default=0)
    if not 2 <= longest <= target[Pieces].most_phases or any(longest % each for each in found):
        return None
    return longest


def divisor_of(node: Scalar, index: Scalar) -> int | None:
    """The divisor, if a node is just the quotient or remainder of an index."""
    inside, by = node.args
    if inside is not index or by.op != "const" or by.attribute <= 0:
        return None
    return int(by.attribute)


def row_extent(index: Scalar, extent: int, nodes: Iterable[Scalar], target: Target) -> int | None:
    """Delinearisation: the extent of rows by which expressions divide a loop index.

    Such divisions come from a reshape. A loop over rows and one along each row avoid them. None if
    the index is not to be split.
    """
    found = {
        divisor_of(node, index)
        for node in nodes
        if node.op in ("idiv", "irem") and node.dtype == INDEX
    } - {None}
    length = min((each for each in found if each is not None), default=0)
    if length < target[Pieces].shortest_row or extent % length or length == extent:
        return None
    return None if any(each is not None and each % length for each in found) else length
