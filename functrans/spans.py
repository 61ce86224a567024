"""Spans: the library's current activity besides running compiled code, for profilers.

While nobody does, a span costs a look at one name.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Span(NamedTuple):
    """A piece of work.

    Parameters
    ----------
    kind : str
        What the library did: "trace", "optimise", "plan", "print", "compile", "load", "NumPy".
    name : str
        To what: a function, an operation.
    source : Source or None
        The line of the user's that an operation is of.
    thread : int
    start, end : int
        Nanoseconds, as `now` has them.
    """

    kind: str
    name: str
    source: object
    thread: int
    start: int
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
    """Have what is done meanwhile written down, if somebody profiles."""
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
    """Begin to write spans down."""
    global _log
    _log = []


def close_log() -> list[Span]:
    """The spans since the log was opened, in the order in which they ended."""
    global _log
    log, _log = _log, None
    return log or []
