"""The native function that runs a program: checks its arrays, calls its kernels in order.

It is one function for all programs, a small interpreter. A program is a table of words (a NumPy
array of int64, which is the ``self`` of the Python function object)::

    word  0  address of the type ndarray
          1  number of inputs      2  number of arrays (inputs, then outputs)
          3  bytes of the arena    4  the arena between calls, or 0 (swapped atomically)
          5  number of temporaries 6  number of steps
          7  whether to release the GIL
          8  address of the record of threads (`functrans.run.pool`), or 0
          9  address of the BLAS record, or 0: its number of users, the number of threads it had,
             the addresses of the functions that give and set this number
    then for each input: the addresses of its dtype, and of the types of NumPy's and Python's
        scalars of the dtype (or 0), its number of axes, its extents
    then for each temporary: its offset in the arena
    then for each step: the kernel's address, the extent of its parallel loop (0: none), the grain
        of the parts of it that threads get (0: it is not shared), the number of its buffers and the
        slot of each, the number of its sizes and those

The slots are the arrays and after them the temporaries. The function returns an int: 0, or one of
`functrans.loop.failures.FAILURES`, or -1 if an input is not as the table says (then nothing has
been done).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrans.caches import once
from functrans.run import cache

HEADER_WORDS = 10
ARENA = 4

# Offsets in NumPy's array object, part of its stable C interface: data 16, nd 24, dimensions 32,
# descr 56, flags 64. The number in a NumPy scalar or a Python float is at 16.
ENTRY = r"""
declare ptr @PyLong_FromLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)

define internal ptr @data_of(ptr %array, ptr %record, ptr %ndarray) {
  %type.p = getelementptr i8, ptr %array, i64 8
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
  %inside = getelementptr i8, ptr %array, i64 16
  %found = select i1 %is.number, ptr %inside, ptr null
  ret ptr %found
dtype:
  %descr.p = getelementptr i8, ptr %array, i64 56
  %descr = load ptr, ptr %descr.p
  %wanted = load ptr, ptr %record
  %descr.ok = icmp eq ptr %descr, %wanted
  %flags.p = getelementptr i8, ptr %array, i64 64
  %flags = load i32, ptr %flags.p
  %good = and i32 %flags, 257                      ; C-contiguous and aligned
  %flags.ok = icmp eq i32 %good, 257
  %nd.p = getelementptr i8, ptr %array, i64 24
  %nd32 = load i32, ptr %nd.p
  %nd = sext i32 %nd32 to i64
  %nd.ok = icmp eq i64 %nd, %nd.wanted
  %two = and i1 %descr.ok, %flags.ok
  %three = and i1 %two, %nd.ok
  br i1 %three, label %axes, label %no
axes:
  %dims.p = getelementptr i8, ptr %array, i64 32
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
  %data.p = getelementptr i8, ptr %array, i64 16
  %data = load ptr, ptr %data.p
  ret ptr %data
no:
  ret ptr null
}

define internal ptr @arena(ptr %table) {
  %bytes.p = getelementptr i64, ptr %table, i64 3
  %bytes = load i64, ptr %bytes.p
  %none = icmp eq i64 %bytes, 0
  br i1 %none, label %nothing, label %take
nothing:
  ret ptr null
take:                                              ; another thread may be running this program
  %kept.p = getelementptr i64, ptr %table, i64 4
  %kept = atomicrmw xchg ptr %kept.p, i64 0 acquire
  %empty = icmp eq i64 %kept, 0
  br i1 %empty, label %allocate, label %reuse
reuse:
  %old = inttoptr i64 %kept to ptr
  ret ptr %old
allocate:
  %padded = add i64 %bytes, 64
  %new = call ptr @PyMem_RawMalloc(i64 %padded)
  ret ptr %new
}

define internal void @give_back(ptr %table, ptr %arena) {
  %word = ptrtoint ptr %arena to i64
  %kept.p = getelementptr i64, ptr %table, i64 4
  %old = atomicrmw xchg ptr %kept.p, i64 %word release
  %surplus = inttoptr i64 %old to ptr
  call void @PyMem_RawFree(ptr %surplus)
  ret void
}

define internal void @run_kernel(ptr %table, ptr %kernel, i64 %extent, i64 %grain, ptr %data) {
  %wanted = icmp ne i64 %grain, 0
  br i1 %wanted, label %maybe, label %alone
maybe:
  %record.p = getelementptr i64, ptr %table, i64 8
  %record = load ptr, ptr %record.p
  %threads = load i64, ptr %record
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %try, label %alone
try:
  %lock = getelementptr i64, ptr %record, i64 1
  %pair = cmpxchg ptr %lock, i64 0, i64 1 acquire monotonic
  %free = extractvalue { i64, i1 } %pair, 1
  br i1 %free, label %together, label %alone       ; busy: the same result on this thread alone
together:
  %share.p = getelementptr i64, ptr %record, i64 2
  %share = load ptr, ptr %share.p
  call void %share(ptr %record, ptr %kernel, ptr %data, i64 %extent, i64 %grain,
                   i64 %threads)
  store atomic i64 0, ptr %lock release, align 8
  ret void
alone:
  call void %kernel(i64 0, i64 %extent, ptr %data)
  ret void
}

