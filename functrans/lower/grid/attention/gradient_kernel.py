"""Sums over pairs that recompute the values of pairs: the gradients of attention.

Expects sums over the same partners (`functrans.lower.grid.attention.gradient_matching`). Leaves the
root of a single team kernel for all of them, whose band is over tiles of rows:

    for each tile of rows, by a team:
        load the rows' operands into shared memory
        for each tile of partners, except for those that a mask leaves out
        (`functrans.lower.grid.attention.seen_tiles`):
            for each product: multiply rows and partners, with accumulators in registers and
                              stretches of the partners' operands in shared memory; then store it
                              for each pair in shared memory
            each thread: compute the terms of its pairs from the products, in place
            for each sum: add the values, weighted by these terms, to the thread's accumulators
        each thread: compute its elements of the results

For the gradient with respect to queries, rows are queries; for those with respect to keys and
values, rows are keys. So each element belongs to one team, and no atomic updates are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from functrans.loop.grid import AttentionTile, Grid
from functrans.loop.nodes import combine_pairwise, identity
from functrans.loop.scalar import Scalar, const, convert, where
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Let, Statement, Store, load, local
from functrans.lower.grid.attention.gradient_matching import PairSum, PairSums
from functrans.lower.grid.attention.neutral_pairs import neutral_pairs
from functrans.lower.grid.attention.seen_tiles import LeftOut, where_seen
from functrans.lower.grid.attention.softmax import chosen_tile
from functrans.lower.grid.attention.tiles import Element, PairTiles, counted, team_root
from functrans.lower.grid.dealing import filled
from functrans.lower.grid.products.recognition import extents
from functrans.lower.select.root import Root


def fused_sums(sums: PairSums, grid: Grid, simplify: Simplifier) -> Root | None:
    """The root of the kernel that computes all of some sums; None if there is no tile for them."""
    if extents(sums.pairs.rows) < grid.narrowest_product:
        return None
    fewest = grid.fewest_tiles
    kernels = {tile: _Kernel(sums, tile, simplify, fewest) for tile in grid.attention_tiles}
    fitting = [
        tile
        for tile, kernel in kernels.items()
        if kernel.tiles.fit([each.row for each in kernel.sums], grid.shared, grid)
    ]
    tile = chosen_tile(fitting, sums.pairs, sums.work, grid)
    return None if tile is None else kernels[tile].root()


class _Kernel:
    """Generates the statements of sums over pairs."""

    def __init__(
        self,
        sums: PairSums,
        tile: AttentionTile,
        simplify: Simplifier,
        fewest_tiles: int,  # the fewest tiles of partners for which a mask is examined
    ) -> None:
        self.of = sums
        self.fewest_tiles = fewest_tiles
        self.simplify = simplify
        self.substitute = simplify.substitute
        values = [each.values for each in sums.sums if each.values is not None]
        self.tiles = tiles = PairTiles(sums.pairs, sums.products, values, tile, simplify)
        self.weighted = [each for each in sums.sums if each.values is not None]
        self.plain = [each for each in sums.sums if each.values is None]
        count = max(len(sums.products), len(self.weighted))
        self.numbers = [tiles.of_pairs("numbers", sums.widest) for _ in range(count)]
        """First the products, then the terms that are summed for each result."""
        self.parts = [tiles.parts("parts", each.number.dtype) for each in self.plain]
        self.products = [self._products(each.term.dtype) for each in sums.products]
        self.sums = [tiles.sums(i, each.sum.dtype) for i, each in enumerate(self.weighted)]

    def _products(self, dtype: object) -> Buffer:
        """Registers for the accumulators of products, which they use one after the other."""
        taken = [one for one in self.tiles.private if one.dtype == dtype]
        return taken[0] if taken else self.tiles.own("products", dtype, self.tiles.tile.scores)

    def root(self) -> Root:
        return team_root(
            [each.last.target for each in self.of.sums],
            self.tiles,
            self._body(),
            output=any(each.last.output for each in self.of.sums),
        )

    def _body(self) -> tuple[Statement, ...]:
        tiles = self.tiles
        of_partners: list[Statement] = []
        last = len(self.products) - 1
        for number, products in enumerate(self.products):
            of_partners += tiles.multiplied(number, products)
            if number < last:
                of_partners.append(tiles.by_threads(partial(self._handed_over, number)))
        of_partners.append(tiles.by_threads(self._numbers))
        of_partners += [
            tiles.weighted(sums, numbers)
            for sums, numbers in zip(self.sums, self.numbers, strict=False)
        ]
        results = [
            statement
            for each, sums, numbers in zip(self.weighted, self.sums, self.numbers, strict=False)
            for statement in tiles.results(sums, numbers, partial(self._result, each))
        ]
        if self.plain:
            results.append(tiles.by_rows(self._of_rows))
        body = [
            tiles.by_threads(self._start),
            *tiles.load_rows(),
            *where_seen(tiles, self._left_out(), of_partners),
            *results,
        ]
        return tiles.in_the_grid(body)

    def _left_out(self) -> LeftOut | None:
        """The pairs that a mask leaves out, if there are enough tiles to skip some."""
        tiles = -(-extents(self.of.pairs.partners) // self.tiles.tile.keys)
        return neutral_pairs(self.of, self.simplify) if tiles >= self.fewest_tiles else None

    def _start(self, thread: Scalar) -> list[Statement]:
        """Initialise the accumulators."""
        stores = [store for sums in self.sums for store in filled(sums.row, thread, 0)]
        across = self.tiles.across(thread)
        for each, parts in zip(self.plain, self.parts, strict=True):
            start = const(identity(each.op, parts.dtype), parts.dtype)
            stores += [Store(parts, (own, across), start) for own in self.tiles.own_rows(thread)]
        return stores

    def _handed_over(self, number: int, thread: Scalar) -> Sequence[Statement]:
        return self.tiles.handed_over(thread, self.products[number], self.numbers[number])

    def _numbers(self, thread: Scalar) -> list[Statement]:
        """Compute the terms of a thread's pairs."""
        tiles = self.tiles
        partners = tiles.own_partners(thread)
        own, counter = tiles.one_row(thread)
        row = tiles.named(tiles.operands.row(own))
        made: list[list[Scalar]] = []
        for partner in partners:
            known = {**row.known, **tiles.operands.partner(partner)}
            for of, place in zip(self.of.products, self.numbers, strict=False):
                known[of.fold] = convert(load(place, (own, partner)), of.fold.dtype)
            inside = tiles.operands.is_partner(partner)
            found = self.substitute([each.number for each in self.of.sums], known)
            made.append(
                [
                    self.simplify(where(inside, x, const(identity(each.op, x.dtype), x.dtype)))
                    for x, each in zip(found, self.of.sums, strict=True)
                ]
            )
        values = [x for found in made for x in found]
        names = tuple(local(x.dtype, "x") for x in values)
        count = len(self.of.sums)
        body: list[Statement] = [row.declared, Let(names, tuple(values))]
        places = dict(zip(self.weighted, self.numbers, strict=False))
        parts = dict(zip(self.plain, self.parts, strict=True))
        for number, each in enumerate(self.of.sums):
            of_each = names[number::count]
            if each in parts:
                combined = combine_pairwise(each.op, list(of_each))
                at = own, tiles.across(thread)
                body.append(Store(parts[each], at, combined, each.op))
                continue
            place = places[each]
            body += [
                Store(place, (own, partner), convert(x, place.dtype))
                for partner, x in zip(partners, of_each, strict=True)
            ]
        last = len(self.products) - 1
        handed = self._handed_over(last, thread) if self.products else ()
        return [*handed, counted(counter, body)]

    def _result(self, each: PairSum, element: Element) -> Sequence[Statement]:
        return self._stored(each, {**element.known, each.sum: element.sum})

    def _of_rows(self, own: Scalar) -> Sequence[Statement]:
        """Store results that have no columns."""
        row = self.tiles.named(self.tiles.operands.row(own))
        body: list[Statement] = [row.declared]
        for each, parts in zip(self.plain, self.parts, strict=True):
            found = combine_pairwise(each.op, self.tiles.found(parts, own, each.sum.dtype))
            body += self._stored(each, {**row.known, each.sum: found})
        return self.tiles.if_row(own, body)

    def _stored(self, each: PairSum, known: dict[Scalar, Scalar]) -> list[Statement]:
        value, *position = self.substitute([each.made, *each.position], known)
        return [Store(each.last.target, tuple(position), value)]
