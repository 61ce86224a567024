"""Fused attention on tensor cores, with the scores of a warp's queries in its registers.

For half floats, in both products. The loops are those of
`functrans.lower.grid.attention.softmax_kernel`, but each warp has 16 queries, and all keys of a
tile:

    for each tile of queries, by a team:
        the queries' operands, into shared memory
        for each tile of keys, but for those that a mask leaves out:
            start the copies of the values, and of the keys' operands (if there is no mask, these
            have been copied meanwhile)
            the products of a warp's queries and all keys, as accumulators in registers
            each thread: its scores, in their place, and the largest of them for each of its queries
            each thread: the largest so far of the four threads that share a query; its weights,
                         into shared memory; what it has summed so far, scaled to the new largest
            the products of weights and values, added to the thread's sums
        each thread: its elements of the result

A thread holds two queries, with a quarter of the keys of each, as accumulators of fragments are
dealt (`functrans.loop.fragments`). It keeps the sum of its own weights, and sums are combined once,
at the end. (FlashAttention-2 of Dao, 2023, divides queries among warps in this way.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functrans.loop import fragments
from functrans.loop.fragments import ROWS, WARP
from functrans.loop.grid import Grid
from functrans.loop.nodes import ZERO, as_index, combine_pairwise
from functrans.loop.scalar import BOOL, Scalar, const, convert, fast_exp, minimum, where
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Address,
    Await,
    Buffer,
    Let,
    MatrixMultiply,
    Panel,
    Statement,
    Store,
    load,
    local,
    where_true,
)
from functrans.lower.grid.attention.operands import Known, padding
from functrans.lower.grid.attention.seen_tiles import left_out, where_seen
from functrans.lower.grid.attention.softmax import Attention, chosen_tile
from functrans.lower.grid.attention.softmax_kernel import LOWEST, is_lowest, shift_of
from functrans.lower.grid.attention.tiles import PairTiles, team_root
from functrans.lower.grid.attention.warp_operands import Side, WarpOperands
from functrans.lower.grid.attention.warp_tiles import halves_of_product, in_half
from functrans.lower.grid.dealing import filled
from functrans.lower.grid.products.recognition import SINGLE, extents
from functrans.lower.nest.linearisation import delinearised
from functrans.lower.select.root import Root, extent_of

SHARING = 4
"""The threads that share a query."""


def in_registers(attention: Attention, grid: Grid, simplify: Simplifier) -> Root | None:
    """The root of attention whose scores are in the registers of warps; None if it cannot be."""
    product = halves_of_product(attention.product)
    halves = in_half(attention.values, attention.weighted)
    if product is None or halves is None or attention.widest != SINGLE:
        return None
    values, weighted = halves
    if product.terms % fragments.terms(weighted.dtype):
        return None
    of = attention._replace(product=product, values=values, weighted=weighted)
    tiles = grid.warp_attention_tiles
    kernels = {tile: _Kernel(of._replace(tile=tile), simplify) for tile in tiles}
    fitting = [
        tile
        for tile, kernel in kernels.items()
        if kernel.tiles.fit([kernel.sums], grid.largest_shared, grid)
    ]
    tile = chosen_tile(fitting, of.pairs, product.terms + extents(values.columns), grid)
    return None if tile is None else kernels[tile].root()


class _Tiles(PairTiles):
    """Tiles of pairs of which each warp has 16 rows, and all partners of a tile."""

    operands: WarpOperands
    operands_as = WarpOperands

    def of_warp(self, thread: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """The first row of a thread's warp; its own row and column in each fragment."""
        warp, lane = self.operands.divided(thread, WARP)
        quotient, rest = self.operands.divided(lane, SHARING)
        return self.simplify(warp * ROWS), quotient, rest

    def own_rows(self, thread: Scalar) -> list[Scalar]:
        first, quotient, _ = self.of_warp(thread)
        return [self.simplify(first + row) for row in fragments.own_rows(quotient, ROWS)]

    def own_partners(self, thread: Scalar) -> list[Scalar]:
        return self.own_columns(thread, self.tile.keys)

    def own_columns(self, thread: Scalar, count: int) -> list[Scalar]:
        """The columns that a thread holds, of a number of columns."""
        *_, rest = self.of_warp(thread)
        return [self.simplify(each) for each in fragments.own_columns(rest, count)]

    def multiplied_by_warp(
        self, sums: Buffer, thread: Scalar, left: Sequence[Panel], right: Side
    ) -> list[Statement]:
        """The product of a warp's rows and all owners of an operand, added to accumulators."""
        each = fragments.terms(right.tile.dtype)
        return [
            MatrixMultiply(
                Address(sums, (thread, ZERO)), panel, right.panel(ZERO, right.owners, k * each)
            )
            for k, panel in enumerate(left)
        ]


