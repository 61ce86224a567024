"""Library routines by their symbols: of BLAS and LAPACK, and messages between processes."""

from __future__ import annotations

from functrans.lazily import lazy
from functrans.loop.messages import message_of
from functrans.run import blas

# programs on one process have no use for it
_address = lazy("functrans.run.code.messages:address")


def address(symbol: str) -> int:
    """Where a routine is in memory."""
    message = message_of(symbol)
    found: int = blas.address(symbol) if message is None else _address(message)
    return found


def is_message(symbol: str) -> bool:
    """Whether a symbol is that of a message."""
    return message_of(symbol) is not None
