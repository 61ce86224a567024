"""Deferred failures: status words on the device, read when a result is.

A kernel cannot raise. It stores a failure code (`functrans.loop.failures`) in a word on the device,
and continues. After the kernels of a call, the word is copied to the host asynchronously, and the
result arrays refer to the copy. Reading their elements also checks the word; computing with them
checks it if it has arrived.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import chain, dropwhile
from typing import Any
from weakref import WeakSet

import numpy as np

from functrans.loop.failures import FAILURES
from functrans.run.cuda.driver import Driver, Event, Stream
from functrans.run.cuda.memory import after_waiting, allocate, keep

Explain = Callable[[int], Exception]

MOST = 32
"""The most words on which an array depends, before the oldest of them are waited for."""

WORD = 8
"""Bytes of a status word."""

_PAGE = 64
"""The number of host words that are allocated at once."""


def brief(code: int) -> Exception:
    """The exception of a failure code, without details."""
    return FAILURES[code].error()


class Flag:
    """The status word of a program on a stream: an int64 on the device, the same for each call."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._memory = allocate(stream.driver, WORD, stream)
        self.address = self._memory.address
        self._free: list[np.ndarray[Any, Any]] = []
        self._last: Event = None

    def fetch(self, explain: Explain = brief) -> Status:
        """Copy the word to the host, after all present work on the stream."""
        driver = self.stream.driver
        try:
            word = self._free.pop()
        except IndexError:
            page = driver.pinned(_PAGE * WORD).view(np.int64)
            word, *more = (page[i : i + 1] for i in range(_PAGE))
            self._free += more
        driver.copy_out(word, self.address, self.stream)
        self._last = driver.record(self.stream)
        return Status(self, word, self._last, explain)

    def let_go(self, word: np.ndarray[Any, Any]) -> None:
        """Release a host word for reuse: the next copy to it is later on the stream."""
        self._free.append(word)

    def __del__(self) -> None:
        if self._last is not None and not sys.is_finalizing():
            keep(self.stream.driver, self._last, self._free)


class Status:
    """The status word after a call, 0 for success, shared by all results of the call."""

    __slots__ = ("__weakref__", "_explain", "_flag", "_word", "event")

    def __init__(
        self,
        flag: Flag,  # the device word that was copied
        word: np.ndarray[Any, Any],  # the host word that is copied to
        event: Event,  # the event of its arrival
        # maps the code to the exception to be raised; it may compute again by NumPy for details
        explain: Explain,
    ) -> None:
        self._flag = flag
        self._word = word
        self.event = event
        self._explain: Explain | None = explain
        _unknown.add(self)

    @property
    def driver(self) -> Driver:
        """The driver of its device."""
        return self._flag.stream.driver

    def is_good(self) -> bool:
        """Whether the word has arrived and reports success, without waiting."""
        if self._explain is not None and self.driver.happened(self.event) and not self._word[0]:
            self._explain = None  # its references are no longer needed
            _unknown.discard(self)
        return self._explain is None

    def fetch(self, stream: Stream) -> None:
        """Make the word arrive at the host before a synchronization of a stream ends."""
        if self._explain is not None and stream is not self._flag.stream:
            self.driver.wait(stream, self.event)

    def check(self) -> None:
        """Raise a new exception if the word, which has arrived, reports a failure."""
        explain = self._explain
        if not self.is_good() and explain is not None:
            raise explain(int(self._word[0]))

    def __del__(self) -> None:
        self._flag.let_go(self._word)


_unknown: WeakSet[Status] = WeakSet()
"""The statuses that are unknown so far, or have failed."""


def _settle(driver: Driver) -> None:
    """Check all words of a synchronized device, and drop their references."""
    for one in list(_unknown):
        if one.driver is driver:
            one.is_good()


after_waiting.append(_settle)

Pending = tuple[Status, ...]
"""The words on which an array depends that are not known to report success."""


def pending(words: Iterable[Pending]) -> Pending:
    """The dependences of a result, from those of the operands and of the program.

    If there are many, the older half of them is waited for: a long computation whose results are
    never read does not keep all of its words, and the device still has queued work. Raises the
    failure, if something that was waited for has failed.
    """
    # they arrive in order: after one that has not arrived, no other need be checked
    found = tuple(dropwhile(Status.is_good, dict.fromkeys(chain(*words))))
    if len(found) > MOST:
        older = found[: len(found) - MOST // 2]
        for one in older:
            one.driver.reach(one.event)
            one.check()
        return found[len(older) :]
    return found


def look(words: Pending) -> None:
    """Wait for words, and raise the first failure."""
    for one in words:
        one.driver.reach(one.event)
    for one in words:
        one.check()
