"""Work sharing: the native half of `functrans.run.threads.workers`.

``pool.ll`` describes how loops are shared, and the words of the record. Python defines only the
words that it or a program reads.
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
    """The function ``init(record)``, which initialises a record of zeros.

    It stores the addresses of the other functions: ``share(record, kernel, data, extent, grain,
    threads, longest)`` cuts a loop into pieces of a multiple of the grain (a power of two; only the
    last piece may be shorter), at most ``longest`` each; ``worker(record, number)`` never returns.
    After each piece, the function that follows the status at the start of ``data`` is called
    (`functrans.run.call.steps`); if it asks for it, no further piece is started.
    """
    return cache.load(text(_architecture()), "init", {})


def text(architecture: str) -> str:
    """The LLVM module for this system and a CPU architecture."""
    system = "windows.ll" if sys.platform == "win32" else "posix.ll"
    folder = Path(__file__).parent
    names = ("pool.ll", system, _PAUSES.get(architecture, _OTHER))
    return joined(*(folder / name for name in names))


def _architecture() -> str:
    return os.uname().machine if hasattr(os, "uname") else os.environ["PROCESSOR_ARCHITECTURE"]
