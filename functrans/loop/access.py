"""Memory accesses: the elements that a statement touches, in which iterations, and when.

Each enclosing loop is an axis of the arrays, as in `functrans.loop.domain`. The time of an access
is its position in sequential execution.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.loop.domain import LARGEST, TooLarge, broadcast
from functrans.loop.scalar import Scalar
from functrans.loop.statements import Buffer, For
from functrans.records import NamedTuple, dataclass

Array = np.ndarray[Any, Any]

NEVER = np.iinfo(np.int64).max
"""Later than any time."""


class Scenario(NamedTuple):
    """Assumptions on control flow that depends on data: conditions and trip counts."""

    steps: int | None  # the trip count of loops of unknown length; None: as many as possible
    # the values of unknown conditions: of the first one met, the second, and so on, cyclically
    branches: tuple[bool, ...]

    def one_of(self, low: float, high: float, is_start: bool) -> int:
        """The smallest or the largest of a few values at which loops may start or stop."""
        if self.steps is None:
            return int(low if is_start else high)
        return int(min(low + self.steps, high))


class Region(NamedTuple):
    """A matrix in column-major order that a library routine reads or writes."""

    argument: int  # the position of the argument of the call that is its address
    rows: Array  # its extents
    columns: Array
    leading: Array  # the distance of its columns, in elements
    reads: bool
    writes: bool
    # "A", "U" or "L": all of it, or the diagonal and the elements above or below it
    triangle: str = "A"
    offset: Array = np.asarray(0)  # the distance of its start from the address, in elements


@dataclass(eq=False)
class Access:
    """Elements that one expression or statement reads or writes."""

    buffer: Buffer
    elements: Array  # their offsets in the buffer; an axis for each enclosing loop
    mask: Array | None  # the iterations in which the access happens
    start: int  # the time of the access in the first iterations
    # for each enclosing loop, how much later the access is in the next iteration
    spans: tuple[int, ...]
    writes: bool
    # whether exactly these elements are accessed; otherwise, one of them, depending on data
    certain: bool = True
    # the operation of an atomic store; stores of the same operation may race
    atomic: str | None = None
    indices: tuple[Scalar, ...] = ()  # the indices of the element, if the access is of one

    def flat(self, extra: Sequence[int] = (), extents: Sequence[int] = ()) -> tuple[Array, ...]:
        """The elements, the times of the first access to each, and the iterations.

        ``extra`` are loops each of whose iterations accesses its own copy of an element, as if it
        were privatised; for these loops, the iterations are returned, one array for each.
        """
        private = {axis: extents[axis] for axis in extra}
        kept = {axis for axis, n in enumerate(self.elements.shape) if n > 1} | private.keys()
        mask, times = self._when(kept, private)
        arrays = [self.elements, times]
        arrays += [along(axis, np.arange(extent), axis + 1) for axis, extent in private.items()]
        if mask is None:
            return tuple([x.reshape(-1) for x in broadcast(*arrays)])
        *arrays, chosen = broadcast(*arrays, mask)
        return tuple([x[chosen] for x in arrays])

    def _when(self, kept: Container[int], private: Mapping[int, int]) -> tuple[Array | None, Array]:
        """Whether, and when first, the access happens in each iteration of some of the loops."""
        masked = () if self.mask is None else self.mask.shape
        extents = [
            max(
                _extent_along(masked, axis),
                private.get(axis, 1),
                _extent_along(self.elements.shape, axis) if axis in kept else 1,
            )
            for axis in range(len(self.spans))
        ]
        if prod(extents) > LARGEST:
            raise TooLarge
        times = np.asarray(self.start)
        for extent, span in zip(extents, self.spans, strict=True):
            times = (
                times[..., None] if extent == 1 else np.add.outer(times, np.arange(extent) * span)
            )
        if self.mask is None:
            return None, times
        gone = tuple([axis for axis, n in enumerate(masked) if n > 1 and axis not in kept])
        mask, times = broadcast(self.mask, times)
        if not gone:
            return mask, times
        first = np.where(mask, times, NEVER).min(axis=gone, keepdims=True)
        return np.asarray(mask.any(axis=gone, keepdims=True)), np.asarray(first)


def _extent_along(shape: Sequence[int], axis: int) -> int:
    return shape[axis] if axis < len(shape) else 1


def along(axis: int, values: Array, ndim: int) -> Array:
    return values.reshape([-1 if i == axis else 1 for i in range(ndim)])


class IndependentLoop(NamedTuple):
    """A loop whose iterations are promised to be independent, and the accesses inside."""

    loop: For
    extents: tuple[int, ...]  # the extents of the enclosing loops, and its own
    accesses: list[Access]
    # the indices of the enclosing loops and the locals from outside, which all iterations share
    fixed: frozenset[Scalar]
