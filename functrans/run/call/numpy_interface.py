"""NumPy's C interface: a table of functions, to which new versions only append.

This holds as long as the ABI version, which the first function returns, is the same.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from functrans.caches import once

# Positions of functions in the table.
_BINARY_VERSION, _VERSION = 0, 211
SCALAR, NEW_COPY, NEW_FROM_DESCR, SET_BASE, SET_HANDLER, GET_HANDLER = 60, 85, 94, 282, 304, 305

_KNOWN_BINARY = 0x2000000
_WITH_HANDLERS = 0xF

_umath = sys.modules["numpy._core._multiarray_umath"]

SUPPORTED = sys.implementation.name == "cpython" and hasattr(_umath, "_ARRAY_API")


@once
def functions() -> Any:
    """The table of the functions' addresses; None if the ABI version is unknown."""
    if not SUPPORTED:
        return None
    table = ctypes.pythonapi.PyCapsule_GetPointer
    table.restype, table.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    found = ctypes.cast(table(_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    version = ctypes.PYFUNCTYPE(ctypes.c_uint)
    if version(found[_BINARY_VERSION])() != _KNOWN_BINARY:
        return None
    return found if version(found[_VERSION])() >= _WITH_HANDLERS else None
