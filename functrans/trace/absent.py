"""Reasons why a tracer has no value."""

from __future__ import annotations


class _Absent:
    def __init__(self, word: str) -> None:
        self.word = word

    def __repr__(self) -> str:
        return self.word


UNKNOWN = _Absent("unknown")
"""The value of a tracer that stands for many values (under vmap) or for later ones (under jit)."""

PENDING = _Absent("pending")
"""The value of a tracer that can be computed, and will be when somebody asks."""
