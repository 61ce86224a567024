"""Colouring of sparsity patterns: which columns of a derivative can be computed at once.

Columns without a common row are computed by one product with the derivative (Curtis, Powell and
Reid, "On the estimation of sparse Jacobian matrices", 1974). Of a symmetric matrix, each pair of
mirrored entries is needed once, for which a star colouring suffices: each path over four vertices
has at least three colours (Coleman and Moré, "Estimation of sparse Hessian matrices and graph
coloring problems", 1984). Both are found greedily; the forbidden colours of a vertex are a bit set,
a Python integer.
`functrans.transform.acyclic` has colourings with fewer colours, `functrans.transform.bands` cyclic
ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from functrans.ops.dependence import Pattern


def colour_columns(pattern: Pattern) -> Any:
    """A colour (an integer from 0 on) for each column, so that columns of a colour share no row.

    The columns are coloured in their order, which is best for a band, and in order of decreasing
    numbers of entries; the result with fewer colours is returned.
    """
    by_column = pattern.T.tocsr()
    rows_of = _neighbours(by_column)
    lengths = np.diff(by_column.indptr)
    orders = range(len(lengths)), np.argsort(-lengths, kind="stable").tolist()
    found = [_greedy(rows_of, pattern.shape[0], order) for order in orders]
    return min(found, key=count_colours)


def count_colours(colours: Any) -> int:
    """The number of colours."""
    return int(colours.max(initial=-1)) + 1


def _neighbours(pattern: Pattern) -> list[list[int]]:
    """The columns of each row."""
    starts, indices = pattern.indptr.tolist(), pattern.indices.tolist()
    return [indices[a:b] for a, b in pairwise(starts)]


def _lowest_free(taken: int) -> int:
    """The position of the lowest bit that is not set."""
    return (~taken & (taken + 1)).bit_length() - 1


def _greedy(rows_of: Sequence[Sequence[int]], rows: int, order: Iterable[int]) -> Any:
    colours = np.zeros(len(rows_of), np.int64)
    taken = [0] * rows
    for column in order:
        own = rows_of[column]
        forbidden = 0
        for row in own:
            forbidden |= taken[row]
        colour = _lowest_free(forbidden)
        colours[column] = colour
        bit = 1 << colour
        for row in own:
            taken[row] |= bit
    return colours


def colour_star(pattern: Pattern) -> Any:
    """A star colouring of the graph of a symmetric pattern, vertices of high degree first."""
    neighbours = [[w for w in every if w != v] for v, every in enumerate(_neighbours(pattern))]
    order = np.argsort([-len(every) for every in neighbours], kind="stable").tolist()
    in_order = range(len(neighbours))
    return min((_Star(neighbours).coloured(o) for o in (order, in_order)), key=count_colours)


class _Star:
    """Greedy star colouring.

    Consider paths over four vertices in which a vertex is the last one to be coloured. At the end
    of such a path, it must not have the colour of the third vertex if the second and the fourth
    have the same colour: ``forbidden_by[second]`` has these colours. As an inner vertex with two
    neighbours of the same colour, it must not have the colour of another neighbour of theirs.
    """

    def __init__(self, neighbours: Sequence[Sequence[int]]) -> None:
        self._neighbours = neighbours
        count = len(neighbours)
        self._colours = [-1] * count
        self._around = [0] * count  # the colours of a vertex's neighbours
        self._repeated = [0] * count  # those of at least two of them
        self._forbidden_by = [0] * count
        self._first: list[dict[int, int]] = [
            {} for _ in range(count)
        ]  # the neighbour of each colour

    def coloured(self, order: Iterable[int]) -> Any:
        """The colours, if vertices are coloured in an order."""
        for vertex in order:
            self._paint(vertex, _lowest_free(self._forbidden(vertex)))
        return np.asarray(self._colours, np.int64)

    def _forbidden(self, vertex: int) -> int:
        colours, forbidden = self._colours, self._around[vertex]
        for w in self._neighbours[vertex]:
            if colours[w] >= 0:
                forbidden |= self._forbidden_by[w]
                if self._repeated[vertex] >> colours[w] & 1:
                    forbidden |= self._around[w]
        return forbidden

    def _paint(self, vertex: int, colour: int) -> None:
        self._colours[vertex] = colour
        bit, repeated = 1 << colour, self._repeated[vertex]
        for w in self._neighbours[vertex]:
            theirs = self._colours[w]
            if theirs >= 0 and repeated >> theirs & 1:
                self._forbidden_by[w] |= bit
            self._around[w] |= bit
            first = self._first[w].setdefault(colour, vertex)
            if first != vertex:
                self._repeated[w] |= bit
                if theirs >= 0:
                    self._forbidden_by[first] |= 1 << theirs
                    self._forbidden_by[vertex] |= 1 << theirs


def places_of_columns(pattern: Pattern, colours: Any) -> tuple[Any, Any]:
    """The position of each entry in the array of products: its row, and its colour."""
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    return rows, colours[pattern.indices]


def places_of_star(pattern: Pattern, colours: Any) -> tuple[Any, Any]:
    """As `places_of_columns`, for a symmetric matrix: an entry is read where it is isolated."""
    rows, of_columns = places_of_columns(pattern, colours)
    columns = pattern.indices
    key = rows * max(count_colours(colours), 1) + of_columns
    _, back, times = np.unique(key, return_inverse=True, return_counts=True)
    alone = times[back] == 1
    return np.where(alone, rows, columns), np.where(alone, of_columns, colours[rows])
