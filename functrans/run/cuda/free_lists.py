"""Segregated free lists: small pieces of memory that a stream has freed, for its next allocations.

A program that is called again asks for pieces of the sizes that it has just let go. From here they
come without a call of the driver, and at the same addresses, which graphs are replayed with. What
is put on the stream after a piece was freed comes after all that used it, so nothing is waited for.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrans.locks import lock

LARGEST = 1 << 20
"""Bytes of a piece: what larger ones are used for takes longer than a call of the driver."""

SIZES, PIECES = 32, 8
"""How many sizes there are lists of, and how many pieces are in each."""


class FreeLists:
    """Free pieces of memory, by their sizes."""

    __slots__ = ("_lists", "_lock")

    def __init__(self) -> None:
        self._lists: dict[int, list[int]] = {}
        self._lock = lock()

    def take(self, nbytes: int) -> int:
        """The address of a piece of this size, which is no longer here; 0 if there is none."""
        with self._lock:
            found = self._lists.get(nbytes)
            return found.pop() if found else 0

    def keep(self, address: int, nbytes: int) -> Sequence[int]:
        """Keep a piece. What there is no room for is returned: it, or those of an old size."""
        if not 0 < nbytes <= LARGEST:
            return (address,)
        with self._lock:
            found = self._lists.get(nbytes)
            if found is not None and len(found) >= PIECES:
                return (address,)
            if found is not None:
                found.append(address)
                return ()
            oldest = next(iter(self._lists)) if len(self._lists) >= SIZES else 0
            self._lists[nbytes] = [address]
            return self._lists.pop(oldest, ())

    def clear(self) -> list[int]:
        """All pieces, of which none is here any more."""
        with self._lock:
            found = [each for pieces in self._lists.values() for each in pieces]
            self._lists.clear()
            return found
