"""Dependence chains of loads, each of whose indices needs the previous load."""

from __future__ import annotations

from collections.abc import Iterable

from functrans.loop.scalar import Scalar
from functrans.loop.statements import Buffer
from functrans.lower.select.root import Root


def chained_loads(roots: Iterable[Root]) -> int:
    """The length of the longest chain of loads in which each index depends on the previous load."""
    made: dict[Buffer, int] = {}  # including the chains of locals that were computed before
    waits: dict[Scalar, int] = {}
    for root in roots:
        for node in root.nodes:
            before = max((waits[x] for x in node.args if x in waits), default=0)
            if node.op == "load":
                before = max(before, made[node.attribute]) if node.attribute in made else before + 1
            waits[node] = before
        made[root.target] = max((waits[node] for node in root.nodes), default=0)
    return max(made.values(), default=0)
