"""Calling a program from Python: its arrays are checked, and their addresses are collected.

Natively this takes a fraction of a microsecond, because it reads the objects themselves. Where they
are not laid out as `functrans.run.call.layouts` says, Python does it, with the same results. Either
way it is `functrans.run.call.steps` that runs the program, whose table has for each input: the
addresses of its dtype, and of the types of NumPy's and Python's scalars of the dtype (or 0), its
number of axes, its extents.

What is called returns an int: 0, or one of `functrans.loop.failures.FAILURES`, or -1 if an input is
not as the table says (then nothing has been done).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from string import Template
from typing import Any

import numpy as np

from functrans.caches import once
from functrans.ir.types import Aval
from functrans.loop.failures import OUT_OF_MEMORY
from functrans.run.call import layouts, steps
from functrans.run.call.steps import FRAME, HEADER_WORDS, TOTAL, Table
from functrans.run.code import cache

LARGEST_ON_STACK = 1024
"""Words of a frame that are still put on the thread's stack: 8 KiB."""

_TEXT = r"""
declare ptr @PyLong_FromLong(i64)
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare i64 @run(ptr, ptr)

define internal ptr @data_of(ptr %array, ptr %record, ptr %ndarray) {
  %type.p = getelementptr i8, ptr %array, i64 $TYPE
  %type = load ptr, ptr %type.p
  %nd.wanted.p = getelementptr i64, ptr %record, i64 3
  %nd.wanted = load i64, ptr %nd.wanted.p
  %is.array = icmp eq ptr %type, %ndarray
  br i1 %is.array, label %dtype, label %number
number:                                            ; a scalar holds its number behind its head
  %has.axes = icmp ne i64 %nd.wanted, 0
  br i1 %has.axes, label %no, label %scalar
scalar:
  %numpy.p = getelementptr i64, ptr %record, i64 1
  %numpy = load ptr, ptr %numpy.p
  %python.p = getelementptr i64, ptr %record, i64 2
  %python = load ptr, ptr %python.p
  %is.numpy = icmp eq ptr %type, %numpy
  %is.python = icmp eq ptr %type, %python
  %is.number = or i1 %is.numpy, %is.python
  %inside = getelementptr i8, ptr %array, i64 $NUMBER
  %found = select i1 %is.number, ptr %inside, ptr null
  ret ptr %found
dtype:
  %descr.p = getelementptr i8, ptr %array, i64 $DTYPE
  %descr = load ptr, ptr %descr.p
  %wanted = load ptr, ptr %record
  %descr.ok = icmp eq ptr %descr, %wanted
  %flags.p = getelementptr i8, ptr %array, i64 $FLAGS
  %flags = load i32, ptr %flags.p
  %good = and i32 %flags, $USABLE                   ; C-contiguous and aligned
  %flags.ok = icmp eq i32 %good, $USABLE
  %nd.p = getelementptr i8, ptr %array, i64 $AXES
  %nd32 = load i32, ptr %nd.p
  %nd = sext i32 %nd32 to i64
  %nd.ok = icmp eq i64 %nd, %nd.wanted
  %two = and i1 %descr.ok, %flags.ok
  %three = and i1 %two, %nd.ok
  br i1 %three, label %axes, label %no
axes:
  %dims.p = getelementptr i8, ptr %array, i64 $EXTENTS
  %dims = load ptr, ptr %dims.p
  br label %axis
axis:
  %a = phi i64 [ 0, %axes ], [ %a.next, %next ]
  %done = icmp eq i64 %a, %nd
  br i1 %done, label %yes, label %compare
compare:
  %extent.p = getelementptr i64, ptr %dims, i64 %a
  %extent = load i64, ptr %extent.p
  %place = add i64 %a, 4
  %extent.wanted.p = getelementptr i64, ptr %record, i64 %place
  %extent.wanted = load i64, ptr %extent.wanted.p
  %extent.ok = icmp eq i64 %extent, %extent.wanted
  br i1 %extent.ok, label %next, label %no
next:
  %a.next = add i64 %a, 1
  br label %axis
yes:
  %data.p = getelementptr i8, ptr %array, i64 $DATA
  %data = load ptr, ptr %data.p
  ret ptr %data
no:
  ret ptr null
}

define ptr @call(ptr %self, ptr %arrays, i64 %count) {
  %table.p = getelementptr i8, ptr %self, i64 $DATA
  %table = load ptr, ptr %table.p
  %ndarray = load ptr, ptr %table
  %inputs.p = getelementptr i64, ptr %table, i64 1
  %inputs = load i64, ptr %inputs.p
  %total.p = getelementptr i64, ptr %table, i64 $TOTAL
  %total = load i64, ptr %total.p
  %count.ok = icmp eq i64 %count, %total
  br i1 %count.ok, label %begin, label %end
begin:
  %frame.p = getelementptr i64, ptr %table, i64 $FRAME
  %frame = load i64, ptr %frame.p
  %is.small = icmp ule i64 %frame, $LARGEST_ON_STACK
  br i1 %is.small, label %on.stack, label %on.heap
on.stack:
  %near = alloca ptr, i64 %frame
  br label %collecting
on.heap:
  %frame.bytes = shl i64 %frame, 3
  %far = call ptr @PyMem_RawMalloc(i64 %frame.bytes)
  %got = icmp ne ptr %far, null
  br i1 %got, label %collecting, label %end
collecting:
  %slots = phi ptr [ %near, %on.stack ], [ %far, %on.heap ]
  %records = getelementptr i64, ptr %table, i64 $HEADER_WORDS
  br label %array
array:                                             ; check the inputs, and collect the addresses
  %i = phi i64 [ 0, %collecting ], [ %i.next, %collect ]
  %record = phi ptr [ %records, %collecting ], [ %record.next, %collect ]
  %more = icmp slt i64 %i, %total
  br i1 %more, label %look, label %checked
look:
  %array.p = getelementptr ptr, ptr %arrays, i64 %i
  %one = load ptr, ptr %array.p
  %is.input = icmp slt i64 %i, %inputs
  br i1 %is.input, label %check, label %collect.output
check:
  %input = call ptr @data_of(ptr %one, ptr %record, ptr %ndarray)
  %ok = icmp ne ptr %input, null
  br i1 %ok, label %collect.input, label %leave
collect.input:
  %axes.p = getelementptr i64, ptr %record, i64 3
  %axes = load i64, ptr %axes.p
  %length = add i64 %axes, 4
  %record.after = getelementptr i64, ptr %record, i64 %length
  br label %collect
collect.output:
  %data.p = getelementptr i8, ptr %one, i64 $DATA
  %output = load ptr, ptr %data.p
  br label %collect
collect:
  %address = phi ptr [ %input, %collect.input ], [ %output, %collect.output ]
  %record.next = phi ptr [ %record.after, %collect.input ], [ %record, %collect.output ]
  %slot = getelementptr ptr, ptr %slots, i64 %i
  store ptr %address, ptr %slot
  %i.next = add i64 %i, 1
  br label %array
checked:
  %ran = call i64 @run(ptr %table, ptr %slots)
  br label %leave
leave:
  %left = phi i64 [ -1, %check ], [ %ran, %checked ]
  br i1 %is.small, label %end, label %free
free:
  call void @PyMem_RawFree(ptr %slots)
  br label %end
end:
  %status = phi i64 [ -1, %0 ], [ $OUT_OF_MEMORY, %on.heap ], [ %left, %leave ], [ %left, %free ]
  %result = call ptr @PyLong_FromLong(i64 %status)
  ret ptr %result
}
"""


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_METH_FASTCALL = 0x80


