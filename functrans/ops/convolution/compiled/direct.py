"""Convolutions in registers: for each tile of results, one loop over channels and taps.

It needs no copy of the windows, and its vectors are as long as the machine's, whatever library
there is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import NamedTuple

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, idiv, irem, minimum
from functrans.loop.statements import Buffer, For, Reduce, Store, load, local
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import nest, vectorised
from functrans.ops.convolution.compiled.copies import Copy, cleared, inside
from functrans.ops.convolution.compiled.plan import Convolutions
from functrans.ops.convolution.compiled.shares import (
    At,
    each_image,
    first_image,
    loop_lanes,
    numbers,
    of_images,
    share,
)
from functrans.ops.convolution.compiled.tiles import Tile, Tiles, all_tiles, region
from functrans.ops.convolution.convolution import Labels


def emit(at: Emission, tiles: Tiles) -> None:
    """A convolution by tiles, of whose blocks threads take their shares."""
    _Direct(at, tiles).emit()


class _Block(NamedTuple):
    """A block of places.

    Parameters
    ----------
    part : Scalar
        Which part of the threads' does it.
    outer : dict
        Where it is along the axes that are gone through one by one.
    image : Scalar
        Which of its images.
    start, size : Scalar
        The stretch of the first axis inside of it.
    seen, weights : Buffer
        The copies of what it sees, and of the other operand.
    labels : tuple of int
        Of the axes of the weights.
    """

    part: Scalar
    outer: At
    image: Scalar
    start: Scalar
    size: Scalar
    seen: Buffer
    weights: Buffer
    labels: Labels


class _Nest(NamedTuple):
    """The loops over the places and features of a block, and where they end, by labels."""

    loops: At
    stops: At


class _Direct:
    def __init__(self, at: Emission, tiles: Tiles) -> None:
        self.at = at
        self.tiles = tiles
        params = at.eqn.params
        self.windows = dict(params["windows"])
        self.x, self.x_labels = at.operand(0), params["x_labels"]
        self.out, self.out_labels = at.result(), params["out"]
        self.dtype = self.out.dtype
        self.kept: Labels = tuple(
            label for label in self.x_labels if label in {axis.label for axis in tiles.summed}
        )
        lengths = dict(zip((axis.label for axis in tiles.places), tiles.block, strict=True))
        self.regions = {
            label: region(self.windows[label], length) for label, length in lengths.items()
        }

    def emit(self) -> None:
        weights, labels = self._packed()
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
            self.made = self.at.scratch("made", self.dtype, (parts, tiles.height, tiles.joined))
        seen = self.at.scratch("seen", self.dtype, (parts, tiles.images, *shape))

        def block(number: Scalar) -> Body:
            pieces = tiles.pieces
            outer = numbers(idiv(number, pieces), of_images(tiles.outer, tiles.images))
            outer = first_image(outer, tiles.outer, tiles.images)
            outer = {label: self.at.simplify(i) for label, i in outer.items()}
            start = self.at.simplify(irem(number, pieces) * tiles.length)
            whole = tiles.places[0].extent
            size = const(tiles.length, INDEX)
            if pieces * tiles.length != whole:
                size = self.at.simplify(minimum(const(whole, INDEX) - start, size))
            here = _Block(part, outer, ZERO, start, size, seen, weights, labels)
            return (*self._for_images(here, self._copied), *self._tiled(here))

        body = (
            *cleared(seen, (part,), self.at.target),
            *share(part, tiles.number, block),
        )
        loop = For(part, ZERO, const(parts, INDEX), body, parallel=True)
        self.at.call((loop,), work=self._work())

    def _flat_region(self) -> int:
        """How many neighbours the vectors of a block see, those behind its last place included."""
        tiles = self.tiles
        (_, rows), (_, columns) = (self.regions[axis.label] for axis in tiles.places[-2:])
        across = (rows - tiles.rows) * tiles.pitch + columns - tiles.places[-1].extent
        return max(rows * tiles.pitch + columns, tiles.joined + across)

    def _work(self) -> int:
        axes = (*self.tiles.outer, *self.tiles.places, self.tiles.column, *self.tiles.summed)
        return prod(axis.extent for axis in axes) // 8

    def _for_images(self, block: _Block, body: Callable[[_Block], Body]) -> Body:
        """A loop over the images of a block."""

        def one(outer: At, image: Scalar) -> Body:
            return body(block._replace(outer=outer, image=image))

        return each_image(block.outer, self.tiles.outer, self.tiles.images, one)

    # -- what is copied -----------------------------------------------------------------------

    def _packed(self) -> tuple[Buffer, Labels]:
        """The other operand, its features last."""
        y, y_labels = self.at.operand(1), self.at.eqn.params["y_labels"]
        summed = [axis.label for axis in self.tiles.summed]
        apart = [axis.label for axis in self.tiles.outer if axis.label in y_labels]
        labels = (*apart, *summed, self.tiles.column.label)
        if labels == y_labels:
            return y, labels
        sizes = dict(zip(y_labels, y.extents, strict=True))
        packed = self.at.scratch("packed", self.dtype, [sizes[label] for label in labels])
        loops = {label: index("i", sizes[label]) for label in labels}
        *outer, last = loops.values()
        store = Store(packed, tuple(loops.values()), load(y, [loops[i] for i in y_labels]))
        body = nest(outer, vectorised(last, store, self.at.target))
        self.at.call(body, work=packed.count, writes=(packed,))
        return packed, labels

    def _copied(self, block: _Block) -> Body:
        """Statements that copy what a block of places sees, with zeros where there is nothing."""
        sizes = dict(zip(self.x_labels, self.x.extents, strict=True))
        first, pitch = self.tiles.places[0].label, self.tiles.pitch
        ranges = {}
        for label in self.kept:
            positions, shift = sizes[label], ZERO
            if label in self.windows:
                window, (low, positions) = self.windows[label], self.regions[label]
                begin = block.start * window.stride if label == first else ZERO
                shift = self.at.simplify(begin + (window.offset + low))
            ranges[label] = inside(positions, shift, sizes[label], self.at.simplify)

        def place(at: Mapping[int, Scalar]) -> tuple[Scalar, ...]:
            position = [at[label] for label in self.kept]
            if pitch:
                position[-2:] = [position[-2] * pitch + position[-1]]
            return (block.part, block.image, *position)

        copy = Copy(self.x, self.x_labels, block.outer, ranges, block.seen, place, self.kept[-1])
        every = (copy, *copy.around(first, self.regions[first][1]))
        machine, simplify = self.at.target, self.at.simplify
        return tuple(each for one in every for each in one.statements(machine, simplify))

    # -- tiles --------------------------------------------------------------------------------

    def _tiled(self, block: _Block) -> Body:
        """Loops over the tiles of a block."""
        tiles = self.tiles
        loops = {
            axis.label: index("i", n) for axis, n in zip(tiles.places, tiles.block, strict=True)
        }
        loops[tiles.column.label] = index("i", tiles.column.extent)
        stops = {label: const(loop.attribute[2], INDEX) for label, loop in loops.items()}
        stops[tiles.places[0].label] = block.size
        nest = _Nest(loops, stops)
        across = tiles.places[-1] if tiles.features_last else tiles.column
        over_tiles = all_tiles(across.extent, tiles.height)

        def over_places(block: _Block) -> Body:
            def one(tile: Tile) -> Body:
                return self._one(block, nest, tile)

            return self._around(nest, 1, tuple(each for make in over_tiles for each in make(one)))

        def over_features(tile: Tile) -> Body:
            def one(block: _Block) -> Body:
                if tiles.pitch:
                    return self._around(nest, 2, self._joined(block, nest, tile))
                return self._around(nest, 1, self._one(block, nest, tile))

            return self._for_images(block, one)

        if tiles.features_last:
            return self._for_images(block, over_places)
        # of few features at a time, so that their weights stay in the nearest cache
        return tuple(each for make in over_tiles for each in make(over_features))

    def _around(self, nest: _Nest, last: int, body: Body) -> Body:
        """Loops over places, without the last ones."""
        for axis in reversed(self.tiles.places[:-last]):
            body = (For(nest.loops[axis.label], ZERO, nest.stops[axis.label], body),)
        return body

    def _one(self, block: _Block, nest: _Nest, tile: Tile) -> Body:
        """A vector of results for each of the neighbours, summed up together."""
        tiles = self.tiles
        along = tiles.column if tiles.features_last else tiles.places[-1]
        sums = tuple(local(self.dtype, f"sum{n}") for n in range(tile.height))
        fold = self._summed(block, nest.loops, tile, sums)
        stores = [
            self._store(block, self._in_tile(nest.loops, tile.first + n), total)
            for n, total in enumerate(sums)
        ]
        loop, stop = nest.loops[along.label], nest.stops[along.label]
        lanes = loop_lanes(tiles.lanes, loop.attribute[2])
        return (For(loop, ZERO, stop, (fold, *stores), lanes),)

    def _joined(self, block: _Block, nest: _Nest, tile: Tile) -> Body:
        """Vectors along lines as one, whose margins are left out as they are copied."""
        tiles, simplify = self.tiles, self.at.simplify
        rows, columns = (axis.label for axis in tiles.places[-2:])
        place, stop = index("place", tiles.joined), const(tiles.joined, INDEX)
        if nest.stops[rows].op != "const":
            extent = (nest.stops[rows] - 1) * tiles.pitch + tiles.places[-1].extent
            stop = simplify(idiv(extent + (tiles.lanes - 1), tiles.lanes) * tiles.lanes)
        sums = tuple(local(self.dtype, f"sum{n}") for n in range(tile.height))
        fold = self._summed(block, nest.loops | {rows: ZERO, columns: place}, tile, sums)
        kept = (Store(self.made, (block.part, const(n, INDEX), place), total)
                for n, total in enumerate(sums))  # fmt: skip
        vectors = For(place, ZERO, stop, (fold, *kept), tiles.lanes, whole=True)
        feature = index("feature", tile.height)
        made = simplify(nest.loops[rows] * tiles.pitch + nest.loops[columns])
        value = load(self.made, (block.part, feature, made))
        store = self._store(block, self._in_tile(nest.loops, tile.first + feature), value)
        *_, lines = vectorised(nest.loops[columns], store, self.at.target)
        line = For(nest.loops[rows], ZERO, nest.stops[rows], (lines,))
        return vectors, For(feature, ZERO, const(tile.height, INDEX), (line,))

    def _in_tile(self, loops: At, number: Scalar) -> At:
        """The indices of one of the neighbours of a tile."""
        across = self.tiles.places[-1] if self.tiles.features_last else self.tiles.column
        return loops | {across.label: number}

    def _store(self, block: _Block, here: At, value: Scalar) -> Store:
        """The statement that writes a result."""
        first = self.tiles.places[0].label
        element = block.outer | here | {first: here[first] + block.start}
        position = (self.at.simplify(element[label]) for label in self.out_labels)
        return Store(self.out, tuple(position), value)

    def _summed(self, block: _Block, loops: At, tile: Tile, sums: tuple[Scalar, ...]) -> Reduce:
        """The statement that adds up the terms of a tile."""
        summed = {axis.label: index("k", axis.extent) for axis in self.tiles.summed}
        bounds = tuple((k, ZERO, const(k.attribute[2], INDEX)) for k in summed.values())
        values = []
        for n in range(tile.height):
            here = self._in_tile(loops, tile.first + n)
            where = block.outer | here | summed
            weight = load(block.weights, [where[label] for label in block.labels])
            values.append(self.at.simplify(self._element(block, here, summed) * weight))
        return Reduce(sums, ("add",) * tile.height, tuple(values), bounds)

    def _element(self, block: _Block, here: At, summed: At) -> Scalar:
        position = []
        for label in self.kept:
            if label not in self.windows:
                position.append(summed[label])
                continue
            window, (low, _) = self.windows[label], self.regions[label]
            position.append(here[label] * window.stride + summed[label] * window.dilation - low)
        if self.tiles.pitch:
            position[-2:] = [position[-2] * self.tiles.pitch + position[-1]]
        return load(block.seen, (block.part, block.image, *position))
