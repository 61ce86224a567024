"""Instruction selection for convolutions: in registers, or by elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrans.ir.graph import Eqn
from functrans.loop.target import Target
from functrans.ops.compiled.emission import Emission
from functrans.ops.convolution.compiled import accumulated, direct, margins
from functrans.ops.convolution.compiled.accumulation import accumulation
from functrans.ops.convolution.compiled.tiles import tiles

_WAYS: tuple[tuple[Callable[[Eqn, Target], Any], Callable[[Emission, Any], None]], ...] = (
    (tiles, direct.emit),
    (accumulation, accumulated.emit),
)
"""The forms of a convolution, and their rules; the first applicable one is used."""


def is_large(eqn: Eqn, target: Target) -> bool:
    """Whether a convolution is large enough not to be pulled element by element."""
    return any(way(eqn, target) is not None for way, _ in _WAYS)


def emit(at: Emission) -> None:
    """A convolution from memory to memory."""
    for way, rule in _WAYS:
        found = way(at.eqn, at.target)
        if found is not None:
            rule(at, found)
            margins.emit(at)
            return
