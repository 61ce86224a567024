"""Tiles of pairs: products of rows and partners in registers, and sums that are weighted by pairs.

A team has a tile of rows, and processes their partners tile by tile. Values of pairs are never in
memory: each thread has a small tile of products, and one of sums for as many rows. This file
assigns rows, partners and columns to threads, multiplies, accumulates and exchanges results; the
values of pairs are defined by the kernels (`functrans.lower.grid.attention.softmax_kernel`,
`functrans.lower.grid.attention.gradient_kernel`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

from functrans.loop.grid import AttentionTile, Grid
from functrans.loop.nodes import INDEX, ZERO, as_index, index
from functrans.loop.scalar import Scalar, convert, minimum
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Buffer,
    For,
    Let,
    Statement,
    Store,
    buffer,
    in_loops,
    load,
    local,
    where_true,
)
from functrans.loop.walk import Body, loaded
from functrans.lower.grid.attention.operands import Known, Operands
from functrans.lower.grid.attention.pairs import PairProduct, Pairs, Values
from functrans.lower.grid.dealing import deal, filled
from functrans.lower.grid.products.recognition import extents
from functrans.lower.nest.linearisation import delinearised
from functrans.lower.select.root import TeamKernel, extent_of
from functrans.records import NamedTuple


class Place(NamedTuple):
    """A row or a column: names of its indices."""

    known: Known
    declared: Let


class Sums(NamedTuple):
    """The accumulators of a thread, in registers: for each of its rows, those of its columns."""

    row: Buffer
    number: int  # the index of the values that are summed
    groups: int  # the number of groups of columns of a thread


class Own(NamedTuple):
    """An element that a thread holds in registers: its register, its row, its column in a group."""

    number: int
    row: Scalar
    column: Scalar


class Element(NamedTuple):
    """An element of a result: its row in the tile, its indices, and its sum."""

    own: Scalar
    known: Known
    sum: Scalar


class PairTiles:
    """Generates the statements that all kernels of pairs share."""

    operands_as: type[Operands] = Operands

    by_warps = False
    """Whether a thread's products may be those of other threads' rows and partners."""

    def __init__(
        self,
        pairs: Pairs,
        products: Sequence[PairProduct],
        values: Sequence[Values],
        tile: AttentionTile,
        simplify: Simplifier,
    ) -> None:
        self.pairs = pairs
        self.products = products
        self.values = values
        self.tile = tile
        self.simplify = simplify
        self.substitute = simplify.substitute
        self.operands = self.operands_as(pairs, products, values, tile, simplify)
        self.scratch: list[Buffer] = self.operands.scratch
        self.private: list[Buffer] = []

    # -- rows of shared memory, and of registers --------------------------------------------------

    def shared(self, label: str, dtype: object, *shape: int) -> Buffer:
        """A row of shared memory."""
        self.scratch.append(buffer(label, dtype, shape))
        return self.scratch[-1]

    def of_pairs(self, label: str, dtype: object) -> Buffer:
        """A row with an element for each pair of a tile."""
        return self.shared(label, dtype, self.tile.queries, self.tile.keys + self.tile.padding)

    def parts(self, label: str, dtype: object) -> Buffer:
        """A row with an element for each of the threads that share a row of the tile."""
        return self.shared(label, dtype, self.tile.queries, self.tile.across)

    def own(self, label: str, dtype: object, count: int) -> Buffer:
        """A row that is private to each thread: registers."""
        self.private.append(self.shared(label, dtype, self.tile.threads, count))
        return self.private[-1]

    def sums(self, number: int, dtype: object) -> Sums:
        """The accumulators of weighted values of a thread."""
        groups = self.operands.groups[number]
        return Sums(self.own("sums", dtype, groups * self.tile.scores), number, groups)

    def fit(self, sums: Sequence[Buffer], room: int, grid: Grid) -> bool:
        """Whether rows fit into shared memory, and sums into a thread's registers."""
        shared = sum(row.nbytes for row in self.scratch if row not in self.private)
        own = sum(row.nbytes for row in sums) // self.tile.threads
        return shared <= room and own <= grid.registers

    # -- loops ------------------------------------------------------------------------------------

    def in_the_grid(self, body: Sequence[Statement]) -> Body:
        """The statements of a team, in the loops over all tiles of rows."""
        counters = [*self.pairs.batch, self.operands.row_block]
        return in_loops([replace(counted(x, ()), parallel=True) for x in counters], tuple(body))

    def over_partners(self, body: Sequence[Statement]) -> For:
        """The loop of a team over tiles of partners."""
        return counted(self.operands.partner_block, body)

    def dealt(self, counter: Scalar, body: Sequence[Statement]) -> For:
        return deal(counter, body, self.tile.threads)

    def by_threads(self, make: Callable[..., Sequence[Statement]], *args: Scalar) -> For:
        """The loop over the threads of the team."""
        thread = index("thread", self.tile.threads)
        return self.dealt(thread, make(thread, *args))

    def by_rows(self, make: Callable[[Scalar], Sequence[Statement]]) -> For:
        """Statements that are executed once for each row of the tile."""
        row = index("query", self.tile.queries)
        return self.dealt(row, make(row))

    def in_stretches(self, count: int, *made: Callable[..., Sequence[Statement]]) -> For:
        """The loop over stretches of terms, for all threads."""
        stretch = index("stretch", -(-count // self.tile.depth))
        return counted(stretch, [self.by_threads(make, stretch) for make in made])

    # -- products ---------------------------------------------------------------------------------

    def load_rows(self) -> list[Statement]:
        """The operands of the tile's rows, into shared memory."""
        return [
            self.in_stretches(each.terms, self.operands.of_rows(number))
            for number, each in enumerate(self.products)
        ]

    def multiplied(self, number: int, products: Buffer) -> list[Statement]:
        """One of the products, for the pairs of a tile."""
        of, operands = self.products[number], self.operands.of_partners(number)
        return [
            self.by_threads(lambda thread: filled(products, thread, of.start)),
            self.in_stretches(of.terms, operands, partial(self._terms, number, products)),
        ]

    def _terms(
        self, number: int, products: Buffer, thread: Scalar, stretch: Scalar
    ) -> list[Statement]:
        """The terms of a stretch, added to the products of a thread."""
        of, depth = self.products[number], self.tile.depth
        term = index("term", depth)
        at = self.simplify(stretch * depth + term)
        left, right = self.operands.left[number], self.operands.right[number]
        rows, partners = self.own_rows(thread), self.own_partners(thread)
        declared, of_left = named_loads([[load(row, (at, own)) for own in rows] for row in left])
        more, of_right = named_loads(
            [[load(row, (term, own)) for own in partners] for row in right]
        )
        body: list[Statement] = [*declared, *more]
        pairs = product(zip(*of_left, strict=True), zip(*of_right, strict=True))
        for place, (row, partner) in enumerate(pairs):
            known = dict(zip((*of.left, *of.right), (*row, *partner), strict=True))
            (value,) = self.substitute([of.term], known)
            body.append(Store(products, (thread, as_index(place)), value, of.op))
        stop = self.simplify(minimum(as_index(depth), of.terms - stretch * depth))
        return [replace(counted(term, body), stop=stop)]

    def handed_over(self, thread: Scalar, products: Buffer, target: Buffer) -> list[Statement]:
        """Stores of a thread's products for their pairs."""
        return _put(products, thread, self.products_of(thread), target)

    # -- sums -------------------------------------------------------------------------------------

    def weighted(self, sums: Sums, weights: Buffer) -> For:
        """The values of a tile of partners, weighted and added to the sums of threads."""
        terms = partial(self._weighted_terms, sums, weights)
        return self.in_stretches(self.tile.keys, self.operands.of_values(sums.number), terms)

    def _weighted_terms(
        self, sums: Sums, weights: Buffer, thread: Scalar, stretch: Scalar
    ) -> list[Statement]:
        """The weighted values of a stretch of partners, added to the sums of a thread."""
        tile, wide = self.tile, sums.row.dtype
        count = tile.thread_keys
        run = index("run", tile.depth // count)
        terms = [self.simplify(run * count + number) for number in range(count)]
        first = self.simplify(stretch * tile.depth)
        declared, weight = named_loads(
            [
                [convert(load(weights, (own, first + term)), wide) for term in terms]
                for own in self.own_rows(thread)
            ]
        )
        columns, row = self._columns(thread, sums.groups), self.operands.values[sums.number]
        more, values = named_loads(
            [[load(row, (term, column)) for column in columns] for term in terms]
        )
        body: list[Statement] = [*declared, *more]
        for own, places in zip(weight, self.places(sums, thread), strict=True):
            for column, place in enumerate(places):
                products = [x * value[column] for x, value in zip(own, values, strict=True)]
                total = load(sums.row, place)
                for each in products:
                    total = total + each
                body.append(Store(sums.row, place, total))
        return [counted(run, body)]

    def results(
        self, sums: Sums, weights: Buffer, make: Callable[[Element], Sequence[Statement]]
    ) -> list[Statement]:
        """The epilogue of sums, by way of shared memory, so that stores are coalesced."""
        return [
            each for group in range(sums.groups) for each in self._group(sums, group, weights, make)
        ]

    def _group(
        self,
        sums: Sums,
        group: int,
        weights: Buffer,
        make: Callable[[Element], Sequence[Statement]],
    ) -> list[Statement]:
        tile, columns = self.tile, self.values[sums.number].columns

        def handed_on(thread: Scalar) -> list[Statement]:
            return _put(sums.row, thread, self.sums_of(thread, sums, group), weights)

        element = index("element", tile.queries * tile.keys)
        own, key = self.operands.divided(element, tile.keys)
        number = self.simplify(key + group * tile.keys)
        row = self.named(self.operands.row(own))
        column = self.named(delinearised(columns, number, self.simplify))
        found = convert(load(weights, (own, key)), sums.row.dtype)
        body: Sequence[Statement] = [
            row.declared,
            column.declared,
            *make(Element(own, {**row.known, **column.known}, found)),
        ]
        body = self.if_row(own, where_true(self.simplify(number < extents(columns)), body))
        return [self.by_threads(handed_on), self.dealt(element, body)]

    def if_row(self, own: Scalar, body: Sequence[Statement]) -> Sequence[Statement]:
        """Statements that are executed for existing rows only."""
        of_tile = self.operands.row_block * self.tile.queries + own
        return where_true(self.simplify(of_tile < extents(self.pairs.rows)), body)

    # -- the elements of a thread -----------------------------------------------------------------

    def products_of(self, thread: Scalar) -> list[Own]:
        """The products that a thread holds."""
        pairs = product(self.own_rows(thread), self.own_partners(thread))
        return [Own(number, *pair) for number, pair in enumerate(pairs)]

    def sums_of(self, thread: Scalar, sums: Sums, group: int) -> list[Own]:
        """The sums that a thread holds, in one group of columns."""
        count = self.tile.thread_keys
        return [
            Own((row * sums.groups + group) * count + column, *pair)
            for row, own in enumerate(self.own_rows(thread))
            for column, pair in enumerate(product([own], self.own_partners(thread)))
        ]

    def own_rows(self, thread: Scalar) -> list[Scalar]:
        down, _ = self.operands.divided(thread, self.tile.across)
        count = self.tile.thread_queries
        return [self.simplify(down * count + number) for number in range(count)]

    def own_partners(self, thread: Scalar) -> list[Scalar]:
        _, across = self.operands.divided(thread, self.tile.across)
        count = self.tile.thread_keys
        return [self.simplify(across * count + number) for number in range(count)]

    def one_row(self, thread: Scalar) -> tuple[Scalar, Scalar]:
        """One of a thread's rows, and the index of the loop over them."""
        number = index("own", self.tile.thread_queries)
        down, _ = self.operands.divided(thread, self.tile.across)
        return self.simplify(down * self.tile.thread_queries + number), number

    def _columns(self, thread: Scalar, groups: int) -> list[Scalar]:
        """A thread's columns of a result."""
        return [
            self.simplify(own + group * self.tile.keys)
            for group in range(groups)
            for own in self.own_partners(thread)
        ]

    def places(self, sums: Sums, thread: Scalar) -> list[list[tuple[Scalar, Scalar]]]:
        """The registers of a thread's sums: for each of its rows, those of its columns."""
        count = sums.groups * self.tile.thread_keys
        return [
            [(thread, as_index(row * count + column)) for column in range(count)]
            for row in range(self.tile.thread_queries)
        ]

    def across(self, thread: Scalar) -> Scalar:
        """The index of a thread among those that share its rows."""
        _, across = self.operands.divided(thread, self.tile.across)
        return across

    def found(self, parts: Buffer, own: Scalar, dtype: object) -> list[Scalar]:
        """The combined result of the threads that share a row."""
        loads = [load(parts, (own, as_index(i))) for i in range(self.tile.across)]
        return [convert(part, dtype) for part in loads]

    def named(self, positions: Known) -> Place:
        """Names for indices."""
        names = {loop: local(INDEX, loop.attribute[0]) for loop in positions}
        return Place(names, Let(tuple(names.values()), tuple(positions.values())))


def team_root(
    targets: Sequence[Buffer], tiles: PairTiles, body: Body, *, output: bool
) -> TeamKernel:
    """The root of a kernel of pairs: its targets and its statements."""
    scratch = set(tiles.scratch)
    own = (row.extents[1] for row in tiles.private)
    first, *others = targets
    return TeamKernel(
        first,
        body,
        operands=tuple(one for one in loaded(body) if one not in scratch),
        also_written=tuple(others),
        scratch=tuple(tiles.scratch),
        output=output,
        team=tiles.tile.threads,
        private=tuple(tiles.private),
        largest_constant=max(tiles.tile.threads, *tiles.tile, *own),
    )


def counted(counter: Scalar, body: Sequence[Statement]) -> For:
    """A loop over the whole range of an index."""
    return For(counter, ZERO, as_index(extent_of(counter)), tuple(body))


def named_loads(elements: Sequence[Sequence[Scalar]]) -> tuple[list[Let], list[tuple[Scalar, ...]]]:
    """Loads bound to names: a statement for each row of loads, and the names."""
    rows = [tuple(local(x.dtype) for x in row) for row in elements]
    return [Let(names, tuple(row)) for names, row in zip(rows, elements, strict=True)], rows


def _put(row: Buffer, thread: Scalar, own: Sequence[Own], target: Buffer) -> list[Statement]:
    """Stores of a thread's elements in shared memory."""
    return [
        Store(
            target,
            (each.row, each.column),
            convert(load(row, (thread, as_index(each.number))), target.dtype),
        )
        for each in own
    ]
