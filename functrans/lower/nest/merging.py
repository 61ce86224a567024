"""Kernel merging: small nests that write slices of one array become one kernel.

Separate kernels would take longer to compile and to call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from functrans.loop.statements import Buffer, serial
from functrans.lower.nest.bodies import Nest
from functrans.lower.nest.fusion import Fusion


def merged(nests: Sequence[Nest], limits: Fusion) -> Iterator[Nest]:
    """Merge consecutive nests that are too small to parallelise."""

    def is_small(nest: Nest) -> bool:
        return 0 < nest.part and nest.part + nest.work <= limits.small_part

    for small, run in groupby(nests, is_small):
        most = limits.most_parts if small else 1
        for taken in _handfuls(list(run), most, limits.most_buffers):
            if len(taken) == 1:
                yield taken[0]
                continue
            body = tuple(serial(each) for nest in taken for each in nest.body)
            scratch = tuple(row for nest in taken for row in nest.scratch)
            yield Nest(body, scratch, uncounted=sum(nest.uncounted for nest in taken))


def _handfuls(nests: Sequence[Nest], most: int, buffers: int) -> Iterator[list[Nest]]:
    """Runs of consecutive nests that use few buffers together, or single nests."""
    taken: list[Nest] = []
    used: set[Buffer] = set()
    for nest in nests:
        own = nest.loads | nest.stores
        if taken and (len(taken) == most or len(used | own) > buffers):
            yield taken
            taken, used = [], set()
        taken.append(nest)
        used |= own
    if taken:
        yield taken
