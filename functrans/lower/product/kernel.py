"""Kernels of matrix products: blocks of the result, which threads share, made of packed operands.

    for each panel of the right operand: pack it

    for each block of the result:
        for each stretch of terms:
            pack the rows of the left operand
            for each panel of columns, and each tile of rows:
                a tile of sums in registers: add its terms, and put it into the block
        what is computed of the block's elements: the epilogue

The first line is a kernel of its own. The epilogue is what the nest of a product has besides: bias
and activation, a softmax of its rows. It reads the block, which the cache holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, idiv, irem, minimum
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Buffer,
    For,
    Reduce,
    Store,
    buffer,
    load,
    local,
)
from functrans.loop.target import Target
from functrans.loop.walk import Body
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.linearisation import Values, delinearised
from functrans.lower.product.blocking import Blocks, extents_of
from functrans.lower.product.packing import Lines, Operand, Terms
from functrans.lower.select.root import Contraction, extent_of


FEW_PANELS = 2
"""Panels for which elements are as well read with gaps: a copy is read as often as it pays from."""


class Block(NamedTuple):
    """A block of the result: where it is, and its sums.

    Parameters
    ----------
    sums : Buffer
        Rows by columns.
    batch : dict
        The loops of the stack.
    rows, columns : tuple of Scalar
        The first one, and the one behind the last.
    """

    sums: Buffer
    batch: Values
    rows: tuple[Scalar, Scalar]
    columns: tuple[Scalar, Scalar]

    def load(self, row: Scalar, column: Scalar) -> Scalar:
        """The sum for a row and a column, by their numbers."""
        return load(self.sums, (row - self.rows[0], column - self.columns[0]))


class Product:
    """Makes the nests of a product.

    Parameters
    ----------
    root : Contraction
    blocks : Blocks
    target : Target
    simplify : Simplifier
    """

    def __init__(
        self, root: Contraction, blocks: Blocks, target: Target, simplify: Simplifier
    ) -> None:
        self.root = root
        self.blocks = blocks
        self.simplify = simplify
        self.size = extents_of(root)
        self.dtype = root.target.dtype
        _, rows, columns = root.sides
        assert root.counter is not None
        left, right = root.factors
        self.left = Operand(left, rows, root.counter, target, simplify)
        self.right = Operand(right, columns, root.counter, target, simplify)
        panels = -(-self.size.columns // blocks.width)
        shape = (self.size.batch, panels, self.size.terms, blocks.width)
        self.panels = buffer(f"{root.target.name}_right", self.dtype, shape)
        shape = blocks.tiles * blocks.height, blocks.depth
        if not self.left.along_terms:
            shape = blocks.tiles, blocks.depth, blocks.height
        self.tiles = buffer(f"{root.target.name}_left", self.dtype, shape)
        self.sums = buffer(
            f"{root.target.name}_block",
            self.dtype,
            (blocks.tiles * blocks.height, blocks.panels * blocks.width),
        )

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        """What a thread has to itself."""
        return (self.sums,) if self.reads_in_place else (self.tiles, self.sums)

    @property
    def reads_in_place(self) -> bool:
        """Whether tiles read the left operand where it is, and not a copy."""
        few = self.blocks.panels <= FEW_PANELS
        return self.left.is_dense or (few and self.left.is_in_memory)

    # -- the nests ----------------------------------------------------------------------------

    def packing(self) -> Nest:
        """The nest that packs the right operand."""
        panels = self.panels.extents[1]
        panel = index("panel", self.size.batch * panels)
        batch, number = idiv(panel, panels), irem(panel, panels)
        if self.size.batch == 1:
            batch, number = ZERO, panel
        batch, number = self.simplify(batch), self.simplify(number)

        def place(term: Scalar, lane: Scalar) -> tuple[Scalar, ...]:
            return batch, number, term, lane

        size, width = self.size, self.blocks.width
        right = self.right.at(self._loops(self.root.sides[0], batch))
        columns = const(size.columns, INDEX)
        lines = Lines(self._times(number, width), width, columns, size.columns % width == 0)
        terms = Terms(ZERO, const(size.terms, INDEX), size.terms)
        copied = right.copied(place, self.panels, lines, terms)
        stop = const(panel.attribute[2], INDEX)
        loop = For(panel, ZERO, stop, copied, parallel=True)
        # (lines that lie side by side are transposed if it is known how many there are)
        return Nest((loop,), (), self.panels.count, largest_constant=width)

    def nest(self, epilogue: Body, scratch: Sequence[Buffer], block: Block, number: Scalar) -> Nest:
        """The nest of the product itself, with what is done of each block."""
        body = (*self._sums(block), *epilogue)
        stop = const(number.attribute[2], INDEX)
        loop = For(number, ZERO, stop, body, parallel=True)
        return Nest((loop,), (*self.scratch, *scratch), self.root.work)

    def block(self) -> tuple[Block, Scalar]:
        """A block of the result, and the index of the loop over all of them."""
        size, blocks = self.size, self.blocks
        height, width = blocks.tiles * blocks.height, blocks.panels * blocks.width
        down, across = -(-size.rows // height), -(-size.columns // width)
        number = index("block", down * across * size.batch)
        # blocks below each other come one after the other: they read the same panels
        row, rest = self._apart(number, down)
        column, batch = self._apart(rest, across)
        first_row, first_column = self._times(row, height), self._times(column, width)
        return Block(
            self.sums,
            self._loops(self.root.sides[0], batch),
            (first_row, self._end(first_row, height, size.rows)),
            (first_column, self._end(first_column, width, size.columns)),
        ), number

    # -- the sums of a block ------------------------------------------------------------------

    def _sums(self, block: Block) -> Body:
        """Statements that compute the sums of a block."""
        blocks, size = self.blocks, self.size
        if blocks.stretches == 1:
            return self._stretch(block, Terms(ZERO, const(size.terms, INDEX), size.terms), None)
        stretch = index("stretch", blocks.stretches)
        start = self._times(stretch, blocks.depth)
        count = self.simplify(self._end(start, blocks.depth, size.terms) - start)
        body = self._stretch(block, Terms(start, count, blocks.depth), "add")
        stop = const(blocks.stretches, INDEX)
        return (*self._zeros(), For(stretch, ZERO, stop, body))

    def _zeros(self) -> Body:
        rows, columns = self.sums.extents
        row, lane = index("row", rows), index("lane", columns)
        store = Store(self.sums, (row, lane), const(0, self.dtype))
        line = For(lane, ZERO, const(columns, INDEX), (store,), self.blocks.width, whole=True)
        return (For(row, ZERO, const(rows, INDEX), (line,)),)

    def _stretch(self, block: Block, terms: Terms, op: str | None) -> Body:
        """Statements that add up some terms; a panel stays in the nearest cache for all rows."""
        blocks, left = self.blocks, self.left.at(block.batch)
        tiles = self._count(block.rows, blocks.height, blocks.tiles)
        panels = self._count(block.columns, blocks.width, blocks.panels)
        panel, tile = index("panel", blocks.panels), index("tile", blocks.tiles)
        if self.reads_in_place:
            before: Body = ()
            lets, rows = left.named(self._lines(block, tile))
            body = self._tile(block, panel, tile, terms, op, lambda n, k: rows[n].of_term(terms, k))
            body = (*lets, *body)
        elif left.along_terms:
            before = self._rows(left, block, terms, tiles)
            first = self._times(tile, blocks.height)
            body = self._tile(
                block, panel, tile, terms, op,
                lambda n, k: load(self.tiles, (self.simplify(first + n), k)),
            )  # fmt: skip
        else:
            before = self._packed_tiles(left, block, terms, tiles)
            body = self._tile(
                block, panel, tile, terms, op,
                lambda n, k: load(self.tiles, (tile, k, const(n, INDEX))),
            )  # fmt: skip
        return (*before, For(panel, ZERO, panels, (For(tile, ZERO, tiles, body),)))

    def _lines(self, block: Block, tile: Scalar) -> Lines:
        """The rows of a tile."""
        height = self.blocks.height
        first = self.simplify(block.rows[0] + self._times(tile, height))
        return Lines(first, height, block.rows[1], self.size.rows % height == 0)

    def _rows(self, left: Operand, block: Block, terms: Terms, tiles: Scalar) -> Body:
        """Statements that copy rows of the left operand, the last one again beyond the last."""
        height = self.blocks.height
        row = index("row", self.blocks.tiles * height)
        line = self.simplify(minimum(block.rows[0] + row, block.rows[1] - 1))
        copied = left.copied_line(self.tiles, row, line, terms)
        return (For(row, ZERO, self._times(tiles, height), copied),)

    def _packed_tiles(self, left: Operand, block: Block, terms: Terms, tiles: Scalar) -> Body:
        """Statements that copy the left operand as tiles, one term after the other."""
        tile = index("tile", self.blocks.tiles)

        def place(term: Scalar, row: Scalar) -> tuple[Scalar, ...]:
            return tile, term, row

        copied = left.copied(place, self.tiles, self._lines(block, tile), terms)
        return (For(tile, ZERO, tiles, copied),)

    def _tile(
        self,
        block: Block,
        panel: Scalar,
        tile: Scalar,
        terms: Terms,
        op: str | None,
        element: Callable[[int, Scalar], Scalar],
    ) -> Body:
        """Sums in registers: a vector of columns for each row of a tile."""
        height, width = self.blocks.height, self.blocks.width
        term, lane = index("k", terms.most), index("lane", width)
        first = self.simplify(idiv(block.columns[0], width) + panel)
        batch = self._number(self.root.sides[0], block.batch)
        other = load(self.panels, (batch, first, self.simplify(terms.start + term), lane))
        sums = tuple(local(self.dtype, f"sum{row}") for row in range(height))
        products = tuple(element(row, term) * other for row in range(height))
        fold = Reduce(sums, ("add",) * height, products, ((term, ZERO, terms.count),))
        stores = []
        for row, total in enumerate(sums):
            place = self._times(tile, height) + row, self._times(panel, width) + lane
            stores.append(Store(self.sums, tuple(map(self.simplify, place)), total, op))
        return (For(lane, ZERO, const(width, INDEX), (fold, *stores), width, whole=True),)

    # -- numbers ------------------------------------------------------------------------------

    def _loops(self, loops: tuple[Scalar, ...], number: Scalar) -> Values:
        """What loops are at one of all their iterations."""
        return delinearised(loops, number, self.simplify) if loops else {}

    def _number(self, loops: Sequence[Scalar], values: Mapping[Scalar, Scalar]) -> Scalar:
        """Which of all iterations of loops it is."""
        total: Scalar = ZERO
        for loop in loops:
            total = total * extent_of(loop) + values[loop]
        return self.simplify(total)

    def _times(self, number: Scalar, by: int) -> Scalar:
        return self.simplify(number * by)

    def _apart(self, number: Scalar, by: int) -> tuple[Scalar, Scalar]:
        """The remainder and the quotient."""
        return self.simplify(irem(number, by)), self.simplify(idiv(number, by))

    def _end(self, start: Scalar, length: int, stop: int) -> Scalar:
        return self.simplify(minimum(start + length, stop))

    def _count(self, bounds: tuple[Scalar, Scalar], length: int, most: int) -> Scalar:
        """How many tiles, or panels, there are between two rows, or columns."""
        start, stop = bounds
        if start.op == stop.op == "const":
            return const(-(-int(stop.attribute - start.attribute) // length), INDEX)
        return self.simplify(minimum(idiv(stop - start + (length - 1), length), most))
