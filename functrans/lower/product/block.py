"""Blocks of products: which elements of the result are computed together, and kept in the cache."""

from __future__ import annotations

from typing import NamedTuple

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.relocation import Position
from functrans.loop.scalar import Scalar, const
from functrans.loop.simplify import Simplifier
from functrans.lower.nest.linearisation import Values

Bounds = tuple[Scalar, Scalar]
"""The first index, and the one behind the last."""


class Block(NamedTuple):
    """A block of the result.

    Parameters
    ----------
    batch : dict
        The loops of the stack.
    rows, columns : tuple of Scalar
        The number of the first one, and the one behind the last.
    own : tuple of Scalar
        The indices in front of those of its scratch: a thread's part, if that is in the arena.
    height : int
        How many rows there are, if each block has as many; or 0.
    """

    batch: Values
    rows: Bounds
    columns: Bounds
    own: Position = ()
    height: int = 0

    def over_rows(self, row: Scalar, simplify: Simplifier) -> tuple[Scalar, Scalar, Bounds]:
        """The loop over its rows: the index, the row, and from where to where."""
        if not self.height:
            return row, row, self.rows
        number = index("row", self.height)
        return number, simplify(self.rows[0] + number), (ZERO, const(self.height, INDEX))
