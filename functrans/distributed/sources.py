"""Sources of the chunks of `chunked_map`: arrays that may be larger than memory, or iterators.

Arrays are read in blocks of rows. For a memory-mapped file, other processes receive not the rows
but their location: the file and the range of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from functrans.errors import AxisSizeError
from functrans.ir.types import Aval, describe
from functrans.records import NamedTuple
from functrans.tree import core as tree
from functrans.tree.compare import Structure

CHUNK_BYTES = 16 << 20
"""The default size of a chunk in bytes."""


class Chunk(Protocol):
    """Part of a source, which may be read in another thread or process."""

    def read(self) -> Any:
        """The arrays."""
        ...

    def types(self) -> Any:
        """Their types, without reading them."""
        ...


class MappedRows(NamedTuple):
    """Rows of a file: an array of a shape, at an offset in bytes."""

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self) -> Any:
        # all pages of a mapping that were ever read count as this process's memory
        count = prod(self.shape)
        rows = np.fromfile(self.path, self.dtype, count, offset=self.offset)
        return rows.reshape(self.shape)

    def types(self) -> Any:
        return Aval(self.shape, self.dtype)


class Rows(NamedTuple):
    """Rows of an array with NumPy's slices."""

    array: Any
    start: int
    stop: int

    def read(self) -> Any:
        rows = self.array[self.start : self.stop]
        if hasattr(rows, "compute"):  # an array of dask
            rows = rows.compute(scheduler="synchronous")
        return np.asarray(rows)

    def types(self) -> Any:
        return Aval((self.stop - self.start, *self.array.shape[1:]), self.array.dtype)


class Loaded(NamedTuple):
    """A chunk from an iterator."""

    value: Any

    def read(self) -> Any:
        return self.value

    def types(self) -> Any:
        return tree.map(lambda x: Aval(np.shape(x), np.asarray(x).dtype), self.value)


class Parts(NamedTuple):
    """A pytree of chunks."""

    leaves: tuple[Any, ...]
    structure: Structure

    def read(self) -> Any:
        return self.structure.unflatten([leaf.read() for leaf in self.leaves])

    def types(self) -> Any:
        return self.structure.unflatten([leaf.types() for leaf in self.leaves])


class Source(NamedTuple):
    """Chunks, and their number if it is known."""

    chunks: Iterator[Chunk]
    total: int | None


def source_of(source: Any, chunk_size: int | None) -> Source:
    """The chunks of a pytree of arrays with equal numbers of rows, or of an iterator.

    Raises
    ------
    AxisSizeError
        If the arrays have different numbers of rows, or one has none.
    TypeError
        If it is neither.
    """
    leaves, structure = tree.flatten(source)
    if leaves and all(hasattr(x, "shape") and hasattr(x, "__getitem__") for x in leaves):
        return _by_rows(leaves, structure, source, chunk_size)
    if not hasattr(source, "__next__") and not hasattr(source, "__iter__"):
        raise TypeError(
            "chunked_map takes arrays (NumPy's, memory-mapped, zarr's, dask's), pytrees of them, "
            f"or an iterator of chunks, not {describe(source)}"
        )
    if chunk_size is not None:
        raise ValueError("an iterator gives chunks of its own: leave chunk_size out")
    return Source((Loaded(value) for value in source), None)


def _by_rows(
    leaves: Sequence[Any], structure: Structure, source: Any, chunk_size: int | None
) -> Source:
    counts = []
    for x, path in zip(leaves, tree.paths(source), strict=True):
        if len(x.shape) == 0:
            raise AxisSizeError(f"chunked_map goes along rows, and source{path} is one number")
        counts.append(int(x.shape[0]))
        if counts[-1] != counts[0]:
            raise AxisSizeError(
                f"the arrays of a source must have as many rows: source{path} has {counts[-1]}, "
                f"and the first one {counts[0]}"
            )
    total = counts[0]
    if chunk_size is None:
        row = sum(prod(x.shape[1:]) * np.dtype(x.dtype).itemsize for x in leaves)
        chunk_size = max(1, CHUNK_BYTES // max(row, 1))
    starts = range(0, max(total, 1), chunk_size)

    def chunks() -> Iterator[Chunk]:
        for start in starts:
            stop = min(start + chunk_size, total)
            yield Parts(tuple(_rows(x, start, stop) for x in leaves), structure)

    return Source(chunks(), len(starts))


def _rows(x: Any, start: int, stop: int) -> Any:
    mapped = _mapped(x)
    if mapped is None and isinstance(x, np.ndarray):
        return Rows(x[start:stop], 0, stop - start)  # only this is sent
    if mapped is None:
        return Rows(x, start, stop)
    row = prod(x.shape[1:]) * x.dtype.itemsize
    return mapped._replace(offset=mapped.offset + start * row, shape=(stop - start, *x.shape[1:]))


def _mapped(x: Any) -> MappedRows | None:
    """The location of an array in a file, if its rows are contiguous there."""
    if not isinstance(x, np.memmap) or not x.flags.c_contiguous or x.filename is None:
        return None
    root = x
    while isinstance(root.base, np.memmap):
        root = root.base
    first, whole = (a.__array_interface__["data"][0] for a in (x, root))
    path = str(Path(x.filename).absolute())
    # (writes to the mapping are in the file after a flush)
    if x.mode != "r":
        x.flush()
    return MappedRows(path, int(root.offset) + first - whole, x.shape, x.dtype)
