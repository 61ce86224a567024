"""Contiguity: which accesses of a loop's body are contiguous, and how wide they can be."""

from __future__ import annotations

from collections.abc import Sequence

from functrans.loop.affine import Coefficients, divisor
from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.nodes import index as numbered
from functrans.loop.scalar import Scalar, const, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Statement, size
from functrans.loop.walk import Access, children, loaded, stored
from functrans.lower.grid.sizes import Sizes

WIDEST = 16
"""The largest number of bytes that a thread accesses at once, at a multiple of this offset; the
buffers of a kernel are aligned accordingly."""


def reads_back(body: Sequence[Statement]) -> bool:
    """Whether statements may read what an earlier one of them has stored."""
    written: set[Buffer] = set()
    for statement in body:
        own = stored((statement,))
        before = written | own if children(statement) else written
        if not before.isdisjoint(loaded((statement,))):
            return True
        written |= own
    return False


def neighbours(access: Access, index: Scalar, sizes: Sequence[int], aligned: bool = True) -> int:
    """The number of aligned adjacent elements that consecutive iterations access.

    It is a power of two, or 0 if consecutive iterations do not access adjacent elements.
    Single-element accesses, as in shared memory, need not be ``aligned``.
    """
    position = access.position
    if not position:
        return 0
    factors = [Coefficients(index).of(i) for i in position]
    if None in factors:
        return _within_rows(access, index, sizes, aligned)
    if factors[-1] != 1 or any(factor != 0 for factor in factors[:-1]):
        return 0
    if not aligned:
        return WIDEST // access.buffer.dtype.itemsize
    (first,) = Simplifier().substitute(position[-1:], {index: ZERO})
    most = divisor(first, sizes)
    if any(i is not ZERO for i in position[:-1]):
        most = min(most, divisor(access.buffer.shape[-1], sizes))
    return min(most, WIDEST // access.buffer.dtype.itemsize)


def _within_rows(access: Access, index: Scalar, sizes: Sequence[int], aligned: bool) -> int:
    """The same for an index that runs through several axes: rows whose length it divides."""
    simplify = Simplifier()
    extent = index.attribute[2] or 0
    width = WIDEST // access.buffer.dtype.itemsize
    while width > 1:
        strip = numbered("strip", extent // width)
        lanes = [
            simplify.substitute(access.position, {index: simplify(strip * width + lane)})
            for lane in range(width)
        ]
        *row, first = lanes[0]
        divisors = [divisor(first, sizes)]
        if any(i is not ZERO for i in row):
            divisors.append(divisor(access.buffer.shape[-1], sizes))
        together = ([*row, simplify(first + lane)] for lane in range(width))
        multiples = not aligned or all(each % width == 0 for each in divisors)
        if lanes == list(together) and multiples:
            return width
        width //= 2
    return 0


def stride(access: Access, index: Scalar, sizes: Sizes) -> int | None:
    """The distance in elements between consecutive iterations; None if it is not constant."""
    numbers = {size(slot): const(number, INDEX) for slot, number in enumerate(sizes.numbers)}
    position = Simplifier().substitute(access.position, numbers)
    factors = [Coefficients(index).of(i) for i in position]
    total, apart = 0, 1
    for axis in range(len(factors) - 1, -1, -1):
        factor = factors[axis]
        if factor is None:
            return None
        total += factor * apart
        apart *= sizes.value(access.buffer.shape[axis])
    return total


def is_alike(access: Access, index: Scalar, width: int) -> bool:
    """Whether ``width`` consecutive iterations, from a multiple of it on, load the same element."""
    if access.is_store:
        return False
    simplify = Simplifier()
    strip = numbered("strip", (index.attribute[2] or 0) // width)
    first, *others = (
        simplify.substitute(access.position, {index: simplify(strip * width + lane)})
        for lane in range(width)
    )
    return all(each == first for each in others)


def is_apart(access: Access, index: Scalar) -> bool:
    """Whether iterations access elements that are not adjacent, for reasons other than data.

    For accesses for which `neighbours` gives 0 or 1.
    """
    data = [node for node in postorder(access.position) if node.op == "load"]
    if index in postorder(access.position, known=data):
        return access.is_store or not _has_unit_stride(access, index)
    return access.is_store and not is_by_data(access, index)


def is_by_data(access: Access, index: Scalar) -> bool:
    """Whether the position of an element depends only on data."""
    nodes = postorder(access.position)
    data = [node for node in nodes if node.op in ("load", "local")]
    return bool(data) and index not in postorder(access.position, known=data)


def _has_unit_stride(access: Access, index: Scalar) -> bool:
    """Whether consecutive iterations access adjacent elements, which may not be aligned."""
    *outer, last = (Coefficients(index).of(i) for i in access.position)
    return last == 1 and all(factor == 0 for factor in outer)
