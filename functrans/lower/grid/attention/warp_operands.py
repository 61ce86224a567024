"""Operands of fused attention on tensor cores, in shared memory in the order of memory.

A fragment can be read from lines of terms and from lines of rows, so an operand keeps the order of
the array it comes from: each thread moves runs of 16 bytes. Operands that need no computation are
copied asynchronously. A tile has all terms of its rows, of its partners, and all columns of its
values. Beyond the last row, partner or column it has the last one again; values of partners beyond
the last one are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from functrans.loop.affine import lies_along
from functrans.loop.fragments import ROWS
from functrans.loop.nodes import as_index
from functrans.loop.scalar import Scalar, bitcast, const, minimum, where
from functrans.loop.statements import (
    Address,
    Buffer,
    Let,
    Panel,
    Statement,
    Store,
    buffer,
    local,
    where_true,
)
from functrans.lower.grid.attention.operands import Known, Loaded, Operands, padding
from functrans.lower.grid.attention.pairs import PairProduct, Values
from functrans.lower.grid.contiguity import WIDEST
from functrans.lower.grid.products.copying import is_copied
from functrans.lower.grid.products.recognition import extents
from functrans.lower.nest.linearisation import delinearised
from functrans.records import NamedTuple

BITS = np.dtype(np.uint16)

RUN = WIDEST // BITS.itemsize
"""The elements of a run: 16 bytes of half floats."""


class _Run(NamedTuple):
    """Elements that a thread moves: line, position in it, number of bits, whether they exist."""

    line: Scalar
    start: Scalar
    elements: list[Scalar]
    exists: Scalar


Numbers = Callable[[Scalar], list[Scalar]]
"""A function of the index of a run's first element: the indices of all of its elements."""


class Side(NamedTuple):
    """An operand of a product of warps: the terms of each of its owners.

    The owners are rows, partners, or columns of values, whose terms are partners.
    """

    tile: Buffer  # its elements in shared memory
    owners: int
    terms: int
    # whether the terms of an owner are contiguous, in memory and here; else owners are
    terms_are_near: bool
    is_copied: bool  # whether it is copied asynchronously
    # from an owner and a term to the elements of the run that begins there, as bits
    run: Callable[[Scalar, Scalar], list[Scalar]]

    def place(self, owner: Scalar, term: Scalar) -> tuple[Scalar, Scalar]:
        """The position of an element."""
        return (owner, term) if self.terms_are_near else (term, owner)

    def panel(self, owner: Scalar, owners: int, term: int) -> Panel:
        """Some owners, with the terms from one on, as an operand of a `MatrixMultiply`."""
        line = self.tile.extents[-1]
        apart = (line, 1) if self.terms_are_near else (1, line)
        return Panel(Address(self.tile, self.place(owner, as_index(term))), owners, *apart)


