"""Blocked Cholesky factorisation, and its derivative in reverse mode, by register tiles.

After G. H. Golub and C. F. Van Loan, "Matrix Computations" (2013), chapter 4.2, and I. Murray,
"Differentiation of the Cholesky decomposition" (2016), section 4. Both are substitutions
(`functrans.ops.linalg.compiled.elimination`) in which one thread computes each block on the
diagonal, and threads share the blocks beside it.
"""

from __future__ import annotations

from functrans.loop.failures import NOT_POSITIVE_DEFINITE
from functrans.loop.nodes import INDEX, ZERO, index, required
from functrans.loop.scalar import Scalar, const, eq, idiv, irem, minimum, sqrt, where
from functrans.loop.statements import Buffer, For, Statement, Store, local
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.linalg.compiled.elimination import (
    Elimination,
    Substitution,
    by_columns,
    in_strips,
)
from functrans.ops.linalg.compiled.panels import (
    Panels,
    batch_of,
    for_each,
    let,
    pack_columns,
    pack_rows,
    square,
)

Rows = list[list[Scalar]]


def factor(at: Emission) -> None:
    """Upper triangular factors of positive definite matrices, by blocks of rows.

    The panels contain the remaining matrix, which the factor overwrites.
    """
    a, result = at.operand(0), at.result()
    limits, batch = at.target[Elimination], batch_of(a.extents[:-2])
    panels = square(at, "factor", batch, a)
    rule = by_columns(panels, limits)
    block = index("block", rule.blocks)
    first = at.simplify(block * limits.block)
    behind = at.simplify(minimum(idiv(first + limits.block, panels.width), panels.most))
    beside = in_strips(
        panels, limits, behind, panels.count, lambda strip: rule.solved(first, strip)
    )  # fmt: skip
    steps = (_factors_of_block(rule, panels, first, behind), beside)
    body = (
        *pack_rows(panels, a, lambda i: i, upper=True),
        For(block, ZERO, const(rule.blocks, INDEX), steps),
        _factor_from(panels, result),
    )
    largest = max(panels.width, rule.height)
    at.call(
        for_each(batch, body), writes=(result, panels.memory), in_phases=True,
        largest_constant=largest,
    )  # fmt: skip


