"""LLVM's binding, imported on first use, and the synchronisation of threads that execute LLVM."""

from __future__ import annotations

import atexit
import ctypes
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from functrans.caches import once
from functrans.locks import importing, wait_at_fork


class Inside:
    """The threads that execute LLVM: any number of them, each with its own context.

    No thread may execute LLVM when the process forks, since the child would find LLVM in an
    intermediate state; nor when the process ends, since LLVM's destructors would crash a running
    thread. A fork and the exit wait, and admit no other thread but their own.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """Wait until no thread executes LLVM, and admit no other thread."""
        self._changed.acquire()
        while self._count:
            self._changed.wait()

    def open(self) -> None:
        self._changed.release()


inside = Inside()


@once
def llvm() -> Any:
    """The module ``llvmlite.binding``.

    Every call of it holds llvmlite's lock, for which forks and the end of the process wait too.
    """
    with importing:
        import llvmlite.binding as binding

        calling = binding.ffi.lib._lock
        wait_at_fork(inside.close, inside.open)
        wait_at_fork(calling.__enter__, partial(calling.__exit__, None, None, None))
    atexit.register(_end, calling)
    return binding


def _end(calling: Any) -> None:
    """Wait for running compilations, and let no other thread start one."""
    inside.close()
    calling.__enter__()


@once
def unlocked() -> Callable[..., Any]:
    """``LLVMPY_TargetMachineEmitToMemory`` without llvmlite's lock, for parallel threads.

    LLVM supports parallel threads, if each has its own context and target machine. Nearly all of
    the compile time is spent in this function.
    """
    library = llvm().ffi.lib
    wrapped = library.LLVMPY_TargetMachineEmitToMemory
    emit = ctypes.CDLL(library._name, handle=library._handle).LLVMPY_TargetMachineEmitToMemory
    emit.argtypes, emit.restype = wrapped.argtypes, wrapped.restype
    return emit
