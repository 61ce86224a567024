"""Memory of large results, used again.

A large array's memory comes fresh from the system, which has to fill it with zeros first: for 40 MB
that takes 8 ms, several times what it takes to write numbers there. So memory of results that
nobody has any more is kept for results of the same size, up to ``functrans.config.recycle_bytes``.

NumPy lets an array have an allocator of its own (NEP 49, "Data allocation strategies"): the arrays
are plain ones that own their data. Their allocator is native code; its state is an array of 64-bit
words:

    LOCK   whether somebody is at it (who holds Python's lock, as NumPy does, never finds it so, but
           there are Pythons without); who finds it so goes to the system
    KEPT   how many bytes are kept    LIMIT  how many may be kept
    NEXT   the slot whose turn it is, for what comes and for what has to go
    SLOTS  for each: the address of a block, its size (0: none)
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from math import prod
from string import Template
from typing import Any, NamedTuple

import numpy as np

from functrans import config
from functrans.caches import once
from functrans.run.code import cache

LARGE = 1 << 20
"""The smallest result, in bytes, whose memory is worth keeping."""

LOCK, KEPT, LIMIT, NEXT, SLOTS = 0, 8, 9, 10, 16
COUNT = 16

_HUGE = 1 << 22
"""From so many bytes on, Linux is asked for large pages, as NumPy does."""

# Where functions stand in NumPy's C interface, which only ever grows at its end as long as the
# first of them gives the same number.
_BINARY_VERSION, _VERSION, _SET_HANDLER, _GET_HANDLER = 0, 211, 304, 305
_KNOWN_BINARY = 0x2000000
_WITH_HANDLERS = 0xF

_ADVICE = """
declare i32 @madvise(ptr, i64, i32)
define internal void @advise(ptr %block, i64 %size) {
  %is.huge = icmp uge i64 %size, $HUGE
  br i1 %is.huge, label %ask, label %done
ask:
  %address = ptrtoint ptr %block to i64
  %up = add i64 %address, 4095
  %start = and i64 %up, -4096
  %skipped = sub i64 %start, %address
  %length = sub i64 %size, %skipped
  %page = inttoptr i64 %start to ptr
  call i32 @madvise(ptr %page, i64 %length, i32 14)
  br label %done
done:
  ret void
}
"""

_NO_ADVICE = """
define internal void @advise(ptr %block, i64 %size) {
  ret void
}
"""

_CODE = """
declare ptr @malloc(i64)
declare ptr @calloc(i64, i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)

define internal ptr @take(ptr %state, i64 %size) {
  %is.large = icmp uge i64 %size, $LARGE
  br i1 %is.large, label %try, label %fresh
try:
  %pair = cmpxchg ptr %state, i64 0, i64 1 acquire monotonic
  %free = extractvalue { i64, i1 } %pair, 1
  br i1 %free, label %slot, label %fresh
slot:
  %i = phi i64 [ 0, %try ], [ %i.next, %other ]
  %i.next = add i64 %i, 1
  %word.twice = mul i64 %i, 2
  %word = add i64 %word.twice, $SLOTS
  %block.p = getelementptr i64, ptr %state, i64 %word
  %size.p = getelementptr i64, ptr %block.p, i64 1
  %its.size = load i64, ptr %size.p
  %fits = icmp eq i64 %its.size, %size
  br i1 %fits, label %found, label %other
other:
  %more = icmp slt i64 %i.next, $COUNT
  br i1 %more, label %slot, label %none
found:
  %block = load ptr, ptr %block.p
  store i64 0, ptr %size.p
  %kept.p = getelementptr i64, ptr %state, i64 $KEPT
  %kept = load i64, ptr %kept.p
  %less = sub i64 %kept, %size
  store i64 %less, ptr %kept.p
  store atomic i64 0, ptr %state release, align 8
  ret ptr %block
none:
  store atomic i64 0, ptr %state release, align 8
  br label %fresh
fresh:
  %new = call ptr @malloc(i64 %size)
  %got = icmp ne ptr %new, null
  br i1 %got, label %advice, label %done
advice:
  call void @advise(ptr %new, i64 %size)
  br label %done
done:
  ret ptr %new
}

