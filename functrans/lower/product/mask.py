"""Masks: conditions on which elements of rows are chosen, and the loops over their columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import FALSE, TRUE, Simplifier
from functrans.loop.statements import Buffer
from functrans.lower.product.stream import Readers, Stream
from functrans.lower.select.root import Contraction, Root, extent_of


class Mask(NamedTuple):
    """A condition that chooses elements of rows.

    Parameters
    ----------
    condition : Scalar
    holds : Scalar
        What it is where an element is left out: a constant.
    column : Scalar
        The loop that it depends on besides those around.
    """

    condition: Scalar
    holds: Scalar
    column: Scalar

    def at(self, column: Scalar, simplify: Simplifier) -> Mapping[Scalar, Scalar]:
        """The condition with another column, by which to replace it."""
        (condition,) = simplify.substitute([self.condition], {self.column: column})
        return {condition: self.holds}


Columns = Mapping[Root, frozenset[Scalar]]
"""For each root that goes over the columns, the loops, and the counters of sums, that do."""


def masks(stream: Stream) -> Iterator[tuple[Root, Mask]]:
    """The conditions on which elements of rows are chosen, and where."""
    known = set()
    for root in stream.roots:
        for node in root.nodes:
            if node.op not in ("where", "guard") or node.args[0] in known:
                continue
            condition, chosen, otherwise = node.args
            known.add(condition)
            inside = postorder([condition])
            others = {each for each in inside if each.op == "index"}.difference(stream.around)
            made = any(each.op == "load" and each.attribute in stream.made for each in inside)
            if len(others) != 1 or made or any(each.op == "fold" for each in inside):
                continue
            (column,) = others
            if column.attribute[2] is None:
                continue
            if column not in postorder([otherwise]):
                yield root, Mask(condition, FALSE, column)
            elif column not in postorder([chosen]):
                yield root, Mask(condition, TRUE, column)


def columns_of(stream: Stream, first: Root, column: Scalar, readers: Readers) -> Columns | None:
    """The loops that go over the same columns as that of one root; None if there are others.

    Two loops do if they are of the same axis of a buffer that is made in the stream.
    """
    positions: list[tuple[Root, Buffer, Mapping[int, Scalar]]] = []
    for root in stream.roots:
        positions.append((root, root.target, dict(zip(root.axes, root.loops, strict=True))))
        for source, loads in root.loads.items():
            if source in stream.made:
                positions += [(root, source, dict(enumerate(node.args))) for node in loads]
    found, axes, size = {(first, column)}, dict[Buffer, int](), 0
    while size < len(found) + len(axes):
        size = len(found) + len(axes)
        for reader, one, position in positions:
            for axis, place in position.items():
                if (reader, place) in found:
                    axes.setdefault(one, axis)
            if one in axes:
                if axes[one] not in position:
                    return None
                found.add((reader, position[axes[one]]))
    passing = stream.passing(readers)
    if not all(one in passing or one in stream.sums for one in axes):
        return None
    for user, place in found:
        own = () if user.target in stream.sums else stream.around
        if place.op != "index" or place in own or extent_of(place) != extent_of(column):
            return None
    places = {place for _, place in found}
    for root in stream.roots:
        # roots share the index of a loop: over columns, it may be that in all of them, or in none
        others = [x for x in root.loops[len(stream.around) :] if x in places]
        if not isinstance(root, Contraction) and any((root, x) not in found for x in others):
            return None
    return {user: frozenset(x for one, x in found if one is user) for user, _ in found}
