"""Blocked QR factorisation by Householder reflections, by register tiles.

After G. H. Golub and C. F. Van Loan, "Matrix Computations" (2013), chapter 5.2: the reflections of
a panel of columns are found one by one, and as one matrix ``I - V T V^T`` (compact WY form) they
are applied to all later panels, which threads share. Signs are LAPACK's: a column of zeros below
the diagonal has no reflection; any other reflection changes the sign of the diagonal element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.loop.nodes import INDEX, ZERO, combine_pairwise, index
from functrans.loop.scalar import (
    BOOL,
    Scalar,
    const,
    convert,
    copysign,
    eq,
    idiv,
    maximum,
    minimum,
    sqrt,
    where,
)
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Assign,
    Buffer,
    For,
    If,
    Let,
    Reduce,
    Statement,
    Store,
    buffer,
    load,
    local,
)
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.linalg.compiled.elimination import Elimination, in_strips, packed, unpacked
from functrans.ops.linalg.compiled.panels import Panels, batch_of, for_each, in_tiles, let
from functrans.records import NamedTuple, dataclass


class _Rows(NamedTuple):
    """The rows of factors of a panel's columns, for one reflection."""

    head: Buffer
    """The row of the diagonal before the reflection."""
    products: Buffer
    """The products of the column, below the diagonal, with all columns."""
    factors: Buffer
    """The factor with which the column is added to each other one; for itself, its new elements."""


class _Squares(NamedTuple):
    """Products of the vectors of a panel with the columns of another one."""

    plain: Buffer
    turned: Buffer


