"""Messages between processes as library routines: the available ones, and their symbols.

A `functrans.loop.statements.Call` names its routine by a symbol. The symbol of a message contains
everything that other processes must agree on: the kind, the operation, the dtype, and the link.
Communicators and other handles belong to a process, and replace the symbol when code is loaded.
"""

from __future__ import annotations

import numpy as np

from functrans.records import NamedTuple

PREFIX = "mpi"

SUM, MAX, MIN, NOTHING = "sum", "max", "min", "none"
"""The operations that combine the values of all processes."""


class Message(NamedTuple):
    """A routine that passes messages.

    Its arguments, all by reference: the number of elements of one process, and that of all of them;
    the addresses of the sent and the received elements; and a status, which is 0 on success.
    ``sendrecv`` has the ranks of the receiver and the sender before the status (-1: none). ``rank``
    takes only the address for this process's rank.
    """

    # ``allreduce``, ``allgather``, ``reducescatter``, ``alltoall``, ``sendrecv`` or ``rank``
    kind: str
    operation: str
    code: str  # the elements' dtype in NumPy's notation: ``f8``
    link: str  # the key of the group of processes

    @property
    def symbol(self) -> str:
        """The name by which code calls it."""
        return "_".join((PREFIX, *self))


def message_of(symbol: str) -> Message | None:
    """The message of a symbol; None for other routines."""
    prefix, *parts = symbol.split("_")
    return Message(*parts) if prefix == PREFIX and len(parts) == len(Message._fields) else None


def code_of(dtype: np.dtype[np.generic]) -> str:
    """The dtype's code as a part of a symbol; only native byte order is sent."""
    return f"{dtype.kind}{dtype.itemsize}"


MOST = 2**31 - 1
"""The most elements of one message: MPI counts in 32 bits."""
