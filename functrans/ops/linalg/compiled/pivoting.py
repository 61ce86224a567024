"""Blocked LU factorisation with row exchanges, by register tiles.

After G. H. Golub and C. F. Van Loan, "Matrix Computations" (2013), chapter 3.4: a panel of columns
is factorised, and is subtracted, by substitution (`functrans.ops.linalg.compiled.elimination`),
from all later panels, which threads share. Pivots are LAPACK's: the first of the largest.
"""

from __future__ import annotations

import numpy as np

from functrans.loop.nodes import INDEX, ZERO, bounded, index
from functrans.loop.scalar import Scalar, const, convert, eq, idiv, minimum, where
from functrans.loop.statements import Buffer, For, If, Reduce, Statement, Store, buffer, load, local
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.linalg.compiled.elimination import Elimination, Substitution, Tile, in_strips
from functrans.ops.linalg.compiled.panels import Panels, batch_of, for_each, in_tiles, let


def is_profitable(at: Emission, a: Buffer) -> bool:
    """Whether this factorisation is used instead of LAPACK's."""
    target, limits, n = at.target, at.target[Elimination], a.extents[-1]
    if "block_products" not in target.stages or target.in_loop:
        return False
    is_cached = n * n * a.dtype.itemsize <= limits.largest_pivoted
    return n >= limits.fewest_pivoted and is_cached


def factorise(at: Emission, a: Buffer, lower_upper: Buffer, pivots: Buffer, info: Buffer) -> None:
    """Compute the factors of the transposes of matrices, in the form of LAPACK's ``getrf``."""
    *leading, n, _ = a.extents
    limits, batch = at.target[Elimination], batch_of(leading)
    height = min(limits.height, 2 * at.target.lanes(a.dtype.itemsize))
    panels = in_tiles(at, "pivoted", batch, a, height)
    width, block = panels.width, index("block", panels.most)
    first = at.simplify(block * width)
    factors = buffer("factors", a.dtype, (width,))

    def behind(strip: Panels) -> Body:
        return _eliminated(panels, strip, block, height, limits, pivots)

    body = (
        Store(info, (*batch, ZERO), const(0, info.dtype)),
        in_strips(panels, limits, ZERO, panels.count, lambda strip: _packed(strip, a)),
        For(block, ZERO, panels.count, (
            _factors_of_panel(panels.part(block, 1, panels.count), first, n, factors, pivots, info),
            in_strips(panels, limits, at.simplify(block + 1), panels.count, behind),
        )),
        in_strips(
            panels, limits, ZERO, panels.count, lambda strip: _out(strip, lower_upper, pivots)
        ),
    )  # fmt: skip
    at.call(
        for_each(batch, body), stack=(factors,), in_phases=True,
        writes=(lower_upper, pivots, info, panels.memory), largest_constant=max(width, height),
    )  # fmt: skip


def _packed(panels: Panels, source: Buffer) -> Body:
    """Loops that pack rows as columns; after the last one, they are copies of it."""
    n, width = source.extents[-1], panels.width
    (panel, lane), k = panels.indices, index("k", n)
    last = [minimum(panels.column(panel, const(i, INDEX)), n - 1) for i in range(width)]
    lines = [local(INDEX, "at") for _ in last]
    lets = [let(x, panels.simplify(i)) for x, i in zip(lines, last, strict=True)]
    stores = [
        panels.store(panel, k, const(i, INDEX), load(source, (*panels.batch, line, k)))
        for i, line in enumerate(lines)
    ]
    body: Body = (*lets, For(k, ZERO, const(n, INDEX), tuple(stores), panels.lanes))
    if panels.rows > n:
        row = index("row", panels.rows)
        zero = panels.store(panel, row, lane, const(0, source.dtype))
        clear = For(
            row, const(n, INDEX), const(panels.rows, INDEX), (panels.vectors(lane, (zero,)),)
        )
        body = (*body, clear)
    return (panels.each(panel, body),)


def _exchanged(panels: Panels, panel: Scalar, row: Scalar, other: Scalar) -> For:
    """A loop that exchanges two rows."""
    _, lane = panels.indices
    x, y = (local(panels.memory.dtype, name) for name in "xy")
    body = (
        let(x, panels.element(panel, row, lane)),
        let(y, panels.element(panel, other, lane)),
        panels.store(panel, row, lane, y),
        panels.store(panel, other, lane, x),
    )
    return panels.vectors(lane, body)


def _exchanges(panels: Panels, panel: Scalar, start: Scalar, stop: Scalar, pivots: Buffer) -> For:
    """A loop that applies the row exchanges of other panels."""
    row, other = index("row", pivots.extents[-1]), local(INDEX, "other")
    place = convert(load(pivots, (*panels.batch, row)), INDEX) - 1
    held = bounded(place, pivots.extents[-1], "clip")
    body = (let(other, held), _exchanged(panels, panel, row, other))
    return For(row, panels.simplify(start), panels.simplify(stop), body)


