"""Unrolled linear algebra on small matrices: one expression for each element of the result.

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

from functrans.loop.functions import function_of
from functrans.loop.nodes import INDEX
from functrans.loop.scalar import Scalar, const, ne, where
from functrans.loop.statements import Buffer, load
from functrans.ops.compiled.emission import Element, Emission, Position
from functrans.ops.elementwise.exponential import log
from functrans.ops.linalg.compiled import elimination
from functrans.ops.linalg.compiled.elimination import Factors, Row, Rows
from functrans.ops.linalg.matrices import Matrices

Elements = Iterator[tuple[tuple[int, ...], Scalar]]
"""The elements of a matrix, or of a number, by their indices."""

Solver = Callable[[Row], Row]


def inv(at: Emission) -> None:
    """The inverse matrices."""
    _by_rows(at, lambda rows: _enumerated(elimination.inverse(rows)))


def cholesky(at: Emission) -> None:
    """The lower triangular factors."""
    _by_rows(at, lambda rows: _enumerated(elimination.cholesky(rows)))


def det(at: Emission) -> None:
    """The determinants."""
    dtype = at.eqn.outputs[0].aval.dtype

    def determinant(rows: Rows) -> Scalar:
        return elimination.determinant(rows) if rows else const(1, dtype)

    _by_rows(at, lambda rows: iter([((), determinant(rows))]))


def slogdet(at: Emission) -> None:
    """The signs of determinants, and the logarithms of their absolute values."""
    dtype = at.eqn.outputs[0].aval.dtype

    def both(rows: Rows) -> tuple[Scalar, Scalar]:
        if not rows:
            return const(1, dtype), const(0, dtype)
        sign, pivots = elimination.sign_and_pivots(rows)
        return sign, reduce(add, map(logarithm, pivots))

    _by_rows(at, lambda rows: iter([((), both(rows)[0])]), lambda rows: iter([((), both(rows)[1])]))


def solve(at: Emission) -> None:
    """Solutions by elimination with partial pivoting."""
    writer = _Writer(at)
    solution = (
        elimination.solution_of_transposed if at.eqn.params["transpose_a"] else elimination.solution
    )
    if writer.columns_fit():
        writer.solutions(lambda rows: partial(solution, _factors(rows)))
        return
    *leading, column = at.loops([*writer.leading, writer.columns])
    kept = at.scratch("factors", writer.dtype, (*writer.leading, 2, writer.n, writer.n))
    writer.compute(kept, lambda position: _packed(writer.rows(position)))
    writer.column(column, leading, partial(solution, _unpacked(kept, tuple(leading), writer.n)))


def triangular_solve(at: Emission) -> None:
    """Solutions by substitution."""
    params = at.eqn.params
    lower = params["lower"] != params["transpose_a"]

    def solver(rows: Rows) -> Solver:
        if params["unit_diagonal"]:
            rows = elimination.with_unit_diagonal(rows)
        if params["transpose_a"]:
            rows = elimination.transposed(rows)
        return partial(elimination.triangular_solution, rows, lower=lower)

    writer = _Writer(at)
    if writer.columns_fit():
        writer.solutions(solver)
        return
    *leading, column = at.loops([*writer.leading, writer.columns])
    writer.column(column, leading, solver(writer.rows(tuple(leading))))


def _by_rows(at: Emission, *makers: Callable[[Rows], Elements]) -> None:
    """Each result from the rows of the one operand."""
    writer = _Writer(at)
    for number, make in enumerate(makers):
        writer.compute(at.result(number), partial(_of_rows, make, writer))


def _of_rows(make: Callable[[Rows], Elements], writer: _Writer, position: Position) -> Elements:
    return make(writer.rows(position))


class _Writer:
    """Writes out values that are made of small matrices."""

    def __init__(self, at: Emission) -> None:
        *leading, _, self.n = at.eqn.inputs[0].aval.shape
        self.at = at
        self.leading = tuple(leading)
        self.columns = at.eqn.inputs[-1].aval.shape[-1]
        self.dtype = at.eqn.outputs[0].aval.dtype
        self.operands = [at.operand(number) for number in range(len(at.eqn.inputs))]

    def rows(self, position: Position) -> Rows:
        """The matrix at an index of the leading axes."""
        n = range(self.n)
        return [[load(self.operands[0], (*position, *_constants((i, j)))) for j in n] for i in n]

    def right_side(self, position: Position, column: Scalar) -> Row:
        """A column of the right-hand side."""
        return [load(self.operands[1], (*position, const(i, INDEX), column)) for i in range(self.n)]

    def columns_fit(self) -> bool:
        """Whether all columns of the right-hand side are written out."""
        return self.n * self.columns <= self.at.target[Matrices].most_elements

    def compute(self, target: Buffer, make: Callable[[Position], Elements]) -> None:
        """A value that is made of the matrices at each index of the leading axes."""
        work = self.n**2 * max(self.n, self.columns)
        if prod(self.leading) * work <= self.at.target[Matrices].most_multiplications:
            indices: Position = ()
            positions = [_constants(indices) for indices in product(*map(range, self.leading))]
        else:
            indices = self.at.loops(self.leading)
            positions = [indices]
        elements = [
            Element((*position, *_constants(inner)), self.at.simplify(value))
            for position in positions
            for inner, value in make(position)
        ]
        self.at.compute(target, indices, range(len(indices)), elements)

    def solutions(self, solver: Callable[[Rows], Solver]) -> None:
        """All columns of the solution, written out."""

        def make(position: Position) -> Elements:
            solve = solver(self.rows(position))
            columns = [
                solve(self.right_side(position, const(j, INDEX))) for j in range(self.columns)
            ]
            return _enumerated(elimination.transposed(columns))

        self.compute(self.at.result(), make)

    def column(self, column: Scalar, leading: Sequence[Scalar], solve: Solver) -> None:
        """The solutions in a loop over columns."""
        position = tuple(leading)
        elements = [
            Element((*position, const(i, INDEX), column), self.at.simplify(x))
            for i, x in enumerate(solve(self.right_side(position, column)))
        ]
        axes = (*range(len(position)), len(position) + 1)
        self.at.compute(self.at.result(), (*position, column), axes, elements)


def logarithm(x: Scalar) -> Scalar:
    """The natural logarithm, as the primitive has it."""
    function = function_of(log, (x.dtype,), ())
    assert function is not None
    return function((x,))


def _factors(rows: Rows) -> Factors:
    return elimination.invertible(elimination.factors(rows))


def _packed(rows: Rows) -> Elements:
    """The factors of a matrix as numbers: the triangles, and 1 for rows that were exchanged."""
    found = _factors(rows)
    for (i, j), value in _enumerated(found.upper):
        yield (0, i, j), value
    for (k, i), swap in found.swaps.items():
        yield (1, k, i), where(swap, const(1, rows[0][0].dtype), 0)


def _unpacked(kept: Buffer, at: Position, n: int) -> Factors:
    def element(*position: int) -> Scalar:
        return load(kept, (*at, *_constants(position)))

    upper = [[element(0, i, j) for j in range(n)] for i in range(n)]
    swaps = {(k, i): ne(element(1, k, i), 0) for k in range(n) for i in range(k + 1, n)}
    return Factors(upper, swaps)


def _enumerated(rows: Rows) -> Elements:
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            yield (i, j), value


def _constants(position: Sequence[int]) -> Position:
    return tuple(const(i, INDEX) for i in position)
