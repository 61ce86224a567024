"""Thresholds of convolutions, and the sizes that are compared with them.

The windows of ``x`` form a matrix: its rows are the images and the positions of the result, its
columns are the channels and the taps, which are summed over. ``y`` is a matrix with a row for each
channel and tap, and a column for each feature.
"""

from __future__ import annotations

from math import prod

from functrans.ir.graph import Eqn
from functrans.loop.target import Target
from functrans.ops.convolution.convolution import extents, roles
from functrans.ops.linalg.compiled.blas import ROUTINES, Products
from functrans.records import NamedTuple


class Convolutions(NamedTuple):
    """Thresholds of convolutions: between forms, and for the sizes of tiles and blocks.

    Measured: `most_sums_in_registers` (a layer of 64 channels), `fewest_columns` (LeNet);
    `fewest_channels_last`, `channel_bytes`, `well_filled` (8 to 128 channels, 7 to 56 positions)
    on a core without AVX-512.
    """

    fewest_columns: int = 3
    few_terms: int = 16
    """The most terms of sums that are unrolled where an element is read, if features are fewer."""
    fewest_rows_in_tiles: int = 32
    """The fewest images and positions for tiles: with fewer, and longer sums, packing the weights
    would be most of the work."""
    fewest_channels_last: int = 6
    """The fewest channels that are worth copying side by side, for vectors of features, if lines of
    positions are short or windows have strides."""
    channel_bytes: int = 256
    """The fewest bytes of these channels if vectors of positions are full."""
    well_filled: float = 0.9
    """The least filled fraction of the vectors of features in that case."""
    worth_skipping: float = 0.96
    """If a smaller fraction of the taps reads elements of the image, taps in the padding are
    skipped where this is known for a line of positions."""
    most_sums_in_registers: int = 12
    """The most accumulators of a tile, each a vector or a pair of vectors of results."""
    fewest_sums_in_registers: int = 8
    """With few features, vectors are longer, so that a tile has this many registers of sums."""
    filled: float = 0.6
    """The length of vectors is halved until at least this fraction of the lanes is used."""
    terms_of_a_copy: int = 8
    """The cost of copying results without their margins, as a number of terms of each result."""
    terms_of_a_transposition: int = 12
    """With vectors along images, the cost of copying an element of an operand or of the result, as
    a number of terms."""
    gain_of_images: float = 0.9
    """Vectors along images are used if their estimated time is at most this part of that of other
    vectors."""
    fewest_blocks: int = 4
    """The fewest blocks that must remain if a block has several images."""
    most_phases: int = 36
    """The most phases, products of strides, into which the input of strided windows is split."""
    fewest_rows: int = 4
    """The fewest channels that are worth summing side by side, where results are few."""
    part_of_cache: int = 4
    """The cache divided by this is the room for the operands of sums; twice as much is the room for
    the input of a block."""
    most_parts: int = 16
    """The most parts into which the results are divided for threads."""
    most_sums: int = 8
    """The most parts of a long sum."""
    fewest_sums: int = 2
    """The fewest parts of a sum in registers, if it has several blocks."""
    largest_parts: int = 1 << 23
    """The most elements of all parts together, unless two parts have more."""
    long_sum: int = 64
    """The fewest terms of long sums, for which few positions are not worth tiles."""


class Axis(NamedTuple):
    """A labelled axis."""

    label: int
    extent: int


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


def places_are_few(eqn: Eqn, target: Target) -> bool:
    """Whether a convolution has fewer positions than taps, or very few, and long sums."""
    rows, _, terms = counts(eqn)
    if rows < min(terms, target[Convolutions].fewest_rows_in_tiles):
        return True
    windows = [window for _, window in eqn.params["windows"]]
    few = prod(window.places for window in windows) < prod(window.taps for window in windows)
    return few and terms >= target[Convolutions].long_sum
