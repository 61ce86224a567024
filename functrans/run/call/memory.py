"""Allocator for large results: a memory pool, aligned to cache lines.

The system zero-fills the memory of each new large array: for 40 MB that takes 8 ms, several times
as long as writing the numbers. So the memory of results that are no longer referenced is kept for
results of the same size, up to ``functrans.config.recycle_bytes``.

A vector that is stored across two cache lines takes twice as long, if its neighbours are not stored
right after it, as in a matrix product; NumPy's own arrays begin anywhere.

NumPy supports custom allocators for arrays (NEP 49, "Data allocation strategies"): the arrays are
ordinary ones that own their data. The allocator is native code, in ``memory.ll``.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from functrans import config
from functrans.caches import once
from functrans.records import NamedTuple
from functrans.run.call import numpy_interface
from functrans.run.code import cache
from functrans.run.code.modules import joined

LARGE = 1 << 17
"""The smallest result, in bytes, that begins at a cache line, and whose memory is kept (measured:
setting NumPy's allocator takes 0.3 us, which an elementwise operation regains from here on). All
are kept: `malloc` returns some aligned blocks to the system at once, and clears them each time."""

# Words of the allocator's state; memory.ll has the complete list.
LOCK, KEPT, LIMIT, SLOTS = 0, 8, 9, 16
COUNT = 64


class _Handler(ctypes.Structure):
    """NumPy's ``PyDataMem_Handler``."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("state", ctypes.c_void_p),
        ("functions", ctypes.c_void_p * 4),
    ]


_state = np.zeros(SLOTS + 2 * COUNT, np.int64)


ADVICE = Path(__file__).with_name("advice.ll" if sys.platform == "linux" else "no_advice.ll")
"""The module of system-specific advice about large blocks."""

Kind = tuple[tuple[int, ...], np.dtype[Any]]


class _Interface(NamedTuple):
    """The allocator functions of NumPy's C interface."""

    get: Callable[[], Any]
    set: Callable[[Any], Any]


def results(kinds: Sequence[Kind]) -> list[Any]:
    """New arrays of the given shapes and dtypes, possibly in recycled memory."""
    try:
        return _results(kinds)
    except MemoryError:
        if not forget():
            raise
        return _results(kinds)


def _results(kinds: Sequence[Kind]) -> list[Any]:
    recycler = _recycler()
    if recycler is None:
        return [np.empty(shape, dtype) for shape, dtype in kinds]
    handler, usual = recycler
    before = usual.get()
    try:
        usual.set(handler)
        return [np.empty(shape, dtype) for shape, dtype in kinds]
    finally:
        usual.set(before)


def allocator() -> Any:
    """The allocator as a NumPy capsule; None if it is unavailable."""
    recycler = _recycler()
    return None if recycler is None else recycler[0]


def is_large(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether a result is large enough for the allocator, which this system must support."""
    return _SUPPORTED and config.recycle_bytes > 0 and prod(shape) * dtype.itemsize >= LARGE


_SUPPORTED = sys.platform != "win32" and numpy_interface.SUPPORTED


@once
def _recycler() -> tuple[Any, _Interface] | None:
    """The allocator, and NumPy's functions to set it; None if NumPy's interface is unknown."""
    interface = _interface()
    if interface is None:
        return None
    code = cache.load(text(), "fill", {})
    handler = _Handler(b"functrans", 1, _state.ctypes.data)
    address = ctypes.addressof(handler)
    fill = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address)
    fill(address + _Handler.functions.offset)
    # never freed: arrays may outlive everything else at interpreter exit
    for one in (code, handler, _state):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
    _state[LIMIT] = config.recycle_bytes
    config.on_change("recycle_bytes", _limit)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
    return _capsule(address), interface


def text() -> str:
    return joined(Path(__file__).with_name("memory.ll"), ADVICE)


def _interface() -> _Interface | None:
    functions = numpy_interface.functions()
    if functions is None:
        return None
    get = ctypes.PYFUNCTYPE(ctypes.py_object)(functions[numpy_interface.GET_HANDLER])
    put = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(
        functions[numpy_interface.SET_HANDLER]
    )
    return _Interface(get, put)


def _capsule(address: int) -> Any:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(address, _NAME, None)


_NAME = b"mem_handler"
"""The capsule's name, which must live as long as the capsule."""


def _limit(limit: int) -> None:
    """Set the limit of kept memory; all memory that is kept now is returned to the system."""
    _state[LIMIT] = limit
    forget()


def forget() -> int:
    """Return all kept memory to the system; return the number of bytes."""
    kept = int(_state[KEPT])
    if not kept:
        return 0
    _state[LOCK] = 1
    free = ctypes.PyDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    for slot in _state[SLOTS:].reshape(COUNT, 2):
        if slot[1]:
            free(int(slot[0]))
    _state[SLOTS:] = 0
    _state[LOCK] = _state[KEPT] = 0
    return kept


def in_words(size: int) -> str:
    """A number of bytes as text, like 1.15 GB."""
    number, unit = float(size), 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.4g} {_UNITS[unit]}"


_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def _after_fork() -> None:
    # in a forked child, the lock may be that of a parent's thread; kept memory is dropped
    _state[LOCK] = 0
