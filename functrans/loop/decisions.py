"""Path conditions: assumed values of conditions on data, the same in all kernels of a plan.

Kernels that read the same buffer of conditions may do so under different indices: one with two
loops as ``c[i, j]``, and one whose loops were collapsed as ``c[n // 10, n % 10]``. Conditions are
therefore identified by the buffers that they read, without the elements, and a buffer of
conditions is assumed to have one value throughout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from functrans.loop.scalar import Scalar, postorder
from functrans.loop.statements import Buffer

POSITIONS = "index", "size"
"""Leaves that say which element is meant, and not what is done with it."""


class Decisions:
    """The values that are assumed of conditions on data."""

    def __init__(
        self,
        # the values of the first condition that is met, of the second, and so on, cyclically
        branches: Sequence[bool],
    ) -> None:
        self.branches = branches
        self._decided: dict[Scalar, bool] = {}
        self._defined: dict[Scalar, Scalar] = {}

    def define(self, local: Scalar, value: Scalar, arguments: Mapping[Buffer, Buffer]) -> None:
        """Let a local stand for its value in the conditions that follow."""
        self._defined[local] = self._identity(value, arguments)

    def __call__(self, condition: Scalar, arguments: Mapping[Buffer, Buffer]) -> bool:
        """The assumed value of a condition of a kernel, called with some arguments."""
        guess = self.branches[len(self._decided) % len(self.branches)]
        return self._decided.setdefault(self._identity(condition, arguments), guess)

    def _identity(self, condition: Scalar, arguments: Mapping[Buffer, Buffer]) -> Scalar:
        """The condition on the arguments of the kernel, whatever their elements."""
        known: dict[Scalar, Scalar] = {}
        for node in postorder([condition]):
            if node in self._defined:
                known[node] = self._defined[node]
            elif node.op == "load":
                one = arguments.get(node.attribute, node.attribute)
                known[node] = Scalar("load", (), node.dtype, one)
            else:
                attribute = None if node.op in POSITIONS else node.attribute
                args = tuple([known[arg] for arg in node.args])
                known[node] = Scalar(node.op, args, node.dtype, attribute)
        return known[condition]
