"""LLVM's binding, loaded when it is first needed."""

from __future__ import annotations

import atexit
from functools import partial
from typing import Any

from functrans.caches import once
from functrans.locks import importing, lock, wait_at_fork

compiling = lock()
"""Held by who compiles something: LLVM does one thing at a time."""


@once
def llvm() -> Any:
    """The module ``llvmlite.binding``.

    Every call of it is made under one lock of llvmlite's, and takes as long as LLVM does. Nobody
    must be in there when the process forks: the child would find LLVM as it was left. Nor when the
    process ends: LLVM takes itself apart, and who is still at work crashes. So both wait.
    """
    with importing:
        import llvmlite.binding as binding

        inside = binding.ffi.lib._lock
        wait_at_fork(inside.__enter__, partial(inside.__exit__, None, None, None))
    atexit.register(_end, inside)
    return binding


def _end(inside: Any) -> None:
    """Let what is being compiled be finished, and no other thread begin again."""
    compiling.acquire()
    inside.__enter__()
