"""Segregated free lists: pieces of memory that a stream has freed, for its next allocations.

A program that is called again asks for pieces of the sizes that it has just let go. From here they
come without a call of the driver, and at the same addresses, which graphs are replayed with. What
is put on the stream after a piece was freed comes after all that used it, so nothing is waited for.
"""

from __future__ import annotations

from functrans.locks import lock

LARGEST, ALL = 32 << 20, 256 << 20
"""Bytes of a piece, and of all pieces together: what larger ones are used for takes longer than a
call of the driver. (The pool gives nothing back to the system either, until it is asked to.)"""

SIZES, PIECES = 64, 8
"""How many sizes there are lists of, and how many pieces are in each."""


class FreeLists:
    """Free pieces of memory, by their sizes."""

    __slots__ = ("_lists", "_lock", "_nbytes")

    def __init__(self) -> None:
        self._lists: dict[int, list[int]] = {}
        self._nbytes = 0
        self._lock = lock()

    def take(self, nbytes: int) -> int:
        """The address of a piece of this size, which is no longer here; 0 if there is none."""
        with self._lock:
            found = self._lists.get(nbytes)
            if not found:
                return 0
            self._nbytes -= nbytes
            return found.pop()

    def keep(self, address: int, nbytes: int) -> list[int]:
        """Keep a piece. What there is no room for is returned: it, or those of old sizes."""
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
        """All pieces, of which none is here any more."""
        with self._lock:
            found = [each for pieces in self._lists.values() for each in pieces]
            self._lists.clear()
            self._nbytes = 0
            return found
