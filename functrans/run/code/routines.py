"""Addresses of library routines by symbol: BLAS, LAPACK, and messages between processes."""

from __future__ import annotations

from functrans.lazily import lazy
from functrans.loop.messages import message_of
from functrans.run import blas

# programs of a single process do not need it
_address = lazy("functrans.run.code.messages:address")


def address(symbol: str) -> int:
    """The address of a routine."""
    message = message_of(symbol)
    return blas.address(symbol) if message is None else _address(message)


def is_message(symbol: str) -> bool:
    """Whether a symbol denotes a message."""
    return message_of(symbol) is not None
