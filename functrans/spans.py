"""Spans: the library's current activity besides running compiled code, for profilers.

While no profile is active, a span costs one look-up of a global.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from functrans.records import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Span(NamedTuple):
    """An activity of the library, in one thread."""

    kind: str  # "trace", "optimise", "plan", "print", "compile", "load" or "NumPy"
    name: str  # the function or operation that it concerned
    source: object  # the `Source` of the operation in the user's code, or None
    thread: int
    start: int  # nanoseconds, on the clock of `now`
    end: int


_log: list[Span] | None = None
"""The active recorder of spans; None if no profile is active."""

_NOTHING = nullcontext()

if sys.platform == "win32":
    now = time.perf_counter_ns
else:

    def now() -> int:
        """The time in nanoseconds, on the clock that native code reads as well."""
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def span(kind: str, name: object = "", source: object = None) -> AbstractContextManager[None]:
    """Record the time of a with block as a span, if a profile is active."""
    log = _log
    return _NOTHING if log is None else _written(kind, name, source, log)


@contextmanager
def _written(kind: str, name: object, source: object, log: list[Span]) -> Iterator[None]:
    start = now()
    try:
        yield
    finally:
        log.append(Span(kind, str(name), source, threading.get_ident(), start, now()))


def open_log() -> None:
    """Start recording spans."""
    global _log
    _log = []


def close_log() -> list[Span]:
    """Stop recording, and return the spans in the order in which they ended."""
    global _log
    log, _log = _log, None
    return log or []
