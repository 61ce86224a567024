"""Segregated free lists: pieces of memory that a stream has freed, for its next allocations.

A repeated program allocates pieces of the sizes that it has just freed. The lists provide them
without a driver call, and at the same addresses, which replayed graphs need. Work that is queued
after a piece was freed runs after all its uses, so nothing has to wait.
"""

from __future__ import annotations

from functrans.locks import lock

LARGEST, ALL = 32 << 20, 256 << 20
"""The most bytes of a piece, and of all pieces: work on larger ones takes longer than a driver
call. (The pool does not return memory to the system either, until it is trimmed.)"""

SIZES, PIECES = 64, 8
"""The most sizes with a list, and the most pieces of each."""


class FreeLists:
    """Free pieces of memory, by size."""

    __slots__ = ("_lists", "_lock", "_nbytes")

    def __init__(self) -> None:
        self._lists: dict[int, list[int]] = {}
        self._nbytes = 0
        self._lock = lock()

    def take(self, nbytes: int) -> int:
        """Remove a piece of this size; its address, or 0 if there is none."""
        with self._lock:
            found = self._lists.get(nbytes)
            if not found:
                return 0
            self._nbytes -= nbytes
            return found.pop()

    def keep(self, address: int, nbytes: int) -> list[int]:
        """Add a piece; returns pieces for which there is no room: it, or those of old sizes."""
        if not 0 < nbytes <= LARGEST:
            return [address]
        with self._lock:
            found = self._lists.setdefault(nbytes, [])
            if len(found) >= PIECES:
                return [address]
            found.append(address)
            self._nbytes += nbytes
            dropped: list[int] = []
            while len(self._lists) > SIZES or self._nbytes > ALL:
                oldest = next(iter(self._lists))
                pieces = self._lists.pop(oldest)
                self._nbytes -= oldest * len(pieces)
                dropped += pieces
            return dropped

    def clear(self) -> list[int]:
        """Remove and return all pieces."""
        with self._lock:
            found = [each for pieces in self._lists.values() for each in pieces]
            self._lists.clear()
            self._nbytes = 0
            return found
