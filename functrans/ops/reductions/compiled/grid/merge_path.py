"""Merge path: the keys of two runs that make up a part of the merged run.

A binary search finds how many of the keys before a place come from the first run (Odeh, Green,
Mwassi, Shmueli and Birk, "Merge path: parallel merging made simple", 2012).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from functrans.loop.nodes import INDEX, ZERO, as_index, index
from functrans.loop.scalar import Scalar, const, convert, idiv, lshr, maximum, minimum, where
from functrans.loop.statements import (
    Assign,
    Buffer,
    For,
    Let,
    Statement,
    Store,
    While,
    load,
    local,
)
from functrans.ops.reductions.compiled.sort_keys import Words, comes_before


@dataclass(frozen=True)
class Runs:
    """Two runs next to each other, which become one.

    Parameters
    ----------
    keys : callable
        The key at a place of a line.
    extent : int
        How many keys there are in all.
    start : Scalar
        Where the first run starts.
    middle : Scalar
        Where it stops, and the second one starts.
    stop : Scalar
        Where that stops.
    """

    keys: Callable[[Scalar], Words]
    extent: int
    start: Scalar
    middle: Scalar
    stop: Scalar

    @classmethod
    def around(
        cls, place: Scalar, bits: Scalar, keys: Callable[[Scalar], Words], extent: int
    ) -> tuple[Let, Runs]:
        """The runs that a place is in, which have 2 to the power of ``bits`` keys, or fewer."""
        start, middle, stop = (local(INDEX, label) for label in ("start", "middle", "stop"))
        one = const(1, INDEX)
        first = lshr(place, bits + 1) << bits + 1
        ends = (minimum(first + (one << each), as_index(extent)) for each in (bits, bits + 1))
        let = Let((start, middle, stop), (first, *ends))
        return let, cls(keys, extent, start, middle, stop)

    def read(self, place: Scalar) -> Words:
        """The key at a place; of one that is outside, another key."""
        return self.keys(convert(maximum(minimum(place, self.extent - 1), 0), INDEX))

    def search(self, place: Scalar) -> tuple[tuple[Statement, ...], Scalar]:
        """How many of the keys before a place of the merged run are of the first run."""
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
        """A search for either end of a part of the merged run, by two threads of a team."""
        end = index("end", 2)
        search, found = self.search(minimum(begin + end * count, self.stop))
        body = (*search, Store(target, (end,), found))
        return For(end, ZERO, as_index(2), body, lanes=team)


class Part:
    """A part of the merged run, as one sequence that rises and falls again.

    The keys of the first run come first, and those of the second run last, from its end. Between
    them there are none, if the run ends before the part does.

    Parameters
    ----------
    runs : Runs
    begin : Scalar
        Where it begins.
    count : int
        How many places there are in the sequence.
    taken : Buffer
        What `Runs.taken_before` has stored.
    own : Scalar
        The place that others are told from.
    """

    def __init__(self, runs: Runs, begin: Scalar, count: int, taken: Buffer, own: Scalar) -> None:
        self.runs = runs
        small = runs.extent + 2 * count <= np.iinfo(np.int32).max
        dtype = np.dtype(np.int32) if small else INDEX
        before, until = (load(taken, (as_index(end),)) for end in (0, 1))
        second = runs.middle + (begin - runs.start - before)
        stop = runs.middle + (minimum(begin + count, runs.stop) - runs.start - until)
        values = (
            runs.start + before + own,
            second + (count - 1) - own,
            until - before - own,
            stop,
        )
        names = tuple(local(dtype, label) for label in ("ahead", "behind", "left", "stop"))
        self.ahead, self.behind, self.left, self.stop = names
        self.let = Let(names, tuple(convert(value, dtype) for value in values))

    def key(self, distance: int) -> tuple[Words, Scalar]:
        """The key so far behind the place, and whether there is one."""
        is_first = self.left > distance
        ahead, behind = self.ahead + distance, self.behind - distance
        return self.runs.read(where(is_first, ahead, behind)), is_first | (behind < self.stop)
