"""Addresses of MPI stubs for the message symbols in compiled code.

Code names a message by a symbol (`functrans.loop.messages`), and is cached on disk with the symbol.
It is resolved to the address of a small stub that calls MPI with the handles of this process, which
it reads from a record (``messages.ll``). Communicators are registered by a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from functrans.locks import lock
from functrans.loop.messages import Message
from functrans.records import NamedTuple
from functrans.run.code import cache
from functrans.run.code.loading import Code
from functrans.run.code.modules import joined

TEXT = Path(__file__).with_name("messages.ll")
EXTREMES = TEXT.with_name("extremes.ll")


class Link(Protocol):
    """The MPI functions and handles of a group of connected processes."""

    handle: str  # the LLVM type of MPI's handles
    functions: Mapping[str, int]  # the addresses of MPI functions

    def words(self, message: Message) -> list[int]:
        """The record of a message, as words."""
        ...


class _Known(NamedTuple):
    code: Code
    record: np.ndarray[Any, Any]


_links: dict[str, Link] = {}
# never freed: programs contain these addresses
_known: dict[str, _Known] = {}
_lock = lock()


def enter(key: str, link: Link) -> None:
    """Register the processes of a key, for messages."""
    _links[key] = link


def address(message: Message) -> int:
    """The address of the stub of a message.

    Raises `RuntimeError` if the program was compiled in another run, and the processes are not
    connected yet.
    """
    with _lock:
        if message.symbol not in _known:
            _known[message.symbol] = _loaded(message)
        return _known[message.symbol].code.address


def _loaded(message: Message) -> _Known:
    link = _links.get(message.link)
    if link is None:
        raise RuntimeError(
            "a compiled program passes messages along a mesh that this process has not made: call "
            "Mesh(..., engine='mpi') with the same axes before it is loaded or called"
        )
    record = np.array([word % 2**64 for word in link.words(message)], np.uint64)
    text = joined(TEXT).replace("HANDLE", link.handle)
    imports = {**link.functions, "record": record.ctypes.data}
    return _Known(cache.load(text, message.kind, imports), record)


def extreme(operation: str, code: str) -> int:
    """The address of the maximum or minimum of two floats, in the form of MPI's operations."""
    bits, kind = _FLOATS[code]
    symbol = f"{operation}_{kind}"
    with _lock:
        if symbol not in _operations:
            text = joined(EXTREMES).replace("OPERATION", operation)
            text = text.replace("NUMBER", kind).replace("BITS", bits)
            _operations[symbol] = cache.load(text, symbol, {})
        return _operations[symbol].address


_FLOATS = {"f8": ("f64", "double"), "f4": ("f32", "float")}
_operations: dict[str, Code] = {}
