"""Address linearisation: kernels on flat memory, in which an element has a single index.

Expects a kernel. Leaves one whose buffers are one-dimensional: pointers to elements in C order.
Rows that are private to threads lose the axis of the threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from functrans.loop.nodes import INDEX, ZERO
from functrans.loop.scalar import Scalar, postorder
from functrans.loop.simplify import Simplifier
from functrans.loop.statements import Buffer, Kernel, Statement, buffer, load
from functrans.loop.walk import rebuilt


def flattened(kernel: Kernel, starts: Mapping[Buffer, Scalar]) -> Kernel:
    """The kernel on flat memory; ``starts``: where buffers begin behind their pointers."""
    return _Flattening(kernel, starts).kernel()


class _Flattening:
    def __init__(self, kernel: Kernel, starts: Mapping[Buffer, Scalar]) -> None:
        self.given = kernel
        self.starts = starts
        self.simplify = Simplifier()
        self.flat = {
            one: buffer(one.name, one.dtype, (one.shape[0] if one.shape else 1,))
            for one in kernel.buffers
        }
        self.flat |= {
            row: buffer(row.name, row.dtype, (row.count // self._threads(row),))
            for row in kernel.scratch
        }

    def kernel(self) -> Kernel:
        given = self.given
        return replace(
            given,
            buffers=tuple(self.flat[one] for one in given.buffers),
            scratch=tuple(self.flat[row] for row in given.scratch),
            private=tuple(self.flat[row] for row in given.private),
            dealt=tuple(self.flat[row] for row in given.dealt),
            long=tuple(self.flat[row] for row in given.long),
            body=self.statements(given.body),
        )

    def statements(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple(
            rebuilt(
                each,
                body=self.statements,
                values=self.expressions,
                indices=self.expressions,
                element=self.element,
                buffer=lambda one: self.flat[one],
            )
            for each in body
        )

    def expressions(self, given: Sequence[Scalar]) -> list[Scalar]:
        replaced: dict[Scalar, Scalar] = {}
        for node in postorder(given):
            if node.op == "load":
                inner = self.simplify.substitute(node.args, replaced)
                replaced[node] = load(
                    self.flat[node.attribute], (self.place(node.attribute, inner),)
                )
        return self.simplify.substitute(given, replaced)

    def element(
        self, one: Buffer, position: tuple[Scalar, ...]
    ) -> tuple[Buffer, tuple[Scalar, ...]]:
        return self.flat[one], (self.place(one, self.expressions(position)),)

    def _threads(self, row: Buffer) -> int:
        """The number of threads among which a private row is divided."""
        return row.extents[0] if row in self.given.private else 1

    def place(self, one: Buffer, position: Sequence[Scalar]) -> Scalar:
        """The position of an element in flat memory."""
        total: Scalar = ZERO
        first = 1 if one in self.given.private else 0
        for i, extent in zip(position[first:], one.shape[first:], strict=True):
            total = Scalar("add", (Scalar("mul", (total, extent), INDEX), i), INDEX)
        if one in self.starts:
            total = Scalar("add", (self.starts[one], total), INDEX)
        return self.simplify(total)
