"""Deferred failures: status words on the device, read when a result is.

A kernel cannot raise. It stores the number of a failure (`functrans.loop.failures`) in a word on
the device, and goes on. Nobody waits for it: behind the kernels of a call the word is copied to the
host, and the arrays that a program returns know where. Whoever looks at their numbers looks at it
as well, and who computes with them asks whether it has come.
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
"""How many words one array may depend on before the oldest of them are waited for."""

WORD = 8
"""Bytes of a status word."""

_PAGE = 64
"""How many words of the host are allocated at once."""


def brief(code: int) -> Exception:
    """The exception that a number stands for, without particulars."""
    return FAILURES[code].error()


class Flag:
    """The status word of a program on a stream: an int64 on the device, the same for each call.

    Parameters
    ----------
    stream : Stream
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._memory = allocate(stream.driver, WORD, stream)
        self.address = self._memory.address
        self._free: list[np.ndarray[Any, Any]] = []
        self._last: Event = None

    def fetch(self, explain: Explain = brief) -> Status:
        """What it says once all is done that is on the stream by now."""
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
        """Take back a word of the host: what is copied there next comes later on the stream."""
        self._free.append(word)

    def __del__(self) -> None:
        if self._last is not None and not sys.is_finalizing():
            keep(self.stream.driver, self._last, self._free)


class Status:
    """A status word as it was after a call, 0 if all is well. All results of the call share it.

    Parameters
    ----------
    flag : Flag
        Which was copied.
    word : array
        Of the host, to where.
    event : Event
        When it will be there.
    explain : callable
        From the number to the exception to be raised. It may compute again by NumPy to say more.
    """

    __slots__ = ("__weakref__", "_explain", "_flag", "_word", "event")

    def __init__(
        self, flag: Flag, word: np.ndarray[Any, Any], event: Event, explain: Explain
    ) -> None:
        self._flag = flag
        self._word = word
        self.event = event
        self._explain: Explain | None = explain
        _unknown.add(self)

    @property
    def driver(self) -> Driver:
        """Of the device that it is on."""
        return self._flag.stream.driver

    def is_good(self) -> bool:
        """Whether the word has come, and all was well. Nothing is waited for."""
        if self._explain is not None and self.driver.happened(self.event) and not self._word[0]:
            self._explain = None  # what it holds on to is not needed any more
            _unknown.discard(self)
        return self._explain is None

    def fetch(self, stream: Stream) -> None:
        """Have the word come to the host by the time that a stream is synchronized."""
        if self._explain is not None and stream is not self._flag.stream:
            self.driver.wait(stream, self.event)

    def check(self) -> None:
        """Raise if the word, which has come, says that something failed: each time anew."""
        explain = self._explain
        if not self.is_good() and explain is not None:
            raise explain(int(self._word[0]))

    def __del__(self) -> None:
        self._flag.let_go(self._word)


_unknown: WeakSet[Status] = WeakSet()
"""Those of which nobody knows yet, or that have failed."""


def _settle(driver: Driver) -> None:
    """Look at all words of a device, which has done its work: what they hold on to may go."""
    for one in list(_unknown):
        if one.driver is driver:
            one.is_good()


after_waiting.append(_settle)

Pending = tuple[Status, ...]
"""The words that an array depends on, and nobody has found to be good."""


def pending(words: Iterable[Pending]) -> Pending:
    """The dependences of a result, from those of the operands and of the program.

    Where these are many, the older half of them is waited for: a long computation that nobody looks
    at does not hold on to all of its words, and the device still has work meanwhile.

    Raises
    ------
    Exception
        The failure, if they were waited for and something has failed.
    """
    # (they come one after the other: what is behind one that has not come need not be asked for)
    found = tuple(dropwhile(Status.is_good, dict.fromkeys(chain(*words))))
    if len(found) > MOST:
        older = found[: len(found) - MOST // 2]
        for one in older:
            one.driver.reach(one.event)
            one.check()
        return found[len(older) :]
    return found


def look(words: Pending) -> None:
    """Wait for these words, and raise the first failure."""
    for one in words:
        one.driver.reach(one.event)
    for one in words:
        one.check()
