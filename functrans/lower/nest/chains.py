"""Dependence chains of loads: how many of them wait for one another, as in a binary search."""

from __future__ import annotations

from collections.abc import Iterable

from functrans.loop.scalar import Scalar
from functrans.loop.statements import Buffer
from functrans.lower.select.root import Root


def chained_loads(roots: Iterable[Root]) -> int:
    """How many loads there are at most of which each waits for the one before, for its index."""
    made: dict[Buffer, int] = {}  # by those in what was computed before
    waits: dict[Scalar, int] = {}
    for root in roots:
        for node in root.nodes:
            before = max((waits[x] for x in node.args if x in waits), default=0)
            if node.op == "load":
                before = max(before, made[node.attribute]) if node.attribute in made else before + 1
            waits[node] = before
        made[root.target] = max((waits[node] for node in root.nodes), default=0)
    return max(made.values(), default=0)
