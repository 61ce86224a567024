"""Index-set splitting: a loop's range is split where conditions on its index change.

An array that is padded, concatenated or written to in a slice is read under a condition on the
index. Within each piece of the range every such condition is decided, and simplified away. Expects
the nodes of what is in a loop; leaves the pieces of its range, in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.target import Target


class Pieces(NamedTuple):
    """The pieces that the range of a loop is cut into. Not measured."""

    shortest_row: int = 16
    """Shorter rows do not get a loop of their own: they would not fill a vector."""
    most_pieces: int = 5
    """The greatest number of pieces of a loop in which every condition is decided."""
    long_piece: float = 0.5
    """The part of a loop that is worth a piece without conditions, if there are more."""


def pieces(
    index: Scalar, extent: int, nodes: Iterable[Scalar], target: Target, simplify: Simplifier
) -> list[tuple[int, int]]:
    """The range of a loop index in pieces ``(start, stop)``; one piece if it is not worth cutting.

    Parameters
    ----------
    index : Scalar
    extent : int
    nodes : iterable of Scalar
        All nodes of the expressions in the loop.
    target : Target
    simplify : Simplifier
    """
    cuts = {0, extent}
    for node in nodes:
        if node.op in ("lt", "le", "eq", "ne") and node.args[0].dtype == INDEX:
            cuts.update(cut for cut in _cuts(node, index, simplify) if 0 < cut < extent)
    ordered = sorted(cuts)
    if len(ordered) > target[Pieces].most_pieces + 1:
        # one long piece without conditions, and short ones around it that keep them
        start, stop = max(pairwise(ordered), key=lambda piece: piece[1] - piece[0])
        if stop - start < target[Pieces].long_piece * extent:
            return [(0, extent)]
        ordered = sorted({0, start, stop, extent})
    return list(pairwise(ordered))


def _cuts(condition: Scalar, index: Scalar, simplify: Simplifier) -> list[int]:
    """Where the truth of a comparison of an index, or a quotient of it, with a number changes."""
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


def divisor_of(node: Scalar, index: Scalar) -> int | None:
    """The divisor of a quotient or remainder of an index, if it is that and no more."""
    inside, by = node.args
    if inside is not index or by.op != "const" or by.attribute <= 0:
        return None
    return int(by.attribute)


def row_extent(index: Scalar, extent: int, nodes: Iterable[Scalar], target: Target) -> int | None:
    """Delinearisation: the extent of rows, where expressions divide a loop index by it.

    That is what is left of a reshape. With a loop over rows and one along them, nothing is divided.
    None if the index, from 0 to an extent, is not to be taken apart.
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
