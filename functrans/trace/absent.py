"""Reasons why a tracer has no value."""

from __future__ import annotations


class _Absent:
    def __init__(self, word: str) -> None:
        self.word = word

    def __repr__(self) -> str:
        return self.word


UNKNOWN = _Absent("unknown")
"""The value of a tracer without a single value: of a mapped one (vmap), or of a later one (jit)."""

PENDING = _Absent("pending")
"""The value of a tracer that will be computed on demand."""
