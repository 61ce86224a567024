"""Blocked forward substitution: subtract the product of solved rows, then solve the next block.

After G. H. Golub and C. F. Van Loan, "Matrix Computations" (2013), chapter 3.1. Nearly all of the
work is in products, by tiles of sums in registers like those of `functrans.lower.product.kernel`.
Columns are independent: they lie in packed panels, strips of which are divided among threads.

A system with an upper triangular matrix is solved as a lower triangular one, with rows and columns
in reverse order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, idiv, irem, minimum
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, For, Reduce, Statement, Store, load, local
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission, Position
from functrans.ops.compiled.statements import ensure_regular
from functrans.ops.linalg.compiled.panels import (
    Line,
    Panels,
    batch_of,
    for_each,
    in_tiles,
    let,
    pack_columns,
    square,
)
from functrans.records import NamedTuple, dataclass


class Elimination(NamedTuple):
    """Block sizes of substitution and factorisations.

    Measured: all of them, on systems of 64 to 2048 equations. Half and twice these values took up
    to 10 % longer, or as long.
    """

    fewest_rows: int = 32
    """LAPACK factorises matrices with fewer rows: padded to whole panels, those of a stack of 9 x 9
    take two to five times as long, those of 24 x 24 as long."""
    fewest_rows_of_wide: int = 8
    """LAPACK computes QR factors of wide matrices with fewer rows: 2 x 100 takes two to four times
    as long here, mostly for copies."""
    least_reflected: int = 1 << 15
    """The fewest multiplications of compiled QR factors: smaller ones take microseconds, and LAPACK
    takes 1.7 times as many, but compiling takes 0.2 s."""
    fewest_pivoted: int = 200
    """LAPACK computes LU factors of matrices with fewer rows, and takes as long on one thread."""
    largest_pivoted: int = 1 << 24
    """The most bytes of such matrices: with more, LAPACK takes 0.83 of the time on one thread."""
    height: int = 8
    """The most rows of a tile: limited by the columns of a panel, and by registers."""
    block: int = 64
    """The rows of a block."""
    depth_bytes: int = 4096
    """The bytes of a row's terms that are subtracted together."""
    panels: int = 4
    """The most panels of a strip."""
    fewest_strips: int = 8
    """The number of strips that keeps threads busy, if there are enough columns."""


class Tile(NamedTuple):
    """Some rows of a triangular matrix."""

    lets: Body
    # an element, by the number of its row in the tile, and its column
    element: Callable[[int, Scalar], Scalar]
    columns: list[Scalar]  # the columns of the elements on the diagonal


