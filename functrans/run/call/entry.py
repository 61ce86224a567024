"""Calling convention of programs: checks of the inputs, and their addresses.

Native code does this in a fraction of a microsecond, since it reads Python's objects in memory. If
the object layouts differ from `functrans.run.call.layouts`, Python does it, with the same results.
In both cases `functrans.run.call.steps` runs the program. Its table has for each input: the
addresses of its dtype, and of NumPy's and Python's scalar types of the dtype (or 0), its number of
axes, its extents.

The function returns an int: 0, or one of `functrans.loop.failures.FAILURES`, or -1 if an input does
not match the table (then nothing has been done).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from functrans import config
from functrans.caches import once
from functrans.ir.types import Aval
from functrans.run.call import layouts, steps
from functrans.run.call.steps import FRAME, TOTAL, Table
from functrans.run.code import cache
from functrans.run.code.modules import joined
from functrans.run.threads import pool

LARGEST_ON_STACK = 1024
"""The largest frame, in words, that is allocated on the thread's stack: 8 KiB."""

CHECK = Path(__file__).with_name("data_of.ll")

_TEXT = Path(__file__).with_name("entry.ll")


class MethodDef(ctypes.Structure):
    """Python's definition of a native function."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


METH_FASTCALL = 0x80


@once
def _method() -> tuple[MethodDef, Any]:
    """Python's definition of the native function, and its code, which must be kept alive."""
    code = cache.load(joined(CHECK, _TEXT), "call", {"run": steps.code().address})
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))  # as for `steps.code`
    return MethodDef(b"functrans_program", code.address, METH_FASTCALL, None), code


def prepare() -> None:
    """Load the runtime that programs need besides their kernels, ahead of the first program."""
    if layouts.hold():
        _method()
    if config.threads > 1:
        pool.code()


def function(table: Table, inputs: Sequence[Aval]) -> Callable[..., int]:
    """The program in a table as a Python function of its input and output arrays."""
    return native(_method()[0], table) if layouts.hold() else _portable(table, inputs)


def native(definition: MethodDef, owner: Any) -> Callable[..., Any]:
    """A native function as a Python function, which is passed an object before its arguments."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(definition), owner, None)


def _portable(table: Table, inputs: Sequence[Aval]) -> Callable[..., int]:
    run = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(steps.code().address)
    total, frame = int(table[TOTAL]), int(table[FRAME])
    kinds = [(aval.shape, np.dtype(aval.dtype.type)) for aval in inputs]

    def call(*arrays: Any) -> int:
        fit = len(arrays) == total and all(
            type(x) is np.ndarray
            and x.shape == shape
            and x.dtype == dtype
            and x.flags.c_contiguous
            and x.flags.aligned
            for x, (shape, dtype) in zip(arrays, kinds, strict=False)
        )
        if not fit:
            return -1
        slots = np.empty(frame, np.int64)
        slots[:total] = [x.ctypes.data for x in arrays]
        return run(table.ctypes.data, slots.ctypes.data)

    return call


_PYTHON_NUMBERS = {np.dtype(np.float64): id(float), np.dtype(np.complex128): id(complex)}
"""The addresses of Python's number types that correspond to a NumPy dtype."""


def input_record(aval: Aval) -> list[int]:
    """The words of the table for the check of an input."""
    # the singleton of its type
    dtype = np.dtype(aval.dtype.type)
    python = _PYTHON_NUMBERS.get(dtype, 0)
    # the layout of another package's scalars is unknown: Python converts them to arrays
    number = id(dtype.type) if dtype.isbuiltin == 1 else 0
    return [id(dtype), number, python, len(aval.shape), *aval.shape]