def _factors_of_panel(
    own: Panels, first: Scalar, n: int, factors: Buffer, pivots: Buffer, info: Buffer
) -> Statement:
    """Factorise a panel, column by column."""
    dtype, simplify = own.memory.dtype, own.simplify
    (_, lane), j, row = own.indices, index("j", own.width), index("row", n)
    diagonal, stop = simplify(first + j), const(n, INDEX)
    x = own.element(ZERO, row, j)
    largest, pivot, zoom, scale, factor = (
        local(dtype, name) for name in ("largest", "pivot", "zoom", "scale", "factor")
    )
    place, other = local(INDEX, "place"), local(INDEX, "other")
    loop = (row, diagonal, stop)
    # NaNs have no largest element: any row will do
    number = where(eq(abs(x), largest), row, n)
    status = (*own.batch, ZERO)
    limits = np.finfo(dtype)
    above = own.element(ZERO, diagonal, lane)
    one, zero = const(1, dtype), const(0, dtype)
    others = where(eq(lane, j), zero, own.element(ZERO, row, lane))
    eliminate = own.vectors(
        lane, (own.store(ZERO, row, lane, others + factor * load(factors, (lane,))),)
    )
    body = (
        Reduce((largest,), ("max",), (abs(x),), (loop,), lanes=2*own.lanes),
        Reduce((place,), ("min",), (number,), (loop,), lanes=2*own.lanes),
        let(other, bounded(place, n, "clip")),
        Store(pivots, (*own.batch, diagonal), convert(other + 1, pivots.dtype)),
        _exchanged(own, ZERO, diagonal, other),
        let(pivot, own.element(ZERO, diagonal, j)),
        If(eq(pivot, 0) & eq(load(info, status), 0),
           (Store(info, status, convert(diagonal + 1, info.dtype)),)),
        # the reciprocal of a subnormal number overflows
        let(zoom, where(abs(pivot) < float(limits.tiny), 2.0 ** (limits.nmant + 2), one)),
        let(scale, where(eq(pivot, 0), zero, 1 / (pivot * zoom))),
        own.vectors(lane, (
            Store(factors, (lane,), where(eq(lane, j), one, where(lane > j, -above, zero))),
        )),
        For(row, simplify(diagonal + 1), stop, (let(factor, x * zoom * scale), eliminate)),
    )  # fmt: skip
    return For(j, ZERO, simplify(minimum(n - first, own.width)), body)


def _eliminated(
    panels: Panels, strip: Panels, block: Scalar, height: int, limits: Elimination, pivots: Buffer
) -> Body:
    """Exchange the rows of later panels, solve those of the block, and subtract their product."""
    width, simplify = panels.width, panels.simplify
    first = simplify(block * width)
    (panel, lane), behind = strip.indices, simplify(first + width)

    def tile(base: Scalar) -> Tile:
        def element(number: int, k: Scalar) -> Scalar:
            return panels.element(block, simplify(base + number), simplify(k - first))

        return Tile((), element, [simplify(base + i) for i in range(height)])

    itemsize = panels.memory.dtype.itemsize
    rule = Substitution(tile, panels.rows, height, True, limits, itemsize, simplify)
    solved, below = index("tile", width // height), index("tile", panels.rows // height)
    base = simplify(first + solved * height)
    steps = rule.solved_tile(tile(base), strip, panel, lane, base, first)
    base = simplify(behind + below * height)
    subtract = rule.subtracted(tile(base), strip, panel, base, first, behind)
    body = (
        _exchanges(strip, panel, first, behind, pivots),
        For(solved, ZERO, const(width // height, INDEX), (strip.vectors(lane, steps),)),
        For(below, ZERO, simplify(idiv(panels.rows - behind, height)), (subtract,)),
    )
    return (strip.each(panel, body),)


def _out(panels: Panels, result: Buffer, pivots: Buffer) -> Body:
    """Loops that apply the row exchanges of later panels, and copy columns of panels to rows."""
    n = result.extents[-1]
    (panel, lane), k = panels.indices, index("k", n)
    behind = minimum(panels.column(panel, ZERO) + panels.width, n)
    store = Store(
        result, (*panels.batch, panels.column(panel, lane), k), panels.element(panel, k, lane)
    )
    columns = For(k, ZERO, const(n, INDEX), (store,), panels.lanes)
    body = (
        _exchanges(panels, panel, behind, const(n, INDEX), pivots),
        For(lane, ZERO, panels.inside(panel, n), (columns,)),
    )
    return (panels.each(panel, body),)
