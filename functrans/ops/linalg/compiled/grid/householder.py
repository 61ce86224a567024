"""QR factors by Householder reflections: on a GPU, one team of threads for each matrix.

A reflection eliminates the elements below the diagonal of one column; each thread then applies it
to one of the later columns. The signs are those of LAPACK's ``geqrf``: a diagonal element of R has
the opposite sign of the element that it replaces, and a column with nothing to eliminate is kept.
"""

from __future__ import annotations

from functrans.loop.nodes import ZERO, as_index, index
from functrans.loop.scalar import Scalar, const, copysign, eq, sqrt, where
from functrans.loop.statements import Buffer, For, Let, Reduce, Store, buffer, load, local
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.linalg.compiled.grid.teams import Team
from functrans.ops.linalg.compiled.grid.views import View


def qr(at: Emission) -> None:
    """Orthonormal columns and upper triangles."""
    _factorise(Reflections(at), at.result(0), at.result(1))


def r(at: Emission) -> None:
    """The upper triangles alone."""
    _factorise(Reflections(at), None, at.result())


def _factorise(team: Reflections, q: Buffer | None, r: Buffer) -> None:
    rows = team.rows("rows", team.columns)
    diagonal, scales = team.vectors()
    body: Body = (
        team.copied(rows, team.columns, team.column_of(team.a)),
        team.triangular(rows, diagonal, scales),
        *team.triangle(rows, diagonal, r),
        *(() if q is None else (team.orthonormal(rows, scales, q),)),
    )
    team.call(body, (rows, diagonal, scales))


class Reflections(Team):
    """The statements for the matrix at an index of the leading axes; it has a number of columns.

    It has the shape of the operand, unless another one is given.
    """

    def __init__(self, emission: Emission, shape: tuple[int, int] | None = None) -> None:
        super().__init__(emission)
        if shape is not None:
            self.n, self.columns = shape
            self.steps = min(shape)

    def vectors(self) -> tuple[Buffer, Buffer]:
        """Memory for the diagonal of R, and for the scales of reflections."""
        diagonal, scales = (
            buffer(name, self.dtype, (self.steps,)) for name in ("diagonal", "scales")
        )
        return diagonal, scales

    def triangular(self, rows: Buffer, diagonal: Buffer, scales: Buffer) -> For:
        """Eliminate the elements below the diagonal, which then hold the reflections' vectors."""
        step = index("k", self.steps)
        body = self._step(rows, diagonal, scales, step)
        return For(step, ZERO, as_index(self.steps), body)

    def _step(self, rows: Buffer, diagonal: Buffer, scales: Buffer, step: Scalar) -> Body:
        """Compute a reflection, and apply it to the later columns."""
        dtype = self.dtype
        before, *values = self._reflection(rows, step)
        replaced, scale, unit, divisor = (
            local(dtype, name) for name in ("beta", "tau", "unit", "divisor")
        )
        i, j = index("i", self.n), index("j", self.columns)
        divided = Store(rows, (i, step), load(rows, (i, step)) / unit / divisor)
        return (
            *before,
            Let((replaced, scale, unit, divisor), tuple(values)),
            Store(diagonal, (step,), replaced),
            Store(scales, (step,), scale),
            self.shared(i, step + 1, self.n, (divided,)),
            self.shared(
                j, step + 1, self.columns, self._reflected(rows, step, scale, View(rows), j)
            ),
        )

    def _reflection(self, rows: Buffer, step: Scalar) -> tuple[Body, *tuple[Scalar, ...]]:
        """The new diagonal element, the reflection's scale, and the divisor of its vector.

        Elements are divided by the largest one, so that squares neither overflow nor underflow. So
        subnormal remainders of linearly dependent columns also give a reflection.
        """
        n, dtype, lanes = self.n, self.dtype, self.emission.target.lanes(1)
        i, j = index("i", n), index("i", n)
        largest, below, squares = (local(dtype, name) for name in ("largest", "below", "sum"))
        zero, one = const(0, dtype), const(1, dtype)
        size = abs(load(rows, (i, step)))
        sizes = Reduce(
            (largest, below),
            ("max", "max"),
            (size, where(eq(i, step), zero, size)),
            ((i, step, as_index(n)),),
            lanes=lanes,
        )
        unit = local(dtype, "unit")
        part = load(rows, (j, step)) / unit
        total = Reduce((squares,), ("add",), (part * part,), ((j, step, as_index(n)),), lanes=lanes)
        corner, nothing = load(rows, (step, step)), eq(below, 0)
        first = corner / unit
        norm = -copysign(sqrt(squares), first)
        return (
            (sizes, Let((unit,), (where(eq(largest, 0), one, largest),)), total),
            where(nothing, corner, unit * norm),
            where(nothing, zero, (norm - first) / where(nothing, one, norm)),
            unit,
            where(nothing, one, first - norm),
        )

    def _reflected(
        self, rows: Buffer, step: Scalar, scale: Scalar, target: View, column: Scalar
    ) -> Body:
        """One thread reflects one column: twice its component along the vector is subtracted."""
        i, k = index("i", self.n), index("k", self.n)
        along, part = local(self.dtype, "along"), local(self.dtype, "part")
        value = load(rows, (k, step)) * target.load(k, column)
        stop = as_index(self.n)
        first = target.load(step, column)
        rest = target.load(i, column) - load(rows, (i, step)) * part
        return (
            Reduce((along,), ("add",), (value,), ((k, step + 1, stop),)),
            Let((part,), (scale * (along + first),)),
            target.store(step, column, first - part),
            For(i, step + 1, stop, (target.store(i, column, rest),)),
        )

    def triangle(self, rows: Buffer, diagonal: Buffer, r: Buffer) -> Body:
        """The upper triangle."""
        i, j = index("i", r.extents[-2]), index("j", self.columns)
        # the additional rows of a complete R are zeros
        above = load(rows, (i, j))
        zero = const(0, self.dtype)
        stored = Store(r, (*self.at, i, j), where(j > i, above, zero))
        k = index("k", self.steps)
        on_it = Store(r, (*self.at, k, k), load(diagonal, (k,)))
        return (*self.dealt((i, j), (stored,)), self.shared(k, 0, self.steps, (on_it,)))

    def orthonormal(self, rows: Buffer, scales: Buffer, q: Buffer) -> For:
        """Each thread reflects a column of the identity matrix."""
        i, column, target = index("i", self.n), index("j", q.extents[-1]), View(q, self.at)
        one, zero = const(1, self.dtype), const(0, self.dtype)
        given = target.store(i, column, where(eq(i, column), one, zero))
        body = (
            For(i, ZERO, as_index(self.n), (given,)),
            self.reflected(rows, scales, target, column),
        )
        return self.shared(column, 0, q.extents[-1], body)

    def reflected(self, rows: Buffer, scales: Buffer, target: View, column: Scalar) -> For:
        """One thread applies all reflections to a column, from the last one on."""
        step = index("k", self.steps)
        last = self.steps - 1 - step
        body = self._reflected(rows, last, load(scales, (last,)), target, column)
        return For(step, ZERO, as_index(self.steps), body)
