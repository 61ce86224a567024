"""Work sharing: the native half of `functrans.run.threads.workers`.

How loops are shared, and what the words of the record are, is said in ``pool.ll``. Python knows of
those words that it or a program reads.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from functrans.caches import once
from functrans.run.code import cache
from functrans.run.code.loading import Code
from functrans.run.code.modules import joined

THREADS, BUSY, SHARE, WORKER = range(4)
SHARES = 56

MOST_THREADS = 256

WORDS = SHARES + 8 * MOST_THREADS

_X86, _ARM, _OTHER = "pause_x86.ll", "pause_arm.ll", "no_pause.ll"
_PAUSES = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "arm64": _ARM, "ARM64": _ARM}


@once
def code() -> Code:
    """The function ``init(record)``, which makes a record of zeros ready.

    It puts into it the addresses of the others: ``share(record, kernel, data, extent, grain,
    threads, longest)``, which cuts pieces of a multiple of the grain (a power of two; only the last
    may be shorter), none longer than the longest, and ``worker(record, number)``, which never
    returns. After each piece, what is behind the status that the data begins with is called
    (`functrans.run.call.steps`), and if it says so then, no other is begun.
    """
    return cache.load(text(_architecture()), "init", {})


def text(architecture: str) -> str:
    """The LLVM module for this system, and for a CPU of some kind."""
    system = "windows.ll" if sys.platform == "win32" else "posix.ll"
    folder = Path(__file__).parent
    names = ("pool.ll", system, _PAUSES.get(architecture, _OTHER))
    return joined(*(folder / name for name in names))


def _architecture() -> str:
    return os.uname().machine if hasattr(os, "uname") else os.environ["PROCESSOR_ARCHITECTURE"]