@once
def _method() -> tuple[_MethodDef, Any]:
    """The description of the native function for Python, and its code, which must stay alive."""
    text = Template(_TEXT).substitute(
        TYPE=layouts.TYPE,
        NUMBER=layouts.NUMBER,
        DATA=layouts.DATA,
        AXES=layouts.AXES,
        EXTENTS=layouts.EXTENTS,
        DTYPE=layouts.DTYPE,
        FLAGS=layouts.FLAGS,
        USABLE=layouts.CONTIGUOUS | layouts.ALIGNED,
        TOTAL=TOTAL,
        FRAME=FRAME,
        HEADER_WORDS=HEADER_WORDS,
        LARGEST_ON_STACK=LARGEST_ON_STACK,
        OUT_OF_MEMORY=OUT_OF_MEMORY,
    )
    code = cache.load(text, "call", {"run": steps.code().address})
    return _MethodDef(b"functrans_program", code.address, _METH_FASTCALL, None), code


def function(table: Table, inputs: Sequence[Aval]) -> Callable[..., int]:
    """The program in a table as a Python function of its input and output arrays."""
    return _native(table) if layouts.hold() else _portable(table, inputs)


def _native(table: Table) -> Callable[..., int]:
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    result: Callable[..., int] = make(ctypes.addressof(_method()[0]), table, None)
    return result


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
        status: int = run(table.ctypes.data, slots.ctypes.data)
        return status

    return call


def input_record(aval: Aval) -> list[int]:
    """The words of the table that an input is checked by."""
    # the one object that arrays of a built-in dtype refer to
    dtype = np.dtype(aval.dtype.type)
    python = id(float) if dtype == np.float64 else 0
    return [id(dtype), id(dtype.type), python, len(aval.shape), *aval.shape]
