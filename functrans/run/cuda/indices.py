"""Indices of device arrays: their constant part, and the operands of programs.

The start of a slice is not a constant, since each would need a separate program: a loop over
batches is one program, or, for contiguous slices, memory copies without a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.ir.on_device import OnDevice
from functrans.ops.arrays.structural import iota, move_axis, reshape
from functrans.ops.elementwise.choice import maximum, minimum
from functrans.ops.indexing.gather import gather
from functrans.ops.indexing.index import Mask, entry_of, index_arrays, plan_of, with_axes
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


def entries(index: Any) -> list[Any]:
    """The entries of an index, as `entry_of` gives them; masks of a device are on the host.

    The number of elements that a mask selects determines a shape, so a mask is read.
    """
    items = index if isinstance(index, tuple) else (index,)
    return [
        entry_of(np.asarray(x) if isinstance(x, OnDevice) and x.dtype.kind == "b" else x)
        for x in items
    ]


def is_basic(items: Sequence[Any]) -> bool:
    """Whether an index consists of integers, slices, None and an ellipsis only."""
    return all(item is None or item is Ellipsis or isinstance(item, (int, slice)) for item in items)


def window(items: Sequence[Any], shape: tuple[int, ...]) -> Window:
    """The selection of an index of integers and slices."""
    plan = plan_of(shape, tuple(items))
    selected = [(entry, 1, 1) if isinstance(entry, int) else entry for entry in plan.basic]
    ranges = [
        Range(extent, length, step)
        for extent, (_, length, step) in zip(shape, selected, strict=True)
    ]
    return Window(tuple(start for start, _, _ in selected), tuple(ranges), plan.expanded)


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
    if not any(isinstance(item, Mask) for item in items):
        return tuple(items)
    found: list[Any] = []
    for item, axis in with_axes(items, shape):
        if not isinstance(item, Mask):
            found.append(item)
        elif item.value.ndim:
            found += [array for array, _ in index_arrays(item, shape, axis)]
        else:
            found.append(bool(item.value))
    return tuple(found)
