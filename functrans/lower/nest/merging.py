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
    for small, run in groupby(nests, lambda nest: nest.part and nest.work <= limits.small_part):
        most = limits.most_parts if small else 1
        for taken in _handfuls(list(run), most, limits.most_buffers):
            if len(taken) == 1:
                yield taken[0]
                continue
            body = tuple(serial(each) for nest in taken for each in nest.body)
            scratch = tuple(row for nest in taken for row in nest.scratch)
            yield Nest(body, scratch, sum(nest.work for nest in taken))


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
