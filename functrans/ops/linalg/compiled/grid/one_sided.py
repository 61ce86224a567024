"""Singular values by Jacobi's method from one side: on a GPU, a team of threads for each matrix.

First ``A = Q R`` is computed by reflections, with ``A`` transposed if it has more columns than
rows. Then the columns of the transpose of ``R`` are rotated in pairs until all are orthogonal and
equal ``W S``. With the product ``J`` of the rotations, ``A = (Q J) S W^T``. (This order is that of
Drmac and Veselic, "New fast and accurate Jacobi SVD algorithm", 2008: the columns of a triangle are
nearer to orthogonal.) Zero columns, of a matrix without full rank, are replaced by an orthonormal
basis, which reflections compute from the others.
"""

from __future__ import annotations

from functrans.loop.failures import NOT_CONVERGED
from functrans.loop.nodes import INDEX, ZERO, as_index, bounded, guard, index
from functrans.loop.scalar import Scalar, const, eq, maximum, minimum, sqrt, where
from functrans.loop.statements import (
    Assign,
    Buffer,
    For,
    If,
    Let,
    Reduce,
    Store,
    While,
    buffer,
    load,
    local,
)
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import ensure
from functrans.ops.linalg.compiled.grid.householder import Reflections
from functrans.ops.linalg.compiled.grid.rotations import (
    SWEEPS,
    Limits,
    Rotation,
    Tournament,
    rotation,
    scale_of,
    threshold,
)
from functrans.ops.linalg.compiled.grid.views import View
from functrans.ops.linalg.compiled.scaling import Scale

STRETCH = 8
"""The terms of the product of two columns that each thread sums."""


def svd(at: Emission) -> None:
    """Singular values and vectors."""
    _Singular(at).decompose(at.result(1), at.result(0), at.result(2))


def svdvals(at: Emission) -> None:
    """Singular values."""
    _Singular(at).decompose(at.result())


class _Rows:
    """The shared memory of a team.

    ``rows`` has the vectors of reflections, and later the basis that replaces zero columns.
    ``products`` are the rotated columns, ``turned`` is the product of all rotations.
    """

    def __init__(self, team: _Singular, vectors: bool) -> None:
        n, pairs, dtype = team.columns, team.pairing.pairs, team.dtype
        columns = team.pairing.members + 1
        self.rows = team.rows("rows", n)
        self.diagonal, self.scales = team.vectors()
        self.products = buffer("products", dtype, (n, columns))
        self.turned = buffer("turned", dtype, (n, columns)) if vectors else None
        self.sums = buffer("sums", dtype, (3, pairs, team.stretches))
        self.less, self.sines, self.cosines = (
            buffer(name, dtype, (pairs,)) for name in ("less", "sines", "cosines")
        )
        self.lengths = buffer("lengths", dtype, (n,))
        self.ranks, self.order = (buffer(name, INDEX, (n,)) for name in ("ranks", "order"))

    def all(self) -> tuple[Buffer, ...]:
        return tuple(each for each in vars(self).values() if each is not None)


