"""Event log of programs: the time of each step, and each thread's share of it.

Native code (``took`` in ``steps.ll``) writes events into memory that is there for the process, so
that a thread that is late to write one finds it. While the log is closed a call pays for one look.

The record is an array of words: how many events there is room for (0: closed), how many there have
been, and where they are. An event has six words: the number of the program, that of the step, the
thread's share (-1: all of the step), the thread that called, and the times of start and end.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from functrans import spans
from functrans.caches import once
from functrans.locks import lock

if TYPE_CHECKING:
    from functrans.run.call.program import NativeProgram

ROOM, COUNT, EVENTS = range(3)

MOST_EVENTS = 1_000_000

_WORDS = 6

_record = np.zeros(3, np.int64)
_lock = lock()
_numbers = count(1)

_programs: WeakValueDictionary[int, NativeProgram] = WeakValueDictionary()
"""The programs that there are, by the numbers that stand in events."""

_made: list[NativeProgram] = []
"""Those that were made since the log was opened."""


class Event(NamedTuple):
    """A step's time, or that of a thread's share of it.

    Parameters
    ----------
    program, step : int
        The number of a program; that of a step among its own.
    share : int
        Which thread's share; -1 for the whole step.
    caller : int
        The thread that called.
    start, end : int
        Nanoseconds, as `functrans.spans.now` has them.
    """

    program: int
    step: int
    share: int
    caller: int
    start: int
    end: int


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
    # what is never written takes no memory
    return np.zeros((MOST_EVENTS, _WORDS), np.int64)


def open_log() -> None:
    """Begin to write events and spans down.

    Raises
    ------
    RuntimeError
        If they are written down already.
    """
    with _lock:
        if _record[ROOM]:
            raise RuntimeError("debug.profile() is already at work: there is one at a time")
        spans.open_log()
        _record[EVENTS] = _events().ctypes.data
        _record[COUNT] = 0
        _record[ROOM] = MOST_EVENTS


class Log(NamedTuple):
    """What has been written down.

    Parameters
    ----------
    events : list of Event
    lost : int
        How many more there were, for which there was no room.
    spans : list of Span
    programs : dict
        The programs of the events by their numbers, as far as they still exist.
    """

    events: list[Event]
    lost: int
    spans: list[spans.Span]
    programs: dict[int, NativeProgram]


def close_log() -> Log:
    """End what `open_log` began."""
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
