"""Sparsity patterns: which elements of the inputs of a program each element of a value depends on.

A pattern is a sparse matrix of booleans, with a row for each element of a value, and a column for
each element of the inputs. The rules of primitives (the slot ``sparsity``) are written with the
functions below: a result's pattern is the product of the primitive's own pattern and its operand's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from functrans.ir.types import Aval, Shape
from functrans.lazily import lazy

if TYPE_CHECKING:
    from scipy.sparse import csr_array as Pattern
else:
    Pattern = Any

_csr_array = lazy("scipy.sparse:csr_array")
_vstack = lazy("scipy.sparse:vstack")

MOST_ENTRIES = 100_000_000
"""A pattern with more entries is refused: it would take a gigabyte, and is of no use."""


class TooDense(Exception):
    """A value whose pattern has more entries than `MOST_ENTRIES`."""

    def __init__(self, entries: int) -> None:
        super().__init__(entries)
        self.entries = entries


class Dependent(NamedTuple):
    """A value in a program, and what it depends on.

    Parameters
    ----------
    aval : Aval
    pattern : sparse matrix of bool, optional
        None if it depends on no element of the inputs.
    value : array, optional
        The value itself, if it is known.
    """

    aval: Aval
    pattern: Pattern | None = None
    value: Any = None

    @property
    def is_known(self) -> bool:
        """Whether its value is known."""
        return self.value is not None


def size(aval: Aval) -> int:
    """The number of elements."""
    return prod(aval.shape)


def check_entries(entries: int) -> None:
    """Raise `TooDense` for a pattern of so many entries."""
    if entries > MOST_ENTRIES:
        raise TooDense(entries)


def pairs(rows: Any, columns: Any, shape: tuple[int, int]) -> Pattern:
    """The pattern with entries at the given rows and columns, which may repeat."""
    rows, columns = np.ravel(rows), np.ravel(columns)
    order = np.arange(len(rows))
    if len(rows) == shape[0] and np.array_equal(rows, order):  # a row has one entry: the usual case
        pattern = _csr_array((np.ones(len(rows), bool), columns, np.arange(len(rows) + 1)), shape)
    else:
        pattern = _csr_array((np.ones(len(rows), bool), (rows, columns)), shape)
    return pattern


def identity(count: int, first: int, width: int) -> Pattern:
    """The pattern of ``count`` inputs of ``width``, from the given one on."""
    return pairs(np.arange(count), np.arange(first, first + count), (count, width))


def product(own: Pattern, pattern: Pattern) -> Pattern:
    """The pattern of a result, by that of the operation and that of the operand."""
    lengths = np.diff(pattern.indptr)
    check_entries(int(lengths[own.indices].sum()))
    return own @ pattern


def union(patterns: Sequence[Pattern | None]) -> Pattern | None:
    """What depends on all that one of the patterns of one shape depends on."""
    total = None
    for pattern in patterns:
        if pattern is not None:
            total = pattern if total is None else total + pattern
    return total


def stacked(patterns: Sequence[Pattern | None], sizes: Sequence[int]) -> Pattern | None:
    """The pattern of values one after another, of so many elements each."""
    width = next((pattern.shape[1] for pattern in patterns if pattern is not None), None)
    if width is None:
        return None
    blocks = [
        _csr_array((count, width), dtype=bool) if pattern is None else pattern
        for pattern, count in zip(patterns, sizes, strict=True)
    ]
    return _vstack(blocks, format="csr")


def elementwise(*operands: Dependent, **params: Any) -> Pattern | None:
    """The rule of an operation on each element, which broadcasts."""
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
    """The rule of an operation of which nothing is known: each element on every element."""
    return in_lines(operands, out, 0)


def in_lines(operands: Sequence[Dependent], out: Aval, shared: int) -> Pattern | None:
    """Each element depends on all those with the same indices on ``shared`` leading axes."""
    lines = prod(out.shape[:shared])
    parts = []
    for x in operands:
        if x.pattern is None:
            continue
        count, wide = size(x.aval), size(out)
        own, theirs = np.arange(count), np.arange(wide)
        gathered = product(pairs(own // max(count // lines, 1), own, (lines, count)), x.pattern)
        repeated = pairs(theirs, theirs // max(wide // lines, 1), (wide, lines))
        parts.append(product(repeated, gathered))
    return union(parts) if lines else None


def only(pattern: Pattern | None, mask: Any) -> Pattern | None:
    """The pattern of a value whose elements are zero but where a mask holds."""
    if pattern is None:
        return None
    kept = np.flatnonzero(mask)
    return product(pairs(kept, kept, (pattern.shape[0], pattern.shape[0])), pattern)