class WarpOperands(Operands):
    """The tiles of the operands of pairs; parameters are those of `Operands`."""

    def _allocate(self) -> list[Buffer]:
        (product,), (values,) = self._products, self._values
        self.rows_side = self._of_terms("queries", product, product.left, is_row=True)
        self.partners_side = self._of_terms("keys", product, product.right, is_row=False)
        self.values_side = self._of_values(values)
        return [each.tile for each in (self.rows_side, self.partners_side, self.values_side)]

    def _of_terms(
        self, label: str, product: PairProduct, operands: Sequence[Scalar], *, is_row: bool
    ) -> Side:
        (operand,) = operands
        loops = self.pairs.rows if is_row else self.pairs.partners
        count = self.tile.queries if is_row else self.tile.keys
        block = self.row_block if is_row else self.partner_block
        near = lies_along(operand, product.counters[-1], loops[-1])
        owners = _numbers(extents(loops), along=not near)
        terms = _numbers(product.terms, along=near)

        def run(owner: Scalar, term: Scalar) -> list[Scalar]:
            pairs = zip(owners(block * count + owner), terms(term), strict=True)
            return [self._at(operand, {loops: x, product.counters: y}) for x, y in pairs]

        copied = is_copied(operand, loops, product.counters)
        return self._side(label, operand, (count, product.terms), near, copied, run)

    def _of_values(self, values: Values) -> Side:
        value, columns = values
        loops, keys = self.pairs.partners, self.tile.keys
        near = lies_along(value, loops[-1], columns[-1])
        owners = _numbers(extents(columns), along=not near)
        partners = _numbers(self.partners, along=near)
        copied = is_copied(value, columns, loops)

        def run(column: Scalar, partner: Scalar) -> list[Scalar]:
            first = self.partner_block * keys + partner
            pairs = zip(owners(column), partners(first), strict=True)
            found = [self._at(value, {columns: x, loops: y}) for x, y in pairs]
            # all partners of a run that is copied exist, or none of them
            steps = range(RUN) if near and not copied else [0] * RUN
            inside = [self.is_partner(partner + step) for step in steps]
            zero = const(0, BITS)
            return [where(exists, x, zero) for exists, x in zip(inside, found, strict=True)]

        width = -(-extents(columns) // ROWS) * ROWS
        return self._side("values", value, (width, keys), near, copied, run)

    def _at(self, operand: Scalar, numbers: Mapping[tuple[Scalar, ...], Scalar]) -> Scalar:
        known: Known = {}
        for loops, number in numbers.items():
            known |= delinearised(loops, self.simplify(number), self.simplify)
        (value,) = self.substitute([operand], known)
        return bitcast(value, BITS)

    def _side(
        self,
        label: str,
        operand: Scalar,
        size: tuple[int, int],
        near: bool,
        copied: bool,
        run: Callable[[Scalar, Scalar], list[Scalar]],
    ) -> Side:
        owners, terms = size
        lines, line = size if near else (terms, owners)
        tile = buffer(label, operand.dtype, (lines, line + padding(operand.dtype, self.tile)))
        return Side(tile, owners, terms, near, copied, run)

    def moved(
        self,
        side: Side,
        thread: Scalar,
        block: Scalar | None = None,  # the tile of partners, if not the current one
    ) -> list[Statement]:
        """A thread's share of an operand, moved to shared memory."""
        found: list[Statement] = []
        other = {} if block is None else {self.partner_block: block}
        for run in self._share_of_runs(side, thread):
            places = [(run.line, self.simplify(run.start + step)) for step in range(RUN)]
            elements = [*self.substitute(run.elements, other)] if other else run.elements
            found += where_true(run.exists, _moved(side, places, elements))
        return found

    def _share_of_runs(self, side: Side, thread: Scalar) -> list[_Run]:
        """A thread's runs of an operand; adjacent threads have adjacent ones."""
        line = side.terms if side.terms_are_near else side.owners
        count = side.owners * side.terms // RUN
        found = []
        for start in range(0, count, self.tile.threads):
            number = self.simplify(thread + start)
            of_line, within = self.divided(number, line // RUN)
            within = self.simplify(within * RUN)
            owner, term = side.place(of_line, within)  # which is its own inverse
            elements = [self.simplify(x) for x in side.run(owner, term)]
            found.append(_Run(of_line, within, elements, self.simplify(number < count)))
        return found

    def share_of_values(self, number: int, thread: Scalar, stretch: Scalar) -> list[Loaded]:
        """A thread's share of the values; the one stretch has all of them."""
        side, found = self.values_side, []
        for run in self._share_of_runs(side, thread):
            owner, term = side.place(run.line, run.start)
            for step, bits in enumerate(run.elements):
                # (beyond the last run there are other elements of the operand, which do no harm)
                own, at = (owner, term + step) if side.terms_are_near else (owner + step, term)
                found.append(Loaded(0, own, at, bitcast(bits, side.tile.dtype)))
        return found


def _numbers(extent: int, *, along: bool) -> Numbers:
    """The numbers of the elements of a run along a loop, or across it; the last one is repeated."""

    def numbers(first: Scalar) -> list[Scalar]:
        if not along:
            return [minimum(first, extent - 1)] * RUN
        if extent % RUN:
            return [minimum(first + step, extent - 1) for step in range(RUN)]
        start = minimum(first, extent - RUN)
        return [start + step for step in range(RUN)]

    return numbers


def _moved(
    side: Side, places: Sequence[tuple[Scalar, Scalar]], elements: Sequence[Scalar]
) -> list[Statement]:
    """Stores of elements; those that are not copied asynchronously are all loaded before."""
    names = elements if side.is_copied else [local(x.dtype, "next") for x in elements]
    stores: list[Statement] = [
        Store(side.tile, at, bitcast(x, side.tile.dtype), late=side.is_copied)
        for at, x in zip(places, names, strict=True)
    ]
    return stores if side.is_copied else [Let(tuple(names), tuple(elements)), *stores]
