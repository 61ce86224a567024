"""Convolutions with few results and long sums, in registers: derivatives with respect to kernels.

Tiles are summed up over a block of taps (which are the places of the layer), and added to sums of
which each thread has its own. What a block sees, and what it is multiplied by, are copied so that
channels and features are neighbours in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from functrans.ir.graph import Eqn
from functrans.loop.nodes import INDEX, ZERO, combine_pairwise, index
from functrans.loop.scalar import Scalar, const, idiv, irem, minimum
from functrans.loop.statements import Buffer, For, Reduce, Store, load, local
from functrans.loop.target import Target
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import nest, vectorised
from functrans.ops.convolution.compiled.copies import (
    SIDE_BY_SIDE,
    Copy,
    Position,
    Range,
    all_of,
    cleared,
    inside,
)
from functrans.ops.convolution.compiled.plan import (
    Axis,
    Convolutions,
    counts,
    fits,
    sums_are_long,
)
from functrans.ops.convolution.compiled.shares import (
    At,
    each_image,
    first_image,
    for_each,
    loop_lanes,
    numbers,
    of_images,
    share,
)
from functrans.ops.convolution.compiled.tiles import (
    Tile,
    height_of,
    images_of,
    in_tiles,
    lanes_of,
    length_of,
    most_sums,
    region,
    registers_of_sums,
)
from functrans.ops.convolution.convolution import Labels, extents, roles
from functrans.ops.convolution.windows import Window, from_taps


class Accumulation(NamedTuple):
    """How a convolution is done by sums of blocks.

    Parameters
    ----------
    apart : tuple of Axis
        Groups.
    outer : tuple of Axis
        What is summed over besides the taps: images.
    taps : tuple of Axis
        They are in a block, but of the first axis only a stretch.
    length : int
        Of that stretch; the last one may be shorter.
    places : tuple of Axis
        The positions of windows.
    row, column : Axis
        Channels, neighbours of which are a tile, and features, along which vectors go.
    lanes, height : int
        The extents of tiles.
    along_taps : bool
        Whether vectors go along the last axis of taps instead, since there are few channels or
        features: a tile is some features, and all places along the last axis of them.
    images : int
        So many along the last of the outer axes are in a block.
    """

    apart: tuple[Axis, ...]
    outer: tuple[Axis, ...]
    taps: tuple[Axis, ...]
    length: int
    places: tuple[Axis, ...]
    row: Axis
    column: Axis
    lanes: int
    height: int
    along_taps: bool = False
    images: int = 1

    @property
    def pieces(self) -> int:
        """How many stretches there are of the first axis."""
        return -(-self.taps[0].extent // self.length)

    @property
    def number(self) -> int:
        """How many blocks there are."""
        return prod(axis.extent for axis in self.outer) * self.pieces // self.images

    @property
    def is_whole(self) -> bool:
        """Whether all is one block, of whose results threads take their shares."""
        return self.number == 1 and not self.along_taps and not self.apart

    @property
    def results(self) -> tuple[Axis, ...]:
        """The axes of the sums."""
        return (*self.apart, *self.places, self.row, self.column)


def accumulation(eqn: Eqn, target: Target) -> Accumulation | None:
    """How a convolution is done by sums of blocks, or None where another way is better."""
    if not fits(eqn, target) or "vectorise" not in target.stages:
        return None
    _, column_count, _ = counts(eqn)
    x, y = (operand.aval.shape for operand in eqn.inputs)
    own, other, out = (eqn.params[key] for key in ("x_labels", "y_labels", "out"))
    windows = dict(eqn.params["windows"])
    found = roles(own, other, out, eqn.params["windows"])
    one_each = len(found.rows) == len(found.columns) == 1
    if not sums_are_long(eqn, target) or not one_each or not windows:
        return None
    sizes = extents(x, y, eqn.params)
    row, column = Axis(found.rows[0], sizes[found.rows[0]]), Axis(found.columns[0], column_count)
    dtype = eqn.outputs[0].aval.dtype
    registers = target.lanes(dtype.itemsize)
    limits = target[Convolutions]
    order = [label for label in own if label in windows]
    lanes = lanes_of(column.extent, registers, limits)
    height = height_of(row.extent, most_sums(target, dtype.itemsize, lanes))
    last = windows[order[-1]]
    few = row.extent < limits.fewest_rows or column.extent < limits.filled * registers
    along_taps = (
        few
        and order[-1] == own[-1] == other[-1]
        and last.dilation == 1
        and last.places <= limits.most_sums_in_registers
        and last.taps >= limits.filled * registers
    )
    if column.extent < limits.filled * registers and not along_taps:
        return None
    if along_taps:
        lanes = registers
        height = height_of(column.extent, registers_of_sums(target) // last.places)
    if eqn.outputs[0].aval.size * limits.fewest_sums > limits.largest_parts:
        return None
    room = target.cache // limits.part_of_cache // dtype.itemsize
    seen = [from_taps(windows[label]) for label in order]
    given = [Window(window.places, 1) for window in seen]
    lengths = length_of(seen, row.extent, room), length_of(given, column.extent, room)
    length = min(lengths, key=lambda n: n or 0)
    if length is None:
        return None
    return Accumulation(
        tuple(Axis(label, sizes[label]) for label in found.groups),
        tuple(Axis(label, sizes[label]) for label in found.summed),
        tuple(Axis(label, windows[label].taps) for label in order),
        length,
        tuple(Axis(label, sizes[label]) for label in order),
        row,
        column,
        lanes,
        height,
        along_taps,
        _images(eqn, order, target) if length == windows[order[0]].taps else 1,
    )


def _images(eqn: Eqn, order: Sequence[int], target: Target) -> int:
    """How many images are in a block, so that sums beyond the nearest caches are read less.

    All of them, if the sums are larger than what they are made of.
    """
    limits, aval = target[Convolutions], eqn.outputs[0].aval
    windows, room = dict(eqn.params["windows"]), target.cache // limits.part_of_cache
    found = roles(*(eqn.params[key] for key in ("x_labels", "y_labels", "out", "windows")))
    if aval.size * aval.dtype.itemsize <= room or not found.summed:
        return 1
    x, y = (operand.aval.shape for operand in eqn.inputs)
    sizes = extents(x, y, eqn.params)
    seen = sizes[found.rows[0]] * prod(
        region(from_taps(windows[label]), windows[label].taps)[1] for label in order
    )
    if len(found.summed) == 1 and not found.groups:
        given = sizes[found.columns[0]] * prod(windows[label].taps for label in order)
        if (seen + given) * sizes[found.summed[0]] <= aval.size:
            return sizes[found.summed[0]]
    return images_of(sizes[found.summed[-1]], 2 * room // (seen * aval.dtype.itemsize), limits)


def parts_of(of: Accumulation, limits: Convolutions) -> int:
    """Into how many parts the sums are cut: as many as fit, a power of two if not all."""
    fitting = limits.largest_parts // prod(axis.extent for axis in of.results)
    most = min(limits.most_sums, of.number)
    return most if fitting >= most else 1 << (fitting.bit_length() - 1)


def emit(at: Emission, of: Accumulation) -> None:
    """A convolution by sums of blocks, of which threads take their shares."""
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
        self.block = dict(zip((axis.label for axis in of.taps),
                              (of.length, *(axis.extent for axis in of.taps[1:])),
                              strict=True))  # fmt: skip
        self.regions = {
            label: region(from_taps(self.windows[label]), length)
            for label, length in self.block.items()
        }

    def emit(self) -> None:
        of = self.of
        parts = parts_of(of, self.at.target[Convolutions])
        part = index("part", parts)
        shape = [axis.extent for axis in of.results]
        sums = self.at.scratch("sums", self.dtype, (parts, *shape))
        regions = [size for _, size in self.regions.values()]
        if of.along_taps:
            seen = self.at.scratch("seen", self.dtype, (parts, of.images, of.row.extent, *regions))
            given = self.y
        else:
            # in panels: what is read one after the other lies one behind the other
            rows, columns = -(-of.row.extent // of.height), -(-of.column.extent // of.lanes)
            panel = (*regions, of.height), (*self.block.values(), of.lanes)
            seen = self.at.scratch("seen", self.dtype, (parts, rows, of.images, *panel[0]))
            given = self.at.scratch("given", self.dtype, (parts, columns, of.images, *panel[1]))

        def block(number: Scalar) -> Body:
            outer = numbers(idiv(number, of.pieces), of_images(of.outer, of.images))
            outer = first_image(outer, of.outer, of.images)
            start = self.at.simplify(irem(number, of.pieces) * of.length)
            size = const(of.length, INDEX)
            if of.pieces * of.length != of.taps[0].extent:
                left = const(of.taps[0].extent, INDEX) - start
                size = self.at.simplify(minimum(left, size))

            def group(g: Scalar) -> Body:
                here = outer | numbers(g, of.apart)
                here = {label: self.at.simplify(i) for label, i in here.items()}

                def copied(at: At, image: Scalar) -> Body:
                    body = self._seen(seen, part, image, at, start)
                    if not of.along_taps:
                        body += self._given(given, part, image, at, start, size)
                    return body

                copies = each_image(here, of.outer, of.images, copied)
                if of.along_taps:
                    return (*copies, *self._along_taps(sums, seen, part, here, start, size))
                return (*copies, *self._tiled(sums, seen, given, part, here, size))

            return for_each(prod(axis.extent for axis in of.apart), group)

        if of.is_whole:
            self._as_one_block(sums, seen, given)
            self._add_up(sums, parts)
            return

        loops = [index("i", extent) for extent in shape]
        clear = Store(sums, (part, *loops), const(0, self.dtype))
        body = (
            *nest(loops[:-1], vectorised(loops[-1], clear, self.at.target)),
            *cleared(seen, (part,), self.at.target),
            *share(part, of.number, block),
        )
        loop = For(part, ZERO, const(parts, INDEX), body, parallel=True)
        self.at.call((loop,), work=self._work(), writes=(sums,))
        self._add_up(sums, parts)

    def _work(self) -> int:
        sizes = (*self.of.results, *self.of.outer, *self.of.taps)
        return prod(axis.extent for axis in sizes) // 8

    def _as_one_block(self, sums: Buffer, seen: Buffer, given: Buffer) -> None:
        """The sums, of which threads take their shares when both operands have been copied."""
        of, size = self.of, const(self.of.length, INDEX)

        def copied(at: At, image: Scalar) -> Body:
            panel = index("panel", seen.extents[1])
            clear = nest([panel], cleared(seen, (ZERO, panel, image), self.at.target))
            copies = self._seen(seen, ZERO, image, at, ZERO)
            return clear + copies + self._given(given, ZERO, image, at, ZERO, size)

        start = first_image({axis.label: ZERO for axis in of.outer}, of.outer, of.images)
        copies = each_image(start, of.outer, of.images, copied)
        self.at.call(_shared(copies), work=seen.count + given.count, writes=(seen, given))
        tiles = self._tiled(sums, seen, given, ZERO, {}, size)
        self.at.call(_shared(tiles), work=self._work(), writes=(sums,))

    def _add_up(self, sums: Buffer, parts: int) -> None:
        """The sums of all parts, in the order of the result's axes."""
        column, together = self.of.column, self._together()
        around = [axis for axis in self.of.results if axis not in (*together, column)]

        def columns(tile: Tile) -> Body:
            here = {axis.label: index("i", axis.extent) for axis in self.of.results}
            lane = here[column.label] = index("lane", tile.height)
            stores = []
            for place in np.ndindex(*(axis.extent for axis in together)):
                here |= {a.label: const(n, INDEX) for a, n in zip(together, place, strict=True)}
                own = here | {column.label: self.at.simplify(tile.first + lane)}
                terms = [load(sums, (const(n, INDEX), *own.values())) for n in range(parts)]
                position = tuple(own[label] for label in self.out_labels)
                stores.append(Store(self.out, position, combine_pairwise("add", terms)))
            if together:
                # what is dense in the sums is the inner loop
                loops = [here[axis.label] for axis in (*around, column)]
            else:
                loops = [here[label] for label in self.out_labels]
            *outer, last = loops
            return nest(outer, vectorised(last, stores, self.at.target))

        # of few columns at a time, whose lines of the result stay in the cache
        width = SIDE_BY_SIDE if together else column.extent
        self.at.call(in_tiles(column.extent, width, columns), work=parts * self.out.count)

    def _together(self) -> tuple[Axis, ...]:
        """The axes that are dense in the result and not in the sums, if they are short.

        Their elements are stored together.
        """
        for number in range(len(self.of.places)):
            axes = self.of.places[number:]
            labels = tuple(axis.label for axis in axes)
            short = prod(axis.extent for axis in axes) <= SIDE_BY_SIDE
            if short and self.out_labels[-len(labels) :] == labels:
                return axes
        return ()

    def _seen(self, seen: Buffer, part: Scalar, image: Scalar, outer: At, start: Scalar) -> Body:
        """Statements that copy what a block of taps is multiplied by, with zeros around it."""
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

            copy = Copy(self.x, self.x_labels, outer, ranges, seen, place, labels[-1])
            every = (copy, *copy.around(first, self.regions[first][1]))
            return tuple(each for one in every for each in one.statements(self.at.target, simplify))

        if self.of.along_taps:
            ranges[row.label] = all_of(row.extent)
            return copied(ranges, (row.label, *self.block), (part, image))

        def panel(tile: Tile) -> Body:
            ranges[row.label] = all_of(tile.height, tile.first)
            return copied({**ranges}, (*self.block, row.label), (part, tile.number, image))

        return in_tiles(row.extent, self.of.height, panel)

    def _given(
        self,
        given: Buffer,
        part: Scalar,
        image: Scalar,
        outer: At,
        start: Scalar,
        size: Scalar,
    ) -> Body:
        """Statements that copy what of the other operand belongs to a block."""
        column, first = self.of.column, self.of.taps[0].label
        ranges = {label: all_of(extent) for label, extent in self.block.items()}
        ranges[first] = Range(ZERO, size, start, most=self.of.length)

        def panel(tile: Tile) -> Body:
            ranges[column.label] = all_of(tile.height, tile.first)

            def place(at: Mapping[int, Scalar]) -> Position:
                inner = (at[label] for label in (*self.block, column.label))
                return part, tile.number, image, *inner

            copy = Copy(self.y, self.y_labels, outer, {**ranges}, given, place, column.label)
            return copy.statements(self.at.target, self.at.simplify)

        return in_tiles(column.extent, self.of.lanes, panel)

    def _tiled(
        self, sums: Buffer, seen: Buffer, given: Buffer, part: Scalar, outer: At, size: Scalar
    ) -> Body:
        """Loops that add the sums of a block to those of a part."""
        of = self.of
        places = {axis.label: index("p", axis.extent) for axis in of.places}
        taps = {label: index("k", extent) for label, extent in self.block.items()}
        stops = [size, *(const(axis.extent, INDEX) for axis in of.taps[1:])]
        image, bounds = self._terms(taps, stops)
        groups = [outer[axis.label] for axis in of.apart]
        where = []
        for label, k in taps.items():
            window, (low, _) = self.windows[label], self.regions[label]
            where.append(places[label] * window.stride + k * window.dilation - low)

        def sums_of(rows: Tile, columns: Tile) -> Body:
            lane = index("lane", columns.height)
            factor = load(given, (part, columns.number, image, *taps.values(), lane))
            totals, values, stores = [], [], []
            for n in range(rows.height):
                total = local(self.dtype, f"sum{n}")
                element = load(seen, (part, rows.number, image, *where, const(n, INDEX)))
                here = (*groups, *places.values(), rows.first + n, columns.first + lane)
                position = (part, *map(self.at.simplify, here))
                totals.append(total)
                values.append(self.at.simplify(element * factor))
                stores.append(Store(sums, position, total, None if of.is_whole else "add"))
            fold = Reduce(tuple(totals), ("add",) * rows.height, tuple(values), bounds)
            lanes = loop_lanes(of.lanes, columns.height)
            return (For(lane, ZERO, const(columns.height, INDEX), (fold, *stores), lanes),)

        def panel(columns: Tile) -> Body:
            every = in_tiles(of.row.extent, of.height, lambda rows: sums_of(rows, columns))
            return nest([*places.values()], every)

        return in_tiles(of.column.extent, of.lanes, panel)

    def _terms(
        self, taps: At, stops: Sequence[Scalar]
    ) -> tuple[Scalar, tuple[tuple[Scalar, Scalar, Scalar], ...]]:
        """Which of its images a term of a block is of, and the loops over all of them."""
        bounds = tuple((loop, ZERO, stop) for loop, stop in zip(taps.values(), stops, strict=True))
        if self.of.images == 1:
            return ZERO, bounds
        image = index("image", self.of.images)
        return image, ((image, ZERO, const(self.of.images, INDEX)), *bounds)

    def _along_taps(
        self, sums: Buffer, seen: Buffer, part: Scalar, outer: At, start: Scalar, size: Scalar
    ) -> Body:
        """Loops that add the sums of a block, of which each lane has a part, to those of a part."""
        of, simplify = self.of, self.at.simplify
        *around, last = of.places
        places = {axis.label: index("p", axis.extent) for axis in around}
        row = index("row", of.row.extent)
        taps = {label: index("k", extent) for label, extent in self.block.items()}
        stops = [size, *(const(axis.extent, INDEX) for axis in of.taps[1:])]
        image, bounds = self._terms(taps, stops)
        first = of.taps[0].label
        own = outer | taps | {first: taps[first] + start}
        if of.images > 1:
            own[of.outer[-1].label] += image
        groups = [outer[axis.label] for axis in of.apart]

        def one(tile: Tile) -> Body:
            totals, values, stores = [], [], []
            for n, p in product(range(tile.height), range(last.extent)):
                here = places | {last.label: const(p, INDEX)}
                where = []
                for label, k in taps.items():
                    window, (low, _) = self.windows[label], self.regions[label]
                    where.append(here[label] * window.stride + k * window.dilation - low)
                column = own | {of.column.label: tile.first + n}
                other = load(self.y, [simplify(column[label]) for label in self.y_labels])
                values.append(simplify(load(seen, (part, image, row, *where)) * other))
                totals.append(local(self.dtype, f"sum{n}_{p}"))
                position = (part, *groups, *here.values(), row, tile.first + n)
                stores.append(Store(sums, tuple(map(simplify, position)), totals[-1], "add"))
            whole = of.taps[-1].extent % of.lanes == 0 and len(of.taps) > 1
            ops = ("add",) * len(totals)
            fold = Reduce(tuple(totals), ops, tuple(values), bounds, lanes=of.lanes, whole=whole)
            return (fold, *stores)

        return nest([*places.values(), row], in_tiles(of.column.extent, of.height, one))


def _shared(body: Body) -> Body:
    """Loops whose iterations threads share."""
    return tuple(replace(each, parallel=True) if isinstance(each, For) else each for each in body)
