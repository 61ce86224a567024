"""Kernels of matrix products: blocks of the result, shared by threads, from packed operands.

    for each panel of the right operand: pack it

    for each block of the result:
        for each stretch of terms:
            for each panel of columns, and each tile of rows:
                a tile of sums in registers: add its terms, and put it into the block
        the epilogue: operations on the elements of the block

The first line is a kernel of its own. Of the left operand, tiles read a few rows where they are, or
where a copy of a block's rows, or of all, has been put (`functrans.lower.product.storage`). The
epilogue are the other operations in the nest of a product: bias and activation, a softmax of its
rows. It reads the block, which the cache holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from functrans.loop.nodes import INDEX, ZERO, as_index, index
from functrans.loop.relocation import Relocation
from functrans.loop.scalar import Scalar, const, idiv, irem, maximum, minimum
from functrans.loop.statements import Buffer, For, If, Reduce, Store, load, local
from functrans.loop.substitution import Position
from functrans.loop.walk import Body
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.linearisation import Values, delinearised, number_of
from functrans.lower.product.block import Block, Bounds, count_of, groups_of, loop_of
from functrans.lower.product.blocking import form_of
from functrans.lower.product.packing import Groups, Lines, Operand, Terms, last_part
from functrans.lower.product.storage import Storage


class Product(Storage):
    """Generates the statements of a product."""

    # -- the nests ----------------------------------------------------------------------------

    def nest(self, epilogue: Body, scratch: Sequence[Buffer], block: Block, number: Scalar) -> Nest:
        """The nest of the product itself, with the statements for each block."""
        body = (*self.computed(block), *epilogue)
        if self.root.symmetric:
            body = (If(block.columns[0] < block.rows[1], body),)
        loop = For(number, ZERO, const(number.attribute[2], INDEX), body, parallel=True)
        rows = (*self.scratch, *scratch)
        return Nest(
            (loop,),
            rows,
            operations=0,
            products=self.root.work,
            form=form_of(self.size, self.blocks),
        )

    def block(self) -> tuple[Block, Scalar]:
        """A block of the result, and the index of the loop over all of them."""
        size, blocks = self.size, self.blocks
        height, width = blocks.tiles * blocks.height, blocks.panels * blocks.width
        down, across = -(-size.rows // height), -(-size.columns // width)
        number = index("block", down * across * size.batch)
        # vertically adjacent blocks are consecutive, since they read the same panels
        row, rest = self._apart(number, down)
        column, batch = self._apart(rest, across)
        first_row, first_column = self._times(row, height), self._times(column, width)
        last_row = self._end(first_row, height, size.rows)
        last_column = self._end(first_column, width, size.columns)
        if self.root.symmetric:
            last_column = self.simplify(minimum(last_column, last_row))
        rows, columns = (first_row, last_row), (first_column, last_column)
        loops = self._loops(self.root.sides[0], batch)
        own = (number,) * self.in_arena
        return Block(loops, rows, columns, own, height=self.root.shared_rows), number

    # -- the sums of a block ------------------------------------------------------------------

    def computed(
        self, block: Block, elsewhere: Relocation | None = None, among: Bounds | None = None
    ) -> Body:
        """Statements that compute the sums of a block, over terms ``among`` some, or over all.

        Some buffers of the left operand may be relocated ``elsewhere``.
        """
        blocks, some = self.blocks, among is not None or self.root.terms_together > 0
        least = 1 if some else last_part(self.size.terms, blocks.depth)
        first, last = among or (ZERO, self.terms_of(self._number(block)))
        left = self._left(block, elsewhere)
        if blocks.stretches == 1:
            terms = Terms(first, self.simplify(last - first), self.size.terms, least)
            before, panels = self._packed(block, terms)
            return (*before, *self._stretch(block, left, panels, terms, None))
        stretch = index("stretch", blocks.stretches)
        begin = self._times(stretch, blocks.depth)
        start = begin if first is ZERO else self.simplify(maximum(begin, first))
        count = self.simplify(minimum(begin + blocks.depth, last) - start)
        terms = Terms(start, count, blocks.depth, least)
        before, panels = self._packed(block, terms)
        body = (*before, *self._stretch(block, left, panels, terms, "add"))
        start, stop = groups_of((first, last), blocks.depth, self.simplify)
        return (*self.zeros(block), For(stretch, start, stop, body))

    def _packed(
        self, block: Block, terms: Terms
    ) -> tuple[Body, Callable[[Scalar, Scalar, Scalar], Scalar]]:
        """Elements of the right operand, and statements that pack them if that is done here."""
        if self.blocks.packs:
            return self._packed_here(block, self.right.at(block.batch), terms)
        return (), self._panels(block, terms)

    def accumulated(
        self, block: Block, terms: Terms, elsewhere: Relocation, among: Bounds | None = None
    ) -> Body:
        """Statements that pack panels, and add some terms to the sums of a block.

        For tiles of rows ``among`` some, or for all.
        """
        (factor,) = elsewhere.expressions([self.right.factor])
        right = replace(self.right, factor=factor).at(block.batch)
        before, panels = self._packed_here(block, right, terms)
        left = self._left(block, elsewhere)
        tiles = None if among is None else groups_of(among, self.blocks.height, self.simplify)
        return (*before, *self._stretch(block, left, panels, terms, "add", tiles))

    def _packed_here(
        self, block: Block, right: Operand, terms: Terms
    ) -> tuple[Body, Callable[[Scalar, Scalar, Scalar], Scalar]]:
        """Statements that pack some terms of a block's columns, and the packed elements.

        No statements if tiles read the operand in place.
        """
        if self.reads_panels_in_place:
            return (), self._in_place(block, right, terms)
        width = self.blocks.width
        panel = index("panel", self.blocks.panels)
        first = self.simplify(block.columns[0] + self._column(block, panel))
        lines = Lines(first, width, const(self.size.columns, INDEX), self.has_whole_panels)

        def place(term: Scalar, lane: Scalar) -> Position:
            return *block.own, panel, term, lane

        panels = count_of(block.columns, width, self.blocks.panels, self.simplify)
        groups = Groups(panel, panels, lines, side_by_side=True)
        copied = right.copied(place, self.few_terms, groups, terms)

        def packed(number: Scalar, term: Scalar, lane: Scalar) -> Scalar:
            return load(self.few_terms, (*block.own, number, term, lane))

        return copied, packed

    def zeros(self, block: Block) -> Body:
        """Loops that clear the sums of a block."""
        if self.is_direct:
            return self.over_elements(block, lambda *_: const(0, self.dtype), half=False)
        *_, rows, columns = self.sums.extents
        row, lane, lanes = index("row", rows), index("lane", columns), self.copied_lanes
        store = Store(self.sums, (*block.own, row, lane), const(0, self.dtype))
        overlaps = columns % lanes > 0
        bounds = ZERO, const(columns, INDEX)
        line = For(lane, *bounds, (store,), lanes, whole=not overlaps, repeatable=overlaps)
        return (For(row, ZERO, const(rows, INDEX), (line,)),)

    def stored(self, block: Block) -> Body:
        """Loops that copy a block to the result in memory, if it is elsewhere."""
        if self.is_direct:
            return self._mirrored(block) if self.root.symmetric else ()

        def own(row: Scalar, column: Scalar) -> Scalar:
            inner = (*block.own, row - block.rows[0], column - block.columns[0])
            return load(self.sums, tuple(map(self.simplify, inner)))

        return self.over_elements(block, own, half=self.root.symmetric)

    def _mirrored(self, block: Block) -> Body:
        """Loops that mirror the elements below the diagonal, which are in the result."""
        _, _, (column,) = self.root.sides
        lanes = min(self.copied_lanes, self.target.lanes(self.root.target.dtype.itemsize))

        def mirror(row: Scalar, column: Scalar) -> Store:
            below = load(self.root.target, self._position(block, row, column))
            return Store(self.root.target, self._position(block, column, row), below)

        return block.mirrored(index("row", self.size.rows), column, mirror, lanes, self.simplify)

    def over_elements(
        self, block: Block, value: Callable[[Scalar, Scalar], Scalar], half: bool
    ) -> Body:
        """Loops that store a value in each element of the result in a block, or mirror half."""
        _, _, (column,) = self.root.sides
        number, row, bounds = block.over_rows(index("row", self.size.rows), self.simplify)
        lanes = self.copied_lanes

        def store(row: Scalar, column: Scalar) -> Store:
            return Store(self.root.target, self._position(block, row, column), value(row, column))

        if half:
            one = min(lanes, self.target.lanes(self.root.target.dtype.itemsize))
            return block.half_stored(row, column, store, one, self.simplify)
        body = (store(row, column),)
        whole, overlaps = self.size.columns % lanes == 0, self.blocks.width % lanes > 0
        inner = For(column, *block.columns, body, lanes, whole=whole, repeatable=overlaps)
        return (For(number, *bounds, (inner,)),)

    def place(self, block: Block) -> Callable[[Position], tuple[Buffer, Position]]:
        """Maps positions in the result to positions in a block."""
        axes = dict(zip(self.root.loops, self.root.axes, strict=True))
        _, rows, (column,) = self.root.sides

        def place(position: Position) -> tuple[Buffer, Position]:
            row = number_of({loop: position[axes[loop]] for loop in rows}, self.simplify)
            inner = (row - block.rows[0], position[axes[column]] - block.columns[0])
            return self.sums, tuple(map(self.simplify, (*block.own, *inner)))

        return place

    def _left(self, block: Block, elsewhere: Relocation | None) -> Operand:
        """The left operand of one matrix of the stack."""
        left = self.left
        if elsewhere is not None:
            (factor,) = elsewhere.expressions([left.factor])
            left = replace(left, factor=factor)
        return left.at(block.batch)

    def _in_place(
        self, block: Block, right: Operand, terms: Terms
    ) -> Callable[[Scalar, Scalar, Scalar], Scalar]:
        """Elements of the right operand where it is in memory."""

        def in_place(number: Scalar, term: Scalar, lane: Scalar) -> Scalar:
            column = block.columns[0] + self._column(block, number) + lane
            return right.element(self.simplify(column), self.simplify(terms.start + term))

        return in_place

    def _panels(self, block: Block, terms: Terms) -> Callable[[Scalar, Scalar, Scalar], Scalar]:
        """Elements of the completely packed right operand."""
        if self.reads_panels_in_place:
            return self._in_place(block, self.right.at(block.batch), terms)
        batch, first = self._number(block), idiv(block.columns[0], self.blocks.width)

        def packed(number: Scalar, term: Scalar, lane: Scalar) -> Scalar:
            inner = terms.start + term, lane
            position = batch, first + number, *(inner[::-1] if self.blocks.by_terms else inner)
            return load(self.panels, tuple(map(self.simplify, position)))

        return packed

    def _stretch(
        self,
        block: Block,
        left: Operand,
        right: Callable[[Scalar, Scalar, Scalar], Scalar],
        terms: Terms,
        op: str | None,
        some: Bounds | None = None,
    ) -> Body:
        """Statements that sum some terms; a panel stays in the nearest cache for all rows.

        For ``some`` tiles of rows, or for all.
        """
        blocks = self.blocks
        tiles = some or (ZERO, count_of(block.rows, blocks.height, blocks.tiles, self.simplify))
        panels = count_of(block.columns, blocks.width, blocks.panels, self.simplify)
        panel = index("panel", blocks.panels) if blocks.panels > 1 else ZERO
        tile = index("tile", blocks.tiles) if blocks.tiles > 1 else ZERO
        first_tile, last_panel = self._to_the_diagonal(block, tile, panel, tiles[0], panels)
        term, lane = index("k", terms.most), index("lane", blocks.width)
        first = self._times(tile, blocks.height)
        before, lets, elements = self._of_left(left, block, terms, tiles, tile, term)
        if blocks.by_terms:
            inside = (*lets, *self._by_terms(block, first, elements, right, terms, term))
            return (*before, *loop_of(tile, tiles[1], inside))
        other = right(panel, term, lane)
        sums = tuple(local(self.dtype, f"sum{row}") for row in range(blocks.height))
        products = tuple(element * other for element in elements)
        rows_of_tile = [*enumerate(sums)]
        if self.packs_rows and self.is_direct and self.size.rows % blocks.height:
            rows_of_tile.reverse()  # the last row is stored after its copies beyond the end
        around = self._tile(block, tile, panel)
        found, some = self.bands.terms(self._number(block), around, terms, self.simplify)
        lets = (*lets, *found)
        # a panel that the nearest cache holds is there already when the second tile reads it
        is_far = terms.most * blocks.width * self.dtype.itemsize > self.limits.panel_bytes
        ahead = self.limits.terms_ahead if is_far or self.packs_left else 0
        fold = Reduce(sums, ("add",) * len(sums), products, ((term, *some),), ahead=ahead)
        column = self._column(block, panel) + lane
        stores = [
            Store(*self._into(block, self.simplify(first + row), column), total, op)
            for row, total in rows_of_tile
        ]
        vectors = self._vectors(block, panel, lane, (fold, *stores))
        if self.stores_along_rows:
            of_tile = loop_of(panel, last_panel, (*lets, vectors))
            return (*before, *loop_of(tile, tiles[1], of_tile, tiles[0]))
        of_panel = loop_of(tile, tiles[1], (*lets, vectors), first_tile)
        return (*before, *loop_of(panel, panels, of_panel))

    def _of_left(
        self,
        left: Operand,
        block: Block,
        terms: Terms,
        tiles: Bounds,
        tile: Scalar,
        term: Scalar,
    ) -> tuple[Body, Body, list[Scalar]]:
        """A term of each row of a tile: statements before all tiles, and in each, and the elements.

        They are read where they are, or from copies of a block's rows, or of all rows.
        """
        blocks, rows = self.blocks, range(self.blocks.height)
        if self.reads_in_place:
            lets, lines = left.named(self._lines(block, tile))
            return (), lets, [line.of_term(terms, term) for line in lines]
        if left.along_terms:
            first = self._times(tile, blocks.height)
            places = [(*block.own, self.simplify(first + row), term) for row in rows]
            copied = self._rows(left, block, terms, tiles)
            return copied, (), [load(self.tiles, place) for place in places]
        if self.packs_left:
            number = self.simplify(idiv(block.rows[0], blocks.height) + tile)
            stretch = self.simplify(idiv(terms.start, blocks.depth))
            place = self._number(block), stretch, number, term
            return (), (), [load(self.all_tiles, (*place, as_index(row))) for row in rows]
        copied = self._packed_tiles(left, block, terms, tiles)
        own = *block.own, tile, term
        return copied, (), [load(self.tiles, (*own, as_index(row))) for row in rows]

    def _to_the_diagonal(
        self, block: Block, tile: Scalar, panel: Scalar, first_tile: Scalar, panels: Scalar
    ) -> tuple[Scalar, Scalar]:
        """The first tile of a panel, and the panels of a tile: half of a symmetric result."""
        if not self.root.symmetric:
            return first_tile, panels
        (first_row, _), (first_column, _) = block.rows, block.columns
        column = first_column + self._times(panel, self.blocks.width)
        above = idiv(maximum(column - first_row, 0), self.blocks.height)
        row_end = first_row + self._times(tile + 1, self.blocks.height)
        before = idiv(row_end - first_column + (self.blocks.width - 1), self.blocks.width)
        return self.simplify(maximum(first_tile, above)), self.simplify(minimum(panels, before))

    def _by_terms(
        self,
        block: Block,
        first: Scalar,
        elements: Sequence[Scalar],
        right: Callable[[Scalar, Scalar, Scalar], Scalar],
        terms: Terms,
        term: Scalar,
    ) -> Body:
        """The sums of a tile of all columns, with vectors along the terms."""
        columns = [as_index(number) for number in range(self.blocks.width)]
        others = [right(ZERO, term, column) for column in columns]
        products = [(element * other) for element in elements for other in others]
        sums = tuple(local(self.dtype, f"sum{number}") for number in range(len(products)))
        lanes = self.target.lanes(self.dtype.itemsize)
        whole = terms.length.op == "const" and int(terms.length.attribute) % lanes == 0
        fold = Reduce(
            sums,
            ("add",) * len(sums),
            tuple(products),
            ((term, ZERO, terms.length),),
            lanes=lanes,
            whole=whole,
        )
        places = [
            (self.simplify(first + row), column)
            for row in range(len(elements))
            for column in columns
        ]
        stores = [
            Store(*self._into(block, *at), total) for at, total in zip(places, sums, strict=True)
        ]
        return (fold, *stores)

    def _into(self, block: Block, row: Scalar, column: Scalar) -> tuple[Buffer, Position]:
        """The destination of a sum, by its row and column in a block."""
        if not self.is_direct:
            return self.sums, tuple(map(self.simplify, (*block.own, row, column)))
        row = self.simplify(block.rows[0] + row)
        if self.size.rows % self.blocks.height:
            row = self.simplify(minimum(row, self.size.rows - 1))
        return self.root.target, self._position(block, row, block.columns[0] + column)

    def _position(self, block: Block, row: Scalar, column: Scalar) -> Position:
        """The position of an element in the result."""
        root = self.root
        _, rows, (own,) = root.sides
        values = {**block.batch, **self._loops(rows, row), own: column}
        loops = dict(zip(root.axes, root.loops, strict=True))
        ndim = len(root.target.shape)
        found = (values[loops[axis]] if axis in loops else ZERO for axis in range(ndim))
        return tuple(map(self.simplify, found))

    def _vectors(self, block: Block, panel: Scalar, lane: Scalar, body: Body) -> For:
        """The loop over the columns of a panel; elements beyond the last column are not packed."""
        width, stop = self.blocks.width, const(self.blocks.width, INDEX)
        in_memory = self.reads_panels_in_place or self.is_direct
        whole = self.has_whole_panels or not in_memory
        if not whole:
            left = block.columns[1] - block.columns[0] - self._times(panel, width)
            stop = self.simplify(minimum(left, width))
        return For(lane, ZERO, stop, body, width, whole=whole)

    def _tile(self, block: Block, tile: Scalar, panel: Scalar) -> tuple[Bounds, Bounds]:
        """The rows and the columns of a tile, including those beyond the last ones."""
        height, width = self.blocks.height, self.blocks.width
        row = self.simplify(block.rows[0] + self._times(tile, height))
        column = self.simplify(block.columns[0] + self._times(panel, width))
        return (row, row + height), (column, column + width)

    def _lines(self, block: Block, tile: Scalar) -> Lines:
        """The rows of a tile."""
        height = self.blocks.height
        first = self.simplify(block.rows[0] + self._times(tile, height))
        return Lines(first, height, block.rows[1], self.size.rows % height == 0)

    def _rows(self, left: Operand, block: Block, terms: Terms, tiles: Bounds) -> Body:
        """Statements that copy rows of the left operand, repeating the last one beyond the end."""
        height = self.blocks.height
        row = index("row", self.blocks.tiles * height)
        line = self.simplify(minimum(block.rows[0] + row, block.rows[1] - 1))
        copied = left.copied_line(self.tiles, (*block.own, row), line, terms)
        start, stop = (self._times(each, height) for each in tiles)
        return (For(row, start, stop, copied),)

    def _packed_tiles(self, left: Operand, block: Block, terms: Terms, tiles: Bounds) -> Body:
        """Statements that copy the left operand as tiles, term by term."""
        tile = index("tile", self.blocks.tiles)

        def place(term: Scalar, row: Scalar) -> Position:
            return *block.own, tile, term, row

        own = self.blocks.height * self.dtype.itemsize
        is_large = self.size.rows * self.size.terms * self.dtype.itemsize > self.limits.few_bytes
        is_worth_it = is_large and own >= self.limits.shortest_line
        start, stop = tiles
        groups = Groups(tile, stop, self._lines(block, tile), is_worth_it, start)
        return left.copied(place, self.tiles, groups, terms)

    # -- numbers ------------------------------------------------------------------------------

    def _loops(self, loops: tuple[Scalar, ...], number: Scalar) -> Values:
        """The indices of loops at a linear iteration number."""
        return delinearised(loops, number, self.simplify)

    def _number(self, block: Block) -> Scalar:
        """The number of the matrix in the stack."""
        own = {loop: block.batch[loop] for loop in self.root.sides[0]}
        return number_of(own, self.simplify)

    def _column(self, block: Block, panel: Scalar) -> Scalar:
        """The first column of a panel, counted from that of its block."""
        first = self._times(panel, self.blocks.width)
        if self.overlaps:
            last = self.size.columns - self.blocks.width - block.columns[0]
            first = self.simplify(minimum(first, last))
        return first

    def _times(self, number: Scalar, by: int) -> Scalar:
        return self.simplify(number * by)

    def _apart(self, number: Scalar, by: int) -> tuple[Scalar, Scalar]:
        """The remainder and the quotient."""
        return self.simplify(irem(number, by)), self.simplify(idiv(number, by))

    def _end(self, start: Scalar, length: int, stop: int) -> Scalar:
        return self.simplify(minimum(start + length, stop))
