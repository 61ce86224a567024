"""Compiled code, in memory and on disk."""

from __future__ import annotations

import threading

from functrans.run import native
from functrans.run.native import Code

_loaded: dict[str, Code] = {}
_lock = threading.RLock()


def load(text: str, symbol: str, imports: dict[str, int]) -> Code:
    """The code for LLVM text: loaded before, compiled before, or compiled now."""
    with _lock:
        code = _loaded.get(text)
        if code is None:
            image = native.compile_object(text)
            code = _loaded[text] = native.link(image, symbol, imports)
        return code
