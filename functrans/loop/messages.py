"""Messages between processes as library routines: the available ones, and their symbols.

A `functrans.loop.statements.Call` names its routine by a symbol. That of a message says all that
another process must know to send the same: what is done, to which numbers, along which link.
Communicators and other handles are the process' own, and stand for the symbol when code is loaded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

PREFIX = "mpi"

SUM, MAX, MIN, NOTHING = "sum", "max", "min", "none"
"""What is made of the numbers of all processes."""


class Message(NamedTuple):
    """A routine that passes messages.

    Its arguments, by their addresses: the number of elements for or of one process, and that for
    or of all of them; where they are, and where the results go; and a status, which is 0 if all is
    well. ``sendrecv`` has the numbers of the receiver and of the sender before the status (-1:
    nobody). ``rank`` takes nothing but the address for the number of this process.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    operation : str
    code : str
        What elements are, as NumPy writes it: ``f8``.
    link : str
        The key of the processes that take part.
    """

    kind: str
    operation: str
    code: str
    link: str

    @property
    def symbol(self) -> str:
        """The name by which code calls it."""
        return "_".join((PREFIX, *self))


KINDS = ("allreduce", "allgather", "reducescatter", "alltoall", "sendrecv", "rank")


def message_of(symbol: str) -> Message | None:
    """The message that a symbol is of; None if it is another routine's."""
    prefix, *parts = symbol.split("_")
    return Message(*parts) if prefix == PREFIX and len(parts) == len(Message._fields) else None


def code_of(dtype: np.dtype[np.generic]) -> str:
    """What elements are, as a part of a symbol; native numbers alone are sent."""
    return f"{dtype.kind}{dtype.itemsize}"


MOST = 2**31 - 1
"""The most elements of one message: MPI counts in 32 bits."""
