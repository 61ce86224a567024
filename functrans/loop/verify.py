"""Verification of kernels: every read after a write, every index in its buffer, no data race.

Checked is, on the accesses of a kernel as it is called (`functrans.loop.collect`):

- what is read has been written before, at those elements: by an earlier kernel, earlier in this
  one, and for scratch, which belongs to a thread, in the same iteration of the band's loops;
- the iterations of a loop that is parallel, or done in the lanes of vectors, do not meet: what one
  writes, no other reads or writes;
- a loop whose last iterations may be done twice does not read what it has overwritten.

That indices are inside of their buffers, that locals are declared where they are used, and that
loops keep to their extents, is checked while the accesses are collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.loop.access import NEVER, Access, Array, Independent
from functrans.loop.collect import Accesses, Fault
from functrans.loop.domain import LARGEST, TooLarge
from functrans.loop.statements import Buffer


def verify(accesses: Accesses, written: Mapping[Buffer, Array]) -> dict[Buffer, Array]:
    """What of its buffers has been written once a kernel has run.

    Parameters
    ----------
    accesses : Accesses
    written : mapping of Buffer to array of bool
        Which elements of the kernel's buffers have been written before.

    Raises
    ------
    Fault
        If the kernel breaks a promise.
    """
    for loop in accesses.independent:
        # a thread has scratch of its own
        private = accesses.kernel.scratch if loop.loop.parallel else ()
        _check_independent(loop, private)
    by_buffer: dict[Buffer, list[Access]] = {}
    for access in accesses.found:
        by_buffer.setdefault(access.buffer, []).append(access)
    after = dict(written)
    for one, found in by_buffer.items():
        first = _check_reads(accesses, one, found, written.get(one))
        if one in written:
            after[one] = first < NEVER
    return after


def _check_reads(
    accesses: Accesses, one: Buffer, found: Sequence[Access], before: Array | None
) -> Array:
    """When each element of a buffer is first written; nothing is read before that."""
    size = prod(accesses.shapes[one])
    # a row of scratch for each iteration that may be another thread's
    extents = accesses.shared_out() if before is None else ()
    extra, parts = range(len(extents)), prod(extents)
    if size * parts > LARGEST:
        raise TooLarge
    first = np.full(size * parts, NEVER)
    if before is not None:
        first[before] = -1
    for access in found:
        if access.writes and access.certain:
            np.minimum.at(first, *_keys(access, size, extra, extents))
    for access in found:
        if not access.writes:
            elements, times = _keys(access, size, extra, extents)
            bad = first[elements] >= times
            if bad.any():
                where = np.unravel_index(int(elements[bad][0]) % max(size, 1), accesses.shapes[one])
                raise Fault(
                    f"{one}[{', '.join(map(str, where))}] is read before it is written"
                    + (" in the same iteration" if extra else "")
                )
    return first


def _keys(
    access: Access, size: int, extra: Sequence[int], extents: Sequence[int]
) -> tuple[Array, Array]:
    """The elements of an access, told apart by the iterations of some loops, and its times."""
    elements, times, *iterations = access.flat(extra, extents)
    key: Any = 0
    for axis, number in zip(extra, iterations, strict=True):
        key = key * extents[axis] + number
    return elements + key * size, times


def _check_independent(given: Independent, private: Sequence[Buffer]) -> None:
    """Whether the iterations of a loop have nothing to do with each other."""
    written = dict.fromkeys(access.buffer for access in given.accesses if access.writes)
    for one in written.keys() - set(private):
        own = [access for access in given.accesses if access.buffer is one]
        _check_apart(given, one, own)


def _check_apart(given: Independent, one: Buffer, own: Sequence[Access]) -> None:
    axis = len(given.extents) - 1
    outer = [d for d in range(axis) if any(_depends(access, d) for access in own)]
    size = 1 + max(int(access.elements.max(initial=0)) for access in own)
    total = size * prod(given.extents[d] for d in outer)
    if total > LARGEST:
        raise TooLarge
    extra = (*outer, axis)
    low = np.full(total, NEVER)
    high = np.full(total, -1)
    first = np.full(total, NEVER)
    flat: list[tuple[Access, Array, Array, Array]] = []
    for access in own:
        elements, times, *iterations = access.flat(extra, given.extents)
        key: Any = 0
        for d, number in zip(outer, iterations[:-1], strict=True):
            key = key * given.extents[d] + number
        flat.append((access, elements + key * size, times, iterations[-1]))
    for access, keys, times, iteration in flat:
        if access.writes:
            np.minimum.at(low, keys, iteration)
            np.maximum.at(high, keys, iteration)
            np.minimum.at(first, keys, times)
    label = given.loop.index.attribute[0]
    kind = "parallel loop" if given.loop.parallel else f"loop of {given.loop.lanes} lanes"
    for access, keys, times, iteration in flat:
        met = (high[keys] >= 0) & ((low[keys] != iteration) | (high[keys] != iteration))
        if met.any():
            element = int(keys[met][0]) % size
            verb = "write" if access.writes else "read and write"
            raise Fault(f"iterations of the {kind} over {label} {verb} element {element} of {one}")
        if given.loop.repeatable and not access.writes and (first[keys] != NEVER).any():
            if (times < first[keys])[first[keys] != NEVER].any():
                raise Fault(
                    f"an iteration over {label} that may be done twice reads what it "
                    f"overwrites of {one}"
                )


def _depends(access: Access, axis: int) -> bool:
    masked = access.mask is not None and access.mask.ndim > axis and access.mask.shape[axis] > 1
    return masked or (access.elements.ndim > axis and access.elements.shape[axis] > 1)
