"""Fused attention: softmax-weighted sums of rows, without the weights in memory.

Expects roots. Leaves one instead of those that are attention together
(`functrans.lower.grid.attention.softmax`): the kernel of a team, whose band goes over tiles of
queries:

    for each tile of queries, by a team:
        the queries' operands, into shared memory
        for each tile of keys, but for those that a mask leaves out
        (`functrans.lower.grid.attention.seen_tiles`):
            the products of queries and keys, in registers, from stretches of the keys' operands
            each thread: its scores, and the largest of them for each of its queries
            each thread: the largest score so far, of all threads with the query; its weights, into
                shared memory; its sums so far, rescaled to the new largest score
            the products of weights and values, added to the thread's sums
        each thread: its elements of the result

(Online softmax of Milakov and Gimelshein, 2018; tiles as in FlashAttention of Dao et al., 2022.)
The largest score so far replaces the largest score; when it grows, sums are rescaled by the
exponential of the difference. While all scores of a query are -inf, its weights are 0; if no other
score follows, the result is computed as the program does, which usually gives NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrans.loop.nodes import as_index, combine_pairwise
from functrans.loop.scalar import Scalar, const, convert, eq, where
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Let, Statement, Store, load, local
from functrans.lower.grid.attention.seen_tiles import left_out, where_seen
from functrans.lower.grid.attention.softmax import Attention
from functrans.lower.grid.attention.tiles import Element, PairTiles, counted, named_loads, team_root
from functrans.lower.grid.attention.warp_tiles import WarpPairTiles, in_halves
from functrans.lower.grid.dealing import filled
from functrans.lower.select.root import Root

LOWEST = float("-inf")


def fused_attention(attention: Attention, simplify: Simplifier) -> Root:
    """The root of attention, with the statements that compute it."""
    kernel = _Kernel(attention, simplify)
    last = attention.roots[-1]
    kept = [last, *(each.root for each in attention.statistics)]
    return team_root(
        [root.target for root in kept],
        kernel.tiles,
        kernel.body(),
        output=any(root.output for root in kept),
    )


class _Kernel:
    """Generates the statements of fused attention."""

    def __init__(self, attention: Attention, simplify: Simplifier) -> None:
        self.of = of = attention
        self.simplify = simplify
        self.substitute = simplify.substitute
        self.tiles = tiles = self._tiles()
        rows = of.tile.queries
        self.weights = tiles.of_pairs("weights", of.widest)
        self.parts = tiles.parts("parts", of.widest)
        self.largest = tiles.shared("largest", of.score.dtype, rows)
        self.scale = tiles.shared("scale", of.sum.dtype, rows)
        self.totals = tiles.shared("totals", of.total.dtype, rows)
        self.products = tiles.own("products", of.product.term.dtype, of.tile.scores)
        self.sums = tiles.sums(0, of.sum.dtype)

    def _tiles(self) -> PairTiles:
        """The tiles; on tensor cores if operands are half floats."""
        of, pairs, tile = self.of, self.of.pairs, self.of.tile
        product = in_halves(of.product, tile) if of.on_tensor_cores else None
        if product is None:
            return PairTiles(pairs, [of.product], [of.values], tile, self.simplify)
        return WarpPairTiles(pairs, [product], [of.values], tile, self.simplify)

    def body(self) -> tuple[Statement, ...]:
        tiles = self.tiles
        of_keys = (
            *tiles.multiplied(0, self.products),
            *([tiles.by_threads(self._hand_over)] if tiles.by_warps else []),
            tiles.by_threads(self._score),
            tiles.by_rows(self._grow),
            tiles.by_threads(self._weigh),
            tiles.by_rows(self._total),
            tiles.weighted(self.sums, self.weights),
        )
        hidden = left_out(self.of, self.simplify) if self.of.leaves_out else None
        statistics = [tiles.by_rows(self._statistics)] if self.of.statistics else []
        return tiles.in_the_grid(
            (
                tiles.by_threads(lambda thread: filled(self.sums.row, thread, 0)),
                tiles.by_rows(self._start),
                *tiles.load_rows(),
                *where_seen(tiles, hidden, of_keys),
                *statistics,
                *tiles.results(self.sums, self.weights, self._result),
            )
        )

    # -- scores and weights -----------------------------------------------------------------------

    def _start(self, query: Scalar) -> list[Statement]:
        """Initialise the statistics: there are no scores yet."""
        return [
            Store(self.largest, (query,), const(LOWEST, self.largest.dtype)),
            Store(self.totals, (query,), const(0, self.totals.dtype)),
        ]

    def _score(self, thread: Scalar) -> list[Statement]:
        """A thread's scores, and the largest of them for each of its queries."""
        keys = self.tiles.own_partners(thread)
        own, counter = self.tiles.one_row(thread)
        query = self.tiles.named(self.tiles.operands.row(own))
        product = self.of.product.fold
        values = []
        for key in keys:
            number = convert(load(self.weights, (own, key)), product.dtype)
            known = {**query.known, **self.tiles.operands.partner(key), product: number}
            (value,) = self.substitute([self.of.score], known)
            lowest = const(LOWEST, value.dtype)
            inside = self.tiles.operands.is_partner(key)
            values.append(self.simplify(where(inside, value, lowest)))
        body = [query.declared, *self._each(own, keys, values, values, "max", thread, self.weights)]
        handed_over = [] if self.tiles.by_warps else self._hand_over(thread)
        return [*handed_over, counted(counter, body)]

    def _hand_over(self, thread: Scalar) -> list[Statement]:
        """Store a thread's products for the other threads."""
        return self.tiles.handed_over(thread, self.products, self.weights)

    def _grow(self, query: Scalar) -> list[Statement]:
        """The largest of a query's scores so far, and the factor that rescales sums to it."""
        before = load(self.largest, (query,))
        now = local(before.dtype, "largest")
        old, new = (shift_of(self.of, x, self.simplify) for x in (before, now))
        grown = self.of.exponential((old - new,))
        scale = local(self.scale.dtype, "scale")
        one = const(1, scale.dtype)
        parts = self.tiles.found(self.parts, query, before.dtype)
        return [
            _let(now, combine_pairwise("max", [before, *parts])),
            _let(scale, where(is_lowest(before), one, convert(grown, scale.dtype))),
            Store(self.scale, (query,), scale),
            Store(self.largest, (query,), now),
        ]

    def _weigh(self, thread: Scalar) -> list[Statement]:
        """A thread's weights; its sums are rescaled to the new largest scores."""
        tiles = self.tiles
        keys = tiles.own_partners(thread)
        own, number = tiles.one_row(thread)
        query = tiles.named(tiles.operands.row(own))
        shift = local(self.of.shift.dtype, "shift")
        weights, weighted = [], []
        for key in keys:
            score = convert(load(self.weights, (own, key)), self.of.score.dtype)
            weight = self.of.exponential((convert(score, shift.dtype) - shift,))
            known = {**query.known, **tiles.operands.partner(key), self.of.weight: weight}
            weights.append(weight)
            weighted += self.substitute([self.of.weighted], known)
        body = [
            query.declared,
            _let(shift, shift_of(self.of, load(self.largest, (own,)), self.simplify)),
            *self._each(own, keys, weights, weighted, "add", thread, self.weights),
        ]
        return [counted(number, body), *self._scaled(thread)]

    def _scaled(self, thread: Scalar) -> list[Statement]:
        """A thread's sums, rescaled."""
        groups = range(self.sums.groups)
        own = [x for group in groups for x in self.tiles.sums_of(thread, self.sums, group)]
        rows = list(dict.fromkeys(each.row for each in own))
        declared, (names,) = named_loads([[load(self.scale, (row,)) for row in rows]])
        scales, sums = dict(zip(rows, names, strict=True)), self.sums.row
        places = [((thread, as_index(each.number)), scales[each.row]) for each in own]
        return [*declared, *(Store(sums, at, load(sums, at) * scale) for at, scale in places)]

    def _each(
        self,
        own: Scalar,
        keys: Sequence[Scalar],
        values: Sequence[Scalar],
        kept: Sequence[Scalar],
        op: str,
        thread: Scalar,
        target: Buffer,
    ) -> list[Statement]:
        """Statements that store values for a query and a thread's keys, and combine them."""
        names = tuple(local(value.dtype, "x") for value in values)
        replaced = dict(zip(values, names, strict=True))
        wide = self.weights.dtype
        combined = combine_pairwise(op, [convert(name, wide) for name in names])
        return [
            Let(names, tuple(values)),
            *(
                Store(target, (own, key), convert(x, target.dtype))
                for key, x in zip(keys, self.substitute(kept, replaced), strict=True)
            ),
            Store(self.parts, (own, self.tiles.across(thread)), combined),
        ]

    # -- results ----------------------------------------------------------------------------------

    def _total(self, query: Scalar) -> list[Statement]:
        """The sum of a query's weights so far."""
        before = load(self.totals, (query,))
        scale = convert(load(self.scale, (query,)), before.dtype)
        new = combine_pairwise("add", self.tiles.found(self.parts, query, before.dtype))
        return [Store(self.totals, (query,), before * scale + new)]

    def _statistics(self, query: Scalar) -> list[Statement]:
        """The stores of a query's statistics, which others read."""
        row = self.tiles.named(self.tiles.operands.row(query))
        largest = load(self.largest, (query,))
        known = {**row.known, self.of.largest: largest, self.of.total: self._whole(query)}
        body: list[Statement] = [row.declared]
        for each in self.of.statistics:
            value, *position = self.substitute([each.value, *each.position], known)
            body.append(Store(each.root.target, tuple(position), value))
        return list(self.tiles.if_row(query, body))

    def _nothing(self, query: Scalar) -> Scalar:
        """The program's result for a query all of whose scores are -inf."""
        largest = load(self.largest, (query,))
        (shift,) = self.substitute([self.of.shift], {self.of.largest: largest})
        return self.of.exponential((largest - shift,))

    def _whole(self, query: Scalar) -> Scalar:
        """The sum of all of a query's weights."""
        total = load(self.totals, (query,))
        nothing = convert(convert(self._nothing(query), self.sums.row.dtype), total.dtype)
        return where(is_lowest(load(self.largest, (query,))), nothing, total)

    def _result(self, element: Element) -> list[Statement]:
        """An element of the result."""
        query = element.own
        nothing = convert(self._nothing(query), element.sum.dtype)
        lowest = is_lowest(load(self.largest, (query,)))
        known = {
            **element.known,
            self.of.sum: where(lowest, nothing, element.sum),
            self.of.total: self._whole(query),
        }
        value, *position = self.substitute([self.of.made, *self.of.position], known)
        return [Store(self.of.roots[-1].target, tuple(position), value)]


def _let(name: Scalar, value: Scalar) -> Let:
    return Let((name,), (value,))


def is_lowest(x: Scalar) -> Scalar:
    """Whether a largest score is -inf: there is no other so far."""
    return eq(x, const(LOWEST, x.dtype))


def shift_of(of: Attention, largest: Scalar, simplify: Simplifier) -> Scalar:
    """The shift that is subtracted from scores: finite, even while all of them are -inf."""
    (shift,) = simplify.substitute([of.shift], {of.largest: largest})
    return where(is_lowest(largest), const(0, shift.dtype), shift)
