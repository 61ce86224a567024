"""A fused nest as statements of the loop IR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from functrans.ir.nodes import INDEX
from functrans.ir.scalar import Scalar, const, postorder
from functrans.lower.folds import START, lower_folds
from functrans.lower.loops import Buffer, For, Let, Statement, Store, buffer, load, local
from functrans.lower.nests import Loop
from functrans.lower.roots import Root, extent_of
from functrans.lower.simplify import Simplifier

LARGEST_SCRATCH = 1 << 16
"""Bytes of rows that a nest may keep on a thread's stack."""

WIDE_COLUMNS = 8
"""Sums down columns go over this many vectors at once, so that whole cache lines are used."""


@dataclass(frozen=True)
class Nest:
    """Statements, and what they need besides the buffers that outlive them.

    Parameters
    ----------
    body : tuple of statements
    scratch : tuple of Buffer
        Rows that are used only within an iteration of the outermost loop.
    work : int
        Roughly the number of scalar operations.
    """

    body: tuple[Statement, ...]
    scratch: tuple[Buffer, ...]
    work: int


class Bodies:
    """Makes the statements of nests.

    Parameters
    ----------
    readers : dict
        All roots that read a buffer.
    vector_bytes : int
        The size of a vector register.
    simplify : Simplifier
    """

    def __init__(
        self, readers: Mapping[Buffer, Sequence[Root]], vector_bytes: int, simplify: Simplifier
    ) -> None:
        self.readers = readers
        self.vector_bytes = vector_bytes
        self.simplify = simplify
        self._known: dict[Scalar, Scalar] = {}
        self._moved: dict[Buffer, tuple[Buffer, tuple[int, ...]]] = {}
        self._contracted: set[Root] = set()

    def build(self, nest: Loop) -> Nest:
        """The statements of one nest."""
        self._known = {}
        self._moved = {}
        self._contracted = set()
        self._plan(nest, nest, ())
        body = tuple(self._loop(nest, outermost=True))
        scratch = tuple(row for row, _ in self._moved.values())
        return Nest(body, scratch, sum(root.work for root in nest.roots()))

    # -- where the values of a nest live ------------------------------------------------------

    def _plan(self, nest: Loop, loop: Loop, path: tuple[Loop, ...]) -> None:
        path = (*path, loop)
        for child in loop.children:
            if isinstance(child, Loop):
                self._plan(nest, child, path)
            elif not child.output:
                self._contract(nest, child, path)

    def _contract(self, nest: Loop, root: Root, path: tuple[Loop, ...]) -> None:
        """Keep a value that only its nest needs in locals, or in a row, instead of in memory."""
        readers = self.readers.get(root.target, ())
        shared = 0
        for loop in path:
            if not set(readers) <= set(loop.roots()):
                break
            shared += 1
        if shared == 0 or root.call or not readers:
            return
        loads = [node for reader in readers for node in reader.loads[root.target]]
        constant = all(
            i.op == "const"
            for node in loads
            for axis, i in enumerate(node.args)
            if axis not in root.axes
        )
        if shared == len(path) and constant:
            self._contracted.add(root)
            return
        if path[0].index is None or path[shared - 1].vector:
            return
        kept = [n for axis, n in enumerate(root.target.shape) if axis not in root.axes[:shared]]
        bytes_needed = prod(int(n.attribute) for n in kept) * root.target.dtype.itemsize
        used = sum(_bytes(row) for row, _ in self._moved.values())
        if bytes_needed + used <= LARGEST_SCRATCH:
            row = buffer(f"{root.target.name}_row", root.target.dtype, kept)
            self._moved[root.target] = row, root.axes[:shared]

    def _resolve(self, expressions: Sequence[Scalar]) -> list[Scalar]:
        """The expressions, reading locals and rows where the nest keeps its values in such."""
        replaced: dict[Scalar, Scalar] = {}
        for node in postorder(expressions):
            if node.op != "load":
                continue
            if node in self._known:
                replaced[node] = self._known[node]
            elif node.attribute in self._moved:
                row, dropped = self._moved[node.attribute]
                kept = [i for axis, i in enumerate(node.args) if axis not in dropped]
                replaced[node] = load(row, self.simplify.substitute(kept, replaced))
        return self.simplify.substitute(expressions, replaced)

    # -- statements ---------------------------------------------------------------------------

    def _loop(self, loop: Loop, outermost: bool = False) -> Iterator[Statement]:
        if loop.index is None:
            for child in loop.children:
                assert isinstance(child, Root)
                yield from child.call or self._root(child, self.vector_bytes)
            return
        vector = loop.vector
        lanes = self._lanes(loop) if vector else 1
        body: list[Statement] = []
        for child in loop.children:
            if isinstance(child, Root):
                body.extend(self._root(child, 0 if vector and lanes > 1 else self.vector_bytes))
            else:
                body.extend(self._loop(child))
        yield For(
            loop.index,
            START,
            const(extent_of(loop.index), INDEX),
            tuple(body),
            lanes=lanes,
            parallel=outermost,
            repeatable=lanes > 1,
        )

    def _root(self, root: Root, vector_bytes: int) -> Iterator[Statement]:
        """Compute a root at the current indices."""
        values = self._resolve([value for _, value in root.elements])
        widest = max(root.target.dtype.itemsize, *(_widths(values)))
        statements, values = lower_folds(
            values, max(vector_bytes // widest, 1), self.simplify
        )
        yield from statements
        if root in self._contracted:
            targets = tuple(local(root.target.dtype, root.target.name) for _ in values)
            yield Let(targets, tuple(values))
            for (position, _), target in zip(root.elements, targets, strict=True):
                self._known[load(root.target, position)] = target
            return
        target, dropped = self._moved.get(root.target, (root.target, ()))
        for (position, _), value in zip(root.elements, values, strict=True):
            kept = tuple(i for axis, i in enumerate(position) if axis not in dropped)
            yield Store(target, kept, value)

    def _lanes(self, loop: Loop) -> int:
        """How many iterations to do at once."""
        assert loop.index is not None
        roots = [child for child in loop.children if isinstance(child, Root)]
        widest = max(max(root.target.dtype.itemsize, *_widths_of(root)) for root in roots)
        lanes = self.vector_bytes // widest
        if any(root.folds for root in roots):
            lanes *= WIDE_COLUMNS
        while lanes > extent_of(loop.index):
            lanes //= 2
        return max(lanes, 1)


def _widths_of(root: Root) -> list[int]:
    return _widths([value for _, value in root.elements])


def _widths(values: Sequence[Scalar]) -> list[int]:
    """The sizes in bytes of the numbers that are computed with, indices left out."""
    return [1] + [
        node.dtype.itemsize
        for node in postorder(values)
        if node.dtype != np.dtype(np.int64) or node.op == "load"
    ]


def _bytes(row: Buffer) -> int:
    return prod(int(n.attribute) for n in row.shape) * row.dtype.itemsize
