"""Equations about small matrices, written out: one expression for each element of the result.

The leading axes are loops, which fuse with those of what makes the matrices and of what uses them,
and whose iterations are done in the lanes of vectors. Larger matrices are LAPACK's
(`functrans.ops.linalg.compiled.lapack`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from itertools import product
from math import prod
from operator import add
from typing import NamedTuple

import numpy as np

from functrans.ir.graph import Eqn
from functrans.ir.primitive import registry
from functrans.loop.functions import function_of
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, const, ne, where
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, buffer, load
from functrans.ops.linalg.compiled import elimination
from functrans.ops.linalg.compiled.elimination import Factors, Row, Rows

SOLVERS = frozenset({"solve", "triangular_solve"})
MATRICES = SOLVERS | {"inv", "cholesky", "det", "slogdet", "cofactor"}

LARGEST_WRITTEN_OUT = {"inv": 6, "cofactor": 0}
"""Matrices with more rows than this, by the primitive, are LAPACK's."""

USUALLY_LARGEST = 8
"""The same, for all others: a stack of them takes a fifth of LAPACK's time."""

MOST_ELEMENTS = 64
"""The columns of a right-hand side with more elements than this are done in a loop."""

MOST_MULTIPLICATIONS = 64
"""Leading axes are written out, too, if so many multiplications do it all."""

Position = tuple[Scalar, ...]

Loops = Callable[[Sequence[int]], Position]
"""Gives the indices of loops of some extents."""

Elements = Iterator[tuple[tuple[int, ...], Scalar]]
"""The elements of a matrix, or of a number, by their indices."""

Solver = Callable[[Row], Row]


class Written(NamedTuple):
    """A value and how its elements are made.

    Parameters
    ----------
    target : Buffer
    loops : tuple of Scalar
    axes : tuple of int
        Which axes of the target the loops go along; the others are written out.
    elements : tuple of (indices, expression)
    """

    target: Buffer
    loops: Position
    axes: tuple[int, ...]
    elements: tuple[tuple[Position, Scalar], ...]


def is_matrices(eqn: Eqn) -> bool:
    """Whether an equation is one of linear algebra that has a compiled form."""
    return eqn.primitive.name in MATRICES and eqn.outputs[0].aval.dtype in (np.float32, np.float64)


def by_elements(eqn: Eqn) -> bool:
    """Whether the matrices are small enough to be written out."""
    largest = LARGEST_WRITTEN_OUT.get(eqn.primitive.name, USUALLY_LARGEST)
    return eqn.inputs[0].aval.shape[-1] <= largest


def written_out(
    eqn: Eqn, operands: Sequence[Buffer], targets: Sequence[Buffer], loops: Loops
) -> list[Written]:
    """How the results of an equation are computed into buffers, each after those that it reads."""
    if any(0 in x.aval.shape for x in eqn.outputs):
        return []
    return _Writer(eqn, operands, loops).values(targets)


