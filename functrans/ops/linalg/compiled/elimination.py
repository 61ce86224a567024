"""Gaussian elimination and Cholesky factors of small matrices, unrolled: expressions of elements.

A matrix is a list of rows, each a list of Scalars. Rows change places by selecting and not by
branching, so many matrices can be done side by side in the lanes of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from operator import and_
from typing import NamedTuple

from functrans.loop.failures import NOT_POSITIVE_DEFINITE, SINGULAR
from functrans.loop.nodes import required
from functrans.loop.scalar import BOOL, Scalar, const, eq, fma, ne, sqrt, where
from functrans.loop.simplify import zero

Row = list[Scalar]
Rows = list[Row]


class Factors(NamedTuple):
    """What elimination with partial pivoting makes of a matrix.

    Parameters
    ----------
    upper : list of list of Scalar
        The upper triangle that is left; below it, how much of a row was subtracted from another.
    swaps : dict
        Before step ``k``, rows ``k`` and ``i`` changed places if ``swaps[k, i]`` holds: for one
        ``i > k`` after the other, so that the largest element comes to the diagonal.
    """

    upper: Rows
    swaps: dict[tuple[int, int], Scalar]

    @property
    def pivots(self) -> Row:
        """The elements on the diagonal, whose product is the determinant up to its sign."""
        return [row[k] for k, row in enumerate(self.upper)]

    @property
    def sign(self) -> Scalar:
        """1, or -1 if an odd number of rows changed places."""
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
    """The factors, whose use fails if the matrix is singular."""
    upper = [list(row) for row in found.upper]
    # every solution divides by the last pivot
    upper[-1][-1] = required(found.regular, upper[-1][-1], SINGULAR)
    return Factors(upper, found.swaps)


def solution(found: Factors, column: Sequence[Scalar]) -> Row:
    """What the matrix takes to the given column."""
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
    """What the transposed matrix takes to the given column."""
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
    """What a triangular matrix, of which the other half is not read, takes to a column."""
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


def cholesky(matrix: Rows) -> Rows:
    """The lower triangular factor; only the lower triangle is read."""
    n, dtype = len(matrix), matrix[0][0].dtype
    factor = [[zero(dtype)] * n for _ in range(n)]
    positive: list[Scalar] = []
    for j in range(n):
        square = matrix[j][j]
        for k in range(j):
            square = square - factor[j][k] * factor[j][k]
        # a NaN is let through, as LAPACK does
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
    """Up to three rows a polynomial, so that no pivot is divided by; else by elimination."""
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


def sign_and_pivots(matrix: Rows) -> tuple[Scalar, Row]:
    """The sign of the determinant (0 for a singular matrix), and the numbers it is a product of."""
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
    # infinities have no error
    return fma(a, d, -product) + where(eq(error, error), error, 0)


def _exchanged(swap: Scalar, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """Two numbers, the other way round if a condition holds."""
    return where(swap, y, x), where(swap, x, y)


def transposed(rows: Rows) -> Rows:
    """Columns become rows."""
    return [list(column) for column in zip(*rows, strict=True)]


def _all(conditions: Sequence[Scalar]) -> Scalar:
    return reduce(and_, conditions, const(True, BOOL))
