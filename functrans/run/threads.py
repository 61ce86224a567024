"""Threads: Numba's pool, used by the native programs without Numba's compiler.

The pool is the *workqueue* layer, an extension module inside of Numba that needs nothing of the
rest. Three things about it decide what is done here:

- two threads must not enter it at once: a program that finds it busy runs on the caller's thread,
  with the same result;
- a forked child has no threads of it, until they are launched again. Not every version does that by
  itself, so each use asks for it, which costs nothing if they are there (OpenMP's pool would never
  work again);
- it must not be asked for more threads than were launched the first time: it would
  wait for them forever.

How many threads are used is ``functrans.config.threads``, unless ``threadpoolctl`` (if it is
installed) has set another number since.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import sys
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from functrans import config
from functrans.version import __version__

_LAYER = "numba.np.ufunc.workqueue"

_PARALLEL_FOR, _LAUNCH, _LAUNCHED, _THREADS, _BUSY = range(5)

# What `functrans.run.entry` reads: the addresses of the layer's functions, how many threads were
# launched, how many are to be used, and whether some program is using them.
_record = np.array([0, 0, 0, 1, 0], np.int64)


def record() -> int:
    """The address of the record by which programs use the threads; they are launched."""
    _launch()
    return _record.ctypes.data


@lru_cache(maxsize=1)
def _launch() -> None:
    layer = _layer()
    if layer is None:
        return
    most = max(config.threads, os.cpu_count() or 1)
    ctypes.CFUNCTYPE(None, ctypes.c_int)(layer.launch_threads)(most)
    _record[:_THREADS] = layer.parallel_for, layer.launch_threads, _launched(layer)
    config.on_change("threads", _limit)
    _limit(config.threads)
    _join_threadpoolctl(Path(layer.__file__).name)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)


def _launched(layer: Any) -> int:
    """How many threads there are: Numba may have launched them before us."""
    found: list[int] = []
    get = ctypes.CFUNCTYPE(ctypes.c_int)(layer.get_num_threads)
    # in a thread where nobody has set another number
    thread = threading.Thread(target=lambda: found.append(get()))
    thread.start()
    thread.join()
    return found[0]


def _limit(threads: int) -> None:
    _record[_THREADS] = max(1, min(threads, int(_record[_LAUNCHED])))


def _join_threadpoolctl(library: str) -> None:
    """Have ``threadpoolctl.threadpool_limits`` count for our threads too."""
    try:
        import threadpoolctl
    except ImportError:
        return

    class Controller(threadpoolctl.LibController):  # type: ignore[misc]
        user_api = "functrans"
        internal_api = "functrans"
        filename_prefixes = (library,)

        def get_num_threads(self) -> int:
            return int(_record[_THREADS])

        def set_num_threads(self, num_threads: int) -> None:
            _limit(num_threads)

        def get_version(self) -> str:
            return __version__

    threadpoolctl.register(Controller)


def _after_fork() -> None:
    # whoever was using the threads is not in this process
    _record[_BUSY] = 0


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
