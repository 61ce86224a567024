"""Packing: operands of matrix products are copied to the order in which tiles read them.

The copied elements are expressions: a transpose, a slice, a mask or a cast is applied on the way,
without an array in memory. Vectors go along the contiguous axis of the operand; if the packed order
differs, they are transposed in registers (`functrans.emit.llvm.interleave`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from functrans.loop.affine import Coefficients
from functrans.loop.linear_places import stride_of
from functrans.loop.nodes import INDEX, ZERO, as_index, index
from functrans.loop.scalar import Scalar, const, minimum, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, If, Let, Statement, Store, local
from functrans.loop.substitution import Position
from functrans.loop.target import Target
from functrans.loop.walk import Body
from functrans.lower.nest.linearisation import Values, delinearised
from functrans.lower.product.block import loop_of
from functrans.lower.product.limits import Blocking
from functrans.lower.select.root import extent_of
from functrans.records import NamedTuple, dataclass

Place = Callable[[Scalar, Scalar], Position]
"""Maps a term and a line, both counted from 0, to the position in a packed operand."""


class Lines(NamedTuple):
    """Rows, or columns, of an operand."""

    first: Scalar  # the number of the first line
    side: int  # the most lines
    stop: Scalar  # The number after the last line. Elements beyond it are arbitrary.
    whole: bool  # whether there are as many as ``side``


SHORT = 16
"""Bytes: a line is not copied in shorter pieces if it has a whole vector."""


def lanes_of_line(length: int, itemsize: int, target: Target) -> int:
    """The lanes of a loop that copies a line: a power of two, which divides its length.

    Unless pieces would be short: then those of a vector, and the last one overlaps the one before.
    """
    own, whole = length & -length, target.lanes(itemsize)
    return own if own * itemsize >= SHORT or length <= whole else whole


class Groups(NamedTuple):
    """Groups of lines: the loop over them (or zero), its stop, the lines of a group, its start.

    With ``side_by_side``, the lines of all groups are copied before the next term: in a large
    operand, the next line of memory is in another page.
    """

    group: Scalar
    stop: Scalar
    lines: Lines
    side_by_side: bool
    start: Scalar = ZERO

    def loop(self, body: Body) -> Body:
        """The loop over the groups."""
        return loop_of(self.group, self.stop, body, self.start)


class Terms(NamedTuple):
    """Terms of a sum: the first one, their number, and the greatest and the least such number."""

    start: Scalar
    length: Scalar
    most: int
    least: int = 1


def last_part(extent: int, length: int) -> int:
    """The length of the last, and shortest, part of an extent in parts of a length."""
    return (extent - 1) % length + 1


def gaps(factor: Scalar, loop: Scalar) -> int:
    """The number of strided loads of an expression along a loop."""
    own = Coefficients(loop)
    loads = (node for node in postorder([factor]) if node.op == "load")
    return sum(stride_of(x, own) not in (-1, 0, 1) for x in loads)


def is_dense(factor: Scalar, loop: Scalar) -> bool:
    """Whether elements are plain loads that are contiguous along a loop."""
    if factor.op != "load":
        return False
    return stride_of(factor, Coefficients(loop)) == 1


def read_places(factor: Scalar, counter: Scalar) -> list[Scalar]:
    """The largest parts of an element's indices that are read from memory, alike for all terms.

    Except for what only some terms read: there, an index may be out of bounds.
    """
    own, found = Coefficients(counter), dict[Scalar, None]()
    seen, stack = set[Scalar](), [factor]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.dtype == INDEX and own.of(node) == 0:
            if any(x.op == "load" for x in postorder([node])):
                found[node] = None
        else:
            stack += node.args[:1] if node.op == "guard" else node.args
    return list(found)


@dataclass(frozen=True)
class Operand:
    """An operand of a product."""

    factor: Scalar  # the expression of an element
    loops: tuple[Scalar, ...]  # the loops over its rows or columns
    counter: Scalar  # the loop over terms
    target: Target
    simplify: Simplifier

    @property
    def along_terms(self) -> bool:
        """Whether vectors along terms have fewer strided loads than those along lines."""
        return gaps(self.factor, self.counter) <= gaps(self.factor, self.loops[-1])

    @property
    def _ahead(self) -> int:
        """The terms by which vectors along lines are prefetched; 0 if they are not.

        They are if the operand's rows are in pages of their own, and it exceeds the cache.
        """
        limits, own = self.target[Blocking], Coefficients(self.counter)
        distances = [
            abs(stride_of(node, own) or 0) * node.dtype.itemsize
            for node in postorder([self.factor])
            if node.op == "load"
        ]
        farthest = max(distances, default=0)
        is_far = farthest >= limits.far_rows
        is_large = farthest * extent_of(self.counter) > limits.small_cache
        few = self.target.registers <= limits.few_registers
        return limits.ahead if few and is_far and is_large else 0

    def is_dense(self, loop: Scalar) -> bool:
        """Whether elements are plain loads that are contiguous along a loop."""
        return is_dense(self.factor, loop)

    def at(self, values: Values) -> Operand:
        """The operand at given values of the enclosing loops."""
        (factor,) = self.simplify.substitute([self.factor], values)
        return replace(self, factor=factor)

    def element(self, line: Scalar, term: Scalar) -> Scalar:
        """The element at a row or column and a term."""
        values = delinearised(self.loops, line, self.simplify) | {self.counter: term}
        (found,) = self.simplify.substitute([self.factor], values)
        return found

    def named(self, lines: Lines) -> tuple[Body, list[Operand]]:
        """Operands of one line each, with precomputed indices.

        The last line is repeated beyond the end. A line's place that is read from memory, as that
        of a gathered row, is read and checked once, not for each term.
        """
        lets: list[Statement] = []
        found = []
        last = self.simplify(lines.stop - 1)
        for number in range(lines.side):
            line = self.simplify(lines.first + number)
            if not lines.whole:
                line = self.simplify(minimum(line, last))
            values = delinearised(self.loops, line, self.simplify)
            for loop, value in values.items():
                if value.args:
                    values[loop] = local(INDEX, "at")
                    lets.append(Let((values[loop],), (value,)))
            own = self.at(values)
            names = {x: local(INDEX, "place") for x in read_places(own.factor, self.counter)}
            lets += [Let((name,), (place,)) for place, name in names.items()]
            found.append(own.at(names))
        return tuple(lets), found

    def copied(
        self, place: Place, into: Buffer, groups: Groups, terms: Terms, by_terms: bool = False
    ) -> Body:
        """Statements that copy groups of lines, so that the lines of one term are contiguous.

        With ``by_terms``, vectors go along terms, which ``place`` makes contiguous.
        """
        if by_terms or self.along_terms:
            return groups.loop(self._transposed(place, into, groups.lines, terms))
        return self._as_it_lies(place, into, groups, terms)

    def copied_line(self, into: Buffer, place: Position, line: Scalar, terms: Terms) -> Body:
        """Statements that copy one line, so that its terms are contiguous."""
        lets, (own,) = self.named(Lines(line, 1, line + 1, True))
        term = index("k", terms.most)
        value = own.of_term(terms, term)
        return (*lets, self._over(term, terms, (Store(into, (*place, term), value),)))

    def of_term(self, terms: Terms, term: Scalar) -> Scalar:
        """The element at one of the terms, of an operand of one line."""
        values = {self.counter: self.simplify(terms.start + term)}
        (found,) = self.simplify.substitute([self.factor], values)
        return found

    def _over(self, term: Scalar, terms: Terms, body: Body) -> For:
        """A vectorised loop over terms, whose last vector may overlap the previous one."""
        lanes = self.target.lanes(self.factor.dtype.itemsize)
        while lanes > terms.most:
            lanes //= 2
        length = terms.length
        whole = length.op == "const" and int(length.attribute) % lanes == 0
        repeatable = 1 < lanes <= terms.least
        return For(term, ZERO, length, body, lanes, repeatable=repeatable, whole=whole)

    def _transposed(self, place: Place, into: Buffer, lines: Lines, terms: Terms) -> Body:
        """Copy vectors along terms, of all lines together, transposed in registers."""
        term = index("k", terms.most)
        lets, operands = self.named(lines)
        stores = [
            Store(into, place(term, as_index(number)), own.of_term(terms, term))
            for number, own in enumerate(operands)
        ]
        return (*lets, self._over(term, terms, tuple(stores)))

    def _as_it_lies(self, place: Place, into: Buffer, groups: Groups, terms: Terms) -> Body:
        """Copy vectors along lines, term by term, with zeros beyond the last line."""
        lines = groups.lines
        term, lane = index("k", terms.most), index("lane", lines.side)
        element = self.element(self.simplify(lines.first + lane), self.simplify(terms.start + term))
        itemsize = self.factor.dtype.itemsize
        lanes = min(lanes_of_line(lines.side, itemsize, self.target), self.target.lanes(itemsize))
        full, is_divided = const(lines.side, INDEX), lines.side % lanes == 0

        def copies(stop: Scalar, value: Scalar) -> Body:
            store, of_all = Store(into, place(term, lane), value), stop is full
            flags = {"whole": of_all and is_divided, "repeatable": of_all and not is_divided}
            return (For(lane, ZERO, stop, (store,), lanes, **flags),)

        def of_terms(body: Body) -> Body:
            return (For(term, ZERO, terms.length, body, ahead=self._ahead),)

        line = copies(full, element)
        inside, around = (groups.loop, of_terms) if groups.side_by_side else (of_terms, groups.loop)
        if lines.whole:
            return around(inside(line))
        left = self.simplify(lines.stop - lines.first)
        zeros = copies(full, const(0, self.factor.dtype))
        rest = (*zeros, *copies(left, element))
        if groups.side_by_side:
            return around(inside((If(full <= left, line, rest),)))
        return around((If(full <= left, inside(line), inside(rest)),))
