"""Masks: conditions that select elements of rows, and the loops over their columns.

A mask is the condition of a select, or numbers that are added to scores. Where these are very small
(-inf, -1e9, the least number of a dtype), the exponential of the sum is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import FALSE, TRUE, Simplifier
from functrans.loop.statements import Buffer, local
from functrans.lower.product.bounds import LOWEST
from functrans.lower.product.stream import Stream
from functrans.lower.select.root import Contraction, Readers, Root, extent_of
from functrans.records import NamedTuple


class Mask(NamedTuple):
    """A mask of elements of rows: a condition, or added numbers, some of which are very small."""

    chosen: Scalar  # True where an element is not masked
    node: Scalar  # the node of the condition, or of the number
    # the value of the node where an element is masked: a constant, or any number up to a bound
    value: Scalar
    column: Scalar  # the loop over columns, on which it depends besides the enclosing loops
    # the bound of `value`, if it is not a constant
    highest: Mapping[Scalar, Scalar] = MappingProxyType({})

    def at(self, column: Scalar, simplify: Simplifier) -> Mapping[Scalar, Scalar]:
        """The substitution that evaluates an expression in a masked column."""
        (node,) = simplify.substitute([self.node], {self.column: column})
        return {node: self.value}


Columns = Mapping[Root, frozenset[Scalar]]
"""The loops and counters over the columns, for each root that has some."""


def masks(stream: Stream) -> list[tuple[Root, Mask]]:
    """The masks of a stream, with their roots: conditions first, then added numbers."""
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
    """The masks that are loaded numbers, or computed from these, and added to something."""
    for number in node.args:
        column = column_of(number) if any(x.op == "load" for x in postorder([number])) else None
        if column is not None:
            most = const(LOWEST, number.dtype)
            hidden = local(number.dtype, "hidden")
            # NaN does not mask
            yield Mask(~(number <= most), number, hidden, column, {hidden: most})


def mask_at(
    node: Scalar,
    # maps a condition to the loop over columns on which it depends, or None
    column_of: Callable[[Scalar], Scalar | None],
) -> Mask | None:
    """The mask of a node that selects elements; None if it is none."""
    if node.op not in ("where", "guard"):
        return None
    chosen, *sides = node.args
    column = column_of(chosen)
    if column is None:
        return None
    if column not in postorder(sides[1:]):
        return Mask(chosen, chosen, FALSE, column)
    if column not in postorder(sides[:1]):
        return Mask(~chosen, chosen, TRUE, column)
    return None


def _column(stream: Stream, chosen: Scalar) -> Scalar | None:
    """The only loop besides the enclosing ones on which a condition depends, or None."""
    inside = postorder([chosen])
    others = {each for each in inside if each.op == "index"}.difference(stream.around)
    made = any(each.op == "load" and each.attribute in stream.made for each in inside)
    if len(others) != 1 or made or any(each.op == "fold" for each in inside):
        return None
    (column,) = others
    return None if column.attribute[2] is None else column


def columns_of(stream: Stream, first: Root, column: Scalar, readers: Readers) -> Columns | None:
    """The loops over the same columns as a root's loop; None if other loops conflict.

    Two loops are over the same columns if they index the same axis of a buffer of the stream.
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
        # roots share loop indices: an index must be one over columns in all roots, or in none
        others = [x for x in root.loops[len(stream.around) :] if x in places]
        if not isinstance(root, Contraction) and any((root, x) not in found for x in others):
            return None
    return {user: frozenset(x for one, x in found if one is user) for user, _ in found}
