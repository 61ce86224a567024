"""Operands of attention in shared memory: the threads of a team load tiles of them together.

Neighbouring threads load what is side by side in memory. Behind the last query, key, column or
term they load that one again; behind the last key, values are 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrans.loop.nodes import index
from functrans.loop.scalar import Scalar, const, minimum, where
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Let, Statement, Store, buffer, local
from functrans.lower.grid.contiguity import lies_along
from functrans.lower.grid.linearisation import delinearised, quotient_and_rest
from functrans.lower.select.attention import Attention
from functrans.lower.select.products import extents
from functrans.lower.select.root import extent_of

Values = dict[Scalar, Scalar]

NEAR = 8
"""Neighbouring threads load so many neighbouring terms, a sector of memory, and then those of the
next row: what they store side by side is then in different banks."""


class Operands:
    """The tiles of the operands of attention, and which of their elements are where.

    Parameters
    ----------
    attention : Attention
    simplify : Simplifier
    """

    def __init__(self, attention: Attention, simplify: Simplifier) -> None:
        self.of = of = attention
        self.tile = tile = attention.tile
        self.simplify = simplify
        self.substitute = simplify.substitute
        self.terms = extents(of.counters)
        self.keys = extent_of(of.key)
        self.groups = tile.groups(extents(of.columns))
        self.query_block = index("query_block", -(-extents(of.queries) // tile.queries))
        self.key_block = index("key_block", -(-self.keys // tile.keys))
        of_queries = -(-self.terms // tile.depth) * tile.depth, tile.queries + tile.padding
        of_keys = tile.depth, self.groups * tile.keys + tile.padding
        self.left = [buffer("queries", x.dtype, of_queries) for x in of.left]
        self.right = [buffer("keys", x.dtype, of_keys) for x in of.right]
        # what is of keys has been used when what is of values is loaded
        free = [row for row in self.right if row.dtype == of.value.dtype]
        self.values = free[0] if free else buffer("values", of.value.dtype, of_keys)

    @property
    def rows(self) -> list[Buffer]:
        """All of the tiles."""
        return [*dict.fromkeys((*self.left, *self.right, self.values))]

    def load_queries(self, thread: Scalar, stretch: Scalar) -> list[Statement]:
        """A thread's share of the queries' operands for a stretch of terms."""
        first = stretch * self.tile.depth
        found = [
            (row, (first + term, own), self._at_term(operand, first + term, self.query(own)))
            for row, operand in zip(self.left, self.of.left, strict=True)
            for own, term in self._share(thread, self.tile.queries, operand, self.of.queries)
        ]
        return _stored(found)

    def load_keys(self, thread: Scalar, stretch: Scalar) -> list[Statement]:
        """A thread's share of the keys' operands for a stretch of terms."""
        first = stretch * self.tile.depth
        found = [
            (row, (term, own), self._at_term(operand, first + term, self.key(own)))
            for row, operand in zip(self.right, self.of.right, strict=True)
            for own, term in self._share(thread, self.tile.keys, operand, (self.of.key,))
        ]
        return _stored(found)

    def load_values(self, thread: Scalar, stretch: Scalar) -> list[Statement]:
        """A thread's share of the values of a stretch of keys; behind the last key they are 0."""
        value, columns = self.of.value, self.of.columns
        width = self.groups * self.tile.keys
        near = lies_along(value, self.of.key, columns[-1])
        found = []
        for own, term in self._divided_among(thread, width, near):
            key = stretch * self.tile.depth + term
            known = delinearised(columns, minimum(own, extents(columns) - 1), self.simplify)
            (number,) = self.substitute([value], {**known, **self.key(key)})
            number = where(self.is_key(key), number, const(0, value.dtype))
            found.append((self.values, (term, own), self.simplify(number)))
        return _stored(found)

    def _at_term(self, operand: Scalar, term: Scalar, known: Values) -> Scalar:
        terms = delinearised(self.of.counters, minimum(term, self.terms - 1), self.simplify)
        (value,) = self.substitute([operand], {**known, **terms})
        return value

    def _share(
        self, thread: Scalar, length: int, operand: Scalar, loops: Sequence[Scalar]
    ) -> list[tuple[Scalar, Scalar]]:
        near = lies_along(operand, self.of.counters[-1], loops[-1])
        return self._divided_among(thread, length, near)

    def _divided_among(
        self, thread: Scalar, length: int, near: bool
    ) -> list[tuple[Scalar, Scalar]]:
        """Which elements of so many rows a thread loads: which row, and which term of it.

        Neighbours load what is side by side in memory: terms, if these are near, or else rows.
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

    def query(self, within: Scalar) -> Values:
        """The indices of a query of the tile; behind the last one, of that."""
        number = self.query_block * self.tile.queries + within
        loops = self.of.queries
        return delinearised(loops, minimum(number, extents(loops) - 1), self.simplify)

    def key(self, within: Scalar) -> Values:
        """The index of a key of the tile; behind the last one, of that."""
        number = self.key_block * self.tile.keys + within
        return {self.of.key: self.simplify(minimum(number, self.keys - 1))}

    def is_key(self, within: Scalar) -> Scalar:
        return self.simplify(self.key_block * self.tile.keys + within < self.keys)

    def divided(self, x: Scalar, by: int) -> tuple[Scalar, Scalar]:
        return quotient_and_rest(x, by, self.simplify)


def _stored(found: Sequence[tuple[Buffer, tuple[Scalar, ...], Scalar]]) -> list[Statement]:
    """Stores of values that are all loaded before."""
    names = [local(value.dtype, "next") for *_, value in found]
    stores = [Store(row, at, name) for (row, at, _), name in zip(found, names, strict=True)]
    return [Let(tuple(names), tuple(value for *_, value in found)), *stores]
