"""Tiled matrix products: a team computes a tile, from tiles of the operands in shared memory.

Expects a nest of a product (`functrans.lower.grid.products.recognition`) and of its elementwise
epilogue. Leaves the kernel of a team, whose band is over the tiles of the result:

    for each tile of the result, by a team:
        load tiles of both operands, for the first terms
        for each stretch of terms:
            each thread: load the operands' elements for the next stretch into registers
                         add this stretch's terms to the thread's accumulators (registers)
                         store the elements in registers to the other pair of tiles
        each thread: compute and store its elements of the result

(Register tiling, software pipelining and double buffering, as in the matrix products of libraries.)
Operands are computed when they are loaded, so they may be expressions, of arrays in any order; the
epilogue is computed in registers. Beyond the edges, operands are zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrans.loop.affine import lies_along
from functrans.loop.grid import Grid, ProductTile
from functrans.loop.nodes import INDEX, ZERO, as_index, guard, index
from functrans.loop.scalar import Scalar, const, convert, minimum, postorder, where
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Buffer,
    For,
    Let,
    Statement,
    Store,
    buffer,
    load,
    local,
    where_true,
)
from functrans.lower.grid.dealing import deal, filled
from functrans.lower.grid.products.recognition import Product, count_of, extents
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.linearisation import Values, delinearised, quotient_and_rest
from functrans.lower.select.root import Elements
from functrans.records import NamedTuple


class Side:
    """One operand: its loops, the block of them for a team, and its tile in shared memory."""

    def __init__(
        self,
        label: str,
        loops: tuple[Scalar, ...],
        length: int,  # the number of rows, or columns, of a tile
        operands: tuple[Scalar, ...],  # the values that are loaded, as expressions of the loops
        product: Product,
    ) -> None:
        self.loops = loops
        self.length = length
        self.extent = extents(loops)
        self.operands = operands
        self.block = index(f"{label}_block", -(-self.extent // length))
        self.sums_are_near = [
            lies_along(each, product.counters[-1], loops[-1]) for each in operands
        ]
        self.rows = [
            buffer(f"{label}_tile", each.dtype, (product.tile.stages, *self.lines(product, number)))
            for number, each in enumerate(operands)
        ]

    def lines(self, product: Product, number: int) -> tuple[int, int]:
        """The layout of an operand in shared memory: a line for each term, and their length."""
        tile = product.tile
        assert isinstance(tile, ProductTile)
        return tile.depth, self.length + tile.padding

    def number(self, within: Scalar) -> Scalar:
        """The index in the result of a row, or column, of the tile."""
        return self.block * self.length + within


class _Place(NamedTuple):
    """A row or column of the result: names of its indices, and whether it exists."""

    known: Values
    declared: Let
    inside: Scalar


class Tiling:
    """Generates the statements of a tiled product."""

    operand: type[Side] = Side  # the class that represents an operand

    def __init__(
        self,
        product: Product,
        roots: Sequence[Elements],  # the root of the product, and those of its epilogue
        kept: Sequence[Elements],  # those that are stored
        simplify: Simplifier,
        grid: Grid,
    ) -> None:
        self.product = product
        self.tile = product.tile
        self.roots = roots
        self.kept = kept
        self.simplify = simplify
        tile, side = self.tile, self.operand
        self.left = side("row", product.rows, tile.rows, product.left, product)
        self.right = side("column", product.columns, tile.columns, product.right, product)
        self.sides = (self.left, self.right)
        self.blocks: tuple[Scalar, ...] = (self.left.block, self.right.block)
        """The loops over tiles of the result."""
        self.count = simplify(count_of(product))  # the number of terms
        self.stretches = simplify(
            Scalar("idiv", (self.count + (tile.depth - 1), as_index(tile.depth)), INDEX)
        )
        self.sums = buffer("sums", product.term.dtype, (tile.threads, tile.sums))
        self.grid = grid
        self.in_turn = self._in_turn()

    def _in_turn(self) -> Buffer | None:
        """The accumulators in memory, if a thread's rows are processed in a loop."""
        tile = self.tile
        if (
            sum(root.node_count for root in self.roots[1:]) * tile.sums
            <= self.grid.largest_epilogue
        ):
            return None
        return buffer("in_turn", self.sums.dtype, (tile.threads, tile.sums))

    def nest(self) -> Nest:
        body: tuple[Statement, ...] = (*self._start(), *self._stretches())
        if self.kept:
            body = (*body, *self._results())
        for each in reversed((*self.product.batch, *self.blocks)):
            stop = const(each.attribute[2], INDEX)
            body = (For(each, ZERO, stop, body, parallel=True),)
        tile = self.tile
        return Nest(
            body,
            self._scratch(),
            operations=0,
            products=sum(root.work for root in self.roots),
            team=tile.threads,
            private=self._private(),
            largest_constant=max(tile.threads, *tile, tile.stages * tile.depth),
        )

    def _scratch(self) -> tuple[Buffer, ...]:
        return (*self._private(), *self.left.rows, *self.right.rows)

    def _private(self) -> tuple[Buffer, ...]:
        return (self.sums,) if self.in_turn is None else (self.sums, self.in_turn)

    # -- loading ----------------------------------------------------------------------------------

    def _start(self) -> tuple[Statement, ...]:
        """Initialise the accumulators, and load the tiles for the first stretch of terms."""
        thread = index("thread", self.tile.threads)
        body = filled(self.sums, thread, 0)
        names, values = self._loaded(thread, ZERO)
        body += [Let(names, values), *self._put(thread, ZERO, names)]
        return (deal(thread, body, self.tile.threads),)

    def _loaded(
        self, thread: Scalar, stretch: Scalar
    ) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
        """A thread's share of the operands' elements for a stretch of terms, bound to names."""
        values = []
        for side, number, operand in self._operands():
            for own, term in self._share(thread, side, number):
                place = stretch * self.tile.depth + term
                inside = self.simplify(place < self.count)
                if self.count.op == "const":
                    # an existing term, rather than a branch
                    place = minimum(place, self.count - 1)
                # rows and columns beyond the last one do not affect the result
                known = delinearised(
                    side.loops, minimum(side.number(own), side.extent - 1), self.simplify
                )
                known |= delinearised(self.product.counters, place, self.simplify)
                (value,) = self.simplify.substitute([operand], known)
                choose = where if self.count.op == "const" else guard
                values.append(self.simplify(choose(inside, value, const(0, value.dtype))))
        return tuple(local(value.dtype, "next") for value in values), tuple(values)

    def _put(self, thread: Scalar, stretch: Scalar, given: Sequence[Scalar]) -> list[Statement]:
        """Stores of a thread's share into the tiles for a stretch of terms."""
        half = self._half(stretch)
        values = iter(given)
        return [
            Store(side.rows[number], (half, term, own), next(values))
            for side, number, _ in self._operands()
            for own, term in self._share(thread, side, number)
        ]

    def _operands(self) -> list[tuple[Side, int, Scalar]]:
        return [
            (side, number, operand)
            for side in self.sides
            for number, operand in enumerate(side.operands)
        ]

    def _share(self, thread: Scalar, side: Side, number: int) -> list[tuple[Scalar, Scalar]]:
        """The elements of a tile that a thread loads; adjacent threads load adjacent elements."""
        inner = self.tile.depth if side.sums_are_near[number] else side.length
        found = []
        for start in range(0, side.length * self.tile.depth, self.tile.threads):
            outside, inside = self._divided(thread + start, inner)
            found.append((outside, inside) if side.sums_are_near[number] else (inside, outside))
        return found

    def _divided(self, x: Scalar, by: int) -> tuple[Scalar, Scalar]:
        return quotient_and_rest(x, by, self.simplify)

    def _half(self, stretch: Scalar) -> Scalar:
        """Which of the two tiles holds a stretch of terms."""
        return self.simplify(Scalar("irem", (stretch, as_index(self.tile.stages)), INDEX))

    # -- summing ----------------------------------------------------------------------------------

    def _stretches(self) -> tuple[Statement, ...]:
        """The loop over stretches of terms, each loaded while the previous one is multiplied."""
        most = -(-self.product.longest // self.tile.depth)
        stretch = index("stretch", most)
        thread = index("thread", self.tile.threads)
        terms = self._terms(thread, stretch)
        if most == 1:
            first = deal(thread, [*terms], self.tile.threads)
            return (For(stretch, ZERO, self.stretches, (first,)),)
        following = self.simplify(stretch + 1)
        names, values = self._loaded(thread, following)
        body = (Let(names, values), *terms, *self._put(thread, following, names))
        return (For(stretch, ZERO, self.stretches, (deal(thread, body, self.tile.threads),)),)

    def _terms(self, thread: Scalar, stretch: Scalar) -> tuple[Statement, ...]:
        """The terms of a stretch, added to the accumulators of a thread."""
        term = index("term", self.tile.depth)
        half = self._half(stretch)
        rows, columns = self._places(thread)
        known: list[list[tuple[Scalar, ...]]] = []
        statements: list[Statement] = []
        for side, places in ((self.left, rows), (self.right, columns)):
            found = []
            for tile in side.rows:
                names = tuple(local(tile.dtype, tile.name[0]) for _ in places)
                loads = tuple(load(tile, (half, term, place)) for place in places)
                statements.append(Let(names, loads))
                found.append(names)
            known.append(list(zip(*found, strict=True)))
        for number, (row, column) in enumerate(
            (row, column) for row in known[0] for column in known[1]
        ):
            operands = dict(
                zip((*self.left.operands, *self.right.operands), (*row, *column), strict=True)
            )
            (value,) = self.simplify.substitute([self.product.term], operands)
            at = (thread, const(number, INDEX))
            statements.append(Store(self.sums, at, value, self.product.fold.attribute[0]))
        stop = as_index(self.tile.depth)
        if not self.product.padded:
            left = self.count - stretch * self.tile.depth
            stop = self.simplify(Scalar("min", (stop, left), INDEX))
        return (For(term, ZERO, stop, tuple(statements)),)

    def _places(self, thread: Scalar) -> tuple[list[Scalar], list[Scalar]]:
        """The rows and columns of the tile that belong to a thread, in groups with gaps."""
        tile = self.tile
        assert isinstance(tile, ProductTile)
        across = tile.columns // tile.thread_columns
        down = tile.rows // tile.thread_rows
        row, column = self._divided(thread, across)
        return (
            self._groups(row, tile.thread_rows, down, tile.together),
            self._groups(column, tile.thread_columns, across, tile.together),
        )

    def _groups(self, own: Scalar, count: int, threads: int, each: int) -> list[Scalar]:
        return [
            self.simplify(own * each + (group * threads * each + within))
            for group in range(count // each)
            for within in range(each)
        ]

    # -- results ----------------------------------------------------------------------------------

    def _results(self) -> tuple[Statement, ...]:
        """The epilogue for a thread's elements of the result."""
        thread = index("thread", self.tile.threads)
        rows, columns = (
            [self._named(side, place) for place in places]
            for side, places in zip(self.sides, self._places(thread), strict=True)
        )
        if self.in_turn is not None:
            in_turn = self._rows_in_turn(thread, columns, self.in_turn)
            return (deal(thread, in_turn, self.tile.threads),)
        body: list[Statement] = [each.declared for each in (*rows, *columns)]
        numbers = iter(range(self.tile.sums))
        for row in rows:
            totals = [load(self.sums, (thread, const(next(numbers), INDEX))) for _ in columns]
            body += self._row(row, columns, totals)
        return (deal(thread, body, self.tile.threads),)

    def _rows_in_turn(
        self, thread: Scalar, columns: Sequence[_Place], in_turn: Buffer
    ) -> list[Statement]:
        """A loop over a thread's rows, whose accumulators are in local memory to be indexed."""
        tile = self.tile
        assert isinstance(tile, ProductTile)
        numbers = [const(number, INDEX) for number in range(tile.sums)]
        copied = [
            Store(in_turn, (thread, number), load(self.sums, (thread, number)))
            for number in numbers
        ]
        turn = index("turn", tile.thread_rows)
        own, _ = self._divided(thread, tile.columns // tile.thread_columns)
        group, within = self._divided(turn, tile.together)
        down = tile.rows // tile.thread_rows
        place = own * tile.together + (group * (down * tile.together) + within)
        row = self._named(self.left, self.simplify(place))
        totals = [
            load(in_turn, (thread, self.simplify(turn * tile.thread_columns + number)))
            for number in range(tile.thread_columns)
        ]
        body = (row.declared, *self._row(row, columns, totals))
        declared = [each.declared for each in columns]
        return [*copied, *declared, For(turn, ZERO, as_index(tile.thread_rows), body)]

    def _row(
        self, row: _Place, columns: Sequence[_Place], totals: Sequence[Scalar]
    ) -> Sequence[Statement]:
        """The epilogue for a thread's elements of one row, given their sums."""
        body: list[Statement] = []
        for column, total in zip(columns, totals, strict=True):
            total = convert(total, self.product.fold.dtype)
            made = self._element({**row.known, **column.known}, total)
            body += where_true(column.inside, made)
        return where_true(row.inside, body)

    def _named(self, side: Side, within: Scalar) -> _Place:
        """A row or column of the result, with names for its indices."""
        number = side.number(within)
        positions = delinearised(side.loops, number, self.simplify)
        names = {loop: local(INDEX, loop.attribute[0]) for loop in positions}
        declared = Let(tuple(names.values()), tuple(positions.values()))
        return _Place(names, declared, self.simplify(number < side.extent))

    def _element(self, known: Values, total: Scalar) -> list[Statement]:
        """The statements for one element of each root, given the sum of the product."""
        statements: list[Statement] = []
        made: dict[Buffer, Scalar] = {}
        first = self.roots[0]
        for root in self.roots:
            ((position, value),) = root.elements
            replaced: Values = {self.product.fold: total} if root is first else {}
            # the values of previous roots are read at the same indices
            for node in postorder([value], known=replaced):
                if node.op == "load" and node.attribute in made:
                    replaced[node] = made[node.attribute]
            (value,) = self.simplify.substitute([value], {**known, **replaced})
            if root is not self.roots[-1] and value.args:
                made[root.target] = local(value.dtype, root.target.name)
                statements.append(Let((made[root.target],), (value,)))
                value = made[root.target]
            made[root.target] = value
            if root in self.kept:
                place = tuple(self.simplify.substitute(position, known))
                statements.append(Store(root.target, place, value))
        return statements
