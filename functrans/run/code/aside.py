"""Work that no signal can break off, done in a thread of its own while the caller waits.

Python handles signals in its main thread only, between two of its own instructions: for as long as
that thread is inside of LLVM, Ctrl-C does nothing; and an exception that a handler raises may come
anywhere in LLVM's binding, for instance between acquiring its lock and whatever releases it.
Waiting for another thread, though, can be broken off at any time. The work then goes on alone.

The thread is a new one each time. That takes some tens of microseconds, and there is none that a
fork would have to do without.
"""

from __future__ import annotations

import _thread
import atexit
import threading
from collections.abc import Callable
from typing import TypeVar

from functrans.caches import once

T = TypeVar("T")

_ending = threading.Event()


def aside(work: Callable[[], T]) -> T:
    """The result of some work, or the exception that it raises.

    Outside of the main thread there are no signals to take care of. Nor is this done at the end of
    the process, when threads can no longer be started, or stop at anything.
    """
    _watch_the_end()
    if _ending.is_set() or threading.get_ident() != threading.main_thread().ident:
        return work()
    results: list[T] = []
    errors: list[BaseException] = []
    done = _thread.allocate_lock()
    done.acquire()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # it is the caller's
            errors.append(error)
        finally:
            done.release()

    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:  # there are no more threads to be had
        return work()
    while not done.acquire(timeout=0.1):  # on Windows, only Python's own loop sees a signal
        pass
    if errors:
        raise errors.pop()
    return results.pop()


@once
def _watch_the_end() -> None:
    atexit.register(_ending.set)
