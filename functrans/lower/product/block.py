"""Blocks of products: parts of the result that are computed together, and stay in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, idiv, maximum, minimum
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import For, Store
from functrans.loop.substitution import Position
from functrans.loop.walk import Body
from functrans.lower.nest.linearisation import Values
from functrans.lower.select.root import extent_of
from functrans.records import NamedTuple

MIRRORED = 16
"""The most columns of a block that are mirrored at once."""

Bounds = tuple[Scalar, Scalar]
"""The first index, and the one after the last."""


class Block(NamedTuple):
    """A block of the result."""

    batch: Values  # the loops of the stack
    rows: Bounds  # the numbers of the first row, and of the one after the last
    columns: Bounds  # the same of columns
    # the leading indices of its scratch memory: a thread's part, if that is in the arena
    own: Position = ()
    height: int = 0  # the number of rows if it is the same for all blocks; otherwise 0

    def over_rows(self, row: Scalar, simplify: Simplifier) -> tuple[Scalar, Scalar, Bounds]:
        """The loop over its rows: the index, the row, and the bounds."""
        if not self.height:
            return row, row, self.rows
        number = index("row", self.height)
        return number, simplify(self.rows[0] + number), (ZERO, const(self.height, INDEX))

    def half_stored(
        self,
        row: Scalar,
        column: Scalar,
        store: Callable[[Scalar, Scalar], Store],
        lanes: int,
        simplify: Simplifier,
    ) -> Body:
        """Loops that store the elements up to the diagonal, and mirror those below it."""
        start, end = self.columns

        def mirror(row: Scalar, column: Scalar) -> Store:
            to = store(row, column)
            *matrix, i, j = to.indices
            return replace(to, indices=(*matrix, j, i))

        stop = simplify(maximum(minimum(end, row + 1), start))
        below = For(column, start, stop, (store(row, column),), lanes)
        above = self.mirrored(row, column, mirror, lanes, simplify)
        return (*above, For(row, *self.rows, (below,)))

    def mirrored(
        self,
        row: Scalar,
        column: Scalar,
        mirror: Callable[[Scalar, Scalar], Store],
        lanes: int,
        simplify: Simplifier,
    ) -> Body:
        """Loops that mirror the elements below the diagonal to those above it.

        Several columns are mirrored at once: their elements, which are adjacent in each row, are
        then loaded as vectors, and transposed in registers.
        """
        (first_row, last_row), (start, end) = self.rows, self.columns
        count = min(lanes, MIRRORED)
        group = index("group", extent_of(column) // count)
        groups = simplify(idiv(end - start, count))
        first = simplify(start + group * count)
        stop = simplify(first + count)

        def down(begin: Scalar, stop: Scalar, body: Body, lanes: int = 1) -> For:
            return For(row, simplify(maximum(first_row, begin)), stop, body, lanes)

        near = For(column, first, row, (mirror(row, column),))
        together = tuple(mirror(row, simplify(first + k)) for k in range(count))
        beside = (down(first, stop, (near,)), down(stop, last_row, together, count))
        rest = down(column + 1, last_row, (mirror(row, column),))
        return (
            For(group, ZERO, groups, beside),
            For(column, simplify(start + groups * count), end, (rest,)),
        )


def loop_of(index: Scalar, stop: Scalar, body: Body, start: Scalar = ZERO) -> Body:
    """A loop, or just its body for a single iteration."""
    return body if index is ZERO else (For(index, start, stop, body),)


def groups_of(bounds: Bounds, length: int, simplify: Simplifier) -> Bounds:
    """The groups of ``length`` lines or terms that contain a range of these."""
    start, stop = bounds
    return simplify(idiv(start, length)), simplify(idiv(stop + (length - 1), length))


def count_of(bounds: Bounds, length: int, most: int, simplify: Simplifier) -> Scalar:
    """The number of tiles or panels in a range of rows or columns."""
    start, stop = bounds
    if start.op == stop.op == "const":
        return const(-(-int(stop.attribute - start.attribute) // length), INDEX)
    return simplify(minimum(idiv(stop - start + (length - 1), length), most))


def iterations(loops: Sequence[Scalar]) -> int:
    """The total number of iterations of loops."""
    return prod(map(extent_of, loops))
