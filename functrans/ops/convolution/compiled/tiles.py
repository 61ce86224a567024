"""Register tiles of convolutions: the axis of the vectors, and the size of a tile.

A tile is a vector of results along one axis, for each of a few neighbours along another one: all of
them are summed up at once, in registers. Of the images, the part that a block of places sees is
copied first, with the zeros around it, so that a sum has no conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from functrans.ir.graph import Eqn
from functrans.ir.types import Shape
from functrans.loop.nodes import INDEX, ZERO, index
from functrans.loop.scalar import Scalar, const
from functrans.loop.statements import For
from functrans.loop.target import Target
from functrans.loop.walk import Body
from functrans.ops.convolution.compiled.plan import (
    Axis,
    Convolutions,
    counts,
    fits,
    places_are_few,
)
from functrans.ops.convolution.convolution import Roles, extents, roles
from functrans.ops.convolution.windows import Window


class Tiles(NamedTuple):
    """How a convolution is done by tiles.

    Parameters
    ----------
    outer : tuple of Axis
        Groups, images, and features that lie apart: these are gone through one by one.
    places : tuple of Axis
        The positions of windows, in the order of the result. They are in a block, but of the first
        axis only a stretch.
    length : int
        Of that stretch; the last one may be shorter.
    column : Axis
        The features.
    summed : tuple of Axis
        Channels and taps, in the order of what a block sees: what vectors go along is last.
    lanes : int
        The length of vectors.
    height : int
        So many vectors are a tile.
    along_features : bool
        Whether vectors go along the features, and neighbouring places are a tile. Else it is the
        other way around.
    pitch : int
        If it is not 0, vectors go along the last two axes of places as one: by so much are rows
        apart in what a block sees, zeros of their margins included.
    images : int
        So many along the last of the outer axes are in a block.
    """

    outer: tuple[Axis, ...]
    places: tuple[Axis, ...]
    length: int
    column: Axis
    summed: tuple[Axis, ...]
    lanes: int
    height: int
    along_features: bool
    pitch: int = 0
    images: int = 1

    def step(self, window: Window) -> int:
        """How many phases there are of what a window sees: vectors of places go along each."""
        return 1 if self.along_features else window.stride

    @property
    def pieces(self) -> int:
        """How many stretches there are of the first axis."""
        return -(-self.places[0].extent // self.length)

    @property
    def number(self) -> int:
        """How many blocks there are."""
        return prod(axis.extent for axis in self.outer) * self.pieces // self.images

    @property
    def block(self) -> Shape:
        """The extents of a block of places."""
        return (self.length, *(axis.extent for axis in self.places[1:]))

    @property
    def side(self) -> int:
        """How many features are in a panel."""
        return self.lanes if self.along_features else self.height

    @property
    def rows(self) -> int:
        """How many lines of images are in a block, if vectors go along them as one."""
        return self.block[-2]

    @property
    def joined(self) -> int:
        """How long these lines are as one, in whole vectors."""
        extent = (self.rows - 1) * self.pitch + self.places[-1].extent
        return -(-extent // self.lanes) * self.lanes


def tiles(eqn: Eqn, target: Target) -> Tiles | None:
    """How a convolution is done by tiles, or None where it cannot be, or other ways are better."""
    if not fits(eqn, target) or "vectorise" not in target.stages:
        return None
    if places_are_few(eqn, target):
        return None
    _, _, term_count = counts(eqn)
    x, y = (operand.aval.shape for operand in eqn.inputs)
    own, other, out = (eqn.params[key] for key in ("x_labels", "y_labels", "out"))
    windows = dict(eqn.params["windows"])
    found = roles(own, other, out, eqn.params["windows"])
    sizes = extents(x, y, eqn.params)
    taps = sizes | {label: window.taps for label, window in windows.items()}
    places = [label for label in out if label in windows]
    columns = [label for label in out if label in found.columns]
    if not places:
        return None
    if not columns:
        # a filter is one feature
        columns = [1 + max(sizes)]
        sizes[columns[0]] = 1
    column, last = columns[-1], places[-1]
    dtype, limits = eqn.outputs[0].aval.dtype, target[Convolutions]
    registers = target.lanes(dtype.itemsize)
    channels = prod(sizes[label] for label in found.summed)
    length = length_of(
        [windows[label] for label in places],
        channels,
        2 * target.cache // limits.part_of_cache // dtype.itemsize,
    )
    if length is None:
        return None
    # neighbours of a tile are counted before
    across_lines = len(places) > 1 or sizes[last] % length == 0
    along_lines = _have_phases(windows.values(), target)
    if out[-1] == column:
        few = sizes[column] < limits.well_filled * registers and sizes[last] >= registers
        along_features = across_lines and not (few and along_lines)
    elif out[-1] == last:
        suits = _suits_features(sizes[column], channels, windows[last], dtype, target)
        along_features = across_lines and suits
    else:
        return None
    if not along_features and not along_lines:
        return None
    along, across = sizes[column], sizes[last]
    if not along_features:
        along, across = across, along
    seen = [label for label in own if label in found.summed]
    summed = [*places, *seen] if along_features else [*seen, *places]
    outer = [*found.groups, *columns[:-1], *(label for label in out if label in found.rows)]
    widest = registers * max(2, limits.fewest_sums_in_registers // across)
    lanes, pitch = lanes_of(along, widest, limits), 0
    if not along_features and len(places) > 1:
        rows = length if len(places) == 2 else sizes[places[-2]]
        apart = pitch_of(windows[last], x[own.index(last)])
        flat = (rows - 1) * apart + along
        by_lines = rows * _registers(along, lanes, registers)
        if lanes > registers:
            # pairs of registers already, for each of which fewer weights are loaded
            by_lines *= 1 - limits.terms_of_a_copy / term_count
        if _registers(flat, widest, registers) <= by_lines:
            lanes, pitch = widest, apart
    if 2 * lanes < registers:
        return None
    return Tiles(
        tuple(Axis(label, sizes[label]) for label in outer),
        tuple(Axis(label, sizes[label]) for label in places),
        length,
        Axis(column, sizes[column]),
        tuple(Axis(label, taps[label]) for label in summed),
        lanes,
        height_of(across, most_sums(target, dtype.itemsize, lanes)),
        along_features,
        pitch,
        _images(eqn, found, length, target),
    )


def _suits_features(
    features: int, channels: int, window: Window, dtype: np.dtype[Any], target: Target
) -> bool:
    """Whether vectors of features, of channels copied side by side, are better than of places.

    These are as good where lines fill them, and the elements that one place sees are few: vectors
    of places are not aligned, and those of two channels lie far apart.
    """
    limits, pair = target[Convolutions], 2 * target.lanes(dtype.itemsize)
    if features < pair or channels < limits.fewest_channels_last:
        return False
    if window.places < pair or window.stride > 1:
        return True
    filled = features >= limits.well_filled * pair * -(-features // pair)
    return filled and channels * dtype.itemsize >= limits.channel_bytes


def _images(eqn: Eqn, found: Roles, length: int, target: Target) -> int:
    """How many images are in a block, so that weights beyond the nearest caches are read less."""
    limits, itemsize = target[Convolutions], eqn.outputs[0].aval.dtype.itemsize
    windows = dict(eqn.params["windows"])
    x, y = (operand.aval.shape for operand in eqn.inputs)
    sizes = extents(x, y, eqn.params)
    room = target.cache // limits.part_of_cache
    places = [label for label in eqn.params["out"] if label in windows]
    rows = [label for label in eqn.params["out"] if label in found.rows]
    if eqn.inputs[1].aval.size * itemsize <= room or not rows or length < sizes[places[0]]:
        return 1
    seen = prod(sizes[label] for label in found.summed)
    seen *= prod(region(windows[label], sizes[label])[1] for label in places)
    return images_of(sizes[rows[-1]], 2 * room // (seen * itemsize), limits)


def images_of(extent: int, most: int, limits: Convolutions) -> int:
    """How many images are in a block: a divisor, so that there are enough blocks, or one."""
    most = min(most, extent // limits.fewest_blocks)
    return next((n for n in range(most, 1, -1) if extent % n == 0), 1)


def _have_phases(windows: Iterable[Window], target: Target) -> bool:
    """Whether what windows step over is copied apart: forwards, and of not too many kinds."""
    strides = [window.stride for window in windows]
    return min(strides) > 0 and prod(strides) <= target[Convolutions].most_phases


def _registers(extent: int, lanes: int, registers: int) -> float:
    """How many registers the vectors of an axis take, whether they are full or not."""
    return -(-extent // lanes) * -(-lanes // registers)


def pitch_of(window: Window, extent: int) -> int:
    """By how much lines are apart, if the margin behind one is the margin before the next.

    Where a window steps over elements, each of their phases has margins of its own.
    """
    if window.stride > 1:
        return -(-region(window, window.places)[1] // window.stride)
    low, high = window.reach()
    before, behind = max(-low, 0), max(high - extent + 1, 0)
    return high - low + 1 - min(before, behind)


def lanes_of(extent: int, widest: int, limits: Convolutions) -> int:
    """The length of vectors: the greatest one, if there are enough elements."""
    whole = widest
    while whole > 1 and extent < limits.filled * whole:
        whole //= 2
    return whole


def registers_of_sums(target: Target) -> int:
    """How many registers are for sums: operands need some beside them."""
    return 3 * target.registers // 4


def most_sums(target: Target, itemsize: int, lanes: int) -> int:
    """How many vectors are summed up at once at most, each in one register or a pair."""
    fitting = registers_of_sums(target) // -(-lanes // target.lanes(itemsize))
    return min(target[Convolutions].most_sums_in_registers, fitting)


def height_of(extent: int, most: int) -> int:
    """The height of tiles, that has a limit: one that leaves no rest, if it is not too small."""
    for height in range(min(extent, most), most // 2 - 1, -1):
        if extent % height == 0:
            return height
    return -(-extent // -(-extent // most))


def region(window: Window, places: int) -> tuple[int, int]:
    """Where the region that some places of a window see begins, and how long it is."""
    low, high = window._replace(places=places, offset=0).reach()
    return low, high - low + 1


def length_of(windows: list[Window], channels: int, room: int) -> int | None:
    """How long a block may be along the first axis, if it may be as long as needed."""
    first, *rest = windows
    fixed = channels * int(
        np.prod([region(window, window.places)[1] for window in rest], dtype=np.int64)
    )
    length = first.places
    while length > 1 and fixed * region(first, length)[1] > room:
        length = -(-length // 2)
    if fixed * region(first, length)[1] > room:
        return None
    pieces = -(-first.places // length)
    return -(-first.places // pieces)


class Tile(NamedTuple):
    """The neighbours of a tile: which of all tiles they are, the first one, and their number."""

    number: Scalar
    first: Scalar
    height: int


def in_tiles(extent: int, height: int, body: Callable[[Tile], Body]) -> Body:
    """Loops over the tiles of an axis: the whole ones, and the rest."""
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
