"""Convolutions as matrix products (im2col): the rows, columns, terms, and blocks.

The windows of ``x`` form a matrix: its rows are the images and the positions of the result, its
columns are the channels and the taps, which are summed over. ``y`` is a matrix with a row for each
channel and tap, and a column for each feature. Axes that cannot be part of a matrix, because they
are not evenly spaced in memory, are outer loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from functrans.ir.graph import Eqn
from functrans.ir.types import Shape
from functrans.loop.target import Target
from functrans.ops.convolution.convolution import Labels, extents, roles
from functrans.ops.linalg.compiled.blas import ROUTINES, Products, spacing


class Convolutions(NamedTuple):
    """Thresholds of convolutions: between tiles in registers and BLAS, and for sizes of blocks.

    Measured: `most_sums_in_registers` (a layer of 64 channels), `fewest_columns` (LeNet);
    `fewest_channels_last`, `channel_bytes`, `well_filled` (8 to 128 channels, 7 to 56 places) on a
    core without AVX-512.
    """

    fewest_columns: int = 3
    few_terms: int = 16
    """The most terms of sums that are unrolled where an element is read, if features are fewer."""
    fewest_rows_in_tiles: int = 32
    """The fewest images and places for tiles: with fewer, and longer sums, packing the weights
    would be most of the work."""
    fewest_channels_last: int = 6
    """The fewest channels that are worth copying side by side, for vectors of features, if lines of
    places are short or windows have strides."""
    channel_bytes: int = 256
    """The fewest bytes of these channels if vectors of places are full."""
    well_filled: float = 0.9
    """The least part of the vectors of features that is filled then."""
    worth_skipping: float = 0.96
    """If a smaller part of the taps reads elements of the image, taps in the padding are skipped
    where this is known for a line of places."""
    most_sums_in_registers: int = 12
    """The most accumulators of a tile, each a vector or a pair of vectors of results."""
    fewest_sums_in_registers: int = 8
    """With few features, vectors are longer, so that so many sums are independent."""
    filled: float = 0.6
    """Vectors are twice as long if this part of them is filled."""
    terms_of_a_copy: int = 8
    """A second copy of results, without margins, takes as long as so many of their terms."""
    fewest_blocks: int = 4
    """The fewest blocks that must remain if a block has several images."""
    most_phases: int = 16
    """The most phases, products of strides, into which the input of strided windows is split."""
    fewest_rows: int = 4
    """The fewest channels that are worth summing side by side, where results are few."""
    part_of_cache: int = 4
    """The cache divided by this is the room for the operands of sums; twice as much is the room for
    the input of a block, or for its windows."""
    most_parts: int = 16
    """The most parts into which the results are divided for threads."""
    most_sums: int = 8
    """The most parts of a long sum."""
    largest_sums: int = 1 << 20
    """The most elements of all these parts."""
    fewest_sums: int = 2
    """The fewest parts of a sum in registers for which there must be room."""
    largest_parts: int = 1 << 23
    """The most elements of all parts of a sum in registers, which limits their number."""
    long_sum: int = 64
    """The fewest terms that are worth a matrix product, where others are in outer loops."""


class Axis(NamedTuple):
    """A labelled axis of one of the matrices."""

    label: int
    extent: int


class Cut(NamedTuple):
    """The rows, or the columns, of a matrix, divided into blocks.

    Parameters
    ----------
    outer : tuple of Axis
        The axes of outer loops.
    inner : tuple of Axis
        The axes of a block, of which the first is cut into pieces.
    length : int
        The length of a piece; the last one may be shorter.
    """

    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    length: int

    @property
    def pieces(self) -> int:
        """The number of pieces of the first inner axis."""
        return -(-self.inner[0].extent // self.length)

    @property
    def number(self) -> int:
        """The number of blocks."""
        return prod(axis.extent for axis in self.outer) * self.pieces

    @property
    def shape(self) -> Shape:
        """The extents of a block."""
        return (self.length, *(axis.extent for axis in self.inner[1:]))


class Plan(NamedTuple):
    """The blocking of a convolution that is computed by BLAS.

    Parameters
    ----------
    apart : tuple of Axis
        The axes of separate products: groups, and features that are not evenly spaced.
    rows, summed : Cut
        The windows of ``x``.
    columns : tuple of Axis
        Features.
    repacked : bool
        Whether ``y`` is copied first, in the order ``(*apart, *summed, *columns)``.
    sums : int
        The number of parts of the sum, if there are several.
    """

    apart: tuple[Axis, ...]
    rows: Cut
    summed: Cut
    columns: tuple[Axis, ...]
    repacked: bool
    sums: int

    @property
    def products(self) -> int:
        """The number of blocks of the result."""
        return prod(axis.extent for axis in self.apart) * self.rows.number


def fits(eqn: Eqn, target: Target) -> bool:
    """Whether a convolution is of floats and, over all groups, large enough."""
    if eqn.outputs[0].aval.dtype not in ROUTINES:
        return False
    rows, columns, terms = counts(eqn)
    limits = target[Products]
    own = target[Convolutions]
    enough = min(rows, terms) >= limits.smallest_side
    enough = enough and (columns >= own.fewest_columns or terms > own.few_terms)
    return enough and _groups(eqn) * rows * columns * terms >= limits.smallest_work


def _groups(eqn: Eqn) -> int:
    """The number of matrix products of a convolution."""
    params = eqn.params
    found = roles(*(params[key] for key in ("x_labels", "y_labels", "out", "windows")))
    return prod(eqn.outputs[0].aval.shape[params["out"].index(label)] for label in found.groups)


def counts(eqn: Eqn) -> tuple[int, int, int]:
    """The rows, columns and terms of each matrix product of a convolution."""
    x, y = (operand.aval.shape for operand in eqn.inputs)
    own, other, out = (eqn.params[key] for key in ("x_labels", "y_labels", "out"))
    windows = dict(eqn.params["windows"])
    found = roles(own, other, out, eqn.params["windows"])
    sizes = extents(x, y, eqn.params)
    return (
        prod(sizes[label] for label in (*found.rows, *windows)),
        prod(sizes[label] for label in found.columns),
        prod(sizes[label] for label in found.summed)
        * prod(window.taps for window in windows.values()),
    )


def sums_are_long(eqn: Eqn, target: Target) -> bool:
    """Whether a convolution has few results and long sums, like derivatives for kernels."""
    rows, _, terms = counts(eqn)
    return rows < terms or places_are_few(eqn, target)


def places_are_few(eqn: Eqn, target: Target) -> bool:
    """Whether a convolution has fewer positions than taps, or very few, and long sums."""
    rows, _, terms = counts(eqn)
    if rows < min(terms, target[Convolutions].fewest_rows_in_tiles):
        return True
    windows = [window for _, window in eqn.params["windows"]]
    few = prod(window.places for window in windows) < prod(window.taps for window in windows)
    return few and terms >= target[Convolutions].long_sum


def plan(eqn: Eqn, target: Target) -> Plan | None:
    """The blocking of a convolution by BLAS; None if that is impossible or does not pay."""
    if not fits(eqn, target):
        return None
    aval, limits = eqn.outputs[0].aval, target[Convolutions]
    x, y = (operand.aval.shape for operand in eqn.inputs)
    own, other, out = (eqn.params[key] for key in ("x_labels", "y_labels", "out"))
    windows = dict(eqn.params["windows"])
    found = roles(own, other, out, eqn.params["windows"])
    sizes = extents(x, y, eqn.params)
    taps = sizes | {label: window.taps for label, window in windows.items()}
    rows = [label for label in out if label in found.rows or label in windows]
    columns = [label for label in out if label in found.columns]
    terms = [label for label in other if label in found.summed or label in windows]
    row_count, column_count, term_count = counts(eqn)
    work = row_count * column_count * term_count
    if column_count < limits.fewest_columns or work < target[Products].smallest_work:
        return None
    lone = _spaced_from(aval.shape, out, columns)
    columns, apart = columns[lone:], [*found.groups, *columns[:lone]]
    if prod(sizes[label] for label in columns) < limits.fewest_columns:
        return None
    first_row = _spaced_from(aval.shape, out, rows)
    if 1 not in (_spacing(aval.shape, out, columns), _spacing(aval.shape, out, rows[first_row:])):
        return None
    is_layer = row_count >= term_count
    first_term = _spaced_from(y, other, terms)
    enough = term_count if is_layer else min(term_count, limits.long_sum)
    spacings = (_spacing(y, other, columns), _spacing(y, other, terms[first_term:]))
    repacked = (
        None in spacings
        or 1 not in spacings
        or prod(taps[label] for label in terms[first_term:]) < enough
    )
    if repacked:
        terms = [label for label in own if label in found.summed or label in windows]
        first_term = 0
    room = 2 * target.cache // limits.part_of_cache // aval.dtype.itemsize
    row_axes = [Axis(label, sizes[label]) for label in rows]
    term_axes = [Axis(label, taps[label]) for label in terms]
    if is_layer:
        summed = _cut(term_axes, first_term, room // 16)
        cut_rows = _cut(row_axes, first_row, room // prod(summed.shape))
    else:
        cut_rows = _cut(row_axes, first_row, room // 16)
        summed = _cut(term_axes, first_term, room // prod(cut_rows.shape))
    done = Plan(
        tuple(Axis(label, sizes[label]) for label in apart),
        cut_rows,
        summed,
        tuple(Axis(label, sizes[label]) for label in columns),
        repacked,
        1,
    )
    few = done.products < limits.most_sums and work >= target[Products].worth_splitting
    if few and aval.size * limits.most_sums <= limits.largest_sums:
        done = done._replace(sums=min(summed.number, limits.most_sums))
    return done


def _spacing(shape: Shape, labels: Labels, chosen: Sequence[int]) -> int | None:
    axes = [labels.index(label) for label in chosen]
    # an axis of extent 1 does not matter
    return spacing(shape, [axis for axis in axes if shape[axis] != 1])


def _spaced_from(shape: Shape, labels: Labels, chosen: Sequence[int]) -> int:
    """The first of the labels from which on their axes, taken as one, are evenly spaced."""
    starts = range(len(chosen))
    return next(i for i in starts if _spacing(shape, labels, chosen[i:]) is not None)


def _cut(axes: Sequence[Axis], first: int, room: int) -> Cut:
    """Blocks of a bounded number of elements, of the axes from ``first`` on."""
    start, size = len(axes), 1
    while start > first and size * axes[start - 1].extent <= room:
        start -= 1
        size *= axes[start].extent
    if start == first:
        return Cut(tuple(axes[:start]), tuple(axes[start:]), axes[start].extent)
    extent = axes[start - 1].extent
    pieces = -(-extent // max(room // size, 1))
    return Cut(tuple(axes[: start - 1]), tuple(axes[start - 1 :]), -(-extent // pieces))
