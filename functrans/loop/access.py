"""Memory accesses: the elements that a statement touches, in which iterations, and when.

Each loop around is an axis of the arrays, as in `functrans.loop.domain`. The time of an access is
the step in which a plain machine, doing one thing after another, would come to it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from functrans.loop.domain import aligned, broadcast
from functrans.loop.statements import Buffer, For

Array = np.ndarray[Any, Any]

NEVER = np.iinfo(np.int64).max
"""After every time."""


class Scenario(NamedTuple):
    """How a program goes on where that depends on data.

    Parameters
    ----------
    steps : int or None
        How many steps loops of unknown length take; None: as many as they can.
    branches : tuple of bool
        What conditions are that are not known: the first of them, the second, and so on, around.
    """

    steps: int | None
    branches: tuple[bool, ...]

    def one_of(self, low: float, high: float, is_start: bool) -> int:
        """One of few numbers, by which loops start or stop."""
        if self.steps is None:
            return int(low if is_start else high)
        return int(min(low + self.steps, high))


class Region(NamedTuple):
    """A matrix, column by column, that a library routine reads or writes.

    Parameters
    ----------
    argument : int
        Which argument of the call its address is.
    rows, columns, leading : Array
        Its extents, and how many elements apart its columns are.
    reads, writes : bool
    triangle : {"A", "U", "L"}
        All of it, or what is on the diagonal and above or below.
    offset : Array
        How many elements behind the address it begins.
    """

    argument: int
    rows: Array
    columns: Array
    leading: Array
    reads: bool
    writes: bool
    triangle: str = "A"
    offset: Array = np.asarray(0)


@dataclass(eq=False)
class Access:
    """Elements that are read or written by one expression or statement.

    Parameters
    ----------
    buffer : Buffer
    elements : Array
        Their numbers in the buffer; an axis for each loop around.
    mask : Array or None
        In which iterations the access happens at all.
    start : int
        The time of the access in the first iterations.
    spans : tuple of int
        How much later it is in the next iteration of each loop around.
    writes : bool
    certain : bool
        Whether it is these elements; else it may be any one of them, which depends on data.
    atomic : str or None
        What an atomic store does, which may meet others that do the same.
    """

    buffer: Buffer
    elements: Array
    mask: Array | None
    start: int
    spans: tuple[int, ...]
    writes: bool
    certain: bool = True
    atomic: str | None = None

    def flat(self, extra: Sequence[int] = (), extents: Sequence[int] = ()) -> tuple[Array, ...]:
        """The elements, the times of the first access to each, and the iterations.

        ``extra`` are loops in each iteration of which an element is another one, as if privatised;
        the iterations are given for these, one array for each.
        """
        private = {axis: extents[axis] for axis in extra}
        kept = {axis for axis, n in enumerate(self.elements.shape) if n > 1} | private.keys()
        mask, times = self._when(kept, private)
        arrays = [self.elements, times, np.asarray(True) if mask is None else mask]
        arrays += [along(axis, np.arange(extent), axis + 1) for axis, extent in private.items()]
        elements, times, chosen, *iterations = broadcast(*arrays)
        return tuple(x[chosen] for x in (elements, times, *iterations))

    def _when(self, kept: Container[int], private: Mapping[int, int]) -> tuple[Array | None, Array]:
        """Whether, and when first, the access happens in iterations of some of the loops."""
        masked = () if self.mask is None else self.mask.shape
        times = np.asarray(self.start)
        for axis, span in enumerate(self.spans):
            extent = max(_extent_along(masked, axis), private.get(axis, 1))
            if axis in kept:
                extent = max(extent, _extent_along(self.elements.shape, axis))
            times, step = aligned(times, along(axis, np.arange(extent) * span, axis + 1))
            times = times + step
        if self.mask is None:
            return None, times
        gone = tuple(axis for axis, n in enumerate(masked) if n > 1 and axis not in kept)
        mask, times = broadcast(self.mask, times)
        first = np.where(mask, times, NEVER).min(axis=gone, keepdims=True)
        return np.asarray(mask.any(axis=gone, keepdims=True)), np.asarray(first)


def _extent_along(shape: Sequence[int], axis: int) -> int:
    return shape[axis] if axis < len(shape) else 1


def masked_by(values: Array, mask: Array) -> Array:
    """The values where a mask lets them through."""
    values, mask = broadcast(values, mask)
    chosen: Array = values[mask]
    return chosen


def along(axis: int, values: Array, ndim: int) -> Array:
    return values.reshape([-1 if i == axis else 1 for i in range(ndim)])


class IndependentLoop(NamedTuple):
    """A loop whose iterations are promised to be independent, and the accesses inside.

    Parameters
    ----------
    loop : For
    extents : tuple of int
        Of the loops around, and its own.
    accesses : list of Access
    """

    loop: For
    extents: tuple[int, ...]
    accesses: list[Access]
