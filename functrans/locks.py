"""Locks, and their state after a process forks.

A forked child has the thread that forked and no other. A lock that another thread held at that
moment would stay locked in the child for ever, so it is renewed there: whatever our locks guard is
sound between any two operations on it. What is not sound, since it is not ours (a library in the
middle of its work, a module that is half imported), is waited for instead: a fork waits until
nobody is in there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from weakref import WeakSet

library_threads: set[int] = set()
"""The threads that the library has started for its own work and that have not ended."""

_renewed: WeakSet[threading.RLock] = WeakSet()
_adding = threading.Lock()

_awaited: list[tuple[Callable[[], object], Callable[[], object]]] = []
_taken: list[Callable[[], object]] = []
"""The releases of the locks that were acquired for a fork; guarded by the first of these locks."""


def lock() -> threading.RLock:
    """A re-entrant lock. In a forked child it is free, unless the thread that forked had it.

    It is one of Python's own, and not an object around one: a signal cannot come between its being
    acquired and the block that it is acquired for.
    """
    made = threading.RLock()
    with _adding:
        _renewed.add(made)
    return made


def wait_at_fork(acquire: Callable[[], object], release: Callable[[], object]) -> None:
    """Have forks acquire a lock first: in the order in which they are named here."""
    _awaited.append((acquire, release))


importing = threading.RLock()
"""Held during a deferred import, for which a fork waits: a child process could never complete an
import that another thread had begun.
"""

wait_at_fork(importing.acquire, importing.release)


def _before() -> None:
    for acquire, release in _awaited:
        acquire()
        _taken.append(release)


def _after() -> None:
    while _taken:
        _taken.pop()()


def _after_in_child() -> None:
    library_threads.clear()
    _after()
    _renew(_adding)
    for one in _renewed:
        _renew(one)


def _renew(one: threading.RLock | threading.Lock) -> None:
    # it can be had if it is free, or if this thread has it already
    if one.acquire(blocking=False):
        one.release()
    else:
        one._at_fork_reinit()  # type: ignore[union-attr]  # as the standard library does


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