def cotangent(at: Emission) -> None:
    """Cotangents of positive definite matrices, from those of their lower factors.

    For the symmetric matrix ``P`` with the inner products of derivatives, ``<P, dA>``, the lower
    triangle of ``2 P L`` is the factor's cotangent. So rows of ``P`` follow from those below, by
    substitution with the transposed factor. Rows and columns are reversed, so that they follow from
    those above. The panels contain half of the remaining cotangent of the factor, which both
    triangles of ``P`` replace.
    """
    lower, ct, result = at.operand(0), at.operand(1), at.result()
    *leading, n, _ = lower.extents
    limits, batch = at.target[Elimination], batch_of(leading)
    matrix, panels = square(at, "matrix", batch, lower), square(at, "cotangent", batch, lower)
    rule = by_columns(matrix, limits)
    block = index("block", rule.blocks)
    first = at.simplify(block * limits.block)
    start = at.simplify(idiv(first, panels.width))
    own = panels.part(start, limits.block // panels.width, panels.count)

    def line(i: Scalar) -> Scalar:
        return n - 1 - i

    def solved(strip: Panels) -> Body:
        return (*rule.solved(first, strip), *_mirrored(strip, own))

    beside = in_strips(panels, limits, ZERO, start, solved)
    steps = (beside, *_cotangents_of_block(rule, panels, own, first))
    body = (
        *pack_columns(matrix, lower, line),
        *pack_rows(panels, ct, line, upper=False, scale=0.5),
        For(block, ZERO, const(rule.blocks, INDEX), steps),
        _cotangent_from(panels, result),
    )
    largest = max(panels.width, rule.height)
    at.call(
        for_each(batch, body), writes=(result, panels.memory, matrix.memory),
        in_phases=True, largest_constant=largest,
    )  # fmt: skip


# -- the factor ------------------------------------------------------------------------------------


def _factors_of_block(
    rule: Substitution, panels: Panels, first: Scalar, behind: Scalar
) -> Statement:
    """Factorise a block on the diagonal: each tile, and the elements to its right."""
    width, most = panels.width, rule.limits.block // panels.width
    tile, base = rule.tiles(first)
    own = rule.tile(base)
    number, offset = idiv(base, width), irem(base, width)
    diagonal = panels.part(number, 1, behind)
    from_it_on = panels.part(number, most, behind)
    others = panels.part(number + 1, most, behind)
    panel, _ = from_it_on.indices
    subtracted = rule.subtracted(own, from_it_on, panel, base, ZERO, base)
    rows = [
        [diagonal.element(ZERO, base + j, offset + i) for j in range(i + 1)]
        for i in range(rule.height)
    ]
    lets, found = _factor_of_tile(rows)
    stores = [
        diagonal.store(ZERO, base + j, offset + i, x)
        for i, row in enumerate(found)
        for j, x in enumerate(row)
    ]

    def solved(panels: Panels, panel: Scalar, lane: Scalar) -> Body:
        right = [panels.element(panel, base + i, lane) for i in range(rule.height)]
        return rule.triangle(own, right, panels, panel, lane, base)

    _, lane = diagonal.indices
    near = diagonal.some_vectors(
        lane, offset + rule.height, const(width, INDEX), solved(diagonal, ZERO, lane), rule.height
    )
    other, column = others.indices
    far = others.each(other, (others.vectors(column, solved(others, other, column)),))
    body = (from_it_on.each(panel, (subtracted,)), *lets, *stores, near, far)
    return rule.for_tiles(tile, first, body)


def _factor_of_tile(rows: Rows) -> tuple[Body, Rows]:
    """The lower factor of a few rows, in registers."""
    lets: list[Statement] = []
    found: Rows = []
    for i, row in enumerate(rows):
        found.append([])
        for j, x in enumerate(row):
            for k in range(j):
                x = x - found[i][k] * found[j][k]
            # as in LAPACK, NaN does not count as a failure
            x = x / found[j][j] if j < i else sqrt(required(~(x <= 0), x, NOT_POSITIVE_DEFINITE))
            found[i].append(local(x.dtype, "x"))
            lets.append(let(found[i][j], x))
    return tuple(lets), found


def _factor_from(panels: Panels, result: Buffer) -> For:
    """A parallel loop that copies the rows of the lower factor from panels."""
    n = result.extents[-1]
    (panel, lane), j = panels.indices, index("j", n)
    row = panels.column(panel, lane)
    place = (*panels.batch, row, j)
    value, zero = panels.element(panel, j, lane), const(0, result.dtype)
    body = (
        For(j, ZERO, panels.simplify(row + 1), (Store(result, place, value),), panels.lanes),
        For(j, panels.simplify(row + 1), const(n, INDEX), (Store(result, place, zero),),
            panels.lanes),
    )  # fmt: skip
    return panels.each(panel, (For(lane, ZERO, panels.inside(panel, n), body),), parallel=True)


# -- the cotangent ---------------------------------------------------------------------------------


def _cotangents_of_block(rule: Substitution, panels: Panels, block: Panels, first: Scalar) -> Body:
    """Cotangents of a block on the diagonal: left of each tile in the block, and then its own."""
    tile, base = rule.tiles(first)
    own = rule.tile(base)
    number, offset = idiv(base, panels.width), irem(base, panels.width)
    before = panels.part(block.first, block.most, number)
    diagonal = panels.part(number, 1, panels.count)
    panel, lane = before.indices
    steps = rule.solved_tile(own, before, panel, lane, base, ZERO)
    mirror = _mirrored_tile(rule, before, panel, lane, base, diagonal, offset)
    far = before.each(panel, (before.vectors(lane, steps), before.vectors(lane, mirror)))
    near = rule.solved_tile(own, diagonal, ZERO, lane, base, ZERO)
    mirror = _mirrored_tile(rule, diagonal, ZERO, lane, base, diagonal, offset)
    fold, sums = rule.sums(own, diagonal, ZERO, lane, ZERO, base)
    subtract = [diagonal.store(ZERO, base + i, lane, -x, "add") for i, x in enumerate(sums)]
    end = offset + rule.height
    lets, found = _cotangent_of_tile(
        [[own.element(k, own.columns[i]) for i in range(k + 1)] for k in range(rule.height)],
        [[diagonal.element(ZERO, base + i, offset + j) for j in range(i + 1)]
         for i in range(rule.height)],
    )  # fmt: skip
    stores = [
        diagonal.store(ZERO, base + i, offset + j, found[max(i, j)][min(i, j)])
        for i in range(rule.height)
        for j in range(rule.height)
    ]
    body = (
        far,
        diagonal.some_vectors(lane, ZERO, offset, near, rule.height),
        diagonal.some_vectors(lane, ZERO, offset, mirror, rule.height),
        diagonal.some_vectors(lane, offset, end, (fold, *subtract), rule.height),
        *lets,
        *stores,
    )
    return (rule.for_tiles(tile, first, body),)


def _cotangent_of_tile(
    lower: Rows,  # of the transposed factor
    left: Rows,  # half of the cotangents of the transposed factor
) -> tuple[Body, Rows]:
    """The cotangents of a few rows, in registers (Murray, section 4.1), in reverse order."""
    last = len(lower) - 1
    lets: list[Statement] = []

    def named(x: Scalar) -> Scalar:
        name = local(x.dtype, "x")
        lets.append(let(name, x))
        return name

    factor = [[lower[last - k][last - i] for k in range(i + 1)] for i in range(last + 1)]
    found = [[left[last - k][last - i] * 2 for k in range(i + 1)] for i in range(last + 1)]
    for k in reversed(range(last + 1)):
        below = range(k + 1, last + 1)
        for j in below:
            for i in range(j, last + 1):
                found[i][k] = found[i][k] - found[i][j] * factor[j][k]
                found[j][k] = found[j][k] - found[i][j] * factor[i][k]
        for j in below:
            found[j][k] = named(found[j][k] / factor[k][k])
            found[k][k] = found[k][k] - factor[j][k] * found[j][k]
        found[k][k] = named(found[k][k] / (2 * factor[k][k]))
    both = [[x if i == j else x * 0.5 for j, x in enumerate(row)] for i, row in enumerate(found)]
    turned = [[both[last - j][last - i] for j in range(i + 1)] for i in range(last + 1)]
    return tuple(lets), turned


def _mirrored(strip: Panels, block: Panels) -> Body:
    """Loops that copy the transpose of a block of rows into its own panels."""
    (panel, lane), (number, _) = strip.indices, block.indices
    column = strip.column(panel, lane)
    rows = [block.column(number, const(i, INDEX)) for i in range(block.width)]
    names = [local(block.memory.dtype, "x") for _ in rows]
    lets = [let(x, strip.element(panel, row, lane)) for x, row in zip(names, rows, strict=True)]
    stores = [block.store(number, column, const(i, INDEX), x) for i, x in enumerate(names)]
    inner = strip.some_vectors(lane, ZERO, const(strip.width, INDEX), (*lets, *stores), strip.width)
    return (strip.each(panel, (block.each(number, (inner,)),)),)


def _mirrored_tile(
    rule: Substitution, panels: Panels, panel: Scalar, lane: Scalar, base: Scalar, diagonal: Panels,
    offset: Scalar,
) -> Body:  # fmt: skip
    """Statements that copy an element of each of a tile's rows to above the diagonal."""
    column = panels.column(panel, lane)
    names = [local(panels.memory.dtype, "x") for _ in range(rule.height)]
    lets = [let(x, panels.element(panel, base + i, lane)) for i, x in enumerate(names)]
    stores = [diagonal.store(ZERO, column, offset + i, x) for i, x in enumerate(names)]
    return (*lets, *stores)


def _cotangent_from(panels: Panels, result: Buffer) -> For:
    """A parallel loop that copies the lower triangle, which represents both, from panels."""
    n = result.extents[-1]
    (panel, lane), row = panels.indices, index("row", n)
    column = panels.column(panel, lane)
    x = panels.element(panel, row, lane)
    value = where(eq(row, column), x, where(row < column, x * 2, 0))
    place = tuple(map(panels.simplify, (n - 1 - row, n - 1 - column)))
    store = Store(result, (*panels.batch, *place), value)
    inner = panels.some_vectors(lane, ZERO, panels.inside(panel, n), (store,))
    return panels.each(panel, (For(row, ZERO, const(n, INDEX), (inner,)),), parallel=True)
