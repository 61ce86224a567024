"""Singular values of small matrices across vector lanes, by one-sided Jacobi rotations.

Rotations make the columns of a matrix orthogonal, pair by pair in the order of rows (Hestenes); the
lengths of the columns are the singular values (Golub and Van Loan, "Matrix Computations" (2013),
chapter 8.6.3). The longer column of a pair becomes the first one (de Rijk, "A one-sided Jacobi
algorithm for computing the singular value decomposition on a vector computer", 1989), which saves
sweeps. All lanes process a pair at the same time, until no lane has rotated any pair.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.failures import NOT_CONVERGED
from functrans.loop.nodes import INDEX, ZERO, as_index, bounded, index
from functrans.loop.scalar import Scalar, const, convert, copysign, fma, sqrt, where
from functrans.loop.statements import Assign, Buffer, For, Let, Store, While, load, local
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import ensure, let
from functrans.ops.linalg.compiled.blas import DOUBLE
from functrans.ops.linalg.compiled.interleaved import Interleaved

SWEEPS = 60
"""The most sweeps over all pairs; six to ten are usual."""

ROUNDING = float(np.finfo(DOUBLE).eps) / 2

SHORT = ROUNDING**6
"""The square of a negligible length: the matrices are of size 1. Each sweep shortens columns that
depend on others by a rounding error, so that without a limit these would take many sweeps."""


def singular_values(at: Emission) -> None:
    """Singular values alone."""
    _Columns(at).emit(at.result())


class _Columns(Interleaved):
    """The statements for a group: a wide matrix is transposed."""

    def __init__(self, at: Emission) -> None:
        super().__init__(at)
        self.n, self.m = sorted((self.rows, self.columns))
        self.a = self.memory("columns", self.n, self.m)
        self.lengths = self.memory("lengths", self.n)
        self.power, self.again = self.memory("power"), self.memory("again", dtype=INDEX)

    def emit(self, values: Buffer) -> None:
        order, ranked = self.ordered(self.lengths, descending=True)
        k, lane = index("k", self.n), self.lane
        place = bounded(load(order, (k, lane)), self.n, "clip")
        value = load(self.lengths, (place, lane)) * load(self.power, (lane,))
        store = Store(values, (*self.at(), k), convert(value, values.dtype))
        body = (
            self._packed(),
            self.in_lanes(
                *self.scaled(self.a, self.n, lambda _: self.m, self.power, NOT_CONVERGED)
            ),
            *self._rotated(),
            self.in_lanes(*self._lengths(), *ranked),
            self.in_turn(self.loop(k, 0, self.n, store), only_given=True),
        )
        self.call(body, uncounted=4 * self.n**2 * self.m)

    def _packed(self) -> For:
        i, j = index("i", self.rows), index("j", self.columns)
        is_wide = self.rows < self.columns
        place = (i, j) if is_wide else (j, i)
        store = self.copied(self.a, *place, i, j)
        return self.in_turn(self.loop(i, 0, self.rows, self.loop(j, 0, self.columns, store)))

    def _rotated(self) -> Body:
        """Sweeps over all pairs of columns."""
        p, q, sweep = index("p", self.n), index("q", self.n), local(INDEX, "sweep")
        again = local(INDEX, "again")
        rotates, any_rotates = self.over_lanes("max", self.of(self.again))
        pairs = self.loop(p, 0, self.n - 1, self.loop(q, p + 1, self.n, *self._pair(p, q, again)))
        well = ~(rotates > 0)
        return (
            Let((sweep,), (ZERO,)),
            self.in_lanes(self.store(self.again, as_index(1))),
            While(
                (any_rotates,),
                (rotates > 0) & (sweep < SWEEPS),
                (
                    self.in_lanes(Let((again,), (ZERO,)), pairs, self.store(self.again, again)),
                    Assign((sweep,), (sweep + 1,)),
                ),
            ),
            any_rotates,
            ensure(well, NOT_CONVERGED),
        )

    def _pair(self, p: Scalar, q: Scalar, again: Scalar) -> Body:
        """Make two columns orthogonal, and the first the longer one."""
        a, k = self.a, index("k", self.m)
        x, y = self.of(a, p, k), self.of(a, q, k)
        (first, second, both), summed = self.all_folded("add", (x * x, y * y, x * y), k, 0, self.m)
        # several times the remaining rounding error, or rotations would never end
        tolerance = 4 * ROUNDING * max(self.m, 4) ** 0.5
        turns = abs(both) > tolerance * (sqrt(first) * sqrt(second))
        turns = turns & (first > SHORT) & (second > SHORT)
        cotangent = (second - first) / where(turns, both + both, 1)
        root = sqrt(fma(cotangent, cotangent, const(1, DOUBLE)))
        tangent = copysign(1 / (abs(cotangent) + root), cotangent)
        (tangent,), named = let(where(turns, tangent, 0))
        cosine = 1 / sqrt(fma(tangent, tangent, const(1, DOUBLE)))
        (cosine, sine), rotation = let(cosine, tangent * cosine)
        swaps = first < second
        (c, d, e, f), chosen = let(
            where(swaps, sine, cosine), where(swaps, cosine, -sine),
            where(swaps, cosine, sine), where(swaps, -sine, cosine),
        )  # fmt: skip
        (x, y), loaded = let(x, y)
        return (
            summed, named, rotation, chosen,
            Assign((again,), (where(turns, as_index(1), again),)),
            self.loop(
                k, 0, self.m, loaded,
                self.store(a, fma(c, x, d * y), p, k), self.store(a, fma(e, x, f * y), q, k),
            ),
        )  # fmt: skip

    def _lengths(self) -> Body:
        j, k = index("j", self.n), index("k", self.m)
        x = self.of(self.a, j, k)
        square, summed = self.folded("add", x * x, k, 0, self.m)
        return (self.loop(j, 0, self.n, summed, self.store(self.lengths, sqrt(square), j)),)
