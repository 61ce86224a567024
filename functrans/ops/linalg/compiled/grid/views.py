"""Views of matrices in a team's memory: triangles, transposes, columns of right-hand sides."""

from __future__ import annotations

from collections.abc import Callable

from functrans.loop.scalar import Scalar
from functrans.loop.statements import Buffer, Store, load
from functrans.ops.compiled.emission import Position
from functrans.records import NamedTuple


class Triangle(NamedTuple):
    """A triangular matrix, whose other triangle is not read."""

    element: Callable[[Scalar, Scalar], Scalar]  # the element at a row and a column
    lower: bool
    unit_diagonal: bool  # whether the diagonal consists of ones, and is not read


class View(NamedTuple):
    """A matrix in memory, or its transpose."""

    memory: Buffer
    at: Position = ()  # where in memory its rows begin
    turned: bool = False  # whether it is transposed

    def load(self, row: Scalar, column: Scalar) -> Scalar:
        return load(self.memory, self._place(row, column))

    def store(self, row: Scalar, column: Scalar, value: Scalar) -> Store:
        return Store(self.memory, self._place(row, column), value)

    def _place(self, row: Scalar, column: Scalar) -> Position:
        return (*self.at, *((column, row) if self.turned else (row, column)))


class Columns(NamedTuple):
    """Right-hand sides in memory, which are overwritten with solutions."""

    memory: Buffer
    at: Position  # the position of the matrix's rows in memory
    column: Scalar  # the index of a loop over the columns
    apart: bool  # whether that loop is outermost, so that each thread solves one column

    @property
    def extent(self) -> int:
        return int(self.column.attribute[2])

    def load(self, row: Scalar, column: Scalar) -> Scalar:
        return load(self.memory, (*self.at, row, column))

    def store(self, row: Scalar, column: Scalar, value: Scalar) -> Store:
        return Store(self.memory, (*self.at, row, column), value)
