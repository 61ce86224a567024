"""Sparsity patterns: which elements of the inputs of a program each element of a value depends on.

A pattern is a sparse matrix of booleans, with a row for each element of a value, and a column for
each element of the inputs. The rules of primitives (the slot ``sparsity``) are written with the
functions below: a result's pattern is the product of the primitive's own pattern and its operand's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from functrans.ir.types import Aval, Shape
from functrans.lazily import lazy
from functrans.records import NamedTuple

Pattern = Any
"""A `scipy.sparse.csr_array` of bool, which is not imported before one is made."""

_csr_array = lazy("scipy.sparse:csr_array")
_vstack = lazy("scipy.sparse:vstack")

MOST_ENTRIES = 100_000_000
"""Patterns with more entries are refused: they take a gigabyte, and leave nothing to compress."""

BLOCK_ENTRIES = 10_000_000
"""Entries of a block of rows, with their duplicates, when these are counted."""


class TooDense(Exception):
    """A value whose pattern has more entries than `MOST_ENTRIES`."""

    def __init__(self, entries: int) -> None:
        super().__init__(entries)
        self.entries = entries


class Dependent(NamedTuple):
    """A value in a program, and the pattern of the input elements that it depends on."""

    aval: Aval
    pattern: Pattern | None = None  # None if it depends on no element of the inputs
    value: Any = None  # the value itself, if it is known

    @property
    def is_known(self) -> bool:
        """Whether the value itself is known."""
        return self.value is not None


def size(aval: Aval) -> int:
    """The number of elements; 0 for an array of unknown length, which only loops read and write."""
    return 0 if min(aval.shape, default=0) < 0 else prod(aval.shape)


def check_entries(entries: int) -> None:
    """Raise `TooDense` if a pattern would have more than `MOST_ENTRIES` entries."""
    if entries > MOST_ENTRIES:
        raise TooDense(entries)


def pairs(rows: Any, columns: Any, shape: tuple[int, int]) -> Pattern:
    """The pattern with entries at the given rows and columns, which may repeat."""
    rows, columns = np.ravel(rows), np.ravel(columns)
    order = np.arange(len(rows))
    if len(rows) == shape[0] and np.array_equal(rows, order):  # one entry in each row
        pattern = _csr_array((np.ones(len(rows), bool), columns, np.arange(len(rows) + 1)), shape)
    else:
        pattern = _csr_array((np.ones(len(rows), bool), (rows, columns)), shape)
    return pattern


def identity(count: int, first: int, width: int) -> Pattern:
    """The pattern of ``count`` consecutive inputs from ``first`` on, out of ``width`` inputs."""
    return pairs(np.arange(count), np.arange(first, first + count), (count, width))


def product(own: Pattern, pattern: Pattern) -> Pattern:
    """The pattern of a result: the operation's own pattern times that of its operand."""
    lengths = np.diff(pattern.indptr).astype(np.int64)[own.indices]
    if lengths.sum() <= MOST_ENTRIES:
        return own @ pattern
    # elements of a row may depend on the same inputs, so its entries are counted in blocks
    full = np.flatnonzero(np.diff(own.indptr))
    check_entries(int(np.maximum.reduceat(lengths, own.indptr[full]).sum()))
    before = np.concatenate([[0], np.cumsum(lengths)])[own.indptr]
    cuts = np.searchsorted(before, np.arange(0, before[-1], BLOCK_ENTRIES)[1:])
    blocks, entries = [], 0
    for first, last in pairwise([0, *np.unique(cuts), own.shape[0]]):
        blocks.append(own[first:last] @ pattern)
        entries += blocks[-1].nnz
        check_entries(entries)
    return _vstack(blocks, format="csr")


def union(patterns: Sequence[Pattern | None]) -> Pattern | None:
    """The union of patterns of equal shape."""
    total = None
    for pattern in patterns:
        if pattern is not None:
            total = pattern if total is None else total + pattern
    return total


def stacked(patterns: Sequence[Pattern | None], sizes: Sequence[int]) -> Pattern | None:
    """The pattern of a concatenation of values that have the given numbers of elements."""
    width = next((pattern.shape[1] for pattern in patterns if pattern is not None), None)
    if width is None:
        return None
    blocks = [
        _csr_array((count, width), dtype=bool) if pattern is None else pattern
        for pattern, count in zip(patterns, sizes, strict=True)
    ]
    return _vstack(blocks, format="csr")


def elementwise(*operands: Dependent, **params: Any) -> Pattern | None:
    """The rule of elementwise operations, whose operands broadcast."""
    shape = np.broadcast_shapes(*(x.aval.shape for x in operands))
    return union([repeated(x, shape) for x in operands])


def repeated(x: Dependent, shape: Shape) -> Pattern | None:
    """The pattern of a value that is broadcast to a shape."""
    if x.pattern is None or x.aval.shape == shape:
        return x.pattern
    positions = np.arange(size(x.aval)).reshape(x.aval.shape)
    columns = np.broadcast_to(positions, shape)
    rows = np.arange(columns.size)
    return product(pairs(rows, columns, (columns.size, positions.size)), x.pattern)


def everything(operands: Sequence[Dependent], out: Aval) -> Pattern | None:
    """The rule of unknown operations: each result element depends on every operand element."""
    return union([_by_lines(x.pattern, *_whole(x.aval), *_whole(out)) for x in operands])


def _whole(aval: Aval) -> tuple[Any, int]:
    return np.zeros(size(aval), np.int64), 1


def along(x: Dependent, out: Aval, *axes: int) -> Pattern | None:
    """The rule of operations along axes: each element depends on its whole line along these."""
    return _by_lines(x.pattern, *_lines(x.aval, axes), *_lines(out, axes))


def _lines(aval: Aval, axes: Sequence[int]) -> tuple[Any, int]:
    """The number of each element's line along some axes, and the number of lines."""
    shape = [1 if i in axes else n for i, n in enumerate(aval.shape)]
    numbers = np.arange(prod(shape)).reshape(shape)
    return np.broadcast_to(numbers, aval.shape).reshape(-1), prod(shape)


def _by_lines(
    pattern: Pattern | None, lines: Any, count: int, lines_of_results: Any, results: int
) -> Pattern | None:
    if pattern is None:
        return None
    # the patterns of a line's elements are united once, for all results of that line
    united = product(pairs(lines, np.arange(len(lines)), (count, len(lines))), pattern)
    rows = np.arange(len(lines_of_results))
    return product(pairs(rows, lines_of_results, (len(rows), results)), united)


def only(pattern: Pattern | None, mask: Any) -> Pattern | None:
    """The pattern of a value whose elements are zero wherever a mask is false."""
    if pattern is None:
        return None
    kept = np.flatnonzero(mask)
    return product(pairs(kept, kept, (pattern.shape[0], pattern.shape[0])), pattern)
