"""The thread pool that shares the loops of native programs.

Python starts the threads, which never return to it: each stays in the native code of
`functrans.run.threads.pool`, which describes how loops are shared. A program that finds them busy
runs on the caller's thread, with the same result. A forked child has none of its parent's threads,
and starts its own.

The number of threads is ``functrans.config.threads``, unless ``threadpoolctl`` (if it is installed)
has set another number since.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from functrans import config
from functrans.caches import once
from functrans.locks import importing, library_threads, lock
from functrans.run.threads import pool
from functrans.run.threads.pool import MOST_THREADS, THREADS, WORKER
from functrans.version import __version__

# Aligned to a cache line, by skipping the first words.
_memory = np.zeros(pool.WORDS + 8, np.int64)
_record = _memory[-_memory.ctypes.data // 8 % 8 :]

_STACK = 1 << 20
"""The stack of a thread: a kernel's need is bounded (`LARGEST_STACK` of
`functrans.lower.nest.bodies`)."""

_lock = lock()
_started = 0


def record() -> int:
    """The address of the record by which programs use the threads."""
    _initialise()
    _prepare()
    return _record.ctypes.data


@once
def _initialise() -> None:
    """Initialise the record, once, before threads are started that wait on it."""
    code = pool.code()
    # never freed: threads use both until the process ends, after the interpreter
    for one in (_memory, code):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
    initialise = partial(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address), _record.ctypes.data)
    initialise()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=partial(_after_fork, initialise))


@once
def _prepare() -> None:
    config.on_change("threads", _limit)
    _limit(config.threads)
    _join_threadpoolctl()


def _limit(number: int) -> None:
    """Set the number of threads, including the caller's, and start the missing ones."""
    global _started
    number = max(1, min(number, MOST_THREADS))
    with _lock:
        while _started < number - 1 and _start(_started + 1):
            _started += 1
    _record[THREADS] = min(number, _started + 1)


def _start(number: int) -> bool:
    """Start a thread; False if that is impossible."""
    try:
        usual = threading.stack_size(_STACK)  # this function both gets and sets the stack size
        try:
            if not 0 < usual < _STACK:
                threading.stack_size(usual)
            _thread.start_new_thread(_work, (number,))
        finally:
            threading.stack_size(usual)
    except (RuntimeError, MemoryError):
        return False
    return True


def _work(number: int) -> None:
    library_threads.add(threading.get_ident())
    pointer_and_number = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    pointer_and_number(int(_record[WORKER]))(_record.ctypes.data, number)


def _join_threadpoolctl() -> None:
    """Make ``threadpoolctl.threadpool_limits`` apply to this thread pool too."""
    try:
        with importing:
            import threadpoolctl
    except ImportError:
        return

    umath = sys.modules["numpy._core._multiarray_umath"]

    class Controller(threadpoolctl.LibController):  # type: ignore[misc]
        user_api = "functrans"
        internal_api = "functrans"
        # threadpoolctl looks for libraries: NumPy's stands for this pool, which has none
        filename_prefixes = (Path(str(umath.__file__)).name.lower(),)

        def get_num_threads(self) -> int:
            return int(_record[THREADS])

        def set_num_threads(self, num_threads: int) -> None:
            _limit(num_threads)

        def get_version(self) -> str:
            return __version__

    threadpoolctl.register(Controller)


def _after_fork(initialise: Callable[[], None]) -> None:
    # in a forked child, working and waiting threads do not exist
    global _started
    number = int(_record[THREADS])
    _record[:] = 0
    initialise()
    _started = 0
    _limit(number)
