"""Memory pool: reuses the memory of large results.

A large array's memory comes fresh from the system, which has to fill it with zeros first: for 40 MB
that takes 8 ms, several times what it takes to write numbers there. So memory of results that are
no longer referenced is kept for results of the same size, up to ``functrans.config.recycle_bytes``.

NumPy lets an array have an allocator of its own (NEP 49, "Data allocation strategies"): the arrays
are plain ones that own their data. Their allocator is native code, in ``memory.ll``.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from functrans import config
from functrans.caches import once
from functrans.run.call import numpy_interface
from functrans.run.code import cache
from functrans.run.code.modules import joined

LARGE = 1 << 20
"""The smallest result, in bytes, whose memory is worth keeping."""

# Words of the allocator's state, of which memory.ll has the whole list.
LOCK, KEPT, LIMIT, SLOTS = 0, 8, 9, 16
COUNT = 16


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
"""The module with what is said to the system about large blocks."""

Kind = tuple[tuple[int, ...], np.dtype[Any]]


class _Interface(NamedTuple):
    """Allocators of NumPy's C interface."""

    get: Callable[[], Any]
    set: Callable[[Any], Any]


def results(kinds: Sequence[Kind]) -> list[Any]:
    """New arrays of the given shapes and dtypes, perhaps where others have been."""
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
    """Our allocator, as NumPy takes it; None if there is none."""
    recycler = _recycler()
    return None if recycler is None else recycler[0]


def is_large(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether a result's memory is worth keeping, here and on this system."""
    return _SUPPORTED and config.recycle_bytes > 0 and prod(shape) * dtype.itemsize >= LARGE


_SUPPORTED = sys.platform != "win32" and numpy_interface.SUPPORTED


@once
def _recycler() -> tuple[Any, _Interface] | None:
    """Our allocator, and how it is put to use; None if NumPy is not as it is known."""
    interface = _interface()
    if interface is None:
        return None
    code = cache.load(text(), "fill", {})
    handler = _Handler(b"functrans", 1, _state.ctypes.data)
    address = ctypes.addressof(handler)
    fill = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address)
    fill(address + _Handler.functions.offset)
    # an array may be the last that there is when Python ends
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
"""The capsule refers to this string as long as it lives."""


def _limit(limit: int) -> None:
    """Keep no more than so much; what is kept now goes back to the system."""
    _state[LIMIT] = limit
    forget()


def forget() -> int:
    """Give what is kept back to the system, and say how many bytes that was."""
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
    """A number of bytes as one says it: 1.15 GB."""
    number, unit = float(size), 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1000, unit + 1
    return f"{number:.3g} {_UNITS[unit]}"


_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def _after_fork() -> None:
    # whoever was at it is not in this process; what was kept is lost, not shared
    _state[LOCK] = 0
