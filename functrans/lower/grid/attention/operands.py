"""Operands of pairs in shared memory: the threads of a team load tiles of them together.

Adjacent threads load adjacent elements. Beyond the last row, partner, column or term, they load the
last one again; values of partners beyond the last one are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functrans.loop.affine import lies_along
from functrans.loop.grid import AttentionTile
from functrans.loop.nodes import index
from functrans.loop.scalar import Scalar, const, minimum, where
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Let, Statement, Store, buffer, local
from functrans.lower.grid.attention.pairs import PairProduct, Pairs, Values
from functrans.lower.grid.contiguity import WIDEST
from functrans.lower.grid.products.recognition import extents
from functrans.lower.nest.linearisation import delinearised, quotient_and_rest
from functrans.records import NamedTuple

Known = dict[Scalar, Scalar]
Load = Callable[[Scalar, Scalar], Sequence[Statement]]
"""Returns the loads of a thread for a stretch of terms."""

Place = tuple[Buffer, tuple[Scalar, ...]]
"""Where an element is in shared memory."""

NEAR = 8
"""Adjacent threads load this many adjacent terms, a sector of memory, and then those of the next
row, so that they store to different banks."""


class Loaded(NamedTuple):
    """An element that a thread loads."""

    operand: int  # the index of the operand in the product
    own: Scalar  # its row, partner or column in the tile
    term: Scalar  # its term, or partner, in the stretch
    element: Scalar


class Operands:
    """The tiles of the operands of pairs, and the positions of elements in them.

    Tiles of rows are loaded once for all tiles of partners. Those of partners are loaded in
    stretches of terms, one after the other into the same shared memory.
    """

    def __init__(
        self,
        pairs: Pairs,
        products: Sequence[PairProduct],
        values: Sequence[Values],
        tile: AttentionTile,
        simplify: Simplifier,
    ) -> None:
        self.pairs = pairs
        self._products = products
        self._values = values
        self.tile = tile
        self.simplify = simplify
        self.substitute = simplify.substitute
        self.partners = extents(pairs.partners)
        self.groups = [tile.groups(extents(each.columns)) for each in values]
        self.row_block = index("query_block", -(-extents(pairs.rows) // tile.queries))
        self.partner_block = index("key_block", -(-self.partners // tile.keys))
        self.scratch = self._allocate()  # the rows of shared memory of all tiles

    def _allocate(self) -> list[Buffer]:
        """Set the rows of shared memory for each operand; returns all of them."""
        self.left = [
            [buffer("queries", x.dtype, self._of_rows(each, x)) for x in each.left]
            for each in self._products
        ]
        self._in_turns: list[Buffer] = []
        self.right = [self._taken("keys", each.right) for each in self._products]
        self.values = [self._taken("values", [each.value])[0] for each in self._values]
        return [*(row for rows in self.left for row in rows), *self._in_turns]

    def _of_rows(self, product: PairProduct, operand: Scalar) -> tuple[int, int]:
        tile = self.tile
        terms = -(-product.terms // tile.depth) * tile.depth
        return terms, tile.queries + padding(operand.dtype, tile)

    def _taken(self, label: str, operands: Sequence[Scalar]) -> list[Buffer]:
        """Rows of shared memory for operands of partners, which reuse those no longer needed."""
        taken: list[Buffer] = []
        for each in operands:
            free = [one for one in self._in_turns if one.dtype == each.dtype and one not in taken]
            if not free:
                width = max((1, *self.groups)) * self.tile.keys + padding(each.dtype, self.tile)
                free.append(buffer(label, each.dtype, (self.tile.depth, width)))
                self._in_turns += free
            taken.append(free[0])
        return taken

    def of_rows(self, number: int) -> Load:
        """The operands of rows of a product."""

        def place(each: Loaded, stretch: Scalar) -> Place:
            term = stretch * self.tile.depth + each.term
            return self.left[number][each.operand], (term, each.own)

        return _loads(partial(self.share_of_rows, number), place)

    def of_partners(self, number: int) -> Load:
        """The operands of partners of a product."""
        return _loads(
            partial(self.share_of_partners, number),
            lambda each, _: (self.right[number][each.operand], (each.term, each.own)),
        )

    def of_values(self, number: int) -> Load:
        """The values of partners, in stretches of partners; beyond the last partner they are 0."""
        return _loads(
            partial(self.share_of_values, number),
            lambda each, _: (self.values[number], (each.term, each.own)),
        )

    def share_of_rows(self, number: int, thread: Scalar, stretch: Scalar) -> list[Loaded]:
        """A thread's share of a stretch of the operands of rows."""
        of = self._products[number]
        return self._share(of, of.left, thread, stretch, is_row=True)

    def share_of_partners(self, number: int, thread: Scalar, stretch: Scalar) -> list[Loaded]:
        """A thread's share of a stretch of the operands of partners."""
        of = self._products[number]
        return self._share(of, of.right, thread, stretch, is_row=False)

    def share_of_values(self, number: int, thread: Scalar, stretch: Scalar) -> list[Loaded]:
        """A thread's share of a stretch of values."""
        value, columns = self._values[number]
        width = self.groups[number] * self.tile.keys
        near = lies_along(value, self.pairs.partners[-1], columns[-1])
        found = []
        for own, term in self._divided_among(thread, width, near):
            partner = stretch * self.tile.depth + term
            known = delinearised(columns, minimum(own, extents(columns) - 1), self.simplify)
            (element,) = self.substitute([value], {**known, **self.partner(partner)})
            element = where(self.is_partner(partner), element, const(0, value.dtype))
            found.append(Loaded(0, own, term, self.simplify(element)))
        return found

    def _term(self, of: PairProduct, operand: Scalar, term: Scalar, known: Known) -> Scalar:
        terms = delinearised(of.counters, minimum(term, of.terms - 1), self.simplify)
        (value,) = self.substitute([operand], {**known, **terms})
        return value

    def _share(
        self,
        of: PairProduct,
        operands: Sequence[Scalar],
        thread: Scalar,
        stretch: Scalar,
        *,
        is_row: bool,
    ) -> list[Loaded]:
        loops = self.pairs.rows if is_row else self.pairs.partners
        length = self.tile.queries if is_row else self.tile.keys
        indices = self.row if is_row else self.partner
        first = stretch * self.tile.depth
        found = []
        for number, operand in enumerate(operands):
            near = lies_along(operand, of.counters[-1], loops[-1])
            for own, term in self._divided_among(thread, length, near):
                element = self._term(of, operand, first + term, indices(own))
                found.append(Loaded(number, own, term, element))
        return found

    def _divided_among(
        self, thread: Scalar, length: int, near: bool
    ) -> list[tuple[Scalar, Scalar]]:
        """The elements of some rows that a thread loads: the row, and the term of each.

        Adjacent threads load adjacent elements: terms, if these are contiguous (``near``), or else
        rows.
        """
        found = []
        inner = min(NEAR, self.tile.depth)
        for start in range(0, length * self.tile.depth, self.tile.threads):
            if near:
                rest, low = self.divided(thread + start, inner)
                high, own = self.divided(rest, length)
                found.append((own, self.simplify(high * inner + low)))
            else:
                term, own = self.divided(thread + start, length)
                found.append((own, term))
        return found

    def row(self, within: Scalar) -> Known:
        """The indices of a row of the tile; beyond the last row, of that one."""
        number = self.row_block * self.tile.queries + within
        loops = self.pairs.rows
        return delinearised(loops, minimum(number, extents(loops) - 1), self.simplify)

    def partner(self, within: Scalar) -> Known:
        """The indices of a partner of the tile; beyond the last partner, of that one."""
        number = self.partner_block * self.tile.keys + within
        return delinearised(self.pairs.partners, minimum(number, self.partners - 1), self.simplify)

    def is_partner(self, within: Scalar) -> Scalar:
        return self.simplify(self.partner_block * self.tile.keys + within < self.partners)

    def divided(self, x: Scalar, by: int) -> tuple[Scalar, Scalar]:
        return quotient_and_rest(x, by, self.simplify)


def padding(dtype: np.dtype[Any], tile: AttentionTile) -> int:
    """The padding of rows in shared memory, in elements: rows then begin in different banks.

    Tensor cores read half floats in units of 16 bytes.
    """
    return WIDEST // dtype.itemsize if dtype.itemsize == 2 else tile.padding


def _loads(
    share: Callable[[Scalar, Scalar], Sequence[Loaded]], place: Callable[[Loaded, Scalar], Place]
) -> Load:
    """Stores of a thread's share, each in its place; all values are loaded before."""

    def loads(thread: Scalar, stretch: Scalar) -> Sequence[Statement]:
        found = share(thread, stretch)
        names = tuple(local(each.element.dtype, "next") for each in found)
        stores = [
            Store(*place(each, stretch), name) for each, name in zip(found, names, strict=True)
        ]
        return [Let(names, tuple(each.element for each in found)), *stores]

    return loads
