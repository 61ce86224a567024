"""Event log of programs: the time of each step, and of each thread's share of it.

Native code (``took`` in ``steps.ll``) writes events into memory that is never freed, so that a late
thread can still write. While the log is closed, a call only tests a word.

The record is an array of words: the capacity in events (0: closed), the number of events so far,
and their address. An event has six words: the number of the program, that of the step, the thread's
share (-1: the whole step), the calling thread, and the times of start and end.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np

from functrans import spans
from functrans.caches import once
from functrans.locks import lock
from functrans.records import NamedTuple

if TYPE_CHECKING:
    from functrans.run.call.program import NativeProgram

ROOM, COUNT, EVENTS = range(3)

MOST_EVENTS = 1_000_000

_WORDS = 6

_record = np.zeros(3, np.int64)
_lock = lock()
_numbers = count(1)

_programs: WeakValueDictionary[int, NativeProgram] = WeakValueDictionary()
"""The live programs, by their numbers in events."""

_made: list[NativeProgram] = []
"""The programs that were created since the log was opened."""


class Event(NamedTuple):
    """The time of a step, or of a thread's share of it."""

    program: int  # the number of the program
    step: int  # the number of the step in it
    share: int  # the number of the thread's share; -1 for the whole step
    caller: int  # the calling thread
    start: int  # nanoseconds, on the clock of `functrans.spans.now`
    end: int  # the same


def address() -> int:
    """The address of the record."""
    return _record.ctypes.data


def numbered(program: NativeProgram) -> int:
    """A number for a new program."""
    number = next(_numbers)
    _programs[number] = program
    if _record[ROOM]:
        _made.append(program)
    return number


@once
def _events() -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    # pages that are never written take no memory
    return np.zeros((MOST_EVENTS, _WORDS), np.int64)


def open_log() -> None:
    """Start to record events and spans.

    Raises `RuntimeError` if they are being recorded already.
    """
    with _lock:
        if _record[ROOM]:
            raise RuntimeError("debug.profile() is already at work: there is one at a time")
        spans.open_log()
        _record[EVENTS] = _events().ctypes.data
        _record[COUNT] = 0
        _record[ROOM] = MOST_EVENTS


class Log(NamedTuple):
    """The recorded events and spans."""

    events: list[Event]
    lost: int  # the number of events for which there was no room
    spans: list[spans.Span]
    programs: dict[int, NativeProgram]  # the programs of the events that still exist, by number


def close_log() -> Log:
    """Stop the recording that `open_log` started, and return it."""
    with _lock:
        _record[ROOM] = 0
        seen = int(_record[COUNT])
        written = _events()[: min(seen, MOST_EVENTS)]
        events = [Event(*row) for row in written.tolist() if row[-1]]
        written[:] = 0
        programs = {number: _programs.get(number) for number in {each.program for each in events}}
        _made.clear()
        known = {number: program for number, program in programs.items() if program is not None}
        return Log(events, max(seen - MOST_EVENTS, 0), spans.close_log(), known)
