"""Views of matrices in a team's memory: triangles, transposes, columns of right-hand sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from functrans.loop.scalar import Scalar
from functrans.loop.statements import Buffer, Store, load
from functrans.ops.compiled.emission import Position


class Triangle(NamedTuple):
    """A triangular matrix, whose other half is not read.

    Parameters
    ----------
    element : callable
        Of a row and a column.
    lower : bool
    unit_diagonal : bool
        Whether the diagonal is of ones, and not read.
    """

    element: Callable[[Scalar, Scalar], Scalar]
    lower: bool
    unit_diagonal: bool


class View(NamedTuple):
    """A matrix in memory, or the transpose of one.

    Parameters
    ----------
    memory : Buffer
    at : tuple of Scalar
        Where in memory its rows begin.
    turned : bool
        Whether columns in memory are rows here.
    """

    memory: Buffer
    at: Position = ()
    turned: bool = False

    def load(self, row: Scalar, column: Scalar) -> Scalar:
        return load(self.memory, self._place(row, column))

    def store(self, row: Scalar, column: Scalar, value: Scalar) -> Store:
        return Store(self.memory, self._place(row, column), value)

    def _place(self, row: Scalar, column: Scalar) -> Position:
        return (*self.at, *((column, row) if self.turned else (row, column)))


class Columns(NamedTuple):
    """Right-hand sides in memory, which become solutions in place.

    Parameters
    ----------
    memory : Buffer
    at : tuple of Scalar
        Where in memory the rows of this matrix begin.
    column : Scalar
        The index of a loop over the columns.
    apart : bool
        Whether that loop is around all that is done, so that each column is one thread's.
    """

    memory: Buffer
    at: Position
    column: Scalar
    apart: bool

    @property
    def extent(self) -> int:
        return int(self.column.attribute[2])

    def load(self, row: Scalar, column: Scalar) -> Scalar:
        return load(self.memory, (*self.at, row, column))

    def store(self, row: Scalar, column: Scalar, value: Scalar) -> Store:
        return Store(self.memory, (*self.at, row, column), value)
