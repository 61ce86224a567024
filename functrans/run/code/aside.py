"""Uninterruptible work, executed in other threads while the caller waits.

Python handles signals in its main thread only, between two bytecode instructions: while that thread
executes LLVM, Ctrl-C has no effect; and an exception of a signal handler may arise anywhere in
LLVM's binding, for instance between acquiring and releasing its lock. Waiting for another thread,
however, can be interrupted at any time. The work then continues in its thread.

New threads are started each time, which takes some tens of microseconds each. So there are no idle
threads that a forked child would miss.
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
    """Do some work in another thread; return its result, or raise its exception."""
    return side_by_side([work], 1)[0]


def side_by_side(work: Sequence[Callable[[], T]], most: int) -> list[T]:
    """The results of several pieces of work, started in this order, at most ``most`` at a time.

    If one of them raises an exception, or a signal arrives, no further one is started.

    Outside of the main thread there are no signals to handle: the caller does the work itself, one
    piece after the other. So it does at the end of the process, when threads cannot be started.
    """
    waiting = deque(enumerate(work))
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def run() -> None:
        try:
            while (taken := _next(waiting)) is not None:
                number, one = taken
                results[number] = one()
        except BaseException as error:  # raised in the caller
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
            except RuntimeError:  # no more threads can be started
                break
            running.append(done)
        if not running:
            run()
        for done in running:
            while not done.acquire(timeout=0.1):  # on Windows, only Python's loop sees signals
                pass
    finally:
        waiting.clear()
    if errors:
        raise errors.pop()
    return [results[number] for number in range(len(work))]


def ahead(work: Callable[[], object]) -> None:
    """Start work in advance; its exceptions are raised in the later caller that needs it."""

    def run() -> None:
        with _as_the_library(), suppress(Exception):
            work()

    if _may_start(2):
        with suppress(RuntimeError):
            _thread.start_new_thread(run, ())


@contextmanager
def _as_the_library() -> Iterator[None]:
    """Register this thread as the library's own, which changes no state that users read."""
    own = threading.get_ident()
    library_threads.add(own)
    try:
        yield
    finally:
        library_threads.discard(own)


def _may_start(most: int) -> bool:
    """Whether threads are useful, and can be started."""
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
