"""Switches. Set them as attributes of this module: ``functrans.config.threads = 1``."""

from __future__ import annotations

import os
from pathlib import Path


def _default_threads() -> int:
    for name in ("FUNCTRANS_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "").split(",")[0].strip()
        if text.isdigit() and int(text) > 0:
            return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _default_cache_dir() -> Path:
    named = os.environ.get("FUNCTRANS_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "functrans"


threads: int = _default_threads()
"""How many threads compiled code may use. From the environment variables FUNCTRANS_NUM_THREADS,
NUMBA_NUM_THREADS or OMP_NUM_THREADS, else the number of CPUs this process may run on. Results do
not depend on it."""

parallel_threshold: int = 200_000
"""How many scalar operations a loop must do for it to be split among threads."""

cache: bool = os.environ.get("FUNCTRANS_CACHE", "1") not in ("0", "off", "no", "false")
"""Whether compiled code is kept on disk. Off if the environment variable FUNCTRANS_CACHE is 0."""

cache_dir: Path = _default_cache_dir()
"""Where compiled code is kept: the environment variable FUNCTRANS_CACHE_DIR, else ``functrans`` in
the user's cache directory."""

cache_bytes: int = 256 * 1024 * 1024
"""How much disk space the cache may take; what was not used for longest is removed."""
