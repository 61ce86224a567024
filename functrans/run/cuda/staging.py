"""Staging: asynchronous copies from the host to a GPU through pinned memory.

A host array that was copied to pinned memory may be changed or freed at once; the device copies
from pinned memory in stream order. Pieces of pinned memory are reused after an event tells that
they have been read. Large arrays use a separate stream, which does not wait for kernels.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

import numpy as np

from functrans.caches import Table
from functrans.run.cuda.driver import Driver, Event, Stream
from functrans.run.cuda.memory import Memory, allocate, keep

PIECE = 2 << 20
"""The bytes of a piece of pinned memory."""

MOST = 8
"""The most pieces of a stream, before the oldest is waited for."""

LARGE = 64 << 10
"""The fewest bytes of an array whose copy does not wait for the thread's kernels."""

_ALIGNED = 64
_STREAMS = 64

_stagings: Table[Stream, Staging] = Table(_STREAMS)


def staged(values: np.ndarray[Any, Any], there: Driver) -> Memory:
    """Device memory to which a C-contiguous array is being copied."""
    large = values.nbytes >= LARGE
    stream = there.stream()
    if large:
        stream = there.transfers()
    memory = allocate(there, values.nbytes, stream)
    if not values.nbytes:
        return memory
    source = values.reshape(-1).view(np.uint8)
    staging = _staging(stream)
    for start in range(0, values.nbytes, PIECE):
        part = source[start : start + PIECE]
        pinned = staging.room(part.nbytes)
        np.copyto(pinned, part)
        there.copy_in(memory.address + start, pinned, stream)
    if large:
        memory.was_written(there.record(stream))
    return memory


def _staging(stream: Stream) -> Staging:
    found = _stagings.get(stream)
    if found is None:
        found = Staging(stream)
        _stagings.remember(stream, found)
    return found


class Staging:
    """The pinned memory of a stream, in pieces."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._used: deque[tuple[np.ndarray[Any, Any], Event]] = deque()
        """Full pieces, the oldest first, and the events after which they can be reused."""
        self._piece = np.empty(0, np.uint8)
        self._next = 0

    def room(self, nbytes: int) -> np.ndarray[Any, Any]:
        """Pinned memory for the next copy on the stream."""
        start = -(-self._next // _ALIGNED) * _ALIGNED
        if start + nbytes > self._piece.nbytes:
            self._another()
            start = 0
        self._next = start + nbytes
        return self._piece[start : self._next]

    def _another(self) -> None:
        driver = self.stream.driver
        if self._piece.nbytes:
            self._used.append((self._piece, driver.record(self.stream)))
        if self._used:
            oldest, event = self._used[0]
            if len(self._used) >= MOST:
                driver.reach(event)
            if driver.happened(event):
                self._used.popleft()
                self._piece = oldest
                return
        self._piece = driver.pinned(PIECE)

    def __del__(self) -> None:
        if self._piece.nbytes and not sys.is_finalizing():
            pieces = [self._piece, *(piece for piece, _ in self._used)]
            keep(self.stream.driver, self.stream.driver.record(self.stream), pieces)
