"""Spectra of Hermitian matrices by Jacobi's method: on a GPU, one team of threads for each matrix.

In a round, the rows are divided into pairs, each with a rotation that annihilates the element
between the two. A thread applies the rotations of two pairs to the four elements at their
intersection, from the left and from the right, so that threads wait twice in a round. After each
sweep over all pairs, convergence is tested (Golub and Van Loan, Matrix Computations, 8.5). An
element is negligible relative to the diagonal elements of its row and column, so that small
eigenvalues of a separate block keep their digits.
"""

from __future__ import annotations

from functrans.loop.failures import EIGENVALUES_NOT_CONVERGED
from functrans.loop.nodes import INDEX, ZERO, as_index, bounded, guard, index
from functrans.loop.scalar import Scalar, const, eq, maximum, where
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
from functrans.ops.linalg.compiled.grid import small_spectra
from functrans.ops.linalg.compiled.grid.rotations import (
    SWEEPS,
    Matrix,
    Rotation,
    Tournament,
    conjugate,
    named,
    rotation,
    scale_of,
    scaled,
    threshold,
)
from functrans.ops.linalg.compiled.grid.spectrum import Spectrum, rotated_or_kept
from functrans.ops.linalg.compiled.scaling import Scale


def spectrum(at: Emission) -> None:
    """Eigenvalues, and eigenvectors if these are asked for, of symmetric or Hermitian matrices."""
    if small_spectra.fits(at):
        small_spectra.spectrum(at)
        return
    values, *vectors = (at.result(number) for number in range(len(at.eqn.outputs)))
    _Spectrum(at).decompose(values, tuple(vectors))


