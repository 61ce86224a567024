"""Verification of kernels: definite assignment, no data races, every index in bounds.

The following is checked for the accesses of a kernel in a given call (`functrans.loop.collect`):

- elements are written before they are read: by an earlier kernel, or earlier in this one; elements
  of scratch, which belongs to a thread, in the same iteration of the band's loops;
- the iterations of a loop that is parallel, or executed in the lanes of vectors, are independent:
  what one writes, no other reads or writes, except by atomic stores of the same operation;
- a loop whose last iterations may be repeated does not read what it has overwritten;
- no iteration of such a loop passes messages, since all processes pass them in the same order.

That indices are in bounds, that locals are declared where they are used, and that loops have their
declared extents, is checked while the accesses are collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from functrans.loop.access import NEVER, Access, Array, IndependentLoop
from functrans.loop.affine import Coefficients
from functrans.loop.collect import Accesses
from functrans.loop.domain import LARGEST, Fault, TooLarge
from functrans.loop.scalar import postorder
from functrans.loop.statements import Buffer
from functrans.loop.walk import passes_messages, stored


def verify(
    accesses: Accesses,
    written: Mapping[Buffer, Array],  # the elements that have been written before
) -> dict[Buffer, Array]:
    """The elements of a kernel's buffers that have been written after it has run.

    Raises `Fault` if the kernel breaks a promise.
    """
    for loop in accesses.independent:
        if passes_messages(loop.loop.body):
            raise Fault("iterations that may go on in any order pass messages")
        # each thread has its own scratch
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
    """The time of each element's first write; raises if an element is read before it."""
    size = prod(accesses.shapes[one])
    # scratch is private to iterations, which different threads may execute
    extents = accesses.band_extents() if before is None else ()
    extra, copies = range(len(extents)), prod(extents)
    if size * copies > LARGEST:
        raise TooLarge
    first = np.full(size * copies, NEVER)
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
                index = np.unravel_index(int(elements[bad][0]) % max(size, 1), accesses.shapes[one])
                raise Fault(
                    f"{one}[{', '.join(map(str, index))}] is read before it is written"
                    + (" in the same iteration" if extra else "")
                )
    return first


def _keys(
    access: Access,
    size: int,
    privatised: Sequence[int],
    extents: Sequence[int],
    others: Sequence[int] = (),
) -> tuple[Array, ...]:
    """The elements of an access, their times, and the iterations of other loops.

    Elements in different iterations of the ``privatised`` loops are different elements.
    """
    elements, times, *iterations = access.flat((*privatised, *others), extents)
    key: Any = 0
    for axis, number in zip(privatised, iterations, strict=False):
        key = key * extents[axis] + number
    return elements + key * size, times, *iterations[len(privatised) :]


def _check_independent(given: IndependentLoop, private: Sequence[Buffer]) -> None:
    """Check that the iterations of a loop are independent."""
    written = dict.fromkeys(access.buffer for access in given.accesses if access.writes)
    for one in written.keys() - set(private):
        own = [access for access in given.accesses if access.buffer is one]
        _check_apart(given, one, own)


def _moves(given: IndependentLoop, own: Sequence[Access]) -> bool:
    """Whether accesses are of one element, whose position moves with each iteration.

    It does if the index along an axis is a multiple of the loop's index and a number that is the
    same in all iterations, which need not be known.
    """
    loop = given.loop
    if loop.repeatable or len({access.indices for access in own}) != 1:
        return False
    changing, factors = stored(loop.body), Coefficients(loop.index)
    fixed = given.fixed | {loop.index}
    return any(
        factors.of(position) not in (None, 0)
        and all(
            node in fixed
            if node.op in ("index", "local")
            else node.op != "load" or node.attribute not in changing
            for node in postorder([position])
        )
        for position in own[0].indices
    )


def _check_apart(given: IndependentLoop, one: Buffer, own: Sequence[Access]) -> None:
    if not all(access.certain for access in own) and _moves(given, own):
        return
    axis = len(given.extents) - 1
    outer = [d for d in range(axis) if any(_depends(access, d) for access in own)]
    size = 1 + max(int(access.elements.max(initial=0)) for access in own)
    total = size * prod(given.extents[d] for d in outer)
    if total > LARGEST:
        raise TooLarge
    # Numbers above 0, and 0 for none: the system hands out zeros for nothing, and few are touched.
    first = np.zeros(total if given.loop.repeatable else 0, np.int64)
    written: dict[str | None, tuple[Array, Array]] = {}
    flat = [(access, _keys(access, size, outer, given.extents, (axis,))) for access in own]
    for access, (keys, times, iteration) in flat:
        if access.writes:
            if access.atomic not in written:
                written[access.atomic] = np.zeros(total, np.int64), np.zeros(total, np.int64)
            from_end, from_start = written[access.atomic]
            np.maximum.at(from_end, keys, given.extents[axis] - iteration)
            np.maximum.at(from_start, keys, iteration + 1)
            if given.loop.repeatable:
                np.maximum.at(first, keys, NEVER - times)
    label = given.loop.index.attribute[0]
    kind = "parallel loop" if given.loop.parallel else f"loop of {given.loop.lanes} lanes"
    for access, (keys, times, iteration) in flat:
        met = np.zeros(len(keys), bool)
        for how, (from_end, from_start) in written.items():
            if how is None or how != access.atomic:
                others = from_end[keys] + iteration != given.extents[axis]
                others |= from_start[keys] != iteration + 1
                met |= others & (from_start[keys] > 0)
        if met.any():
            element = int(keys[met][0]) % size
            verb = "write" if access.writes else "read and write"
            raise Fault(f"iterations of the {kind} over {label} {verb} element {element} of {one}")
        if given.loop.repeatable and not access.writes:
            if ((first[keys] > 0) & (NEVER - times > first[keys])).any():
                raise Fault(
                    f"an iteration over {label} that may be done twice reads what it "
                    f"overwrites of {one}"
                )


def _depends(access: Access, axis: int) -> bool:
    masked = access.mask is not None and access.mask.ndim > axis and access.mask.shape[axis] > 1
    return masked or (access.elements.ndim > axis and access.elements.shape[axis] > 1)