define internal void @give(ptr %state, ptr %block, i64 %size) {
  %is.large = icmp uge i64 %size, $LARGE
  %limit.p = getelementptr i64, ptr %state, i64 $LIMIT
  %limit = load atomic i64, ptr %limit.p monotonic, align 8
  %fits = icmp ule i64 %size, %limit
  %wanted = and i1 %is.large, %fits
  br i1 %wanted, label %try, label %release
try:
  %pair = cmpxchg ptr %state, i64 0, i64 1 acquire monotonic
  %free = extractvalue { i64, i1 } %pair, 1
  br i1 %free, label %turn, label %release
turn:                                              ; what has been here for longest goes
  %next.p = getelementptr i64, ptr %state, i64 $NEXT
  %next = load i64, ptr %next.p
  %word.twice = mul i64 %next, 2
  %word = add i64 %word.twice, $SLOTS
  %block.p = getelementptr i64, ptr %state, i64 %word
  %size.p = getelementptr i64, ptr %block.p, i64 1
  %old = load ptr, ptr %block.p
  %old.size = load i64, ptr %size.p
  %next.one = add i64 %next, 1
  %next.new = urem i64 %next.one, $COUNT
  store i64 %next.new, ptr %next.p
  %kept.p = getelementptr i64, ptr %state, i64 $KEPT
  %kept = load i64, ptr %kept.p
  %without = sub i64 %kept, %old.size
  %occupied = icmp ne i64 %old.size, 0
  br i1 %occupied, label %evict, label %room
evict:
  call void @free(ptr %old)
  store i64 0, ptr %size.p
  store i64 %without, ptr %kept.p
  br label %room
room:
  %with = add i64 %without, %size
  %enough = icmp ule i64 %with, %limit
  br i1 %enough, label %put, label %turn
put:
  store ptr %block, ptr %block.p
  store i64 %size, ptr %size.p
  store i64 %with, ptr %kept.p
  store atomic i64 0, ptr %state release, align 8
  ret void
release:
  call void @free(ptr %block)
  ret void
}

define internal ptr @clear(ptr %state, i64 %count, i64 %size) {
  %block = call ptr @calloc(i64 %count, i64 %size)
  ret ptr %block
}

define internal ptr @resize(ptr %state, ptr %block, i64 %size) {
  %new = call ptr @realloc(ptr %block, i64 %size)
  ret ptr %new
}

define void @fill(ptr %functions) {
  store ptr @take, ptr %functions
  %second = getelementptr ptr, ptr %functions, i64 1
  store ptr @clear, ptr %second
  %third = getelementptr ptr, ptr %functions, i64 2
  store ptr @resize, ptr %third
  %fourth = getelementptr ptr, ptr %functions, i64 3
  store ptr @give, ptr %fourth
  ret void
}
"""


class _Handler(ctypes.Structure):
    """NumPy's ``PyDataMem_Handler``."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("state", ctypes.c_void_p),
        ("functions", ctypes.c_void_p * 4),
    ]


_state = np.zeros(SLOTS + 2 * COUNT, np.int64)


Kind = tuple[tuple[int, ...], np.dtype[Any]]


class _Interface(NamedTuple):
    """What NumPy's C interface has for allocators."""

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


def is_large(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether a result's memory is worth keeping, here and on this system."""
    return _SUPPORTED and config.recycle_bytes > 0 and prod(shape) * dtype.itemsize >= LARGE


_umath = sys.modules["numpy._core._multiarray_umath"]

_SUPPORTED = (
    sys.platform != "win32"
    and sys.implementation.name == "cpython"
    and hasattr(_umath, "_ARRAY_API")
)


@once
def _recycler() -> tuple[Any, _Interface] | None:
    """Our allocator, and how it is put to use; None if NumPy is not as it is known."""
    interface = _interface()
    if interface is None:
        return None
    code = cache.load(_text(), "fill", {})
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


def _text() -> str:
    advice = _ADVICE if sys.platform == "linux" else _NO_ADVICE
    return Template(advice + _CODE).substitute(
        HUGE=_HUGE, LARGE=LARGE, KEPT=KEPT, LIMIT=LIMIT, NEXT=NEXT, SLOTS=SLOTS, COUNT=COUNT
    )


def _interface() -> _Interface | None:
    table = ctypes.pythonapi.PyCapsule_GetPointer
    table.restype, table.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    functions = ctypes.cast(table(_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    version = ctypes.PYFUNCTYPE(ctypes.c_uint)
    if version(functions[_BINARY_VERSION])() != _KNOWN_BINARY:
        return None
    if version(functions[_VERSION])() < _WITH_HANDLERS:
        return None
    get = ctypes.PYFUNCTYPE(ctypes.py_object)(functions[_GET_HANDLER])
    put = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(functions[_SET_HANDLER])
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
