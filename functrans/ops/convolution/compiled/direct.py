"""Convolutions in registers: for each tile of results, one loop over channels and taps.

It needs no copy of the windows, and uses full machine vectors, independently of any library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, idiv, irem, maximum, minimum
from functrans.loop.statements import Buffer, For, Reduce, Store, load, local
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import nest, vectorised
from functrans.ops.convolution.compiled.copies import Copy, Range, all_of, cleared, inside
from functrans.ops.convolution.compiled.limits import Convolutions
from functrans.ops.convolution.compiled.shares import (
    At,
    each_image,
    loop_lanes,
    piece_at,
    share,
)
from functrans.ops.convolution.compiled.tiles import Tile, Tiles, in_tiles, region
from functrans.ops.convolution.windows import Labels, Window
from functrans.records import NamedTuple


def emit(at: Emission, tiles: Tiles) -> None:
    """A convolution by tiles, in blocks that are divided among threads."""
    _Direct(at, tiles).emit()


class _Block(NamedTuple):
    """A block of positions."""

    part: Scalar  # the number of the thread's part
    outer: At  # its position along the outer axes
    image: Scalar  # the number of the image in the block
    start: Scalar  # the start of its piece of the first axis
    size: Scalar  # the length of this piece
    seen: Buffer  # the copy of its input region
    weights: Buffer  # the copy of the other operand


class _Nest(NamedTuple):
    """The loops over the positions and features of a block, and their ends, by labels."""

    loops: At
    stops: At


def taps_inside(window: Window, extent: int, first: Scalar, last: Scalar) -> tuple[Scalar, Scalar]:
    """The range of taps that read elements in bounds, from any position of a range."""
    step = abs(window.dilation)
    if window.dilation > 0:
        before = -(last * window.stride + window.offset)
        behind = (extent - 1) - (first * window.stride + window.offset)
    else:
        before = first * window.stride + (window.offset - (extent - 1))
        behind = last * window.stride + window.offset
    start = idiv(maximum(before + (step - 1), ZERO), step)
    stop = idiv(maximum(behind + step, ZERO), step)
    return start, minimum(stop, const(window.taps, INDEX))


class _Direct:
    def __init__(self, at: Emission, tiles: Tiles) -> None:
        self.at = at
        self.tiles = tiles
        params = at.eqn.params
        self.windows = dict(params["windows"])
        self.x, self.x_labels = at.operand(0), params["x_labels"]
        self.out, self.out_labels = at.result(), params["out"]
        self.dtype = self.out.dtype
        self.kept: Labels = tuple(axis.label for axis in tiles.summed)
        lengths = dict(zip((axis.label for axis in tiles.places), tiles.block, strict=True))
        sizes = dict(zip(self.x_labels, self.x.extents, strict=True))
        self.regions = {}
        for label, length in lengths.items():
            window = self.windows[label]
            low, size = region(window, length)
            if tiles.along_images:
                low, size = -window.offset, sizes[label]  # all of it, without zero padding
            self.regions[label] = low, -(-size // tiles.step(window))
        self.skipping = {
            axis.label: sizes[axis.label]
            for axis in tiles.places
            if tiles.skips(axis, self.windows[axis.label], sizes[axis.label], at.target)
        }

    def emit(self) -> None:
        weights = self._packed()
        tiles = self.tiles
        parts = min(tiles.number, self.at.target[Convolutions].most_parts)
        part = index("part", parts)
        extents = {axis.label: axis.extent for axis in tiles.summed}
        shape = [
            self.regions[label][1] if label in self.regions else extents[label]
            for label in self.kept
        ]
        if tiles.pitch:
            shape[-2:] = [self._flat_region()]
        if tiles.along_images:
            shape = [*shape, tiles.images]
        if tiles.line:
            made = parts, tiles.height, *tiles.line
            self.made = self.at.scratch("made", self.dtype, made)
        phases = [tiles.step(self.windows[axis.label]) for axis in tiles.places]
        copies = 1 if tiles.along_images else tiles.images
        seen = self.at.scratch("seen", self.dtype, (parts, copies, *phases, *shape))

        def block(number: Scalar) -> Body:
            outer, start, size = piece_at(number, tiles, tiles.places[0].extent, self.at.simplify)
            outer = {label: self.at.simplify(i) for label, i in outer.items()}
            here = _Block(part, outer, ZERO, start, size, seen, weights)
            return (*self._for_images(here, self._copied), *self._tiled(here))

        # vectors of images read no zero padding
        clear = () if tiles.along_images else cleared(seen, (part,), self.at.target)
        body = (*clear, *share(part, tiles.number, block))
        loop = For(part, ZERO, const(parts, INDEX), body, parallel=True)
        self.at.call((loop,))

    def _flat_region(self) -> int:
        """The contiguous elements that a block's vectors read, also after its last position."""
        tiles = self.tiles
        (_, rows), (_, columns) = (self.regions[axis.label] for axis in tiles.places[-2:])
        across = (rows - tiles.rows) * tiles.pitch + columns - tiles.places[-1].extent
        return max(rows * tiles.pitch + columns, tiles.joined + across)

    def _for_images(self, block: _Block, body: Callable[[_Block], Body]) -> Body:
        """A loop over the images of a block, if vectors do not go along them."""
        if self.tiles.along_images:
            return body(block)

        return each_image(
            block.outer, self.tiles.outer, self.tiles.images,
            lambda outer, image: body(block._replace(outer=outer, image=image)),
        )  # fmt: skip

    # -- copies -------------------------------------------------------------------------------

    def _packed(self) -> Buffer:
        """The other operand in panels: for each term, the features of a tile side by side."""
        y, y_labels = self.at.operand(1), self.at.eqn.params["y_labels"]
        sizes = dict(zip(y_labels, y.extents, strict=True))
        column, side = self.tiles.column, self.tiles.side
        apart = [axis.label for axis in self.tiles.outer if axis.label in y_labels]
        summed = [axis.label for axis in self.tiles.summed]
        shape = (sizes[label] for label in (*apart, *summed))
        panels = -(-column.extent // side)
        packed = self.at.scratch("packed", self.dtype, (panels, *shape, side))
        loops = {label: index("i", sizes[label]) for label in (*apart, *summed)}

        def copied(panel: Tile) -> Body:
            lane = index("lane", panel.height)
            where = loops | {column.label: panel.first + lane}
            value = load(y, [self.at.simplify(where[label]) for label in y_labels])
            store = Store(packed, (panel.number, *loops.values(), lane), value)
            inner = [loops[label] for label in y_labels if label in loops]
            return nest(inner, vectorised(lane, store, self.at.target))

        body = in_tiles(column.extent, side, copied)
        self.at.call(body, writes=(packed,))
        return packed

    def _copied(self, block: _Block) -> Body:
        """Statements that copy the input region of a block of positions, with zero padding.

        Strided windows read phases of the input (polyphase decomposition), in which neighbouring
        positions see neighbouring elements. Phases that no tap sees are left out.
        """
        phases = []
        for axis in self.tiles.places:
            window, (low, _) = self.windows[axis.label], self.regions[axis.label]
            taps = (window.dilation * k - low for k in range(window.taps))
            phases.append(sorted({k % self.tiles.step(window) for k in taps}))
        return tuple(each for phase in product(*phases) for each in self._phase(block, phase))

    def _phase(self, block: _Block, phase: Sequence[int]) -> Body:
        """Statements that copy one of the phases."""
        sizes = dict(zip(self.x_labels, self.x.extents, strict=True))
        first, pitch = self.tiles.places[0].label, self.tiles.pitch
        ranges = {label: all_of(sizes[label]) for label in self.kept if label not in self.windows}
        for axis, part in zip(self.tiles.places, phase, strict=True):
            label = axis.label
            window, (low, positions) = self.windows[label], self.regions[label]
            begin = block.start * window.stride if label == first else ZERO
            shift = self.at.simplify(begin + (window.offset + low + part))
            step = self.tiles.step(window)
            ranges[label] = inside(positions, shift, sizes[label], self.at.simplify, step)
        before = (block.part, block.image, *(const(n, INDEX) for n in phase))
        kept = self.kept
        if self.tiles.along_images:
            image = self.tiles.outer[-1].label
            kept = *kept, image
            ranges[image] = all_of(self.tiles.images, block.outer[image])

        def place(at: Mapping[int, Scalar]) -> tuple[Scalar, ...]:
            position = [at[label] for label in kept]
            if pitch:
                position[-2:] = [position[-2] * pitch + position[-1]]
            return (*before, *position)

        copy = Copy(self.x, self.x_labels, block.outer, ranges, block.seen, place, kept[-1])
        return copy.padded(first, self.regions[first][1], self.at.target, self.at.simplify)

    # -- tiles --------------------------------------------------------------------------------

    def _tiled(self, block: _Block) -> Body:
        """Loops over the tiles of a block."""
        tiles = self.tiles
        loops = {
            axis.label: index("i", n) for axis, n in zip(tiles.places, tiles.block, strict=True)
        }
        stops = {label: const(loop.attribute[2], INDEX) for label, loop in loops.items()}
        stops[tiles.places[0].label] = block.size
        nest = _Nest(loops, stops)

        def over_features(panel: Tile) -> Body:
            def one(block: _Block) -> Body:
                if tiles.pitch:
                    return self._around(nest, 2, self._joined(block, nest, panel))
                if tiles.along_images:
                    return self._around(nest, 1, self._along_images(block, nest, panel))
                if not tiles.along_features:
                    return self._around(nest, 1, self._along_places(block, nest, panel))
                body = in_tiles(
                    tiles.places[-1].extent,
                    tiles.height,
                    lambda tile: self._along_features(block, nest, panel, tile),
                )
                return self._around(nest, 1, body)

            return self._for_images(block, one)

        # a few features at a time, so that their weights stay in the nearest cache
        return in_tiles(tiles.column.extent, tiles.side, over_features)

    def _around(self, nest: _Nest, last: int, body: Body) -> Body:
        """Loops over positions, without the innermost ones."""
        for axis in reversed(self.tiles.places[:-last]):
            body = (For(nest.loops[axis.label], ZERO, nest.stops[axis.label], body),)
        return body

    def _along_places(self, block: _Block, nest: _Nest, panel: Tile) -> Body:
        """A tile of a vector of positions for each of the features of a panel."""
        loop = nest.loops[self.tiles.places[-1].label]
        columns = [const(n, INDEX) for n in range(panel.height)]

        def vectors(start: Scalar, stop: Scalar, lanes: int) -> For:
            body = self._of_tile(block, panel, [(nest.loops, lane) for lane in columns])
            return For(loop, start, stop, body, lanes)

        lanes, extent = self.tiles.lanes, loop.attribute[2]
        stop, rest = nest.stops[self.tiles.places[-1].label], extent % lanes
        if not rest or extent < lanes or stop.op != "const":
            return (vectors(ZERO, stop, loop_lanes(lanes, extent)),)
        # the rest is a shorter vector, which may overlap, since masks would need registers
        short = 1 << (rest - 1).bit_length()
        whole = const(extent - rest, INDEX)
        left = replace(vectors(const(extent - short, INDEX), stop, short), whole=True)
        return replace(vectors(ZERO, whole, lanes), whole=True), left

    def _along_features(self, block: _Block, nest: _Nest, panel: Tile, tile: Tile) -> Body:
        """A tile of a vector of the features of a panel for each of a few neighbours."""
        last, lane = self.tiles.places[-1].label, index("lane", panel.height)
        places = [nest.loops | {last: tile.first + n} for n in range(tile.height)]
        body = self._of_tile(block, panel, [(place, lane) for place in places])
        lanes = loop_lanes(self.tiles.lanes, panel.height)
        return (For(lane, ZERO, const(panel.height, INDEX), body, lanes),)

    def _along_images(self, block: _Block, nest: _Nest, panel: Tile) -> Body:
        """A tile of a vector of images for each of the features of a panel, along a line.

        Vectors are transposed in registers as the line is copied to the result.
        """
        column, last = self.tiles.column.label, self.tiles.places[-1].label
        image, lane = self.tiles.outer[-1].label, index("lane", self.tiles.images)
        features = [const(n, INDEX) for n in range(panel.height)]
        sums = tuple(local(self.dtype, f"sum{n}") for n in range(panel.height))
        here = nest.loops | {image: lane}
        fold = self._summed(block, panel, [(here, feature) for feature in features], sums)
        kept = (Store(self.made, (block.part, feature, nest.loops[last], lane), total)
                for feature, total in zip(features, sums, strict=True))  # fmt: skip
        lanes, width = self.tiles.lanes, const(self.tiles.images, INDEX)
        vectors = For(lane, ZERO, width, (fold, *kept), lanes, whole=True)
        line = For(nest.loops[last], ZERO, nest.stops[last], (vectors,))

        def place(at: Mapping[int, Scalar]) -> tuple[Scalar, ...]:
            here = {**nest.loops, **at, image: block.outer[image] + at[image]}
            return self._place(block, here, panel.first + at[column])

        part = -1  # the label of no axis
        ranges = {column: all_of(panel.height), image: all_of(self.tiles.images)}
        ranges[last] = Range(ZERO, nest.stops[last], ZERO, most=nest.loops[last].attribute[2])
        labels = (part, column, last, image)
        before = {part: block.part}
        copy = Copy(self.made, labels, before, ranges, self.out, place, self.out_labels[-1])
        return line, *copy.statements(self.at.target, self.at.simplify)

    def _of_tile(self, block: _Block, panel: Tile, members: Sequence[tuple[At, Scalar]]) -> Body:
        """The sums of positions and features of a panel, and their stores."""
        sums = tuple(local(self.dtype, f"sum{n}") for n in range(len(members)))
        fold = self._summed(block, panel, members, sums)
        stores = (self._store(block, place, panel.first + lane, total)
                  for (place, lane), total in zip(members, sums, strict=True))  # fmt: skip
        return fold, *stores

    def _joined(self, block: _Block, nest: _Nest, panel: Tile) -> Body:
        """Vectors along concatenated lines, whose margins are left out when results are copied."""
        tiles, simplify = self.tiles, self.at.simplify
        rows, columns = (axis.label for axis in tiles.places[-2:])
        vector, lane = index("vector", tiles.joined // tiles.lanes), index("lane", tiles.lanes)
        place, stop = vector * tiles.lanes + lane, const(vector.attribute[2], INDEX)
        if nest.stops[rows].op != "const":
            extent = (nest.stops[rows] - 1) * tiles.pitch + tiles.places[-1].extent
            stop = simplify(idiv(extent + (tiles.lanes - 1), tiles.lanes))
        sums = tuple(local(self.dtype, f"sum{n}") for n in range(panel.height))
        here = nest.loops | {rows: ZERO, columns: place}
        members = [(here, const(n, INDEX)) for n in range(panel.height)]
        first = vector * tiles.lanes
        spanned = idiv(first, tiles.pitch), idiv(first + (tiles.lanes - 1), tiles.pitch)
        fold = self._summed(block, panel, members, sums, {rows: spanned})
        kept = (Store(self.made, (block.part, const(n, INDEX), place), total)
                for n, total in enumerate(sums))  # fmt: skip
        width = const(tiles.lanes, INDEX)
        one = For(lane, ZERO, width, (fold, *kept), tiles.lanes, whole=True)
        vectors = For(vector, ZERO, stop, (one,))
        feature = index("feature", panel.height)
        made = simplify(nest.loops[rows] * tiles.pitch + nest.loops[columns])
        value = load(self.made, (block.part, feature, made))
        store = self._store(block, nest.loops, panel.first + feature, value)
        *_, lines = vectorised(nest.loops[columns], store, self.at.target)
        line = For(nest.loops[rows], ZERO, nest.stops[rows], (lines,))
        return vectors, For(feature, ZERO, const(panel.height, INDEX), (line,))

    def _store(self, block: _Block, place: At, column: Scalar, value: Scalar) -> Store:
        """The statement that writes a result."""
        return Store(self.out, self._place(block, place, column), value)

    def _place(self, block: _Block, place: At, column: Scalar) -> tuple[Scalar, ...]:
        """The position of a result in memory."""
        first = self.tiles.places[0].label
        element = block.outer | place | {first: place[first] + block.start}
        element |= {self.tiles.column.label: column}
        return tuple(self.at.simplify(element[label]) for label in self.out_labels)

    def _summed(
        self, block: _Block, panel: Tile, members: Sequence[tuple[At, Scalar]],
        sums: tuple[Scalar, ...], lines: Mapping[int, tuple[Scalar, Scalar]] | None = None,
    ) -> Reduce:  # fmt: skip
        """The statement that sums the terms of positions, each with one of a panel's features.

        The positions are equal along all axes but the last, or between the first and last ``lines``
        along some.
        """
        summed = {axis.label: index("k", axis.extent) for axis in self.tiles.summed}
        bounds = []
        for label, k in summed.items():
            start, stop = ZERO, const(k.attribute[2], INDEX)
            if label in self.skipping:
                here = members[0][0][label]
                first, last = (lines or {}).get(label, (here, here))
                if label == self.tiles.places[0].label:
                    first, last = first + block.start, last + block.start
                start, stop = taps_inside(self.windows[label], self.skipping[label], first, last)
            bounds.append((k, self.at.simplify(start), self.at.simplify(stop)))
        y_labels = self.at.eqn.params["y_labels"]
        apart = [block.outer[axis.label] for axis in self.tiles.outer if axis.label in y_labels]
        values = []
        for place, lane in members:
            weight = load(block.weights, (panel.number, *apart, *summed.values(), lane))
            values.append(self.at.simplify(self._element(block, place, summed) * weight))
        return Reduce(sums, ("add",) * len(sums), tuple(values), tuple(bounds))

    def _element(self, block: _Block, here: At, summed: At) -> Scalar:
        phases, found = [], dict(summed)
        for axis in self.tiles.places:
            label = axis.label
            window, (low, _) = self.windows[label], self.regions[label]
            step, tap = self.tiles.step(window), summed[label] * window.dilation - low
            phases.append(irem(tap, step))
            found[label] = here[label] * (window.stride // step) + idiv(tap, step)
        position = [found[label] for label in self.kept]
        if self.tiles.pitch:
            position[-2:] = [position[-2] * self.tiles.pitch + position[-1]]
        if self.tiles.along_images:
            position.append(here[self.tiles.outer[-1].label])
        return load(block.seen, (block.part, block.image, *phases, *position))
