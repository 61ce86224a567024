"""Reasons why a tracer has no value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class _Absent:
    def __init__(self, word: str) -> None:
        self.word = word

    def __repr__(self) -> str:
        return self.word


UNKNOWN = _Absent("unknown")
"""The value of a tracer without a single value: of a mapped one (vmap), or of a later one (jit)."""

PENDING = _Absent("pending")
"""The value of a tracer that will be computed on demand."""


def holds(values: Sequence[Any], absent: Any) -> bool:
    """Whether one of the values is the marker ``absent``."""
    for value in values:  # not `absent in values`, which would compare arrays
        if value is absent:
            return True
    return False
