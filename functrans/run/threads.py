"""Threads: Numba's pool, used by the native programs without Numba's compiler.

The pool is the *workqueue* layer, an extension module inside of Numba that needs nothing of the
rest: its threads survive a ``fork`` of the process, OpenMP's do not. It must not be entered by two
threads at once, so a program that finds it busy runs on the caller's thread; its results are the
same.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from functrans import config

_LAYER = "numba.np.ufunc.workqueue"


class Pool(NamedTuple):
    """The addresses that a program needs to use the threads."""

    parallel_for: int
    threads: int
    lock: int


ALONE = Pool(0, 1, 0)

_busy = np.zeros(1, np.int64)


def pool() -> Pool:
    """The pool, its threads started; `ALONE` if there is to be one thread only."""
    return _pool(config.threads) if config.threads > 1 else ALONE


@lru_cache(maxsize=8)
def _pool(threads: int) -> Pool:
    layer = _layer()
    if layer is None:
        return ALONE
    ctypes.CFUNCTYPE(None, ctypes.c_int)(layer.launch_threads)(threads)
    return Pool(layer.parallel_for, threads, _busy.ctypes.data)


def _layer() -> Any:
    """The extension module, loaded without the half second that importing Numba takes."""
    loaded = sys.modules.get(_LAYER)
    if loaded is not None:
        return loaded
    numba = importlib.util.find_spec("numba")
    if numba is None or not numba.submodule_search_locations:
        return None
    folder = Path(numba.submodule_search_locations[0], "np", "ufunc")
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = folder / f"workqueue{suffix}"
        if path.exists():
            loader = importlib.machinery.ExtensionFileLoader(_LAYER, str(path))
            spec = importlib.machinery.ModuleSpec(_LAYER, loader, origin=str(path))
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            return module
    return None