define internal void @enter_blas(ptr %record) {
  %users = load i64, ptr %record                   ; the GIL is held
  %more = add i64 %users, 1
  store i64 %more, ptr %record
  %first = icmp eq i64 %users, 0
  br i1 %first, label %limit, label %done
limit:
  %saved.p = getelementptr i64, ptr %record, i64 1
  %get.p = getelementptr i64, ptr %record, i64 2
  %get = load ptr, ptr %get.p
  %count = call i32 %get()
  %count64 = sext i32 %count to i64
  store i64 %count64, ptr %saved.p
  %set.p = getelementptr i64, ptr %record, i64 3
  %set = load ptr, ptr %set.p
  call void %set(i32 1)
  br label %done
done:
  ret void
}

define internal void @leave_blas(ptr %record) {
  %users = load i64, ptr %record
  %fewer = sub i64 %users, 1
  store i64 %fewer, ptr %record
  %last = icmp eq i64 %fewer, 0
  br i1 %last, label %restore, label %done
restore:
  %saved.p = getelementptr i64, ptr %record, i64 1
  %saved = load i64, ptr %saved.p
  %saved32 = trunc i64 %saved to i32
  %set.p = getelementptr i64, ptr %record, i64 3
  %set = load ptr, ptr %set.p
  call void %set(i32 %saved32)
  br label %done
done:
  ret void
}