class _Writer:
    def __init__(self, eqn: Eqn, operands: Sequence[Buffer], loops: Loops) -> None:
        *leading, _, self.n = eqn.inputs[0].aval.shape
        self.leading = tuple(leading)
        self.name = eqn.primitive.name
        self.params = eqn.params
        self.columns = eqn.inputs[-1].aval.shape[-1]
        self.operands = operands
        self.loops = loops
        self.simplify = Simplifier()

    def values(self, targets: Sequence[Buffer]) -> list[Written]:
        """All results."""
        if self.name in SOLVERS and self.n * self.columns > MOST_ELEMENTS:
            return self._column_by_column(targets[0])
        return [
            self._written(target, partial(self._result, number))
            for number, target in enumerate(targets)
        ]

    def _written(self, target: Buffer, make: Callable[[Position], Elements]) -> Written:
        """A value that is made of the matrices at each index of the leading axes."""
        work = self.n**2 * max(self.n, self.columns)
        if prod(self.leading) * work <= MOST_MULTIPLICATIONS:
            indices: Position = ()
            positions = [_position(at) for at in product(*map(range, self.leading))]
        else:
            indices = self.loops(self.leading)
            positions = [indices]
        elements = [
            ((*at, *_position(inner)), self.simplify(value))
            for at in positions
            for inner, value in make(at)
        ]
        return Written(target, indices, tuple(range(len(indices))), tuple(elements))

    def _result(self, number: int, at: Position) -> Elements:
        """The elements of a result at an index of the leading axes."""
        rows = self._rows(at)
        match self.name:
            case "inv":
                return _by_place(elimination.inverse(rows))
            case "cholesky":
                return _by_place(elimination.cholesky(rows))
            case "det":
                return iter([((), self._determinant(rows))])
            case "slogdet":
                return iter([((), self._sign_and_logarithm(rows)[number])])
        solve = self._solver(rows)
        columns = [solve(self._column(at, const(j, INDEX))) for j in range(self.columns)]
        return _by_place(elimination.transposed(columns))

    # -- what is read -------------------------------------------------------------------------

    def _rows(self, at: Position) -> Rows:
        """The matrix at an index of the leading axes."""
        n = range(self.n)
        return [[load(self.operands[0], (*at, *_position((i, j)))) for j in n] for i in n]

    def _column(self, at: Position, column: Scalar) -> Row:
        """A column of the right-hand side."""
        return [load(self.operands[1], (*at, const(i, INDEX), column)) for i in range(self.n)]

    # -- determinants -------------------------------------------------------------------------

    def _determinant(self, rows: Rows) -> Scalar:
        return elimination.determinant(rows) if rows else const(1, self.operands[0].dtype)

    def _sign_and_logarithm(self, rows: Rows) -> tuple[Scalar, Scalar]:
        dtype = self.operands[0].dtype
        if not rows:
            return const(1, dtype), const(0, dtype)
        sign, pivots = elimination.sign_and_pivots(rows)
        return sign, reduce(add, map(logarithm, pivots))

    # -- solving ------------------------------------------------------------------------------

    def _solver(self, rows: Rows) -> Solver:
        """A function from a column to the column that the matrix takes to it."""
        if self.name == "solve":
            found = elimination.invertible(elimination.factors(rows))
            return partial(self._solution(), found)
        if self.params["unit_diagonal"]:
            rows = elimination.with_unit_diagonal(rows)
        if self.params["transpose_a"]:
            rows = elimination.transposed(rows)
        lower = self.params["lower"] != self.params["transpose_a"]
        return partial(elimination.triangular_solution, rows, lower=lower)

    def _solution(self) -> Callable[[Factors, Sequence[Scalar]], Row]:
        if self.params["transpose_a"]:
            return elimination.solution_of_transposed
        return elimination.solution

    def _column_by_column(self, target: Buffer) -> list[Written]:
        """The solutions in a loop over columns; before it, what all of them need of the matrix."""
        before: list[Written] = []
        *leading, column = self.loops([*self.leading, self.columns])
        at = tuple(leading)
        if self.name == "solve":
            kept = buffer(
                f"{target.name}_factors", target.dtype, (*self.leading, 2, self.n, self.n)
            )
            before = [self._written(kept, lambda at: _packed(self._rows(at)))]
            solve: Solver = partial(self._solution(), _unpacked(kept, at, self.n))
        else:
            solve = self._solver(self._rows(at))
        solution = solve(self._column(at, column))
        elements = tuple(
            ((*at, const(i, INDEX), column), self.simplify(x)) for i, x in enumerate(solution)
        )
        axes = (*range(len(at)), len(at) + 1)
        return [*before, Written(target, (*at, column), axes, elements)]


def logarithm(x: Scalar) -> Scalar:
    """The natural logarithm, as the primitive has it."""
    function = function_of(registry["log"], (x.dtype,), ())
    assert function is not None
    return function((x,))


def _packed(rows: Rows) -> Elements:
    """The factors of a matrix as numbers: the triangles, and 1 for rows that changed places."""
    found = elimination.invertible(elimination.factors(rows))
    for (i, j), value in _by_place(found.upper):
        yield (0, i, j), value
    for (k, i), swap in found.swaps.items():
        yield (1, k, i), where(swap, const(1, rows[0][0].dtype), 0)


def _unpacked(kept: Buffer, at: Position, n: int) -> Factors:
    def element(*place: int) -> Scalar:
        return load(kept, (*at, *_position(place)))

    upper = [[element(0, i, j) for j in range(n)] for i in range(n)]
    swaps = {(k, i): ne(element(1, k, i), 0) for k in range(n) for i in range(k + 1, n)}
    return Factors(upper, swaps)


def _by_place(rows: Rows) -> Elements:
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            yield (i, j), value


def _position(place: Sequence[int]) -> Position:
    return tuple(const(i, INDEX) for i in place)