@dataclass(frozen=True)
class Substitution:
    """Forward substitution with a lower triangular matrix, block of rows by block of rows."""

    tile: Callable[[Scalar], Tile]  # the rows from one on, as many as tiles have
    n: int  # The number of rows. Rows of tiles beyond the last one are arbitrary.
    height: int  # the rows of a tile
    unit_diagonal: bool
    limits: Elimination
    itemsize: int
    simplify: Simplifier

    @property
    def blocks(self) -> int:
        """The number of blocks of rows."""
        return -(-self.n // self.limits.block)

    def solved(self, first: Scalar, panels: Panels) -> Body:
        """Solve a block of rows, after those before it."""
        depth = self.limits.depth_bytes // self.itemsize
        stretch = index("stretch", -(-self.n // depth))
        start = stretch * depth
        stretches = idiv(first + (depth - 1), depth)
        panel, lane = panels.indices
        tile, base = self.tiles(first)
        own = self.tile(base)
        subtracted = self.subtracted(own, panels, panel, base, start, minimum(start + depth, first))
        before = self.for_tiles(tile, first, (*own.lets, subtracted))
        steps = self.solved_tile(own, panels, panel, lane, base, first)
        within = self.for_tiles(tile, first, (*own.lets, panels.vectors(lane, steps)))
        return (
            For(stretch, ZERO, self.simplify(stretches), (panels.each(panel, (before,)),)),
            panels.each(panel, (within,)),
        )

    def subtracted(
        self, own: Tile, panels: Panels, panel: Scalar, base: Scalar, start: Scalar, stop: Scalar
    ) -> For:
        """Subtract some terms of solved rows from a tile."""
        _, lane = panels.indices
        fold, sums = self.sums(own, panels, panel, lane, start, stop)
        stores = [panels.store(panel, base + i, lane, -x, "add") for i, x in enumerate(sums)]
        return panels.vectors(lane, (fold, *stores))

    def solved_tile(
        self, own: Tile, panels: Panels, panel: Scalar, lane: Scalar, base: Scalar, start: Scalar
    ) -> Body:
        """Solve a tile, in registers, from which all rows before ``first`` have been subtracted."""
        fold, sums = self.sums(own, panels, panel, lane, start, base)
        right = [panels.element(panel, base + i, lane) - x for i, x in enumerate(sums)]
        return (fold, *self.triangle(own, right, panels, panel, lane, base))

    def triangle(
        self, own: Tile, right: Sequence[Scalar], panels: Panels, panel: Scalar, lane: Scalar,
        base: Scalar,
    ) -> Body:  # fmt: skip
        """Forward substitution in a tile, and stores of the solution."""
        steps: list[Statement] = []
        found: list[Scalar] = []
        for i, x in enumerate(right):
            for j, other in enumerate(found):
                x = x - own.element(i, own.columns[j]) * other
            if not self.unit_diagonal:
                x = x / own.element(i, own.columns[i])
            found.append(local(x.dtype, "x"))
            steps.append(let(found[-1], x))
        stores = [panels.store(panel, base + i, lane, x) for i, x in enumerate(found)]
        return (*steps, *stores)

    def sums(
        self, own: Tile, panels: Panels, panel: Scalar, lane: Scalar, start: Scalar, stop: Scalar
    ) -> tuple[Reduce, tuple[Scalar, ...]]:
        """The products of a tile's rows with some of the rows that are solved."""
        term = index("k", self.n)
        other = panels.element(panel, term, lane)
        sums = tuple(local(other.dtype, f"sum{i}") for i in range(self.height))
        products = tuple(own.element(i, term) * other for i in range(self.height))
        loop = term, self.simplify(start), self.simplify(stop)
        return Reduce(sums, ("add",) * len(sums), products, (loop,)), sums

    def tiles(self, first: Scalar) -> tuple[Scalar, Scalar]:
        """The index of a tile of a block, and its first row."""
        tile = index("tile", self.limits.block // self.height)
        return tile, self.simplify(first + tile * self.height)

    def for_tiles(self, tile: Scalar, first: Scalar, body: Body) -> For:
        """A loop over the tiles of a block."""
        left = idiv(self.n - first + (self.height - 1), self.height)
        count = self.simplify(minimum(left, self.limits.block // self.height))
        return For(tile, ZERO, count, body)


def by_columns(panels: Panels, limits: Elimination, unit_diagonal: bool = False) -> Substitution:
    """Substitution with the transpose of a matrix that is in panels."""
    width = panels.width
    height = min(limits.height, width)

    def tile(base: Scalar) -> Tile:
        panel, lane = idiv(base, width), irem(base, width)

        def element(number: int, k: Scalar) -> Scalar:
            return panels.element(panel, k, lane + number)

        return Tile((), element, [panels.simplify(base + i) for i in range(height)])

    itemsize = panels.memory.dtype.itemsize
    return Substitution(tile, panels.rows, height, unit_diagonal, limits, itemsize, panels.simplify)


def by_rows(at: Emission, a: Buffer, batch: Position, line: Line) -> Substitution:
    """Substitution with a matrix as it is in memory."""
    n, limits = a.extents[-1], at.target[Elimination]
    height, params = limits.height, at.eqn.params

    def tile(base: Scalar) -> Tile:
        """The rows of the matrix; the last one is repeated beyond the end."""
        lines = [local(INDEX, "at") for _ in range(height)]
        values = [minimum(base + i, n - 1) if n % height else base + i for i in range(height)]

        def element(number: int, k: Scalar) -> Scalar:
            return load(a, (*batch, at.simplify(line(lines[number])), at.simplify(line(k))))

        return Tile(tuple(map(let, lines, map(at.simplify, values))), element, lines)

    unit_diagonal, itemsize = params["unit_diagonal"], a.dtype.itemsize
    return Substitution(tile, n, height, unit_diagonal, limits, itemsize, at.simplify)


def in_strips(
    panels: Panels, limits: Elimination, first: Scalar, stop: Scalar, body: Callable[[Panels], Body]
) -> For:
    """A parallel loop over strips of panels."""
    across = max(min(limits.panels, panels.most // limits.fewest_strips), 1)
    strips = -(-panels.most // across)
    strip = index("strip", strips)
    part = panels.part(first + strip * across, across, stop)
    return For(strip, ZERO, const(strips, INDEX), body(part), parallel=True)


# -- triangular systems ----------------------------------------------------------------------------


def triangular_solve(at: Emission) -> None:
    """Solutions with triangular matrices, of many right sides."""
    a, b, x, params = at.operand(0), at.operand(1), at.result(), at.eqn.params
    *leading, n, _ = b.extents
    limits, batch = at.target[Elimination], batch_of(leading)
    is_lower = params["lower"] != params["transpose_a"]

    def line(i: Scalar) -> Scalar:
        return i if is_lower else n - 1 - i

    if params["transpose_a"]:
        turned = square(at, "matrix", batch, a)
        packing = for_each(batch, pack_columns(turned, a, line))
        at.call(packing, writes=(turned.memory,), largest_constant=turned.width)
        rule = by_columns(turned, limits, params["unit_diagonal"])
    else:
        rule = by_rows(at, a, batch, line)
    panels = in_tiles(at, "columns", batch, b, rule.height, rule.n)
    block = index("block", rule.blocks)

    def solved(strip: Panels) -> Body:
        body: Body = (
            *packed(strip, b, line),
            For(block, ZERO, const(rule.blocks, INDEX), rule.solved(block * limits.block, strip)),
            *unpacked(strip, x, line),
        )
        return body if params["unit_diagonal"] else (*ensure_regular(a, batch), *body)

    body = (in_strips(panels, limits, ZERO, panels.count, solved),)
    at.call(
        for_each(batch, body), writes=(x, panels.memory),
        largest_constant=max(panels.width, rule.height),
    )  # fmt: skip


def packed(panels: Panels, b: Buffer, line: Line) -> Body:
    """Loops that copy right sides into panels, with zeros beside and below them."""
    *_, n, columns = b.extents
    (panel, lane), row = panels.indices, index("row", n)
    place = (*panels.batch, panels.simplify(line(row)), panels.column(panel, lane))
    store = panels.store(panel, row, lane, load(b, place))

    def cleared(line: Scalar) -> For:
        return panels.vectors(lane, (panels.store(panel, line, lane, const(0, b.dtype)),))

    body: Body = (panels.some_vectors(lane, ZERO, panels.inside(panel, columns), (store,)),)
    if columns % panels.width:
        body = (cleared(row), *body)
    lines: Body = (For(row, ZERO, const(n, INDEX), body),)
    if panels.rows > n:
        behind = index("row", panels.rows)
        stop = const(panels.rows, INDEX)
        lines = (*lines, For(behind, const(n, INDEX), stop, (cleared(behind),)))
    return (panels.each(panel, lines),)


def unpacked(panels: Panels, x: Buffer, line: Line) -> Body:
    """Loops that copy solutions from panels."""
    *_, n, columns = x.extents
    (panel, lane), row = panels.indices, index("row", n)
    place = (*panels.batch, panels.simplify(line(row)), panels.column(panel, lane))
    store = Store(x, place, panels.element(panel, row, lane))
    inner = panels.some_vectors(lane, ZERO, panels.inside(panel, columns), (store,))
    return (panels.each(panel, (For(row, ZERO, const(n, INDEX), (inner,)),)),)
