"""Acyclic colouring of symmetric matrices, whose entries are recovered by substitution.

Neighbours have different colours, and the vertices of any two colours induce a forest: this takes
fewer colours than a star colouring. An entry at a leaf of a tree is an element of a product; other
entries are elements minus the sum of entries farther from the root (Coleman and Cai, "The cyclic
coloring problem and estimation of sparse Hessian matrices", 1986). Colours are found greedily, with
the trees in a union-find (Gebremedhin, Tarafdar, Manne and Pothen, "New acyclic and star coloring
algorithms with application to computing Hessians", 2007).

Substitution proceeds from the leaves inwards: the entry of a leaf is subtracted from its
neighbour's element, which then gives that entry, and so on. Long branches would accumulate rounding
errors, so a colouring with deep trees is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from functrans.ir.types import Aval
from functrans.ops.control.scan import scan_p
from functrans.ops.dependence import Pattern
from functrans.ops.elementwise.arithmetic import negative
from functrans.ops.indexing.gather import gather, scatter_add
from functrans.records import NamedTuple
from functrans.trace.stage import rewrite
from functrans.transform.colouring import count_colours

MOST_PATHS = 4_000_000
"""The most paths over three vertices that are visited, which takes a second or two."""

_DEEPEST = 64
"""The most rounds of substitution."""


class Substitution(NamedTuple):
    """The order of substitution: the entries of a matrix from its products with acyclic colours."""

    # for each edge, in the order of substitution, the element of the concatenated products that
    # equals its entry at that time
    leaves: Any
    neighbours: Any  # for each edge, the element from which its entry is then subtracted
    rounds: tuple[int, ...]  # the starts of groups of edges that do not depend on each other
    # for each entry of the matrix the number of its edge, or (after all edges) of the element
    entries: Any


def count_paths(pattern: Pattern) -> int:
    """The number of paths over three vertices."""
    return int(np.sum(np.diff(pattern.indptr).astype(np.int64) ** 2))


def colour_acyclic(pattern: Pattern) -> Any:
    """An acyclic colouring of the graph of a symmetric pattern."""
    graph = _Edges(pattern)
    by_degree = np.argsort(-np.diff(pattern.indptr), kind="stable").tolist()
    orders: tuple[Iterable[int], ...] = by_degree, range(pattern.shape[0])
    return min((_Acyclic(graph).coloured(order) for order in orders), key=count_colours)


class _Edges:
    """The neighbours of each vertex, with the numbers of the edges to them."""

    def __init__(self, pattern: Pattern) -> None:
        rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
        columns = pattern.indices.astype(np.int64)
        ends = np.minimum(rows, columns) * pattern.shape[0] + np.maximum(rows, columns)
        distinct, numbers = np.unique(ends, return_inverse=True)
        self.count = len(distinct)
        triples = list(zip(rows.tolist(), columns.tolist(), numbers.tolist(), strict=True))
        starts = pattern.indptr.tolist()
        self.of = [
            [(w, edge) for v, w, edge in triples[a:b] if v != w] for a, b in pairwise(starts)
        ]


class _Acyclic:
    """Greedy acyclic colouring. Each edge is in one tree, that of the two colours of its ends."""

    def __init__(self, graph: _Edges) -> None:
        self._neighbours: Sequence[Sequence[tuple[int, int]]] = graph.of
        self._colours = [-1] * len(graph.of)
        self._parent = list(range(graph.count))

    def coloured(self, order: Iterable[int]) -> Any:
        """Colour the vertices in the given order."""
        for vertex in order:
            near = [(w, e) for w, e in self._neighbours[vertex] if self._colours[w] >= 0]
            forbidden = self._forbidden(vertex, near)
            colour = 0
            while colour in forbidden:
                colour += 1
            self._colours[vertex] = colour
            self._join(vertex, near)
        return np.asarray(self._colours, np.int64)

    def _forbidden(self, vertex: int, near: Sequence[tuple[int, int]]) -> set[int]:
        """The colours with which a vertex would equal a neighbour, or close a cycle."""
        colours = self._colours
        forbidden = {colours[w] for w, _ in near}
        reached: dict[int, int] = {}
        for w, _ in near:
            for x, edge in self._neighbours[w]:
                colour = colours[x]
                if x != vertex and colour >= 0 and colour not in forbidden:
                    # two neighbours in one tree: with this colour, the vertex would close a cycle
                    if reached.setdefault(self._tree(edge), w) != w:
                        forbidden.add(colour)
        return forbidden

    def _join(self, vertex: int, near: Sequence[tuple[int, int]]) -> None:
        """Add the edges of a vertex to the trees that they touch."""
        colours, own = self._colours, self._colours[vertex]
        first: dict[int, int] = {}
        for w, edge in near:
            self._unite(edge, first.setdefault(colours[w], edge))
            for x, other in self._neighbours[w]:
                if x != vertex and colours[x] == own:
                    self._unite(edge, other)

    def _tree(self, edge: int) -> int:
        parent = self._parent
        while parent[edge] != edge:
            parent[edge] = parent[parent[edge]]
            edge = parent[edge]
        return edge

    def _unite(self, one: int, other: int) -> None:
        self._parent[self._tree(one)] = self._tree(other)


def substitution(pattern: Pattern, colours: Any) -> Substitution | None:
    """The substitution for a symmetric pattern and an acyclic colouring; None if it is too deep.

    The element of a product at row ``i`` in the colour of ``j`` is the sum of the row's entries in
    columns of that colour. If all but one are known, that one can be computed.
    """
    size = pattern.shape[0]
    rows = np.repeat(np.arange(size), np.diff(pattern.indptr))
    columns = pattern.indices.astype(np.int64)
    places = colours[columns] * size + rows
    mirror = _mirrors(rows, columns, size)
    edge = np.full(len(rows), -1)
    on_diagonal = rows == columns
    unknown = ~on_diagonal
    order: list[Any] = []
    while unknown.any():
        if len(order) == _DEEPEST:
            return None
        left = np.bincount(places[unknown], minlength=size * count_colours(colours))
        leaf = unknown & (left[places] == 1)
        # for an edge with two leaves, the first one
        leaf &= ~(leaf[mirror] & (rows > columns))
        chosen = np.flatnonzero(leaf)
        done = sum(map(len, order))
        edge[chosen] = edge[mirror[chosen]] = np.arange(done, done + len(chosen))
        unknown[chosen] = unknown[mirror[chosen]] = False
        order.append(chosen)
    leaves = np.concatenate([np.zeros(0, np.int64), *order])
    return Substitution(
        places[leaves],
        places[mirror[leaves]],
        tuple(np.cumsum([0, *map(len, order)]).tolist()),
        np.where(on_diagonal, len(leaves) + places, edge),
    )


def _mirrors(rows: Any, columns: Any, size: int) -> Any:
    """For each entry, in row-major order, the number of its mirror image."""
    mirror = np.empty(len(rows), np.int64)
    mirror[np.argsort(columns * size + rows, kind="stable")] = np.arange(len(rows))
    return mirror


def substituted(products: Any, how: Substitution) -> Any:
    """The entries of a matrix, from its concatenated products."""
    if isinstance(products, np.ndarray):
        edges = _by_rounds(products, how)
    else:
        edges = _one_by_one(products, how)
    return gather(np.concatenate([edges, products]), how.entries, axes=(0,))


def _by_rounds(products: Any, how: Substitution) -> Any:
    left, parts = products.copy(), [products[:0]]
    for begin, end in pairwise(how.rounds):
        parts.append(left[how.leaves[begin:end]])
        np.subtract.at(left, how.neighbours[begin:end], parts[-1])
    return np.concatenate(parts)


def _one_by_one(products: Any, how: Substitution) -> Any:
    """Substitution as a loop over edges, which takes some nanoseconds for each when compiled."""
    position = Aval((), np.dtype(np.int64))
    body = rewrite(_step, (Aval(products.shape, products.dtype), position, position))
    _, edges = scan_p(
        products, how.leaves, how.neighbours, body=body, length=len(how.leaves), reverse=False,
        n_consts=0, n_carry=1,
    )  # fmt: skip
    return edges


def _step(left: Any, leaf: Any, neighbour: Any) -> list[Any]:
    entry = gather(left, leaf, axes=(0,))
    return [scatter_add(left, negative(entry), neighbour, axes=(0,), unique=True), entry]
