"""LLVM's binding, loaded on first use, and which threads may be in LLVM when."""

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
    """The threads that are in LLVM: any number of them, each with a context of its own.

    Nobody must be in there when the process forks: the child would find LLVM as it was left. Nor
    when the process ends: LLVM takes itself apart, and who is still at work crashes. Both wait, and
    let nobody in but the thread that they are made by.
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
        """Wait until nobody is in there, and let no other thread in."""
        self._changed.acquire()
        while self._count:
            self._changed.wait()

    def open(self) -> None:
        self._changed.release()


inside = Inside()


@once
def llvm() -> Any:
    """The module ``llvmlite.binding``.

    Every call of it is made under one lock of llvmlite's, for which forks and the end of the
    process wait as well.
    """
    with importing:
        import llvmlite.binding as binding

        calling = binding.ffi.lib._lock
        wait_at_fork(inside.close, inside.open)
        wait_at_fork(calling.__enter__, partial(calling.__exit__, None, None, None))
    atexit.register(_end, calling)
    return binding


def _end(calling: Any) -> None:
    """Let what is being compiled be finished, and no other thread begin again."""
    inside.close()
    calling.__enter__()


@once
def unlocked() -> Callable[..., Any]:
    """``LLVMPY_TargetMachineEmitToMemory`` without llvmlite's lock, under which threads wait.

    LLVM itself lets threads work side by side, if each has a context and a target machine of its
    own. Nearly all of the time of compiling goes into this one function.
    """
    library = llvm().ffi.lib
    wrapped = library.LLVMPY_TargetMachineEmitToMemory
    emit = ctypes.CDLL(library._name, handle=library._handle).LLVMPY_TargetMachineEmitToMemory
    emit.argtypes, emit.restype = wrapped.argtypes, wrapped.restype
    result: Callable[..., Any] = emit
    return result
