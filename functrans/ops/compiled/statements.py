"""Loop nests for `emit` rules: scalar ones, and vectorised ones."""

from __future__ import annotations

from collections.abc import Sequence

from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import For, Statement, Store
from functrans.loop.target import Target


def nest(
    loops: Sequence[Scalar], body: Sequence[Statement], *, parallel: bool = False
) -> tuple[Statement, ...]:
    """Nested loops; no statements if one of the loops has no iterations."""
    if any(loop.attribute[2] == 0 for loop in loops):
        return ()
    for loop in reversed(loops):
        stop = const(loop.attribute[2], INDEX)
        body = (For(loop, ZERO, stop, tuple(body), parallel=parallel),)
    return tuple(body)


def vectorised(
    loop: Scalar, stores: Store | Sequence[Store], target: Target
) -> tuple[Statement, ...]:
    """A vectorised loop of independent iterations, none of which is executed twice."""
    extent: int = loop.attribute[2]
    body = (stores,) if isinstance(stores, Store) else tuple(stores)
    largest = max(max(x.target.dtype.itemsize, x.value.dtype.itemsize) for x in body)
    lanes = target.lanes(largest)
    while lanes > max(extent, 1):
        lanes //= 2
    lanes = max(lanes, 1)
    stop = const(extent, INDEX)
    return (For(loop, ZERO, stop, body, lanes=lanes, whole=extent % lanes == 0),)


def dealt(
    loops: Sequence[Scalar], body: Sequence[Statement], target: Target
) -> tuple[Statement, ...]:
    """Loops of independent iterations, which are divided among the threads of a team."""
    statements = tuple(body)
    for loop in reversed(loops):
        extent: int = loop.attribute[2]
        if not extent:
            return ()
        lanes = min(target.lanes(1), extent)
        statements = (For(loop, ZERO, const(extent, INDEX), statements, lanes=lanes),)
    return statements
