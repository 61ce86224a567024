"""Convolutions in registers: for each tile of results, one loop over channels and taps.

It needs no copy of the windows, and its vectors are as long as the machine's, whatever library
there is.
"""

from __future__ import annotations

from math import prod

from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const, idiv, irem, minimum
from functrans.loop.statements import Buffer, For, Reduce, Store, load, local
from functrans.loop.walk import Body
from functrans.ops.compiled.emission import Emission
from functrans.ops.compiled.statements import nest, vectorised
from functrans.ops.convolution.compiled.plan import Convolutions
from functrans.ops.convolution.compiled.shares import At, loop_lanes, numbers, share
from functrans.ops.convolution.compiled.tiles import Tile, Tiles, all_tiles, region
from functrans.ops.convolution.convolution import Labels
from functrans.ops.convolution.windows import where_all


def emit(at: Emission, tiles: Tiles) -> None:
    """A convolution by tiles, of whose blocks threads take their shares."""
    _Direct(at, tiles).emit()


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
        parts = min(self.tiles.number, self.at.target[Convolutions].most_parts)
        part = index("part", parts)
        extents = {axis.label: axis.extent for axis in self.tiles.summed}
        shape = [
            self.regions[label][1] if label in self.regions else extents[label]
            for label in self.kept
        ]
        seen = self.at.scratch("seen", self.dtype, (parts, *shape))

        def block(number: Scalar) -> Body:
            pieces = self.tiles.pieces
            outer = numbers(idiv(number, pieces), self.tiles.outer)
            outer = {label: self.at.simplify(i) for label, i in outer.items()}
            start = self.at.simplify(irem(number, pieces) * self.tiles.length)
            whole = self.tiles.places[0].extent
            size = const(self.tiles.length, INDEX)
            if pieces * self.tiles.length != whole:
                size = self.at.simplify(minimum(const(whole, INDEX) - start, size))
            copy = self._copied(seen, part, outer, start)
            return (*copy, *self._tiled(seen, part, weights, labels, outer, start, size))

        body = share(part, self.tiles.number, block)
        loop = For(part, ZERO, const(parts, INDEX), body, parallel=True)
        self.at.call((loop,), work=self._work())

    def _work(self) -> int:
        axes = (*self.tiles.outer, *self.tiles.places, self.tiles.column, *self.tiles.summed)
        return prod(axis.extent for axis in axes) // 8

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

    def _copied(self, seen: Buffer, part: Scalar, outer: At, start: Scalar) -> Body:
        """Loops that copy what a block of places sees, with zeros where there is nothing."""
        loops = {
            label: index("i", extent)
            for label, extent in zip(self.kept, seen.extents[1:], strict=True)
        }
        own = outer | loops
        conditions = []
        first = self.tiles.places[0].label
        for label, window in self.windows.items():
            low, size = self.regions[label]
            begin = start * window.stride if label == first else ZERO
            own[label] = loops[label] + begin + (window.offset + low)
            if label == first or window.offset + low < 0:
                conditions.append(own[label] >= 0)
            extent = self.x.extents[self.x_labels.index(label)]
            if label == first or window.offset + low + size > extent:
                conditions.append(own[label] < extent)
        value = where_all(conditions, load(self.x, [own[label] for label in self.x_labels]))
        store = Store(seen, (part, *loops.values()), self.at.simplify(value))
        *around, last = loops.values()
        return nest(around, vectorised(last, store, self.at.target))

    # -- tiles --------------------------------------------------------------------------------

    def _tiled(
        self,
        seen: Buffer,
        part: Scalar,
        weights: Buffer,
        labels: Labels,
        outer: At,
        start: Scalar,
        size: Scalar,
    ) -> Body:
        """Loops over the tiles of a block."""
        tiles = self.tiles
        along = tiles.column if tiles.features_last else tiles.places[-1]
        across = tiles.places[-1] if tiles.features_last else tiles.column
        inner = {axis.label: n for axis, n in zip(tiles.places, tiles.block, strict=True)}
        inner[tiles.column.label] = tiles.column.extent
        loops = {label: index("i", extent) for label, extent in inner.items()}
        stops = {label: const(extent, INDEX) for label, extent in inner.items()}
        stops[tiles.places[0].label] = size
        summed = {axis.label: index("k", axis.extent) for axis in tiles.summed}
        bounds = tuple(
            (summed[axis.label], ZERO, const(axis.extent, INDEX)) for axis in tiles.summed
        )

        def one(tile: Tile) -> Body:
            """A vector of results for each of the neighbours, summed up together."""
            sums = tuple(local(self.dtype, f"sum{n}") for n in range(tile.height))
            values, stores = [], []
            for n, total in enumerate(sums):
                here = loops | {across.label: tile.first + n}
                element = outer | here
                first = tiles.places[0].label
                element = element | {first: here[first] + start}
                values.append(
                    self._element(seen, part, here, summed)
                    * load(weights, [self._weight(i, outer, here, summed) for i in labels])
                )
                position = [self.at.simplify(element[label]) for label in self.out_labels]
                stores.append(Store(self.out, tuple(position), total))
            fold = Reduce(
                sums, ("add",) * tile.height, tuple(map(self.at.simplify, values)), bounds
            )
            lanes = loop_lanes(tiles.lanes, inner[along.label])
            return (For(loops[along.label], ZERO, stops[along.label], (fold, *stores), lanes),)

        around = [axis.label for axis in tiles.places if axis not in (along, across)]

        def over_places(body: Body) -> Body:
            for label in reversed(around):
                body = (For(loops[label], ZERO, stops[label], body),)
            return body

        over_tiles = all_tiles(across.extent, tiles.height)
        if tiles.features_last:
            return over_places(tuple(each for make in over_tiles for each in make(one)))
        # of few features at a time, so that their weights stay in the nearest cache
        return tuple(
            each for make in over_tiles for each in make(lambda tile: over_places(one(tile)))
        )

    def _element(self, seen: Buffer, part: Scalar, here: At, summed: At) -> Scalar:
        position = []
        for label in self.kept:
            if label not in self.windows:
                position.append(summed[label])
                continue
            window, (low, _) = self.windows[label], self.regions[label]
            position.append(here[label] * window.stride + summed[label] * window.dilation - low)
        return load(seen, (part, *position))

    def _weight(self, label: int, outer: At, here: At, summed: At) -> Scalar:
        if label in summed:
            return summed[label]
        return outer[label] if label in outer else here[label]
