"""Superword-level parallelism: merge loads, and stores, of adjacent elements.

After Larsen and Amarasinghe, "Exploiting superword level parallelism" (2000). Elements are adjacent
if their positions in flat memory differ by constants. A group of them can be accessed at once if
the position of the first is always a multiple of their number, because buffers are aligned to 16
bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from functrans.loop.affine import divisor
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Store
from functrans.loop.terms import from_terms
from functrans.records import NamedTuple

WIDEST = 16
"""The largest size in bytes of a load or store."""

Terms = frozenset[tuple[Scalar, int]]


class Group(NamedTuple):
    """Adjacent elements of a buffer."""

    buffer: Buffer
    first: Scalar  # the position of the first element
    members: tuple[Any, ...]  # the load or store of each element, in order of position


def groups(
    members: Iterable[Any], element: Callable[[Any], tuple[Buffer, Scalar]], simplify: Simplifier
) -> list[Group]:
    """The groups of 2 to 16 adjacent loads or stores that can be a single access."""
    rows: dict[tuple[Buffer, Terms], dict[int, Any]] = {}
    written: dict[Terms, dict[Scalar, int]] = {}
    for member in members:
        one, position = element(member)
        terms, constant = simplify.terms(position)
        key = frozenset(terms.items())
        written.setdefault(key, terms)
        rows.setdefault((one, key), {})[constant] = member
    return [
        group for (one, key), row in rows.items() for group in _groups_of(one, written[key], row)
    ]


def _groups_of(one: Buffer, terms: dict[Scalar, int], row: dict[int, Any]) -> Iterator[Group]:
    aligned = divisor(from_terms(terms, 0))
    place = min(row)
    last = max(row)
    while place <= last:
        count = WIDEST // one.dtype.itemsize
        while count > 1 and not _is_group(row, place, count, aligned):
            count //= 2
        if count > 1:
            members = tuple(row[place + number] for number in range(count))
            yield Group(one, from_terms(terms, place), members)
        following = [at for at in row if at >= place + max(count, 1)]
        if not following:
            return
        place = min(following)


def _is_group(row: dict[int, Any], place: int, count: int, aligned: int) -> bool:
    if aligned % count or place % count:
        return False
    return all(place + number in row for number in range(count))


def in_any_order(stores: Sequence[Store], simplify: Simplifier) -> Iterator[list[Store]]:
    """Runs of stores that may be executed in any order, once all their values have been computed.

    No value depends on an element that an earlier store of the run writes, and no two stores write
    to the same element.
    """
    run: list[Store] = []
    for store in stores:
        if run and not all(_commute(before, store, simplify) for before in run):
            yield run
            run = []
        run.append(store)
    if run:
        yield run


def _commute(before: Store, store: Store, simplify: Simplifier) -> bool:
    if before.op is not None or store.op is not None:
        return False
    places = [
        node.args[0]
        for node in postorder([*store.indices, store.value])
        if node.op == "load" and node.attribute is before.target
    ]
    if store.target is before.target:
        places += store.indices
    return not any(_may_be_one(place, before.indices[0], simplify) for place in places)


def _may_be_one(place: Scalar, other: Scalar, simplify: Simplifier) -> bool:
    """Whether two positions in a buffer may be equal."""
    terms, constant = simplify.terms(place)
    others, apart = simplify.terms(other)
    return terms != others or constant == apart
