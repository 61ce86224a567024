"""Library routines by their symbols: of BLAS and LAPACK, and messages between processes."""

from __future__ import annotations

from functrans.loop.messages import message_of
from functrans.run import blas, messages


def address(symbol: str) -> int:
    """Where a routine is in memory."""
    message = message_of(symbol)
    return blas.address(symbol) if message is None else messages.address(message)


def is_message(symbol: str) -> bool:
    """Whether a symbol is that of a message."""
    return message_of(symbol) is not None
