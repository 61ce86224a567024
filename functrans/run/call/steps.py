"""Runtime of programs: a native interpreter that runs the steps on the addresses of arrays.

One function interprets all programs. A program is a table of words (a NumPy array of int64)::

    word  0  address of the type ndarray
          1  number of inputs      2  number of arrays (inputs, then outputs)
          3  bytes of the arena    4  the arena between calls, or 0 (swapped atomically)
          5  number of temporaries, and of views   6  number of steps
          7  whether to release the GIL
          8  address of the record of threads (`functrans.run.threads.pool`), or 0
          9  address of the BLAS record (`functrans.run.blas`), or 0
         10  words of the frame    11  the offset of the temporaries' records
         12  address of the identity of the thread that checks for signals, or 0
         13  address of the log of events (`functrans.run.call.timeline`), or 0
         14  the number of the program in it
    then for each input: its type record (`functrans.run.call.entry`)
    then for each temporary: -1, and its offset in the arena
    then for each view, which is a part of an input: the slot of the input, and the offset in it
    then for each step:
        the kernel's address
        the extent of its parallel loop (0: none), the grain by which threads divide it (0: it is
            not shared), the greatest length of a part
        the number of its buffers and the slot of each
        the number of its sizes and their values, the number of enclosing loops (whose iteration
            numbers follow the sizes as arguments)
        the slot of a bool that ends the innermost loop early if it is false (or -1); the number
            of the last step of that loop, and the offset of the loop records of that step
        for each loop that ends with this step, the innermost first: its depth, its number of
            iterations, the number and the offset of its first step; at the end -1

The frame is memory for one call: the slots, which hold the addresses of the arrays, then of the
temporaries and of the views, followed by room for the argument words of the largest step. The
caller stores the addresses of the arrays. The interpreter does not depend on the layout of Python
objects.

Python's main thread checks for signals between two kernels, between two parts of a long parallel
loop, and within loops (`functrans.emit.llvm.polling`), at most every 40 ms. If a handler raises,
the program ends there.

The function returns 0, or one of `functrans.loop.failures.FAILURES`, or ``INTERRUPTED`` if an
exception is already set.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from functrans.caches import once
from functrans.records import NamedTuple
from functrans.run.call import memory, timeline
from functrans.run.code import cache
from functrans.run.code.loading import Code
from functrans.run.code.modules import joined

Table = np.ndarray[Any, np.dtype[np.int64]]

TOTAL, ARENA_BYTES, KEPT_ARENA, RELEASES = 2, 3, 4, 7
FRAME, SIGNALS, TIMELINE, NUMBER = 10, 12, 13, 14
HEADER_WORDS = 15

FLAG_WORDS = 11
"""Words of the status record, the first argument of kernels and of the pool (``steps.ll``)."""

TEXT = Path(__file__).with_name("steps.ll")


Turns = Sequence[tuple[int, int]]
"""The loops of a program around a step: the number of each, and its iterations."""


class Step(NamedTuple):
    """A call of a kernel, with addresses."""

    kernel: int
    extent: int
    grain: int
    longest: int
    buffers: Sequence[int]
    sizes: Sequence[int]
    turns: Turns = ()
    """The loops around the step, outermost first."""
    going: int = -1
    """The slot of the condition that ends the innermost loop after the step; -1: none."""


MOST_NESTED = 8
"""The most loops around a step (``steps.ll``)."""


@once
def code() -> Code:
    """The function ``run(table, frame)``."""
    found = cache.load(text(), "run", {})
    # never freed: a thread may execute it when the interpreter ends
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(found))
    return found


def text() -> str:
    """The LLVM module for this system."""
    if sys.platform == "win32":
        return joined(TEXT, TEXT.with_name("polling_windows.ll"), memory.ADVICE)
    both = joined(TEXT, TEXT.with_name("polling_posix.ll"), memory.ADVICE)
    return both.replace("CLOCK", str(time.CLOCK_MONOTONIC))


@once
def _main_thread() -> Table:
    """The id of Python's main thread, as native code reads it."""
    number = np.array([threading.main_thread().ident], np.uint64).view(np.int64)

    def renew() -> None:
        number[0] = np.uint64(threading.get_ident()).view(np.int64)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
    return number


def table(
    records: Iterable[Sequence[int]],  # the words for the check of each input
    outputs: int,  # the number of outputs
    offsets: Sequence[int],  # the offsets of the temporaries in the arena
    arena: int,  # the size of the arena in bytes
    steps: Sequence[Step],
    views: Sequence[tuple[int, int]] = (),  # the inputs of which they are parts, and their offsets
    releases: bool = False,  # whether to release the GIL
    threads: int = 0,  # the address of the thread pool's record, or 0
    blas: int = 0,  # the address of BLAS's record, or 0
    signals: bool = False,  # whether to check for Python's signals
    number: int = 0,  # the number of the program in the event log; 0 if nothing is logged
) -> Table:
    """The table of a program."""
    inputs = list(records)
    total = len(inputs) + outputs
    places = [*((-1, offset) for offset in offsets), *views]
    frame = total + len(places)
    frame += max((1 + sum(map(len, each[4:7])) for each in steps), default=0)
    checks = [word for record in inputs for word in record]
    words = [id(np.ndarray), len(inputs), total, arena, 0, len(places), len(steps)]
    words += [int(releases), threads, blas, frame, HEADER_WORDS + len(checks)]
    words.append(_main_thread().ctypes.data if signals else 0)
    words += [timeline.address() if number else 0, number]
    words += [*checks, *(word for place in places for word in place)]
    return np.array([*words, *_program(steps, len(words))], np.int64)


def _program(steps: Sequence[Step], start: int) -> list[int]:
    """The words of steps, the first of which is at ``start`` in the table."""
    words: list[int] = []
    starts: list[int] = []
    first: dict[Turns, int] = {}
    """The first step of each open loop; a loop is identified together with its outer loops."""
    left: dict[Turns, int] = {}
    """The loops that end by a condition, and the positions of their exit words."""
    before: Turns = ()
    for number, each in enumerate(steps):
        around = tuple(each.turns)
        assert len(around) <= MOST_NESTED and all(turns > 0 for _, turns in around)
        loops = [around[:depth] for depth in range(len(around), 0, -1)]
        first.update((loop, number) for loop in loops if before[: len(loop)] != loop)
        starts.append(start + len(words))
        words += [each.kernel, each.extent, each.grain, each.longest]
        words += [len(each.buffers), *each.buffers, len(each.sizes), *each.sizes]
        words += [len(around), each.going, 0, 0]
        if each.going >= 0:
            left[around] = len(words) - 2
        following = tuple(steps[number + 1].turns) if number + 1 < len(steps) else ()
        for loop in loops:
            if following[: len(loop)] == loop:
                break
            if loop in left:
                at = left.pop(loop)
                words[at : at + 2] = number, start + len(words)
            words += [len(loop) - 1, loop[-1][1], first[loop], starts[first[loop]]]
        words.append(-1)
        before = around
    return words


def free_with(owner: object, table: Table) -> None:
    """Return the arena of a table to the system when its owner is deleted."""
    if table[ARENA_BYTES]:
        weakref.finalize(owner, _free_arena, table).atexit = False


def _free_arena(table: Table) -> None:
    free = ctypes.pythonapi.PyMem_RawFree
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    free(int(table[KEPT_ARENA]))
    table[KEPT_ARENA] = 0