@dataclass(frozen=True)
class Reflections:
    """The reflections of a matrix, panel by panel."""

    # The vectors on and below the diagonal, whose first elements are 1. Above are the rows of R,
    # but zeros in those that cross the diagonal in the same panel.
    panels: Panels
    corners: Buffer  # the rows of R that cross it, from the diagonal on
    turns: Buffer  # the transposes of the factors ``T``
    count: int  # the number of reflections
    height: int  # the rows of a tile
    simplify: Simplifier

    @property
    def width(self) -> int:
        """The number of reflections of a panel."""
        return self.panels.width

    @property
    def blocks(self) -> int:
        """The number of panels with reflections."""
        return -(-self.count // self.width)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.corners.dtype

    def place(self, block: Scalar, row: Scalar, lane: Scalar) -> Position:
        """The position of an element of a square matrix of a panel."""
        return tuple(map(self.simplify, (*self.panels.batch, block, row, lane)))

    def _groups(self, first: Scalar, size: int) -> Scalar:
        """The number of groups of rows from a first one on."""
        return self.simplify(idiv(self.panels.rows - first, size))

    # -- computing reflections ---------------------------------------------------------------------

    def found(self, block: Scalar, rows: _Rows) -> Body:
        """Compute the reflections of a panel, one by one.

        A column is zero above the diagonal, and on it while it is multiplied, so that all loops go
        over whole groups of rows.
        """
        own, first = self.panels.part(block, 1, self.panels.count), block * self.width
        dtype = self.dtype
        (_, lane), j = own.indices, index("j", self.width)
        row, zero, one = self.simplify(first + j), const(0, dtype), const(1, dtype)
        before, here = lane < j, eq(lane, j)
        size, scale, tau, norm, *factors = (
            local(dtype, name) for name in ("size", "scale", "tau", "norm", "factor", "other")
        )
        none, dot, weight = local(BOOL, "none"), local(dtype, "dot"), local(dtype, "weight")
        head, products = (load(memory, (lane,)) for memory in (rows.head, rows.products))
        alpha, squares = (load(memory, (j,)) for memory in (rows.head, rows.products))
        multiply = self._multiplied(own, first, j, rows.products)
        reflection = (
            let(none, eq(size, 0)),
            let(norm, where(none, -alpha, copysign(sqrt(alpha * alpha + squares), alpha))),
            let(tau, where(none, zero, (norm + alpha) / norm)),
            let(scale, where(none, zero, 1 / (alpha + norm))),
        )
        diagonal = -norm / factors[0] / factors[1]
        steps = (
            let(dot, head + scale * products),
            let(weight, tau * dot),
            Store(
                self.corners, self.place(block, j, lane),
                where(before, zero, where(here, diagonal, head - weight)),
            ),
            Store(rows.factors, (lane,), where(here, scale, where(before, zero, -scale * weight))),
            Store(rows.products, (lane,), where(before, dot, zero)),
        )  # fmt: skip
        unit = where(before, head, where(here, one, zero))
        body = (
            own.vectors(lane, (Store(rows.head, (lane,), own.element(ZERO, row, lane)),)),
            own.store(ZERO, row, j, zero),
            multiply,
            let(size, squares),
            Let(tuple(factors), (one, one)),
            *self._in_range(own, first, j, (size, *factors), rows, multiply),
            *reflection,
            own.vectors(lane, steps),
            own.vectors(lane, self._turn(block, j, lane, tau, rows.products)),
            self._reflected(own, first, j, rows.factors),
            own.vectors(lane, (own.store(ZERO, row, lane, unit),)),
        )
        loop = For(j, ZERO, self.simplify(minimum(self.count - first, self.width)), body)
        return loop, *self._none_behind(block, own, lane)

    def _multiplied(self, own: Panels, first: Scalar, j: Scalar, target: Buffer) -> For:
        """A loop for the products of a column with all columns of its panel."""
        rows, group, stop = self._side_by_side(first)
        _, lane = own.indices
        sums = [local(self.dtype, f"sum{i}") for i in range(len(rows))]
        values = [own.element(ZERO, row, j) * own.element(ZERO, row, lane) for row in rows]
        loop = (group, ZERO, stop)
        fold = Reduce(tuple(sums), ("add",) * len(sums), tuple(values), (loop,))
        return own.vectors(lane, (fold, Store(target, (lane,), combine_pairwise("add", sums))))

    def _reflected(self, own: Panels, first: Scalar, j: Scalar, factors: Buffer) -> For:
        """A loop that reflects the later columns, and replaces the column by the vector."""
        rows, group, stop = self._side_by_side(first)
        _, lane = own.indices
        names = [local(self.dtype, f"x{i}") for i in range(len(rows))]
        lets = [let(x, own.element(ZERO, row, j)) for x, row in zip(names, rows, strict=True)]
        stores = []
        for x, row in zip(names, rows, strict=True):
            other = where(eq(lane, j), const(0, self.dtype), own.element(ZERO, row, lane))
            stores.append(own.store(ZERO, row, lane, other + x * load(factors, (lane,))))
        return For(group, ZERO, stop, (*lets, own.vectors(lane, stores)))

    def _side_by_side(self, first: Scalar) -> tuple[list[Scalar], Scalar, Scalar]:
        """Some rows of a panel, the index of a group of so many, and the number of groups."""
        side = min(self.height, 4)
        group = index("group", self.panels.rows // side)
        rows = [self.simplify(first + group * side + i) for i in range(side)]
        return rows, group, self._groups(first, side)

    def _in_range(
        self, own: Panels, first: Scalar, j: Scalar, found: tuple[Scalar, ...], rows: _Rows,
        multiply: Statement,
    ) -> Body:  # fmt: skip
        """Scale a column, and multiply again, if products are zero or exceed the range of numbers.

        ``found`` has a number that is not zero if an element below the diagonal is not, and two
        factors, since that of a subnormal number is too large for one.
        """
        size, *factors = found
        limits, k, row = np.finfo(self.dtype), index("k", self.width), index("row", own.rows)
        largest, below = local(self.dtype, "largest"), local(self.dtype, "below")
        terms = (k, ZERO, const(self.width, INDEX))
        over_all = Reduce(
            (largest,), ("max",), (abs(load(rows.products, (k,))),), (terms,),
            lanes=min(own.lanes, self.width), whole=True,
        )  # fmt: skip
        alpha, squares = load(rows.head, (j,)), load(rows.products, (j,))
        x = own.element(ZERO, row, j)
        limit = 2.0 ** (limits.maxexp // 3)
        inside = (squares >= 1 / limit) & (squares <= limit) & (alpha * alpha <= limit)
        inside = inside & (largest <= float(limits.max))
        bounds = self.simplify(first), const(own.rows, INDEX)
        top = maximum(maximum(below, abs(alpha)), float(limits.smallest_subnormal))
        body = (
            Reduce((below,), ("max",), (abs(x),), ((row, *bounds),)),
            Assign((size,), (below,)),
            Assign((factors[0],), (minimum(1 / top, 2.0 ** (limits.maxexp - 2)),)),
            Assign((factors[1],), (1 / (top * factors[0]),)),
            Store(rows.head, (j,), alpha * factors[0] * factors[1]),
            For(row, *bounds, (own.store(ZERO, row, j, x * factors[0] * factors[1]),)),
            multiply,
        )
        return over_all, If(~inside, body)

    def _turn(self, block: Scalar, j: Scalar, lane: Scalar, tau: Scalar, products: Buffer) -> Body:
        """Statements for a column of ``T``, from the vector's products with those before."""
        k, turned, zero = index("k", self.width), local(self.dtype, "turned"), const(0, self.dtype)
        product = load(products, (k,)) * load(self.turns, self.place(block, k, lane))
        fold = Reduce((turned,), ("add",), (product,), ((k, ZERO, j),))
        turn = where(eq(lane, j), tau, where(lane < j, -tau * turned, zero))
        return fold, Store(self.turns, self.place(block, j, lane), turn)

    def _none_behind(self, block: Scalar, own: Panels, lane: Scalar) -> Body:
        """Zeros in the columns of ``T`` after the last reflection."""
        if self.count % self.width == 0:
            return ()
        j = index("j", self.width)
        zero = Store(self.turns, self.place(block, j, lane), const(0, self.dtype))
        bounds = const(self.count % self.width, INDEX), const(self.width, INDEX)
        clear = For(j, *bounds, (own.vectors(lane, (zero,)),))
        return (If(eq(block, self.blocks - 1), (clear,)),)

    # -- applying them -----------------------------------------------------------------------------

    def applied(self, block: Scalar, panels: Panels, squares: _Squares, *, transposed: bool) -> For:
        """Multiply panels by the reflections of one, ``I - V T V^T``, or by the transpose."""
        first, width, rows = self.simplify(block * self.width), self.width, self.panels.rows
        (panel, lane), simplify = panels.indices, self.simplify
        height = min(self.height, width)
        tile, k, row = index("tile", width // height), index("k", width), index("row", rows)
        base = tile * height

        def vector(row: Scalar, number: Scalar) -> Scalar:
            return load(self.panels.memory, self.place(block, row, number))

        def turn(number: Scalar, k: Scalar) -> Scalar:
            place = (number, k) if transposed else (k, number)
            return load(self.turns, self.place(block, *place))

        def summed(
            values: list[Scalar], loop: tuple[Scalar, Scalar, Scalar]
        ) -> tuple[Reduce, list[Scalar]]:
            sums = [local(self.dtype, f"sum{i}") for i in range(len(values))]
            return Reduce(tuple(sums), ("add",) * len(sums), tuple(values), (loop,)), sums

        def for_tiles(
            values: list[Scalar], loop: tuple[Scalar, Scalar, Scalar], target: Buffer
        ) -> For:
            fold, sums = summed(values, loop)
            stores = [Store(target, (simplify(base + i), lane), x) for i, x in enumerate(sums)]
            return For(tile, ZERO, const(width // height, INDEX),
                       (panels.vectors(lane, (fold, *stores)),))  # fmt: skip

        numbers, stop = [base + i for i in range(height)], const(width, INDEX)
        x, y, z = panels.element(panel, row, lane), *(load(each, (k, lane)) for each in squares)
        whole = (row, first, const(rows, INDEX))
        part = (k, ZERO, simplify(base + height)) if transposed else (k, simplify(base), stop)
        strip = index("tile", rows // self.height)
        lines = [first + strip * self.height + i for i in range(self.height)]
        fold, sums = summed([vector(line, k) * z for line in lines], (k, ZERO, stop))
        stores = [
            panels.store(panel, line, lane, -s, "add") for line, s in zip(lines, sums, strict=True)
        ]
        subtract = panels.vectors(lane, (fold, *stores))
        body = (
            for_tiles([vector(row, i) * x for i in numbers], whole, squares.plain),
            for_tiles([turn(i, k) * y for i in numbers], part, squares.turned),
            For(strip, ZERO, self._groups(first, self.height), (subtract,)),
        )
        return panels.each(panel, body)


def qr(at: Emission) -> None:
    """Orthonormal columns and upper triangles."""
    reflections = _reflections(at)
    _upper(reflections, at, at.result(1))
    _orthonormal(reflections, at, at.result(0))


def r(at: Emission) -> None:
    """The upper triangles alone."""
    _upper(_reflections(at), at, at.result())


def _reflections(at: Emission) -> Reflections:
    a, limits = at.operand(0), at.target[Elimination]
    *leading, m, n = a.extents
    height = min(limits.height, 2 * at.target.lanes(a.dtype.itemsize))
    panels = in_tiles(at, "vectors", batch_of(leading), a, height)
    width, count = panels.width, min(m, n)
    blocks = -(-count // width)
    corners, turns = (
        at.scratch(name, a.dtype, (*leading, blocks, width, width)) for name in ("corners", "turns")
    )
    made = Reflections(panels, corners, turns, count, height, at.simplify)
    rows = _Rows(*(buffer(name, a.dtype, (width,)) for name in _Rows._fields))
    squares, block = _squares(made, panels), index("block", blocks)

    def applied(strip: Panels) -> Body:
        return (made.applied(block, strip, squares, transposed=True),)

    body = (
        in_strips(panels, limits, ZERO, panels.count, lambda strip: packed(strip, a, lambda i: i)),
        For(block, ZERO, const(blocks, INDEX), (
            *made.found(block, rows),
            in_strips(panels, limits, at.simplify(block + 1), panels.count, applied),
        )),
    )  # fmt: skip
    at.call(
        for_each(panels.batch, body), stack=(*rows, *squares), in_phases=True,
        writes=(panels.memory, corners, turns), largest_constant=max(width, height),
    )  # fmt: skip
    return made


def _squares(reflections: Reflections, panels: Panels) -> _Squares:
    shape = reflections.width, panels.width
    return _Squares(*(buffer(name, reflections.dtype, shape) for name in _Squares._fields))


def _upper(reflections: Reflections, at: Emission, result: Buffer) -> None:
    """Copy R from panels and corners."""
    *_, high, n = result.extents
    panels, count, width = reflections.panels, reflections.count, reflections.width
    (panel, lane), row = panels.indices, index("row", high)
    first = panels.column(panel, ZERO)
    start, stop = minimum(first, count), minimum(first + width, count)
    block = minimum(panel, reflections.blocks - 1)
    corner = load(reflections.corners, reflections.place(block, row - first, lane))

    def rows(start: Scalar, stop: Scalar, value: Scalar) -> Statement:
        store = Store(result, (*panels.batch, row, panels.column(panel, lane)), value)
        inner = panels.some_vectors(lane, ZERO, panels.inside(panel, n), (store,))
        return For(row, at.simplify(start), at.simplify(stop), (inner,))

    body = (
        rows(ZERO, start, panels.element(panel, row, lane)),
        rows(start, stop, corner),
        rows(stop, const(high, INDEX), const(0, result.dtype)),
    )
    statements = for_each(panels.batch, (panels.each(panel, body, parallel=True),))
    at.call(statements, writes=(result,), largest_constant=width)


def _orthonormal(reflections: Reflections, at: Emission, result: Buffer) -> None:
    """Columns of Q: those of an identity, to which the reflections are applied, last first."""
    every = in_tiles(at, "columns", reflections.panels.batch, result, reflections.height)
    number, turn = index("panel", every.most), index("turn", reflections.blocks)
    panels = every.part(number, 1, every.count)
    row, (panel, lane) = index("row", panels.rows), panels.indices
    one = convert(eq(panels.column(panel, lane), row), result.dtype)
    unit = panels.vectors(lane, (panels.store(panel, row, lane, one),))
    squares = _squares(reflections, panels)
    last = minimum(panels.column(ZERO, const(panels.width - 1, INDEX)), reflections.count - 1)
    block = idiv(last, reflections.width)
    reflect = reflections.applied(at.simplify(block - turn), panels, squares, transposed=False)
    body = (
        panels.each(panel, (For(row, ZERO, const(panels.rows, INDEX), (unit,)),)),
        For(turn, ZERO, at.simplify(block + 1), (reflect,)),
        *unpacked(panels, result, lambda i: i),
    )
    loop = For(number, ZERO, every.count, body, parallel=True)
    at.call(
        for_each(every.batch, (loop,)), stack=squares, writes=(result, every.memory),
        largest_constant=max(reflections.width, reflections.height),
    )  # fmt: skip
