"""Indices of device arrays: their constant part, and the operands of programs.

The start of a slice is not a constant, since each would need a separate program: a loop over
batches is one program, or, for contiguous slices, memory copies without a program.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.ir.on_device import OnDevice
from functrans.ops.arrays.structural import iota, move_axis, reshape
from functrans.ops.elementwise.choice import maximum, minimum
from functrans.ops.indexing.gather import gather
from functrans.records import NamedTuple

_INDEX = np.dtype(np.int64)


class Range(NamedTuple):
    """The selection along an axis."""

    extent: int  # the extent of the axis
    length: int
    step: int


class Window(NamedTuple):
    """The selection of an index of integers and slices."""

    starts: tuple[int, ...]  # the starts of the ranges
    ranges: tuple[Range, ...]  # one for each axis of the array
    shape: tuple[int, ...]  # the shape of the result

    @property
    def is_together(self) -> bool:
        """Whether it is contiguous in memory."""
        parts = [each.length != each.extent for each in self.ranges]
        last = max((axis for axis, part in enumerate(parts) if part), default=0)
        return all(
            (each.step == 1 or each.length == 1) and (axis >= last or each.length == 1)
            for axis, each in enumerate(self.ranges)
        ) or not prod(self.shape)

    @property
    def offset(self) -> int:
        """The offset of its first element in memory, if it has elements."""
        if not prod(self.shape):
            return 0
        extents = [each.extent for each in self.ranges]
        return sum(start * prod(extents[axis + 1 :]) for axis, start in enumerate(self.starts))


def entries(index: Any) -> tuple[Any, ...]:
    """The entries of an index; integers as Python's, lists as arrays, device masks on the host."""
    return tuple(map(_entry, index if isinstance(index, tuple) else (index,)))


def _entry(item: Any) -> Any:
    if item is None or item is Ellipsis or isinstance(item, (bool, np.bool_)):
        return item
    if isinstance(item, OnDevice):
        # the number of selected elements determines the shape, so the mask is read
        return np.asarray(item) if item.dtype.kind == "b" else item
    if isinstance(item, slice):
        bounds = (item.start, item.stop, item.step)
        return slice(*(None if x is None else operator.index(x) for x in bounds))
    if isinstance(item, (list, range)):
        held = isinstance(item, list) and any(isinstance(x, OnDevice) for x in item)
        found = np.stack(item) if held else np.asarray(item)
        return found.astype(_INDEX) if not found.size and not held else found
    if isinstance(item, np.ndarray) and item.ndim:
        return item
    try:
        return operator.index(item)
    except TypeError:
        return item  # tracing raises the proper error


def is_basic(items: Sequence[Any]) -> bool:
    """Whether an index consists of integers, slices, None and an ellipsis only."""
    return all(
        item is None or item is Ellipsis or type(item) is int or isinstance(item, slice)
        for item in items
    )


def window(items: Sequence[Any], shape: tuple[int, ...]) -> Window:
    """The selection of an index.

    Raises `IndexError` if the index is out of bounds, or has more entries than the array has axes.
    """
    starts, ranges, result = [], [], []
    axis = 0
    for item in _full(items, shape):
        if item is None:
            result.append(1)
            continue
        extent = shape[axis]
        if isinstance(item, slice):
            found = range(*item.indices(extent))
            starts.append(found.start if found else 0)
            ranges.append(Range(extent, len(found), found.step))
            result.append(len(found))
        else:
            if not -extent <= item < extent:
                raise IndexError(
                    f"index {item} is out of bounds for axis {axis} with size {extent}"
                )
            starts.append(item % extent)
            ranges.append(Range(extent, 1, 1))
        axis += 1
    return Window(tuple(starts), tuple(ranges), tuple(result))


def _full(items: Sequence[Any], shape: tuple[int, ...]) -> Iterator[Any]:
    """The entries, with full slices for all axes without an entry."""
    used = sum(map(_axes, items))
    if used > len(shape):
        raise IndexError(
            f"too many indices for array: array is {len(shape)}-dimensional, but {used} were "
            "indexed"
        )
    dots = sum(item is Ellipsis for item in items)
    if dots > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    for item in items if dots else (*items, Ellipsis):
        if item is Ellipsis:
            yield from [slice(None)] * (len(shape) - used)
        else:
            yield item


def _axes(item: Any) -> int:
    """The number of axes that an entry indexes."""
    if item is None or item is Ellipsis or isinstance(item, (bool, np.bool_)):
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype.kind == "b" else 1


def reader(window: Window) -> Any:
    """A function of an array and of starts that reads such a window."""

    def read(x: Any, starts: Sequence[Any]) -> Any:
        for axis, (start, (extent, length, step)) in enumerate(
            zip(starts, window.ranges, strict=True)
        ):
            if length == extent and step == 1:
                continue
            span = (length - 1) * step if length else 0
            # clamped, so that the kernel knows that it is in bounds
            first = maximum(minimum(start, extent - 1 - max(span, 0)), max(-span, 0))
            positions = first + step * iota(size=length, dtype=_INDEX)
            x = move_axis(gather(x, positions, axes=(axis,)), 0, axis)
        return reshape(x, shape=window.shape)

    return read


def known(items: Sequence[Any], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """The entries, with masks converted to integers, so that shapes are known.

    Raises `IndexError` if a mask does not fit.
    """
    found: list[Any] = []
    full = list(_full(items, shape)) if any(map(_is_mask, items)) else list(items)
    axis = 0
    for item in full:
        if not _is_mask(item):
            axis += _axes(item)
            found.append(item)
            continue
        for extent, own in zip(shape[axis:], item.shape, strict=False):
            if extent != own:
                raise IndexError(
                    "boolean index did not match indexed array along axis "
                    f"{axis}; size of axis is {extent} but size of corresponding boolean axis is "
                    f"{own}"
                )
            axis += 1
        found += np.nonzero(item)
    return tuple(found)


def _is_mask(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.ndim > 0 and item.dtype.kind == "b"
