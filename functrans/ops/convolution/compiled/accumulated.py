"""Convolutions with few results and long sums, in registers: derivatives with respect to kernels.

Tiles are summed over a block of taps (the positions of the layer), and added to each thread's own
sums. The input region of a block, and the elements that it is multiplied by, are copied so that
channels and features are contiguous in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod

import numpy as np

from functrans.loop.nodes import INDEX, ZERO, combine_pairwise, index
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import For, Reduce, Store, load, local
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import loop_or_body, nest, shared, vectorised
from functrans.ops.convolution.compiled.accumulation import Accumulation, parts_of
from functrans.ops.convolution.compiled.copies import (
    SIDE_BY_SIDE,
    Copy,
    Position,
    Range,
    all_of,
    cleared,
    inside,
)
from functrans.ops.convolution.compiled.limits import Axis, Convolutions
from functrans.ops.convolution.compiled.shares import (
    At,
    each_image,
    first_image,
    loop_lanes,
    numbers,
    piece_at,
    share,
)
from functrans.ops.convolution.compiled.tiles import Tile, in_tiles, region
from functrans.ops.convolution.windows import Labels, Window, from_taps


def emit(at: Emission, of: Accumulation) -> None:
    """A convolution by sums over blocks, which are divided among threads."""
    _Accumulated(at, of).emit()


class _Accumulated:
    def __init__(self, at: Emission, of: Accumulation) -> None:
        self.at = at
        self.of = of
        params = at.eqn.params
        self.windows: dict[int, Window] = dict(params["windows"])
        self.x, self.x_labels = at.operand(0), params["x_labels"]
        self.y, self.y_labels = at.operand(1), params["y_labels"]
        self.out, self.out_labels = at.result(), params["out"]
        self.dtype = self.out.dtype
        taps = {axis.label: axis.extent for axis in of.taps}
        self.block = taps | {of.taps[0].label: of.length}
        self.regions = {
            label: region(from_taps(self.windows[label]), length)
            for label, length in self.block.items()
        }
        self.parts = parts_of(of, at.target[Convolutions])
        self.part = ZERO if of.is_whole else index("part", self.parts)
        self._allocate()

    def _allocate(self) -> None:
        """The sums of each part, and the copies of the operands' parts of a block."""
        of, scratch = self.of, self.at.scratch
        *around, _ = shape = [axis.extent for axis in of.results]
        regions = [size for _, size in self.regions.values()]
        if of.along_taps:
            self.sums = scratch("sums", self.dtype, (self.parts, *shape))
            self.seen = scratch(
                "seen", self.dtype, (self.parts, of.images, of.row.extent, *regions)
            )
            return
        # a tile's rows are contiguous, instead of each in a different page; so are the copies, in
        # the order of the reads
        columns, rows = -(-of.column.extent // of.lanes), -(-of.row.extent // of.height)
        taps = self.block.values()
        self.sums = scratch("sums", self.dtype, (self.parts, columns, *around, of.lanes))
        self.seen = scratch("seen", self.dtype, (self.parts, rows, of.images, *regions, of.height))
        self.given = scratch("given", self.dtype, (self.parts, columns, of.images, *taps, of.lanes))

    def emit(self) -> None:
        if self.of.is_whole:
            self._as_one_block()
        else:
            self._in_blocks()
        self._add_up()

    def _in_blocks(self) -> None:
        """The sums of each part, one block after the other."""
        _, *shape = self.sums.extents
        *loops, last = (index("i", extent) for extent in shape)
        clear = Store(self.sums, (self.part, *loops, last), const(0, self.dtype))
        body = (
            *nest(loops, vectorised(last, clear, self.at.target)),
            *cleared(self.seen, (self.part,), self.at.target),
            *share(self.part, self.of.number, self._block),
        )
        loop = For(self.part, ZERO, const(self.parts, INDEX), body, parallel=True)
        self.at.call((loop,), writes=(self.sums,))

    def _block(self, number: Scalar) -> Body:
        """The sums over a block, of all groups."""
        of, simplify = self.of, self.at.simplify
        outer, start, size = piece_at(number, of, of.taps[0].extent, simplify)

        def copied(at: At, image: Scalar) -> Body:
            body = self._seen(image, at, start)
            return body if of.along_taps else body + self._given(image, at, start, size)

        def group(number: Scalar) -> Body:
            here = outer | numbers(number, of.apart)
            here = {label: simplify(i) for label, i in here.items()}
            copies = each_image(here, of.outer, of.images, copied)
            if of.along_taps:
                return (*copies, *self._along_taps(here, start, size))
            return (*copies, *self._tiled(here, size))

        return loop_or_body("block", prod(axis.extent for axis in of.apart), group)

    def _as_one_block(self) -> None:
        """The sums as one block, divided among threads after both operands have been copied."""
        of, size = self.of, const(self.of.length, INDEX)

        def copied(at: At, image: Scalar) -> Body:
            panel = index("panel", self.seen.extents[1])
            clear = nest([panel], cleared(self.seen, (ZERO, panel, image), self.at.target))
            return clear + self._seen(image, at, ZERO) + self._given(image, at, ZERO, size)

        start = first_image({axis.label: ZERO for axis in of.outer}, of.outer, of.images)
        copies = each_image(start, of.outer, of.images, copied)
        self.at.call(shared(copies), writes=(self.seen, self.given))
        tiles = self._tiled({}, size)
        self.at.call(shared(tiles), writes=(self.sums,))

    def _add_up(self) -> None:
        """Add the sums of all parts, in the order of the result's axes."""
        column, together = self.of.column, self._together()
        around = [axis for axis in self.of.results if axis not in (*together, column)]
        absent = [axis for axis in self.of.results if axis.label not in self.out_labels]

        def columns(tile: Tile) -> Body:
            here = {axis.label: index("i", axis.extent) for axis in self.of.results}
            here[column.label] = index("lane", tile.height)
            here |= {axis.label: ZERO for axis in absent}
            stores = []
            for place in np.ndindex(*(axis.extent for axis in together)):
                here |= {a.label: const(n, INDEX) for a, n in zip(together, place, strict=True)}
                own = here | {column.label: self.at.simplify(tile.first + here[column.label])}
                summed = (*own.values(),) if self.of.along_taps else (tile.number, *here.values())
                terms = [load(self.sums, (const(n, INDEX), *summed)) for n in range(self.parts)]
                position = tuple(own[label] for label in self.out_labels)
                stores.append(Store(self.out, position, combine_pairwise("add", terms)))
            if together:
                # the inner loop is along the contiguous axis of the sums
                loops = [here[axis.label] for axis in (*around, column) if axis not in absent]
            else:
                loops = [here[label] for label in self.out_labels]
            if not loops:
                return tuple(stores)
            *outer, last = loops
            return nest(outer, vectorised(last, stores, self.at.target))

        # a few columns at a time, so that the result's lines stay in the cache
        width = self.of.lanes
        if self.of.along_taps:
            width = SIDE_BY_SIDE if together else column.extent
        self.at.call(in_tiles(column.extent, width, columns))

    def _together(self) -> tuple[Axis, ...]:
        """The axes that are contiguous in the result but not in the sums, if they are short.

        Their elements are stored together.
        """
        for number in range(len(self.of.places)):
            axes = self.of.places[number:]
            labels = tuple(axis.label for axis in axes)
            short = prod(axis.extent for axis in axes) <= SIDE_BY_SIDE
            if short and self.out_labels[-len(labels) :] == labels:
                return axes
        return ()

    def _seen(self, image: Scalar, outer: At, start: Scalar) -> Body:
        """Statements that copy the input region of a block, with zero padding."""
        row, first, simplify = self.of.row, self.of.taps[0].label, self.at.simplify
        ranges = {}
        for label, (low, positions) in self.regions.items():
            window, extent = self.windows[label], self.x.extents[self.x_labels.index(label)]
            begin = start * window.dilation if label == first else ZERO
            shift = simplify(begin + (window.offset + low))
            ranges[label] = inside(positions, shift, extent, simplify)

        def copied(ranges: Mapping[int, Range], labels: Labels, before: Position) -> Body:
            def place(at: Mapping[int, Scalar]) -> Position:
                return *before, *(at[label] for label in labels)

            copy = Copy(self.x, self.x_labels, outer, ranges, self.seen, place, labels[-1])
            return copy.padded(first, self.regions[first][1], self.at.target, simplify)

        if row.label not in self.x_labels:
            return copied(ranges, (*self.block,), (self.part, image, ZERO))
        if self.of.along_taps:
            ranges[row.label] = all_of(row.extent)
            return copied(ranges, (row.label, *self.block), (self.part, image))

        def panel(tile: Tile) -> Body:
            ranges[row.label] = all_of(tile.height, tile.first)
            before = self.part, tile.number, image
            return copied({**ranges}, (*self.block, row.label), before)

        return in_tiles(row.extent, self.of.height, panel)

    def _given(self, image: Scalar, outer: At, start: Scalar, size: Scalar) -> Body:
        """Statements that copy the other operand's part of a block."""
        column, first = self.of.column, self.of.taps[0].label
        ranges = {label: all_of(extent) for label, extent in self.block.items()}
        ranges[first] = Range(ZERO, size, start, most=self.of.length)

        def panel(tile: Tile) -> Body:
            ranges[column.label] = all_of(tile.height, tile.first)

            def place(at: Mapping[int, Scalar]) -> Position:
                inner = (at[label] for label in (*self.block, column.label))
                return self.part, tile.number, image, *inner

            copy = Copy(self.y, self.y_labels, outer, {**ranges}, self.given, place, column.label)
            return copy.statements(self.at.target, self.at.simplify)

        return in_tiles(column.extent, self.of.lanes, panel)

    def _tiled(self, outer: At, size: Scalar) -> Body:
        """Loops that add the sums of a block to those of a part."""
        of, part = self.of, self.part
        places = {axis.label: index("p", axis.extent) for axis in of.places}
        taps, image, bounds = self._terms(size)
        groups = [outer[axis.label] for axis in of.apart]
        where = self._seen_at(places, taps)

        def sums_of(rows: Tile, columns: Tile) -> Body:
            lane = index("lane", columns.height)
            factor = load(self.given, (part, columns.number, image, *taps.values(), lane))
            totals, values, stores = [], [], []
            for n in range(rows.height):
                total = local(self.dtype, f"sum{n}")
                element = load(self.seen, (part, rows.number, image, *where, const(n, INDEX)))
                here = (columns.number, *groups, *places.values(), rows.first + n, lane)
                position = (part, *map(self.at.simplify, here))
                totals.append(total)
                values.append(self.at.simplify(element * factor))
                stores.append(Store(self.sums, position, total, None if of.is_whole else "add"))
            fold = Reduce(tuple(totals), ("add",) * rows.height, tuple(values), bounds)
            lanes = loop_lanes(of.lanes, columns.height)
            return (For(lane, ZERO, const(columns.height, INDEX), (fold, *stores), lanes),)

        def panel(columns: Tile) -> Body:
            every = in_tiles(of.row.extent, of.height, lambda rows: sums_of(rows, columns))
            return nest([*places.values()], every)

        return in_tiles(of.column.extent, of.lanes, panel)

    def _seen_at(self, places: Mapping[int, Scalar], taps: At) -> list[Scalar]:
        """The position in a region of the element that a tap reads for a place."""
        where = []
        for label, k in taps.items():
            window, (low, _) = self.windows[label], self.regions[label]
            where.append(places[label] * window.stride + k * window.dilation - low)
        return where

    def _terms(self, size: Scalar) -> tuple[At, Scalar, tuple[tuple[Scalar, Scalar, Scalar], ...]]:
        """The taps and the image of a block's term, and the loops over all terms."""
        taps = {label: index("k", extent) for label, extent in self.block.items()}
        stops = [size, *(const(axis.extent, INDEX) for axis in self.of.taps[1:])]
        bounds = tuple((loop, ZERO, stop) for loop, stop in zip(taps.values(), stops, strict=True))
        if self.of.images == 1:
            return taps, ZERO, bounds
        image = index("image", self.of.images)
        return taps, image, ((image, ZERO, const(self.of.images, INDEX)), *bounds)

    def _along_taps(self, outer: At, start: Scalar, size: Scalar) -> Body:
        """Loops that add a block's sums, which are split over vector lanes, to those of a part."""
        of, simplify = self.of, self.at.simplify
        *around, last = of.places
        places = {axis.label: index("p", axis.extent) for axis in around}
        row = index("row", of.row.extent)
        taps, image, bounds = self._terms(size)
        first = of.taps[0].label
        own = outer | taps | {first: taps[first] + start}
        if of.images > 1:
            own[of.outer[-1].label] += image
        groups = [outer[axis.label] for axis in of.apart]

        def one(tile: Tile, seen_from: Tile) -> Body:
            totals, values, stores = [], [], []
            for n, p in product(range(tile.height), range(seen_from.height)):
                here = places | {last.label: seen_from.first + p}
                where = self._seen_at(here, taps)
                column = own | {of.column.label: tile.first + n}
                other = load(self.y, [simplify(column[label]) for label in self.y_labels])
                element = load(self.seen, (self.part, image, row, *where))
                values.append(simplify(element * other))
                totals.append(local(self.dtype, f"sum{n}_{p}"))
                position = (self.part, *groups, *here.values(), row, tile.first + n)
                stores.append(Store(self.sums, tuple(map(simplify, position)), totals[-1], "add"))
            whole = of.taps[-1].extent % of.lanes == 0 and len(of.taps) > 1
            ops = ("add",) * len(totals)
            fold = Reduce(tuple(totals), ops, tuple(values), bounds, lanes=of.lanes, whole=whole)
            return (fold, *stores)

        body = in_tiles(
            last.extent,
            of.width,
            lambda some: in_tiles(of.column.extent, of.height, lambda tile: one(tile, some)),
        )
        return nest([*places.values(), row], body)
