"""MPI by addresses: its functions and its handles as numbers, for messages from compiled code.

None of this is stored in cached code: each process queries it (`functrans.run.code.messages`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from functrans.caches import cached
from functrans.loop.messages import MAX, MIN, NOTHING, SUM, Message
from functrans.run.code import messages

CALLED = (
    "MPI_Allreduce", "MPI_Allgather", "MPI_Reduce_scatter_block", "MPI_Alltoall", "MPI_Sendrecv",
)  # fmt: skip
CREATE = "MPI_Op_create"

TYPES = {"f8": "DOUBLE", "f4": "FLOAT"}
TYPES |= {f"i{n}": f"INT{8 * n}_T" for n in (1, 2, 4, 8)}
TYPES |= {f"u{n}": f"UINT{8 * n}_T" for n in (1, 2, 4, 8)}
"""MPI's types, by the codes of dtypes."""

OPERATIONS = {SUM: "SUM", MAX: "MAX", MIN: "MIN"}

_made: dict[tuple[str, str], int] = {}


@cached(1)
def functions(mpi: Any) -> Mapping[str, int] | None:
    """The addresses of MPI's functions, by their names; None if the linker does not find them."""
    try:
        library = ctypes.CDLL(mpi.__file__)
        found = [getattr(library, name) for name in (*CALLED, CREATE)]
    except (OSError, AttributeError):
        return None
    addresses = [ctypes.cast(each, ctypes.c_void_p).value or 0 for each in found]
    return dict(zip((*CALLED, CREATE), addresses, strict=True))


class Handles:
    """The processes of a communicator, as numbers for compiled code."""

    def __init__(self, mpi: Any, communicator: Any, addresses: Mapping[str, int]) -> None:
        self.functions = addresses
        self._mpi = mpi
        self._communicator = communicator
        # an int with MPICH, a pointer with Open MPI
        self._handle = ctypes.c_int if mpi._sizeof(communicator) == 4 else ctypes.c_void_p
        self.handle = f"i{8 * ctypes.sizeof(self._handle)}"
        self._status = np.zeros(mpi._sizeof(mpi.Status), np.uint8)

    def words(self, message: Message) -> list[int]:
        """The record of a message (`functrans.run.code.messages`)."""
        mpi = self._mpi
        given = [self._communicator, getattr(mpi, TYPES[message.code])]
        return [
            *map(mpi._handleof, given),
            self._operation(message.operation, message.code),
            self._communicator.Get_rank(),
            int(mpi.PROC_NULL),
            self._status.ctypes.data,
        ]

    def _operation(self, name: str, code: str) -> int:
        if name == NOTHING:
            return 0
        if name == SUM or code[0] != "f":
            return self._mpi._handleof(getattr(self._mpi, OPERATIONS[name]))
        if (name, code) not in _made:
            create = ctypes.CFUNCTYPE(
                ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(self._handle)
            )(self.functions[CREATE])
            made = self._handle()
            if create(messages.extreme(name, code), 1, ctypes.byref(made)):
                raise RuntimeError(f"MPI has not made an operation of {name}")
            _made[name, code] = made.value or 0
        return _made[name, code]
