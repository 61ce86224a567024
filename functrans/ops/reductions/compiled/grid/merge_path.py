"""Merge path: which keys of two sorted runs form a part of the merged run.

A binary search finds how many of the keys before a position come from the first run (Odeh, Green,
Mwassi, Shmueli and Birk, "Merge path: parallel merging made simple", 2012).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from functrans.loop.nodes import INDEX, ZERO, as_index, index
from functrans.loop.scalar import Scalar, const, convert, idiv, lshr, maximum, minimum, where
from functrans.loop.statements import Assign, Buffer, For, Let, Statement, Store, While, load, local
from functrans.ops.reductions.compiled.sort_keys import Words, comes_before
from functrans.records import dataclass


@dataclass(frozen=True)
class Runs:
    """Two adjacent runs to be merged."""

    keys: Callable[[Scalar], Words]  # the key at a position of a line
    extent: int  # the number of keys of the line
    start: Scalar  # where the first run starts
    middle: Scalar  # where the first run stops, and the second one starts
    stop: Scalar  # where the second run stops

    @classmethod
    def around(
        cls, place: Scalar, bits: Scalar, keys: Callable[[Scalar], Words], extent: int
    ) -> tuple[Let, Runs]:
        """The runs around a position, which have at most 2 to the power of ``bits`` keys."""
        start, middle, stop = (local(INDEX, label) for label in ("start", "middle", "stop"))
        one = const(1, INDEX)
        first = lshr(place, bits + 1) << bits + 1
        ends = (minimum(first + (one << each), as_index(extent)) for each in (bits, bits + 1))
        let = Let((start, middle, stop), (first, *ends))
        return let, cls(keys, extent, start, middle, stop)

    def read(self, place: Scalar) -> Words:
        """The key at a position; some other key of the line if it is out of bounds."""
        return self.keys(convert(maximum(minimum(place, self.extent - 1), 0), INDEX))

    def search(self, place: Scalar) -> tuple[tuple[Statement, ...], Scalar]:
        """The number of keys before a position of the merged run that come from the first run."""
        taken, most = local(INDEX, "taken"), local(INDEX, "most")
        rank = place - self.start
        fewest = maximum(place - self.stop + (self.middle - self.start), ZERO)
        tried = idiv(taken + most, 2)
        one = self.read(self.start + tried)
        other = self.read(self.middle + (rank - 1 - tried))
        more = ~comes_before(other, one)
        step = Assign((taken, most), (where(more, tried + 1, taken), where(more, most, tried)))
        let = Let((taken, most), (fewest, minimum(rank, self.middle - self.start)))
        return (let, While((), taken < most, (step,))), taken

    def taken_before(self, begin: Scalar, count: int, target: Buffer, team: int) -> Statement:
        """Search for both ends of a part of the merged run, by two threads of a team."""
        end = index("end", 2)
        search, found = self.search(minimum(begin + end * count, self.stop))
        body = (*search, Store(target, (end,), found))
        return For(end, ZERO, as_index(2), body, lanes=team)


class Part:
    """A part of the merged run, as a bitonic sequence.

    The keys of the first run come first, in order; those of the second run come last, in reverse
    order. If the merged run ends before the part, there is a gap between them.
    """

    def __init__(
        self,
        runs: Runs,
        begin: Scalar,  # where it begins
        count: int,  # the number of positions of the sequence
        taken: Buffer,  # the numbers that `Runs.taken_before` has stored
        own: Scalar,  # the position from which distances are counted
    ) -> None:
        self.runs = runs
        small = runs.extent + 2 * count <= np.iinfo(np.int32).max
        dtype = np.dtype(np.int32) if small else INDEX
        before, until = (load(taken, (as_index(end),)) for end in (0, 1))
        second = runs.middle + (begin - runs.start - before)
        stop = runs.middle + (minimum(begin + count, runs.stop) - runs.start - until)
        values = (runs.start + before + own, second + (count - 1) - own, until - before - own, stop)
        names = tuple(local(dtype, label) for label in ("ahead", "behind", "left", "stop"))
        self.ahead, self.behind, self.left, self.stop = names
        self.let = Let(names, tuple(convert(value, dtype) for value in values))

    def key(self, distance: int) -> tuple[Words, Scalar]:
        """The key at a distance from the position, and the condition that it exists."""
        is_first = self.left > distance
        ahead, behind = self.ahead + distance, self.behind - distance
        return self.runs.read(where(is_first, ahead, behind)), is_first | (behind < self.stop)
