"""Unrolled linear algebra on small matrices: one expression for each element of the result.

A matrix is a list of rows, each a list of Scalars: Gaussian elimination with partial pivoting,
Cholesky factors, substitution. Rows are exchanged by selects, not by branches. The leading axes are
loops, which can be fused with those of the producers and consumers of the matrices, and vectorised.
LAPACK computes larger matrices (`functrans.ops.linalg.compiled.lapack`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from itertools import product
from math import prod
from operator import add, and_

import numpy as np

from functrans.loop.failures import NOT_CONVERGED, NOT_POSITIVE_DEFINITE, SINGULAR
from functrans.loop.functions import function_of
from functrans.loop.nodes import INDEX, required
from functrans.loop.scalar import BOOL, Scalar, const, fma, ne, sqrt, where, zero
from functrans.loop.statements import Buffer, load
from functrans.ops.compiled.emission import Element, Emission, Position
from functrans.ops.elementwise.exponential import log
from functrans.ops.linalg.matrices import Matrices
from functrans.records import NamedTuple

Row = list[Scalar]
Rows = list[Row]

Elements = Iterator[tuple[tuple[int, ...], Scalar]]
"""The elements of a matrix, or of a number, by their indices."""

Solver = Callable[[Row], Row]


# -- the rules -------------------------------------------------------------------------------------


def inv(at: Emission) -> None:
    """The inverse matrices."""
    _by_rows(at, lambda rows: _enumerated(inverse(rows)))


def cholesky(at: Emission) -> None:
    """The lower triangular factors."""
    _by_rows(at, lambda rows: _enumerated(cholesky_factor(rows)))


def det(at: Emission) -> None:
    """The determinants."""
    one = const(1, at.eqn.outputs[0].aval.dtype)
    _by_rows(at, lambda rows: iter([((), determinant(rows) if rows else one)]))


def cofactor(at: Emission) -> None:
    """The cofactors."""
    _by_rows(at, lambda rows: _enumerated(cofactors(rows)))


def slogdet(at: Emission) -> None:
    """The signs of determinants, and the logarithms of their absolute values."""
    dtype = at.eqn.outputs[0].aval.dtype

    def both(rows: Rows) -> tuple[Scalar, Scalar]:
        if not rows:
            return const(1, dtype), const(0, dtype)
        sign, pivots = sign_and_pivots(rows)
        return sign, reduce(add, map(logarithm, pivots))

    _by_rows(at, lambda rows: iter([((), both(rows)[0])]), lambda rows: iter([((), both(rows)[1])]))


def solve(at: Emission) -> None:
    """Solutions by elimination with partial pivoting."""
    writer = _Writer(at)
    solve = solution_of_transposed if at.eqn.params["transpose_a"] else solution
    if writer.columns_fit():
        writer.solutions(lambda rows: partial(solve, _factors(rows)))
        return
    *leading, column = at.loops([*writer.leading, writer.columns])
    kept = at.scratch("factors", writer.dtype, (*writer.leading, 2, writer.n, writer.n))
    writer.compute(kept, lambda position: _packed(writer.rows(position)))
    writer.column(column, leading, partial(solve, _unpacked(kept, tuple(leading), writer.n)))


def triangular_solve(at: Emission) -> None:
    """Solutions by substitution."""
    params = at.eqn.params
    lower = params["lower"] != params["transpose_a"]

    def solver(rows: Rows) -> Solver:
        if params["unit_diagonal"]:
            rows = with_unit_diagonal(rows)
        if params["transpose_a"]:
            rows = transposed(rows)
        return partial(triangular_solution, rows, lower=lower)

    writer = _Writer(at)
    if writer.columns_fit():
        writer.solutions(solver)
        return
    *leading, column = at.loops([*writer.leading, writer.columns])
    writer.column(column, leading, solver(writer.rows(tuple(leading))))


def _by_rows(at: Emission, *makers: Callable[[Rows], Elements]) -> None:
    """Compute each result from the rows of the only operand."""
    writer = _Writer(at)
    for number, make in enumerate(makers):
        writer.compute(at.result(number), partial(_of_rows, make, writer))


def _of_rows(make: Callable[[Rows], Elements], writer: _Writer, position: Position) -> Elements:
    return make(writer.rows(position))


class _Writer:
    """Unrolls values computed from small matrices."""

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
        """Whether all columns of the right-hand side are unrolled."""
        return self.n * self.columns <= self.at.target[Matrices].most_elements

    def compute(self, target: Buffer, make: Callable[[Position], Elements]) -> None:
        """Compute a value from the matrices at each index of the leading axes."""
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
        """All columns of the solution, unrolled."""

        def make(position: Position) -> Elements:
            solve = solver(self.rows(position))
            columns = [
                solve(self.right_side(position, const(j, INDEX))) for j in range(self.columns)
            ]
            return _enumerated(transposed(columns))

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
    """The natural logarithm, as in the primitive."""
    function = function_of(log, (x.dtype,), ())
    assert function is not None
    return function((x,))


def _factors(rows: Rows) -> Factors:
    return invertible(factors(rows))


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


# -- the elements ----------------------------------------------------------------------------------


class Factors(NamedTuple):
    """Elimination with partial pivoting: factors and pivots of a matrix."""

    # the upper triangular factor; below its diagonal, the multipliers of the elimination
    upper: Rows
    # before step ``k``, rows ``k`` and ``i`` changed places if ``swaps[k, i]`` holds: for one ``i >
    # k`` after the other, so that the largest element comes to the diagonal
    swaps: dict[tuple[int, int], Scalar]

    @property
    def pivots(self) -> Row:
        """The elements on the diagonal, whose product is the determinant up to its sign."""
        return [row[k] for k, row in enumerate(self.upper)]

    @property
    def sign(self) -> Scalar:
        """1, or -1 for an odd number of row exchanges."""
        dtype = self.upper[0][0].dtype
        signs = [where(swap, const(-1, dtype), 1) for swap in self.swaps.values()]
        return prod(signs, start=const(1, dtype))

    @property
    def regular(self) -> Scalar:
        """Whether the matrix is not singular."""
        return _all([ne(pivot, 0) for pivot in self.pivots])


def factors(matrix: Rows) -> Factors:
    """Gaussian elimination with partial pivoting."""
    upper = [list(row) for row in matrix]
    n = len(upper)
    swaps: dict[tuple[int, int], Scalar] = {}
    for k in range(n):
        for i in range(k + 1, n):
            swap = swaps[k, i] = abs(upper[i][k]) > abs(upper[k][k])
            for j in range(k, n):
                upper[k][j], upper[i][j] = _exchanged(swap, upper[k][j], upper[i][j])
        for i in range(k + 1, n):
            part = upper[i][k] = upper[i][k] / upper[k][k]
            for j in range(k + 1, n):
                upper[i][j] = upper[i][j] - part * upper[k][j]
    return Factors(upper, swaps)


def invertible(found: Factors) -> Factors:
    """The factors, with a failure if the matrix is singular."""
    upper = [list(row) for row in found.upper]
    # every solution divides by the last pivot
    upper[-1][-1] = required(found.regular, upper[-1][-1], SINGULAR)
    return Factors(upper, found.swaps)


def solution(found: Factors, column: Sequence[Scalar]) -> Row:
    """The solution of a system with the matrix, for a given column."""
    x = list(column)
    n = len(x)
    for k in range(n):
        for i in range(k + 1, n):
            x[k], x[i] = _exchanged(found.swaps[k, i], x[k], x[i])
        for i in range(k + 1, n):
            x[i] = x[i] - found.upper[i][k] * x[k]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            x[i] = x[i] - found.upper[i][j] * x[j]
        x[i] = x[i] / found.upper[i][i]
    return x


def solution_of_transposed(found: Factors, column: Sequence[Scalar]) -> Row:
    """The solution of a system with the transposed matrix, for a given column."""
    x = list(column)
    n = len(x)
    for i in range(n):
        for j in range(i):
            x[i] = x[i] - found.upper[j][i] * x[j]
        x[i] = x[i] / found.upper[i][i]
    for k in reversed(range(n)):
        for i in range(k + 1, n):
            x[k] = x[k] - found.upper[i][k] * x[i]
        for i in reversed(range(k + 1, n)):
            x[k], x[i] = _exchanged(found.swaps[k, i], x[k], x[i])
    return x


def inverse(matrix: Rows) -> Rows:
    """The inverse of a matrix."""
    found = invertible(factors(matrix))
    n, dtype = len(matrix), matrix[0][0].dtype
    columns = [
        solution(found, [const(1, dtype) if i == j else zero(dtype) for i in range(n)])
        for j in range(n)
    ]
    return transposed(columns)


def triangular_solution(matrix: Rows, column: Sequence[Scalar], *, lower: bool) -> Row:
    """The solution of a triangular system, of which the other half is not read, for a column."""
    n = len(matrix)
    diagonal = _all([ne(matrix[i][i], 0) for i in range(n)])
    x = list(column)
    for i in range(n) if lower else reversed(range(n)):
        for j in range(i) if lower else range(i + 1, n):
            x[i] = x[i] - matrix[i][j] * x[j]
        x[i] = x[i] / matrix[i][i]
    first = 0 if lower else n - 1
    x[first] = required(diagonal, x[first], SINGULAR)
    return x


def with_unit_diagonal(matrix: Rows) -> Rows:
    """The matrix with ones on its diagonal."""
    n = range(len(matrix))
    return [[const(1, matrix[i][j].dtype) if i == j else matrix[i][j] for j in n] for i in n]


def cholesky_factor(matrix: Rows) -> Rows:
    """The lower triangular factor; only the lower triangle is read."""
    n, dtype = len(matrix), matrix[0][0].dtype
    factor = [[zero(dtype)] * n for _ in range(n)]
    positive: list[Scalar] = []
    for j in range(n):
        square = matrix[j][j]
        for k in range(j):
            square = square - factor[j][k] * factor[j][k]
        # NaN is not a failure, as in LAPACK
        positive.append(~(square <= 0))
        factor[j][j] = sqrt(square)
        for i in range(j + 1, n):
            x = matrix[i][j]
            for k in range(j):
                x = x - factor[i][k] * factor[j][k]
            factor[i][j] = x / factor[j][j]
    factor[-1][-1] = required(_all(positive), factor[-1][-1], NOT_POSITIVE_DEFINITE)
    return factor


def determinant(matrix: Rows) -> Scalar:
    """The determinant: a polynomial for up to three rows, without division; else by elimination."""
    if len(matrix) == 1:
        return matrix[0][0]
    if len(matrix) == 2:
        return _minor(*matrix)
    if len(matrix) == 3:
        first, (a, b, c), (d, e, f) = matrix
        minors = _minor([b, c], [e, f]), _minor([c, a], [f, d]), _minor([a, b], [d, e])
        terms = [x * minor for x, minor in zip(first, minors, strict=True)]
        return terms[0] + terms[1] + terms[2]
    found = factors(matrix)
    return where(found.regular, prod(found.pivots, start=found.sign), 0)


def cofactors(matrix: Rows) -> Rows:
    """Cofactors by minors, for up to four rows: each further row would lose more digits."""
    n = range(len(matrix))

    def cofactor(i: int, j: int) -> Scalar:
        left = [row[:j] + row[j + 1 :] for number, row in enumerate(matrix) if number != i]
        minor = determinant(left) if left else const(1, matrix[i][j].dtype)
        return -minor if (i + j) % 2 else minor

    found = [[cofactor(i, j) for j in n] for i in n]
    # other matrices fail, as larger ones do, which have no singular values then
    finite = _all([abs(x) < np.inf for row in matrix for x in row])
    found[-1][-1] = required(finite, found[-1][-1], NOT_CONVERGED)
    return found


def sign_and_pivots(matrix: Rows) -> tuple[Scalar, Row]:
    """The sign of the determinant (0 for a singular matrix), and factors of its absolute value."""
    found = factors(matrix)
    dtype = found.sign.dtype
    signs = [where(pivot < 0, const(-1, dtype), 1) for pivot in found.pivots]
    sign = where(found.regular, prod(signs, start=found.sign), 0)
    return sign, [where(found.regular, abs(pivot), 0) for pivot in found.pivots]


def _minor(first: Sequence[Scalar], second: Sequence[Scalar]) -> Scalar:
    """``a d - b c``, almost correctly rounded (Kahan): exactly 0 where the products are equal."""
    (a, b), (c, d) = first, second
    product = b * c
    error = fma(-b, c, product)
    # where a product is infinite, there is no rounding error
    return where(abs(error) < np.inf, fma(a, d, -product) + error, a * d - product)


def _exchanged(swap: Scalar, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """Two numbers, exchanged if a condition holds."""
    return where(swap, y, x), where(swap, x, y)


def transposed(rows: Rows) -> Rows:
    """The transposed matrix."""
    return [list(column) for column in zip(*rows, strict=True)]


def _all(conditions: Sequence[Scalar]) -> Scalar:
    return reduce(and_, conditions, const(True, BOOL))
