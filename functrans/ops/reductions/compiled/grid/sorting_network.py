"""Sorting networks of a team: which keys are compared, and which keys a thread has in registers.

A thread has a power of two of keys, which Batcher's network sorts (`networks.py`). Bitonic merging,
in which the lesser of two keys always comes first, then merges runs: keys of the first run are
compared with those of the second run in reverse order, then all pairs of keys whose positions
differ in one bit, from the highest bit down. With 2**b keys, a thread does b of these steps in one
pass: it loads all keys whose positions differ in a `Window` of b bits, and stores them at the same
positions. Between passes, threads exchange keys in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from functrans.loop.scalar import Scalar, idiv, irem
from functrans.ops.compiled.emission import Position
from functrans.ops.reductions.compiled.networks import Comparison
from functrans.records import NamedTuple


class Window(NamedTuple):
    """Adjacent bits of positions: a thread has the keys whose positions differ only in these bits.

    Keys are stored in padded rows of as many as a thread has, so that the threads of a warp access
    different banks for every window.
    """

    low: int
    """The lowest of the bits."""
    bits: int
    """The number of bits."""

    @property
    def keys(self) -> int:
        return 1 << self.bits

    def first(self, thread: Scalar) -> Scalar:
        """The position of the first key of a thread."""
        return idiv(thread, 1 << self.low) * (self.keys << self.low) + self.below(thread)

    def below(self, thread: Scalar) -> Scalar:
        """The bits below the window of a thread's positions."""
        return irem(thread, 1 << self.low)

    def position(self, thread: Scalar, number: int, *, mirrored: bool = False) -> Position:
        """The memory position of a thread's key; ``mirrored``: with the bits below inverted."""
        below = self.below(thread)
        if mirrored:
            below = (1 << self.low) - 1 - below
        line, within = divmod(number << self.low, self.keys)
        above = idiv(thread, 1 << self.low) * (1 << self.low)
        return above + idiv(below, self.keys) + line, irem(below, self.keys) + within


def room(keys: int, bits: int) -> tuple[int, int]:
    """The shape of the padded memory for keys, of which a thread has 2 to the power of ``bits``."""
    return keys >> bits, (1 << bits) + 1


class Pass(NamedTuple):
    """Steps of the network that threads do in registers: comparisons within a window."""

    window: Window
    steps: tuple[int, ...]
    """The bits, in the order of the steps."""
    mirrored: bool = False
    """Whether the first step compares the first half with the second one from its end: there, a
    thread has the keys whose bits below the window are reversed."""

    @property
    def comparisons(self) -> list[Comparison]:
        """The comparisons of a thread's keys, by their numbers."""
        keys = range(self.window.keys)
        distances = [1 << (bit - self.window.low) for bit in self.steps]
        pairs = [[(i, i + far) for i in keys if not i & far] for far in distances]
        if self.mirrored:
            pairs[0] = [(i, keys[-1] - i) for i in keys[: len(keys) // 2]]
        return list(chain(*pairs))

    def positions(self, thread: Scalar) -> list[Position]:
        """The memory positions of a thread's keys."""
        half = self.window.keys // 2
        return [
            self.window.position(thread, number, mirrored=self.mirrored and number >= half)
            for number in range(self.window.keys)
        ]


def merging(top: int, bits: int, *, mirrored: bool) -> Iterator[Pass]:
    """The passes that merge two runs, which have 2 to the power of ``top`` keys together.

    If they are not ``mirrored``, the second run is stored in reverse order.
    """
    while top > 0:
        low = max(top - bits, 0)
        yield Pass(Window(low, bits), tuple(reversed(range(low, top))), mirrored)
        top, mirrored = low, False
