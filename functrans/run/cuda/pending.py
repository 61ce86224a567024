"""Failures that are found when somebody looks: status words on the device.

A kernel cannot raise. It stores the number of a failure (`functrans.loop.failures`) in a word on
the device, and goes on. Nobody waits for it: the arrays that a program returns have the word with
them, and whoever looks at their numbers looks at it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

import numpy as np

from functrans.loop.failures import FAILURES
from functrans.run.cuda.driver import Stream
from functrans.run.cuda.memory import Memory

Explain = Callable[[int], Exception]

MOST = 32
"""How many words one array may depend on before they are looked at."""


def brief(code: int) -> Exception:
    """The exception that a number stands for, without particulars."""
    return FAILURES[code].error()


class Status:
    """A status word: an int64 on the device, 0 if all is well. All results of a call share it.

    Parameters
    ----------
    memory : Memory
        The word, which was set to 0 before any kernel could set it to something else.
    explain : callable
        From the number to the exception to be raised. It may compute again by NumPy to say more.
    """

    __slots__ = ("_explain", "_word", "memory")

    def __init__(self, memory: Memory, explain: Explain = brief) -> None:
        self.memory = memory
        self._explain: Explain | None = explain
        self._word = np.zeros(1, np.int64)

    @property
    def known_good(self) -> bool:
        """Whether somebody has looked, and all was well."""
        return self._explain is None

    def fetch(self, stream: Stream) -> None:
        """Have the word copied to the host by the time that the stream is synchronized."""
        if not self.known_good:
            self.memory.read(stream)
            self.memory.driver.copy_out(self._word, self.memory.address, stream)

    def check(self) -> None:
        """Raise if the word, which was fetched, says that something failed: each time anew."""
        code, explain = int(self._word[0]), self._explain
        if code and explain is not None:
            raise explain(code)
        self._explain = None  # what it holds on to is not needed any more


Pending = tuple[Status, ...]
"""The words that an array depends on, and nobody has found to be good."""


def pending(words: Iterable[Pending]) -> Pending:
    """The dependences of a result, from those of the operands and of the program.

    Where that would be many, they are looked at first: a long computation that nobody looks at does
    not hold on to all of its words.

    Raises
    ------
    Exception
        The failure, if they were looked at and something has failed.
    """
    found = tuple(dict.fromkeys(one for one in chain(*words) if not one.known_good))
    if len(found) > MOST:
        look(found)
        return ()
    return found


def look(words: Pending) -> None:
    """Wait for these words, and raise the first failure."""
    for driver in dict.fromkeys(one.memory.driver for one in words):
        stream = driver.stream()
        for one in words:
            if one.memory.driver is driver:
                one.fetch(stream)
        driver.synchronize(stream)
    for one in words:
        one.check()