define ptr @call(ptr %self, ptr %arrays, i64 %count) {
  %table.p = getelementptr i8, ptr %self, i64 16
  %table = load ptr, ptr %table.p
  %ndarray = load ptr, ptr %table
  %inputs.p = getelementptr i64, ptr %table, i64 1
  %inputs = load i64, ptr %inputs.p
  %total.p = getelementptr i64, ptr %table, i64 2
  %total = load i64, ptr %total.p
  %count.ok = icmp eq i64 %count, %total
  br i1 %count.ok, label %begin, label %refuse
begin:
  %temporaries.p = getelementptr i64, ptr %table, i64 5
  %temporaries = load i64, ptr %temporaries.p
  %slot.count = add i64 %total, %temporaries
  %slots = alloca ptr, i64 %slot.count
  %flag = alloca i64
  store i64 0, ptr %flag
  %records = getelementptr i64, ptr %table, i64 10
  br label %array
array:                                             ; check the inputs, and collect the addresses
  %i = phi i64 [ 0, %begin ], [ %i.next, %collect ]
  %record = phi ptr [ %records, %begin ], [ %record.next, %collect ]
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
  br i1 %ok, label %collect.input, label %refuse
collect.input:
  %axes.p = getelementptr i64, ptr %record, i64 3
  %axes = load i64, ptr %axes.p
  %length = add i64 %axes, 4
  %record.after = getelementptr i64, ptr %record, i64 %length
  br label %collect
collect.output:
  %data.p = getelementptr i8, ptr %one, i64 16
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
  %blas.p = getelementptr i64, ptr %table, i64 9
  %blas = load ptr, ptr %blas.p
  %blas.none = icmp eq ptr %blas, null
  br i1 %blas.none, label %ready, label %blas.enter
blas.enter:                                        ; our threads call it: it must not start its own
  call void @enter_blas(ptr %blas)
  br label %ready
ready:
  %release.p = getelementptr i64, ptr %table, i64 7
  %release = load i64, ptr %release.p
  %releases = icmp ne i64 %release, 0
  br i1 %releases, label %unlock, label %place
unlock:
  %state = call ptr @PyEval_SaveThread()
  br label %place
place:
  %thread = phi ptr [ null, %ready ], [ %state, %unlock ]
  %arena = call ptr @arena(ptr %table)
  %arena.word = ptrtoint ptr %arena to i64
  %arena.up = add i64 %arena.word, 63
  %arena.line = and i64 %arena.up, -64
  %aligned = inttoptr i64 %arena.line to ptr
  br label %temporary
temporary:
  %t = phi i64 [ 0, %place ], [ %t.next, %set ]
  %t.more = icmp slt i64 %t, %temporaries
  br i1 %t.more, label %set, label %go
set:
  %offset.p = getelementptr i64, ptr %record, i64 %t
  %offset = load i64, ptr %offset.p
  %where = getelementptr i8, ptr %aligned, i64 %offset
  %t.slot = add i64 %total, %t
  %t.p = getelementptr ptr, ptr %slots, i64 %t.slot
  store ptr %where, ptr %t.p
  %t.next = add i64 %t, 1
  br label %temporary
go:
  %program = getelementptr i64, ptr %record, i64 %temporaries
  %steps.p = getelementptr i64, ptr %table, i64 6
  %steps = load i64, ptr %steps.p
  %words = alloca i64, i64 WORDS
  br label %step
step:
  %s = phi i64 [ 0, %go ], [ %s.next, %kernel.done ]
  %at = phi ptr [ %program, %go ], [ %at.next, %kernel.done ]
  %s.more = icmp slt i64 %s, %steps
  br i1 %s.more, label %prepare, label %finish
prepare:
  %kernel = load ptr, ptr %at
  %extent.p = getelementptr i64, ptr %at, i64 1
  %extent = load i64, ptr %extent.p
  %grain.p = getelementptr i64, ptr %at, i64 2
  %grain = load i64, ptr %grain.p
  %buffers.p = getelementptr i64, ptr %at, i64 3
  %buffers = load i64, ptr %buffers.p
  %names = getelementptr i64, ptr %at, i64 4
  store ptr %flag, ptr %words
  br label %buffer
buffer:
  %b = phi i64 [ 0, %prepare ], [ %b.next, %pass ]
  %b.more = icmp slt i64 %b, %buffers
  br i1 %b.more, label %pass, label %sizes
pass:
  %name.p = getelementptr i64, ptr %names, i64 %b
  %name = load i64, ptr %name.p
  %from.p = getelementptr ptr, ptr %slots, i64 %name
  %from = load ptr, ptr %from.p
  %b.next = add i64 %b, 1
  %to.p = getelementptr i64, ptr %words, i64 %b.next
  store ptr %from, ptr %to.p
  br label %buffer
sizes:
  %sizes.p = getelementptr i64, ptr %names, i64 %buffers
  %size.count = load i64, ptr %sizes.p
  %values = getelementptr i64, ptr %sizes.p, i64 1
  %first = add i64 %buffers, 1
  br label %size
size:
  %z = phi i64 [ 0, %sizes ], [ %z.next, %copy ]
  %z.more = icmp slt i64 %z, %size.count
  br i1 %z.more, label %copy, label %kernel.go
copy:
  %value.p = getelementptr i64, ptr %values, i64 %z
  %value = load i64, ptr %value.p
  %z.word = add i64 %first, %z
  %z.p = getelementptr i64, ptr %words, i64 %z.word
  store i64 %value, ptr %z.p
  %z.next = add i64 %z, 1
  br label %size
kernel.go:
  call void @run_kernel(ptr %table, ptr %kernel, i64 %extent, i64 %grain, ptr %words)
  br label %kernel.done
kernel.done:
  %at.next = getelementptr i64, ptr %values, i64 %size.count
  %s.next = add i64 %s, 1
  br label %step
finish:
  %used = icmp ne ptr %arena, null
  br i1 %used, label %keep, label %relock
keep:
  call void @give_back(ptr %table, ptr %arena)
  br label %relock
relock:
  br i1 %releases, label %lock.again, label %end
lock.again:
  call void @PyEval_RestoreThread(ptr %thread)
  br label %end
end:
  br i1 %blas.none, label %give, label %blas.leave
blas.leave:
  call void @leave_blas(ptr %blas)
  br label %give
give:
  %status = load i64, ptr %flag
  %result = call ptr @PyLong_FromLong(i64 %status)
  ret ptr %result
refuse:
  %minus = call ptr @PyLong_FromLong(i64 -1)
  ret ptr %minus
}
"""

MOST_WORDS = 4096
"""The most buffers and sizes that a kernel may have."""


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
    """The description of the entry function for Python, and its code, which must stay alive."""
    code = cache.load(ENTRY.replace("WORDS", str(MOST_WORDS)), "call", {})
    return _MethodDef(b"functrans_program", code.address, _METH_FASTCALL, None), code


def function(table: np.ndarray[Any, Any]) -> Callable[..., int]:
    """The program in a table as a Python function of its input and output arrays."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    owner = table.view(_Table)
    result: Callable[..., int] = make(ctypes.addressof(_method()[0]), owner, None)
    return result


_free = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("PyMem_RawFree", ctypes.pythonapi))


class _Table(np.ndarray):
    """The words of a program. They own its arena, which goes when they go."""

    def __del__(self) -> None:
        _free(int(self[ARENA]))


def input_record(shape: Sequence[int], dtype: np.dtype[Any]) -> list[int]:
    """The words of the table that describe an input."""
    # the one object that arrays of a built-in dtype refer to
    dtype = np.dtype(dtype.type)
    python = id(float) if dtype == np.float64 else 0
    return [id(dtype), id(dtype.type), python, len(shape), *shape]
