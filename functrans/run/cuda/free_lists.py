"""Segregated free lists: pieces of memory that a stream has freed, for its next allocations.

A repeated program allocates pieces of the sizes that it has just freed. The lists provide them
without a driver call, and at the same addresses, which replayed graphs need. Work that is queued
after a piece was freed runs after all its uses, so nothing has to wait.

Taking and keeping a piece need no lock: each is an operation on a list that Python performs as a
whole. Only a new size takes one, since lists of other sizes may have to go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from functrans.locks import lock

LARGEST, ALL = 32 << 20, 256 << 20
"""The most bytes of a piece, and of all lists when they are full: work on larger pieces takes
longer than a driver call. (The pool does not return memory to the system either, until it is
trimmed.)"""

SIZES, PIECES, LIST = 64, 8, 64 << 20
"""The most sizes with a list, the most pieces of each, and the most bytes of each."""


class FreeLists:
    """Free pieces of memory, by size."""

    __slots__ = ("_lists", "_lock")

    def __init__(self) -> None:
        self._lists: dict[int, list[int]] = {}
        self._lock = lock()

    def take(self, nbytes: int) -> int:
        """Remove a piece of this size; its address, or 0 if there is none."""
        try:
            return self._lists[nbytes].pop()
        except (KeyError, IndexError):
            return 0

    def keep(self, address: int, nbytes: int) -> Sequence[int]:
        """Add a piece; returns pieces for which there is no room: it, or those of old sizes."""
        found = self._lists.get(nbytes)
        dropped: Sequence[int] = ()
        if found is None:
            if not 0 < nbytes <= LARGEST:
                return (address,)
            found, dropped = self._new(nbytes)
        if len(found) >= PIECES or (len(found) + 1) * nbytes > LIST:
            return (*dropped, address)
        found.append(address)
        if self._lists.get(nbytes) is found:
            return dropped
        return (*dropped, *_emptied(found))  # another thread has removed the list meanwhile

    def _new(self, nbytes: int) -> tuple[list[int], list[int]]:
        """A list for another size, and the pieces of lists that had to go for it."""
        with self._lock:
            found = self._lists.setdefault(nbytes, [])
            dropped: list[int] = []
            while len(self._lists) > SIZES or sum(map(_room, self._lists)) > ALL:
                dropped += _emptied(self._lists.pop(next(iter(self._lists))))
            return found, dropped

    def clear(self) -> list[int]:
        """Remove and return all pieces."""
        with self._lock:
            lists = [self._lists.pop(each) for each in list(self._lists)]
            return [each for pieces in lists for each in _emptied(pieces)]


def _room(nbytes: int) -> int:
    """The bytes of a full list of pieces of this size."""
    return nbytes * min(PIECES, LIST // nbytes)


def _emptied(pieces: list[int]) -> Iterator[int]:
    """Remove the pieces one by one: another thread may remove them at the same time."""
    while pieces:
        try:
            yield pieces.pop()
        except IndexError:
            return
