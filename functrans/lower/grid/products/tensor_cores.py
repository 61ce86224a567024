"""Tiled products on tensor cores: each warp of a team multiplies fragments, from shared memory.

The loops are those of `functrans.lower.grid.products.register_tiling`: tiles of the operands are in
shared memory, while the next ones are being loaded. Operands are computed when they are loaded, and
then rounded for tensor cores. The differences are:

- a thread loads as many adjacent elements as 16 bytes hold, and an operand has the same layout in
  shared memory as in the array from which it is loaded: fragments can be read from either layout;
- `MatrixMultiply` adds the terms to accumulators in the registers of a warp's threads;
- operands that need no computation are copied asynchronously, several stretches of terms ahead:

      for each stretch of terms, each thread:
          start the copies of a later stretch, into the tile of the previous one
          add this stretch's terms to the thread's accumulators
          wait for the next stretch's copies

- the accumulators are transferred to shared memory, a strip of 16 rows of each warp at a time: the
  code of the epilogue is generated once for a strip, in a loop, and adjacent threads store adjacent
  elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

import numpy as np

from functrans.loop import fragments
from functrans.loop.grid import Grid, WarpTile, lines
from functrans.loop.nodes import INDEX, ZERO, as_index, guard, index
from functrans.loop.scalar import Scalar, bitcast, const, convert, minimum, where
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import (
    Address,
    Await,
    Buffer,
    For,
    If,
    Let,
    MatrixMultiply,
    Panel,
    Statement,
    Store,
    buffer,
    load,
    local,
    where_true,
)
from functrans.lower.grid.contiguity import WIDEST
from functrans.lower.grid.dealing import deal, filled
from functrans.lower.grid.products.recognition import SINGLE, Product
from functrans.lower.grid.products.register_tiling import Side, Tiling
from functrans.lower.nest.linearisation import delinearised
from functrans.lower.select.root import Elements, extent_of


def _bits(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype as which elements are loaded unchanged: the bits of half floats."""
    return np.dtype(np.uint16) if dtype.itemsize == 2 else dtype


class _WarpSide(Side):
    """One operand, in lines of terms or of rows, as in memory."""

    def lines(self, product: Product, number: int) -> tuple[int, int]:
        itemsize = self.operands[number].dtype.itemsize
        return lines(product.tile.depth, self.length, itemsize, self.sums_are_near[number])

    @property
    def near(self) -> bool:
        """Whether the terms of a row are contiguous."""
        return self.sums_are_near[0]

    def strides(self) -> tuple[int, int]:
        """The distances of rows and of terms in shared memory, in elements."""
        line = self.rows[0].extents[-1]
        return (line, 1) if self.near else (1, line)

    def place(self, half: Scalar, row: Scalar, term: Scalar) -> tuple[Scalar, ...]:
        """The position of an element in shared memory."""
        return (half, row, term) if self.near else (half, term, row)


