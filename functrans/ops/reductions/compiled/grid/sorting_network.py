"""Sorting networks of a team: which keys are compared, and which of them a thread has in registers.

A thread has a power of two of keys, which Batcher's network sorts (`networks.py`). Runs become
longer by bitonic merging, in which the lesser one of two keys always comes first: keys of the first
run are compared with those of the second one from its end, and then all whose places differ in one
bit, from the highest down. A thread does as many of these steps at once as there are bits in its
number of keys: it takes all keys whose places differ in a `Window` of bits, and puts them back
where they were. Between such passes, keys change hands in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from functrans.loop.scalar import Scalar, idiv, irem
from functrans.ops.compiled.emission import Position
from functrans.ops.reductions.compiled.networks import Comparison


class Window(NamedTuple):
    """Bits of places, next to each other: the keys that differ in these alone are one thread's.

    In memory, keys are in lines of as many as a thread has, and a gap behind each: so the threads
    of a warp find their keys in different banks, wherever the window is.
    """

    low: int
    """The lowest one of the bits."""
    bits: int
    """How many they are."""

    @property
    def keys(self) -> int:
        return 1 << self.bits

    def first(self, thread: Scalar) -> Scalar:
        """The place of the first key of a thread."""
        return idiv(thread, 1 << self.low) * (self.keys << self.low) + self.below(thread)

    def below(self, thread: Scalar) -> Scalar:
        """The bits below the window of a thread's places."""
        return irem(thread, 1 << self.low)

    def position(self, thread: Scalar, number: int, *, mirrored: bool = False) -> Position:
        """Where a key of a thread is in memory; ``mirrored``: with the bits below reversed."""
        below = self.below(thread)
        if mirrored:
            below = (1 << self.low) - 1 - below
        line, within = divmod(number << self.low, self.keys)
        above = idiv(thread, 1 << self.low) * (1 << self.low)
        return above + idiv(below, self.keys) + line, irem(below, self.keys) + within


def room(keys: int, bits: int) -> tuple[int, int]:
    """The room in memory for so many keys, of which a thread has 2 to the power of ``bits``."""
    return keys >> bits, (1 << bits) + 1


class Pass(NamedTuple):
    """The comparisons that threads do at once: in a window, of places that differ in some bits."""

    window: Window
    steps: tuple[int, ...]
    """The bits, in the order in which they are gone through."""
    mirrored: bool = False
    """Whether the first step compares the first half with the second one from its end: there, a
    thread has the keys whose bits below the window are reversed."""

    @property
    def comparisons(self) -> list[Comparison]:
        """Those of a thread, of its keys."""
        keys = range(self.window.keys)
        distances = [1 << (bit - self.window.low) for bit in self.steps]
        pairs = [[(i, i + far) for i in keys if not i & far] for far in distances]
        if self.mirrored:
            pairs[0] = [(i, keys[-1] - i) for i in keys[: len(keys) // 2]]
        return list(chain(*pairs))

    def positions(self, thread: Scalar) -> list[Position]:
        """Where the keys of a thread are in memory."""
        half = self.window.keys // 2
        return [
            self.window.position(thread, number, mirrored=self.mirrored and number >= half)
            for number in range(self.window.keys)
        ]


def merging(top: int, bits: int, *, mirrored: bool) -> Iterator[Pass]:
    """The passes that make one run of two, which have 2 to the power of ``top`` keys together.

    If they are not ``mirrored``, the second run is in memory from its end.
    """
    while top > 0:
        low = max(top - bits, 0)
        yield Pass(Window(low, bits), tuple(reversed(range(low, top))), mirrored)
        top, mirrored = low, False
