"""Register tiles of convolutions: the axis of the vectors, and the size of a tile.

A tile consists of vectors of results along one axis, for a few neighbours along another axis, which
are summed together in registers. The input region of a block of positions is copied first, with
zero padding, so that sums need no conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

import numpy as np

from functrans.ir.graph import Eqn
from functrans.ir.types import Shape
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import For
from functrans.loop.target import Target
from functrans.loop.walk import Body
from functrans.ops.convolution.compiled.limits import Axis, Convolutions, fits, places_are_few
from functrans.ops.convolution.compiled.problem import Problem
from functrans.ops.convolution.windows import Window
from functrans.records import NamedTuple


class Tiles(NamedTuple):
    """The blocking of a convolution that is computed by tiles."""

    # the axes of outer loops: groups, images, and features that are not evenly spaced
    outer: tuple[Axis, ...]
    # The positions of windows, in the order of the result. They form a block, with the first axis
    # cut into pieces.
    places: tuple[Axis, ...]
    length: int  # the length of a piece; the last one may be shorter
    column: Axis  # the features
    # channels and taps, in the order of the copied input: the axis of vectors is last
    summed: tuple[Axis, ...]
    lanes: int  # the length of vectors
    height: int  # the number of vectors of a tile
    # whether vectors go along the features, and a tile has neighbouring positions; otherwise the
    # roles are exchanged
    along_features: bool
    # if it is not 0, vectors go along the last two axes of positions as one: the distance of rows
    # in the copied input, including zero padding
    pitch: int = 0
    images: int = 1  # the number of images of a block, along the last outer axis
    # whether vectors go along these images instead, and a tile has neighbouring features
    along_images: bool = False

    def step(self, window: Window) -> int:
        """The number of phases of a window's input, along each of which vectors of positions go."""
        return 1 if self.along_features or self.along_images else window.stride

    def skips(self, axis: Axis, window: Window, extent: int, target: Target) -> bool:
        """Whether taps in the padding along an axis of positions are skipped.

        They must be the same for all lanes of a vector. Vectors of images read no padding at all.
        """
        if self.along_images:
            return not window.inside(extent)
        limit = target[Convolutions].worth_skipping
        return axis is not self.places[-1] and share_inside(window, extent) < limit

    def vectors(self, registers: int) -> float:
        """The registers of the results of an image, full or not."""
        lines = prod(axis.extent for axis in self.places[:-1])
        column, last = self.column.extent, self.places[-1].extent
        if self.along_features:
            return lines * last * _registers(column, self.lanes, registers)
        if self.pitch:
            return lines // self.rows * self.joined / registers * column
        return lines * _registers(last, self.lanes, registers) * column

    @property
    def line(self) -> Shape:
        """The shape of a feature's results that are copied to where they belong, or ()."""
        if self.along_images:
            return self.places[-1].extent, self.images
        return (self.joined,) if self.pitch else ()

    @property
    def pieces(self) -> int:
        """The number of pieces of the first axis."""
        return -(-self.places[0].extent // self.length)

    @property
    def number(self) -> int:
        """The number of blocks."""
        return prod(axis.extent for axis in self.outer) * self.pieces // self.images

    @property
    def block(self) -> Shape:
        """The extents of a block of positions."""
        return (self.length, *(axis.extent for axis in self.places[1:]))

    @property
    def side(self) -> int:
        """The number of features of a panel."""
        return self.lanes if self.along_features else self.height

    @property
    def rows(self) -> int:
        """The number of lines of a block, if vectors go along them as one."""
        return self.block[-2]

    @property
    def joined(self) -> int:
        """The length of these lines as one, in whole vectors."""
        extent = (self.rows - 1) * self.pitch + self.places[-1].extent
        return -(-extent // self.lanes) * self.lanes


def tiles(eqn: Eqn, target: Target) -> Tiles | None:
    """The blocking of a convolution by tiles; None if impossible, or if another form is better."""
    if not fits(eqn, target) or "vectorise" not in target.stages or places_are_few(eqn, target):
        return None
    given = Problem(eqn, target)
    sizes, places, column = given.sizes, given.places, given.columns[-1]
    if not places or given.out[-1] not in (column, places[-1]):
        return None
    length = _length(given)
    along_lines = _have_phases(given.windows.values(), target)
    # neighbours of a tile are chosen first
    across_lines = len(places) > 1 or sizes[places[-1]] % length == 0
    along_features = across_lines and not (along_lines and _lines_are_better(given))
    if not along_features and not along_lines:
        return None
    across = sizes[places[-1] if along_features else column]
    lanes, pitch = _vectors(given, along_features, length)
    if 2 * lanes < given.registers:
        return None
    taps = sizes | {label: window.taps for label, window in given.windows.items()}
    summed = [*places, *given.summed] if along_features else [*given.summed, *places]
    made = Tiles(
        given.axes([*given.roles.groups, *given.columns[:-1], *given.rows]),
        given.axes(places),
        length,
        Axis(column, sizes[column]),
        given.axes(summed, taps),
        lanes,
        height_of(across, most_sums(target, given.itemsize, lanes)),
        along_features,
        pitch,
        _images(given) if length == sizes[places[0]] else 1,
    )
    return (_along_images(given, made) if given.rows and along_lines else None) or made


def _length(given: Problem) -> int:
    """The length of a block along the first axis of positions."""
    windows = [given.windows[label] for label in given.places]
    return length_of(windows, given.channels, 2 * given.room // given.itemsize)


def _lines_are_better(given: Problem) -> bool:
    """Whether vectors of positions are better than vectors of features, if both are possible.

    Where channels are last, they are if there are too few features to fill a register. Otherwise
    they are as good if lines fill them, and a position sees few elements: vectors of positions are
    not aligned, and those of two channels are far apart.
    """
    limits, registers = given.limits, given.registers
    features, last = given.sizes[given.columns[-1]], given.sizes[given.places[-1]]
    if given.out[-1] == given.columns[-1]:
        few = features < limits.well_filled * registers
        return few and (last >= registers or last > 2 * features)
    pair, window = 2 * registers, given.windows[given.places[-1]]
    if features < pair or given.channels < limits.fewest_channels_last:
        return True
    if window.places < pair or window.stride > 1:
        return False
    filled = features >= limits.well_filled * pair * -(-features // pair)
    return not filled or given.channels * given.itemsize < limits.channel_bytes


def _vectors(given: Problem, along_features: bool, length: int) -> tuple[int, int]:
    """The length of vectors, and the distance of lines if they go along several as one, or 0."""
    limits, registers, places = given.limits, given.registers, given.places
    features, last = given.sizes[given.columns[-1]], given.sizes[places[-1]]
    along, across = (features, last) if along_features else (last, features)
    widest = registers * max(2, limits.fewest_sums_in_registers // across)
    lanes = lanes_of(along, widest, limits)
    if along_features or len(places) == 1:
        return lanes, 0
    rows = length if len(places) == 2 else given.sizes[places[-2]]
    apart = pitch_of(given.windows[places[-1]], given.seen[places[-1]])
    flat = (rows - 1) * apart + along
    by_lines = rows * _registers(along, lanes, registers)
    if lanes > registers:
        # these are pairs of registers already, which need fewer loads of weights
        by_lines *= 1 - limits.terms_of_a_copy / given.terms
    return (widest, apart) if _registers(flat, widest, registers) <= by_lines else (lanes, 0)


def _along_images(given: Problem, by: Tiles) -> Tiles | None:
    """The same with vectors along images, if that is better: lines are short, or have margins.

    These vectors are full, and no tap in the padding is multiplied. But what a block sees is
    transposed as it is copied, and so are the results.
    """
    limits, registers, images = given.limits, given.registers, by.outer[-1].extent
    lengths = (n for n in (2 * registers, registers) if images % n == 0)
    lanes = next((n for n in lengths if images >= limits.fewest_blocks * n), 0)
    if lanes < 2:
        return None
    inside = [share_inside(given.windows[label], given.seen[label]) for label in given.places]
    columns, seen = by.column.extent, prod(given.seen[axis.label] for axis in by.summed)
    places, terms = (prod(axis.extent for axis in axes) for axes in (by.places, by.summed))
    # as high as possible, since the operand that vectors read may be in a distant cache
    height = -(-columns // -(-columns // most_sums(given.target, given.itemsize, lanes)))
    few = height * lanes < limits.fewest_sums_in_registers * registers
    if few or seen * lanes * given.itemsize > 2 * given.room:
        return None
    copied = limits.terms_of_a_transposition * (places * columns + seen) / registers
    own = places / registers * columns * terms * prod(inside) + copied
    if own > limits.gain_of_images * by.vectors(registers) * terms * prod(inside[:-1]):
        return None
    labels = {axis.label for axis in by.places}
    return by._replace(
        length=by.places[0].extent,
        summed=tuple(sorted(by.summed, key=lambda axis: axis.label in labels)),
        lanes=lanes,
        height=height,
        along_features=False,
        pitch=0,
        images=lanes,
        along_images=True,
    )


def share_inside(window: Window, extent: int) -> float:
    """The fraction of a window's elements that are in bounds."""
    seen = window.offset + window.dilation * np.arange(window.taps)
    seen = window.stride * np.arange(window.places)[:, None] + seen
    return float(np.mean((seen >= 0) & (seen < extent)))


def _images(given: Problem) -> int:
    """The number of images of a block, so that weights outside the nearest caches are read less."""
    windows, sizes, places = given.windows, given.sizes, given.places
    if given.weights <= given.room or not given.rows:
        return 1
    seen = given.channels * prod(region(windows[label], sizes[label])[1] for label in places)
    most = 2 * given.room // (seen * given.itemsize)
    return images_of(sizes[given.rows[-1]], most, given.limits)


def images_of(extent: int, most: int, limits: Convolutions) -> int:
    """The number of images of a block: a divisor that leaves enough blocks, or one."""
    most = min(most, extent // limits.fewest_blocks)
    return next((n for n in range(most, 1, -1) if extent % n == 0), 1)


def _have_phases(windows: Iterable[Window], target: Target) -> bool:
    """Whether strided input is copied in phases: strides are positive, and phases are few."""
    strides = [window.stride for window in windows]
    return min(strides) > 0 and prod(strides) <= target[Convolutions].most_phases


def _registers(extent: int, lanes: int, registers: int) -> float:
    """The number of registers of an axis's vectors, full or not."""
    return -(-extent // lanes) * -(-lanes // registers)


def pitch_of(window: Window, extent: int) -> int:
    """The distance of lines, if the padding after one is the padding before the next.

    If a window is strided, each phase has its own padding.
    """
    if window.stride > 1:
        return -(-region(window, window.places)[1] // window.stride)
    low, high = window.reach()
    before, behind = max(-low, 0), max(high - extent + 1, 0)
    return high - low + 1 - min(before, behind)


def lanes_of(extent: int, widest: int, limits: Convolutions) -> int:
    """The length of vectors: the greatest possible, if there are enough elements."""
    whole = widest
    while whole > 1 and extent < limits.filled * whole:
        whole //= 2
    return whole


def registers_of_sums(target: Target) -> int:
    """The number of registers for sums; the others are for operands."""
    return 3 * target.registers // 4


def most_sums(target: Target, itemsize: int, lanes: int) -> int:
    """The most vectors that are summed at once, each in one register or a pair."""
    fitting = registers_of_sums(target) // -(-lanes // target.lanes(itemsize))
    return min(target[Convolutions].most_sums_in_registers, fitting)


def height_of(extent: int, most: int) -> int:
    """The height of tiles, up to a limit: a divisor of the extent, if that is not too small."""
    for height in range(min(extent, most), most // 2 - 1, -1):
        if extent % height == 0:
            return height
    return -(-extent // -(-extent // most))


def region(window: Window, places: int) -> tuple[int, int]:
    """The start and length of the input region of some positions of a window."""
    low, high = window._replace(places=places, offset=0).reach()
    return low, high - low + 1


def length_of(windows: list[Window], channels: int, room: int) -> int:
    """The greatest length of a block along the first axis for which there is room, or 1."""
    first, *rest = windows
    fixed = channels * int(
        np.prod([region(window, window.places)[1] for window in rest], dtype=np.int64)
    )
    length = first.places
    while length > 1 and fixed * region(first, length)[1] > room:
        length = -(-length // 2)
    pieces = -(-first.places // length)
    return -(-first.places // pieces)


class Tile(NamedTuple):
    """The neighbours of a tile: the tile's number, the first neighbour, and their count."""

    number: Scalar
    first: Scalar
    height: int


def in_tiles(extent: int, height: int, body: Callable[[Tile], Body]) -> Body:
    """Loops over the tiles of an axis: whole ones, and the rest."""
    whole, rest = divmod(extent, height)
    found: Body = ()
    if whole == 1:
        found = body(Tile(ZERO, ZERO, height))
    elif whole:
        tile = index("tile", whole)
        stop = const(whole, INDEX)
        found = (For(tile, ZERO, stop, body(Tile(tile, tile * height, height))),)
    if rest:
        last = Tile(const(whole, INDEX), const(whole * height, INDEX), rest)
        found = (*found, *body(last))
    return found
