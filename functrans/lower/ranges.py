"""Cutting a loop's range where conditions on its index change, so that no iteration tests them.

An array that is padded, concatenated or written to in a slice is read under a condition on the
index. Within each piece of the range every such condition is decided, and simplified away.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from functrans.ir.nodes import INDEX
from functrans.ir.scalar import Scalar
from functrans.lower.simplify import Simplifier

MOST_PIECES = 5
"""A loop is cut into so many pieces at most."""


def pieces(
    index: Scalar, extent: int, nodes: Iterable[Scalar], simplify: Simplifier
) -> list[tuple[int, int]]:
    """The range of a loop index in pieces ``(start, stop)``; one piece if it is not worth cutting.

    Parameters
    ----------
    index : Scalar
    extent : int
    nodes : iterable of Scalar
        All nodes of the expressions in the loop.
    simplify : Simplifier
    """
    cuts = {0, extent}
    for node in nodes:
        if node.op in ("lt", "le", "eq", "ne") and node.args[0].dtype == INDEX:
            cuts.update(cut for cut in _cuts(node, index, simplify) if 0 < cut < extent)
    ordered = sorted(cuts)
    if not 2 < len(ordered) <= MOST_PIECES + 1:
        return [(0, extent)]
    return list(pairwise(ordered))


def _cuts(condition: Scalar, index: Scalar, simplify: Simplifier) -> list[int]:
    """Where the truth of a comparison of ``index`` with a constant changes."""
    difference = Scalar("sub", condition.args, INDEX)
    terms, constant = simplify.terms(difference)
    if list(terms) != [index] or terms[index] not in (1, -1):
        return []
    upward = terms[index] == 1
    edge = -constant if upward else constant
    match condition.op:
        case "lt":
            return [edge if upward else edge + 1]
        case "le":
            return [edge + 1 if upward else edge]
    return [edge, edge + 1]
