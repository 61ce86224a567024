"""Loading object files, by the library's own loader if it supports the platform, else by LLVM.

A process that finds its machine code on disk does not import the compiler.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from functrans.lazily import lazy
from functrans.records import dataclass
from functrans.run.code import elf


@dataclass(frozen=True)
class Code:
    """Loaded machine code."""

    address: int  # the address of the function, valid as long as this object lives
    _library: Any


_link_by_llvm = lazy("functrans.run.code.native:link")


def link(image: bytes, symbol: str, imports: dict[str, int]) -> Code:
    """Load an object file; ``imports`` are the addresses of external functions that it calls."""
    if elf.SUPPORTED:
        with suppress(elf.NotUnderstood):
            loaded = elf.load(image, imports)
            return Code(loaded.symbols[symbol], loaded)
    address, library = _link_by_llvm(image, symbol, imports)
    return Code(address, library)
