"""Accumulation of derivatives with respect to kernels in registers: blocks, tiles, vectors.

These have few results and long sums: a tile is a few of the results, summed over a block of taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from functrans.ir.graph import Eqn
from functrans.loop.target import Target
from functrans.ops.convolution.compiled.limits import Axis, Convolutions, fits
from functrans.ops.convolution.compiled.tiles import (
    height_of,
    images_of,
    lanes_of,
    length_of,
    most_sums,
    region,
    registers_of_sums,
)
from functrans.ops.convolution.convolution import Roles, extents, roles
from functrans.ops.convolution.windows import Window, from_taps


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
    x, y = (operand.aval.shape for operand in eqn.inputs)
    own, other, out = (eqn.params[key] for key in ("x_labels", "y_labels", "out"))
    windows = dict(eqn.params["windows"])
    found = roles(own, other, out, eqn.params["windows"])
    sizes = extents(x, y, eqn.params)
    none = 1 + max(sizes)
    row, column = (
        Axis(labels[-1], sizes[labels[-1]]) if labels else Axis(none + n, 1)
        for n, labels in enumerate((found.rows, found.columns))
    )
    dtype = eqn.outputs[0].aval.dtype
    registers = target.lanes(dtype.itemsize)
    limits = target[Convolutions]
    order = [label for label in own if label in windows]
    lanes = lanes_of(column.extent, 2 * registers, limits)
    height = height_of(row.extent, most_sums(target, dtype.itemsize, lanes))
    last = windows[order[-1]]
    few = row.extent < limits.fewest_rows or column.extent < limits.filled * registers
    along_taps = (
        few
        and order[-1] == own[-1] == other[-1]
        and last.dilation == 1
        and last.taps >= limits.filled * registers
    )
    is_narrow = column.extent < limits.fewest_columns or not found.rows
    if is_narrow and not along_taps:
        return None
    width = height_of(last.places, limits.most_sums_in_registers)
    if along_taps:
        # with vectors of half the length, less than one of which is left over, if any: many cores
        # execute instructions on them in half the time
        is_half = 0 < last.taps % registers <= registers // 2
        lanes = registers // 2 if is_half else registers
        height = height_of(column.extent, registers_of_sums(target) // width)
    room = target.cache // limits.part_of_cache // dtype.itemsize
    seen = [from_taps(windows[label]) for label in order]
    given = [Window(window.places, 1) for window in seen]
    length = min(length_of(seen, row.extent, room), length_of(given, column.extent, room))
    return Accumulation(
        tuple(
            Axis(label, sizes[label])
            for label in (*found.groups, *found.rows[:-1], *found.columns[:-1])
        ),
        tuple(Axis(label, sizes[label]) for label in found.summed),
        tuple(Axis(label, windows[label].taps) for label in order),
        length,
        tuple(Axis(label, sizes[label]) for label in order),
        row,
        column,
        lanes,
        height,
        along_taps,
        _images(eqn, found, order, target) if length == windows[order[0]].taps else 1,
        width,
    )


def _images(eqn: Eqn, found: Roles, order: Sequence[int], target: Target) -> int:
    """The number of images of a block, chosen to read sums outside the nearest caches less often.

    All images, if the sums are larger than the operands.
    """
    limits, aval = target[Convolutions], eqn.outputs[0].aval
    windows, room = dict(eqn.params["windows"]), target.cache // limits.part_of_cache
    one_each = found.rows and found.columns
    if aval.size * aval.dtype.itemsize <= room or not found.summed or not one_each:
        return 1
    x, y = (operand.aval.shape for operand in eqn.inputs)
    sizes = extents(x, y, eqn.params)
    seen = sizes[found.rows[-1]] * prod(
        region(from_taps(windows[label]), windows[label].taps)[1] for label in order
    )
    if len(found.summed) == len(found.rows) == len(found.columns) == 1 and not found.groups:
        given = sizes[found.columns[0]] * prod(windows[label].taps for label in order)
        if (seen + given) * sizes[found.summed[0]] <= aval.size:
            return sizes[found.summed[0]]
    return images_of(sizes[found.summed[-1]], 2 * room // (seen * aval.dtype.itemsize), limits)


def parts_of(of: Accumulation, limits: Convolutions) -> int:
    """The number of parts of the sums: as many as fit, a power of two if not all."""
    fitting = limits.largest_parts // prod(axis.extent for axis in of.results)
    fitting = max(fitting, limits.fewest_sums)
    most = min(limits.most_sums, of.number)
    return most if fitting >= most else 1 << (fitting.bit_length() - 1)
