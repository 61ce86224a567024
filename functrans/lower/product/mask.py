"""Masks: conditions that select elements of rows, and the loops over their columns.

A mask is a condition of a choice, or numbers that are added to scores. Where these are very small
(-inf, -1e9, the smallest number of a dtype), the exponential of the sum is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from functrans.loop.scalar import Scalar, const, ne, postorder
from functrans.loop.simplify import FALSE, TRUE, Simplifier
from functrans.loop.statements import Buffer, local
from functrans.lower.product.bounds import LOWEST
from functrans.lower.product.stream import Readers, Stream
from functrans.lower.select.root import Contraction, Root, extent_of


class Mask(NamedTuple):
    """What chooses elements of rows: a condition, or numbers that are added, some very small.

    Parameters
    ----------
    chosen : Scalar
        Holds where an element is not left out.
    node : Scalar
        The condition, or the number.
    value : Scalar
        What it is where an element is left out: a constant, or any number up to a bound.
    column : Scalar
        The loop that it depends on besides those around.
    highest : dict
        The bound of `value`, if it is not a constant.
    """

    chosen: Scalar
    node: Scalar
    value: Scalar
    column: Scalar
    highest: Mapping[Scalar, Scalar] = MappingProxyType({})

    def at(self, column: Scalar, simplify: Simplifier) -> Mapping[Scalar, Scalar]:
        """What is to be replaced by what in an expression with another column."""
        (node,) = simplify.substitute([self.node], {self.column: column})
        return {node: self.value}


Columns = Mapping[Root, frozenset[Scalar]]
"""For each root that goes over the columns, the loops, and the counters of sums, that do."""


def masks(stream: Stream) -> list[tuple[Root, Mask]]:
    """What chooses elements of rows, and where: conditions, then numbers that are added."""
    known = set()
    conditions: list[tuple[Root, Mask]] = []
    numbers: list[tuple[Root, Mask]] = []

    def column_of(chosen: Scalar) -> Scalar | None:
        column = None if chosen in known else _column(stream, chosen)
        known.add(chosen)
        return column

    for root in stream.roots:
        for node in root.nodes:
            if node.op == "add" and node.dtype.kind == "f":
                numbers += [(root, mask) for mask in _added(node, column_of)]
            elif node.op != "add":
                mask = mask_at(node, column_of)
                conditions += [(root, mask)] if mask is not None else []
    return conditions + numbers


def _added(node: Scalar, column_of: Callable[[Scalar], Scalar | None]) -> Iterator[Mask]:
    """Numbers that are read, or made of such, and added to something."""
    for number in node.args:
        column = column_of(number) if any(x.op == "load" for x in postorder([number])) else None
        if column is not None:
            most = const(LOWEST, number.dtype)
            hidden = local(number.dtype, "hidden")
            # NaN hides nothing
            yield Mask(~(number <= most), number, hidden, column, {hidden: most})


def mask_at(node: Scalar, column_of: Callable[[Scalar], Scalar | None]) -> Mask | None:
    """The mask that a node of an expression is; None if it is none.

    Parameters
    ----------
    node : Scalar
    column_of : callable
        Is given what chooses; gives the loop over columns that it depends on, or None.
    """
    if node.op in ("where", "guard"):
        chosen, *sides = node.args
    elif node.op == "add":
        chosen, sides = next((x for x in node.args if x.op == "load"), node), []
    else:
        return None
    column = column_of(chosen)
    if column is None:
        return None
    if not sides and chosen.dtype.kind == "f":
        nothing = const(float("-inf"), chosen.dtype)
        return Mask(ne(chosen, nothing), chosen, nothing, column)
    if sides and column not in postorder(sides[1:]):
        return Mask(chosen, chosen, FALSE, column)
    if sides and column not in postorder(sides[:1]):
        return Mask(~chosen, chosen, TRUE, column)
    return None


def _column(stream: Stream, chosen: Scalar) -> Scalar | None:
    """The one loop that something depends on besides those around, if no root makes it."""
    inside = postorder([chosen])
    others = {each for each in inside if each.op == "index"}.difference(stream.around)
    made = any(each.op == "load" and each.attribute in stream.made for each in inside)
    if len(others) != 1 or made or any(each.op == "fold" for each in inside):
        return None
    (column,) = others
    return None if column.attribute[2] is None else column


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
