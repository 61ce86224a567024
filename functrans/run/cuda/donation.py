"""Donation on a device: results are written into the memory of donated arrays."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from functrans.errors import DeviceError
from functrans.run.cuda.array import DeviceArray
from functrans.run.cuda.driver import Driver, Stream
from functrans.run.cuda.memory import Memory, allocate


class GivenUp(Memory):
    """The memory of a donated array after its reuse: every access raises."""

    __slots__ = ()

    def __init__(self, driver: Driver, nbytes: int) -> None:
        on_none: Any = None  # so that work on any stream asks `read` or `write` first
        super().__init__(driver, 0, nbytes, on_none)

    def read(self, stream: Stream) -> NoReturn:
        """Raise `DeviceError`: the array was donated."""
        raise DeviceError(
            "this array was given up (donate_argnums, donate_argnames), and a result has its "
            "memory: use the result, or donate a copy, x.copy()"
        )

    def write(self, stream: Stream) -> NoReturn:
        """Raise `DeviceError`: the array was donated."""
        self.read(stream)

    def show(self) -> NoReturn:
        """Raise `DeviceError`: the array was donated."""
        self.read(self.stream)


_ITS_OWN = 3
"""The reference count, within `given_up`, of memory that is not shared."""


def given_up(x: DeviceArray, operands: Sequence[DeviceArray], stream: Stream) -> Memory:
    """Memory with the contents of a donated operand, to be overwritten with a result.

    It is the operand's own memory, which becomes unusable; or a copy, if another array, another
    operand or another package shares it.
    """
    memory = x.memory
    shared = sys.getrefcount(memory) > _ITS_OWN
    if memory.exclusive and not shared and sum(each.memory is memory for each in operands) == 1:
        memory.write(stream)
        x.memory = GivenUp(memory.driver, memory.nbytes)
        return memory
    here = memory.driver
    copy = allocate(here, memory.nbytes, stream)
    if memory.nbytes:
        here.copy(copy.address, memory.address, memory.nbytes, stream)
    return copy