class _Kernel:
    """Generates the statements of the kernel."""

    def __init__(
        self,
        attention: Attention,  # with half floats as operands and as weights
        simplify: Simplifier,
    ) -> None:
        self.of = of = attention
        self.simplify = simplify
        self.substitute = simplify.substitute
        self.tiles = tiles = _Tiles(of.pairs, [of.product], [of.values], of.tile, simplify)
        self.operands = tiles.operands
        half, rows = of.weighted.dtype, of.tile.queries
        self.each = fragments.terms(half)
        self.hidden = left_out(of, simplify) if of.leaves_out else None
        sides = self.operands.partners_side, self.operands.values_side
        self.ahead = self.hidden is None and all(side.is_copied for side in sides)
        """Whether keys are copied while the previous tile is weighted: then none may be skipped."""
        width = self.operands.values_side.owners
        self.scores = tiles.own("scores", SINGLE, ROWS * of.tile.keys // WARP)
        self.sums = tiles.own("sums", SINGLE, ROWS * width // WARP)
        self.own_largest = tiles.own("largest", SINGLE, 2)
        self.own_totals = tiles.own("totals", of.total.dtype, 2)
        self.parts = tiles.shared("parts", SINGLE, rows, SHARING)
        self.weights = tiles.shared("weights", half, rows, of.tile.keys + padding(half, of.tile))

    def root(self) -> Root:
        """The root of the kernel."""
        last = self.of.roots[-1]
        return team_root([last.target], self.tiles, self.body(), output=last.output)

    def body(self) -> tuple[Statement, ...]:
        tiles = self.tiles
        of_keys = [tiles.by_threads(make) for make in (self._load, self._score, self._weigh)]
        of_keys.append(tiles.by_threads(self._sum))
        return tiles.in_the_grid(
            (
                tiles.by_threads(self._start),
                *where_seen(tiles, self.hidden, of_keys),
                tiles.by_threads(self._hand_over),
                tiles.by_threads(self._result),
            )
        )

    # -- scores and weights -----------------------------------------------------------------------

    def _start(self, thread: Scalar) -> list[Statement]:
        """Initialise sums and scores, and load the queries' operands."""
        queries, keys = self.operands.rows_side, self.operands.partners_side
        return [
            *filled(self.sums, thread, 0),
            *filled(self.own_largest, thread, LOWEST),
            *filled(self.own_totals, thread, 0),
            *self.operands.moved(queries, thread),
            *([Await(0)] if queries.is_copied else []),
            *([*self.operands.moved(keys, thread, ZERO), Await(1)] if self.ahead else []),
        ]

    def _load(self, thread: Scalar) -> list[Statement]:
        """The keys' operands, which are waited for, and the values, which are not."""
        keys, values = self.operands.partners_side, self.operands.values_side
        behind = [Await(1)] if values.is_copied else [Await(0)] if keys.is_copied else []
        between = [Await(1)] if values.is_copied else []
        first = [] if self.ahead else [*self.operands.moved(keys, thread), *between]
        return [*first, *self.operands.moved(values, thread), *behind]

    def _score(self, thread: Scalar) -> list[Statement]:
        """A thread's scores, and the largest of them for each of its queries."""
        queries, keys = self.operands.rows_side, self.operands.partners_side
        first, *_ = self.tiles.of_warp(thread)
        left = [queries.panel(first, ROWS, k) for k in range(0, queries.terms, self.each)]
        body: list[Statement] = filled(self.scores, thread, 0)
        body += self.tiles.multiplied_by_warp(self.scores, thread, left, keys)
        product = self.of.product.fold
        for row, numbers, places in self._rows_of(thread):
            query = self.tiles.named(self.operands.row(row))
            values = []
            for number, key in zip(numbers, places, strict=True):
                found = convert(load(self.scores, (thread, number)), product.dtype)
                known = {**query.known, **self.operands.partner(key), product: found}
                (value,) = self.substitute([self.of.score], known)
                inside = self.operands.is_partner(key)
                value = where(inside, value, const(LOWEST, value.dtype))
                values.append(self.simplify(convert(value, SINGLE)))
            names = tuple(local(SINGLE, "score") for _ in values)
            body += [
                query.declared,
                Let(names, tuple(values)),
                *(
                    Store(self.scores, (thread, number), name)
                    for number, name in zip(numbers, names, strict=True)
                ),
                self._shared_part(thread, row, combine_pairwise("max", list(names))),
            ]
        return body

    def _weigh(self, thread: Scalar) -> list[Statement]:
        """A thread's weights; its sums are scaled to the new largest scores."""
        scales, body = [], self._next_keys(thread)
        for number, (row, numbers, places) in enumerate(self._rows_of(thread)):
            scale, more = self._grown(thread, row, as_index(number))
            scales.append(scale)
            body += more
            body += self._weights(thread, row, numbers, places, as_index(number), scale)
        own = fragments.own_sums(ROWS, self.operands.values_side.owners)
        for number, (which, _) in enumerate(own):
            place = thread, as_index(number)
            body.append(Store(self.sums, place, load(self.sums, place) * scales[which]))
        behind = 1 if self.ahead else 0
        return [*body, *([Await(behind)] if self.operands.values_side.is_copied else [])]

    def _next_keys(self, thread: Scalar) -> list[Statement]:
        """The copies of the next tile's keys, which overwrite those that are no longer needed."""
        if not self.ahead:
            return []
        block = self.operands.partner_block
        following = minimum(block + 1, extent_of(block) - 1)  # the last one is copied once more
        return self.operands.moved(self.operands.partners_side, thread, following)

    def _grown(self, thread: Scalar, row: Scalar, own: Scalar) -> tuple[Scalar, list[Statement]]:
        """The factor that scales a query's sums to its new largest score, which is stored."""
        before = load(self.own_largest, (thread, own))
        parts = [load(self.parts, (row, as_index(k))) for k in range(SHARING)]
        now, scale = local(SINGLE, "largest"), local(SINGLE, "scale")
        old, new = (self._shift(x) for x in (before, now))
        grown = self._exponential(convert(old, SINGLE) - convert(new, SINGLE))
        return scale, [
            Let((now,), (combine_pairwise("max", [before, *parts]),)),
            Let((scale,), (where(is_lowest(before), const(1, SINGLE), grown),)),
            Store(self.own_largest, (thread, own), now),
        ]

    def _weights(
        self,
        thread: Scalar,
        row: Scalar,
        numbers: Sequence[Scalar],
        places: Sequence[Scalar],
        own: Scalar,
        scale: Scalar,
    ) -> list[Statement]:
        """A thread's weights of a query, stored for the products, and their sum."""
        query = self.tiles.named(self.operands.row(row))
        shift = local(self.of.shift.dtype, "shift")
        weighted = []
        for number, key in zip(numbers, places, strict=True):
            score = convert(load(self.scores, (thread, number)), self.of.score.dtype)
            weight = self._exponential(convert(score, shift.dtype) - shift)
            known = {**query.known, **self.operands.partner(key), self.of.weight: weight}
            weighted += self.substitute([self.of.weighted], known)
        names = tuple(local(x.dtype, "weight") for x in weighted)
        total = load(self.own_totals, (thread, own))
        more = combine_pairwise("add", [convert(name, total.dtype) for name in names])
        largest = load(self.own_largest, (thread, own))
        return [
            query.declared,
            Let((shift,), (self._shift(largest),)),
            Let(names, tuple(weighted)),
            *(
                Store(self.weights, (row, key), name)
                for key, name in zip(places, names, strict=True)
            ),
            Store(self.own_totals, (thread, own), total * convert(scale, total.dtype) + more),
        ]

    def _shift(self, largest: Scalar) -> Scalar:
        """The shift that is subtracted from scores, given the largest one, here a float32."""
        return shift_of(self.of, convert(largest, self.of.score.dtype), self.simplify)

    def _exponential(self, x: Scalar) -> Scalar:
        """The exponential; where weights are float16, their rounding hides a small error."""
        of = self.of.exponential
        if of.result.dtype != np.float16:
            return of((x,))
        return convert(fast_exp(convert(x, SINGLE)), x.dtype)

    def _sum(self, thread: Scalar) -> list[Statement]:
        """The products of weights and values, added to the thread's sums."""
        first, *_ = self.tiles.of_warp(thread)
        line = self.weights.extents[-1]
        left = [
            Panel(Address(self.weights, (first, as_index(k))), ROWS, line, 1)
            for k in range(0, self.of.tile.keys, self.each)
        ]
        return self.tiles.multiplied_by_warp(self.sums, thread, left, self.operands.values_side)

    def _rows_of(self, thread: Scalar) -> list[tuple[Scalar, list[Scalar], list[Scalar]]]:
        """For each of a thread's rows, the numbers of its scores and their keys."""
        keys = self.tiles.own_partners(thread)
        found: list[tuple[Scalar, list[Scalar], list[Scalar]]] = [
            (row, [], []) for row in self.tiles.own_rows(thread)
        ]
        for number, (row, column) in enumerate(fragments.own_sums(ROWS, self.of.tile.keys)):
            found[row][1].append(as_index(number))
            found[row][2].append(keys[column])
        return found

    def _shared_part(self, thread: Scalar, row: Scalar, value: Scalar) -> Store:
        """A thread's part of a reduction over a query's keys."""
        *_, rest = self.tiles.of_warp(thread)
        return Store(self.parts, (row, rest), convert(value, SINGLE))

    # -- results ----------------------------------------------------------------------------------

    def _hand_over(self, thread: Scalar) -> list[Statement]:
        """A thread's sums of weights, for the threads that share its queries."""
        # (no copy is under way when a block ends)
        return [
            *([Await(0)] if self.ahead else []),
            *(
                self._shared_part(thread, row, load(self.own_totals, (thread, as_index(number))))
                for number, row in enumerate(self.tiles.own_rows(thread))
            ),
        ]

    def _result(self, thread: Scalar) -> list[Statement]:
        """A thread's elements of the result."""
        of, width = self.of, self.operands.values_side.owners
        columns = self.tiles.own_columns(thread, width)
        body: list[Statement] = []
        for which, row in enumerate(self.tiles.own_rows(thread)):
            largest = load(self.own_largest, (thread, as_index(which)))
            largest = convert(largest, of.score.dtype)
            (shift,) = self.substitute([of.shift], {of.largest: largest})
            parts = [load(self.parts, (row, as_index(k))) for k in range(SHARING)]
            total = combine_pairwise("add", [convert(x, of.total.dtype) for x in parts])
            is_nothing, nothing = local(BOOL, "is_nothing"), local(SINGLE, "nothing")
            whole, query = local(of.total.dtype, "whole"), self.tiles.named(self.operands.row(row))
            stores: list[Statement] = []
            for number, (own_row, column) in enumerate(fragments.own_sums(ROWS, width)):
                if own_row == which:
                    found = load(self.sums, (thread, as_index(number)))
                    found = where(is_nothing, nothing, found)
                    known = {**query.known, of.sum: found, of.total: whole}
                    stores += self._stored(known, columns[column])
            body += [
                query.declared,
                Let((is_nothing,), (is_lowest(largest),)),
                # the program's result for a query whose scores are all -inf
                Let((nothing,), (convert(self._exponential(largest - shift), SINGLE),)),
                Let((whole,), (where(is_nothing, convert(nothing, of.total.dtype), total),)),
                *self.tiles.if_row(row, stores),
            ]
        return body

    def _stored(self, known: Known, column: Scalar) -> Sequence[Statement]:
        """An element of the result in a column, if that exists."""
        columns = self.of.values.columns
        known = known | delinearised(columns, column, self.simplify)
        value, *position = self.substitute([self.of.made, *self.of.position], known)
        store = Store(self.of.roots[-1].target, tuple(position), value)
        return where_true(self.simplify(column < extents(columns)), [store])