class WarpTiling(Tiling):
    """Generates the statements of a product on tensor cores; parameters are those of `Tiling`."""

    operand = _WarpSide

    left: _WarpSide
    right: _WarpSide
    sides: tuple[_WarpSide, _WarpSide]

    def __init__(
        self,
        product: Product,
        roots: Sequence[Elements],
        kept: Sequence[Elements],
        simplify: Simplifier,
        grid: Grid,
    ) -> None:
        super().__init__(product, roots, kept, simplify, grid)
        assert isinstance(product.tile, WarpTile)
        self.tile: WarpTile = product.tile
        self.blocks = self._blocks()
        self.strip = buffer("strip", self.sums.dtype, self.tile.strip)
        self.at_once = WIDEST // self.sums.dtype.itemsize
        """The number of accumulators that a thread reads from shared memory at once."""

    def _in_turn(self) -> Buffer | None:
        # the accumulators are transferred to shared memory in strips, whatever the epilogue is
        return None

    def _blocks(self) -> tuple[Scalar, ...]:
        """The loops over tiles of the result; those that are computed at a time are close together.

        The machine processes several rows of tiles column by column (tile swizzling). So these
        tiles read fewer rows and columns of the operands, which the L2 cache then holds for all of
        them.
        """
        count = extent_of(self.left.block)
        together = max(n for n in range(1, self.grid.tiles_together + 1) if count % n == 0)
        if together == 1 or not self.tile.is_copied:
            return self.blocks
        group, own = index("row_group", count // together), index("row_block", together)
        self.left.block = self.simplify(group * together + own)
        return group, self.right.block, own

    def _scratch(self) -> tuple[Buffer, ...]:
        return (*super()._scratch(), self.strip) if self.kept else super()._scratch()

    # -- loading ----------------------------------------------------------------------------------

    def _start(self) -> tuple[Statement, ...]:
        if not self.tile.is_copied:
            return super()._start()
        thread = index("thread", self.tile.threads)
        body = filled(self.sums, thread, 0)
        for stage in range(self.tile.stages - 1):
            body += [*self._copied(thread, as_index(stage)), self._await()]
        return (deal(thread, body, self.tile.threads),)

    def _stretches(self) -> tuple[Statement, ...]:
        if not self.tile.is_copied:
            return super()._stretches()
        stretch = index("stretch", -(-self.product.longest // self.tile.depth))
        thread = index("thread", self.tile.threads)
        ahead = self.simplify(stretch + (self.tile.stages - 1))
        first, *others = self._terms(thread, stretch)
        # the copies overwrite earlier terms; all threads have passed a barrier since these were
        # read. (Products come first, because they need not wait for addresses.)
        copied = self._copied(thread, ahead) if stretch.attribute[2] >= self.tile.stages else ()
        body = (first, *copied, *others, self._await())
        return (For(stretch, ZERO, self.stretches, (deal(thread, body, self.tile.threads),)),)

    def _await(self) -> Await:
        """Wait for the next stretch, but not for later ones."""
        return Await(self.tile.stages - 2)

    def _copied(self, thread: Scalar, stretch: Scalar) -> Sequence[Statement]:
        """A thread's share of the asynchronous copies of a stretch of terms."""
        exists = self.simplify(stretch < self.stretches)
        if exists.op == "const" and not exists.attribute:
            return ()
        body = self._put(thread, stretch, self._share_of(thread, stretch), late=True)
        # (terms that do not exist are filled with zeros)
        return [If(exists, tuple(body))] if self.is_whole and exists.op != "const" else body

    def _loaded(
        self, thread: Scalar, stretch: Scalar
    ) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
        """A thread's share of the operands' elements, bound to names.

        If there are no terms beyond the last one, the last loads are not needed, but exist.
        """
        if self.is_whole:
            stretch = self.simplify(minimum(stretch, self.stretches - 1))
        values = self._share_of(thread, stretch)
        return tuple(local(value.dtype, "next") for value in values), tuple(values)

    @property
    def is_whole(self) -> bool:
        """Whether the last stretch has as many terms as the others."""
        return self.count.op == "const" and int(self.count.attribute) % self.tile.depth == 0

    def _share_of(self, thread: Scalar, stretch: Scalar) -> list[Scalar]:
        """A thread's share of the operands' elements, as bits if they are not changed."""
        return [
            self._or_zero(bitcast(value, _bits(value.dtype)), inside)
            for side in self.sides
            for row, term in self._runs(thread, side)
            for value, inside in self._run(side, row, stretch, term)
        ]

    def _run(
        self, side: _WarpSide, row: Scalar, stretch: Scalar, term: Scalar
    ) -> Iterator[tuple[Scalar, Scalar | None]]:
        """Adjacent elements of an operand, and whether their terms exist."""
        width, (operand,) = self._width(side), side.operands
        place = self.simplify(stretch * self.tile.depth + term)
        inside = None if self.is_whole else self.simplify(place < self.count)
        if not self.is_whole and self.count.op == "const":
            place = minimum(place, int(self.count.attribute) - (width if side.near else 1))
        # rows and columns beyond the last one do not affect the result
        first = minimum(side.number(row), side.extent - (1 if side.near else width))
        for number in range(width):
            own, at = (first, place + number) if side.near else (first + number, place)
            known = delinearised(side.loops, own, self.simplify) | delinearised(
                self.product.counters, at, self.simplify
            )
            (value,) = self.simplify.substitute([operand], known)
            yield value, inside

    def _or_zero(self, value: Scalar, inside: Scalar | None) -> Scalar:
        if inside is None:
            return self.simplify(value)
        choose = where if self.count.op == "const" else guard
        return self.simplify(choose(inside, value, const(0, value.dtype)))

    def _put(
        self, thread: Scalar, stretch: Scalar, given: Sequence[Scalar], late: bool = False
    ) -> list[Statement]:
        half, values = self._half(stretch), iter(given)
        found: list[Statement] = []
        for side in self.sides:
            (tile,) = side.rows
            for row, term in self._runs(thread, side):
                for number in range(self._width(side)):
                    own, at = (row, term + number) if side.near else (row + number, term)
                    place = tuple(map(self.simplify, side.place(half, own, at)))
                    value = bitcast(next(values), tile.dtype)
                    found.append(Store(tile, place, value, late=late))
        return found

    def _runs(self, thread: Scalar, side: _WarpSide) -> list[tuple[Scalar, Scalar]]:
        """The first row and term of each run of a thread; adjacent threads load adjacent runs."""
        width, inner = self._width(side), self.tile.depth if side.near else side.length
        found = []
        for start in range(0, side.length * self.tile.depth // width, self.tile.threads):
            line, run = self._divided(thread + start, inner // width)
            within = self.simplify(run * width)
            found.append((line, within) if side.near else (within, line))
        return found

    def _width(self, side: _WarpSide) -> int:
        """The elements that a thread loads at once: either all elements of a run exist, or none.

        That holds if the run's length divides the loop that goes along contiguous elements.
        """
        loops = self.product.counters if side.near else side.loops
        most = WIDEST // side.rows[0].dtype.itemsize
        if len(loops) > 1 or self.count.op != "const":
            return 1
        return gcd(most, int(self.count.attribute) if side.near else extent_of(loops[0]))

    # -- summing ----------------------------------------------------------------------------------

    def _terms(self, thread: Scalar, stretch: Scalar) -> tuple[Statement, ...]:
        each = fragments.terms(self.left.rows[0].dtype)
        half, corner = self._half(stretch), self._corner(thread)
        lengths = self.tile.warp_rows, self.tile.warp_columns
        sums = Address(self.sums, (thread, ZERO))
        # copied elements have not been rounded
        rounded = self.tile.is_copied and self.left.rows[0].dtype == SINGLE

        def product(term: int) -> MatrixMultiply:
            left, right = (
                Panel(
                    Address(side.rows[0], side.place(half, first, as_index(term))),
                    length,
                    *side.strides(),
                )
                for side, first, length in zip(self.sides, corner, lengths, strict=True)
            )
            return MatrixMultiply(sums, left, right, rounded)

        return tuple(product(term) for term in range(0, self.tile.depth, each))

    def _corner(self, thread: Scalar) -> tuple[Scalar, Scalar]:
        """The first row, and column, in the tile of the warp to which a thread belongs."""
        warp, _ = self._divided(thread, fragments.WARP)
        down, across = self._divided(warp, self.tile.warps[1])
        return (
            self.simplify(down * self.tile.warp_rows),
            self.simplify(across * self.tile.warp_columns),
        )

    def _places(self, thread: Scalar) -> tuple[list[Scalar], list[Scalar]]:
        """The rows and columns of the tile of which a thread has accumulators."""
        _, lane = self._divided(thread, fragments.WARP)
        quotient, rest = self._divided(lane, 4)
        row, column = self._corner(thread)
        return (
            [self.simplify(row + x) for x in fragments.own_rows(quotient, self.tile.warp_rows)],
            [
                self.simplify(column + x)
                for x in fragments.own_columns(rest, self.tile.warp_columns)
            ],
        )

    # -- results ----------------------------------------------------------------------------------

    def _results(self) -> tuple[Statement, ...]:
        found: list[Statement] = []
        for strip in range(self.tile.copies):
            found += [self._written(strip), self._stored(strip)]
        return tuple(found)

    def _written(self, strip: int) -> For:
        """A strip of accumulators, stored in shared memory."""
        thread = index("thread", self.tile.threads)
        _, lane = self._divided(thread, fragments.WARP)
        quotient, _ = self._divided(lane, 4)
        warp, _ = self._divided(thread, fragments.WARP)
        down, _ = self._divided(warp, self.tile.warps[1])
        rows = fragments.own_rows(quotient + down * fragments.ROWS, fragments.ROWS)
        _, columns = self._places(thread)
        own = fragments.own_sums(fragments.ROWS, self.tile.warp_columns)
        start = strip * self.tile.sums // self.tile.copies
        body = [
            Store(
                self.strip,
                (self.simplify(rows[row]), columns[column]),
                load(self.sums, (thread, const(start + number, INDEX))),
            )
            for number, (row, column) in enumerate(own)
        ]
        return deal(thread, body, self.tile.threads)

    def _stored(self, strip: int) -> For:
        """The epilogue of a strip: each thread processes a strided share of its elements."""
        thread = index("thread", self.tile.threads)
        width = self._side_by_side()
        across, threads = self.tile.columns // width, self.tile.threads
        count = self.tile.warps[0] * fragments.ROWS * across // threads
        turn = index("turn", count)
        row, run = self._divided(thread, across)
        row = self.simplify(turn * (threads // across) + row)
        warp, within = self._divided(row, fragments.ROWS)
        place = warp * self.tile.warp_rows + (within + strip * fragments.ROWS)
        of_row = self._named(self.left, place)
        columns = [self.simplify(run * width + number) for number in range(width)]
        of_column = self._named(self.right, columns[0])
        named = [of_column.known]
        if width > 1:
            # (expressions of constants show that they are adjacent)
            (loop,) = self.right.loops
            named = [{loop: self.simplify(self.right.number(each))} for each in columns]
        totals = tuple(local(self.sums.dtype, "total") for _ in columns)
        loads = tuple(load(self.strip, (row, column)) for column in columns)
        made = [
            self._element({**of_row.known, **own}, convert(total, self.product.fold.dtype))
            for own, total in zip(named, totals, strict=True)
        ]
        body = [of_row.declared, Let(totals, loads), *_stores_last(made)]
        turns = For(turn, ZERO, as_index(count), where_true(of_row.inside, body))
        declared = [of_column.declared] if width == 1 else []
        return deal(thread, [*declared, *where_true(of_column.inside, [turns])], threads)

    def _side_by_side(self) -> int:
        """The adjacent elements of a row that a thread stores at once: all of them exist, or none.

        Their code is unrolled; that of a long epilogue is generated once for a strip.
        """
        nodes = sum(root.node_count for root in self.roots[1:])
        if len(self.right.loops) > 1 or self.right.extent % self.at_once:
            return 1
        written = nodes * self.at_once * self.tile.copies
        return self.at_once if written <= self.grid.largest_epilogue else 1


def _stores_last(elements: Sequence[Sequence[Statement]]) -> list[Statement]:
    """The statements of several elements, with all computations first: no element reads another."""
    every = [statement for own in elements for statement in own]
    return sorted(every, key=lambda each: isinstance(each, Store))
