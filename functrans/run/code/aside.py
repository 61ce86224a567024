"""Uninterruptible work: done in threads of its own while the caller waits.

Python handles signals in its main thread only, between two of its own instructions: for as long as
that thread is inside of LLVM, Ctrl-C does nothing; and an exception that a handler raises may come
anywhere in LLVM's binding, for instance between acquiring its lock and whatever releases it.
Waiting for another thread, though, can be broken off at any time. The work then goes on alone.

The threads are new ones each time. That takes some tens of microseconds each, and there are none
that a fork would have to do without.
"""

from __future__ import annotations

import _thread
import atexit
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from functrans.caches import once
from functrans.locks import library_threads

T = TypeVar("T")

_ending = threading.Event()


def aside(work: Callable[[], T]) -> T:
    """The result of some work, or the exception that it raises."""
    return side_by_side([work], 1)[0]


def side_by_side(work: Sequence[Callable[[], T]], most: int) -> list[T]:
    """The results of several pieces of work, begun in this order, a few at a time.

    If one of them raises an exception, or a signal comes, no other is begun.

    Outside of the main thread there are no signals to take care of: one at a time, the caller does
    the work. So it does at the end of the process, when threads can no longer be started, or stop
    at anything.
    """
    waiting = deque(enumerate(work))
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def run() -> None:
        try:
            while (taken := _next(waiting)) is not None:
                number, one = taken
                results[number] = one()
        except BaseException as error:  # it is the caller's
            waiting.clear()
            errors.append(error)

    def run_aside(done: _thread.LockType) -> None:
        with _as_the_library():
            run()
        done.release()

    running: list[_thread.LockType] = []
    try:
        while len(running) < min(most, len(work)) and _may_start(most):
            done = _thread.allocate_lock()
            done.acquire()
            try:
                _thread.start_new_thread(run_aside, (done,))
            except RuntimeError:  # there are no more threads to be had
                break
            running.append(done)
        if not running:
            run()
        for done in running:
            while not done.acquire(timeout=0.1):  # on Windows, only Python's loop sees a signal
                pass
    finally:
        waiting.clear()
    if errors:
        raise errors.pop()
    return [results[number] for number in range(len(work))]


def ahead(work: Callable[[], object]) -> None:
    """Have some work begun that will be wanted soon, by who asks for it and gets its exceptions."""

    def run() -> None:
        with _as_the_library(), suppress(Exception):
            work()

    if _may_start(2):
        with suppress(RuntimeError):
            _thread.start_new_thread(run, ())


@contextmanager
def _as_the_library() -> Iterator[None]:
    """Have this thread counted among the library's own, which change nothing that users read."""
    own = threading.get_ident()
    library_threads.add(own)
    try:
        yield
    finally:
        library_threads.discard(own)


def _may_start(most: int) -> bool:
    """Whether threads are of use, and can be started."""
    _watch_the_end()
    is_main = threading.get_ident() == threading.main_thread().ident
    return not _ending.is_set() and (most > 1 or is_main)


def _next(waiting: deque[T]) -> T | None:
    with suppress(IndexError):
        return waiting.popleft()
    return None


@once
def _watch_the_end() -> None:
    atexit.register(_ending.set)
