"""Packing: operands of matrix products are copied in the order in which tiles read them.

What is copied is an expression: a transpose, a slice, a mask or a cast is read on the way, and
never in memory. Vectors go along the axis that is dense in the operand; where this is not the
order of the packed one, they are transposed in registers (`functrans.emit.llvm.interleave`).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

from functrans.loop.affine import lies_along
from functrans.loop.nodes import INDEX, ZERO, as_index, index
from functrans.loop.scalar import Scalar, const, minimum
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, If, Let, Statement, Store, local
from functrans.loop.target import Target
from functrans.loop.walk import Body
from functrans.lower.nest.linearisation import Values

Line = Callable[[Scalar], Values]
"""What the loops of an operand's rows, or columns, are for one of these, by its number."""


class Packed:
    """An operand, and where its elements go: lines side by side, for one term after the other.

    Parameters
    ----------
    factor : Scalar
        An element.
    line : callable
        Gives the loops around for a row, or column, by its number.
    last : Scalar
        The loop along which neighbouring ones lie.
    counter : Scalar
        The loop over terms.
    count : int
        How many rows, or columns, there are.
    target : Target
    simplify : Simplifier
    """

    def __init__(
        self,
        factor: Scalar,
        line: Line,
        last: Scalar,
        counter: Scalar,
        count: int,
        target: Target,
        simplify: Simplifier,
    ) -> None:
        self.factor = factor
        self.line = line
        self.last = last
        self.counter = counter
        self.count = count
        self.simplify = simplify
        self.lanes = target.lanes(factor.dtype.itemsize)
        self.along_terms = lies_along(factor, counter, last)

    def at(self, values: Values) -> Packed:
        """The operand where some loops around have these values."""
        (factor,) = self.simplify.substitute([self.factor], values)
        other = copy(self)
        other.factor = factor
        return other

    def copied(
        self,
        place: Callable[[Scalar, Scalar], tuple[Scalar, ...]],
        into: Buffer,
        first: Scalar,
        side: int,
        terms: tuple[Scalar, Scalar, int],
    ) -> Body:
        """Statements that copy some lines.

        Parameters
        ----------
        place : callable
            Gives the position in the packed operand of a term and a line, both from 0.
        into : Buffer
        first : Scalar
            The number of the first line.
        side : int
            How many there are. Beyond the last one of all, its elements or zeros stand there.
        terms : tuple
            The number of the first term, how many there are, and how many at most.
        """
        start, count, most = terms
        if self.along_terms:
            return self._across(place, into, first, side, start, count, most)
        return self._along(place, into, first, side, start, count, most)

    def _across(
        self,
        place: Callable[[Scalar, Scalar], tuple[Scalar, ...]],
        into: Buffer,
        first: Scalar,
        side: int,
        start: Scalar,
        count: Scalar,
        most: int,
    ) -> Body:
        """Vectors of terms, of all lines together."""
        term = index("k", most)
        named: list[Statement] = []
        stores: list[Statement] = []
        for number in range(side):
            line = self.simplify(minimum(first + number, self.count - 1))
            values: Values = {}
            for loop, value in self.line(line).items():
                values[loop] = self._name(value, named)
            values[self.counter] = self.simplify(start + term)
            (element,) = self.simplify.substitute([self.factor], values)
            stores.append(Store(into, place(term, as_index(number)), element))
        lanes = self.lanes
        while lanes > most:
            lanes //= 2
        whole = count.op == "const" and int(count.attribute) % lanes == 0
        loop = For(term, ZERO, count, tuple(stores), lanes, repeatable=lanes > 1, whole=whole)
        return (*named, loop)

    def _name(self, value: Scalar, named: list[Statement]) -> Scalar:
        """A value that is computed before the loop."""
        if not value.args:
            return value
        name = local(INDEX, "at")
        named.append(Let((name,), (value,)))
        return name

    def _along(
        self,
        place: Callable[[Scalar, Scalar], tuple[Scalar, ...]],
        into: Buffer,
        first: Scalar,
        side: int,
        start: Scalar,
        count: Scalar,
        most: int,
    ) -> Body:
        """Vectors of lines, of one term after the other."""
        term, lane = index("k", most), index("lane", side)
        values = self.line(self.simplify(first + lane)) | {
            self.counter: self.simplify(start + term)
        }
        (element,) = self.simplify.substitute([self.factor], values)
        lanes = self.lanes
        while lanes // 2 >= side:
            lanes //= 2
        full = const(side, INDEX)
        whole = side % lanes == 0

        def copies(stop: Scalar, value: Scalar, whole: bool) -> Body:
            store = Store(into, place(term, lane), value)
            line = For(lane, ZERO, stop, (store,), lanes, whole=whole)
            return (For(term, ZERO, count, (line,)),)

        every = copies(full, element, whole)
        if self.count % side == 0:
            return every
        left = self.simplify(const(self.count, INDEX) - first)
        nothing = const(0, self.factor.dtype)
        some = (*copies(full, nothing, whole), *copies(left, element, False))
        return (If(const(side, INDEX) <= left, every, some),)
