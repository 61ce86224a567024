"""Address linearisation: kernels on flat memory, in which an element has a single index.

Expects a kernel. Leaves one whose buffers are one-dimensional: pointers to elements in C order.
Rows that are private to threads lose the axis of the threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.scalar import Scalar
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Kernel, buffer
from functrans.loop.substitution import Position, Rewriting


def flattened(kernel: Kernel, starts: Mapping[Buffer, Scalar]) -> Kernel:
    """The kernel on flat memory; ``starts``: where buffers begin behind their pointers."""
    simplify, private = Simplifier(), set(kernel.private)
    flat = {one: _flat(one, (one.shape[0] if one.shape else 1)) for one in kernel.buffers}
    for row in kernel.scratch:
        flat[row] = _flat(row, row.count // (row.extents[0] if row in private else 1))

    def element(one: Buffer, position: Position) -> tuple[Buffer, Position]:
        position = tuple(rewriting.expressions(position))
        total: Scalar = ZERO
        first = 1 if one in private else 0
        for i, extent in zip(position[first:], one.shape[first:], strict=True):
            total = Scalar("add", (Scalar("mul", (total, extent), INDEX), i), INDEX)
        if one in starts:
            total = Scalar("add", (starts[one], total), INDEX)
        return flat[one], (simplify(total),)

    rewriting = Rewriting({}, element, simplify)

    def rows(given: Sequence[Buffer]) -> tuple[Buffer, ...]:
        return tuple(flat[one] for one in given)

    return replace(
        kernel,
        body=rewriting.statements(kernel.body),
        buffers=rows(kernel.buffers),
        scratch=rows(kernel.scratch),
        private=rows(kernel.private),
        dealt=rows(kernel.dealt),
        long=rows(kernel.long),
    )


def _flat(one: Buffer, count: Scalar | int) -> Buffer:
    return buffer(one.name, one.dtype, (count,))