class _Spectrum(Spectrum):
    """The statements for the matrix at an index of the leading axes."""

    def __init__(self, emission: Emission) -> None:
        super().__init__(emission)
        self.lanes = emission.target.lanes(1)
        # an odd number of rows is padded with a row of zeros
        self.pairing = Tournament(self.n + self.n % 2)

    def decompose(self, values: Buffer, vectors: tuple[Buffer, ...]) -> None:
        members, pairs = self.pairing.members, self.pairing.pairs
        names = ("", "_im")[: len(self.given)]
        rows, turned = (
            Matrix(tuple(buffer(f"{label}{x}", self.dtype, (members, members + 1)) for x in names))
            for label in ("rows", "vectors")
        )
        turned = turned if vectors else Matrix(())
        less = buffer("less", self.dtype, (pairs,))
        sines = tuple(buffer(f"sines{name}", self.dtype, (pairs,)) for name in names)
        ranks, order = (buffer(name, INDEX, (self.n,)) for name in ("ranks", "order"))

        scale, measured = self._scale()
        body: Body = (
            *measured,
            *self._copied(rows, turned, scale),
            *self._rotated(rows, turned, less, sines, scale),
            *self._sorted(rows, ranks, order),
            *self._stored(rows, turned, order, scale, values, Matrix(vectors, self.at)),
        )
        stack = (*rows.parts, *turned.parts, less, *sines, ranks, order)
        self.call(body, stack)

    # -- before -------------------------------------------------------------------------------

    def _scale(self) -> tuple[Scale, Body]:
        i, j = index("i", self.n), index("j", self.n)
        sizes = tuple(map(abs, self.element(i, j)))
        value = sizes[0] if len(sizes) == 1 else maximum(*sizes)
        return scale_of(value, (i, j), self.lanes)

    def _copied(self, rows: Matrix, turned: Matrix, scale: Scale) -> Body:
        members = self.pairing.members
        i, j = index("i", members), index("j", members)
        value = scaled(self.element(i, j), scale.reciprocal)
        if members > self.n:
            inside = (i < self.n) & (j < self.n)
            value = tuple(guard(inside, part, 0) for part in value)
        one, zero = const(1, self.dtype), const(0, self.dtype)
        unit = (where(eq(i, j), one, zero), zero)[: len(turned.parts)]
        stores = (*rows.store(i, j, value), *turned.store(i, j, unit))
        return self.dealt((i, j), stores)

    # -- rotations ----------------------------------------------------------------------------

    def _rotated(
        self, rows: Matrix, turned: Matrix, less: Buffer, sines: tuple[Buffer, ...], scale: Scale
    ) -> Body:
        """Sweeps of rotations until all off-diagonal elements are negligible."""
        left, rest = local(self.dtype, "left"), local(self.dtype, "rest")
        sweep, round_ = local(INDEX, "sweep"), index("r", self.pairing.rounds)
        least = local(self.dtype, "least")
        rounds = For(
            round_,
            ZERO,
            as_index(self.pairing.rounds),
            (
                self._angles(rows, less, sines, round_, least),
                *self._turned_rows(rows, less, sines, round_),
                *self._turned_vectors(turned, less, sines, round_),
            ),
        )
        # NaN is not negligible
        well = eq(rest, 0) | ~scale.finite
        return (
            Let((sweep, rest), (ZERO, const(0, self.dtype))),
            While(
                (self._left(rows, left), Assign((rest,), (left,))),
                (rest > 0) & (sweep < SWEEPS),
                (Let((least,), (threshold(sweep, rest),)), rounds, Assign((sweep,), (sweep + 1,))),
            ),
            ensure(well, EIGENVALUES_NOT_CONVERGED),
        )

    def _left(self, rows: Matrix, left: Scalar) -> Reduce:
        """The largest off-diagonal element that is not negligible."""
        i, j = index("i", self.n), index("j", self.n)
        share = self.share(rows.load(i, i)[0], rows.load(j, j)[0], rows.load(i, j))
        value = where(eq(i, j), const(0, self.dtype), share)
        loops = tuple((x, ZERO, as_index(self.n)) for x in (i, j))
        return Reduce((left,), ("max",), (value,), loops, lanes=self.lanes)

    def _angles(
        self, rows: Matrix, less: Buffer, sines: tuple[Buffer, ...], round_: Scalar, least: Scalar
    ) -> For:
        """The rotation of each pair, and the update of the pair's own elements."""
        number = index("k", self.pairing.pairs)
        p, q = self.pairing.pair(round_, number)
        first, second, value = rows.load(p, p)[0], rows.load(q, q)[0], rows.load(p, q)
        given, rest = rotated_or_kept(first, second, value, least)
        made, change = rotation(first, second, given)
        names = ("low", "high", "less", *("sine" for _ in sines), *("rest" for _ in sines))
        locals_ = tuple(local(self.dtype, name) for name in names)
        low, high, own_less, *parts = locals_
        own_sine, own_rest = parts[: len(sines)], tuple(parts[len(sines) :])
        zeros = (const(0, self.dtype),) * (len(sines) - 1)
        return self.shared(
            number,
            0,
            self.pairing.pairs,
            (
                Let(locals_, (first - change, second + change, made.less, *made.sine, *rest)),
                Store(less, (number,), own_less),
                *(Store(x, (number,), part) for x, part in zip(sines, own_sine, strict=True)),
                *rows.store(p, p, (low, *zeros)),
                *rows.store(q, q, (high, *zeros)),
                *rows.store(p, q, own_rest),
                *rows.store(q, p, conjugate(own_rest)),
            ),
        )

    def _turned_rows(
        self, rows: Matrix, less: Buffer, sines: tuple[Buffer, ...], round_: Scalar
    ) -> Body:
        """Rotate the four elements of each two pairs above the diagonal, and those below.

        Each pair is combined with the next half of all pairs, so that each two pairs meet once.
        """
        pairs = self.pairing.pairs
        apart, number = index("d", pairs // 2), index("k", pairs)
        distance = apart + 1
        later = number + distance
        other = where(later < pairs, later, later - pairs)
        p, q = self.pairing.pair(round_, number)
        r, s = self.pairing.pair(round_, other)
        from_left = _loaded(less, sines, number).from_left
        from_right = _loaded(less, sines, other)
        above, below = (from_right(rows.load(x, r), rows.load(x, s)) for x in (p, q))
        columns = (from_left(x, y) for x, y in zip(above, below, strict=True))
        made = [(x, y, value) for y, column in zip((r, s), columns, strict=True)
                for x, value in zip((p, q), column, strict=True)]  # fmt: skip
        names, declared = named("x", [value for *_, value in made])
        stores: Body = (
            declared,
            *(
                store
                for (x, y, _), own in zip(made, names, strict=True)
                for store in (*rows.store(x, y, own), *rows.store(y, x, conjugate(own)))
            ),
        )
        if pairs % 2 == 0:
            twice = eq(distance + distance, pairs) & (number + number >= pairs)
            stores = (If(~twice, stores),)
        return self.dealt((apart, number), stores)

    def _turned_vectors(
        self, turned: Matrix, less: Buffer, sines: tuple[Buffer, ...], round_: Scalar
    ) -> Body:
        """The columns of the product of all rotations."""
        if not turned.parts:
            return ()
        number, row = index("k", self.pairing.pairs), index("i", self.n)
        p, q = self.pairing.pair(round_, number)
        values = _loaded(less, sines, number)(turned.load(row, p), turned.load(row, q))
        (first, second), declared = named("x", values)
        stores: Body = (declared, *turned.store(row, p, first), *turned.store(row, q, second))
        return self.dealt((number, row), stores)

    # -- after --------------------------------------------------------------------------------

    def _sorted(self, rows: Matrix, ranks: Buffer, order: Buffer) -> Body:
        i, j = index("i", self.n), index("j", self.n)
        value, other = rows.load(i, i)[0], rows.load(j, j)[0]
        return self.ordered((other < value) | (eq(other, value) & (j < i)), (i, j), ranks, order)

    def _stored(
        self, rows: Matrix, turned: Matrix, order: Buffer, scale: Scale, values: Buffer,
        vectors: Matrix,
    ) -> Body:  # fmt: skip
        i, k, column = index("i", self.n), index("j", self.n), index("j", self.n)
        place = bounded(load(order, (k,)), self.n, "clip")
        value = rows.load(place, place)[0] * scale.power
        stores = self.dealt((k,), (Store(values, (*self.at, k), value),))
        if not vectors.parts:
            return stores
        place = bounded(load(order, (column,)), self.n, "clip")
        vector = turned.load(i, place)
        return (*stores, *self.dealt((i, column), vectors.store(i, column, vector)))


def _loaded(less: Buffer, sines: tuple[Buffer, ...], number: Scalar) -> Rotation:
    return Rotation(load(less, (number,)), tuple(load(part, (number,)) for part in sines))
