"""Accumulation of derivatives with respect to kernels in registers: blocks, tiles, vectors.

These have few results and long sums: a tile is a few of the results, summed over a block of taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from functrans.ir.graph import Eqn
from functrans.loop.target import Target
from functrans.ops.convolution.compiled.limits import Axis, Convolutions, fits
from functrans.ops.convolution.compiled.problem import Problem
from functrans.ops.convolution.compiled.tiles import (
    height_of,
    images_of,
    lanes_of,
    length_of,
    most_sums,
    region,
    registers_of_sums,
)
from functrans.ops.convolution.windows import Window, from_taps
from functrans.records import NamedTuple


class Accumulation(NamedTuple):
    """The blocking of a convolution that is computed by sums over blocks."""

    apart: tuple[Axis, ...]  # groups
    outer: tuple[Axis, ...]  # the axes summed over besides the taps: images
    taps: tuple[Axis, ...]  # the axes of a block, of which the first is cut into pieces
    length: int  # the length of a piece; the last one may be shorter
    places: tuple[Axis, ...]  # the positions of windows
    # Channels, of which neighbours form the rows of a tile, and features, along which vectors go.
    # If there is no such axis, one of extent 1 with an unused label.
    row: Axis
    column: Axis
    lanes: int  # the columns of a tile
    height: int  # the rows of a tile
    # whether vectors go along the last axis of taps instead, because there are few channels or
    # features: a tile is some features, and some positions along the last axis
    along_taps: bool = False
    images: int = 1  # the number of images of a block, along the last outer axis
    width: int = 1  # the positions of a tile

    @property
    def pieces(self) -> int:
        """The number of pieces of the first axis."""
        return -(-self.taps[0].extent // self.length)

    @property
    def number(self) -> int:
        """The number of blocks."""
        return prod(axis.extent for axis in self.outer) * self.pieces // self.images

    @property
    def is_whole(self) -> bool:
        """Whether there is a single block, whose results are divided among threads."""
        return self.number == 1 and not self.along_taps and not self.apart

    @property
    def results(self) -> tuple[Axis, ...]:
        """The axes of the sums."""
        return (*self.apart, *self.places, self.row, self.column)


def accumulation(eqn: Eqn, target: Target) -> Accumulation | None:
    """The blocking of a convolution by sums over blocks; None if another form is better."""
    if not fits(eqn, target) or "vectorise" not in target.stages:
        return None
    given = Problem(eqn, target)
    limits, sizes, found = given.limits, given.sizes, given.roles
    unused = 1 + max(sizes)
    (row,) = given.axes(found.rows[-1:]) or [Axis(unused, 1)]
    (column,) = given.axes(found.columns[-1:]) or [Axis(unused + 1, 1)]
    order = [label for label in given.own if label in given.windows]
    along_taps = _are_vectors_along_taps(given, row, column)
    is_narrow = column.extent < limits.fewest_columns or not found.rows
    if is_narrow and not along_taps:
        return None
    width = height_of(given.windows[order[-1]].places, limits.most_sums_in_registers)
    if along_taps:
        lanes = _lanes_along_taps(given.windows[order[-1]].taps, given.registers)
        height = height_of(column.extent, registers_of_sums(target) // width)
    else:
        lanes = lanes_of(column.extent, 2 * given.registers, limits)
        height = height_of(row.extent, most_sums(target, given.itemsize, lanes))
    taps = {label: given.windows[label].taps for label in order}
    length = _length(given, order, row, column)
    return Accumulation(
        given.axes([*found.groups, *found.rows[:-1], *found.columns[:-1]]),
        given.axes(found.summed),
        given.axes(order, taps),
        length,
        given.axes(order),
        row,
        column,
        lanes,
        height,
        along_taps,
        _images(given, order) if length == taps[order[0]] else 1,
        width,
    )


def _are_vectors_along_taps(given: Problem, row: Axis, column: Axis) -> bool:
    """Whether channels or features are too few for a tile, and the last taps fill vectors."""
    filling = given.limits.filled * given.registers
    if row.extent >= given.limits.fewest_rows and column.extent >= filling:
        return False
    last = given.own[-1]
    if last not in given.windows or last != given.other[-1]:
        return False
    return given.windows[last].dilation == 1 and given.windows[last].taps >= filling


def _lanes_along_taps(taps: int, registers: int) -> int:
    """The length of vectors along taps.

    Half of it if less than half a vector is left over: many cores execute instructions on such
    vectors in half the time.
    """
    return registers // 2 if 0 < taps % registers <= registers // 2 else registers


def _length(given: Problem, order: Sequence[int], row: Axis, column: Axis) -> int:
    """The length of a piece of the first taps, so that a block's parts of both operands fit."""
    room = given.room // given.itemsize
    seen = [from_taps(given.windows[label]) for label in order]
    multiplied = [Window(window.places, 1) for window in seen]
    return min(length_of(seen, row.extent, room), length_of(multiplied, column.extent, room))


def _images(given: Problem, order: Sequence[int]) -> int:
    """The number of images of a block, chosen to read sums outside the nearest caches less often.

    All images, if the sums are larger than the operands.
    """
    found, sizes, windows = given.roles, given.sizes, given.windows
    one_each = found.rows and found.columns
    if given.results * given.itemsize <= given.room or not found.summed or not one_each:
        return 1
    seen = sizes[found.rows[-1]] * prod(
        region(from_taps(windows[label]), windows[label].taps)[1] for label in order
    )
    if len(found.summed) == len(found.rows) == len(found.columns) == 1 and not found.groups:
        multiplied = sizes[found.columns[0]] * prod(windows[label].taps for label in order)
        if (seen + multiplied) * sizes[found.summed[0]] <= given.results:
            return sizes[found.summed[0]]
    most = 2 * given.room // (seen * given.itemsize)
    return images_of(sizes[found.summed[-1]], most, given.limits)


def parts_of(of: Accumulation, limits: Convolutions) -> int:
    """The number of parts of the sums: as many as fit, a power of two if not all."""
    fitting = limits.largest_parts // prod(axis.extent for axis in of.results)
    fitting = max(fitting, limits.fewest_sums)
    most = min(limits.most_sums, of.number)
    return most if fitting >= most else 1 << (fitting.bit_length() - 1)
