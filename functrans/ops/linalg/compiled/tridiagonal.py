"""Householder tridiagonalisation of small symmetric matrices across vector lanes.

After G. H. Golub and C. F. Van Loan, "Matrix Computations" (2013), chapter 8.3.1, in the order of
LAPACK's `sytd2` and `orgtr`, which determines signs: reflections annihilate what is below the
subdiagonal, column by column. An upper triangle is processed with rows and columns in reverse
order. Matrices are scaled to size 1 by powers of two.
"""

from __future__ import annotations

from functrans.loop.failures import EIGENVALUES_NOT_CONVERGED
from functrans.loop.nodes import index
from functrans.loop.scalar import Scalar, const, copysign, fma, sqrt, where
from functrans.loop.statements import For
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import let
from functrans.ops.linalg.compiled.blas import DOUBLE
from functrans.ops.linalg.compiled.interleaved import Interleaved
from functrans.ops.linalg.compiled.scaling import Scale

ONE = const(1, DOUBLE)
NOTHING = const(0, DOUBLE)


class Tridiagonal(Interleaved):
    """The statements that make the matrices of a group tridiagonal."""

    def __init__(self, at: Emission) -> None:
        super().__init__(at)
        self.n = self.rows
        self.lower = at.eqn.params["lower"]
        self.a = self.memory("a", self.n, self.n)
        """The lower triangles, then the vectors of reflections, then the orthogonal matrices."""
        self.diagonal, self.beside = self.memory("diagonal", self.n), self.memory("beside", self.n)
        self.factors, self.products = (self.memory(x, self.n) for x in ("factors", "products"))
        self.power = self.memory("power")
        """The factor of eigenvalues; NaN if a matrix has an infinity."""

    def line(self, i: Scalar) -> Scalar:
        """The row of the given matrices that is processed as a row."""
        return i if self.lower else self._number(self.n - 1 - i)

    def tridiagonalised(self) -> Body:
        """Compute the diagonals, and the subdiagonals with a zero at the end."""
        i, last = index("i", self.n), self.n - 1
        return (
            self._packed(),
            self.in_lanes(*self._scaled()),
            self.loop(i, 0, last, self.in_lanes(*self._reflected(i))),
            self.in_lanes(
                self.store(self.diagonal, self.of(self.a, last, last), last),
                self.store(self.beside, NOTHING, last),
            ),
        )

    def _packed(self) -> For:
        i, j = index("i", self.n), index("j", self.n)
        store = self.copied(self.a, i, j, self.line(i), self.line(j))
        return self.in_turn(self.loop(i, 0, self.n, self.loop(j, 0, i + 1, store)))

    def _scaled(self) -> Body:
        if self.n == 1:
            return (self.store(self.power, ONE),)
        # LAPACK takes no steps for two rows, so NaN is no failure there
        status = EIGENVALUES_NOT_CONVERGED if self.n > 2 else 0
        return self.scaled(self.a, self.n, lambda i: i + 1, self.power, status)

    def _reflected(self, i: Scalar) -> Body:
        """Reflect the later rows and columns, so that column ``i`` is 0 below the subdiagonal."""
        n, a, products = self.n, self.a, self.products
        k, r, c, b = (index(label, n) for label in "krcb")
        alpha = self.of(a, i + 1, i)
        largest, over = self.folded("max", abs(self.of(a, k, i)), k, i + 1, n)
        scale = Scale.of(largest)
        (first, factor), scaled = let(alpha * scale.reciprocal, scale.reciprocal)
        x = self.of(a, k, i) * factor
        squares, summed = self.folded("add", x * x, k, i + 2, n)
        turns = squares > 0
        length = sqrt(fma(first, first, squares))
        (beta,), reflected = let(where(turns, -copysign(length, first), ONE))
        (tau, divided, made), named = let(
            where(turns, (beta - first) / beta, 0),
            where(turns, factor / (first - beta), 0),
            where(turns, beta * scale.power, alpha),
        )
        v, w = self.of(a, k, i), self.of(products, k)
        left, multiplied = self.folded("add", self.of(a, r, c) * self.of(a, c, i), c, i + 1, r + 1)
        right, also = self.folded("add", self.of(a, b, r) * self.of(a, b, i), b, r + 1, n)
        inner, along = self.folded("add", w * v, k, i + 1, n)
        (half,), halved = let(tau * inner * -0.5)
        (own_v, own_w), loaded = let(self.of(a, r, i), self.of(products, r))
        changed = fma(-own_v, self.of(products, c), fma(-own_w, self.of(a, c, i), self.of(a, r, c)))
        return (
            over, scaled, summed, reflected, named,
            self.store(self.diagonal, self.of(a, i, i), i),
            self.store(self.beside, made, i),
            self.store(self.factors, tau, i),
            self.store(a, ONE, i + 1, i),
            self.loop(k, i + 2, n, self.store(a, v * divided, k, i)),
            self.loop(
                r, i + 1, n, multiplied, also, self.store(products, tau * (left + right), r)
            ),
            along, halved,
            self.loop(k, i + 1, n, self.store(products, fma(half, v, w), k)),
            self.loop(
                r, i + 1, n, loaded, self.loop(c, i + 1, r + 1, self.store(a, changed, r, c))
            ),
        )  # fmt: skip

    def orthogonal(self) -> Body:
        """Compute the product of all reflections, from the last one on, in place of the vectors."""
        n, a = self.n, self.a
        t, r, c, k = (index(label, n) for label in "trck")
        i = n - 2 - t
        inner, summed = self.folded("add", self.of(a, r, i) * self.of(a, r, c), r, i + 2, n)
        (tau,), loaded = let(self.of(self.factors, i))
        (along,), named = let(-tau * inner)
        column = (
            summed,
            named,
            self.store(a, along, i + 1, c),
            self.loop(
                k, i + 2, n, self.store(a, fma(along, self.of(a, k, i), self.of(a, k, c)), k, c)
            ),
        )
        step = (
            loaded,
            self.loop(c, i + 2, n, *column),
            self.store(a, 1 - tau, i + 1, i + 1),
            self.loop(k, i + 2, n, self.store(a, -tau * self.of(a, k, i), k, i + 1)),
        )
        edges = self.store(a, NOTHING, 0, k), self.store(a, NOTHING, k, 0)
        return (
            self.loop(t, 0, n - 1, self.in_lanes(*step)),
            self.in_lanes(self.store(a, ONE, 0, 0), self.loop(k, 1, n, *edges)),
        )
