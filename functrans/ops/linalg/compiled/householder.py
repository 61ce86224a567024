"""QR factors by Householder reflections: on a GPU, one team of threads for each matrix.

A reflection takes what is below the diagonal of one column away; the columns behind it are a
thread's each meanwhile. The signs are those of LAPACK's ``geqrf``: an element on the diagonal of R
has the sign opposite to that which it replaces, and a column with nothing to be taken away stays.
"""

from __future__ import annotations

from functrans.loop.nodes import ZERO, as_index, index
from functrans.loop.scalar import Scalar, const, copysign, eq, sqrt, where
from functrans.loop.statements import Buffer, For, Let, Reduce, Store, buffer, load
from functrans.loop.statements import local as new_local
from functrans.ops.compiled.emission import Emission
from functrans.ops.linalg.compiled.teams import Body, Team


def qr(at: Emission) -> None:
    """Orthonormal columns and upper triangles."""
    _Reflections(at).factorise(at.result(0), at.result(1))


def r(at: Emission) -> None:
    """The upper triangles alone."""
    _Reflections(at).factorise(None, at.result())


class _Reflections(Team):
    """The statements for the matrix, of so many columns, at an index of the leading axes."""

    def __init__(self, emission: Emission) -> None:
        super().__init__(emission)
        self.columns = self.a.extents[-1]
        self.steps = min(self.n, self.columns)

    def factorise(self, q: Buffer | None, r: Buffer) -> None:
        rows = self.rows("rows", self.columns)
        diagonal, scales = (
            buffer(name, self.dtype, (self.steps,)) for name in ("diagonal", "scales")
        )
        step = index("k", self.steps)
        body: Body = (
            self.copied(rows, self.columns, self.column_of(self.a)),
            For(step, ZERO, as_index(self.steps), self._step(rows, diagonal, scales, step)),
            *self._triangle(rows, diagonal, r),
            *(() if q is None else (self._orthonormal(rows, scales, q),)),
        )
        self.call(body, self.n * self.columns * self.steps, (rows, diagonal, scales))

    def _step(self, rows: Buffer, diagonal: Buffer, scales: Buffer, step: Scalar) -> Body:
        """A reflection, and the columns behind it reflected."""
        dtype = self.dtype
        before, *values = self._reflection(rows, step)
        replaced, scale, divisor = (new_local(dtype, name) for name in ("beta", "tau", "divisor"))
        i, j = index("i", self.n), index("j", self.columns)
        divided = Store(rows, (i, step), load(rows, (i, step)) / divisor)
        return (
            *before,
            Let((replaced, scale, divisor), tuple(values)),
            Store(diagonal, (step,), replaced),
            Store(scales, (step,), scale),
            self.shared(i, step + 1, self.n, (divided,)),
            self.shared(j, step + 1, self.columns, self._reflected(rows, step, scale, rows, (), j)),
        )

    def _reflection(self, rows: Buffer, step: Scalar) -> tuple[Body, Scalar, Scalar, Scalar]:
        """What comes to the diagonal, the reflection's scale, and what its vector is divided by.

        Squares of what is divided by the largest element neither overflow nor vanish.
        """
        n, dtype, lanes = self.n, self.dtype, self.emission.target.lanes(1)
        i, j = index("i", n), index("i", n)
        largest, below, squares = (new_local(dtype, name) for name in ("largest", "below", "sum"))
        zero, one = const(0, dtype), const(1, dtype)
        size = abs(load(rows, (i, step)))
        sizes = Reduce(
            (largest, below),
            ("max", "max"),
            (size, where(eq(i, step), zero, size)),
            ((i, step, as_index(n)),),
            lanes=lanes,
        )
        unit = new_local(dtype, "unit")
        part = load(rows, (j, step)) / unit
        total = Reduce((squares,), ("add",), (part * part,), ((j, step, as_index(n)),), lanes=lanes)
        first, nothing = load(rows, (step, step)), eq(below, 0)
        norm = -copysign(unit * sqrt(squares), first)
        return (
            (sizes, Let((unit,), (where(eq(largest, 0), one, largest),)), total),
            where(nothing, first, norm),
            where(nothing, zero, (norm - first) / where(nothing, one, norm)),
            where(nothing, one, first - norm),
        )

    def _reflected(
        self,
        rows: Buffer,
        step: Scalar,
        scale: Scalar,
        target: Buffer,
        at: tuple[Scalar, ...],
        column: Scalar,
    ) -> Body:
        """One thread reflects one column: its part along the vector, twice, is taken away."""
        i, k = index("i", self.n), index("k", self.n)
        along, part = new_local(self.dtype, "along"), new_local(self.dtype, "part")
        value = load(rows, (k, step)) * load(target, (*at, k, column))
        stop = as_index(self.n)
        first = load(target, (*at, step, column))
        rest = load(target, (*at, i, column)) - load(rows, (i, step)) * part
        return (
            Reduce((along,), ("add",), (value,), ((k, step + 1, stop),)),
            Let((part,), (scale * (along + first),)),
            Store(target, (*at, step, column), first - part),
            For(i, step + 1, stop, (Store(target, (*at, i, column), rest),)),
        )

    def _triangle(self, rows: Buffer, diagonal: Buffer, r: Buffer) -> Body:
        i, j = index("i", r.extents[-2]), index("j", self.columns)
        # there is no diagonal, and nothing but zeros, where a complete R has more rows
        above = load(rows, (i, j))
        zero = const(0, self.dtype)
        stored = Store(r, (*self.at, i, j), where(j > i, above, zero))
        k = index("k", self.steps)
        on_it = Store(r, (*self.at, k, k), load(diagonal, (k,)))
        return (
            *self.dealt((i, j), (stored,)),
            self.shared(k, 0, self.steps, (on_it,)),
        )

    def _orthonormal(self, rows: Buffer, scales: Buffer, q: Buffer) -> For:
        """Each thread reflects a column of ones and zeros, by the last reflection first."""
        i, step = index("i", self.n), index("k", self.steps)
        column = index("j", q.extents[-1])
        one, zero = const(1, self.dtype), const(0, self.dtype)
        given = Store(q, (*self.at, i, column), where(eq(i, column), one, zero))
        last = self.steps - 1 - step
        scale = load(scales, (last,))
        reflected = self._reflected(rows, last, scale, q, self.at, column)
        body = (
            For(i, ZERO, as_index(self.n), (given,)),
            For(step, ZERO, as_index(self.steps), reflected),
        )
        return self.shared(column, 0, q.extents[-1], body)
