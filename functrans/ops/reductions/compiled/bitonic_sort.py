"""Bitonic sort on a CPU: a network of comparisons sorts as many lines as a vector has lanes.

After K. E. Batcher, "Sorting networks and their applications" (1968). The keys of a line are in one
lane of the rows of a buffer, and a comparison is of two rows. Or a buffer has the keys of one line,
and the lanes of vectors go along it. A merge of two sorted runs compares keys at equal distances
from their common end, so that each key of the first run is at most as large as any of the second.
Then it compares keys at half the distance, a quarter, and so on. The steps within runs of eight
keys are in registers. Since the lesser key always goes to the lower row,
comparisons with rows beyond the last one are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from functrans.loop.nodes import as_index, index
from functrans.loop.scalar import Scalar
from functrans.loop.statements import Buffer, Store, load
from functrans.loop.walk import Body
from functrans.ops.reductions.compiled.networks import Comparison, cleaning, through
from functrans.ops.reductions.compiled.sort_keys import Words
from functrans.records import NamedTuple

Stores = Callable[[Scalar, Words], Body]
"""The statements that store a key at a position of a line."""
Runs = Callable[[Scalar, int, Stores], Body]
"""The statements that sort a number of keys from a position on, and store them."""

RUN = 8
"""The length of the runs that are sorted, and merged at last, in registers."""


class Bitonic(NamedTuple):
    """Memory for the keys of some lines, or of one, and vector loops."""

    rows: tuple[Buffer, ...]  # one for each word of a key
    lanes: tuple[Scalar, ...]  # the number of a line, or nothing
    in_lanes: Callable[[Sequence[Scalar], Body], Body]  # loops, and the lanes of vectors

    def sort(self, sorts: Runs, stores: Stores) -> Body:
        """Sort all keys; ``sorts`` sorts runs of the elements."""
        extent: int = self.rows[0].extents[0]
        body = self._by_runs(lambda start, count: sorts(start, count, self._write))
        width = RUN
        while width < extent:
            body += self._compared(width, mirrored=True)
            step = width // 2
            while step >= RUN:
                body += self._compared(step)
                step //= 2
            width *= 2
            body += self._by_runs(
                partial(self._cleaned, stores if width >= extent else self._write)
            )
        return body

    def _read(self, place: Scalar) -> Words:
        return tuple(load(row, (place, *self.lanes)) for row in self.rows)

    def _write(self, place: Scalar, key: Words) -> Body:
        both = zip(self.rows, key, strict=True)
        return tuple(Store(row, (place, *self.lanes), word) for row, word in both)

    def _by_runs(self, body: Callable[[Scalar, int], Body]) -> Body:
        """Statements for each run; the last one may be shorter."""
        whole, rest = divmod(self.rows[0].extents[0], RUN)
        run = index("run", whole)
        last = self.in_lanes((), body(as_index(whole * RUN), rest)) if rest else ()
        return self.in_lanes((run,), body(run * RUN, RUN)) + last

    def _compared(self, step: int, mirrored: bool = False) -> Body:
        """Compare the keys of runs of a length with those of the next runs."""
        pairs, rest = divmod(self.rows[0].extents[0], 2 * step)
        body: Body = ()
        for first, count, length in ((0, pairs, step), (pairs, 1, max(rest - step, 0))):
            pair, place = index("pair", count), index("place", length)
            start = (pair + first) * (2 * step)
            low = start + (step - 1 - place if mirrored else place)
            compared = self._through((low, start + step + place), [(0, 1)], self._write)
            body += self.in_lanes((pair, place), compared)
        return body

    def _cleaned(self, stores: Stores, start: Scalar, count: int) -> Body:
        """The last steps of a merge, in a run."""
        places = tuple(start + number for number in range(count))
        return self._through(places, cleaning(count, RUN), stores)

    def _through(
        self, places: tuple[Scalar, ...], network: list[Comparison], stores: Stores
    ) -> Body:
        found, statements = through([self._read(place) for place in places], network)
        return (*statements, *by_words(stores, places, found))


def by_words(stores: Stores, places: Sequence[Scalar], keys: Sequence[Words]) -> Body:
    """Store several keys, word by word: stores to one buffer together, which are transposed."""
    stored = [stores(place, key) for place, key in zip(places, keys, strict=True)]
    return tuple(store for word in zip(*stored, strict=True) for store in word)
