"""Steps of a plan that are one `Call` of a library, with addresses and numbers.

Whatever is the same in all runs of the plan is computed once: the offset of an address in its
buffer, the numbers, and the function that calls the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrans.loop.scalar import Scalar, evaluate, postorder
from functrans.loop.statements import Address, Buffer, Call
from functrans.records import NamedTuple
from functrans.run.cuda.libraries.handles import Handles, Workspace
from functrans.run.cuda.libraries.table import Adapter, adapter


class Place(NamedTuple):
    """An address: the number of a buffer, and an offset in bytes."""

    memory: int
    offset: int


class LibraryStep(NamedTuple):
    """A call that is complete except for the addresses of its buffers."""

    symbol: str
    adapter: Adapter
    arguments: tuple[Any, ...]

    def __call__(
        self,
        handles: Handles,
        workspace: Workspace,
        # the addresses of the buffers that were given to `library_step`, in the same order
        addresses: Sequence[int],
    ) -> None:
        """Put the call on the stream of the handles."""
        passed = [
            addresses[one.memory] + one.offset if type(one) is Place else one
            for one in self.arguments
        ]
        self.adapter(handles, workspace, passed)


def library_step(
    # outside of any loop; `functrans.run.cuda.libraries.table.has` is True for its symbol
    call: Call,
    buffers: Sequence[Buffer],  # the buffers of its kernel
    sizes: Sequence[int] = (),  # the sizes of its kernel
) -> LibraryStep:
    """Prepare a call."""

    def number(expression: Scalar) -> Any:
        leaves = (node for node in postorder([expression]) if node.op == "size")
        return evaluate(
            expression, {leaf: np.int64(sizes[leaf.attribute]) for leaf in leaves}
        ).item()

    def passed(argument: Address | Scalar | bytes) -> Any:
        if isinstance(argument, bytes):
            return argument
        if isinstance(argument, Scalar):
            return number(argument)
        target, position = argument.target, 0
        for index, extent in zip(argument.indices, target.shape, strict=True):
            position = position * number(extent) + number(index)
        return Place(buffers.index(target), position * target.dtype.itemsize)

    return LibraryStep(call.symbol, adapter(call.symbol), tuple(map(passed, call.arguments)))