class _Singular(Reflections):
    """The statements for the matrix at an index of the leading axes, or for its transpose."""

    def __init__(self, emission: Emission) -> None:
        m, n = emission.operand(0).extents[-2:]
        super().__init__(emission, (max(m, n), min(m, n)))
        self.wide = m < n
        self.limits = Limits.of(self.dtype)
        self.lanes = emission.target.lanes(1)
        # an odd number of columns is padded with a column of zeros
        self.pairing = Tournament(self.columns + self.columns % 2)
        self.stretches = -(-self.columns // STRETCH)
        self.orthogonal = self.columns**0.5 * self.limits.rounding
        """The cosine up to which columns count as orthogonal."""

    def decompose(self, values: Buffer, u: Buffer | None = None, vh: Buffer | None = None) -> None:
        memory = _Rows(self, vectors=u is not None)
        given, i, j = View(self.a, self.at, self.wide), index("i", self.n), index("j", self.columns)
        scale, measured = scale_of(abs(given.load(i, j)), (i, j), self.lanes)
        k = index("k", self.columns)
        length = load(memory.lengths, (self._place(memory, k),))
        body: Body = (
            *measured,
            self.copied(
                memory.rows, self.columns, lambda i, j: given.load(i, j) * scale.reciprocal
            ),
            self.triangular(memory.rows, memory.diagonal, memory.scales),
            *self._transposed(memory),
            *self._rotated(memory, scale),
            *self._lengths(memory),
            self.shared(k, 0, self.columns, (Store(values, (*self.at, k), length * scale.power),)),
        )
        if u is not None and vh is not None:
            sides = View(u, self.at), View(vh, self.at, turned=True)
            left, right = reversed(sides) if self.wide else sides
            width = vh.extents[-2] if self.wide else u.extents[-1]
            body = (*body, self._left(memory, left, width), *self._right(memory, right))
        self.call(body, memory.all())

    # -- before -------------------------------------------------------------------------------

    def _transposed(self, memory: _Rows) -> Body:
        """Copy the rows of the triangle to the columns that are rotated."""
        n, members = self.columns, self.pairing.members
        i, j = index("i", n), index("j", members)
        zero = const(0, self.dtype)
        on_it = guard(eq(i, j), load(memory.diagonal, (i,)), zero)
        value = guard(j < i, load(memory.rows, (j, i)), on_it)
        stores = [Store(memory.products, (i, j), value)]
        if memory.turned is not None:
            unit = where(eq(i, j), const(1, self.dtype), zero)
            stores.append(Store(memory.turned, (i, j), unit))
        return self.dealt((i, j), tuple(stores))

    # -- rotations ----------------------------------------------------------------------------

    def _rotated(self, memory: _Rows, scale: Scale) -> Body:
        """Sweeps of rotations until all columns are orthogonal."""
        sweep, largest = local(INDEX, "sweep"), local(self.dtype, "largest")
        found, round_ = local(self.dtype, "found"), index("r", self.pairing.rounds)
        least = local(self.dtype, "least")
        rounding = const(self.orthogonal, self.dtype)
        each = index("k", self.pairing.pairs)
        rounds = (
            *self._products(memory, round_),
            self._angles(memory, round_, least),
            *self._turned(memory, round_),
        )
        cosine = load(memory.cosines, (each,))
        loop = (each, ZERO, as_index(self.pairing.pairs))
        # columns slightly above the tolerance have been rotated
        enough = 8 * self.orthogonal
        # comparisons with NaN are false
        well = (largest <= enough) | ~scale.finite
        return (
            Let((sweep, largest), (ZERO, const(1, self.dtype))),
            While(
                (),
                (largest > enough) & (sweep < SWEEPS),
                (
                    Let((least,), (maximum(threshold(sweep, largest), rounding),)),
                    For(round_, ZERO, as_index(self.pairing.rounds), rounds),
                    Reduce((found,), ("max",), (cosine,), (loop,), lanes=self.lanes),
                    Assign((largest, sweep), (found, sweep + 1)),
                ),
            ),
            ensure(well, NOT_CONVERGED),
        )

    def _products(self, memory: _Rows, round_: Scalar) -> Body:
        """The inner products of the columns of each pair, in parts."""
        pair, stretch = index("k", self.pairing.pairs), index("l", self.stretches)
        i = index("i", STRETCH)
        p, q = self.pairing.pair(round_, pair)
        row = stretch * STRETCH + i
        x, y = (load(memory.products, (row, column)) for column in (p, q))
        targets = tuple(local(self.dtype, name) for name in ("first", "second", "both"))
        stop = minimum(self.columns - stretch * STRETCH, const(STRETCH, INDEX))
        sums = Reduce(targets, ("add",) * 3, (x * x, y * y, x * y), ((i, ZERO, stop),))
        stores = (
            Store(memory.sums, (const(number, INDEX), pair, stretch), target)
            for number, target in enumerate(targets)
        )
        return self.dealt((pair, stretch), (sums, *stores))

    def _angles(self, memory: _Rows, round_: Scalar, least: Scalar) -> For:
        """The rotation of each pair; orthogonal columns are kept."""
        pair, stretch = index("k", self.pairing.pairs), index("l", self.stretches)
        targets = tuple(local(self.dtype, name) for name in ("first", "second", "both"))
        parts = tuple(
            load(memory.sums, (const(number, INDEX), pair, stretch)) for number in range(3)
        )
        loop = (stretch, ZERO, as_index(self.stretches))
        first, second, both = targets
        zero = const(0, self.dtype)
        short = minimum(first, second) < self.limits.short**2
        lengths = sqrt(first) * sqrt(second)
        cosine = where(short, zero, abs(both) / where(short, 1, lengths))
        own = local(self.dtype, "cosine")
        made, _ = rotation(first, second, (where(own <= least, zero, both),))
        before = guard(round_ > 0, load(memory.cosines, (pair,)), zero)
        return self.shared(
            pair,
            0,
            self.pairing.pairs,
            (
                Reduce(targets, ("add",) * 3, parts, (loop,)),
                Let((own,), (cosine,)),
                Store(memory.cosines, (pair,), maximum(before, own)),
                Store(memory.less, (pair,), made.less),
                Store(memory.sines, (pair,), made.sine[0]),
            ),
        )

    def _turned(self, memory: _Rows, round_: Scalar) -> Body:
        """Rotate both columns of each pair."""
        pair, row = index("k", self.pairing.pairs), index("i", self.columns)
        p, q = self.pairing.pair(round_, pair)
        made = Rotation(load(memory.less, (pair,)), (load(memory.sines, (pair,)),))
        body: list[Let | Store] = []
        for one in filter(None, (memory.products, memory.turned)):
            values = made((load(one, (row, p)),), (load(one, (row, q)),))
            names = tuple(local(self.dtype, "x") for _ in values)
            body.append(Let(names, tuple(value for (value,) in values)))
            stores = zip((p, q), names, strict=True)
            body += [Store(one, (row, column), name) for column, name in stores]
        return self.dealt((pair, row), tuple(body))

    # -- after --------------------------------------------------------------------------------

    def _lengths(self, memory: _Rows) -> Body:
        """The lengths of the columns, and their order."""
        column, i = index("k", self.columns), index("i", self.columns)
        total = local(self.dtype, "sum")
        part = load(memory.products, (i, column))
        measured = (
            Reduce((total,), ("add",), (part * part,), ((i, ZERO, as_index(self.columns)),)),
            Store(memory.lengths, (column,), sqrt(total)),
        )
        first, second = index("i", self.columns), index("j", self.columns)
        own, other = (load(memory.lengths, (x,)) for x in (first, second))
        before = (other > own) | (eq(other, own) & (second < first))
        return (
            self.shared(column, 0, self.columns, measured),
            *self.ordered(before, (first, second), memory.ranks, memory.order),
        )

    def _place(self, memory: _Rows, number: Scalar) -> Scalar:
        """The column at a position of the descending order."""
        return bounded(load(memory.order, (number,)), self.columns, "clip")

    def _left(self, memory: _Rows, left: View, width: int) -> For:
        """Q times the product of all rotations, then the other columns of Q, if wanted."""
        assert memory.turned is not None
        column, i = index("j", width), index("i", self.n)
        place = local(INDEX, "place")
        known = minimum(column, const(self.columns - 1, INDEX))
        inside = (i < self.columns) & (column < self.columns)
        unit = where(eq(i, column), const(1, self.dtype), const(0, self.dtype))
        value = guard(inside, load(memory.turned, (i, place)), unit)
        body = (
            Let((place,), (self._place(memory, known),)),
            For(i, ZERO, as_index(self.n), (left.store(i, column, value),)),
            self.reflected(memory.rows, memory.scales, left, column),
        )
        return self.shared(column, 0, width, body)

    def _right(self, memory: _Rows, right: View) -> Body:
        """The columns, normalised; zero columns are replaced."""
        n = self.columns
        basis = Reflections(self.emission, (n, n))
        basis.at = self.at
        row, at, j, k, column = (index(x, n) for x in "ijjkj")
        place = local(INDEX, "place")
        length, shortest = (local(self.dtype, label) for label in ("length", "shortest"))
        has_length = ~(length < self.limits.short)  # (a NaN is one)
        found = load(memory.products, (row, place)) / where(has_length, length, 1)
        value, unit = local(self.dtype, "x"), const(1, self.dtype)
        one = where(eq(k, column), unit, const(0, self.dtype))
        own = load(memory.lengths, (self._place(memory, column),))
        filled = (
            For(k, ZERO, as_index(n), (right.store(k, column, one),)),
            basis.reflected(memory.rows, memory.scales, right, column),
        )
        all_lengths = (j, ZERO, as_index(n))
        return (
            *self.dealt(
                (row, at),
                (
                    Let((place,), (self._place(memory, at),)),
                    Let((length,), (load(memory.lengths, (place,)),)),
                    Let((value,), (where(has_length, found, 0),)),
                    right.store(row, at, value),
                    Store(memory.rows, (row, at), value),
                ),
            ),
            Reduce(
                (shortest,), ("min",), (load(memory.lengths, (j,)),), (all_lengths,),
                lanes=self.lanes,
            ),
            If(
                shortest < self.limits.short,
                (
                    basis.triangular(memory.rows, memory.diagonal, memory.scales),
                    self.shared(column, 0, n, (If(own < self.limits.short, filled),)),
                ),
            ),
        )  # fmt: skip
