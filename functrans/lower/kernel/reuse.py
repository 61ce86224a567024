"""Buffer reuse: temporaries are stored in the buffers of results computed from them.

Expects nests in order. Leaves them with fewer temporaries in memory.

The memory of a result is fetched into the cache before it is written; that of a temporary of the
same size is, too. If the last nest that reads a temporary is the one that first writes a result of
the same shape and dtype, and each iteration reads what it overwrites before it does so, both can be
one buffer: the numerators of a softmax become quotients in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from functrans.loop.aliasing import Aliasing
from functrans.loop.statements import Buffer, Store
from functrans.loop.target import Target
from functrans.loop.walk import walk
from functrans.lower.kernel.donation import layout, occurrences
from functrans.lower.nest.bodies import Nest
from functrans.records import NamedTuple


class Reuse(NamedTuple):
    """Which temporaries are stored in results."""

    least_bytes: int = 1 << 16
    """Smaller temporaries remain in the nearest caches anyway, and their lines may end with an
    overlapping vector. Not measured on its own."""


def reuse(
    nests: Sequence[Nest],
    given: Sequence[Buffer],  # the inputs of the program
    outputs: Sequence[Buffer],  # its results
    homes: Mapping[Buffer, Buffer],  # the inputs that results overwrite
    target: Target,
) -> tuple[list[Nest], dict[Buffer, Buffer]]:
    """Nests that store temporaries in results, and all buffers that are stored in others."""
    found, homes = list(nests), dict(homes)
    writers = occurrences(nest.stores for nest in nests)
    readers = occurrences(nest.loads for nest in nests)
    taken = {*given, *outputs, *(row for nest in nests for row in nest.scratch)}
    stores = (each for nest in nests for each in walk(nest.body) if isinstance(each, Store))
    least = target[Reuse].least_bytes
    temporaries = [
        one
        for one in dict.fromkeys(each.target for each in stores)
        if one not in taken and one.nbytes >= least
    ]
    for out in outputs:
        first = writers.get(out, [None])[0]
        if out in homes or first is None:
            continue
        for one in temporaries:
            last = max([*writers[one], *readers.get(one, [])])
            if layout(one) != layout(out) or last > first:
                continue
            body = Aliasing(one, out).block(found[first].body)
            if body is not None:
                found[first] = replace(found[first], body=body)
                homes[one] = out
                temporaries.remove(one)
                break
    return found, homes
