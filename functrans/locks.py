"""Locks, and their state after a process forks.

A forked child has only the thread that forked. A lock that another thread held at that moment would
stay locked for ever in the child, so the child creates it anew: the data that our locks guard are
consistent between any two operations. The data of other libraries, and modules that are being
imported, need not be, so a fork waits until no thread is using them.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

    It is Python's own object, not a wrapper, so no signal can arrive between its acquisition and
    the block that it guards.
    """
    made = threading.RLock()
    with _adding:
        _renewed.add(made)
    return made


@contextmanager
def without_collection() -> Iterator[None]:
    """Python's search for cyclic garbage is switched off, for code whose many objects are in use.

    It would search them again and again, which took a quarter of the time.
    """
    enabled = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if enabled:
            gc.enable()


_ALLOCATIONS = 5000
"""Allocations between two searches for garbage while a program is compiled (Python's own: 700)."""


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Python searches for cyclic garbage less often, for code that makes many objects without it.

    It searches still, since this holds for the whole process: also for what other threads make.
    """
    usual = gc.get_threshold()
    raised = (max(usual[0], _ALLOCATIONS), *usual[1:]) if usual[0] else usual  # 0: switched off
    try:
        gc.set_threshold(*raised)
        yield
    finally:
        if gc.get_threshold() == raised:
            gc.set_threshold(*usual)


def wait_at_fork(acquire: Callable[[], object], release: Callable[[], object]) -> None:
    """Make forks acquire a lock first; several are acquired in the order of these calls."""
    _awaited.append((acquire, release))


importing = threading.RLock()
"""Held during lazy imports. A fork waits for it, because a child process could never complete an
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
    # this succeeds if the lock is free, or held by this thread
    if one.acquire(blocking=False):
        one.release()
    else:
        one._at_fork_reinit()  # type: ignore[union-attr]  # as the standard library does


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
