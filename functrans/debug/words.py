"""Formatting of numbers with units, and of source lines, in reports."""

from __future__ import annotations

from pathlib import Path

from functrans.trace.source import Source


def time(seconds: float) -> str:
    """A time with its unit."""
    for unit, length in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns" if seconds else "0"


def size(nbytes: int) -> str:
    """A number of bytes with its unit."""
    for unit, length in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if nbytes >= length:
            return f"{nbytes / length:.3g} {unit}"
    return f"{nbytes} B"


def count(number: int) -> str:
    """A large number, shortened."""
    for unit, length in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= length:
            return f"{number / length:.3g} {unit}"
    return str(number)


def where(source: Source | None) -> str:
    """A line with its text."""
    return f"{source}  {source.text}" if source is not None else "(no line of yours)"


def line_of(source: Source | None) -> str:
    """A line with its text, the same for all locations on it."""
    if source is None:
        return "(no line of yours)"
    return f"{Path(source.code.co_filename).name}:{source.line}  {source.text}"
