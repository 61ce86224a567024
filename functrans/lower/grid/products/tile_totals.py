"""Tile totals: sums over all elements of a product's tile, taken in registers.

Each thread adds up the terms that it computes from its accumulators, and a reduction over the team
adds up those of all threads (`functrans.lower.grid.products.tile_sums` decides which sums are
computed in this way).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from functrans.loop.nodes import INDEX, ZERO, guard
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Let, Reduce, Statement, Store, local
from functrans.lower.select.root import Elements


class Element(NamedTuple):
    """A thread's accumulator: its value, the names of its indices, and whether it exists."""

    total: Scalar
    known: dict[Scalar, Scalar]
    inside: tuple[Scalar, Scalar]


def totals_of_tile(
    roots: Sequence[Elements],
    source: Buffer,  # the product, whose elements the terms read
    elements: Sequence[Element],
    declared: Sequence[Statement],  # declare the names of indices
    thread: Scalar,
    place: tuple[Scalar, ...],  # the position of the tile
    simplify: Simplifier,
) -> tuple[Statement, ...]:
    """Statements of a team that store, for each root, its sum over a tile."""
    summands = [root.summand for root in roots if root.summand is not None]
    loads = [x for x in postorder(summands) if x.op == "load" and x.attribute is source]
    body = list(declared)
    terms: list[tuple[Scalar, ...]] = []
    for each in elements:
        known = {**each.known, **dict.fromkeys(loads, each.total)}
        row, column = each.inside
        values = tuple(
            simplify(guard(row, guard(column, value, 0), 0))
            for value in simplify.substitute(summands, known)
        )
        terms.append(tuple(local(value.dtype, "term") for value in values))
        body.append(Let(terms[-1], values))
    sums = tuple(map(_pairwise, zip(*terms, strict=True)))
    totals = tuple(local(each.dtype, "sum") for each in sums)
    threads = thread.attribute[2]
    loops = ((thread, ZERO, const(threads, INDEX)),)
    operations = ("add",) * len(totals)
    reduction = Reduce(totals, operations, sums, loops, tuple(body), lanes=threads, whole=True)
    stores = (Store(root.target, place, total) for root, total in zip(roots, totals, strict=True))
    return (reduction, *stores)


def _pairwise(terms: Sequence[Scalar]) -> Scalar:
    """The pairwise sum of numbers."""
    half = len(terms) // 2
    return terms[0] if half == 0 else _pairwise(terms[:half]) + _pairwise(terms[half:])
