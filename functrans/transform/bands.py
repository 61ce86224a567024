"""Band matrices in a cyclic colouring, whose entries are read by index arithmetic.

Column ``j`` has the colour ``j mod period``, as in the examples of Curtis, Powell and Reid (1974).
Entry ``k`` of row ``i`` is element ``i + b`` of the product of the colour ``(i + a) mod period``.
So the entries are diagonals, read without stored positions, except for a few rows at both ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrans.ops.arrays.slicing import assemble_p, read_slice
from functrans.ops.dependence import Pattern
from functrans.ops.indexing.cyclic import cyclic_diagonal
from functrans.records import NamedTuple

_WIDEST = 16
"""The most entries of a row, which are unrolled."""
_MOST_APART = 64
"""The most entries at the ends, which are unrolled."""
_SHORTEST = 256
"""The fewest entries: fewer are read as fast by their positions."""


class Band(NamedTuple):
    """The index arithmetic that reads a matrix's entries from its products with cyclic vectors."""

    period: int  # the number of colours
    first: int  # the number of the first entry of the regular rows
    rows: int  # the number of regular rows
    # for each entry of the first regular row, its colour and its element in that product
    diagonals: tuple[tuple[int, int], ...]
    apart: tuple[tuple[int, int, int], ...]  # the other entries: number, colour, element
    entries: int  # the number of all entries


def cyclic_colours(pattern: Pattern, most: int) -> Any:
    """The fewest colours ``j mod period``, up to ``most``, of which no row has one twice; or None.

    As `colour_columns`, for a band.
    """
    rows, columns = pattern.shape
    longest = int(np.diff(pattern.indptr).max(initial=0))
    if pattern.nnz < _SHORTEST or not 0 < longest <= _WIDEST:
        return None
    row = np.repeat(np.arange(rows), np.diff(pattern.indptr))
    for period in range(longest, min(most, 2 * _WIDEST) + 1):
        held = np.bincount(row * period + pattern.indices % period)
        if held.max() == 1:
            return np.arange(columns) % period
    return None


def band_of(pattern: Pattern, places: tuple[Any, Any], period: int) -> Band | None:
    """The band of a matrix with entries, by rows, at these positions: elements and colours.

    None if too few rows are regular.
    """
    elements, colours = places
    lengths = np.diff(pattern.indptr)
    middle = len(lengths) // 2
    width = int(lengths[middle]) if len(lengths) else 0
    if pattern.nnz < _SHORTEST or not 0 < width <= _WIDEST:
        return None
    same = np.flatnonzero(lengths == width)
    at = pattern.indptr[same][:, None] + np.arange(width)
    own = elements[at] - same[:, None], (colours[at] - same[:, None]) % period
    of_middle = np.searchsorted(same, middle)
    alike = np.zeros(len(lengths), bool)
    alike[same] = np.all([np.all(x == x[of_middle], axis=1) for x in own], axis=0)
    low, high = _run(alike, middle)
    first, alike_rows = int(pattern.indptr[low]), high - low
    others = [*range(first), *range(first + alike_rows * width, pattern.nnz)]
    if len(others) > _MOST_APART:
        return None
    return Band(
        period, first, alike_rows,
        tuple((int(colours[e]), int(elements[e])) for e in range(first, first + width)),
        tuple((e, int(colours[e]), int(elements[e])) for e in others),
        pattern.nnz,
    )  # fmt: skip


def _run(flags: Any, middle: int) -> tuple[int, int]:
    """The longest range around the middle where all flags are set."""
    unset = np.flatnonzero(~flags)
    place = int(np.searchsorted(unset, middle))
    low = int(unset[place - 1]) + 1 if place else 0
    return low, int(unset[place]) if place < len(unset) else len(flags)


def read_band(products: Any, band: Band) -> Any:
    """The entries, in order, from products with a row for each colour."""
    width = len(band.diagonals)
    parts = [
        cyclic_diagonal(products, shift=colour, start=element, count=band.rows)
        for colour, element in band.diagonals
    ]
    parts += [
        read_slice(products, index=(colour, (element, 1, 1))) for _, colour, element in band.apart
    ]
    indices = [((band.first + k, band.rows, width),) for k in range(width)]
    indices += [((number, 1, 1),) for number, _, _ in band.apart]
    return assemble_p(*parts, indices=tuple(indices), shape=(band.entries,), adds=False)
