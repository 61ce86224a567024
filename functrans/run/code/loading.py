"""Loading object files: by a loader of ours where there is one, else by LLVM's.

A process that finds its machine code on disk imports nothing of what makes such code.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from functrans.lazily import lazy
from functrans.run.code import elf


@dataclass(frozen=True)
class Code:
    """Machine code that has been loaded.

    Parameters
    ----------
    address : int
        Where the function starts, valid as long as this object lives.
    """

    address: int
    _library: Any


_link_by_llvm = lazy("functrans.run.code.native:link")


def link(image: bytes, symbol: str, imports: dict[str, int]) -> Code:
    """Load an object file; `imports` are the addresses of the external functions that it calls."""
    if elf.SUPPORTED:
        with suppress(elf.NotUnderstood):
            loaded = elf.load(image, imports)
            return Code(loaded.symbols[symbol], loaded)
    address, library = _link_by_llvm(image, symbol, imports)
    return Code(address, library)
